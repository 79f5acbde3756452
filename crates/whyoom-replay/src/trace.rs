//! A device's trace with every allocation resolved: who was alive from which event to which.

use hashbrown::HashMap;
use std::fmt;
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
    /// A size or address beyond any device. Nothing of a trace with one is resolved or replayed.
    pub implausible: Option<Implausible>,
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
            implausible: Implausible::find(device),
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

    /// Whether the program allocated anything after `event`: it caught the failure there.
    pub fn asks_after(&self, event: u32) -> bool {
        let actions = &self.device.events.action;
        actions.get(event as usize + 1..).is_some_and(|after| after.contains(&Action::Alloc))
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

/// No segment or block of a device is larger than this, in bytes.
const LARGEST: u64 = 1 << 40;
/// PyTorch itself refuses to ask for as much as this (`one_exa_bytes` in `CUDACachingAllocator.cpp`).
const LARGEST_REQUEST: u64 = 1 << 60;
/// All sizes of a trace together stay below this, in bytes.
const LARGEST_SUM: u64 = 1 << 62;
/// No device address is above this. Those of Intel's GPUs begin with 0xffff8…, so that only room for the ends is kept.
const HIGHEST: u64 = u64::MAX - (1 << 42);

/// A size or address that no device has: the file is damaged or was edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Implausible {
    /// Event that has it; `None` where it is a final segment or block.
    pub event: Option<usize>,
    /// Address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl Implausible {
    /// The first of `device`. Sums over what has none do not overflow.
    pub fn find(device: &Device) -> Option<Self> {
        let is_wrong = |addr: u64, size: u64| size > LARGEST || addr > HIGHEST;
        let events = &device.events;
        let mut all = 0u64;
        for (i, &action) in events.action.iter().enumerate() {
            let (address, size) = (events.addr[i], events.size[i]);
            let is_bad = match action {
                Action::Snapshot | Action::Annotate | Action::Other => continue,
                // In the place of the address stands what the driver has free.
                Action::Oom => size >= LARGEST_REQUEST,
                _ => {
                    all = all.saturating_add(size);
                    is_wrong(address, size) || all >= LARGEST_SUM
                }
            };
            if is_bad {
                return Some(Self { event: Some(i), address, size });
            }
        }
        let segments = device.segments.iter().map(|s| (s.address, s.total_size));
        let blocks = device.blocks.iter().map(|b| (b.address, b.size.max(b.requested_size.unwrap_or(0))));
        let mut all = 0u64;
        segments
            .chain(blocks)
            .find(|&(address, size)| {
                all = all.saturating_add(size);
                is_wrong(address, size) || all >= LARGEST_SUM
            })
            .map(|(address, size)| Self { event: None, address, size })
    }
}

impl fmt::Display for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "event {event} has")?,
            None => f.write_str("a segment or block has")?,
        }
        if self.size > LARGEST {
            write!(f, " an impossible size, {} bytes", self.size)
        } else if self.address > HIGHEST {
            write!(f, " an impossible address, {:#x}", self.address)
        } else {
            write!(f, " {} bytes, with which the sizes add up to more than any device has", self.size)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyoom_snapshot::Events;

    fn device(action: Action, addr: u64, size: u64) -> Device {
        let events = Events {
            action: vec![Action::SegmentAlloc, action],
            addr: vec![1 << 30, addr],
            size: vec![20 << 20, size],
            stream: vec![StreamId(0); 2],
            stack: vec![StackId::MISSING; 2],
            ..Events::default()
        };
        Device { events, ..Device::default() }
    }

    #[test]
    fn impossible_sizes_and_addresses_are_found() {
        for (action, addr, size, expected) in [
            (Action::Alloc, 1 << 30, 5 << 20, None),
            (Action::Alloc, 1 << 30, u64::MAX, Some("event 1 has an impossible size, 18446744073709551615 bytes")),
            (Action::Alloc, 0xffff_8181_ffe0_0000, 512, None),
            (Action::Alloc, u64::MAX - 511, 512, Some("event 1 has an impossible address, 0xfffffffffffffe00")),
            // A program may well ask for too much, and the driver's free bytes are no address.
            (Action::Oom, u64::MAX, 1 << 50, None),
            (Action::Oom, 0, 1 << 60, Some("event 1 has an impossible size, 1152921504606846976 bytes")),
            (Action::Snapshot, u64::MAX, u64::MAX, None),
        ] {
            let found = Implausible::find(&device(action, addr, size)).map(|i| i.to_string());
            assert_eq!(found.as_deref(), expected, "{action:?} {addr:#x} {size}");
        }
    }

    #[test]
    fn nothing_of_an_impossible_trace_is_resolved() {
        let snapshot = Snapshot { devices: vec![device(Action::Alloc, 1 << 30, 1 << 63)], ..Snapshot::default() };
        let trace = Trace::new(&snapshot, &snapshot.devices[0]);
        assert_eq!(trace.implausible.and_then(|i| i.event), Some(1));
        assert!(trace.allocations.is_empty());
    }
}
