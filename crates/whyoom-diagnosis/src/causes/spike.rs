//! `spike`: one step asks for far more than the others.
//!
//! # What it finds
//! A failing step that needs much more than any completed step did: an outlier batch, a larger evaluation batch.
//!
//! # Why it matters
//! The run is sized for its usual step; one input decides whether it lives.
//!
//! # How it decides
//! Over what was live when the step began, S + r of the failing step is at least half as much again as the highest
//! completed step, and beyond the highest by twice the range that completed steps span, of which there must be three
//! (the first, with its warm-up, does not count). `evaluation`: the line that made the bytes does not run in the
//! other steps. `outlier_step`: it does. `workspace`: the operation whose request failed asks for less at once, before
//! anything is let go, and the run goes on.
//!
//! # False positives
//! Sizes that vary widely reach new heights by chance; that is what the range is for. A climb step by step is no
//! spike.
//!
//! # What to do
//! Cap or bucket lengths, split that batch, give evaluation its own batch size and `torch.no_grad()`.

use super::{finding, in_bytes, request_in_words};
use crate::case::{Case, Failing};
use crate::explanation::{Cause, Confidence, Finding};
use crate::tables::culprits::Tally;
use crate::tables::ledger::Level;
use crate::tables::total;
use crate::words;
use whyoom_replay::NONE;
use whyoom_snapshot::{Action, StackId};

/// Sub-cause of a request that a library can do without.
pub(crate) const WORKSPACE: &str = "workspace";

/// Completed steps that it takes to know what is usual.
const MIN_STEPS: usize = 3;

/// The failing step against the completed ones, each over what was live when it began.
struct Contrast {
    floor: u64,
    own: u64,
    highest: u64,
    lowest: u64,
    usual: u64,
    steps: u64,
}

impl Contrast {
    fn of(case: &Case<'_>, failing: &Failing) -> Option<Self> {
        let event = failing.state.event as u32;
        let level = case.ledger.level_at(event)?;
        let mut rises: Vec<u64> = case.typical_levels(event).iter().map(Level::rise).collect();
        if rises.len() < MIN_STEPS {
            return None;
        }
        rises.sort_unstable();
        // What a leak left since the step began is the leak's.
        let leaked = case.growth.as_ref().map_or(0, |g| {
            let since = |id: &&u32| case.ledger.trace.allocations[**id as usize].alloc_event >= level.start;
            total(g.allocations.iter().filter(since).map(|&id| case.ledger.sizes[id as usize]))
        });
        let own = failing.needed().max(level.peak).saturating_sub(level.floor).saturating_sub(leaked);
        Some(Self {
            floor: level.floor,
            own,
            highest: *rises.last()?,
            lowest: *rises.first()?,
            usual: rises[rises.len() / 2],
            steps: rises.len() as u64,
        })
    }

    fn stands_out(&self) -> bool {
        let range = self.highest - self.lowest;
        self.own
            >= self.highest.saturating_add(self.highest / 2).max(self.highest.saturating_add(range.saturating_mul(2)))
            && self.own > self.highest
    }
}

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    workspace(case).or_else(|| step(case))
}

/// A workspace that a library asked for within one operation, was refused, and did without.
fn workspace(case: &Case<'_>) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    let events = &case.ledger.trace.device.events;
    let failed = failing.state.event;
    let stack = *events.stack.get(failed)?;
    // The same call asks again before the program has let anything go: no exception has left the operation.
    let next = (failed + 1..events.len())
        .find(|&i| matches!(events.action[i], Action::Alloc | Action::Oom | Action::FreeRequested))?;
    if events.action[next] == Action::FreeRequested || events.stack[next] != stack || !failing.went_on {
        return None;
    }
    let event = failed as u32;
    let mut tally = Tally::default();
    tally.add(stack, failing.state.request_bytes);
    let culprits = tally.culprits(&case.ledger);
    let line =
        culprits.first().map(|c| format!(" at {}", words::line(&c.function, &c.file, c.line))).unwrap_or_default();
    let others = match failing.count {
        0 | 1 => String::new(),
        n => format!(" {} requests failed in all.", words::count(n)),
    };
    let summary = format!(
        "{}. A library asked for it within one operation{line}, as cuDNN does for a workspace, and did without when it was \
         refused: the run went on.{others}",
        request_in_words(case, failing)
    );
    let evidence = vec![
        in_bytes(
            format!("{} were asked for and refused", words::bytes(failing.state.request_bytes)),
            failing.state.request_bytes,
            &[event],
        ),
        in_bytes(
            format!("the same operation went on with {}", words::bytes(events.size[next])),
            events.size[next],
            &[next as u32],
        ),
    ];
    Some(Finding {
        subcause: Some(WORKSPACE),
        evidence,
        culprits,
        ..finding(Cause::Spike, Confidence::Strong, summary, failing.state.request_bytes)
    })
}

