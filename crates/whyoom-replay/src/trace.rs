//! A device's trace with every allocation resolved: who was alive from which event to which.

use hashbrown::HashMap;
use whyoom_snapshot::{Action, BlockState, Device, PoolRef, Snapshot, StackId, StreamId};

/// "No event", "no allocation".
pub const NONE: u32 = u32::MAX;

/// One allocation of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Address of the block.
    pub address: u64,
    /// Unrounded request in bytes.
    pub bytes: u64,
    /// Event of its `alloc`, [`NONE`] if it is older than the trace.
    pub alloc_event: u32,
    /// Event at which the program dropped it, [`NONE`] if it never did.
    pub free_event: u32,
    /// Event at which its block became free, [`NONE`] if it never did.
    pub completed_event: u32,
    /// Stack of the allocation, [`StackId::MISSING`] where not recorded.
    pub stack: StackId,
    /// Stream it was made on.
    pub stream: StreamId,
}

impl Allocation {
    /// Alive (in the program's hands) at the moment just before `event`.
    pub fn is_live_at(&self, event: u32) -> bool {
        (self.alloc_event == NONE || self.alloc_event < event) && self.free_event >= event
    }
}

/// The resolved trace of one device.
#[derive(Debug)]
pub struct Trace<'a> {
    /// The file.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub device: &'a Device,
    /// Allocation per event, [`NONE`] for events that concern none.
    pub allocation_of: Vec<u32>,
    /// All allocations: those older than the trace among them, in order of discovery.
    pub allocations: Vec<Allocation>,
    /// Number of requests: `alloc` and `oom` events.
    pub requests: u64,
    /// Reserved bytes before the first event, from the final segments and the trace.
    pub reserved_at_start: u64,
    /// Largest recorded reserved bytes.
    pub peak_reserved: u64,
    /// Whether everything in the trace and the final segments is accounted for from an empty allocator.
    pub starts_empty: bool,
    /// `free_completed` events were recorded.
    pub has_completions: bool,
    /// `free_requested` events were recorded.
    pub has_requests_to_free: bool,
    /// First event with a size or address beyond any device, or the number of events if a segment or block has one.
    /// Nothing of such a trace is resolved or replayed.
    pub implausible: Option<usize>,
    /// Events that contradict the events before them (a free of a freed block, an allocation over a live one).
    pub contradictions: u64,
}

impl<'a> Trace<'a> {
    /// Resolves the trace of `device`. One pass; memory is about 8 bytes an event and 40 an allocation.
    pub fn new(snapshot: &'a Snapshot, device: &'a Device) -> Self {
        let events = &device.events;
        let count = events.len();
        let mut this = Self {
            snapshot,
            device,
            allocation_of: vec![NONE; count],
            allocations: Vec::with_capacity(count / 3 + device.blocks.len()),
            requests: 0,
            reserved_at_start: 0,
            peak_reserved: 0,
            starts_empty: true,
            has_completions: events.action.contains(&Action::FreeCompleted),
            has_requests_to_free: events.action.contains(&Action::FreeRequested),
            implausible: first_implausible(device),
            contradictions: 0,
        };
        if this.implausible.is_some() {
            this.starts_empty = false;
            return this;
        }
        let (drift, highest) = this.resolve_events();
        let reserved_at_end: u64 = device.segments.iter().map(|s| s.total_size).sum();
        if device.has_segments {
            let start = i128::from(reserved_at_end) - drift;
            this.starts_empty &= start == 0;
            this.reserved_at_start = u64::try_from(start).unwrap_or(0);
        } else {
            this.reserved_at_start = u64::try_from(-highest.min_level).unwrap_or(0);
            this.starts_empty &= this.reserved_at_start == 0;
        }
        this.peak_reserved =
            u64::try_from(i128::from(this.reserved_at_start) + highest.max_level).unwrap_or(0).max(reserved_at_end);
        this
    }

