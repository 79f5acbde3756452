//! What accumulates: allocations that survive from many executions of the same line, up to now.
//!
//! Everything here is arithmetic over lifetimes. A *kind* is what one stack allocates (or, where autograd's threads
//! left no stack, one size after one line). A kind accumulates if executions all along the run, the early and the
//! recent ones, still have survivors:
//!
//! - warm-up (optimizer state, workspaces) has survivors of the first executions only;
//! - a saw-tooth, a queue of fixed length, and the activations of the step in progress, of the last ones only;
//! - a model that is built has survivors of lines that no step of the program lies between;
//! - an optimizer's state that is made late, for parameters that come late, is as much as they need;
//! - what CUDA graphs captured is kept by their pools and left out;
//! - a buffer that has filled has none of late, though its line runs on, or the line does not run any more.

use super::attempts;
use super::graph::{self, GraphsOf};
use super::ledger::Ledger;
use super::queue::{self, Queue};
use hashbrown::{HashMap, HashSet};
use whyoom_replay::{NONE, StepSource};
use whyoom_snapshot::StackId;

/// Survivors from fewer executions are not "many".
pub(crate) const MIN_CALLS: usize = 3;
/// The executions are looked at in up to this many parts, each of which must have survivors.
const MAX_PARTS: usize = 8;

/// What one stack allocates, or one size where there is no stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Stack(u32),
    Near(u32, u64),
}

#[derive(Debug, Default)]
struct Survivors {
    /// Runs with survivors, ascending, distinct.
    runs: Vec<u32>,
    /// All runs that allocated this kind, ascending, distinct.
    calls: Vec<u32>,
    allocations: Vec<u32>,
}

/// Survivors of many executions.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Event just before which all of them are alive.
    pub(crate) event: u32,
    /// The allocations, ascending.
    pub(crate) allocations: Vec<u32>,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Call site that left most.
    pub(crate) site: StackId,
    /// Executions of it that have survivors.
    pub(crate) calls: u64,
    /// Executions of it in all, up to the event.
    pub(crate) calls_made: u64,
    /// Bytes that one execution keeps, on average.
    pub(crate) bytes_per_call: u64,
    /// Events at which the first and the last of those executions began.
    pub(crate) first_event: u32,
    pub(crate) last_event: u32,
    /// Steps in which executions with survivors lie.
    pub(crate) steps: u64,
    /// What is kept looks like graphs (most of what forward passes made) or like chosen tensors; `None` = neither clearly.
    pub(crate) is_graph: Option<bool>,
    /// Where graphs are kept: what made them; `None` where no backward pass was seen.
    pub(crate) graphs_of: Option<GraphsOf>,
    /// Still going on at the event: the line has run lately.
    pub(crate) is_going_on: bool,
    /// How it accumulates, where it is let go in the end.
    pub(crate) queue: Option<Queue>,
}

/// Finds what has accumulated by `event`. Linear in the allocations.
pub(crate) fn find(ledger: &Ledger<'_>, event: u32) -> Option<Growth> {
    has_frees(ledger).then(|| kept(ledger, event, false).or_else(|| queue::find(ledger, event))).flatten()
}

/// Finds what has accumulated by `event`, at which a request fails: then counts too what would have been let go later.
pub(crate) fn find_at_failure(ledger: &Ledger<'_>, event: u32) -> Option<Growth> {
    if !has_frees(ledger) {
        return None;
    }
    let attempts = attempts::find(ledger, event);
    let kept = kept(ledger, event, true).or_else(|| queue::find(ledger, event));
    attempts.into_iter().chain(kept).max_by_key(|g| g.bytes)
}

/// Where frees are missing everything seems to survive.
fn has_frees(ledger: &Ledger<'_>) -> bool {
    let trace = ledger.trace;
    trace.contradictions.saturating_mul(100) <= trace.allocations.len() as u64
}

