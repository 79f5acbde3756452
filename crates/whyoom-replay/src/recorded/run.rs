//! The model driven by a trace.

use super::driver::RecordedDriver;
use super::layout::{Layout, Rules};
use super::{Divergence, Recorded, RecordedOptions, reason, reservations};
use crate::counterfactual::{Op, Program, ProgramRequest};
use crate::limit::LimitInterval;
use crate::trace::{NONE, Trace};
use hashbrown::HashMap;
use std::sync::Arc;
use whyoom_allocator::{Allocator, BlockId, Region, Stats};
use whyoom_snapshot::Action;

/// After so many places where the model had to be set back to the recording, the rest is not compared.
const MAX_RESYNCS: u32 = 8;

pub(super) struct Run<'a> {
    pub(super) trace: &'a Trace<'a>,
    pub(super) options: RecordedOptions<'a>,
    pub(super) allocator: Allocator,
    pub(super) driver: RecordedDriver<'a>,
    pub(super) block_of: Vec<Option<BlockId>>,
    pub(super) out: Recorded,
    pub(super) requests_seen: u64,
    resyncs: u32,
    pub(super) freeable: Vec<bool>,
    /// Power-of-two rounding is on.
    pub(super) rounds_coarsely: bool,
    /// The last request per rounded size, kept where rounding is coarse.
    pub(super) rounds: HashMap<u64, u64>,
}

/// Replays with a given assignment of allocations to private pools (empty = all default).
pub(super) fn run<'a>(
    trace: &'a Trace<'a>,
    options: RecordedOptions<'a>,
    pool_of: Vec<u16>,
    stop_at_divergence: bool,
) -> Recorded {
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
            .map(|(i, a)| ProgramRequest {
                bytes: a.bytes,
                stream: a.stream.0,
                pool: pool_of.get(i).copied().unwrap_or(0),
            })
            .collect();
        let capacity = trace.device.events.len();
        let program = Program {
            requests,
            streams: Arc::clone(&trace.snapshot.streams),
            private_pools: pools,
            ops: Vec::with_capacity(capacity * 2 / 3 + 16),
            op_event: Vec::with_capacity(capacity * 2 / 3 + 16),
            ..Program::default()
        };
        Self {
            trace,
            options,
            allocator: Allocator::sharing(options.model, options.settings.clone(), Arc::clone(&trace.snapshot.streams)),
            driver: RecordedDriver::new(&trace.device.events, crate::RESERVATION),
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
                retry_events: Vec::new(),
                block_size: vec![0; count],
                pool_of,
                program,
                started_empty: trace.starts_empty,
                rebuild_conflicts: 0,
            },
            requests_seen: 0,
            resyncs: 0,
            freeable: vec![false; pools as usize + 1],
            rounds_coarsely: options.settings.roundup_power2_divisions.iter().any(|&d| d > 0),
            rounds: HashMap::new(),
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
        self.allocator = Allocator::sharing(
            self.options.model,
            self.options.settings.clone(),
            Arc::clone(&self.trace.snapshot.streams),
        );
        self.block_of.fill(None);
        let reservations = reservations::reservations(self.trace.device, self.trace.peak_reserved);
        let base_of = |a| reservations::find(&reservations, a).map_or(a, |i| reservations[i].base);
        let mut regions = layout.regions(base_of, crate::RESERVATION);
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

    /// Notes a divergence and sets the model back to what is recorded after the events before `resume`.
    pub(super) fn diverge(&mut self, event: usize, simulated: String, resume: usize) {
        if self.out.first_divergence.is_none() {
            let event = event.min(self.trace.device.events.len().saturating_sub(1));
            self.out.first_divergence = Some(Divergence {
                event,
                recorded: reason::describe(self.trace, event),
                simulated,
                likely_reason: self.likely_reason(event),
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
}
