//! The state of memory by address, moved literally by recorded events, forwards or backwards.
//!
//! Needs no model: it says what the recording says. It rebuilds the state before a trace that lost its beginning,
//! and stands in where the model and the recording part.

use crate::trace::{NONE, Trace};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use whyoom_allocator::{PlacedState, Region, RegionBlock, SMALL_REQUEST, SMALL_SEGMENT, Settings, SizeRules};
use whyoom_snapshot::{Action, BlockState, PoolRef};

/// One mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) state: PlacedState,
    /// Allocation, [`NONE`] where free.
    pub(crate) allocation: u32,
    /// Index into [`Layout::worlds`].
    pub(crate) world: u32,
}

/// A segment, or all mapped memory of one expandable pool and stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) is_expandable: bool,
    pub(crate) is_small: bool,
    pub(crate) stream: u16,
    pub(crate) pool: u16,
}

/// Mapped memory by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    pub(crate) ranges: BTreeMap<u64, Range>,
    pub(crate) worlds: Vec<World>,
    /// Index of each expandable world; a damaged file may have as many as segments.
    expandable: HashMap<World, u32>,
    /// Events that could not be applied.
    pub(crate) conflicts: u64,
    pub(crate) first_conflict: Option<(u32, &'static str)>,
}

/// Sizes and splitting rules in force, for carving blocks whose hand-out is not in the trace.
pub(crate) struct Rules<'a> {
    pub(crate) sizes: SizeRules,
    pub(crate) settings: &'a Settings,
}

impl Layout {
    /// The final state: the segments of the file.
    pub(crate) fn at_end(trace: &Trace<'_>) -> Self {
        let mut this = Self::default();
        let mut live = HashMap::new();
        for (id, a) in trace.allocations.iter().enumerate() {
            if a.completed_event == NONE {
                live.insert(a.address, id as u32);
            }
        }
        for segment in &trace.device.segments {
            let pool = match segment.pool {
                PoolRef::UNKNOWN => 0,
                p => p.0,
            };
            let world = this.world(World {
                is_expandable: segment.is_expandable,
                is_small: segment.is_small,
                stream: segment.stream.0,
                pool,
            });
            for block in &trace.device.blocks[segment.blocks.start as usize..segment.blocks.end as usize] {
                let state = match block.state {
                    BlockState::Allocated => PlacedState::Allocated,
                    BlockState::PendingFree => PlacedState::Pending,
                    BlockState::Free => PlacedState::Free,
                };
                let allocation =
                    if state == PlacedState::Free { NONE } else { live.get(&block.address).copied().unwrap_or(NONE) };
                let requested = block.requested_size.unwrap_or(block.size);
                this.ranges.insert(block.address, Range { size: block.size, requested, state, allocation, world });
            }
        }
        this
    }

    fn world(&mut self, world: World) -> u32 {
        // Adjacent segments must not merge, so each has a world of its own; expandable memory merges by address.
        let new = self.worlds.len() as u32;
        if world.is_expandable {
            let known = *self.expandable.entry(world).or_insert(new);
            if known != new {
                return known;
            }
        }
        self.worlds.push(world);
        new
    }

    fn conflict(&mut self, event: usize, what: &'static str) {
        self.conflicts += 1;
        self.first_conflict.get_or_insert((event as u32, what));
    }

    fn containing(&self, addr: u64) -> Option<(u64, Range)> {
        self.ranges.range(..=addr).next_back().map(|(a, r)| (*a, *r)).filter(|(a, r)| addr - a < r.size)
    }

    /// Makes the range at `addr` free and merges it with free neighbours of its world.
    fn release(&mut self, addr: u64) {
        let Some(mut range) = self.ranges.remove(&addr) else { return };
        let mut start = addr;
        range.state = PlacedState::Free;
        range.allocation = NONE;
        if let Some((a, r)) = self.ranges.range(..addr).next_back().map(|(a, r)| (*a, *r))
            && r.state == PlacedState::Free
            && r.world == range.world
            && a + r.size == start
        {
            self.ranges.remove(&a);
            start = a;
            range.size += r.size;
        }
        if let Some(r) = self.ranges.get(&(start + range.size)).copied()
            && r.state == PlacedState::Free
            && r.world == range.world
        {
            self.ranges.remove(&(start + range.size));
            range.size += r.size;
        }
        self.ranges.insert(start, range);
    }

    /// Cuts `[addr, addr + size)` out of the free range that contains it.
    fn cut(&mut self, free_start: u64, free: Range, addr: u64, size: u64) {
        self.ranges.remove(&free_start);
        if addr > free_start {
            self.ranges.insert(free_start, Range { size: addr - free_start, ..free });
        }
        let end = free_start + free.size;
        if addr + size < end {
            self.ranges.insert(addr + size, Range { size: end - addr - size, ..free });
        }
    }

    /// Undoes events `from..to` in reverse.
    pub(crate) fn rewind(&mut self, trace: &Trace<'_>, from: usize, to: usize, rules: &Rules<'_>) {
        for i in (from..to).rev() {
            self.undo(trace, i, rules);
        }
    }

