//! `capacity`: the program needs more than there is.
//!
//! # What it finds
//! What is live plus the request exceeds the limit, at a level that every step reaches.
//!
//! # Why it matters
//! No setting helps; something must be smaller, or the limit larger.
//!
//! # How it decides
//! S + r > L, by arithmetic; proven above the limit's high end. It is what is left when no leak, no step that stands
//! out and no other holder explains the level.
//!
//! # False positives
//! A first step that dies has no other to be compared with: a leak or an outlier cannot show yet.
//!
//! # What to do
//! A smaller batch with accumulation, checkpointing, lower precision, sharding, or a larger card.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::tables::culprits::Tally;
use crate::words;
use std::fmt::Write as _;

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    let high = case.in_effect.high?;
    let state = &failing.state;
    let needed = failing.needed();
    let missing = needed.saturating_sub(high);
    let confidence = if missing > 0 { Confidence::Proven } else { Confidence::Strong };
    let limit = case.in_effect.in_words().unwrap_or_default();
    let event = state.event as u32;
    let mut summary = format!(
        "A request for {} failed with {} live under {limit}: together they need {}.",
        words::bytes(state.request_bytes),
        words::bytes(state.active),
        words::bytes(needed)
    );
    if missing == 0 {
        let room = words::bytes(high - needed);
        let _ = write!(summary, " Even a compact layout would leave at most {room}, for the rest of this step too.");
    }
    if failing.went_on {
        summary.push_str(" The program caught this failure and went on.");
    }
    let ledger = &case.ledger;
    let mut evidence =
        vec![in_bytes(format!("live bytes and the request need {}", words::bytes(needed)), needed, &[event])];
    if missing > 0 {
        evidence.push(in_bytes(
            format!("{} are missing even in a compact layout", words::bytes(missing)),
            missing,
            &[event],
        ));
    }
    if let Some(highest) = case.typical_levels(event).iter().max_by_key(|l| l.peak) {
        evidence.push(in_bytes(
            format!("earlier steps reach up to {} live", words::bytes(highest.peak)),
            highest.peak,
            &[highest.start],
        ));
    }
    let mut tally = Tally::of(ledger, &ledger.alive_at(event));
    tally.add(ledger.trace.device.events.stack[state.event], state.request_bytes);
    Some(Finding {
        evidence,
        culprits: tally.culprits(ledger),
        ..finding(Cause::Capacity, confidence, summary, needed)
    })
}

/// Why it is not capacity, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    let failing = case.failing.as_ref()?;
    let low = case.in_effect.low?;
    let room = low.checked_sub(failing.needed())?;
    Some(format!("a compact layout needs {} and leaves {}", words::bytes(failing.needed()), words::bytes(room)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording, first_line};

    #[test]
    fn more_than_the_limit_is_capacity() {
        let mut r = Recording::new(Some(160 * MIB));
        r.alloc("5", 128 * MIB);
        assert!(r.try_alloc("6", 64 * MIB).is_none());
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Capacity, Confidence::Proven), "{first:?}");
        assert_eq!(first_line(&report), 5);
        // The limit is known only to be below what was refused, 128 + 64 MiB.
        assert_eq!(report.limit.high_bytes, Some(192 * MIB - 1));
        assert_eq!(report.bound.bytes_to_free, 1);
        let helps = report.remedies.iter().find(|x| x.first_failure.is_none());
        assert!(helps.is_none(), "{helps:?} of {:?}", report.limit);
    }
}
