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

use super::frames::{Owner, owner};
use super::ledger::Ledger;
use super::queue::{self, Queue};
use super::total;
use hashbrown::HashMap;
use whyoom_replay::{NONE, StepSource};
use whyoom_snapshot::{Action, StackId, StrId};

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

/// What made graphs that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphsOf {
    /// Executions that a backward pass follows.
    Training,
    /// Executions of a line that no backward pass follows.
    Evaluation,
    /// Executions that no backward pass follows, of a line that one follows otherwise.
    BrokenOff,
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
    let trace = ledger.trace;
    // Where frees are missing everything seems to survive.
    if trace.contradictions.saturating_mul(100) > trace.allocations.len() as u64 {
        return None;
    }
    kept(ledger, event).or_else(|| queue::find(ledger, event))
}

/// What early and late executions alike have left.
fn kept(ledger: &Ledger<'_>, event: u32) -> Option<Growth> {
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
    let going_on = |kind: &Survivors| is_going_on(ledger, event, &kind.runs);
    let mut found: Vec<(Kind, Survivors)> =
        kinds.into_iter().filter(|(_, kind)| accumulates(&kind.runs, &kind.calls)).collect();
    found.sort_unstable_by_key(|(kind, _)| *kind);
    // A kind that has stopped is a buffer that filled, unless it is one of whole graphs, which nobody keeps on purpose.
    let (now, stopped): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, kind)| going_on(kind));
    let growth = summarise(ledger, event, &now, true);
    growth.or_else(|| summarise(ledger, event, &stopped, false).filter(|g| g.is_graph == Some(true)))
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
    let is_graph = is_graph(ledger, &allocations, &per_run);
    Some(Growth {
        event,
        is_graph,
        graphs_of: is_graph.filter(|g| *g).and_then(|_| graphs_of(ledger, event, site, &per_run)),
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

/// Whether a backward pass comes after most of `runs` before another forward pass does. A validation's calls are
/// followed by forward passes only, its own or those of the next training step.
fn graphs_of(ledger: &Ledger<'_>, event: u32, site: StackId, runs: &[(u32, u64)]) -> Option<GraphsOf> {
    /// Executions of the same line without survivors that are looked at.
    const OTHERS: usize = 64;
    if !ledger.has_backward_before(event) {
        return None;
    }
    let followed = runs.iter().filter(|(run, _)| is_followed(ledger, event, *run)).count();
    if followed * 2 > runs.len() {
        return Some(GraphsOf::Training);
    }
    let is_kept = |run: u32| runs.binary_search_by_key(&run, |r| r.0).is_ok();
    let all = ledger.runs.runs.iter().enumerate();
    let others = all.filter(|(_, r)| r.site == site && r.event < event).map(|(i, _)| i as u32);
    let others: Vec<u32> = others.filter(|run| !is_kept(*run)).take(OTHERS).collect();
    let trained = others.iter().filter(|run| is_followed(ledger, event, **run)).count();
    let is_broken_off = others.len() >= MIN_CALLS && trained * 2 > others.len();
    Some(if is_broken_off { GraphsOf::BrokenOff } else { GraphsOf::Evaluation })
}

/// Whether a backward pass follows `run` before another forward pass does.
fn is_followed(ledger: &Ledger<'_>, event: u32, run: u32) -> bool {
    let actions = &ledger.trace.device.events.action;
    let stacks = &ledger.trace.device.events.stack;
    let begin = ledger.runs.runs[run as usize].event;
    let made = (begin..event).filter(|&i| actions[i as usize] == Action::Alloc);
    for i in made {
        let shape = ledger.shapes.of(stacks[i as usize]);
        if !shape.has_python() || shape.in_autograd {
            return true;
        }
        if shape.in_module && ledger.runs.of[ledger.trace.allocation_of[i as usize] as usize] != run {
            return false;
        }
    }
    false
}

/// Part of the kept bytes that an operation must have made to count as one of several.
const SEVERAL_PARTS: u64 = 20;

/// Graphs keep what several operations of each layer made; tensors that are kept on purpose come from one.
fn is_graph(ledger: &Ledger<'_>, kept: &[u32], runs: &[(u32, u64)]) -> Option<bool> {
    let in_runs = |id: u32| runs.binary_search_by_key(&ledger.runs.of[id as usize], |r| r.0).is_ok();
    let in_module = |id: u32| ledger.shapes.of(ledger.trace.allocations[id as usize].stack).in_module;
    let kept_bytes: u64 = ledger.sum(kept);
    // Bytes and number per operation: the function that made them, whichever layer called it.
    let mut operations: HashMap<Function, (u64, u64)> = HashMap::new();
    let (mut inside, mut number) = (0u64, 0u64);
    for &id in kept.iter().filter(|&&id| in_module(id)) {
        let size = ledger.sizes[id as usize];
        inside = inside.saturating_add(size);
        if in_runs(id) {
            number += 1;
            let operation = operations.entry(function_of(ledger, id)).or_default();
            *operation = (operation.0.saturating_add(size), operation.1 + 1);
        }
    }
    if inside.saturating_mul(2) < kept_bytes {
        return Some(false);
    }
    let calls = (runs.len() as u64).max(1);
    let in_each_layer = |(bytes, count): &&(u64, u64)| {
        bytes.saturating_mul(SEVERAL_PARTS) >= inside && *count >= calls.saturating_mul(2)
    };
    let layered = operations.values().filter(in_each_layer).count();
    let all = 0..ledger.runs.of.len() as u32;
    let made = total(all.filter(|&id| in_module(id) && in_runs(id)).map(|id| ledger.sizes[id as usize]));
    let per_call = number / calls;
    match () {
        () if number * 2 < calls * 3 => Some(false),
        () if layered >= 2 => Some(true),
        () if operations.len() == 1 => operations.keys().next().map(|f| is_graph_of_one(ledger, *f, inside, made)),
        () if operations.len() >= 3 && per_call >= 3 && inside.saturating_mul(5) >= made => Some(true),
        () if inside.saturating_mul(2) >= made => Some(true),
        () if inside.saturating_mul(10) < made => Some(false),
        () => None,
    }
}

/// Whether what one operation left is a graph, if it left several tensors a call. PyTorch's own operations that keep
/// every second of their results do that for the backward pass; what other code keeps it may keep on purpose (a cache of
/// keys and values), unless that is most of what a `forward` made.
fn is_graph_of_one(ledger: &Ledger<'_>, (function, file): Function, inside: u64, made: u64) -> bool {
    let strings = &ledger.trace.snapshot.strings;
    let (function, file) = (strings.get(StrId(function)), strings.get(StrId(file)));
    if owner(file, function) == Owner::Torch {
        // Activation functions keep their result and let the operand go: half, less what is rounded or in progress.
        return inside.saturating_mul(3) >= made;
    }
    function == "forward" && inside.saturating_mul(2) >= made
}

/// A function by name and file.
type Function = (u32, u32);

/// The innermost function of Python that allocated `id`.
fn function_of(ledger: &Ledger<'_>, id: u32) -> Function {
    let snapshot = ledger.trace.snapshot;
    let frames = snapshot.stacks.frames(ledger.trace.allocations[id as usize].stack);
    let is_python = |f: &whyoom_snapshot::Frame| {
        whyoom_replay::is_python_frame(snapshot.strings.get(f.file), snapshot.strings.get(f.function))
    };
    frames.map(|(_, f)| f).find(|f| is_python(f)).map_or((u32::MAX, u32::MAX), |f| (f.function.0, f.file.0))
}
