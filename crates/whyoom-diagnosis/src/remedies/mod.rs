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

use crate::case::Case;
use crate::explanation::{Remedy, RemedyOutcome};
use whyoom_allocator::{Model, Settings};
use whyoom_replay::{Placement, Program, Scenario, Start, Trial, Until, simulate};

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

/// What was tried, and what of it the causes need.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Best first.
    pub(crate) remedies: Vec<Remedy>,
    /// Index of the default settings among them, where others are in force.
    pub(crate) default: Option<usize>,
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

    /// Largest room under the limit that a setting leaves; `None` if none passes.
    pub(crate) fn best_headroom(&self) -> Option<(&Remedy, u64)> {
        let mut passing = self.remedies.iter().filter(|r| r.kind == "setting" && r.outcome == RemedyOutcome::Passes);
        passing.find_map(|r| r.headroom_bytes.map(|h| (r, h)))
    }
}

/// Tries every proposal for `case`.
pub(crate) fn try_them(case: &Case<'_>, model: Model) -> Tried {
    let mut proposals = setting::propose(case, model.release);
    proposals.extend(call::propose(case));
    proposals.extend(code::propose(case));
    proposals.extend(workload::propose(case));
    proposals.extend(environment::propose(case));
    let until = case.failing.map_or(Until::FirstFailure, |f| Until::FirstFailureOrEvent(f.state.event as u32));
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
    let control_passes = runs::control_passes(case, model, until);
    let tried = runs::run(case, &trials);
    let at_high_end = runs::at_high_end(case, &trials, &tried);
    let mut ranked: Vec<(outcome::Rank, usize, Remedy)> = Vec::with_capacity(proposals.len());
    for (i, ((proposal, tried), high)) in proposals.into_iter().zip(&tried).zip(at_high_end).enumerate() {
        let remedy = outcome::remedy(case, proposal, tried, high, control_passes);
        ranked.push((outcome::rank(&remedy), i, remedy));
    }
    ranked.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let remedies: Vec<Remedy> = ranked.into_iter().map(|r| r.2).collect();
    let default = remedies.iter().position(|r| r.id == setting::DEFAULT_ID);
    Tried { remedies, default, without_waiting: without_waiting(case, model) }
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
fn effective(case: &Case<'_>, settings: &Settings) -> Settings {
    let threshold = if case.limit.collects() { settings.garbage_collection_threshold } else { 0.0 };
    Settings { garbage_collection_threshold: threshold, ..settings.clone() }
}

/// A trace without beginning: expandable segments and limits are predicted best from an empty allocator, ordinary
/// growth without a limit from the layout that was there.
fn start(case: &Case<'_>, settings: &Settings) -> Start {
    let is_cold = case.recorded.started_empty || case.limit.low.is_some() || settings.expandable_segments;
    if is_cold { Start::Cold } else { Start::Warm }
}
