//! `undetermined`: the evidence does not decide.
//!
//! # What it finds
//! A failure without a known limit, a file that shows a state but not how it came to be, or one with sizes that no
//! device has.
//!
//! # Why it matters
//! A guess in a verdict's clothes costs people days.
//!
//! # How it decides
//! No other cause has its evidence. It says what is known, what that rules out, and what to record.
//!
//! # What to do
//! Record history from before the model is built, and dump the snapshot where the failure is caught.

use super::{finding, in_bytes, request_alone};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::tables::culprits::Tally;
use crate::words;
use std::fmt::Write as _;
use whyoom_replay::Implausible;

/// A failure that nothing explains.
pub(crate) fn at_failure(case: &Case<'_>) -> Finding {
    let Some(failing) = &case.failing else {
        return finding(Cause::Undetermined, Confidence::Weak, "The evidence does not decide.".to_owned(), 0);
    };
    let state = &failing.state;
    let summary = format!(
        "{} failed with {} live and {} reserved, under a limit that the file does not show: whether the \
         layout or the amount is at fault depends on it.",
        request_alone(failing),
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

/// Whether more is live at a time than is reserved.
pub(crate) fn is_contradictory(case: &Case<'_>) -> bool {
    case.peak_reserved() < case.peak_active()
}

/// A trace whose end is lost: that it shows no failure says nothing.
fn cut(case: &Case<'_>) -> Finding {
    let ledger = &case.ledger;
    let events = ledger.trace.device.events.len() as u64;
    let made = ledger.made_in_trace();
    let summary = format!(
        "The file is cut. In the {} that are left no request failed; whether one failed later is lost with the rest. \
         {} were allocated in them.",
        words::plural(events, "event", "events"),
        words::bytes(made)
    );
    let evidence = vec![in_bytes(format!("{} were allocated in what is left", words::bytes(made)), made, &[])];
    Finding { subcause: Some("cut_file"), evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
}

/// A trace that contradicts itself, or that is too short to call anything healthy.
pub(crate) fn without_failure(case: &Case<'_>) -> Option<Finding> {
    let (active, reserved) = (case.peak_active(), case.peak_reserved());
    if is_contradictory(case) {
        let summary = format!(
            "The trace contradicts itself: {} are live at a time when {} are reserved. Events are missing from it, or it is \
             damaged.",
            words::bytes(active),
            words::bytes(reserved)
        );
        return Some(finding(Cause::Undetermined, Confidence::Weak, summary, 0));
    }
    if case.is_cut {
        return Some(cut(case));
    }
    let ledger = &case.ledger;
    let events = ledger.trace.device.events.len() as u32;
    let live = ledger.sum(&ledger.alive_at(events));
    let made = ledger.made_in_trace();
    // A trace that did not turn over what is live once shows a moment, not a course.
    if case.recorded.started_empty || ledger.completed > 0 || made >= ledger.peak_live {
        return None;
    }
    let mut summary = format!(
        "The trace keeps only {}, in which {} were allocated beside {} that were live already: too little to say \
         how it came to be. {} are reserved.",
        words::plural(u64::from(events), "event", "events"),
        words::bytes(made),
        words::bytes(ledger.peak_live.saturating_sub(made)),
        words::bytes(reserved)
    );
    if let Some(growth) = &case.growth {
        let _ = write!(
            summary,
            " A leak is not decided: {} left {} each.",
            words::plural(growth.calls, "call", "calls"),
            words::bytes(growth.bytes_per_call)
        );
    }
    let evidence = vec![
        in_bytes(format!("{} were live at the end", words::bytes(live)), live, &[]),
        in_bytes(format!("{} were allocated in the trace", words::bytes(made)), made, &[]),
    ];
    let culprits = Tally::of(ledger, &ledger.alive_at(events)).culprits(ledger);
    Some(Finding { evidence, culprits, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) })
}

/// Sizes or addresses that no device has.
pub(crate) fn of_impossible(wrong: &Implausible) -> Finding {
    let summary =
        format!("Nothing can be said: {wrong}. The file is damaged or was edited; copy it again, or record it anew.");
    let events: Vec<u32> = wrong.event.iter().map(|&e| e as u32).collect();
    let evidence = vec![in_bytes(wrong.to_string(), wrong.size, &events)];
    Finding { evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
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
    fn impossible_sizes_are_named_and_nothing_is_called_healthy() {
        let last = recorded().devices[0].events.len() - 1;
        for event in [0, last] {
            let mut snapshot = recorded();
            snapshot.devices[0].events.size[event] = 1 << 63;
            let report = explain(&snapshot);
            assert_eq!(report.findings[0].cause, Cause::Undetermined);
            assert!(report.findings[0].summary.contains(&format!("event {event} has an impossible size")));
        }
        let mut snapshot = recorded();
        snapshot.devices[0].segments[0].total_size = u64::MAX;
        assert!(explain(&snapshot).findings[0].summary.contains("a segment or block has an impossible size"));
        snapshot.devices[0].events = whyoom_snapshot::Events::default();
        let report = explain(&snapshot);
        assert!(report.findings[0].summary.contains("a segment or block has an impossible size"));
        assert_eq!(report.peak.reserved_bytes, 0);
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

    /// The first half of the events, as a cut file leaves them.
    fn cut(mut snapshot: whyoom_snapshot::Snapshot) -> whyoom_snapshot::Snapshot {
        let events = &mut snapshot.devices[0].events;
        let keep = events.len() / 2;
        events.action.truncate(keep);
        events.addr.truncate(keep);
        events.size.truncate(keep);
        events.stream.truncate(keep);
        events.stack.truncate(keep);
        events.time_us.truncate(keep);
        snapshot.warnings.add("truncated", || "the input is cut".to_owned());
        snapshot
    }

    #[test]
    fn a_cut_file_is_not_called_healthy() {
        let mut r = Recording::new(None);
        for i in 0..8 {
            r.train_step((8 + 4 * i) * MIB);
            r.alloc("20", (2 + i) * MIB);
        }
        let report = explain(&cut(r.finish()));
        let first = &report.findings[0];
        assert_eq!((first.cause, first.subcause), (Cause::Undetermined, Some("cut_file")), "{first:?}");
        assert!(report.ruled_out.is_empty());
        assert!(report.replay.note.is_some_and(|n| n.contains("cut") && !n.contains("no beginning")));
    }

    #[test]
    fn a_trace_that_contradicts_itself_excludes_nothing() {
        let mut snapshot = recorded();
        // More is live than the segments hold, as in a file that somebody has edited.
        let events = &mut snapshot.devices[0].events;
        for size in &mut events.size {
            *size *= 1000;
        }
        snapshot.devices[0].segments.clear();
        snapshot.devices[0].blocks.clear();
        let report = explain(&snapshot);
        if report.peak.reserved_bytes < report.peak.active_bytes {
            assert_eq!(report.findings[0].cause, Cause::Undetermined);
            assert!(report.ruled_out.is_empty(), "{:?}", report.ruled_out);
        }
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
