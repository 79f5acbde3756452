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

use super::{finding, in_bytes, in_number};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Evidence, Finding};
use crate::tables::culprits::Tally;
use crate::tables::ledger::Ledger;
use crate::words;
use std::collections::BTreeMap;
use whyoom_replay::NONE;

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
        let event = state.event as u32;
        let mut evidence = vec![in_bytes(format!("{} are pending", words::bytes(pending)), pending, &[event])];
        let waiting = Waiting::at(&case.ledger, event);
        evidence.extend(waiting.evidence(&case.ledger));
        let culprits = Tally::of(&case.ledger, &waiting.allocations).culprits(&case.ledger);
        return Some(Finding {
            evidence,
            culprits,
            ..finding(Cause::PendingFree, Confidence::Proven, summary, pending)
        });
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
    let waiting = Waiting::at(&case.ledger, most_waiting(&case.ledger));
    let mut evidence = vec![
        in_bytes(format!("active bytes peak at {}", words::bytes(active)), active, &[]),
        in_bytes(format!("allocated bytes peak at {}", words::bytes(allocated)), allocated, &[]),
        in_bytes(format!("without waiting {} are reserved", words::bytes(without)), without, &[]),
    ];
    evidence.extend(waiting.evidence(&case.ledger));
    let culprits = Tally::of(&case.ledger, &waiting.allocations).culprits(&case.ledger);
    Some(Finding { evidence, culprits, ..finding(Cause::PendingFree, confidence, summary, active - allocated) })
}

/// The event before which most bytes wait.
fn most_waiting(ledger: &Ledger<'_>) -> u32 {
    let mut changes: Vec<(u32, i128)> = Vec::new();
    for (a, &size) in ledger.trace.allocations.iter().zip(&ledger.sizes).filter(|(a, _)| a.free_event != NONE) {
        if a.completed_event > a.free_event {
            changes.push((a.free_event, i128::from(size)));
            changes.push((a.completed_event, -i128::from(size)));
        }
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0, (0, 0));
    for (event, change) in changes {
        now += change;
        if now > most.0 {
            most = (now, event.saturating_add(1));
        }
    }
    most.1
}

/// What is freed and waits just before an event.
struct Waiting {
    event: u32,
    allocations: Vec<u32>,
}

impl Waiting {
    fn at(ledger: &Ledger<'_>, event: u32) -> Self {
        let waits = |a: &whyoom_replay::Allocation| a.free_event < event && a.completed_event >= event;
        let all = ledger.trace.allocations.iter().enumerate();
        Self { event, allocations: all.filter(|(_, a)| waits(a)).map(|(id, _)| id as u32).collect() }
    }

    /// How much waits by the stream that it was made on, and for how long.
    fn evidence(&self, ledger: &Ledger<'_>) -> Vec<Evidence> {
        let trace = ledger.trace;
        let mut by_stream: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &id in &self.allocations {
            by_stream.entry(u32::from(trace.allocations[id as usize].stream.0)).or_default().push(id);
        }
        let events = &trace.device.events;
        let wait = |id: &u32| {
            let a = &trace.allocations[*id as usize];
            let (from, to) = (events.time_of(a.free_event as usize)?, events.time_of(a.completed_event as usize)?);
            to.checked_sub(from).and_then(|us| u64::try_from(us).ok())
        };
        let mut evidence = Vec::new();
        for (stream, ids) in by_stream {
            let bytes = ledger.sum(&ids);
            let name = match trace.snapshot.streams.get(stream as usize) {
                Some(0) => "the default stream".to_owned(),
                Some(other) => format!("stream {other}"),
                None => "a stream".to_owned(),
            };
            let blocks = words::plural(ids.len() as u64, "block", "blocks");
            let text = format!("{} in {blocks} made on {name} wait at most", words::bytes(bytes));
            evidence.push(in_bytes(text, bytes, &[self.event]));
            let mut waits: Vec<u64> = ids.iter().filter_map(wait).collect();
            waits.sort_unstable();
            if let (Some(median), Some(longest)) = (waits.get(waits.len() / 2), waits.last()) {
                let text = format!(
                    "those wait {} at the median, {} at the longest, until the allocator sees the other stream done",
                    words::duration(*median),
                    words::duration(*longest)
                );
                evidence.push(in_number(text, *longest, "us", &[self.event]));
            }
        }
        evidence
    }
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

    #[test]
    fn what_waits_is_told_by_stream_with_its_line_and_for_how_long() {
        let mut r = Recording::new(None);
        let mut waiting = std::collections::VecDeque::new();
        for _ in 0..20 {
            for (stream, line, bytes) in [(0, "10", 24 * MIB), (1, "11", 8 * MIB)] {
                r.stream = stream;
                let x = r.alloc(line, bytes);
                r.drop_while_used("12", x);
                waiting.push_back(x);
            }
            while waiting.len() > 8 {
                r.complete(waiting.pop_front().expect("an element"));
            }
        }
        let report = r.explain();
        assert_eq!(report.replay.status, crate::explanation::ReplayStatus::Exact);
        let first = &report.findings[0];
        assert_eq!(first.cause, Cause::PendingFree, "{first:?}");
        let says = |text: &str| first.evidence.iter().any(|e| e.statement.starts_with(text));
        assert!(says("120 MiB in 5 blocks made on the default stream wait at most"), "{:#?}", first.evidence);
        assert!(says("40.0 MiB in 5 blocks made on stream 21930 wait at most"), "{:#?}", first.evidence);
        assert!(says("those wait 270 us at the median, 280 us at the longest"), "{:#?}", first.evidence);
        assert_eq!(first.culprits[0].line, 10, "most of what waits: {:?}", first.culprits);
    }
}
