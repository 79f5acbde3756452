//! Workload remedies: a smaller batch.
//!
//! # What it tries
//! Half the batch and three quarters of it: every request that grows with the batch is scaled. Later: checkpointing,
//! accumulation.
//!
//! # Basis
//! An estimate by replay: at another size real programs choose other kernels and workspaces. Predictions beside
//! what the same programs did are in `docs/accuracy.md`.

use super::{Facts, Proposal};
use crate::case::Case;
use crate::groups::{self, GroupName};
use whyoom_replay::edits::{Edit, Scale};

/// Factors, and how people say them.
const BATCHES: [(f64, &str); 2] = [(0.5, "half the batch"), (0.75, "three quarters of the batch")];

pub(super) fn propose(case: &Case<'_>, facts: &Facts) -> Vec<Proposal> {
    if !facts.is_short || !facts.fails {
        return Vec::new();
    }
    let group = groups::select(case, case.kinds(), &GroupName::Batch);
    if group.is_empty() {
        return Vec::new();
    }
    let scaled = |(factor, apply): (f64, &str)| Proposal {
        id: format!("workload/batch/{factor}"),
        kind: "workload",
        apply: apply.to_owned(),
        settings: case.in_force.settings.clone(),
        program: Some(Scale { group: group.clone(), factor }.apply(&case.recorded.program)),
        basis: "replay_estimate",
        note: None,
    };
    BATCHES.into_iter().map(scaled).collect()
}
