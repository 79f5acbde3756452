//! `limit`: a cap binds while the card has room.
//!
//! # What it finds
//! A request that a memory fraction (or a MIG slice that shows as one) refused although the driver had the bytes.
//!
//! # Why it matters
//! The cap may be a leftover. People also cap on purpose, so it is noted after every deeper cause and is never the
//! verdict where one can be shown.
//!
//! # How it decides
//! The driver's free bytes at the failure cover what was asked of it.
//!
//! # What to do
//! Raise `torch.cuda.set_per_process_memory_fraction`, or take a larger slice.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    let state = &case.failing.as_ref()?.state;
    // A trace without the driver's free bytes says 0.
    if state.device_free < state.segment_bytes || state.device_free == 0 {
        return None;
    }
    let event = state.event as u32;
    let summary = format!("A cap refused it, not the card, which had {} free.", words::bytes(state.device_free));
    let evidence = vec![
        in_bytes(format!("the driver had {} free", words::bytes(state.device_free)), state.device_free, &[event]),
        in_bytes(format!("{} of it were asked for", words::bytes(state.segment_bytes)), state.segment_bytes, &[event]),
    ];
    Some(Finding { evidence, ..finding(Cause::Limit, Confidence::Proven, summary, state.segment_bytes) })
}
