//! Swaps the optimizer: its state is resized by the sizes of the parameters.

use super::{Drop, Edit, Group};
use crate::{Op, Program, ProgramRequest};

/// Tensors of the size of a parameter that an optimizer keeps for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateTensors {
    /// SGD without momentum.
    None,
    /// SGD with momentum, Lion, RMSprop.
    One,
    /// Adam and its kin.
    Two,
}

impl StateTensors {
    /// How many tensors a parameter.
    pub const fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// The program with other optimizer state.
///
/// What the recorded optimizer keeps, and the temporaries of its step, are left out; in the place of the first of
/// them the new state is requested, in the order of the parameters. An estimate: temporaries of the new optimizer's
/// step are not known.
#[derive(Debug, Clone)]
pub struct OptimizerSwap {
    /// State and temporaries of the recorded optimizer.
    pub recorded: Group,
    /// Requests for the parameters that it keeps state for, in their order.
    pub parameters: Vec<ProgramRequest>,
    /// State of the new optimizer.
    pub state: StateTensors,
}

impl Edit for OptimizerSwap {
    fn apply(&self, program: &Program) -> Program {
        let is_first = |op: &Op| matches!(op, Op::Malloc(_)) && self.recorded.concerns(*op);
        let Some(first) = program.ops.iter().position(is_first) else { return program.clone() };
        let event = program.op_event[first];
        let mut new = Drop(self.recorded.clone()).apply(program);
        let at = new.op_event.partition_point(|&e| e < event);
        let mut made = Vec::new();
        for parameter in &self.parameters {
            for _ in 0..self.state.count() {
                made.push(Op::Malloc(new.requests.len() as u32));
                new.requests.push(*parameter);
            }
        }
        // The new state goes when the recorded one went, if it did: at the last of its frees.
        let is_free = |op: &Op| matches!(op, Op::Free(_) | Op::Drop(_)) && self.recorded.concerns(*op);
        let kept = program.ops.iter().filter(|op| matches!(op, Op::Malloc(_)) && self.recorded.concerns(**op)).count();
        let freed = program.ops.iter().filter(|op| is_free(op)).count();
        if freed == kept
            && let Some(last) = program.ops.iter().rposition(is_free)
        {
            let gone = program.op_event[last];
            let at = new.op_event.partition_point(|&e| e <= gone);
            let frees: Vec<Op> =
                made.iter().filter_map(|op| if let Op::Malloc(id) = op { Some(Op::Free(*id)) } else { None }).collect();
            new.op_event.splice(at..at, std::iter::repeat_n(gone, frees.len()));
            new.ops.splice(at..at, frees);
        }
        new.op_event.splice(at..at, std::iter::repeat_n(event, made.len()));
        new.ops.splice(at..at, made);
        new.note_landmarks();
        new
    }
}
