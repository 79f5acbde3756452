//! The exact check: drive the model with a trace under its own settings and compare every event.

use crate::layout::{Layout, Rules};
use crate::limit::{LimitInterval, LimitSource};
use crate::program::{Op, Program, ProgramRequest};
use crate::recorded_driver::RecordedDriver;
use crate::reservations;
use crate::trace::{NONE, Trace};
use whyoom_allocator::{Allocator, BlockId, FreeSpace, Model, PlacedState, Region, Request, Settings, Stats};
use whyoom_snapshot::{Action, BlockState, StackId};

/// Where the model and the recording part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Event index.
    pub event: usize,
    /// What the trace says.
    pub recorded: String,
    /// What the model did.
    pub simulated: String,
    /// The likely reason, in a sentence.
    pub likely_reason: String,
}

/// The final blocks against the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalState {
    /// Blocks that are in only one of the two, or differ in size or state.
    pub differing_blocks: u64,
}

/// State at an `oom` event, after the retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Event index.
    pub event: usize,
    /// Ordinal of the request.
    pub malloc: u64,
    /// Rounded request.
    pub request_bytes: u64,
    /// What the driver was asked for.
    pub segment_bytes: u64,
    /// The driver's free bytes.
    pub device_free: u64,
    /// Reserved bytes.
    pub reserved: u64,
    /// Allocated (rounded) bytes.
    pub allocated: u64,
    /// Allocated or pending bytes.
    pub active: u64,
    /// Free memory that the request could draw on.
    pub free: FreeSpace,
}

/// Result of the exact check.
#[derive(Debug)]
pub struct Recorded {
    /// Events in the trace.
    pub events: u64,
    /// Events reproduced.
    pub matched: u64,
    /// The first place where model and recording part.
    pub first_divergence: Option<Divergence>,
    /// `None` if the file has no segments for this device.
    pub final_state: Option<FinalState>,
    /// Peaks and counts of the replay.
    pub stats: Stats,
    /// Segments at the end.
    pub segments_at_end: u64,
    /// Allocated bytes peak after this event.
    pub peak_event: u32,
    /// What was allowed and refused.
    pub limit: LimitInterval,
    /// Every `oom` event with its state.
    pub failures: Vec<Failure>,
    /// Rounded size per allocation of the trace, 0 where it was never placed.
    pub block_size: Vec<u64>,
    /// Private pool per allocation; empty = all default.
    pub pool_of: Vec<u16>,
    /// The program for counterfactuals.
    pub program: Program,
    /// The replay started from an empty allocator; otherwise from a layout rebuilt backwards.
    pub started_empty: bool,
    /// Contradictions met while rebuilding the start: newest missing events, skipped kinds, a damaged file.
    pub rebuild_conflicts: u64,
}

/// How the recorded run is to be read.
#[derive(Debug, Clone, Copy)]
pub struct RecordedOptions<'s> {
    /// Allocator of this release.
    pub model: Model,
    /// Settings in force while recording.
    pub settings: &'s Settings,
}

/// Address space reserved for one pool and stream where the card's size is not known.
pub(crate) const RESERVATION: u64 = 1 << 40;
/// After so many places where the model had to be set back to the recording, the rest is not compared.
const MAX_RESYNCS: u32 = 8;

pub(crate) struct Run<'a> {
    trace: &'a Trace<'a>,
    options: RecordedOptions<'a>,
    allocator: Allocator,
    driver: RecordedDriver<'a>,
    block_of: Vec<Option<BlockId>>,
    pub(crate) out: Recorded,
    requests_seen: u64,
    resyncs: u32,
    freeable: Vec<bool>,
}

