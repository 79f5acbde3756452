//! `undetermined`: the evidence does not decide.
//!
//! # What it finds
//! A failure without a known limit, or a file that shows a state but not how it came to be.
//!
//! # Why it matters
//! A guess in a verdict's clothes costs people days.
//!
//! # How it decides
//! No other cause has its evidence. It says what is known, what that rules out, and what to record.
//!
//! # What to do
//! Record history from before the model is built, and dump the snapshot where the failure is caught.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::tables::culprits::Tally;
use crate::words;

/// A failure that nothing explains.
pub(crate) fn at_failure(case: &Case<'_>) -> Finding {
    let Some(failing) = &case.failing else {
        return finding(Cause::Undetermined, Confidence::Weak, "The evidence does not decide.".to_owned(), 0);
    };
    let state = &failing.state;
    let summary = format!(
        "A request for {} failed with {} live and {} reserved, under a limit that the file does not show: whether the \
         layout or the amount is at fault depends on it.",
        words::bytes(state.request_bytes),
        words::bytes(state.active),
        words::bytes(state.reserved)
    );
    let event = state.event as u32;
    let evidence = vec![
        in_bytes(
            format!("live bytes and the request need {}", words::bytes(failing.needed())),
            failing.needed(),
            &[event],
        ),
        in_bytes(format!("{} are reserved", words::bytes(state.reserved)), state.reserved, &[event]),
    ];
    Finding { evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
}

/// A trace that contradicts itself, or that is too short to call anything healthy.
pub(crate) fn without_failure(case: &Case<'_>) -> Option<Finding> {
    let (active, reserved) = (case.peak_active(), case.peak_reserved());
    if reserved < active {
        let summary = format!(
            "The trace contradicts itself: {} are live at a time when {} are reserved. Events are missing from it, or it is \
             damaged.",
            words::bytes(active),
            words::bytes(reserved)
        );
        return Some(finding(Cause::Undetermined, Confidence::Weak, summary, 0));
    }
    let ledger = &case.ledger;
    let events = ledger.trace.device.events.len() as u32;
    let live = ledger.sum(&ledger.alive_at(events));
    let made = ledger.made_in_trace();
    // A trace that did not turn over what is live once shows a moment, not a course.
    if case.recorded.started_empty || ledger.steps.completed() > 0 || made >= ledger.peak_live {
        return None;
    }
    let summary = format!(
        "The trace keeps only {}, in which {} were allocated beside {} that were live already: too little to say \
         how it came to be. {} are reserved.",
        words::plural(u64::from(events), "event", "events"),
        words::bytes(made),
        words::bytes(ledger.peak_live.saturating_sub(made)),
        words::bytes(reserved)
    );
    let evidence = vec![
        in_bytes(format!("{} were live at the end", words::bytes(live)), live, &[]),
        in_bytes(format!("{} were allocated in the trace", words::bytes(made)), made, &[]),
    ];
    let culprits = Tally::of(ledger, &ledger.alive_at(events)).culprits(ledger);
    Some(Finding { evidence, culprits, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) })
}

/// A state without a trace: reserved and live bytes, and the largest free block.
pub(crate) fn of_state(reserved: u64, live: u64, pending: u64, largest_free: u64) -> Finding {
    let free = reserved.saturating_sub(live).saturating_sub(pending);
    let summary = format!(
        "The file shows what was live when it was written, {} in {} reserved, but not how it came to be: it holds no trace. \
         {} lie free, the largest block {}.",
        words::bytes(live),
        words::bytes(reserved),
        words::bytes(free),
        words::bytes(largest_free)
    );
    let evidence = vec![
        in_bytes(format!("{} were live", words::bytes(live)), live, &[]),
        in_bytes(format!("{} were reserved", words::bytes(reserved)), reserved, &[]),
        in_bytes(format!("the largest free block has {}", words::bytes(largest_free)), largest_free, &[]),
    ];
    Finding { evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording, explain};

    fn recorded() -> whyoom_snapshot::Snapshot {
        let mut r = Recording::new(None);
        r.alloc("5", 64 * MIB);
        let x = r.alloc("6", 16 * MIB);
        r.free("6", x);
        r.finish()
    }

    #[test]
    fn a_state_without_a_trace_is_described() {
        let mut snapshot = recorded();
        snapshot.devices[0].events = whyoom_snapshot::Events::default();
        let report = explain(&snapshot);
        assert_eq!(report.findings[0].cause, Cause::Undetermined);
        assert!(report.findings[0].summary.contains("64.0 MiB in 80.0 MiB reserved"), "{}", report.findings[0].summary);
        assert!(report.replay.note.is_some());
    }

    #[test]
    fn a_trace_that_shows_a_moment_is_not_called_healthy() {
        let mut snapshot = recorded();
        let events = &mut snapshot.devices[0].events;
        // Only the last request and its free are left.
        let keep = events.len() - 3..;
        events.action = events.action[keep.clone()].to_vec();
        events.addr = events.addr[keep.clone()].to_vec();
        events.size = events.size[keep.clone()].to_vec();
        events.stream = events.stream[keep.clone()].to_vec();
        events.stack = events.stack[keep.clone()].to_vec();
        events.time_us = events.time_us[keep].to_vec();
        assert_eq!(explain(&snapshot).findings[0].cause, Cause::Undetermined);
    }
}
