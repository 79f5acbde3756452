//! From how many bytes a program passes.

use super::habit::Placement;
use super::program::Program;
use super::simulate::{Outcome, Scenario, simulate};
use super::sweep::Trial;
use rayon::prelude::*;
use whyoom_allocator::Stats;

/// Memory is had in pages of this grain (`kSmallBuffer`, all releases).
const GRAIN: u64 = 2 << 20;
/// Page of large expandable segments (`kLargeBuffer`, all releases).
const PAGE: u64 = 20 << 20;
/// Times that room above the peak is tried.
const SLACKS: u32 = 8;
/// Limits tried above the one found, and below it.
const PROBES: u64 = 8;
/// Programs of more steps are bisected less finely, and with the usual course alone.
const LONG: usize = 800_000;
/// Parts of the range between need and what is reserved, to which a long program is bisected.
const COARSE: u64 = 128;
/// Passing need not grow with the limit; so many gaps are looked into.
const GAPS: usize = 3;

/// From how many bytes a program passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitsFrom {
    /// The smallest limit found that passes, new segments lying where they usually do. In bytes, to 2 MiB.
    pub bytes: u64,
    /// Every limit tried from here on passes, in every placement and timing. Above `bytes` where passing does not grow
    /// with the limit, or depends on where segments lie.
    pub reliable_bytes: u64,
    /// Peak reserved under the limit `bytes`.
    pub peak_reserved: u64,
    /// The other figures under that limit.
    pub stats: Stats,
    /// Limits tried.
    pub limits_tried: u32,
}

/// Which placements and timings a limit is tried with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// The usual course alone: [`FitsFrom::reliable_bytes`] knows of no other.
    Usual,
    /// All of them.
    All,
}

/// Finds the smallest limit under which `trial` passes, whatever its own limit: by bisection between what is requested
/// and what is reserved without a limit, and then by trying neighbours, since a larger limit need not pass where a
/// smaller one does. `None` if it fails without a limit.
///
/// Found to 2 MiB; in programs of more than 800,000 steps to a 128th of the range, without trying other placements.
///
/// About 30 limits are tried by one replay each, and as many again with the other placements and timings, if they matter.
pub fn smallest_limit(trial: &Trial<'_>, members: Members) -> Option<FitsFrom> {
    let is_long = trial.program.ops.len() > LONG;
    let ensemble = Ensemble::new(trial, if is_long { Members::Usual } else { members });
    let free: Vec<Outcome> = ensemble.members.par_iter().map(|&m| ensemble.run(None, m)).collect();
    if free[0].first_failure.is_some() {
        return None;
    }
    // Without a limit blocks wait for other streams that a retry would not wait for, and are larger than asked for.
    let needed = free[0].stats.requested.peak.min(free[0].stats.allocated.peak) / 2 / GRAIN * GRAIN;
    let peak = |outcomes: &[Outcome]| {
        outcomes.iter().map(|o| o.stats.reserved.peak).max().unwrap_or(0).div_ceil(GRAIN).saturating_mul(GRAIN)
    };
    let span = peak(&free[..1]).saturating_sub(needed);
    let grain = if is_long { (span / COARSE).max(GRAIN) / GRAIN * GRAIN } else { GRAIN };
    let mut usual = Search { ensemble: &ensemble, members: 1, grain, tried: 0 };
    let top = usual.passing_from(peak(&free[..1]))?;
    let lowest = usual.bisect(needed.saturating_sub(GRAIN), top);
    let found = usual.close_gaps(lowest, top);
    let bytes = usual.lowest_passing(lowest, needed).unwrap_or(lowest);
    let mut all = Search { ensemble: &ensemble, members: ensemble.members.len(), grain, tried: 0 };
    let mut firm = found;
    if all.members > 1 {
        let top = all.passing_from(peak(&free).max(found))?;
        if !all.passes(found) {
            firm = all.bisect(found, top);
        }
        firm = all.close_gaps(firm, top);
    }
    let under = ensemble.run(Some(bytes), ensemble.members[0]);
    let peak_reserved = under.stats.reserved.peak;
    let limits_tried = usual.tried + all.tried;
    Some(FitsFrom { bytes, reliable_bytes: firm, peak_reserved, stats: under.stats, limits_tried })
}

/// A trial with its placements and timings.
struct Ensemble<'a> {
    trial: &'a Trial<'a>,
    early: Option<Program>,
    late: Option<Program>,
    /// The usual course first.
    members: Vec<(Timing, Placement)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timing {
    AsRecorded,
    Early,
    Late,
}