/// What early and late executions alike have left.
fn kept(ledger: &Ledger<'_>, event: u32, at_failure: bool) -> Option<Growth> {
    let running = ledger.runs.at(event);
    let mut kinds: HashMap<Kind, Survivors> = HashMap::new();
    for id in ledger.alive_at(event) {
        let run = ledger.runs.of[id as usize];
        if run == NONE || Some(run) == running || ledger.is_private(id) {
            continue;
        }
        let kind = kinds.entry(kind_of(ledger, id, run)).or_default();
        kind.allocations.push(id);
        if kind.runs.last() != Some(&run) {
            kind.runs.push(run);
        }
    }
    kinds.retain(|kind, survivors| {
        survivors.runs.sort_unstable();
        survivors.runs.dedup();
        survivors.runs.len() >= MIN_CALLS && !is_construction(ledger, *kind, &survivors.runs)
    });
    leave_out_needed_state(ledger, event, &mut kinds);
    if kinds.is_empty() {
        return None;
    }
    count_calls(ledger, event, running, &mut kinds);
    kinds.values_mut().for_each(|kind| leave_out_warm_up(ledger, kind));
    let mut kinds: Vec<(Kind, Survivors)> = kinds.into_iter().collect();
    kinds.sort_unstable_by_key(|(kind, _)| *kind);
    let (found, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|(_, k)| accumulates(&k.runs, &k.calls));
    // A kind that has stopped is a buffer that filled, unless it is one of whole graphs, which nobody keeps on purpose.
    let going_on = |(_, kind): &(Kind, Survivors)| is_going_on(ledger, event, &kind.runs);
    let (now, stopped): (Vec<_>, Vec<_>) = found.into_iter().partition(going_on);
    let growth = summarise(ledger, event, &now, true);
    let growth = growth.or_else(|| summarise(ledger, event, &stopped, false).filter(|g| g.is_graph == Some(true)));
    growth.or_else(|| at_failure.then(|| of_this_evaluation(ledger, event, others)).flatten())
}

/// Graphs that the calls of an evaluation in progress keep, though earlier evaluations let theirs go at their end: no
/// backward pass has ever followed a call of that line, so that none was needed.
fn of_this_evaluation(ledger: &Ledger<'_>, event: u32, mut kinds: Vec<(Kind, Survivors)>) -> Option<Growth> {
    /// Fewer calls may be the parts of one.
    const FEWEST: u64 = 5;
    kinds.retain(|(_, kind)| {
        let since = kind.calls.partition_point(|c| kind.runs.first().is_some_and(|first| c < first));
        kind.runs.len() * 10 >= (kind.calls.len() - since) * 9
    });
    let growth = summarise(ledger, event, &kinds, true)?;
    let is_evaluation = growth.is_graph == Some(true) && growth.graphs_of == Some(GraphsOf::Evaluation);
    (is_evaluation && growth.calls >= FEWEST && graph::is_never_followed(ledger, event, growth.site)).then_some(growth)
}

/// The first execution also makes what a library keeps for all (cuBLAS its workspace): sizes that no other execution
/// left, where the first left more than any other.
fn leave_out_warm_up(ledger: &Ledger<'_>, kind: &mut Survivors) {
    let run = |id: &u32| ledger.runs.of[*id as usize];
    let Some(&first) = kind.calls.first().filter(|first| kind.runs.first() == Some(*first)) else { return };
    let mut left: HashMap<u32, usize> = HashMap::new();
    for id in &kind.allocations {
        *left.entry(run(id)).or_default() += 1;
    }
    let most = left.iter().filter(|(run, _)| **run != first).map(|(_, n)| *n).max().unwrap_or(0);
    if left.get(&first).is_none_or(|n| *n <= most) {
        return;
    }
    let size = |id: &u32| ledger.sizes[*id as usize];
    let usual: HashSet<u64> = kind.allocations.iter().filter(|id| run(id) != first).map(size).collect();
    kind.allocations.retain(|id| run(id) != first || usual.contains(&size(id)));
    if !kind.allocations.iter().any(|id| run(id) == first) {
        kind.runs.retain(|r| *r != first);
    }
}

