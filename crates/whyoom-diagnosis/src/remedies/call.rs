//! Call remedies: `torch.cuda.empty_cache()` at points of the program.
//!
//! # What it tries
//! A call after every step, just before the next step's first request, when gradients are gone; after every
//! `zero_grad()` and every evaluation, where the trace shows them. A trace does not name epochs.
//!
//! # Basis
//! Exact replay of the recorded program with the call put in.

use super::{Facts, Proposal};
use crate::case::Case;
use crate::tables::evaluation;
use whyoom_replay::edits::{Edit, EmptyCache};

pub(super) fn propose(case: &Case<'_>, facts: &Facts) -> Vec<Proposal> {
    let program = &case.recorded.program;
    let mut places = vec![("step", "empty_cache() every step", EmptyCache::after_steps(&case.ledger.steps, 1))];
    if facts.is_short {
        places.push(("zero_grad", "empty_cache() after zero_grad()", EmptyCache::after_zero_grad(case.ledger.trace)));
        let ends = EmptyCache { before: evaluation::ends(&case.ledger) };
        places.push(("evaluation", "empty_cache() after evaluation", ends));
    }
    places.retain(|(_, _, edit)| edit.count(program) > 0);
    let called = |(place, apply, edit): (&str, &str, EmptyCache)| Proposal {
        id: format!("call/empty_cache/{place}"),
        kind: "call",
        apply: apply.to_owned(),
        settings: case.in_force.settings.clone(),
        program: Some(edit.apply(program)),
        basis: "exact_replay",
        note: None,
    };
    places.into_iter().map(called).collect()
}
