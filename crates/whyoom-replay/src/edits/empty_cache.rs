//! Calls `torch.cuda.empty_cache()` at points of the program.

use super::Edit;
use crate::{Op, Program, Steps, Trace};

/// The program with `empty_cache()` called just before the first request at or after each of these events.
///
/// By then what the step before dropped is gone, which is where a call in a training loop stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmptyCache {
    /// Events of the trace, ascending.
    pub before: Vec<u32>,
}

impl EmptyCache {
    /// A call after every `every`-th step (0 counts as 1).
    pub fn after_steps(steps: &Steps, every: u64) -> Self {
        let starts = steps.ranges(u32::MAX).enumerate().skip(1);
        let is_due = |n: usize| (n as u64).is_multiple_of(every.max(1));
        Self { before: starts.filter(|(n, _)| is_due(*n)).map(|(_, range)| range.start).collect() }
    }

    /// A call after every `zero_grad()` of an optimizer that the trace has marks of (`Optimizer.zero_grad#…`).
    pub fn after_zero_grad(trace: &Trace<'_>) -> Self {
        let snapshot = trace.snapshot;
        let is_own = |device: u32| device == trace.device.index;
        let ends = || {
            let marks = snapshot.annotations.iter().filter(|a| !a.is_start);
            marks.filter(|a| snapshot.strings.get(a.name).starts_with("Optimizer.zero_grad#"))
        };
        // Marks carry the current device of the thread that made them, which need not be the device of the memory.
        let is_any_own = ends().any(|a| is_own(a.device));
        let times = &trace.device.events.time_us;
        let mut before: Vec<u32> = ends()
            .filter(|a| !is_any_own || is_own(a.device))
            .map(|a| times.partition_point(|&t| t <= a.time_us))
            .filter(|&at| at > 0 && at < times.len())
            .map(|at| at as u32)
            .collect();
        before.sort_unstable();
        before.dedup();
        Self { before }
    }

    /// Calls that come to be made: places with a request after them.
    pub fn count(&self, program: &Program) -> usize {
        let is_request = |op: &&Op| matches!(op, Op::Malloc(_) | Op::Failed(_));
        let last = program.ops.iter().zip(&program.op_event).rev().find(|(op, _)| is_request(op)).map(|(_, e)| *e);
        let mut places: Vec<u32> = self.before.iter().copied().filter(|&e| last.is_some_and(|l| e <= l)).collect();
        places.dedup();
        places.len()
    }
}

impl Edit for EmptyCache {
    fn apply(&self, program: &Program) -> Program {
        let mut places = self.before.iter().copied().peekable();
        program.rewrite(|new, op, event| {
            if matches!(op, Op::Malloc(_) | Op::Failed(_)) {
                let mut is_due = false;
                while places.next_if(|&p| p <= event).is_some() {
                    is_due = true;
                }
                if is_due {
                    new.push(Op::EmptyCache, event as usize);
                }
            }
            new.push(op, event as usize);
        })
    }
}
