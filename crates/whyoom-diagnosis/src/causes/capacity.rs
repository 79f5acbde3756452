//! `capacity`: the program needs more than there is.
//!
//! # What it finds
//! What is live plus the request exceeds the limit, at a level that every step reaches.
//!
//! # Why it matters
//! No setting helps; something must be smaller, or the limit larger.
//!
//! # How it decides
//! S + r > L, by arithmetic; proven above the limit's high end, whole segments counted. It is what is left when no leak,
//! no step that stands out and no other holder explains the level. Under a limit that is asked for: what is allocated at
//! the peak of the run exceeds it.
//!
//! # False positives
//! A first step that dies has no other to be compared with: a leak or an outlier cannot show yet.
//!
//! # What to do
//! A smaller batch with accumulation, checkpointing, lower precision, sharding, or a larger card.

use super::{finding, in_bytes, needed_in_words, request_in_words};
use crate::case::{Case, WouldFail};
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
    let is_beyond = failing.needed_in_segments() > high;
    let confidence = if is_beyond { Confidence::Proven } else { Confidence::Strong };
    let event = state.event as u32;
    let mut summary =
        format!("{}: together they need {}", request_in_words(case, failing), needed_in_words(case, failing));
    if !is_beyond {
        let room = words::bytes(high - needed);
        let whom = if failing.step.is_some() { "the rest of this step" } else { "all that follows" };
        let _ = write!(summary, ". Even a compact layout would leave at most {room}, for {whom} too.");
    } else if missing == 0 {
        summary.push_str(", and segments come in whole 2 MiB: not even a compact layout fits.");
    } else {
        summary.push('.');
    }
    if failing.went_on {
        summary.push_str(" The program, or a library it calls, caught this failure and went on.");
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
    tally.add_failed(ledger.trace.device.events.stack[state.event], state.request_bytes);
    Some(Finding {
        evidence,
        culprits: tally.culprits(ledger),
        ..finding(Cause::Capacity, confidence, summary, needed)
    })
}

/// What is live and the request exceed the limit that was given, by replay of a run that did not fail; `None` if they
/// fit.
pub(crate) fn replayed(case: &Case<'_>, failure: &WouldFail) -> Option<Finding> {
    let missing = failure.needed().checked_sub(failure.limit).filter(|&m| m > 0)?;
    let ledger = &case.ledger;
    let summary = format!(
        "Nothing failed when this was recorded; replayed under {}, it would: a request for {} with {} live, together \
         {}, and so {} too much.",
        words::bytes(failure.limit),
        words::bytes(failure.request_bytes),
        words::bytes(failure.live),
        words::bytes(failure.needed()),
        words::bytes(missing)
    );
    let mut tally = Tally::of(ledger, &ledger.alive_at(failure.event));
    tally.add_failed(ledger.trace.device.events.stack[failure.event as usize], failure.request_bytes);
    Some(Finding {
        evidence: vec![
            in_bytes(
                format!("live bytes and the request need {}", words::bytes(failure.needed())),
                failure.needed(),
                &[failure.event],
            ),
            in_bytes(
                format!("{} are missing even in a compact layout", words::bytes(missing)),
                missing,
                &[failure.event],
            ),
        ],
        culprits: tally.culprits(ledger),
        ..finding(Cause::Capacity, Confidence::Proven, summary, failure.needed())
    })
}

/// The limit that was given is less than the peak of what was allocated, though the first request to fail there would
/// have fitted.
pub(crate) fn of_whole_run(case: &Case<'_>, failure: &WouldFail) -> Option<Finding> {
    let peak = case.peak_allocated();
    let over = peak.checked_sub(failure.limit).filter(|&o| o > 0)?;
    let summary = format!(
        "Nothing failed when this was recorded; replayed under {}, it would, whatever the layout: {} are live at its peak, \
         {} too much. The first request to fail is one for {} with {} live.",
        words::bytes(failure.limit),
        words::bytes(peak),
        words::bytes(over),
        words::bytes(failure.request_bytes),
        words::bytes(failure.live)
    );
    let ledger = &case.ledger;
    let event: Vec<u32> = ledger.peak_event.into_iter().collect();
    let evidence = vec![in_bytes(format!("{} are live at the peak", words::bytes(peak)), peak, &event)];
    let culprits = ledger
        .peak_event
        .map(|event| Tally::of(ledger, &ledger.alive_at(event.saturating_add(1))).culprits(ledger))
        .unwrap_or_default();
    Some(Finding { evidence, culprits, ..finding(Cause::Capacity, Confidence::Proven, summary, over) })
}

/// Why it is not capacity, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    let (needed, low) = match (&case.failing, &case.would_fail) {
        (Some(failing), _) => (failing.needed(), case.in_effect.low?),
        (None, Some(failure)) => (failure.needed(), failure.limit),
        (None, None) => return None,
    };
    let room = low.checked_sub(needed)?;
    Some(format!("{} are needed, {} below the limit", words::bytes(needed), words::bytes(room)))
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
        // What was only asked for is held by nobody.
        assert_eq!((first.culprits[0].bytes, first.culprits[0].count), (128 * MIB, 1));
        let helps = report.remedies.iter().find(|x| x.first_failure.is_none());
        assert!(helps.is_none(), "{helps:?} of {:?}", report.limit);
    }

    #[test]
    fn a_limit_that_is_asked_for_fails_by_replay() {
        let run = || {
            let mut r = Recording::new(None);
            r.alloc("5", 64 * MIB);
            for _ in 0..6 {
                r.train_step(32 * MIB);
            }
            r
        };
        let report = run().explain_under(80 * MIB);
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Capacity, Confidence::Proven), "{first:?}");
        assert!(first.summary.contains("replayed under 80.0 MiB"), "{}", first.summary);
        assert!(report.oom.is_none(), "nothing failed when this was recorded");
        assert_eq!(report.would_fail.map(|w| (w.limit_bytes, w.step)), Some((80 * MIB, Some(0))));
        let wide = run().explain_under(400 * MIB);
        assert_eq!((wide.findings[0].cause, wide.would_fail.is_none()), (Cause::Healthy, true));
    }

    #[test]
    fn what_whole_segments_exceed_is_proven() {
        let mut r = Recording::new(Some(161 * MIB));
        r.alloc("5", 128 * MIB);
        // 128 and 34 MiB of segments are refused; the bytes alone would be 161.5.
        assert!(r.try_alloc("6", 34 * MIB - MIB / 2).is_none());
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Capacity, Confidence::Proven), "{first:?}");
        assert!(first.summary.contains("whole 2 MiB"), "{}", first.summary);
        assert!(first.summary.contains("33.5 MiB (PyTorch's message says 34.00 MiB)"), "{}", first.summary);
    }
}
