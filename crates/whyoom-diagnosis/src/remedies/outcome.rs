//! From a replay to a remedy: what may be claimed of it.

use super::{Control, Proposal};
use crate::case::Case;
use crate::explanation::{FailurePoint, Remedy, RemedyOutcome};
use crate::words;

/// A peak within a hundredth of the recorded one is the same: rounding of a segment here or there.
const SAME_PEAK_PARTS: u64 = 100;

/// Order among remedies, the best first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    outcome: u8,
    /// Not every placement passes.
    is_risky: bool,
    /// Bytes short of the best that can be.
    less_room: u64,
    /// A failure that comes later is nearer to a cure.
    earlier: u64,
    retries: u64,
    length: usize,
}

/// The place of `remedy` among the others.
pub(super) fn rank(remedy: &Remedy) -> Rank {
    let outcome = match remedy.outcome {
        RemedyOutcome::Passes => 0,
        RemedyOutcome::NotVerified => 1,
        RemedyOutcome::NoChange => 3,
        RemedyOutcome::Fails => 2,
        RemedyOutcome::Worse => 4,
    };
    let least_limit = remedy.passes_under_bytes.unwrap_or(u64::MAX);
    let worst_peak = remedy.peak_reserved_range.map_or(u64::MAX, |r| r.1);
    Rank {
        outcome,
        is_risky: outcome == 0 && remedy.headroom_bytes == Some(0) && remedy.passes_under_bytes.is_none(),
        less_room: if remedy.first_failure.is_some() { 0 } else { worst_peak.min(least_limit) },
        earlier: remedy.first_failure.map_or(0, |f| u64::MAX - f.malloc),
        retries: remedy.retries,
        length: remedy.apply.len(),
    }
}

/// What `tried` lets one say of `proposal`. `passes_at_high_end` is its peak reserved at the limit's high end, where it
/// fails at the low end only; `control` is what comes of the recorded settings in such a replay, `firm` a smaller limit that it passes
/// under too.
pub(super) fn remedy(
    case: &Case<'_>,
    proposal: Proposal,
    tried: &whyoom_replay::Tried,
    passes_at_high_end: Option<u64>,
    control: &Control,
    firm: Option<u64>,
) -> Remedy {
    let control_passes = control.passes;
    let outcome = &tried.outcome;
    let stats = &outcome.stats;
    let peak = stats.reserved.peak;
    let first_failure = outcome.first_failure.map(|f| FailurePoint {
        event: u64::from(f.event),
        malloc: f.malloc,
        step: case.ledger.steps.of(f.event),
    });
    let worst = tried.peak_reserved_range.1;
    let headroom = match (case.limit.low, outcome.first_failure) {
        (Some(_), None) if tried.failing_members > 0 => Some(0),
        (Some(low), None) => Some(low.saturating_sub(worst)),
        _ => None,
    };
    let mut notes: Vec<String> = Vec::new();
    let passing = tried.members - tried.failing_members;
    if passing > 0 && tried.failing_members > 0 {
        let why = if tried.tie_sensitive { "placements" } else { "timings" };
        notes.push(format!("passes in {passing} of {} {why} tried", tried.members));
    }
    if let (Some(needs), Some(low), Some(high)) = (passes_at_high_end, case.limit.low, case.limit.high) {
        let (text, low, high) = (words::bytes(needs), words::bytes(low), words::bytes(high));
        let from = if text == low { format!("a little more than {low}") } else { format!("{text} or more") };
        notes.push(format!("passes if the limit, known to lie between {low} and {high}, is {from}"));
    }
    if tried.timing_sensitive && (tried.failing_members == 0 || tried.failing_members == tried.members) {
        notes.push("depends on when other streams finish".to_owned());
    }
    if !case.recorded.started_empty {
        let note = if control_passes {
            "from an empty allocator the recorded settings pass too: what lay in memory before the trace decides"
        } else {
            "the trace has no beginning, so this is an estimate"
        };
        notes.push(note.to_owned());
    }
    if case.limit.low.is_some_and(|low| worst > low) && outcome.first_failure.is_none() {
        // PyTorch compares a cap with the size asked for, and maps whole pages.
        notes.push("reserves more than the limit, which a cap lets pass and a card does not".to_owned());
    }
    let is_fixed = proposal.settings.expandable_segments || case.failing.is_none();
    if tried.members == 1 && !is_fixed && outcome.first_failure.is_none() {
        notes.push("in the one placement of segments tried".to_owned());
    }
    notes.extend(proposal.note);
    // A program that catches failures asks otherwise after them: past the first one that now succeeds all is supposed.
    let reacts = case.failing.is_some_and(|f| f.count > 1) && outcome.first_failure.is_none();
    let is_estimate = reacts || !case.recorded.started_empty;
    Remedy {
        id: proposal.id,
        kind: proposal.kind,
        apply: proposal.apply,
        // What the limit's exact size decides is neither a cure nor a failure.
        outcome: if control_passes || passes_at_high_end.is_some() {
            RemedyOutcome::NotVerified
        } else {
            judge(case, tried, first_failure.as_ref(), control)
        },
        scope: if case.failing.is_some() { "failing_request" } else { "whole_run" },
        basis: if proposal.basis == "exact_replay" && is_estimate { "replay_estimate" } else { proposal.basis },
        peak_reserved_bytes: Some(peak),
        peak_reserved_range: Some(tried.peak_reserved_range),
        tie_sensitive: tried.tie_sensitive,
        headroom_bytes: headroom,
        passes_from_limit_bytes: passes_at_high_end,
        passes_under_bytes: firm,
        first_failure,
        retries: stats.retries,
        driver_allocations: stats.driver_allocations,
        driver_frees: stats.driver_frees,
        maps: stats.maps,
        unmaps: stats.unmaps,
        synchronisations: stats.synchronisations,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

fn judge(
    case: &Case<'_>,
    tried: &whyoom_replay::Tried,
    first_failure: Option<&FailurePoint>,
    control: &Control,
) -> RemedyOutcome {
    if !case.is_exact {
        return RemedyOutcome::NotVerified;
    }
    let recorded = case.recorded.failures.first().filter(|_| case.failing.is_some()).map(|f| f.malloc);
    let recorded_failure = recorded.or(case.would_fail.map(|f| f.malloc));
    match (first_failure, recorded_failure) {
        (None, Some(_)) => RemedyOutcome::Passes,
        (None, None) => {
            let (lowest, highest) = control.peaks.unwrap_or((case.peak_reserved(), case.peak_reserved()));
            let (low, high) = tried.peak_reserved_range;
            match () {
                () if high + lowest / SAME_PEAK_PARTS < lowest => RemedyOutcome::Passes,
                () if low > highest + highest / SAME_PEAK_PARTS => RemedyOutcome::Worse,
                () => RemedyOutcome::NoChange,
            }
        }
        (Some(_), None) => RemedyOutcome::Worse,
        (Some(now), Some(then)) => match now.malloc.cmp(&then) {
            std::cmp::Ordering::Less => RemedyOutcome::Worse,
            std::cmp::Ordering::Equal => RemedyOutcome::NoChange,
            std::cmp::Ordering::Greater => RemedyOutcome::Fails,
        },
    }
}
