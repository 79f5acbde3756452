//! Code remedies: what to change in the program.
//!
//! # What it tries
//! The program without the allocations that accumulated: what letting them go would buy. Later: `no_grad` in
//! evaluation, `zero_grad(set_to_none=True)`, another optimizer.
//!
//! # Basis
//! Replay with those allocations left out; an estimate, since code that keeps nothing may allocate otherwise.

use super::Proposal;
use crate::case::Case;
use crate::causes::leak;
use crate::words;
use whyoom_replay::{Op, Program};

pub(super) fn propose(case: &Case<'_>) -> Vec<Proposal> {
    let Some(growth) = case.growth.as_ref().filter(|g| leak::is_material(case, g)) else { return Vec::new() };
    let tally = crate::tables::culprits::Tally::of(&case.ledger, &growth.allocations);
    let Some(line) = tally.culprits(&case.ledger).into_iter().next() else { return Vec::new() };
    let file = words::file_name(&line.file);
    vec![Proposal {
        id: "code/drop_group".to_owned(),
        kind: "code",
        apply: format!("drop what {file}:{} keeps", line.line),
        settings: case.in_force.settings.clone(),
        program: Some(without(&case.recorded.program, &growth.allocations)),
        basis: "replay_estimate",
        note: None,
    }]
}

/// The program without `allocations` (ascending).
fn without(program: &Program, allocations: &[u32]) -> Program {
    let is_dropped = |op: &Op| match *op {
        Op::Malloc(id) | Op::Free(id) | Op::Drop(id) | Op::Complete(id) => allocations.binary_search(&id).is_ok(),
        Op::Failed(_) | Op::EmptyCache | Op::PoolFreeable(_) | Op::ReleasePool(_) => false,
    };
    let mut new = program.clone();
    (new.ops, new.op_event) =
        program.ops.iter().zip(&program.op_event).filter(|(op, _)| !is_dropped(op)).map(|(o, e)| (*o, *e)).unzip();
    new.initial.retain(|id| allocations.binary_search(id).is_err());
    new
}
