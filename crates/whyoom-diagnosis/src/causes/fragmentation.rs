//! `fragmentation`: the layout, not the amount.
//!
//! # What it finds
//! A request that fits in the limit beside what is live and yet fails, because no free block holds it and nothing
//! more can be released; or, without a failure, reserved memory several times what is ever live.
//!
//! # Why it matters
//! It is the one cause that allocator settings cure.
//!
//! # How it decides
//! S + r ≤ L, by arithmetic: proven at the limit's low end; between its ends, where the limit is known only roughly,
//! the finding is strong if a compact layout would leave a twentieth of the limit and some setting or call gets past
//! the request in a replay, else the step is at its limit anyhow. Without a failure: peak reserved at least three times the peak of allocated and pending bytes and a GiB above it, and some setting
//! brings it down by half of the excess in a replay.
//!
//! # False positives
//! Cached memory is not fragmentation: it is handed out again. Several streams need memory of their own, which no
//! layout shares; the replay of other settings tells.
//!
//! # What to do
//! `expandable_segments:True` first; else make sizes repeat (pad or bucket what varies from step to step).

use super::{finding, in_bytes, in_ratio, needed_in_words, peak_in_words, request_in_words};
use crate::case::{Case, Failing, WouldFail};
use crate::explanation::{Cause, Confidence, Culprit, Evidence, Finding, Remedy, RemedyOutcome};
use crate::tables::culprits::Tally;
use crate::words;
use hashbrown::HashSet;
use whyoom_allocator::SMALL_REQUEST;
use whyoom_replay::StepSource;
use whyoom_snapshot::Action;

/// Reserved memory this many times the need is several times the need.
const SEVERAL: u64 = 3;
/// Less than this too much threatens no run on any card.
const MATTERS: u64 = 1 << 30;

/// How sure it is that the request fits: `None` if it does not.
pub(crate) fn fits(case: &Case<'_>, failing: &Failing) -> Option<Confidence> {
    let (low, high) = (case.in_effect.low?, case.in_effect.high?);
    let needed = failing.needed();
    if needed <= low {
        return Some(Confidence::Proven);
    }
    let room = high.checked_sub(needed)?;
    (room >= high / 20 && needed - low <= room).then_some(Confidence::Strong)
}

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    match &case.failing {
        Some(failing) => at_failure(case, failing),
        None => without_failure(case),
    }
}

fn at_failure(case: &Case<'_>, failing: &Failing) -> Option<Finding> {
    let confidence = match fits(case, failing)? {
        // That it should fit is no more than arithmetic where no layout that was tried holds it.
        Confidence::Strong if case.is_exact && !case.tried.some_layout_passes() => Confidence::Weak,
        known => known,
    };
    let state = &failing.state;
    let event = state.event as u32;
    let needed = needed_in_words(case, failing);
    let free = &state.free;
    let layout = if free.blocks == 0 {
        "no block of its kind is free, and what else is reserved cannot serve it".to_owned()
    } else {
        let held = if case.in_force.settings.expandable_segments {
            ""
        } else {
            ", all in segments that still hold live blocks"
        };
        format!(
            "{} lie free in {}, the largest {}{held}",
            words::bytes(free.bytes),
            words::plural(free.blocks, "piece", "pieces"),
            words::bytes(free.largest)
        )
    };
    let fits = if confidence == Confidence::Proven { "It fits" } else { "It should fit" };
    let summary = format!("{}. {fits} ({needed}); the layout does not: {layout}.", request_in_words(case, failing));
    let mut evidence = vec![
        in_bytes(format!("live bytes and the request need {needed}"), failing.needed(), &[event]),
        in_bytes(
            format!("the largest free block of its kind has {}", words::bytes(free.largest)),
            free.largest,
            &[event],
        ),
        in_bytes(
            format!(
                "{} of the {} reserved are free",
                words::bytes(state.reserved - state.active.min(state.reserved)),
                words::bytes(state.reserved)
            ),
            state.reserved.saturating_sub(state.active),
            &[event],
        ),
    ];
    evidence.extend(changing_sizes(case, event));
    if let Some((best, room)) = case.tried.best_headroom().filter(|_| case.is_exact) {
        evidence.push(in_bytes(
            format!("{} passes this request with {} to spare", best.apply, words::bytes(room)),
            room,
            &[event],
        ));
    }
    Some(Finding {
        evidence,
        culprits: of_request(case, event, state.request_bytes),
        ..finding(Cause::Fragmentation, confidence, summary, state.reserved.saturating_sub(state.active))
    })
}

/// The line whose request failed.
fn of_request(case: &Case<'_>, event: u32, bytes: u64) -> Vec<Culprit> {
    let ledger = &case.ledger;
    let own = ledger.trace.device.events.stack[event as usize];
    let stack = if ledger.shapes.of(own).user == whyoom_snapshot::StackId::EMPTY {
        ledger.runs.at(event).map_or(own, |r| ledger.runs.runs[r as usize].site)
    } else {
        own
    };
    let mut tally = Tally::default();
    tally.add(stack, bytes);
    tally.culprits(ledger)
}

