//! Many counterfactuals at once, each with a small ensemble of placements.

use super::habit::{LimitKind, Placement};
use super::program::Program;
use super::simulate::{Outcome, Scenario, Start, Until, simulate};
use rayon::prelude::*;
use whyoom_allocator::{Model, Settings};

/// One thing to try.
#[derive(Debug, Clone)]
pub struct Trial<'p> {
    /// The program, edited or as recorded.
    pub program: &'p Program,
    /// Allocator of this release.
    pub model: Model,
    /// Settings in force.
    pub settings: Settings,
    /// What may be reserved; `None` = unlimited.
    pub limit: Option<u64>,
    /// How the limit refuses.
    pub limit_kind: LimitKind,
    /// State at the start.
    pub start: Start,
    /// When to stop.
    pub until: Until,
}

/// What came of a [`Trial`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Under the usual placement.
    pub outcome: Outcome,
    /// Smallest and largest peak reserved over the members that got as far as the usual one.
    pub peak_reserved_range: (u64, u64),
    /// Members disagree in verdict, failing request or peak reserved.
    pub tie_sensitive: bool,
    /// Earlier or later completion of work on other streams changes verdict, failing request or peak reserved.
    pub timing_sensitive: bool,
    /// Placements and timings run, the usual one included.
    pub members: u32,
    /// Members that fail.
    pub failing_members: u32,
}

impl Tried {
    /// No member fails.
    pub fn passes_firmly(&self) -> bool {
        self.failing_members == 0
    }
    /// Every member fails.
    pub fn fails_firmly(&self) -> bool {
        self.failing_members == self.members
    }
}

/// How much work an ensemble may cost, in program steps over all members.
///
/// Above it only trials that pass get an ensemble, and a smaller one; counts are fixed by the program's length,
/// so the same input gives the same answer on every machine.
pub const ENSEMBLE_BUDGET: usize = 24_000_000;

/// Runs every trial, in parallel, and the ensembles that tell whether ties or timing decide.
pub fn try_all(trials: &[Trial<'_>]) -> Vec<Tried> {
    let usual: Vec<Outcome> = trials.par_iter().map(|t| run(t, t.program, Placement::USUAL)).collect();
    with_ensembles(trials, &usual, ENSEMBLE_BUDGET)
}

/// The ensembles of `trials`, whose outcomes under the usual placement are `usual`, one for each; `budget` is in program
/// steps over all members beside the usual one, of which a trial that passes gets at least one.
pub fn with_ensembles(trials: &[Trial<'_>], usual: &[Outcome], budget: usize) -> Vec<Tried> {
    let wants_ensemble = |t: &Trial<'_>| !t.settings.expandable_segments;
    let steps: usize = trials.iter().filter(|t| wants_ensemble(t)).map(|t| t.program.ops.len()).sum();
    let all = steps.saturating_mul(Placement::ENSEMBLE.len() - 1) <= budget;
    let passing: usize = trials
        .iter()
        .zip(usual)
        .filter(|(t, o)| wants_ensemble(t) && o.first_failure.is_none())
        .map(|(t, _)| t.program.ops.len())
        .sum();
    let others = if all {
        Placement::ENSEMBLE.len() - 1
    } else {
        (budget / passing.max(1)).clamp(1, Placement::ENSEMBLE.len() - 1)
    };
    // The members that differ most from the usual one come first when only some are run.
    let order = [5usize, 1, 4, 3, 2];
    let jobs: Vec<(usize, Member)> = trials
        .iter()
        .enumerate()
        .flat_map(|(i, t)| {
            let placements = if wants_ensemble(t) && (all || usual[i].first_failure.is_none()) { others } else { 0 };
            let members = order[..placements].iter().map(|&m| Member::Placed(Placement::ENSEMBLE[m]));
            let timings = t.program.has_pending.then_some([Member::Early, Member::Late]).into_iter().flatten();
            members.chain(timings).map(move |m| (i, m)).collect::<Vec<_>>()
        })
        .collect();
    let outcomes: Vec<(usize, Member, Outcome)> = jobs
        .into_par_iter()
        .map(|(i, member)| {
            let t = &trials[i];
            let outcome = match member {
                Member::Placed(p) => run(t, t.program, p),
                Member::Early => run(t, &t.program.with_early_completions(), Placement::USUAL),
                Member::Late => run(t, &t.program.with_late_completions(), Placement::USUAL),
            };
            (i, member, outcome)
        })
        .collect();
    let mut tried: Vec<Tried> = usual
        .iter()
        .map(|&outcome| {
            let peak = outcome.stats.reserved.peak;
            Tried {
                outcome,
                peak_reserved_range: (peak, peak),
                tie_sensitive: false,
                timing_sensitive: false,
                members: 1,
                failing_members: u32::from(outcome.first_failure.is_some()),
            }
        })
        .collect();
    for (i, member, outcome) in outcomes {
        let t = &mut tried[i];
        let differs = outcome.first_failure.map(|f| f.malloc) != t.outcome.first_failure.map(|f| f.malloc)
            || outcome.stats.reserved.peak != t.outcome.stats.reserved.peak;
        match member {
            Member::Placed(_) => t.tie_sensitive |= differs,
            Member::Early | Member::Late => t.timing_sensitive |= differs,
        }
        t.members += 1;
        t.failing_members += u32::from(outcome.first_failure.is_some());
        let peak = outcome.stats.reserved.peak;
        let (low, high) = t.peak_reserved_range;
        t.peak_reserved_range = (low.min(peak), high.max(peak));
    }
    tried
}

#[derive(Debug, Clone, Copy)]
enum Member {
    Placed(Placement),
    Early,
    Late,
}

fn run(trial: &Trial<'_>, program: &Program, placement: Placement) -> Outcome {
    simulate(
        program,
        &Scenario {
            model: trial.model,
            settings: &trial.settings,
            limit: trial.limit,
            limit_kind: trial.limit_kind,
            start: trial.start,
            placement,
            until: trial.until,
        },
    )
}
