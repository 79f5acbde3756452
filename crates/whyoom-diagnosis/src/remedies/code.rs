//! Code remedies: what to change in the program.
//!
//! # What it tries
//! The program without the allocations that accumulated: what letting them go would buy. Another optimizer: SGD with
//! momentum in place of one that keeps two tensors a parameter. Later: `no_grad` in evaluation,
//! `zero_grad(set_to_none=True)`.
//!
//! # Basis
//! Replay with those allocations left out; an estimate, since code that keeps nothing may allocate otherwise.

use super::{Facts, Proposal};
use crate::case::Case;
use crate::causes::leak;
use crate::groups;
use crate::words;
use whyoom_replay::edits::{Drop, Edit, Group, StateTensors};

pub(super) fn propose(case: &Case<'_>, facts: &Facts) -> Vec<Proposal> {
    leak_dropped(case).into_iter().chain(optimizer(case, facts)).collect()
}

fn leak_dropped(case: &Case<'_>) -> Option<Proposal> {
    let growth = case.growth.as_ref().filter(|g| leak::is_material(case, g))?;
    let tally = crate::tables::culprits::Tally::of(&case.ledger, &growth.allocations);
    let line = tally.culprits(&case.ledger).into_iter().next()?;
    let program = &case.recorded.program;
    let file = words::file_name(&line.file);
    Some(Proposal {
        id: "code/drop_group".to_owned(),
        kind: "code",
        apply: format!("drop what {file}:{} keeps", line.line),
        settings: case.in_force.settings.clone(),
        program: Some(Drop(Group::of_allocations(program, &growth.allocations)).apply(program)),
        basis: "replay_estimate",
        note: None,
    })
}

fn optimizer(case: &Case<'_>, facts: &Facts) -> Option<Proposal> {
    if !facts.is_short || !facts.fails || groups::state_tensors(case, case.kinds()) != StateTensors::Two.count() {
        return None;
    }
    let swap = groups::optimizer_swap(case, case.kinds(), StateTensors::One)?;
    Some(Proposal {
        id: "code/optimizer/sgd_momentum".to_owned(),
        kind: "code",
        apply: "SGD with momentum as optimizer".to_owned(),
        settings: case.in_force.settings.clone(),
        program: Some(swap.apply(&case.recorded.program)),
        basis: "replay_estimate",
        note: Some("one tensor for each parameter in place of two; it trains otherwise".to_owned()),
    })
}