    fn undo(&mut self, trace: &Trace<'_>, i: usize, rules: &Rules<'_>) {
        let events = &trace.device.events;
        let (addr, size) = (events.addr[i], events.size[i]);
        match events.action[i] {
            Action::Alloc => match self.ranges.get(&addr) {
                Some(r) if r.state != PlacedState::Free => self.release(addr),
                _ => self.conflict(i, "an allocation whose block is not there"),
            },
            Action::FreeCompleted => self.undo_free(trace, i, PlacedState::Pending, rules),
            Action::FreeRequested if !trace.has_completions => self.undo_free(trace, i, PlacedState::Allocated, rules),
            Action::FreeRequested => match self.ranges.get_mut(&addr) {
                Some(r) if r.state == PlacedState::Pending => {
                    r.state = PlacedState::Allocated;
                    r.requested = size;
                }
                _ => self.conflict(i, "a free whose block is not there"),
            },
            Action::SegmentAlloc | Action::SegmentMap => match self.containing(addr) {
                Some((start, r)) if r.state == PlacedState::Free && addr + size <= start + r.size => {
                    self.cut(start, r, addr, size);
                }
                _ => self.conflict(i, "memory from the driver that is not free before its first use"),
            },
            Action::SegmentFree | Action::SegmentUnmap => {
                let is_expandable = events.action[i] == Action::SegmentUnmap;
                let stream = events.stream[i].0;
                let is_small = if is_expandable {
                    self.nearest_expandable(addr, stream).unwrap_or(size == SMALL_SEGMENT)
                } else {
                    size == SMALL_SEGMENT
                };
                let world = self.world(World { is_expandable, is_small, stream, pool: 0 });
                if self.containing(addr).is_some() {
                    self.conflict(i, "memory given back that is still mapped");
                    return;
                }
                self.ranges
                    .insert(addr, Range { size, requested: 0, state: PlacedState::Free, allocation: NONE, world });
                self.release(addr);
            }
            Action::Oom | Action::Snapshot | Action::Annotate | Action::Other => {}
        }
    }

    /// Small or large, by the nearest expandable memory of the stream.
    fn nearest_expandable(&self, addr: u64, stream: u16) -> Option<bool> {
        let wanted = |r: &Range| {
            let world = &self.worlds[r.world as usize];
            (world.is_expandable && world.stream == stream).then_some(world.is_small)
        };
        let below = self.ranges.range(..addr).rev().take(4096).find_map(|(a, r)| wanted(r).map(|s| (addr - a, s)));
        let above = self.ranges.range(addr..).take(4096).find_map(|(a, r)| wanted(r).map(|s| (a - addr, s)));
        [below, above].into_iter().flatten().min_by_key(|x| x.0).map(|x| x.1)
    }

    /// Puts a freed block back. Its size is the rounded request, plus the slack that can have been left to it:
    /// in an ordinary large pool no block is smaller than 1 MiB, so a smaller gap belongs to the block on its left.
    fn undo_free(&mut self, trace: &Trace<'_>, i: usize, state: PlacedState, rules: &Rules<'_>) {
        let events = &trace.device.events;
        let (addr, requested) = (events.addr[i], events.size[i]);
        let Some((start, free)) = self.containing(addr).filter(|(_, r)| r.state == PlacedState::Free) else {
            self.conflict(i, "a free of memory that is not there");
            return;
        };
        let world = self.worlds[free.world as usize];
        let end = start + free.size;
        let rounded = rules.sizes.round(requested);
        let has_slack = !world.is_small && !world.is_expandable && !rules.settings.expandable_segments;
        let mut size = rounded.min(end - addr);
        if has_slack {
            let is_oversize = rules.settings.max_split_size.is_some_and(|m| rounded >= m) && addr == start;
            if is_oversize || end - addr - size <= SMALL_REQUEST {
                size = end - addr;
            }
        }
        self.cut(start, free, addr, size);
        if has_slack && addr > start && addr - start <= SMALL_REQUEST {
            let gap = addr - start;
            if let Some((left, owner)) = self.ranges.range_mut(..start).next_back()
                && *left + owner.size == start
                && owner.world == free.world
            {
                owner.size += gap;
                self.ranges.remove(&start);
            }
        }
        let allocation = trace.allocation_of[i];
        self.ranges.insert(addr, Range { size, requested, state, allocation, world: free.world });
    }

    /// The layout as regions to restore. `reservation_base` gives the base for an address of expandable memory,
    /// `length` the reservation length.
    pub(crate) fn regions(&self, reservation_base: impl Fn(u64) -> u64, length: u64) -> Vec<Region> {
        let mut segments: BTreeMap<(u32, u64), Region> = BTreeMap::new();
        for (&address, range) in &self.ranges {
            let world = self.worlds[range.world as usize];
            let base = if world.is_expandable { reservation_base(address) } else { 0 };
            let region = segments.entry((range.world, base)).or_insert_with(|| Region {
                pool: world.pool,
                is_small: world.is_small,
                stream: world.stream,
                reservation: world.is_expandable.then_some((base, length)),
                blocks: Vec::new(),
            });
            region.blocks.push(RegionBlock {
                address,
                size: range.size,
                requested: range.requested,
                state: range.state,
                tag: range.allocation,
            });
        }
        segments.into_values().collect()
    }
}
