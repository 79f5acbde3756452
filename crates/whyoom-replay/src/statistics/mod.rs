//! `torch.cuda.memory_stats()` at any event of a recording.
//!
//! Counted from the recorded events alone, beside the replay and not in it: a replay that is not asked for statistics pays
//! nothing. From the replay come only the sizes of blocks (a request can get up to 1 MiB more than it rounds to) and the
//! retries, which no event names.

mod places;
mod stat;

use crate::counterfactual::Op;
use crate::recorded::{Recorded, RecordedOptions};
use crate::trace::Trace;
use places::{Place, Places, SplitChange};
use whyoom_allocator::{PlacedState, Region, SMALL_REQUEST, SMALL_SEGMENT, SizeRules};
use whyoom_snapshot::Action;

pub use stat::{MemoryStats, PoolStat, Stat};

/// The statistics just after event `at` of `trace`, counted from its first event on; those of the start where `at` is
/// `None`. An event beyond the last one is the last one.
///
/// What was alive before a trace without beginning counts as allocated at its start. Time is linear in the events, less a
/// logarithm of the number of segments.
pub fn memory_stats(
    trace: &Trace<'_>,
    recorded: &Recorded,
    options: RecordedOptions<'_>,
    at: Option<usize>,
) -> MemoryStats {
    if trace.implausible.is_some() {
        return MemoryStats::default();
    }
    let mut count = Count::new(trace, recorded, options);
    let events = at.map_or(0, |at| at.saturating_add(1)).min(trace.device.events.len());
    for event in 0..events {
        count.event(event);
    }
    let is_seen = |event: &&u32| (**event as usize) < events;
    count.stats.num_alloc_retries = recorded.retry_events.iter().filter(is_seen).count() as u64;
    let program = &recorded.program;
    let calls = program.ops.iter().zip(&program.op_event).filter(|(op, _)| matches!(op, Op::EmptyCache));
    count.stats.num_sync_all_streams =
        count.stats.num_alloc_retries + calls.filter(|(_, event)| is_seen(event)).count() as u64;
    count.stats
}

/// The first event after which allocated bytes are at their peak; `None` where no event raises them above those of the
/// start.
pub fn peak_event(trace: &Trace<'_>, recorded: &Recorded, options: RecordedOptions<'_>) -> Option<usize> {
    trace.implausible.is_none().then_some(())?;
    let mut count = Count::new(trace, recorded, options);
    let (mut peak, mut at) = (count.stats.allocated_bytes.all.peak, None);
    for event in 0..trace.device.events.len() {
        count.event(event);
        let now = count.stats.allocated_bytes.all.peak;
        if now > peak {
            (peak, at) = (now, Some(event));
        }
    }
    at
}

/// A count under way.
struct Count<'a> {
    trace: &'a Trace<'a>,
    recorded: &'a Recorded,
    sizes: SizeRules,
    max_split: u64,
    places: Places,
    stats: MemoryStats,
}

impl<'a> Count<'a> {
    fn new(trace: &'a Trace<'a>, recorded: &'a Recorded, options: RecordedOptions<'_>) -> Self {
        let mut this = Self {
            trace,
            recorded,
            sizes: SizeRules::new(&options.model, options.settings),
            max_split: options.settings.max_split_size.unwrap_or(u64::MAX),
            places: Places::default(),
            stats: MemoryStats::default(),
        };
        for region in &recorded.program.initial_regions {
            this.region(region);
        }
        this
    }

    /// What was there before the first event.
    fn region(&mut self, region: &Region) {
        let is_small = region.is_small;
        let bytes: u64 = region.blocks.iter().map(|b| b.size).sum();
        self.stats.reserved_bytes.each(is_small, |s| s.increase(bytes));
        let is_expandable = region.reservation.is_some();
        if let Some(first) = region.blocks.first().filter(|_| !is_expandable) {
            self.places.add(first.address, bytes, is_small, false);
            self.stats.segment.each(is_small, |s| s.increase(1));
            self.oversize_segment(bytes);
        }
        for block in &region.blocks {
            if is_expandable {
                self.places.add(block.address, block.size, is_small, true);
            }
            match block.state {
                PlacedState::Free if is_expandable => {}
                PlacedState::Free => {
                    self.places.add_free(block.address, block.size);
                    if region.blocks.len() > 1 {
                        self.stats.inactive_split.each(is_small, |s| s.increase(1));
                        self.stats.inactive_split_bytes.each(is_small, |s| s.increase(block.size));
                    }
                }
                PlacedState::Allocated => {
                    self.hold(is_small, block.size);
                    self.activate(is_small, block.size, block.requested);
                }
                PlacedState::Pending => self.activate(is_small, block.size, block.requested),
            }
        }
    }