fn kind_of(ledger: &Ledger<'_>, id: u32, run: u32) -> Kind {
    let stack = ledger.trace.allocations[id as usize].stack;
    if ledger.shapes.of(stack).call == StackId::EMPTY {
        Kind::Near(ledger.runs.runs[run as usize].site.0, ledger.sizes[id as usize])
    } else {
        Kind::Stack(stack.0)
    }
}

/// State tensors that an optimizer may keep for one parameter: two averages and their maximum (`amsgrad`).
const STATE_TENSORS: usize = 3;

/// An optimizer makes its state when a parameter first has a gradient, which may be late (experts, layers that are
/// unfrozen). It accumulates only if there is more of it than the parameters of its size need.
fn leave_out_needed_state(ledger: &Ledger<'_>, event: u32, kinds: &mut HashMap<Kind, Survivors>) {
    let in_optimizer = |kind: &Kind| matches!(kind, Kind::Stack(s) if ledger.shapes.of(StackId(*s)).in_optimizer);
    if !kinds.keys().any(in_optimizer) {
        return;
    }
    // Per size: state tensors, and what may be their parameters.
    let mut sizes: HashMap<u64, (usize, usize)> = HashMap::new();
    for id in ledger.alive_at(event) {
        let a = &ledger.trace.allocations[id as usize];
        let shape = ledger.shapes.of(a.stack);
        let count = sizes.entry(a.bytes).or_default();
        if shape.in_optimizer {
            count.0 += 1;
        } else if a.alloc_event == NONE || shape.in_module_setup {
            count.1 += 1;
        }
    }
    let is_needed = |id: &u32| {
        let (state, parameters) = sizes.get(&ledger.trace.allocations[*id as usize].bytes).copied().unwrap_or_default();
        state <= parameters * STATE_TENSORS
    };
    kinds.retain(|kind, survivors| {
        if !in_optimizer(kind) {
            return true;
        }
        survivors.allocations.retain(|id| !is_needed(id));
        let run = |id: &u32| ledger.runs.of[*id as usize];
        survivors.runs = survivors.allocations.iter().map(run).collect();
        survivors.runs.sort_unstable();
        survivors.runs.dedup();
        survivors.runs.len() >= MIN_CALLS
    });
}

/// Whether it is the building of a model: modules that are moved to the device one after the other, with no steps of a
/// program between them.
fn is_construction(ledger: &Ledger<'_>, kind: Kind, runs: &[u32]) -> bool {
    let Kind::Stack(stack) = kind else { return false };
    if !ledger.shapes.of(StackId(stack)).in_module_setup {
        return false;
    }
    let step = |run: &u32| ledger.steps.of(ledger.runs.runs[*run as usize].event);
    let mut steps: Vec<Option<u64>> = runs.iter().map(step).collect();
    steps.dedup();
    ledger.steps.source != StepSource::Annotations || steps.len() < MIN_CALLS
}

/// Fills in all executions that allocated each kind before `event`, the one in progress apart.
fn count_calls(ledger: &Ledger<'_>, event: u32, running: Option<u32>, kinds: &mut HashMap<Kind, Survivors>) {
    // Most allocations are of other stacks: a flag per stack spares them the look-up.
    let highest = kinds.keys().map(|kind| if let Kind::Stack(stack) = *kind { stack as usize } else { 0 }).max();
    let mut is_wanted = vec![false; highest.unwrap_or(0) + 1];
    let mut wants_near = false;
    for kind in kinds.keys() {
        match *kind {
            Kind::Stack(stack) => is_wanted[stack as usize] = true,
            Kind::Near(..) => wants_near = true,
        }
    }
    for (id, a) in ledger.trace.allocations.iter().enumerate() {
        let run = ledger.runs.of[id];
        if a.alloc_event >= event || run == NONE || Some(run) == running {
            continue;
        }
        let has_call = ledger.shapes.of(a.stack).call != StackId::EMPTY;
        if if has_call { is_wanted.get(a.stack.0 as usize) == Some(&true) } else { wants_near }
            && let Some(kind) = kinds.get_mut(&kind_of(ledger, id as u32, run))
            && kind.calls.last() != Some(&run)
        {
            kind.calls.push(run);
        }
    }
    for kind in kinds.values_mut() {
        kind.calls.sort_unstable();
        kind.calls.dedup();
    }
}

