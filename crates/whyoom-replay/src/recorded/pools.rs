//! Which private pool each allocation belongs to.
//!
//! Traces before 2.12 do not say. A segment has one pool for its whole life, and segments that are left at the
//! end name theirs; allocations in segments that vanished are known only by their neighbours, or by the replay
//! failing without a pool of their own.

use super::reservations;
use super::run::run;
use super::{Recorded, RecordedOptions};
use crate::trace::{NONE, Trace};
use std::collections::{BTreeMap, BTreeSet};
use whyoom_snapshot::{Action, PoolRef};

/// Events that trial replays may cost in all while looking for vanished pools.
const SEARCH_BUDGET: u64 = 40_000_000;
/// Pools that vanished without a trace, at most.
const MAX_FOUND: usize = 64;

/// Replays with the pools that are known, and looks for vanished ones where that does not reproduce the trace.
pub(crate) fn replay<'a>(trace: &'a Trace<'a>, options: RecordedOptions<'a>) -> Recorded {
    let is_private = |p: PoolRef| p != PoolRef::DEFAULT && p != PoolRef::UNKNOWN;
    let names_private = trace.device.segments.iter().any(|s| is_private(s.pool))
        || trace.device.events.pool.iter().any(|&p| is_private(p));
    let facts = names_private.then(|| Facts::new(trace));
    let plain = facts.as_ref().map(Facts::fill_between).unwrap_or_default();
    let first = run(trace, options, plain.clone(), false);
    if first.first_divergence.is_none() {
        return first;
    }
    let facts = facts.unwrap_or_else(|| Facts::new(trace));
    let start = if plain.is_empty() { vec![0; trace.allocations.len()] } else { plain };
    match (Search { trace, options, facts: &facts, spent: 0 }).find(start, &first) {
        Some(found) => run(trace, options, found, false),
        None => first,
    }
}

/// What the file tells of pools.
struct Facts {
    /// Pool per allocation, unknown where the file does not say.
    known: Vec<PoolRef>,
    /// Segment per allocation; all allocations of one segment have one pool. [`NONE`] where it is not told.
    segment: Vec<u32>,
    segments: usize,
    /// Allocations per stream in order of their events.
    by_stream: BTreeMap<u16, Vec<u32>>,
}

impl Facts {
    fn new(trace: &Trace<'_>) -> Self {
        let device = trace.device;
        let events = &device.events;
        let count = trace.allocations.len();
        let mut this = Self {
            known: vec![PoolRef::UNKNOWN; count],
            segment: vec![NONE; count],
            segments: 0,
            by_stream: BTreeMap::new(),
        };
        let mut live: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let reservations = reservations::reservations(device, trace.peak_reserved);
        let expandable_at = |address: u64| reservations::find(&reservations, address);
        this.segments = reservations.len();
        let made: BTreeSet<u64> =
            (0..events.len()).filter(|&i| events.action[i] == Action::SegmentAlloc).map(|i| events.addr[i]).collect();
        for s in device.segments.iter().filter(|s| !s.is_expandable && !made.contains(&s.address)) {
            let id = this.new_segment();
            live.insert(s.address, (s.total_size, id));
        }
        for i in 0..events.len() {
            let (addr, size) = (events.addr[i], events.size[i]);
            match events.action[i] {
                Action::SegmentAlloc => {
                    let id = this.new_segment();
                    live.insert(addr, (size, id));
                }
                Action::SegmentFree => {
                    live.remove(&addr);
                }
                Action::Alloc => {
                    let id = trace.allocation_of[i];
                    this.by_stream.entry(trace.allocations[id as usize].stream.0).or_default().push(id);
                    this.known[id as usize] = trace.pool_of(i);
                    this.segment[id as usize] =
                        expandable_at(addr).map_or_else(|| segment_at(&live, addr), |r| r as u32);
                }
                _ => {}
            }
        }
        for (id, a) in trace.allocations.iter().enumerate().filter(|(_, a)| a.alloc_event == NONE) {
            this.segment[id] = expandable_at(a.address).map_or_else(|| segment_at(&live, a.address), |r| r as u32);
        }
        let mut pool_of_segment = vec![PoolRef::UNKNOWN; this.segments];
        for (pool, reservation) in pool_of_segment.iter_mut().zip(&reservations) {
            *pool = reservation.pool;
        }
        for s in device.segments.iter().filter(|s| !s.is_expandable) {
            if let Some(&(_, id)) = live.get(&s.address) {
                pool_of_segment[id as usize] = s.pool;
            }
        }
        for id in 0..count {
            if this.known[id] == PoolRef::UNKNOWN
                && let Some(&pool) = pool_of_segment.get(this.segment[id] as usize)
            {
                this.known[id] = pool;
            }
        }
        this
    }

    fn new_segment(&mut self) -> u32 {
        self.segments += 1;
        (self.segments - 1) as u32
    }

