//! Leaves a group of allocations out.

use super::{Edit, Group};
use crate::Program;

/// The program without a group of its allocations: a leak mended, a cache not kept, a model part left out.
///
/// An estimate where the rest of the program depends on what is left out.
#[derive(Debug, Clone)]
pub struct Drop(pub Group);

impl Edit for Drop {
    fn apply(&self, program: &Program) -> Program {
        let mut new = program.rewrite(|new, op, event| {
            if !self.0.concerns(op) {
                new.push(op, event as usize);
            }
        });
        new.initial.retain(|&id| !self.0.has_allocation(id));
        // The layout at the start of a trace without beginning holds what is dropped: it is of no use any more.
        if new.initial.len() != program.initial.len() {
            new.initial_regions.clear();
        }
        new.note_landmarks();
        new
    }
}