fn step(case: &Case<'_>) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    let contrast = Contrast::of(case, failing).filter(Contrast::stands_out)?;
    let ledger = &case.ledger;
    let event = failing.state.event as u32;
    let level = *ledger.level_at(event)?;
    let own: Vec<u32> = ledger
        .alive_at(event)
        .into_iter()
        .filter(|&id| {
            let made = ledger.trace.allocations[id as usize].alloc_event;
            made != NONE && made >= level.start
        })
        .collect();
    let request_stack = ledger.trace.device.events.stack[failing.state.event];
    let mut tally = Tally::of(ledger, &own);
    tally.add_failed(request_stack, failing.state.request_bytes);
    let culprits = tally.culprits(ledger);
    let line =
        culprits.first().map(|c| format!(" at {}", words::line(&c.function, &c.file, c.line))).unwrap_or_default();
    let (usual, highest) = (words::bytes(contrast.usual), words::bytes(contrast.highest));
    let need = if usual == highest {
        format!("need {highest} each")
    } else {
        format!("usually need {usual} and never more than {highest}")
    };
    let summary = format!(
        "{}. This step asks for far more than the others{line}: it needs {} over the {} that were live when it began, where {} \
         completed steps {need}.",
        request_in_words(case, failing),
        words::bytes(contrast.own),
        words::bytes(contrast.floor),
        words::count(contrast.steps),
    );
    let evidence = vec![
        in_bytes(format!("this step needs {} over its beginning", words::bytes(contrast.own)), contrast.own, &[event]),
        in_bytes(format!("the highest of the others needs {}", words::bytes(contrast.highest)), contrast.highest, &[]),
        in_bytes(format!("the usual step needs {}", words::bytes(contrast.usual)), contrast.usual, &[]),
    ];
    let subcause = if is_line_of_other_steps(case, &own, level.start) { "outlier_step" } else { "evaluation" };
    Some(Finding {
        subcause: Some(subcause),
        evidence,
        culprits,
        ..finding(Cause::Spike, Confidence::Strong, summary, contrast.own)
    })
}

/// Whether the call that made most of `own` also runs before `start`.
fn is_line_of_other_steps(case: &Case<'_>, own: &[u32], start: u32) -> bool {
    let ledger = &case.ledger;
    let mut by_site: Vec<(StackId, u64)> = Vec::new();
    for &id in own {
        let Some(run) = ledger.runs.runs.get(ledger.runs.of[id as usize] as usize) else { continue };
        match by_site.iter_mut().find(|s| s.0 == run.site) {
            Some(site) => site.1 = site.1.saturating_add(ledger.sizes[id as usize]),
            None => by_site.push((run.site, ledger.sizes[id as usize])),
        }
    }
    let Some((site, _)) = by_site.into_iter().max_by_key(|(site, bytes)| (*bytes, u32::MAX - site.0)) else {
        return true;
    };
    ledger.runs.runs.iter().any(|r| r.site == site && r.event < start)
}

/// Why it is no spike, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    let contrast = Contrast::of(case, case.failing.as_ref()?).filter(|c| !c.stands_out())?;
    let (own, highest) = (words::bytes(contrast.own), words::bytes(contrast.highest));
    let is_usual = contrast.own <= contrast.highest;
    Some(if is_usual {
        format!("this step needs {own}, others up to {highest}")
    } else {
        format!("this step needs {own}, not far above the {highest} of others")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording, first_line};

    fn steps(sizes: &[u64]) -> Recording {
        let mut r = Recording::new(Some(200 * MIB));
        for &size in sizes {
            r.train_step(size * MIB);
        }
        r
    }

    #[test]
    fn one_step_far_above_the_others_is_a_spike() {
        let mut r = steps(&[8; 6]);
        r.alloc("11>5", 100 * MIB);
        assert!(r.try_alloc("11>6", 150 * MIB).is_none());
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.subcause), (Cause::Spike, Some("outlier_step")), "{first:?}");
        assert_eq!(first_line(&report), 11);
    }

    #[test]
    fn a_line_of_its_own_is_an_evaluation() {
        let mut r = steps(&[8; 6]);
        r.alloc("40>5", 100 * MIB);
        assert!(r.try_alloc("40>6", 150 * MIB).is_none());
        let report = r.explain();
        assert_eq!((report.findings[0].cause, report.findings[0].subcause), (Cause::Spike, Some("evaluation")));
        assert_eq!(first_line(&report), 40);
    }

    #[test]
    fn a_new_height_among_widely_varying_steps_is_none() {
        let mut r = steps(&[8, 20, 60, 12, 80, 30]);
        r.alloc("11>5", 60 * MIB);
        assert!(r.try_alloc("11>6", 150 * MIB).is_none());
        let report = r.explain();
        assert_ne!(report.findings[0].cause, Cause::Spike, "{:?}", report.findings[0]);
    }

    /// An operation whose workspace of 150 MiB is refused, and what it asks for next.
    fn refused(next: impl FnOnce(&mut Recording)) -> crate::explanation::DeviceReport {
        let mut r = steps(&[8; 6]);
        r.alloc("10", MIB);
        r.alloc("11>5", 100 * MIB);
        assert!(r.try_alloc("11>5", 150 * MIB).is_none());
        next(&mut r);
        r.explain()
    }

    #[test]
    fn a_workspace_that_a_library_does_without_is_told() {
        let report = refused(|r| {
            let less = r.alloc("11>5", 4 * MIB);
            r.free("11>5", less);
            r.alloc("11>6", MIB);
        });
        let first = &report.findings[0];
        assert_eq!((first.cause, first.subcause), (Cause::Spike, Some(WORKSPACE)), "{first:?}");
        assert!(first.summary.contains("did without when it was refused: the run went on"), "{}", first.summary);
        assert_eq!((first.bytes_explained, first_line(&report)), (150 * MIB, 11));
    }

    #[test]
    fn a_request_that_the_program_tries_again_is_no_workspace() {
        let is_told =
            |report: &crate::explanation::DeviceReport| report.findings.iter().any(|f| f.subcause == Some(WORKSPACE));
        // It lets something go first; another line asks; nobody does.
        let again = refused(|r| {
            let batch = r.alloc("20", MIB);
            r.free("20", batch);
            r.alloc("11>5", 4 * MIB);
        });
        assert!(!is_told(&again));
        let freed = refused(|r| {
            r.drop_last("11>5");
            r.alloc("11>5", 4 * MIB);
        });
        assert!(!is_told(&freed));
        assert!(!is_told(&refused(|_| ())));
    }
}