    /// An allocation of unknown pool between two of one private pool, on one stream, belongs to that pool.
    fn fill_between(&self) -> Vec<u16> {
        let mut told: Vec<PoolRef> = self.known.clone();
        let mut pool_of_segment = vec![PoolRef::UNKNOWN; self.segments];
        loop {
            let mut changed = false;
            for ids in self.by_stream.values() {
                let mut last = PoolRef::DEFAULT;
                let mut open: Vec<u32> = Vec::new();
                for &id in ids {
                    let pool = told[id as usize];
                    if pool == PoolRef::UNKNOWN {
                        open.push(id);
                        continue;
                    }
                    if pool != PoolRef::DEFAULT && last == pool {
                        changed |= !open.is_empty();
                        for &between in &open {
                            told[between as usize] = pool;
                        }
                    }
                    open.clear();
                    last = pool;
                }
            }
            for (id, pool_told) in told.iter_mut().enumerate() {
                if let Some(of_segment) = pool_of_segment.get_mut(self.segment[id] as usize) {
                    match (*pool_told, *of_segment) {
                        (PoolRef::UNKNOWN, PoolRef::UNKNOWN) => {}
                        (PoolRef::UNKNOWN, pool) => {
                            *pool_told = pool;
                            changed = true;
                        }
                        (pool, PoolRef::UNKNOWN) => {
                            *of_segment = pool;
                            changed = true;
                        }
                        _ => {}
                    }
                }
            }
            if !changed {
                return told.iter().map(|p| if *p == PoolRef::UNKNOWN { 0 } else { p.0 }).collect();
            }
        }
    }

    /// Puts the allocations `ids`, and all others of their segments, into `pool`.
    fn assign(&self, pools: &mut [u16], ids: &[u32], pool: u16) {
        let mut touched = vec![false; self.segments];
        for &id in ids {
            pools[id as usize] = pool;
            if let Some(t) = touched.get_mut(self.segment[id as usize] as usize) {
                *t = true;
            }
        }
        for (id, p) in pools.iter_mut().enumerate() {
            if touched.get(self.segment[id] as usize) == Some(&true) && self.known[id] == PoolRef::UNKNOWN {
                *p = pool;
            }
        }
    }
}

fn segment_at(live: &BTreeMap<u64, (u64, u32)>, addr: u64) -> u32 {
    live.range(..=addr).next_back().filter(|(a, (size, _))| addr - **a < *size).map_or(NONE, |(_, (_, id))| *id)
}

struct Search<'a> {
    trace: &'a Trace<'a>,
    options: RecordedOptions<'a>,
    facts: &'a Facts,
    spent: u64,
}

impl Search<'_> {
    /// An assignment that reproduces the whole trace, or nothing: a partial success proves no pool.
    fn find(&mut self, start: Vec<u16>, first: &Recorded) -> Option<Vec<u16>> {
        let mut pools = start;
        let mut at = first.first_divergence.as_ref()?.event;
        let mut next_pool =
            pools.iter().copied().max().unwrap_or(0).max((self.trace.snapshot.pools.len() as u16).saturating_sub(1))
                + 1;
        for _ in 0..MAX_FOUND {
            let allocation = self.allocation_behind(at)?;
            let stream = self.trace.allocations[allocation as usize].stream.0;
            let ids = self.facts.by_stream.get(&stream)?;
            let position = ids.iter().position(|&id| id == allocation)?;
            let is_open = |id: u32| self.facts.known[id as usize] == PoolRef::UNKNOWN;
            if !is_open(allocation) {
                return None;
            }
            let from = ids[..position].iter().rposition(|&id| !is_open(id)).map_or(0, |p| p + 1);
            let to = ids[position..].iter().position(|&id| !is_open(id)).map_or(ids.len(), |p| position + p);
            let mut best: Option<(usize, Vec<u16>)> = None;
            for (range, pool) in [(position..to, next_pool), (from..to, next_pool), (position..to, 0)] {
                let mut trial = pools.clone();
                self.facts.assign(&mut trial, &ids[range], pool);
                if trial == pools {
                    continue;
                }
                let done = run(self.trace, self.options, trial.clone(), true);
                self.spent += done.matched;
                match done.first_divergence {
                    None => return Some(trial),
                    Some(d) if d.event > at && best.as_ref().is_none_or(|(b, _)| d.event > *b) => {
                        best = Some((d.event, trial));
                    }
                    Some(_) => {}
                }
                if self.spent > SEARCH_BUDGET {
                    return None;
                }
            }
            let (reached, trial) = best?;
            at = reached;
            pools = trial;
            next_pool += 1;
        }
        None
    }

    /// The request that event `at` belongs to.
    fn allocation_behind(&self, at: usize) -> Option<u32> {
        let events = &self.trace.device.events;
        let end = (at..events.len())
            .find(|&i| matches!(events.action[i], Action::Alloc | Action::Oom | Action::FreeRequested))?;
        (events.action[end] == Action::Alloc).then(|| self.trace.allocation_of[end])
    }
}
