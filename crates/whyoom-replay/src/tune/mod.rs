//! Searches the allocator's settings for those under which a program reserves least.
//!
//! Candidates are made from the program's own sizes ([`candidates`]); all are replayed, first alone, then the best of
//! them in pairs. What reserves more and calls the driver more often than the reference is given up on the way. The best
//! are replayed again with every placement of segments, and of these the ones remain that nothing beats
//! ([`Tuned::pareto`]).

mod candidates;
mod pareto;
mod ranking;

use crate::counterfactual::{
    LimitKind, Outcome, Placement, Program, Scenario, Start, Trial, Tried, Until, simulate, try_all,
};
use candidates::Candidates;
use rayon::prelude::*;
use std::collections::HashSet;
use whyoom_allocator::{Model, Release, Settings, Stats, settings::canonical};

/// Candidates replayed again with the whole ensemble, at most.
const FINALISTS: usize = 16;

/// Settings, their string, and what came of them under the usual placement.
type Replayed = (Settings, String, Outcome);

/// What to search.
#[derive(Debug, Clone)]
pub struct TuneQuestion<'p> {
    /// The program, edited or as recorded.
    pub program: &'p Program,
    /// Allocator of this release.
    pub model: Model,
    /// Settings to compare with.
    pub reference: Settings,
    /// What may be reserved; `None` = unlimited.
    pub limit: Option<u64>,
    /// How the limit refuses.
    pub limit_kind: LimitKind,
    /// Whether a memory fraction is set, so that `garbage_collection_threshold` acts.
    pub collects: bool,
    /// State at the start, for ordinary settings; expandable segments start cold.
    pub start: Start,
    /// When to stop: [`Until::FirstFailure`] or [`Until::FirstFailureOrEvent`].
    pub until: Until,
    /// A release that must read the best settings too: the oldest that the recording can be of.
    pub oldest: Release,
    /// Candidates to try, at most.
    pub most: usize,
}

/// What settings cost in calls to the driver, up to the first failing request or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Price {
    /// `cudaMalloc`, `cudaFree`, map and unmap calls.
    pub driver_calls: u64,
    /// Allocations that had to be retried after cached memory was released.
    pub retries: u64,
    /// Times the device was waited for.
    pub synchronisations: u64,
}

impl Price {
    /// The price in `stats`.
    pub fn of(stats: &Stats) -> Self {
        Self {
            driver_calls: stats.driver_allocations + stats.driver_frees,
            retries: stats.retries,
            synchronisations: stats.synchronisations,
        }
    }
}

/// Settings that were tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Values in force.
    pub settings: Settings,
    /// The string that sets them in the release; empty for the defaults.
    pub text: String,
    /// What came of it.
    pub tried: Tried,
}

impl Candidate {
    /// Largest peak reserved over the placements and timings tried.
    pub fn peak_reserved(&self) -> u64 {
        self.tried.peak_reserved_range.1
    }

    /// What it costs.
    pub fn price(&self) -> Price {
        Price::of(&self.tried.outcome.stats)
    }
}

/// What a search came to.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// The settings to compare with.
    pub reference: Candidate,
    /// PyTorch's defaults.
    pub default: Candidate,
    /// Those that pass and that nothing beats in peak reserved, driver calls and retries; least reserved first.
    pub pareto: Vec<Candidate>,
    /// Index into `pareto` of the one to use.
    pub best: Option<usize>,
    /// Settings replayed.
    pub tried: usize,
    /// Of these, given up before their end: they reserved more, and called the driver more often, than the reference.
    pub given_up: usize,
    /// Of these, those with a failing request.
    pub failed: usize,
}

