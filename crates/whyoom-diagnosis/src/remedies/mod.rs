//! Remedies, one family a file, tried by replay.
//!
//! A family proposes; this module runs all proposals at once and says what came of each.

mod call;
mod code;
mod environment;
mod outcome;
mod runs;
mod setting;
mod workload;

use crate::bound;
use crate::case::{Case, WouldFail};
use crate::explanation::{Remedy, RemedyOutcome};
use rayon::prelude::*;
use whyoom_allocator::{Model, Settings, SizeRules, settings};
use whyoom_replay::{FitsFrom, Members, Placement, Program, Scenario, Start, Trial, Until, simulate};

/// Something to try.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    /// Stable id, for example `setting/expandable_segments:True`.
    pub(crate) id: String,
    /// `setting`, `call`, `code`, `workload`, `environment`.
    pub(crate) kind: &'static str,
    /// What to write.
    pub(crate) apply: String,
    /// Settings in force under it.
    pub(crate) settings: Settings,
    /// The program under it; `None` = as recorded.
    pub(crate) program: Option<Program>,
    /// How the result is known, where the trace has its beginning.
    pub(crate) basis: &'static str,
    /// What a person should know, whatever comes of it.
    pub(crate) note: Option<String>,
}

/// Programs of more steps are not bisected, and only settings and a call after each step are tried on them: each
/// replay costs a good part of the time that reading the file does.
const SHORT: usize = 400_000;

/// The recorded settings, replayed as the remedies are.
struct Control {
    /// From an empty allocator they get past the request that failed when recorded.
    passes: bool,
    /// Lowest and highest peak reserved over the placements, where nothing failed.
    peaks: Option<(u64, u64)>,
}

/// What several families look at.
struct Facts {
    /// The program is short enough for more than settings.
    is_short: bool,
    /// A request failed, or would under the limit given.
    fails: bool,
}

impl Facts {
    fn of(case: &Case<'_>) -> Self {
        let is_short = case.recorded.program.ops.len() <= SHORT;
        Self { is_short, fails: case.failing.is_some() || case.would_fail.is_some() }
    }
}

/// From how many bytes the run passes, or gets past the request that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fits {
    /// Under the recorded settings.
    pub(crate) recorded: Option<FitsFrom>,
    /// Under PyTorch's defaults.
    pub(crate) default: Option<FitsFrom>,
    /// Under the best of the settings tried.
    pub(crate) best: Option<FitsFrom>,
}

impl Fits {
    fn find(case: &Case<'_>, model: Model, remedies: &[Remedy]) -> Self {
        // Without the beginning, or where the model is off, no figure of this kind holds.
        if !case.is_exact || !case.recorded.started_empty {
            return Self::default();
        }
        let recorded = &case.in_force.settings;
        let default = Settings::default();
        let best = remedies.iter().find(|r| r.kind == "setting" && r.outcome == RemedyOutcome::Passes);
        let best = best.and_then(|r| settings::parse(&r.apply, model.release).ok()).map(|p| p.settings);
        let fits = |settings: &Settings| bound::fits(case, model, settings, Members::Usual);
        let mut wanted: Vec<&Settings> = vec![recorded];
        wanted.extend(Some(&default).filter(|d| *d != recorded));
        wanted.extend(best.as_ref().filter(|b| *b != recorded && **b != default));
        let found: Vec<Option<FitsFrom>> = wanted.par_iter().map(|s| fits(s)).collect();
        let of = |settings: &Settings| wanted.iter().position(|w| *w == settings).and_then(|i| found[i]);
        let (of_recorded, of_default) = (of(recorded), of(&default));
        let least = [of_recorded, of_default].into_iter().flatten().min_by_key(|f| f.bytes);
        Self { recorded: of_recorded, default: of_default, best: best.as_ref().map_or(least, of) }
    }
}

/// What was tried, and what of it the causes need.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Best first.
    pub(crate) remedies: Vec<Remedy>,
    /// Index of the default settings among them, where others are in force.
    pub(crate) default: Option<usize>,
    /// From how many bytes the run passes.
    pub(crate) fits: Fits,
    /// Peak reserved if no block had waited for another stream, where some did and nothing failed.
    pub(crate) without_waiting: Option<u64>,
}

impl Tried {
    /// The default settings, tried, where others are in force.
    pub(crate) fn default_settings(&self) -> Option<&Remedy> {
        self.default.map(|i| &self.remedies[i])
    }

    /// Lowest peak reserved that some setting reaches over the whole run.
    pub(crate) fn lowest_peak(&self) -> Option<u64> {
        let ran = self.remedies.iter().filter(|r| r.kind == "setting" && r.first_failure.is_none());
        ran.filter_map(|r| r.peak_reserved_range.map(|range| range.1)).min()
    }

    /// Whether some setting or call, which change only the layout, passes.
    pub(crate) fn some_layout_passes(&self) -> bool {
        let of_layout = |r: &&Remedy| matches!(r.kind, "setting" | "call");
        self.remedies.iter().filter(of_layout).any(|r| r.outcome == RemedyOutcome::Passes)
    }

