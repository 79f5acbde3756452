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
use whyoom_replay::edits::{Drop, Edit, Group};

pub(super) fn propose(case: &Case<'_>) -> Vec<Proposal> {
    let Some(growth) = case.growth.as_ref().filter(|g| leak::is_material(case, g)) else { return Vec::new() };
    let tally = crate::tables::culprits::Tally::of(&case.ledger, &growth.allocations);
    let Some(line) = tally.culprits(&case.ledger).into_iter().next() else { return Vec::new() };
    let program = &case.recorded.program;
    let file = words::file_name(&line.file);
    vec![Proposal {
        id: "code/drop_group".to_owned(),
        kind: "code",
        apply: format!("drop what {file}:{} keeps", line.line),
        settings: case.in_force.settings.clone(),
        program: Some(Drop(Group::of_allocations(program, &growth.allocations)).apply(program)),
        basis: "replay_estimate",
        note: None,
    }]
}
