//! Tables that the causes draw their evidence from: whose frame, which call, how many bytes, when.

pub(crate) mod culprits;
pub(crate) mod frames;
pub(crate) mod growth;
pub(crate) mod ledger;
pub(crate) mod place;
pub(crate) mod runs;
