//! `pending_free`: freed blocks wait for another stream.
//!
//! # What it finds
//! Memory that the program has dropped and that cannot be reused yet, because `record_stream` says that another
//! stream may still read it.
//!
//! # Why it matters
//! It looks like a leak and is none; the host runs ahead of the device.
//!
//! # How it decides
//! The peak of active bytes (allocated, or freed and waiting) is at least twice that of allocated bytes, and by replay
//! the run would reserve at most half if nothing waited. At a failure the allocator has waited for all streams before
//! it gives up, so that what is pending there is seldom the cause.
//!
//! # False positives
//! How long blocks wait depends on timing, which differs from run to run.
//!
//! # What to do
//! Let the host wait now and then (an event per few steps), or replace `record_stream` by an event and a reference that
//! is kept until it has passed.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

/// Active bytes this many times the allocated ones.
const SEVERAL: u64 = 2;

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    if let Some(failing) = &case.failing {
        let state = &failing.state;
        let pending = state.active.saturating_sub(state.allocated);
        let fits_without = state.allocated.saturating_add(state.request_bytes) <= case.in_effect.low?;
        if pending == 0 || !fits_without || failing.needed() <= case.in_effect.high? {
            return None;
        }
        let summary = format!(
            "{} are freed and wait for other streams; the request would fit without them.",
            words::bytes(pending)
        );
        let evidence = vec![in_bytes(format!("{} are pending", words::bytes(pending)), pending, &[state.event as u32])];
        return Some(Finding { evidence, ..finding(Cause::PendingFree, Confidence::Proven, summary, pending) });
    }
    let stats = &case.recorded.stats;
    let (active, allocated) = (stats.active.peak, stats.allocated.peak);
    if allocated == 0 || active < allocated.saturating_mul(SEVERAL) {
        return None;
    }
    let reserved = case.peak_reserved();
    let without = case.tried.without_waiting.unwrap_or(reserved);
    let confidence = if reserved >= without.saturating_mul(SEVERAL) { Confidence::Strong } else { Confidence::Weak };
    let summary = format!(
        "Up to {} were allocated or freed and waiting for other streams, where allocated bytes alone peak at {}: blocks \
         under record_stream come back late. If nothing had waited, {} would have been reserved and not {}.",
        words::bytes(active),
        words::bytes(allocated),
        words::bytes(without),
        words::bytes(reserved)
    );
    let evidence = vec![
        in_bytes(format!("active bytes peak at {}", words::bytes(active)), active, &[]),
        in_bytes(format!("allocated bytes peak at {}", words::bytes(allocated)), allocated, &[]),
        in_bytes(format!("without waiting {} are reserved", words::bytes(without)), without, &[]),
    ];
    Some(Finding { evidence, ..finding(Cause::PendingFree, confidence, summary, active - allocated) })
}

/// Why it is not pending frees, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    (case.recorded.program.has_pending && case.failing.is_some_and(|f| f.state.active == f.state.allocated))
        .then(|| "nothing waits for another stream when the request fails".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording};

    #[test]
    fn blocks_that_wait_for_another_stream_are_told() {
        let mut r = Recording::new(None);
        let mut waiting = std::collections::VecDeque::new();
        for _ in 0..20 {
            let x = r.alloc("10", 32 * MIB);
            r.drop_while_used("11", x);
            waiting.push_back(x);
            if waiting.len() > 6 {
                let done = waiting.pop_front().expect("an element");
                r.complete(done);
            }
        }
        let report = r.explain();
        assert_eq!(report.findings[0].cause, Cause::PendingFree, "{:?}", report.findings[0]);
    }
}