/// Replays with a given assignment of allocations to private pools (empty = all default).
pub(crate) fn run<'a>(trace: &'a Trace<'a>, options: RecordedOptions<'a>, pool_of: Vec<u16>, stop_at_divergence: bool) -> Recorded {
    let mut run = Run::new(trace, options, pool_of);
    if !trace.starts_empty {
        run.start_from_rebuilt_layout();
    }
    run.follow(stop_at_divergence);
    run.finish()
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace<'a>, options: RecordedOptions<'a>, pool_of: Vec<u16>) -> Self {
        let count = trace.allocations.len();
        let pools = pool_of.iter().copied().max().unwrap_or(0);
        let requests = trace
            .allocations
            .iter()
            .enumerate()
            .map(|(i, a)| ProgramRequest { bytes: a.bytes, stream: a.stream.0, pool: pool_of.get(i).copied().unwrap_or(0) })
            .collect();
        let capacity = trace.device.events.len();
        let program = Program {
            requests,
            streams: trace.snapshot.streams.clone(),
            private_pools: pools,
            ops: Vec::with_capacity(capacity * 2 / 3 + 16),
            op_event: Vec::with_capacity(capacity * 2 / 3 + 16),
            ..Program::default()
        };
        Self {
            trace,
            options,
            allocator: Allocator::new(options.model, options.settings.clone(), &trace.snapshot.streams),
            driver: RecordedDriver::new(&trace.device.events, RESERVATION),
            block_of: vec![None; count],
            out: Recorded {
                events: capacity as u64,
                matched: 0,
                first_divergence: None,
                final_state: None,
                stats: Stats::default(),
                segments_at_end: 0,
                peak_event: 0,
                limit: LimitInterval::new(),
                failures: Vec::new(),
                block_size: vec![0; count],
                pool_of,
                program,
                started_empty: trace.starts_empty,
                rebuild_conflicts: 0,
            },
            requests_seen: 0,
            resyncs: 0,
            freeable: vec![false; pools as usize + 1],
        }
    }

    fn layout_before(&mut self, event: usize) -> Layout {
        let rules = Rules { sizes: *self.allocator.sizes(), settings: self.options.settings };
        let mut layout = Layout::at_end(self.trace);
        layout.rewind(self.trace, event, self.trace.device.events.len(), &rules);
        layout
    }

    fn start_from_rebuilt_layout(&mut self) {
        let layout = self.layout_before(0);
        self.out.rebuild_conflicts = layout.conflicts;
        self.out.program.initial_regions = self.restore(&layout);
        let mut initial: Vec<(u64, u32)> =
            layout.ranges.iter().filter(|(_, r)| r.allocation != NONE).map(|(a, r)| (*a, r.allocation)).collect();
        initial.sort_unstable();
        self.out.program.initial = initial.into_iter().map(|x| x.1).collect();
    }

    fn restore(&mut self, layout: &Layout) -> Vec<Region> {
        let stats = *self.allocator.stats();
        self.allocator = Allocator::new(self.options.model, self.options.settings.clone(), &self.trace.snapshot.streams);
        self.block_of.fill(None);
        let reservations = reservations::reservations(self.trace.device, self.trace.peak_reserved);
        let base_of = |a| reservations::find(&reservations, a).map_or(a, |i| reservations[i].base);
        let mut regions = layout.regions(base_of, RESERVATION);
        for region in &mut regions {
            // A pool is a matter of the whole segment: any allocation in it tells.
            if let Some(&pool) = region.blocks.iter().find_map(|b| self.out.pool_of.get(b.tag as usize)) {
                region.pool = pool;
            } else if self.out.pool_of.is_empty() {
                region.pool = 0;
            }
            let (block_of, out) = (&mut self.block_of, &mut self.out);
            self.allocator.restore(region, |tag, id| {
                if let Some(slot) = block_of.get_mut(tag as usize) {
                    *slot = Some(id);
                }
            });
            for b in &region.blocks {
                if let Some(size) = out.block_size.get_mut(b.tag as usize) {
                    *size = b.size;
                }
            }
        }
        self.allocator.carry_over(&stats);
        self.allocator.synchronised_clear();
        regions
    }

    fn follow(&mut self, stop_at_divergence: bool) {
        let events = &self.trace.device.events;
        let mut i = 0;
        while i < events.len() {
            let next = match events.action[i] {
                Action::FreeRequested => self.free(i),
                Action::Snapshot | Action::Annotate | Action::Other => {
                    self.out.matched += 1;
                    i + 1
                }
                _ => self.call(i),
            };
            if self.out.first_divergence.is_some() && (stop_at_divergence || self.resyncs > MAX_RESYNCS) {
                return;
            }
            i = next;
        }
    }

    fn free(&mut self, i: usize) -> usize {
        let id = self.trace.allocation_of[i];
        let Some(block) = self.block_of[id as usize] else {
            let what = "a free of memory that the model does not have";
            self.diverge(i, what.to_owned(), i + 1);
            return i + 1;
        };
        if self.trace.completes_at_once(i) {
            self.block_of[id as usize] = None;
            self.allocator.free(block);
            self.out.program.push(Op::Free(id), i);
            let events = if self.trace.has_completions { 2 } else { 1 };
            self.out.matched += events;
            i + events as usize
        } else {
            self.allocator.free_pending(block);
            self.out.program.push(Op::Drop(id), i);
            self.out.matched += 1;
            i + 1
        }
    }

    /// A run of completions and driver events, and the request that ends it, if one does.
    fn call(&mut self, from: usize) -> usize {
        let events = &self.trace.device.events;
        let mut end = from;
        let (mut completions, mut drives, mut releases) = (0, false, false);
        while let Some(action) = events.action.get(end) {
            match action {
                Action::FreeCompleted => completions += usize::from(!drives),
                Action::SegmentFree | Action::SegmentUnmap => (drives, releases) = (true, true),
                Action::SegmentAlloc | Action::SegmentMap => drives = true,
                _ => break,
            }
            end += 1;
        }
        if self.out.program.private_pools > 0 {
            self.note_freeable(from, end);
        }
        match events.action.get(end) {
            Some(Action::Alloc) => {
                self.request(from, end, completions, releases);
                end + 1
            }
            Some(Action::Oom) => {
                self.request(from, end, completions, releases);
                end + 1
            }
            _ => {
                self.release_only(from, end, completions);
                end
            }
        }
    }

    /// A private pool becomes freeable, as far as the trace tells, at the first release that names its memory.
    fn note_freeable(&mut self, from: usize, end: usize) {
        for i in from..end {
            if matches!(self.trace.device.events.action[i], Action::SegmentFree | Action::SegmentUnmap) {
                let pool = self.allocator.private_pool_at(self.trace.device.events.addr[i]).unwrap_or(0);
                if pool != 0 && !std::mem::replace(&mut self.freeable[pool as usize], true) {
                    self.allocator.make_pool_freeable(pool);
                    self.out.program.push(Op::PoolFreeable(pool), from);
                }
            }
        }
    }

    fn complete(&mut self, i: usize) {
        let id = self.trace.allocation_of[i];
        match self.block_of.get(id as usize).copied().flatten() {
            Some(block) => {
                self.block_of[id as usize] = None;
                if self.trace.has_requests_to_free {
                    self.allocator.complete(block);
                    self.out.program.push(Op::Complete(id), i);
                } else {
                    self.allocator.free(block);
                    self.out.program.push(Op::Free(id), i);
                }
                self.out.matched += 1;
            }
            None => self.diverge(i, "nothing of the kind is pending in the model".to_owned(), i + 1),
        }
    }

    /// Completions and driver calls without a request: the end of a capture, or `empty_cache()`.
    fn release_only(&mut self, from: usize, end: usize, completions: usize) {
        for i in from..from + completions {
            self.complete(i);
        }
        if from + completions < end {
            self.empty_cache(from + completions, end, true);
        }
    }

    /// Returns how far the recorded events were consumed.
    fn empty_cache(&mut self, from: usize, end: usize, is_all: bool) -> usize {
        self.out.program.push(Op::EmptyCache, from);
        self.driver.begin(from, end);
        self.allocator.empty_cache(&mut self.driver);
        self.forget_synchronised(from);
        let cursor = self.driver.cursor;
        let mismatch = self.driver.mismatch.take();
        if let Some(m) = mismatch {
            self.diverge(m.event, m.simulated, end);
        } else if is_all && cursor < end {
            self.diverge(cursor, "no further release".to_owned(), end);
        }
        cursor
    }

    fn forget_synchronised(&mut self, event: usize) {
        if self.allocator.has_synchronised() {
            for tag in self.allocator.take_synchronised() {
                self.block_of[tag as usize] = None;
                self.out.program.push(Op::Complete(tag), event);
            }
        }
    }

    fn request(&mut self, from: usize, end: usize, completions: usize, releases: bool) {
        let events = &self.trace.device.events;
        let id = self.trace.allocation_of[end];
        let is_failure = events.action[end] == Action::Oom;
        let request = Request {
            bytes: events.size[end],
            stream: events.stream[end].0,
            pool: self.out.pool_of.get(id as usize).copied().unwrap_or(0),
            tag: id,
        };
        let drives = from + completions < end;
        let polled = if completions > 0 { self.poll(from, completions, drives || is_failure, &request) } else { from };
        let mut at = polled;
        if releases && self.is_empty_cache(at, end, &request) {
            at = self.empty_cache(at, end, false);
            if self.driver.mismatch.is_some() {
                return;
            }
        }
        self.driver.begin(at, end);
        let placed = self.allocator.malloc(&mut self.driver, request);
        self.forget_synchronised(at);
        self.requests_seen += 1;
        let op = if is_failure {
            self.out.program.failed.push(ProgramRequest { bytes: request.bytes, stream: request.stream, pool: request.pool });
            Op::Failed((self.out.program.failed.len() - 1) as u32)
        } else {
            Op::Malloc(id)
        };
        self.out.program.push(op, end);
        let simulated = match (&placed, self.driver.mismatch.take()) {
            (_, Some(m)) => Some((m.event, m.simulated)),
            _ if self.driver.cursor < end => Some((self.driver.cursor, "no such call to the driver".to_owned())),
            (Ok(block), None) => {
                let address = self.allocator.block(*block).address;
                (is_failure || address != events.addr[end])
                    .then(|| (end, format!("{} bytes placed at {address:#x}", request.bytes)))
            }
            (Err(oom), None) => {
                (!is_failure || oom.size != request.bytes).then(|| (end, format!("out of memory for {} bytes", oom.size)))
            }
        };
        if let Ok(block) = placed
            && !is_failure
        {
            self.block_of[id as usize] = Some(block);
            self.out.block_size[id as usize] = self.allocator.block(block).size;
        }
        match simulated {
            None => self.out.matched += 1,
            Some((event, text)) => self.diverge(event, text, end + 1),
        }
        if is_failure {
            self.note_failure(end, &request);
        }
        let stats = self.allocator.stats();
        if stats.allocated.peak > self.out.stats.allocated.peak {
            self.out.stats.allocated.peak = stats.allocated.peak;
            self.out.peak_event = end as u32;
        }
    }

    /// Applies the completions seen before the search. Those that belong to the synchronisation of a retry come
    /// after it: the search must have failed, since the driver was asked. Returns where the rest begins.
    fn poll(&mut self, from: usize, completions: usize, search_failed: bool, request: &Request) -> usize {
        if !search_failed {
            for i in from..from + completions {
                self.complete(i);
            }
            return from + completions;
        }
        for i in from..from + completions {
            let id = self.trace.allocation_of[i];
            let Some(block) = self.block_of[id as usize] else { return i };
            let mut trial = self.allocator.clone();
            trial.complete(block);
            if trial.would_fit(request) {
                return i;
            }
            self.complete(i);
        }
        from + completions
    }

    /// Whether the releases before a request were an `empty_cache()` and not part of serving it.
    fn is_empty_cache(&mut self, at: usize, end: usize, request: &Request) -> bool {
        if self.allocator.would_fit(request) {
            return true;
        }
        let events = &self.trace.device.events;
        let stack_of_request = events.stack[end];
        let other_stack = (at..end)
            .filter(|&i| matches!(events.action[i], Action::SegmentFree | Action::SegmentUnmap))
            .any(|i| events.stack[i] != stack_of_request && events.stack[i] != StackId::MISSING);
        if other_stack && stack_of_request != StackId::MISSING {
            return true;
        }
        if self.options.settings.garbage_collection_threshold > 0.0 {
            return false;
        }
        // Growth to a total that was reached elsewhere is not refused.
        let size = self.allocator.sizes().round(request.bytes);
        let total = self.allocator.stats().reserved.current + self.allocator.sizes().segment(size);
        events.action[end] == Action::Alloc && total <= self.trace.peak_reserved
    }

    fn note_failure(&mut self, event: usize, request: &Request) {
        let stats = *self.allocator.stats();
        self.out.failures.push(Failure {
            event,
            malloc: self.requests_seen - 1,
            request_bytes: request.bytes,
            segment_bytes: self.allocator.sizes().segment(request.bytes),
            device_free: self.trace.device.events.addr[event],
            reserved: stats.reserved.current,
            allocated: stats.allocated.current,
            active: stats.active.current,
            free: self.allocator.free_space(request),
        });
    }

    /// Notes a divergence and sets the model back to what is recorded after the events before `resume`.
    fn diverge(&mut self, event: usize, simulated: String, resume: usize) {
        if self.out.first_divergence.is_none() {
            let event = event.min(self.trace.device.events.len().saturating_sub(1));
            self.out.first_divergence = Some(Divergence {
                event,
                recorded: describe(self.trace, event),
                simulated,
                likely_reason: String::new(),
            });
        }
        self.resyncs += 1;
        if self.trace.device.has_segments && self.resyncs <= MAX_RESYNCS {
            let layout = self.layout_before(resume);
            self.restore(&layout);
        } else {
            self.resyncs = MAX_RESYNCS + 1;
        }
    }

    fn finish(mut self) -> Recorded {
        self.out.matched += self.driver.matched;
        let stats = *self.allocator.stats();
        self.out.segments_at_end = stats.segments.current;
        self.out.stats = stats;
        self.out.limit = self.limit();
        if self.trace.device.has_segments {
            self.out.final_state = Some(self.compare_final_state());
        }
        self.out.program.note_landmarks();
        self.out
    }

    fn limit(&self) -> LimitInterval {
        let mut limit = self.driver.limit;
        for f in &self.out.failures {
            limit.source = if f.device_free >= f.segment_bytes { LimitSource::Fraction } else { LimitSource::Card };
            if limit.source == LimitSource::Card {
                let capacity = f.reserved.saturating_add(f.device_free);
                limit.high = Some(limit.high.map_or(capacity, |h| h.min(capacity)));
            }
        }
        limit
    }

    fn compare_final_state(&self) -> FinalState {
        let simulated = self.allocator.layout();
        let mut recorded: Vec<_> = self.trace.device.blocks.iter().collect();
        recorded.sort_unstable_by_key(|b| b.address);
        let (mut i, mut j, mut differing) = (0, 0, 0);
        while i < simulated.len() || j < recorded.len() {
            match (simulated.get(i), recorded.get(j)) {
                (Some(s), Some(r)) if s.address == r.address => {
                    let state = match r.state {
                        BlockState::Allocated => PlacedState::Allocated,
                        BlockState::PendingFree => PlacedState::Pending,
                        BlockState::Free => PlacedState::Free,
                    };
                    differing += u64::from(s.size != r.size || s.state != state);
                    i += 1;
                    j += 1;
                }
                (Some(s), Some(r)) => {
                    differing += 1;
                    if s.address < r.address {
                        i += 1;
                    } else {
                        j += 1;
                    }
                }
                _ => {
                    differing += 1;
                    i += 1;
                    j += 1;
                }
            }
        }
        FinalState { differing_blocks: differing }
    }
}

fn describe(trace: &Trace<'_>, event: usize) -> String {
    let events = &trace.device.events;
    let Some(action) = events.action.get(event) else { return "the end of the trace".to_owned() };
    let (addr, size) = (events.addr[event], events.size[event]);
    match action {
        Action::Alloc => format!("{size} bytes placed at {addr:#x}"),
        Action::FreeRequested => format!("free of {size} bytes at {addr:#x}"),
        Action::FreeCompleted => format!("completed free of {size} bytes at {addr:#x}"),
        Action::SegmentAlloc => format!("cudaMalloc of {size} bytes at {addr:#x}"),
        Action::SegmentFree => format!("cudaFree of {size} bytes at {addr:#x}"),
        Action::SegmentMap => format!("a map of {size} bytes at {addr:#x}"),
        Action::SegmentUnmap => format!("an unmap of {size} bytes at {addr:#x}"),
        Action::Oom => format!("out of memory for {size} bytes"),
        Action::Snapshot | Action::Annotate | Action::Other => "no change of state".to_owned(),
    }
}
