//! What failed attempts have left: an exception that is kept keeps its frames, and they what the attempt had made.
//!
//! An attempt is an execution of a line that a failed request ended. That what it made is still alive at a later failure
//! tells something if other executions of the line leave nothing, or if several attempts did the same. Left out is a
//! failed request of an operation that had already made something: a library may do without its workspace and go on.

use super::growth::{Growth, MIN_CALLS};
use super::ledger::Ledger;
use hashbrown::{HashMap, HashSet};
use whyoom_replay::NONE;
use whyoom_snapshot::{Action, StackId};

/// How a failed execution ended.
struct Attempt {
    /// Its last failed request.
    failed_at: u32,
    /// Stack of the failed request.
    stack: StackId,
    /// Last thing it made: event and stack.
    last: Option<(u32, StackId)>,
    kept: Vec<u32>,
}

/// What attempts before `event`, at which a request fails, have left alive.
pub(super) fn find(ledger: &Ledger<'_>, event: u32) -> Option<Growth> {
    let events = &ledger.trace.device.events;
    let mut attempts: HashMap<u32, Attempt> = HashMap::new();
    let failing = ledger.runs.at(event);
    for i in (0..event).filter(|&i| events.action[i as usize] == Action::Oom) {
        let Some(run) = ledger.runs.at(i).filter(|run| Some(*run) != failing) else { continue };
        let stack = events.stack[i as usize];
        let attempt = Attempt { failed_at: i, stack, last: None, kept: Vec::new() };
        attempts.insert(run, attempt);
    }
    if attempts.is_empty() {
        return None;
    }
    // Lines that left something otherwise leave it on purpose.
    let sites: HashSet<StackId> = attempts.keys().map(|&run| ledger.runs.runs[run as usize].site).collect();
    let (mut succeeded, mut left): (HashSet<u32>, HashSet<u32>) = (HashSet::new(), HashSet::new());
    for (id, a) in ledger.trace.allocations.iter().enumerate() {
        let run = ledger.runs.of[id];
        if a.alloc_event >= event || run == NONE || Some(run) == failing {
            continue;
        }
        let shape = ledger.shapes.of(a.stack);
        let is_kept = a.is_live_at(event) && !ledger.is_private(id as u32) && !shape.in_optimizer;
        if let Some(attempt) = attempts.get_mut(&run) {
            attempt.last = Some((a.alloc_event, a.stack));
            if is_kept && !shape.in_module_setup {
                attempt.kept.push(id as u32);
            }
        } else if sites.contains(&ledger.runs.runs[run as usize].site) {
            succeeded.insert(run);
            if is_kept {
                left.insert(run);
            }
        }
    }
    let is_ended = |a: &Attempt| a.last.is_some_and(|(at, stack)| at < a.failed_at && stack != a.stack);
    let made = attempts.len() as u64;
    attempts.retain(|_, a| is_ended(a) && !a.kept.is_empty());
    let is_contrast = succeeded.len() >= MIN_CALLS;
    if left.len() * 10 > succeeded.len() || attempts.len() < if is_contrast { 1 } else { 2 } {
        return None;
    }
    Some(summarise(ledger, event, &attempts, made))
}

fn summarise(ledger: &Ledger<'_>, event: u32, attempts: &HashMap<u32, Attempt>, made: u64) -> Growth {
    let mut runs: Vec<u32> = attempts.keys().copied().collect();
    runs.sort_unstable();
    let mut allocations: Vec<u32> = attempts.values().flat_map(|a| &a.kept).copied().collect();
    allocations.sort_unstable();
    let mut by_site: HashMap<StackId, u64> = HashMap::new();
    for (run, attempt) in attempts {
        let bytes = by_site.entry(ledger.runs.runs[*run as usize].site).or_default();
        *bytes = bytes.saturating_add(ledger.sum(&attempt.kept));
    }
    let site = by_site.iter().max_by_key(|(site, bytes)| (**bytes, u32::MAX - site.0));
    let begin = |run: Option<&u32>| run.map_or(event, |&run| ledger.runs.runs[run as usize].event);
    let mut steps: Vec<u64> = runs.iter().filter_map(|run| ledger.steps.of(begin(Some(run)))).collect();
    steps.dedup();
    let (bytes, calls) = (ledger.sum(&allocations), runs.len() as u64);
    Growth {
        event,
        bytes,
        site: site.map_or(StackId::EMPTY, |(site, _)| *site),
        calls,
        calls_made: made,
        bytes_per_call: bytes / calls.max(1),
        first_event: begin(runs.first()),
        last_event: begin(runs.last()),
        steps: steps.len() as u64,
        is_graph: None,
        graphs_of: None,
        is_going_on: true,
        queue: None,
        allocations,
    }
}

#[cfg(test)]
mod tests {
    use crate::explanation::{Cause, DeviceReport};
    use crate::testing::{MIB, Recording};

    /// Calls of a model whose layers take so much each; what fails is tried again with half as much. Failed attempts
    /// keep what they have made, or let it go.
    fn retries(keeps: bool, successes: usize) -> DeviceReport {
        let mut r = Recording::new(Some(200 * MIB));
        r.alloc("3@", 8 * MIB);
        for _ in 0..successes {
            r.train_step(16 * MIB);
        }
        for size in [80, 40, 20, 10, 5] {
            let mut made = Vec::new();
            let batch = r.try_alloc("20", MIB);
            for at in ["11>5", "11>6:relu", "11>7"] {
                let Some(tensor) = r.try_alloc(at, size * MIB) else { break };
                made.push(tensor);
            }
            if let Some(batch) = batch.filter(|_| !keeps) {
                r.free("21", batch);
                r.free_all("21", made);
            }
        }
        r.alloc("20", MIB / 2);
        // Too much beside what the attempts keep; without it, beside another 100 MiB.
        if !keeps {
            r.alloc("25", 100 * MIB);
        }
        assert!(r.try_alloc("11>5", 120 * MIB).is_none());
        r.explain()
    }

    #[test]
    fn what_two_attempts_have_left_is_of_exception_frames() {
        let report = retries(true, 4);
        let first = &report.findings[0];
        assert_eq!((first.cause, first.subcause), (Cause::Leak, Some("exception_frames")), "{first:?}");
        assert!(first.bytes_explained >= 160 * MIB, "{first:?}");
        assert!(retries(false, 4).findings.iter().all(|f| f.cause != Cause::Leak));
    }

    #[test]
    fn a_refused_workspace_is_no_attempt() {
        let mut r = Recording::new(Some(200 * MIB));
        for _ in 0..6 {
            r.train_step(16 * MIB);
        }
        for _ in 0..3 {
            let input = r.alloc("10", MIB);
            // The convolution's result, then a workspace that it does without.
            r.alloc("11>5", 40 * MIB);
            assert!(r.try_alloc("11>5", 300 * MIB).is_none());
            r.free("12", input);
        }
        assert!(r.try_alloc("11>6", 150 * MIB).is_none());
        let report = r.explain();
        assert!(report.findings.iter().all(|f| f.subcause != Some("exception_frames")), "{:?}", report.findings[0]);
    }
}
