//! Graphs that are kept: whether what accumulates is one, and what made it.

use super::frames::{Owner, owner};
use super::growth::MIN_CALLS;
use super::ledger::Ledger;
use super::total;
use hashbrown::HashMap;
use whyoom_snapshot::{Action, StackId, StrId};

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

/// Whether a backward pass comes after most of `runs` before another forward pass does. A validation's calls are
/// followed by forward passes only, its own or those of the next training step.
pub(super) fn graphs_of(ledger: &Ledger<'_>, event: u32, site: StackId, runs: &[(u32, u64)]) -> Option<GraphsOf> {
    /// Executions of the same line without survivors that are looked at.
    const OTHERS: usize = 64;
    if !ledger.has_backward_before(event) {
        return None;
    }
    let kept: Vec<u32> = runs.iter().map(|r| r.0).collect();
    if followed(ledger, event, &kept) * 2 > kept.len() {
        return Some(GraphsOf::Training);
    }
    let is_kept = |run: u32| kept.binary_search(&run).is_ok();
    let all = ledger.runs.runs.iter().enumerate();
    let others = all.filter(|(_, r)| r.site == site && r.event < event).map(|(i, _)| i as u32);
    let others: Vec<u32> = others.filter(|run| !is_kept(*run)).take(OTHERS).collect();
    let is_broken_off = others.len() >= MIN_CALLS && followed(ledger, event, &others) * 2 > others.len();
    Some(if is_broken_off { GraphsOf::BrokenOff } else { GraphsOf::Evaluation })
}

/// Whether no backward pass has followed any execution of `site` before another forward pass did.
pub(super) fn is_never_followed(ledger: &Ledger<'_>, event: u32, site: StackId) -> bool {
    let all = ledger.runs.runs.iter().enumerate();
    let runs: Vec<u32> = all.filter(|(_, r)| r.site == site && r.event < event).map(|(i, _)| i as u32).collect();
    followed(ledger, event, &runs) == 0
}

/// What tells whether a backward pass follows an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Backward,
    /// A forward pass, by its run.
    Forward(u32),
}

/// How many of `runs` (ascending) a backward pass follows before another forward pass does. One pass over the events,
/// from the last, that keeps what comes next and what comes after that.
fn followed(ledger: &Ledger<'_>, event: u32, runs: &[u32]) -> usize {
    let events = &ledger.trace.device.events;
    let begin = |run: u32| ledger.runs.runs[run as usize].event;
    let (mut next, mut after): (Option<Tells>, Option<Tells>) = (None, None);
    let mut runs = runs.iter().rev().copied().peekable();
    let mut count = 0;
    for i in (0..event).rev() {
        if runs.peek().is_none() {
            break;
        }
        if events.action[i as usize] == Action::Alloc {
            let shape = ledger.shapes.of(events.stack[i as usize]);
            let tells = if !shape.has_python() || shape.in_autograd {
                Some(Tells::Backward)
            } else {
                shape.in_module.then(|| Tells::Forward(ledger.runs.of[ledger.trace.allocation_of[i as usize] as usize]))
            };
            if tells.is_some() && tells != next {
                (next, after) = (tells, next);
            }
        }
        while let Some(run) = runs.next_if(|&run| begin(run) >= i) {
            let first = if next == Some(Tells::Forward(run)) { after } else { next };
            count += usize::from(first == Some(Tells::Backward));
        }
    }
    count
}

/// Part of the kept bytes that an operation must have made to count as one of several.
const SEVERAL_PARTS: u64 = 20;

/// Graphs keep what several operations of each layer made; tensors that are kept on purpose come from one.
pub(super) fn is_graph(ledger: &Ledger<'_>, kept: &[u32], runs: &[(u32, u64)]) -> Option<bool> {
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

#[cfg(test)]
mod tests;
