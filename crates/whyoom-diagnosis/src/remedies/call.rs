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
use whyoom_replay::edits::{Edit, EmptyCache};

pub(super) fn propose(case: &Case<'_>) -> Vec<Proposal> {
    let program = &case.recorded.program;
    let edit = EmptyCache::after_steps(&case.ledger.steps, 1);
    if edit.count(program) == 0 {
        return Vec::new();
    }
    vec![Proposal {
        id: "call/empty_cache/step".to_owned(),
        kind: "call",
        apply: "empty_cache() every step".to_owned(),
        settings: case.in_force.settings.clone(),
        program: Some(edit.apply(program)),
        basis: "exact_replay",
        note: None,
    }]
}