/// Whether early and late executions alike have survivors.
fn accumulates(kept: &[u32], calls: &[u32]) -> bool {
    let parts = (kept.len() / MIN_CALLS).clamp(MIN_CALLS, MAX_PARTS);
    (0..parts).all(|part| {
        let (from, to) = (calls.len() * part / parts, calls.len() * (part + 1) / parts);
        let Some(&first) = calls.get(from) else { return false };
        let end = calls.get(to).copied().unwrap_or(u32::MAX);
        let here = kept.partition_point(|&r| r < end) - kept.partition_point(|&r| r < first);
        // A quarter of what an even spread would have.
        here * parts * 4 >= kept.len()
    })
}

/// Whether the last execution is no longer ago than the pauses between executions were.
fn is_going_on(ledger: &Ledger<'_>, event: u32, kept: &[u32]) -> bool {
    let begin = |run: u32| ledger.runs.runs[run as usize].event;
    let longest_pause = kept.windows(2).map(|w| begin(w[1]) - begin(w[0])).max().unwrap_or(0);
    let last = kept.last().map_or(0, |&run| begin(run));
    event.saturating_sub(last) <= longest_pause.saturating_mul(2)
}

fn summarise(ledger: &Ledger<'_>, event: u32, kinds: &[(Kind, Survivors)], is_going_on: bool) -> Option<Growth> {
    let mut allocations: Vec<u32> = kinds.iter().flat_map(|(_, k)| &k.allocations).copied().collect();
    allocations.sort_unstable();
    let site_of = |id: u32| ledger.runs.runs[ledger.runs.of[id as usize] as usize].site;
    let mut by_site: HashMap<StackId, u64> = HashMap::new();
    for &id in &allocations {
        let bytes: &mut u64 = by_site.entry(site_of(id)).or_default();
        *bytes = bytes.saturating_add(ledger.sizes[id as usize]);
    }
    let site = by_site.iter().max_by_key(|(site, bytes)| (**bytes, u32::MAX - site.0)).map(|x| *x.0)?;
    // Executions of the main site; what other sites left beside it is shared out evenly.
    let mut per_run: Vec<(u32, u64)> = Vec::new();
    for &id in allocations.iter().filter(|&&id| site_of(id) == site) {
        let (run, size) = (ledger.runs.of[id as usize], ledger.sizes[id as usize]);
        match per_run.last_mut() {
            Some(last) if last.0 == run => last.1 = last.1.saturating_add(size),
            _ => per_run.push((run, size)),
        }
    }
    let bytes = ledger.sum(&allocations);
    let calls = per_run.len() as u64;
    let begin = |run: u32| ledger.runs.runs[run as usize].event;
    let mut steps: Vec<u64> = per_run.iter().filter_map(|r| ledger.steps.of(begin(r.0))).collect();
    steps.dedup();
    let calls_made = kinds
        .iter()
        .filter(|(_, k)| k.allocations.first().is_some_and(|&id| site_of(id) == site))
        .map(|(_, k)| k.calls.len() as u64)
        .max();
    let is_graph = graph::is_graph(ledger, &allocations, &per_run);
    Some(Growth {
        event,
        is_graph,
        graphs_of: is_graph.filter(|g| *g).and_then(|_| graph::graphs_of(ledger, event, site, &per_run)),
        bytes,
        site,
        calls,
        calls_made: calls_made.unwrap_or(calls).max(calls),
        bytes_per_call: bytes / calls.max(1),
        first_event: per_run.first().map_or(event, |r| begin(r.0)),
        last_event: per_run.last().map_or(event, |r| begin(r.0)),
        steps: steps.len() as u64,
        is_going_on,
        queue: None,
        allocations,
    })
}

#[cfg(test)]
mod tests;