impl<'a> Ensemble<'a> {
    fn new(trial: &'a Trial<'a>, wanted: Members) -> Self {
        let is_alone = wanted == Members::Usual || trial.settings.expandable_segments;
        let placements = if is_alone { &Placement::ENSEMBLE[..1] } else { &Placement::ENSEMBLE };
        let mut members: Vec<(Timing, Placement)> = placements.iter().map(|&p| (Timing::AsRecorded, p)).collect();
        let has_pending = trial.program.has_pending && wanted == Members::All;
        if has_pending {
            members.extend([(Timing::Early, Placement::USUAL), (Timing::Late, Placement::USUAL)]);
        }
        Self {
            trial,
            early: has_pending.then(|| trial.program.with_early_completions()),
            late: has_pending.then(|| trial.program.with_late_completions()),
            members,
        }
    }

    fn run(&self, limit: Option<u64>, (timing, placement): (Timing, Placement)) -> Outcome {
        let edited = match timing {
            Timing::AsRecorded => None,
            Timing::Early => self.early.as_ref(),
            Timing::Late => self.late.as_ref(),
        };
        let t = self.trial;
        let scenario = Scenario {
            model: t.model,
            settings: &t.settings,
            limit,
            limit_kind: t.limit_kind,
            start: t.start,
            placement,
            until: t.until,
        };
        simulate(edited.unwrap_or(t.program), &scenario)
    }
}

/// A search for a limit under which the first few members pass.
struct Search<'a> {
    ensemble: &'a Ensemble<'a>,
    members: usize,
    /// Limits are told apart to this many bytes.
    grain: u64,
    tried: u32,
}

impl Search<'_> {
    fn is_passed(&self, limit: u64) -> bool {
        let members = &self.ensemble.members[..self.members];
        members.par_iter().all(|&m| self.ensemble.run(Some(limit), m).first_failure.is_none())
    }

    fn passes(&mut self, limit: u64) -> bool {
        self.tried += 1;
        self.is_passed(limit)
    }

    /// A limit from `peak` on that passes: that of what is reserved without a limit, unless expandable segments are
    /// checked for more than they then map.
    fn passing_from(&mut self, peak: u64) -> Option<u64> {
        let slack = (0..SLACKS).map(|k| if k == 0 { 0 } else { PAGE << (k - 1) });
        slack.map(|s| peak.saturating_add(s)).find(|&limit| self.passes(limit))
    }

    /// The smallest limit above `fails` up to `passes` that passes, by bisection.
    fn bisect(&mut self, mut fails: u64, mut passes: u64) -> u64 {
        while passes.saturating_sub(fails) > self.grain {
            let middle = (fails + (passes - fails) / 2).div_ceil(GRAIN) * GRAIN;
            let middle = if middle >= passes { fails + GRAIN } else { middle };
            if self.passes(middle) {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        passes
    }

    /// The limit above `found` from which on none of those tried fails.
    fn close_gaps(&mut self, mut found: u64, top: u64) -> u64 {
        let (gaps, probes) = if self.grain > GRAIN { (1, PROBES / 2) } else { (GAPS, PROBES) };
        for _ in 0..gaps {
            let near = (0..probes / 2).map(|k| found + (self.grain << (2 * k)));
            let spread = (1..probes).map(|k| (found + top.saturating_sub(found) / probes * k) / GRAIN * GRAIN);
            let mut probes: Vec<u64> = near.chain(spread).filter(|&p| p > found && p < top).collect();
            probes.sort_unstable();
            probes.dedup();
            self.tried += probes.len() as u32;
            let Some(fails) = probes.into_par_iter().filter(|&p| !self.is_passed(p)).max() else { break };
            found = self.bisect(fails, top);
        }
        found
    }

    /// The smallest limit that passes of some below `found`.
    fn lowest_passing(&mut self, found: u64, needed: u64) -> Option<u64> {
        let probes = if self.grain > GRAIN { PROBES / 2 } else { PROBES };
        let spread = (1..probes).map(|k| (needed + found.saturating_sub(needed) / probes * k) / GRAIN * GRAIN);
        let near = (1..probes / 2).map(|k| found.saturating_sub(self.grain << k));
        let mut probes: Vec<u64> = spread.chain(near).filter(|&p| p >= needed && p < found).collect();
        probes.sort_unstable();
        probes.dedup();
        self.tried += probes.len() as u32;
        probes.into_par_iter().filter(|&p| self.is_passed(p)).min()
    }
}
