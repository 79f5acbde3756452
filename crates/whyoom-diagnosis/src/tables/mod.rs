//! Tables that the causes draw their evidence from: whose frame, which call, how many bytes, when.

mod attempts;
mod below;
pub(crate) mod culprits;
pub(crate) mod evaluation;
pub(crate) mod frames;
pub(crate) mod graph;
pub(crate) mod growth;
pub(crate) mod kinds;
pub(crate) mod ledger;
pub(crate) mod place;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod shared;

/// Sum of bytes; a damaged file may hold sizes whose sum has no room.
pub(crate) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