    fn event(&mut self, i: usize) {
        let events = &self.trace.device.events;
        let (address, bytes) = (events.addr[i], events.size[i]);
        match events.action[i] {
            Action::Alloc => self.alloc(i),
            Action::FreeRequested => {
                self.release(i);
                if !self.trace.has_completions {
                    self.complete(i);
                }
            }
            Action::FreeCompleted => {
                if !self.trace.has_requests_to_free {
                    self.release(i);
                }
                self.complete(i);
            }
            Action::SegmentAlloc => {
                let is_small = bytes == SMALL_SEGMENT;
                self.places.add_segment(address, bytes, is_small);
                self.stats.segment.each(is_small, |s| s.increase(1));
                self.obtain(is_small, bytes);
                self.oversize_segment(bytes);
            }
            Action::SegmentFree => {
                let is_small = self.places.remove_segment(address).map_or(bytes == SMALL_SEGMENT, |p| p.is_small);
                self.stats.segment.each(is_small, |s| s.decrease(1));
                self.give_back(is_small, bytes);
                if bytes >= self.max_split {
                    self.stats.oversize_segments.decrease(1);
                }
            }
            Action::SegmentMap => {
                // The small pool maps single pages.
                let is_small = bytes == SMALL_SEGMENT;
                self.places.add(address, bytes, is_small, true);
                self.obtain(is_small, bytes);
            }
            Action::SegmentUnmap => {
                let is_small = self.places.find(address).map_or(bytes == SMALL_SEGMENT, |p| p.is_small);
                self.give_back(is_small, bytes);
            }
            Action::Oom => self.stats.num_ooms += 1,
            Action::Snapshot | Action::Annotate | Action::Other => {}
        }
    }

    /// Address, bytes asked for, and bytes of the block that event `i` speaks of.
    fn block(&self, i: usize) -> (u64, u64, u64) {
        let events = &self.trace.device.events;
        let id = self.trace.allocation_of[i] as usize;
        let bytes = self.trace.allocations.get(id).map_or(events.size[i], |a| a.bytes);
        let placed = self.recorded.block_size.get(id).copied().filter(|size| *size > 0);
        (events.addr[i], bytes, placed.unwrap_or_else(|| self.sizes.round(bytes)))
    }

    /// Where a block lies, and whether it is of the small pool.
    fn place(&self, address: u64, bytes: u64) -> (Option<Place>, bool) {
        let place = self.places.find(address);
        (place.filter(|p| !p.is_expandable), place.map_or(self.sizes.round(bytes) <= SMALL_REQUEST, |p| p.is_small))
    }

    fn alloc(&mut self, i: usize) {
        let (address, bytes, size) = self.block(i);
        let (place, is_small) = self.place(address, bytes);
        if let Some(place) = place {
            let change = self.places.take(place, address, size);
            self.split(is_small, change);
        }
        self.hold(is_small, size);
        self.activate(is_small, size, bytes);
    }

    /// The program dropped a block.
    fn release(&mut self, i: usize) {
        let (address, bytes, size) = self.block(i);
        let (_, is_small) = self.place(address, bytes);
        self.stats.allocation.each(is_small, |s| s.decrease(1));
        self.stats.allocated_bytes.each(is_small, |s| s.decrease(size));
        if size >= self.max_split {
            self.stats.oversize_allocations.decrease(1);
        }
    }

    /// A block went back to its pool.
    fn complete(&mut self, i: usize) {
        let (address, bytes, size) = self.block(i);
        let (place, is_small) = self.place(address, bytes);
        if let Some(place) = place {
            let change = self.places.give(place, address, size);
            self.split(is_small, change);
        }
        self.stats.active.each(is_small, |s| s.decrease(1));
        self.stats.active_bytes.each(is_small, |s| s.decrease(size));
        self.stats.requested_bytes.each(is_small, |s| s.decrease(bytes));
    }

    fn split(&mut self, is_small: bool, change: SplitChange) {
        self.stats.inactive_split.each(is_small, |s| s.change(change.blocks_up, change.blocks_down));
        self.stats.inactive_split_bytes.each(is_small, |s| s.change(change.bytes_up, change.bytes_down));
    }

    fn hold(&mut self, is_small: bool, size: u64) {
        self.stats.allocation.each(is_small, |s| s.increase(1));
        self.stats.allocated_bytes.each(is_small, |s| s.increase(size));
        if size >= self.max_split {
            self.stats.oversize_allocations.increase(1);
        }
    }

    fn activate(&mut self, is_small: bool, size: u64, bytes: u64) {
        self.stats.active.each(is_small, |s| s.increase(1));
        self.stats.active_bytes.each(is_small, |s| s.increase(size));
        self.stats.requested_bytes.each(is_small, |s| s.increase(bytes));
    }

    fn obtain(&mut self, is_small: bool, bytes: u64) {
        self.stats.reserved_bytes.each(is_small, |s| s.increase(bytes));
        self.stats.num_device_alloc += 1;
    }

    fn give_back(&mut self, is_small: bool, bytes: u64) {
        self.stats.reserved_bytes.each(is_small, |s| s.decrease(bytes));
        self.stats.num_device_free += 1;
    }

    fn oversize_segment(&mut self, bytes: u64) {
        if bytes >= self.max_split {
            self.stats.oversize_segments.increase(1);
        }
    }
}