/// The request fits beside what is live under the limit that was given, and fails in a replay of a run that did not.
/// `is_said`: that it fails, and at which request, is said by a finding before this one.
pub(crate) fn replayed(case: &Case<'_>, failure: &WouldFail, is_said: bool) -> Finding {
    let free = failure.reserved.saturating_sub(failure.live);
    let it = if is_said {
        "That first request".to_owned()
    } else {
        format!(
            "Nothing failed when this was recorded; replayed under {}, it would: a request for {} with {} live. It",
            words::bytes(failure.limit),
            words::bytes(failure.request_bytes),
            words::bytes(failure.live)
        )
    };
    let summary = format!(
        "{it} would fit ({}); the layout would not: {} are reserved, and no free block of the {} beside what is live \
         could hold it.",
        words::bytes(failure.needed()),
        words::bytes(failure.reserved),
        words::bytes(free)
    );
    Finding {
        evidence: vec![
            in_bytes(
                format!("live bytes and the request need {}", words::bytes(failure.needed())),
                failure.needed(),
                &[failure.event],
            ),
            in_bytes(format!("{} of what is reserved are free", words::bytes(free)), free, &[failure.event]),
        ],
        culprits: of_request(case, failure.event, failure.request_bytes),
        // Where new segments would have lain is a prediction.
        ..finding(Cause::Fragmentation, Confidence::Strong, summary, free)
    }
}

/// How much of the large requests of this step has sizes that the step before did not ask for: each step leaves holes
/// that the next cannot use.
fn changing_sizes(case: &Case<'_>, event: u32) -> Option<Evidence> {
    if case.ledger.steps.source == StepSource::None {
        return None;
    }
    let levels = &case.ledger.levels;
    let now = levels.partition_point(|l| l.start <= event).checked_sub(1)?;
    let before = levels.get(now.checked_sub(1)?)?;
    let events = &case.ledger.trace.device.events;
    let large = |i: &usize| matches!(events.action[*i], Action::Alloc | Action::Oom) && events.size[*i] > SMALL_REQUEST;
    let known: HashSet<u64> =
        (before.start as usize..levels[now].start as usize).filter(large).map(|i| events.size[i]).collect();
    let (mut all, mut new) = (0u64, 0u64);
    for i in (levels[now].start as usize..=event as usize).filter(large) {
        all = events.size[i].saturating_add(all);
        if !known.contains(&events.size[i]) {
            new = events.size[i].saturating_add(new);
        }
    }
    let share = new as f64 / all.max(1) as f64;
    (share >= 0.1).then(|| {
        let percent = (share * 100.0).round();
        in_ratio(
            format!("{percent} % of the bytes of large requests in this step are of sizes that the step before did not ask for"),
            share,
            &[event],
        )
    })
}

fn without_failure(case: &Case<'_>) -> Option<Finding> {
    let (reserved, needed) = (case.peak_reserved(), case.peak_active());
    if reserved < needed.saturating_mul(SEVERAL) || needed == 0 {
        return None;
    }
    let excess = reserved - needed;
    // In a trace without beginning only what was reserved anew shows that it is not an earlier need that is cached.
    let ledger = &case.ledger;
    let anew =
        if case.recorded.started_empty { reserved } else { reserved.saturating_sub(ledger.trace.reserved_at_start) };
    if excess < MATTERS || anew < MATTERS.max(needed) {
        return None;
    }
    let best = case.tried.lowest_peak().unwrap_or(reserved);
    let is_layout = reserved.saturating_sub(best) * 2 >= excess;
    let confidence = if is_layout { Confidence::Strong } else { Confidence::Weak };
    let summary = format!(
        "No request failed, but {} were reserved for a peak of {}: {} times what is needed{}.",
        words::bytes(reserved),
        peak_in_words(case),
        words::ratio(reserved as f64 / needed as f64),
        advised(case).filter(|_| is_layout).unwrap_or_default()
    );
    let peak = case.ledger.peak_event.map(|e| vec![e]).unwrap_or_default();
    let evidence = vec![
        in_bytes(format!("reserved memory peaks at {}", words::bytes(reserved)), reserved, &[]),
        in_bytes(format!("allocated and pending bytes peak at {}", words::bytes(needed)), needed, &peak),
    ];
    Some(Finding { evidence, ..finding(Cause::Fragmentation, confidence, summary, excess) })
}

/// What the setting that is advised would have reserved: one key before two, as it is understood more easily.
fn advised(case: &Case<'_>) -> Option<String> {
    let passing = || {
        let all = case.tried.remedies.iter();
        all.filter(|r| r.kind == "setting" && r.outcome == RemedyOutcome::Passes && !r.apply.is_empty())
    };
    let is_single = |r: &&Remedy| r.apply.matches(':').count() == 1;
    let best = passing().find(is_single).or_else(|| passing().next())?;
    let (low, high) = best.peak_reserved_range?;
    let up_to = if words::bytes(low) == words::bytes(high) { "" } else { "at most " };
    Some(format!("; with {} it would have reserved {up_to}{}", best.apply, words::bytes(high)))
}