/// Searches. The same question gets the same answer on every machine; time is linear in the program's steps and in
/// [`TuneQuestion::most`].
pub fn tune(question: &TuneQuestion<'_>) -> Tuned {
    let search = Search { question, candidates: Candidates::new(question) };
    let default = search.once(&Settings::default(), question.until);
    let reference = search.once(&question.reference, question.until);
    let bar = search.bar(&[default, reference]);
    let mut seen: HashSet<String> = HashSet::new();
    let mut all: Vec<Replayed> = Vec::new();
    search.extend(&mut all, &mut seen, search.candidates.singles(), bar);
    while all.len() < question.most {
        let ranked = ranking::ranked(&all);
        let next = search.candidates.pairs(&ranked);
        let before = all.len();
        search.extend(&mut all, &mut seen, next, bar);
        if all.len() == before {
            break;
        }
    }
    let given_up = all.iter().filter(|(_, _, o)| o.was_given_up).count();
    let failed = all.iter().filter(|(_, _, o)| o.first_failure.is_some()).count();
    let mut finalists: Vec<(Settings, String)> = Vec::new();
    for (settings, text) in ranking::front(&all, default.stats.reserved.peak.max(reference.stats.reserved.peak))
        .into_iter()
        .chain(ranking::simplest(&all))
    {
        if finalists.len() < FINALISTS && !finalists.iter().any(|f| f.1 == text) {
            finalists.push((settings, text));
        }
    }
    let text_of = |s: &Settings| canonical(s, question.model.release).unwrap_or_default();
    finalists.push((Settings::default(), String::new()));
    finalists.push((question.reference.clone(), text_of(&question.reference)));
    let trials: Vec<Trial<'_>> = finalists.iter().map(|(s, _)| search.trial(s, question.until)).collect();
    let mut firm: Vec<Candidate> = finalists
        .into_iter()
        .zip(try_all(&trials))
        .map(|((settings, text), tried)| Candidate { settings, text, tried })
        .collect();
    let reference = firm.pop();
    let default = firm.last().cloned();
    let (Some(reference), Some(default)) = (reference, default) else { unreachable!("both were pushed") };
    // What maps more than the limit passes under a cap, which is compared with the size asked for; no card has such room.
    firm.retain(|c| question.limit.is_none_or(|limit| c.peak_reserved() <= limit));
    let usual = reference.peak_reserved().max(default.peak_reserved());
    let pareto = pareto::front(firm, usual);
    let is_read = |c: &Candidate| canonical(&c.settings, question.oldest).is_ok();
    let best = pareto::best(&pareto, usual, is_read);
    Tuned { reference, default, pareto, best, tried: all.len(), given_up, failed }
}

struct Search<'q, 'p> {
    question: &'q TuneQuestion<'p>,
    candidates: Candidates,
}

impl<'p> Search<'_, 'p> {
    fn trial(&self, settings: &Settings, until: Until) -> Trial<'p> {
        let q = self.question;
        let threshold = if q.collects { settings.garbage_collection_threshold } else { 0.0 };
        Trial {
            program: q.program,
            model: q.model,
            settings: Settings { garbage_collection_threshold: threshold, ..settings.clone() },
            limit: q.limit,
            limit_kind: q.limit_kind,
            start: if settings.expandable_segments { Start::Cold } else { q.start },
            until,
        }
    }

    fn once(&self, settings: &Settings, until: Until) -> Outcome {
        let t = self.trial(settings, until);
        let scenario = Scenario {
            model: t.model,
            settings: &t.settings,
            limit: t.limit,
            limit_kind: t.limit_kind,
            start: t.start,
            placement: Placement::USUAL,
            until,
        };
        simulate(t.program, &scenario)
    }

    /// Peak and price above which nothing can be among the best: those of what passes anyway.
    fn bar(&self, known: &[Outcome]) -> Until {
        let event = match self.question.until {
            Until::FirstFailureOrEvent(event) | Until::FirstFailureOrBeyond { event, .. } => event,
            Until::End | Until::FirstFailure => u32::MAX,
        };
        let passing = known.iter().filter(|o| o.first_failure.is_none());
        let best = passing.min_by_key(|o| (o.stats.reserved.peak, Price::of(&o.stats)));
        match best {
            Some(o) => Until::FirstFailureOrBeyond {
                event,
                reserved: o.stats.reserved.peak,
                driver_calls: Price::of(&o.stats).driver_calls,
            },
            None => self.question.until,
        }
    }

    /// Replays the new ones among `more`.
    fn extend(&self, all: &mut Vec<Replayed>, seen: &mut HashSet<String>, more: Vec<Settings>, until: Until) {
        let room = self.question.most.saturating_sub(all.len());
        let release = self.question.model.release;
        let new: Vec<(Settings, String)> = more
            .into_iter()
            .filter_map(|s| Some((s.clone(), canonical(&s, release).ok()?)))
            .filter(|(_, text)| seen.insert(text.clone()))
            .take(room)
            .collect();
        let outcomes: Vec<Outcome> = new.par_iter().map(|(s, _)| self.once(s, until)).collect();
        all.extend(new.into_iter().zip(outcomes).map(|((s, text), o)| (s, text, o)));
    }
}