    fn resolve_events(&mut self) -> (i128, Levels) {
        let events = &self.device.events;
        let mut live: HashMap<u64, u32> = HashMap::with_capacity(4096);
        let mut segments: HashMap<u64, u64> = HashMap::new();
        let mut levels = Levels::default();
        let mut reserved: i128 = 0;
        for i in 0..events.len() {
            let (addr, size) = (events.addr[i], events.size[i]);
            match events.action[i] {
                Action::Alloc => {
                    self.requests += 1;
                    let id = self.push(i, NONE, addr, size);
                    self.allocation_of[i] = id;
                    self.allocations[id as usize].alloc_event = i as u32;
                    if live.insert(addr, id).is_some() {
                        self.contradictions += 1;
                    }
                }
                Action::Oom => self.requests += 1,
                Action::FreeRequested => {
                    let id = match live.get(&addr) {
                        Some(&id) if self.allocations[id as usize].free_event == NONE => id,
                        known => {
                            self.contradictions += u64::from(known.is_some());
                            let id = self.push(i, NONE, addr, size);
                            live.insert(addr, id);
                            id
                        }
                    };
                    self.allocation_of[i] = id;
                    self.allocations[id as usize].free_event = i as u32;
                    if !self.has_completions {
                        self.allocations[id as usize].completed_event = i as u32;
                        live.remove(&addr);
                    }
                }
                Action::FreeCompleted => {
                    let id = live.remove(&addr).unwrap_or_else(|| self.push(i, NONE, addr, size));
                    self.allocation_of[i] = id;
                    let allocation = &mut self.allocations[id as usize];
                    allocation.completed_event = i as u32;
                    if allocation.free_event == NONE {
                        // Dropped before the trace began, unless the dropping was not recorded at all.
                        allocation.free_event = if self.has_requests_to_free { 0 } else { i as u32 };
                    }
                }
                Action::SegmentAlloc => {
                    segments.insert(addr, size);
                    reserved += i128::from(size);
                }
                Action::SegmentFree => {
                    if segments.remove(&addr) != Some(size) {
                        self.starts_empty = false;
                    }
                    reserved -= i128::from(size);
                }
                Action::SegmentMap => reserved += i128::from(size),
                Action::SegmentUnmap => reserved -= i128::from(size),
                Action::Snapshot | Action::Annotate | Action::Other => {}
            }
            levels.max_level = levels.max_level.max(reserved);
            levels.min_level = levels.min_level.min(reserved);
        }
        for block in self.device.blocks.iter().filter(|b| b.state != BlockState::Free) {
            if live.remove(&block.address).is_none() {
                let mut old = Self::blank(block.address, block.requested_size.unwrap_or(block.size));
                old.stack = block.stack.unwrap_or(StackId::MISSING);
                old.stream = self.stream_of_block(block.address);
                if block.state == BlockState::PendingFree {
                    old.free_event = 0;
                }
                self.allocations.push(old);
                self.starts_empty = false;
            }
        }
        (reserved, levels)
    }

    fn stream_of_block(&self, address: u64) -> StreamId {
        let segments = &self.device.segments;
        let at = segments.partition_point(|s| s.address <= address);
        at.checked_sub(1).map_or(StreamId::default(), |i| segments[i].stream)
    }

    fn blank(address: u64, bytes: u64) -> Allocation {
        Allocation {
            address,
            bytes,
            alloc_event: NONE,
            free_event: NONE,
            completed_event: NONE,
            stack: StackId::MISSING,
            stream: StreamId::default(),
        }
    }

    /// Adds the allocation that event `i` speaks of; every caller but `alloc` found one older than the trace.
    fn push(&mut self, i: usize, alloc_event: u32, address: u64, bytes: u64) -> u32 {
        let events = &self.device.events;
        if events.action[i] != Action::Alloc {
            self.starts_empty = false;
        }
        let mut new = Self::blank(address, bytes);
        new.alloc_event = alloc_event;
        new.stack = events.stack[i];
        new.stream = events.stream[i];
        self.allocations.push(new);
        (self.allocations.len() - 1) as u32
    }

    /// Whether event `i` is a `free_requested` that completes at once.
    pub fn completes_at_once(&self, i: usize) -> bool {
        !self.has_completions
            || (self.device.events.action.get(i + 1) == Some(&Action::FreeCompleted)
                && self.allocation_of[i + 1] == self.allocation_of[i])
    }

    /// Pool named by event `i`, if the trace names pools.
    pub fn pool_of(&self, i: usize) -> PoolRef {
        self.device.events.pool_of(i)
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Levels {
    max_level: i128,
    min_level: i128,
}

/// No single object of a device is larger than this, in bytes.
const LARGEST: u64 = 1 << 40;
/// No device address is at or above this.
const HIGHEST: u64 = 1 << 62;

/// The first event whose size or address no device has. Sums over a plausible trace do not overflow.
fn first_implausible(device: &Device) -> Option<usize> {
    let is_wrong = |addr: u64, size: u64| size > LARGEST || addr > HIGHEST;
    let events = &device.events;
    let is_state = |a: Action| !matches!(a, Action::Snapshot | Action::Annotate | Action::Other | Action::Oom);
    let event = (0..events.len()).find(|&i| {
        let addr = if is_state(events.action[i]) { events.addr[i] } else { 0 };
        let size = if events.action[i] == Action::Snapshot { 0 } else { events.size[i] };
        is_wrong(addr, size)
    });
    let in_state = device.segments.iter().any(|s| is_wrong(s.address, s.total_size))
        || device.blocks.iter().any(|b| is_wrong(b.address, b.size) || b.requested_size.is_some_and(|r| r > LARGEST));
    event.or_else(|| in_state.then_some(events.len()))
}
