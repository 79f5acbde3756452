//! Workload remedies: batch ×0.5 … ×2, checkpointing, accumulation.
//!
//! # Basis
//! An estimate that scales activations and replays. It needs to know which allocations are activations in every
//! step, which the categories do not tell yet, so nothing is proposed.

use super::Proposal;
use crate::case::Case;

pub(super) fn propose(_case: &Case<'_>) -> Vec<Proposal> {
    Vec::new()
}
