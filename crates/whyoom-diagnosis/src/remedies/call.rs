//! Call remedies: `torch.cuda.empty_cache()` at points of the program.
//!
//! # What it tries
//! A call after every step, just before the next step's first request, when gradients are gone. Later: calls after
//! epochs and after evaluation.
//!
//! # Basis
//! Exact replay of the recorded program with the call put in.

use super::Proposal;
use crate::case::Case;

pub(super) fn propose(case: &Case<'_>) -> Vec<Proposal> {
    let program = &case.recorded.program;
    let positions = case.ledger.steps.empty_cache_positions(program, 1);
    if positions.is_empty() {
        return Vec::new();
    }
    vec![Proposal {
        id: "call/empty_cache/step".to_owned(),
        kind: "call",
        apply: "empty_cache() every step".to_owned(),
        settings: case.in_force.settings.clone(),
        program: Some(program.with_empty_cache(&positions)),
        basis: "exact_replay",
        note: None,
    }]
}
