//! Running the trials, with an ensemble of placements where the program's length allows.
//!
//! Every trial runs to its end or its first failing request, whatever the length. What is rationed, by counts and never
//! by time, is how many other placements of new segments are tried beside the usual one.

use crate::case::Case;
use rayon::prelude::*;
use whyoom_allocator::Model;
use whyoom_replay::{Outcome, Placement, Scenario, Trial, Tried, Until, simulate, try_all, with_ensembles};

/// Up to so many program steps over all trials each trial gets the whole ensemble.
const ALL_STEPS: usize = 6_000_000;
/// Program steps that the ensembles of a longer program's best trials may cost.
const BEST_STEPS: usize = 4_000_000;
/// Trials of a longer program that are tried at the limit's high end too.
const MOST_AT_HIGH_END: usize = 6;

/// What came of each trial.
pub(super) fn run(case: &Case<'_>, trials: &[Trial<'_>]) -> Vec<Tried> {
    let steps: usize = trials.iter().map(|t| t.program.ops.len()).sum();
    if steps <= ALL_STEPS {
        return try_all(trials);
    }
    let recorded = super::effective(case, &case.in_force.settings);
    let mut tried: Vec<Tried> = trials
        .par_iter()
        .map(|t| {
            let is_as_recorded = case.is_exact
                && case.failing.is_none()
                && t.settings == recorded
                && std::ptr::eq(t.program, &raw const case.recorded.program);
            once(&if is_as_recorded { as_recorded(case) } else { simulate(t.program, &scenario(t, t.limit)) })
        })
        .collect();
    // Expandable segments do not depend on where segments lie.
    let mut best: Vec<usize> = (0..trials.len())
        .filter(|&i| tried[i].outcome.first_failure.is_none() && !trials[i].settings.expandable_segments)
        .collect();
    best.sort_by_key(|&i| (tried[i].outcome.stats.reserved.peak, i));
    let each = trials.first().map_or(1, |t| t.program.ops.len()) * Placement::ENSEMBLE.len();
    best.truncate((BEST_STEPS / each.max(1)).max(1));
    let chosen: Vec<Trial<'_>> = best.iter().map(|&i| trials[i].clone()).collect();
    let usual: Vec<Outcome> = best.iter().map(|&i| tried[i].outcome).collect();
    for (i, firm) in best.into_iter().zip(with_ensembles(&chosen, &usual, BEST_STEPS)) {
        tried[i] = firm;
    }
    tried
}

fn once(outcome: &Outcome) -> Tried {
    let peak = outcome.stats.reserved.peak;
    Tried {
        outcome: *outcome,
        peak_reserved_range: (peak, peak),
        tie_sensitive: false,
        timing_sensitive: false,
        members: 1,
        failing_members: u32::from(outcome.first_failure.is_some()),
    }
}

/// The recorded settings again: the exact check has run them.
fn as_recorded(case: &Case<'_>) -> Outcome {
    let stats = case.recorded.stats;
    Outcome {
        first_failure: None,
        failures: 0,
        stats,
        at_end: stats,
        hypothetical_from: None,
        peak_reserved_at_recorded_failure: None,
        active_at_peak_reserved: case.peak_active(),
        reached_end: true,
        was_given_up: false,
    }
}

fn scenario<'s>(trial: &'s Trial<'_>, limit: Option<u64>) -> Scenario<'s> {
    Scenario {
        model: trial.model,
        settings: &trial.settings,
        limit,
        limit_kind: trial.limit_kind,
        start: trial.start,
        placement: Placement::USUAL,
        until: trial.until,
    }
}

/// Whether the recorded settings, from an empty allocator, get past the request that failed when recorded. They can where
/// the trace has no beginning: the layout that was there is missing, and nothing is proved by others passing.
pub(super) fn control_passes(case: &Case<'_>, model: Model, until: Until) -> bool {
    if case.recorded.started_empty || case.failing.is_none() {
        return false;
    }
    let settings = super::effective(case, &case.in_force.settings);
    let scenario = Scenario {
        model,
        settings: &settings,
        limit: case.limit.low,
        limit_kind: case.limit.kind,
        start: super::start(case, &settings),
        placement: Placement::USUAL,
        until,
    };
    simulate(&case.recorded.program, &scenario).first_failure.is_none()
}

/// Lowest and highest peak reserved of the recorded settings over the placements, the recorded one included: what lies in
/// between tells nothing. `None` where a request failed, or the program is long.
pub(super) fn control_peaks(case: &Case<'_>, model: Model) -> Option<(u64, u64)> {
    let program = &case.recorded.program;
    if case.failing.is_some() || case.would_fail.is_some() || !case.is_exact {
        return None;
    }
    let recorded = case.peak_reserved();
    if program.ops.len() * Placement::ENSEMBLE.len() > BEST_STEPS {
        return Some((recorded, recorded));
    }
    let settings = super::effective(case, &case.in_force.settings);
    let start = super::start(case, &settings);
    let trial = Trial {
        program,
        model,
        settings,
        limit: case.limit.low,
        limit_kind: case.limit.kind,
        start,
        until: Until::FirstFailure,
    };
    let tried = try_all(&[trial]).pop()?;
    let (low, high) = tried.peak_reserved_range;
    Some((low.min(recorded), high.max(recorded)))
}

/// Parts of the limit, in hundredths, under which what leaves little room is tried again.
const TIGHTER: [u64; 2] = [95, 90];
/// What leaves less than a part of this many of the limit leaves little.
const LITTLE: u64 = 20;

/// A smaller limit under which a changed program passes too, in the usual placement, where its peak leaves little: what
/// is reserved may be cache that it would give back. Not asked of settings alone, whose whole point is the layout.
pub(super) fn tighter_limits(case: &Case<'_>, trials: &[Trial<'_>], tried: &[Tried]) -> Vec<Option<u64>> {
    let Some(limit) = case.limit.low else { return vec![None; trials.len()] };
    let steps: usize = trials.iter().map(|t| t.program.ops.len()).sum();
    let is_short = steps <= ALL_STEPS;
    trials
        .par_iter()
        .zip(tried)
        .map(|(trial, tried)| {
            let left = limit.saturating_sub(tried.peak_reserved_range.1);
            let is_changed = !std::ptr::eq(trial.program, &raw const case.recorded.program);
            if !is_short || !is_changed || tried.failing_members > 0 || left >= limit / LITTLE {
                return None;
            }
            let passes = |part: u64| {
                let tighter = limit / 100 * part;
                simulate(trial.program, &scenario(trial, Some(tighter))).first_failure.is_none()
            };
            TIGHTER.iter().take_while(|part| passes(**part)).last().map(|part| limit / 100 * part)
        })
        .collect()
}

/// Peak reserved at the limit's high end, of what fails at its low end.
pub(super) fn at_high_end(case: &Case<'_>, trials: &[Trial<'_>], tried: &[Tried]) -> Vec<Option<u64>> {
    let high = match (case.limit.low, case.limit.high) {
        (Some(low), Some(high)) if high > low => high,
        _ => return vec![None; trials.len()],
    };
    let steps: usize = trials.iter().map(|t| t.program.ops.len()).sum();
    let most = if steps <= ALL_STEPS { trials.len() } else { MOST_AT_HIGH_END };
    trials
        .par_iter()
        .zip(tried)
        .enumerate()
        .map(|(i, (trial, tried))| {
            tried.outcome.first_failure.filter(|_| i < most)?;
            let outcome = simulate(trial.program, &scenario(trial, Some(high)));
            outcome.first_failure.is_none().then_some(outcome.stats.reserved.peak)
        })
        .collect()
}