    /// Largest room under the limit that a setting leaves; `None` if none passes.
    pub(crate) fn best_headroom(&self) -> Option<(&Remedy, u64)> {
        let mut passing = self.remedies.iter().filter(|r| r.kind == "setting" && r.outcome == RemedyOutcome::Passes);
        passing.find_map(|r| r.headroom_bytes.map(|h| (r, h)))
    }
}

/// Tries every proposal for `case`.
pub(crate) fn try_them(case: &Case<'_>, model: Model) -> Tried {
    // Where the model reproduces nothing of the recording, what it says of other settings is noise.
    if !case.is_exact && case.recorded.matched == 0 {
        return Tried::default();
    }
    let facts = Facts::of(case);
    let mut proposals = setting::propose(case, model.release);
    proposals.extend(call::propose(case, &facts));
    proposals.extend(code::propose(case, &facts));
    proposals.extend(workload::propose(case, &facts));
    proposals.extend(environment::propose(case));
    let until = until(case);
    let trials: Vec<Trial<'_>> = proposals
        .iter()
        .map(|p| Trial {
            program: p.program.as_ref().unwrap_or(&case.recorded.program),
            model,
            settings: effective(case, &p.settings),
            limit: case.limit.low,
            limit_kind: case.limit.kind,
            start: start(case, &p.settings),
            until,
        })
        .collect();
    let control = Control { passes: runs::control_passes(case, model, until), peaks: runs::control_peaks(case, model) };
    let tried = runs::run(case, &trials);
    let firm = runs::tighter_limits(case, &trials, &tried);
    let at_high_end = runs::at_high_end(case, &trials, &tried);
    let mut ranked: Vec<(outcome::Rank, usize, Remedy)> = Vec::with_capacity(proposals.len());
    for (i, ((proposal, tried), high)) in proposals.into_iter().zip(&tried).zip(at_high_end).enumerate() {
        let remedy = outcome::remedy(case, proposal, tried, high, &control, firm[i]);
        ranked.push((outcome::rank(&remedy), i, remedy));
    }
    ranked.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut remedies: Vec<Remedy> = ranked.into_iter().map(|r| r.2).collect();
    let fits = if facts.is_short { Fits::find(case, model, &remedies) } else { Fits::default() };
    if let Some(larger) = fits.recorded.and_then(|f| environment::remedy(case, &f)) {
        let behind = remedies.iter().take_while(|r| r.outcome == RemedyOutcome::Passes).count();
        remedies.insert(behind, larger);
    }
    let default = remedies.iter().position(|r| r.id == setting::DEFAULT_ID);
    Tried { remedies, default, fits, without_waiting: without_waiting(case, model) }
}

/// Where a replay has shown what it can: at the request that failed when recorded, or at the end.
pub(crate) fn until(case: &Case<'_>) -> Until {
    case.failing.map_or(Until::FirstFailure, |f| Until::FirstFailureOrEvent(f.state.event as u32))
}

/// The first request that fails when the recorded settings are replayed under the limit that was given.
pub(crate) fn would_fail(case: &Case<'_>, model: Model) -> Option<WouldFail> {
    if case.failing.is_some() || case.limit.source != "argument" {
        return None;
    }
    let limit = case.limit.low?;
    let settings = effective(case, &case.in_force.settings);
    let scenario = Scenario {
        model,
        settings: &settings,
        limit: Some(limit),
        limit_kind: case.limit.kind,
        start: start(case, &settings),
        placement: Placement::USUAL,
        until: Until::FirstFailure,
    };
    let outcome = simulate(&case.recorded.program, &scenario);
    let failure = outcome.first_failure?;
    let request_bytes = SizeRules::new(&model, &settings).round(failure.request_bytes);
    Some(WouldFail {
        limit,
        event: failure.event,
        malloc: failure.malloc,
        request_bytes,
        live: outcome.stats.active.current,
        reserved: outcome.stats.reserved.current,
    })
}

fn without_waiting(case: &Case<'_>, model: Model) -> Option<u64> {
    let program = &case.recorded.program;
    if !program.has_pending || case.failing.is_some() {
        return None;
    }
    let settings = effective(case, &case.in_force.settings);
    let scenario = Scenario {
        model,
        settings: &settings,
        limit: None,
        limit_kind: case.limit.kind,
        start: start(case, &settings),
        placement: Placement::USUAL,
        until: Until::End,
    };
    Some(simulate(&program.with_early_completions(), &scenario).stats.reserved.peak)
}

/// The collector looks at its threshold only where a memory fraction is set (`garbage_collect_cached_blocks`).
pub(crate) fn effective(case: &Case<'_>, settings: &Settings) -> Settings {
    let threshold = if case.limit.collects() { settings.garbage_collection_threshold } else { 0.0 };
    Settings { garbage_collection_threshold: threshold, ..settings.clone() }
}

/// A trace without beginning: expandable segments and limits are predicted best from an empty allocator, ordinary
/// growth without a limit from the layout that was there.
pub(crate) fn start(case: &Case<'_>, settings: &Settings) -> Start {
    let is_cold = case.recorded.started_empty || case.limit.low.is_some() || settings.expandable_segments;
    if is_cold { Start::Cold } else { Start::Warm }
}
