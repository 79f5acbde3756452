//! What accumulates though it is let go in the end: queues that fill faster than they empty, and what only bursts free.
//!
//! Here every allocation of a kind (what one stack allocates) dies sooner or later, so that the early ones are gone:
//!
//! - a *backlog*: the oldest is dropped as new ones come, and the number alive still rises in the last third of the
//!   run. A queue of fixed length has stopped rising;
//! - a *tooth*: many were dropped at one moment, as a garbage collection does with reference cycles, and what has come
//!   since is more than any earlier tooth held.
//!
//! In both the survivors must come from several steps: what one step keeps is its own.

use super::growth::{Growth, MIN_CALLS};
use super::ledger::Ledger;
use hashbrown::HashMap;
use whyoom_replay::NONE;
use whyoom_snapshot::StackId;

/// Fewer allocations alive make no queue.
const FEWEST: usize = 12;
/// A line drops its temporaries before it has made so many more.
const AT_ONCE: usize = 3;
/// Moments at which the number alive is looked at.
const MOMENTS: usize = 9;

/// How something that is let go in the end accumulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Filled faster than emptied.
    Backlog,
    /// Freed in bursts only.
    Bursts {
        /// Bursts so far.
        bursts: u64,
        /// Allocations that the largest of them freed, and those that wait for the next.
        largest: u64,
        waiting: u64,
    },
}

/// Finds what has accumulated by `event`. Linear in the allocations.
pub(crate) fn find(ledger: &Ledger<'_>, event: u32) -> Option<Growth> {
    let allocations = &ledger.trace.allocations;
    let mut alive: HashMap<StackId, Vec<u32>> = HashMap::new();
    for id in ledger.alive_at(event) {
        let a = &allocations[id as usize];
        let shape = ledger.shapes.of(a.stack);
        if a.alloc_event != NONE && shape.call != StackId::EMPTY && !shape.in_optimizer && !ledger.is_private(id) {
            alive.entry(a.stack).or_default().push(id);
        }
    }
    alive.retain(|_, ids| ids.len() >= FEWEST && spans_steps(ledger, ids));
    if alive.is_empty() {
        return None;
    }
    let mut made: HashMap<StackId, Vec<u32>> = HashMap::new();
    for (id, a) in allocations.iter().enumerate() {
        if a.alloc_event < event && alive.contains_key(&a.stack) {
            made.entry(a.stack).or_default().push(id as u32);
        }
    }
    let mut found: Vec<(StackId, Queue, Vec<u32>)> = Vec::new();
    for (stack, kept) in alive {
        let Some(made) = made.get(&stack) else { continue };
        if let Some(queue) = bursts(ledger, event, made, &kept).or_else(|| backlog(ledger, event, made, &kept)) {
            found.push((stack, queue, kept));
        }
    }
    found.sort_unstable_by_key(|(stack, _, kept)| (u64::MAX - ledger.sum(kept), stack.0));
    let (stack, queue, main) = found.first()?;
    let same = |q: &Queue| matches!(q, Queue::Backlog) == matches!(queue, Queue::Backlog);
    let mut all: Vec<u32> = found.iter().filter(|f| same(&f.1)).flat_map(|f| &f.2).copied().collect();
    all.sort_unstable();
    let mut runs: Vec<u32> = main.iter().map(|&id| ledger.runs.of[id as usize]).filter(|r| *r != NONE).collect();
    runs.dedup();
    // A loop of one line is one run: then each allocation is a call.
    let calls = if runs.len() >= MIN_CALLS { runs.len() } else { main.len() } as u64;
    let at = |id: Option<&u32>| id.map_or(event, |id| allocations[*id as usize].alloc_event);
    let bytes = ledger.sum(&all);
    Some(Growth {
        event,
        bytes,
        site: *stack,
        calls,
        calls_made: calls.max(made.get(stack).map_or(0, |m| m.len() as u64)),
        bytes_per_call: bytes / calls.max(1),
        first_event: at(main.first()),
        last_event: at(main.last()),
        steps: distinct_steps(ledger, main) as u64,
        is_graph: Some(false),
        graphs_of: None,
        is_going_on: true,
        queue: Some(*queue),
        allocations: all,
    })
}

