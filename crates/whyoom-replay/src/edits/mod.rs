//! Edits of a program: what the recorded run would have asked for, had its code been another.
//!
//! Each edit is a small type that takes a program and gives another; they compose in any order, since allocations keep
//! their numbers and places are given as events of the trace. Other settings, another limit and another release are
//! no edits: they are the world a [`crate::Scenario`] runs the program in.

mod drop;
mod empty_cache;
mod group;
mod optimizer;
mod scale;

pub use drop::Drop;
pub use empty_cache::EmptyCache;
pub use group::Group;
pub use optimizer::{OptimizerSwap, StateTensors};
pub use scale::Scale;

use crate::Program;

/// One change to a program.
pub trait Edit {
    /// The program after the change. Linear in its steps.
    fn apply(&self, program: &Program) -> Program;
}

/// Applies `edits` one after the other.
pub fn apply_all(program: &Program, edits: &[Box<dyn Edit + Sync>]) -> Program {
    edits.iter().fold(program.clone(), |program, edit| edit.apply(&program))
}

impl Program {
    /// The program with each step replaced by what `with` gives for it: its index, the step and its event.
    fn rewrite(&self, mut with: impl FnMut(&mut Self, crate::Op, u32)) -> Self {
        let mut new = self.clone();
        new.ops.clear();
        new.op_event.clear();
        for (&op, &event) in self.ops.iter().zip(&self.op_event) {
            with(&mut new, op, event);
        }
        new
    }
}