/// Why it is not the layout, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    match &case.failing {
        Some(failing) => {
            let missing = failing.needed().checked_sub(case.in_effect.high?).filter(|&m| m > 0)?;
            Some(format!("a compact layout lacks {} too", words::bytes(missing)))
        }
        None if case.would_fail.is_some() => None,
        None => Some(format!("{} reserved for a peak of {}", words::bytes(case.peak_reserved()), peak_in_words(case)))
            .filter(|_| case.peak_reserved() < case.peak_active().saturating_mul(SEVERAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording};

    #[test]
    fn a_request_that_fits_and_fails_is_fragmentation() {
        let mut r = Recording::new(Some(124 * MIB));
        // Blocks that stay lie in the segments of larger ones that are gone.
        for _ in 0..3 {
            let large = r.alloc("10", 40 * MIB);
            r.free("12", large);
            r.alloc("11", 2 * MIB);
            r.alloc("11", 20 * MIB);
        }
        assert!(r.try_alloc("20", 50 * MIB).is_none(), "the layout has no room");
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Fragmentation, Confidence::Proven), "{first:?}");
        assert_eq!(first.culprits[0].line, 20);
        assert_eq!(report.bound.bytes_to_free, 0);
        assert!(report.findings.iter().any(|f| f.cause == Cause::Limit), "a cap is noted");
    }

    #[test]
    fn reserved_several_times_the_need_is_told_without_a_failure() {
        let mut r = Recording::new(None);
        // Each step wants a little more than any free block has.
        for i in 0..30u64 {
            let x = r.alloc("10", (200 + 10 * i) * MIB);
            let pin = r.alloc("11", 2 * MIB);
            r.free("12", x);
            r.free("13", pin);
        }
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Fragmentation, Confidence::Strong), "{first:?}");
        // The figure of the headline is that of the setting that is advised.
        let named = report.remedies.iter().find(|r| first.summary.contains(&format!("with {} it", r.apply)));
        let high = named.and_then(|r| r.peak_reserved_range).expect("a setting that was tried").1;
        assert!(first.summary.ends_with(&format!("{}.", words::bytes(high))), "{}", first.summary);
    }

    /// Blocks that stay lie in the segments of larger ones that are gone.
    fn holes() -> Recording {
        let mut r = Recording::new(None);
        for _ in 0..3 {
            let large = r.alloc("10", 40 * MIB);
            r.free("12", large);
            r.alloc("11", 2 * MIB);
            r.alloc("11", 20 * MIB);
        }
        r.alloc("20", 50 * MIB);
        r
    }

    #[test]
    fn a_layout_that_fails_under_a_limit_that_is_asked_for_is_told() {
        let report = holes().explain_under(124 * MIB);
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Fragmentation, Confidence::Strong), "{first:?}");
        let failure = report.would_fail.as_ref().expect("a replayed failure");
        assert_eq!(failure.request_bytes, 50 * MIB);
        assert!(failure.live_bytes + failure.request_bytes <= 124 * MIB);
        // Less than what is live at the peak fits in no layout, wherever the first failure lies.
        let less = holes().explain_under(110 * MIB);
        let causes: Vec<_> = less.findings.iter().map(|f| (f.cause, f.confidence)).collect();
        assert_eq!(
            causes,
            [(Cause::Capacity, Confidence::Proven), (Cause::Fragmentation, Confidence::Strong)],
            "{:?}",
            less.findings
        );
        assert!(less.findings[0].summary.contains("116 MiB are live at its peak, 6.00 MiB too much"));
    }

    #[test]
    fn what_the_limits_exact_size_decides_is_not_verified() {
        // All that is known of the limit is that 124 MiB and more were refused, and 80 had.
        let mut r = Recording::new(Some(100 * MIB));
        for _ in 0..2 {
            let large = r.alloc("10", 40 * MIB);
            r.free("12", large);
            r.alloc("11", 2 * MIB);
            r.alloc("11", 20 * MIB);
        }
        assert!(r.try_alloc("20", 50 * MIB).is_none());
        let report = r.explain();
        let open: Vec<_> = report.remedies.iter().filter(|r| r.passes_from_limit_bytes.is_some()).collect();
        assert!(!open.is_empty(), "{:?}", report.limit);
        for remedy in open {
            assert_eq!(remedy.outcome, crate::explanation::RemedyOutcome::NotVerified, "{remedy:?}");
            assert!(remedy.note.as_ref().is_some_and(|n| n.contains("passes if the limit")), "{remedy:?}");
            assert!(remedy.passes_from_limit_bytes > report.limit.low_bytes);
        }
    }
}
