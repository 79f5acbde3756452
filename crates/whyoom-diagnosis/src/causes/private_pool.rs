//! `private_pool`: CUDA-graph or user pools hold the space.
//!
//! # What it finds
//! A request of the default pool that fails while private pools have free memory which it may not use.
//!
//! # Why it matters
//! Each captured graph keeps its memory between replays; many graphs of many shapes each keep their own.
//!
//! # How it decides
//! The request fits beside what is live, and the free blocks in private pools alone would hold it. The file shows
//! pools only as they are when it is written, so this is told where it was written at the failure.
//!
//! # False positives
//! Pools that are about to be given back.
//!
//! # What to do
//! Capture fewer shapes, let graphs share a pool, drop graphs that are no longer replayed.

use super::{finding, fragmentation, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::tables::total;
use crate::words;
use whyoom_snapshot::{Action, BlockState, PoolRef};

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    fragmentation::fits(case, failing)?;
    let device = case.ledger.trace.device;
    let after = device.events.action.get(failing.state.event + 1..)?;
    if after.iter().any(|a| !matches!(a, Action::Snapshot | Action::Annotate | Action::Other)) {
        return None;
    }
    let private = device.segments.iter().filter(|s| !matches!(s.pool, PoolRef::DEFAULT | PoolRef::UNKNOWN));
    let blocks = private.flat_map(|s| &device.blocks[s.blocks.start as usize..s.blocks.end as usize]);
    let free = total(blocks.filter(|b| b.state == BlockState::Free).map(|b| b.size));
    if free < failing.state.request_bytes {
        return None;
    }
    let event = failing.state.event as u32;
    let summary = format!(
        "A request for {} failed while private pools (CUDA graphs, user pools) had {} free that it may not use.",
        words::bytes(failing.state.request_bytes),
        words::bytes(free)
    );
    let evidence = vec![in_bytes(format!("{} are free in private pools", words::bytes(free)), free, &[event])];
    Some(Finding { evidence, ..finding(Cause::PrivatePool, Confidence::Strong, summary, free) })
}