fn distinct_steps(ledger: &Ledger<'_>, ids: &[u32]) -> usize {
    let step = |id: &u32| ledger.steps.of(ledger.trace.allocations[*id as usize].alloc_event);
    let mut steps: Vec<u64> = ids.iter().filter_map(step).collect();
    steps.dedup();
    steps.len()
}

fn spans_steps(ledger: &Ledger<'_>, ids: &[u32]) -> bool {
    distinct_steps(ledger, ids) >= MIN_CALLS
}

/// Allocations of a kind that were alive together and dropped before the next of the kind was made.
fn bursts(ledger: &Ledger<'_>, event: u32, made: &[u32], kept: &[u32]) -> Option<Queue> {
    let a = |id: u32| &ledger.trace.allocations[id as usize];
    // How many had been made when each was dropped: what shares the number went at one moment.
    let mut dropped: Vec<(usize, usize)> = Vec::new();
    for (i, &id) in made.iter().enumerate().filter(|(_, id)| a(**id).free_event < event) {
        dropped.push((made.partition_point(|&other| a(other).alloc_event < a(id).free_event), i));
    }
    dropped.sort_unstable();
    // What the same line drops at once are its temporaries.
    let is_burst = |group: &&[(usize, usize)]| group.first().is_some_and(|(moment, i)| *moment > i + AT_ONCE);
    let groups: Vec<&[(usize, usize)]> = dropped.chunk_by(|a, b| a.0 == b.0).filter(is_burst).collect();
    // All that is alive must be younger than the last burst, or the bursts are of other things.
    let since = groups.last()?.first()?.0;
    let younger = kept.iter().filter(|&&id| a(id).alloc_event > a(made[since - 1]).alloc_event).count();
    let all: usize = groups.iter().map(|g| g.len()).sum();
    if younger * 10 < kept.len() * 9 || all < FEWEST {
        return None;
    }
    let largest = groups.iter().max_by_key(|g| g.len())?;
    let in_bursts: usize = groups.iter().map(|g| g.len()).filter(|n| *n >= MIN_CALLS && n * 4 >= largest.len()).sum();
    let is_all = in_bursts * 10 >= all * 9;
    let is_more = kept.len() * 4 >= largest.len() * 5;
    // A step frees its own in one go.
    let ids: Vec<u32> = largest.iter().map(|&(_, i)| made[i]).collect();
    let of_steps = ids.len() >= FEWEST / 2 && spans_steps(ledger, &ids);
    (is_all && is_more && of_steps).then(|| Queue::Bursts {
        bursts: groups.iter().filter(|g| g.len() * 4 >= largest.len()).count() as u64,
        largest: largest.len() as u64,
        waiting: kept.len() as u64,
    })
}

/// Whether the number alive has risen all along, and still does.
fn backlog(ledger: &Ledger<'_>, event: u32, made: &[u32], kept: &[u32]) -> Option<Queue> {
    let a = |id: u32| &ledger.trace.allocations[id as usize];
    let (first, last) = (a(*made.first()?).alloc_event, event);
    let moments: Vec<u32> =
        (1..=MOMENTS).map(|i| first + ((u64::from(last - first) * i as u64) / MOMENTS as u64) as u32).collect();
    let alive: Vec<usize> = moments.iter().map(|&m| made.iter().filter(|&&id| a(id).is_live_at(m)).count()).collect();
    let end = kept.len();
    let rises = alive.windows(2).all(|w| w[1] * 10 >= w[0] * 9);
    // The last third adds at least half of an even share.
    let still = (end - alive[MOMENTS * 2 / 3 - 1].min(end)) * 6 >= end;
    let from_little = alive[0] * 3 <= end;
    let is_emptied = made.len() > kept.len() + FEWEST / 2;
    (rises && still && from_little && is_emptied).then_some(Queue::Backlog)
}

#[cfg(test)]
mod tests;
