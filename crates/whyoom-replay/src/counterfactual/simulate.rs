//! What the recorded program would have met under other settings or another limit.

use super::habit::{HabitDriver, LimitKind, Placement};
use super::program::{Op, Program, ProgramRequest};
use std::sync::Arc;
use whyoom_allocator::{Allocator, BlockId, Model, Request, Settings, Stats};

/// The state a counterfactual starts from when the trace has no beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The allocations alive at the start are made anew in an empty allocator: near the truth for limits and expandable segments.
    Cold,
    /// The recorded layout at the start, cache included: near the truth for ordinary settings without a limit.
    Warm,
}

/// When a counterfactual ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At the end of the program; failing requests are skipped with their frees.
    End,
    /// At the first failing request or the end.
    FirstFailure,
    /// At the first failing request, or after the step of this event.
    FirstFailureOrEvent(u32),
    /// The same, or where more is reserved than `reserved` and the driver was called more often than `driver_calls`:
    /// there is no use in following what something known beats.
    FirstFailureOrBeyond {
        /// The event, [`u32::MAX`] for the end.
        event: u32,
        /// Bytes.
        reserved: u64,
        /// Allocations, frees, maps and unmaps.
        driver_calls: u64,
    },
}

/// One counterfactual.
#[derive(Debug, Clone)]
pub struct Scenario<'s> {
    /// Allocator of this release.
    pub model: Model,
    /// Settings in force.
    pub settings: &'s Settings,
    /// What may be reserved; `None` = unlimited.
    pub limit: Option<u64>,
    /// How the limit refuses.
    pub limit_kind: LimitKind,
    /// State at the start.
    pub start: Start,
    /// Where new segments lie.
    pub placement: Placement,
    /// When to stop.
    pub until: Until,
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRequest {
    /// Event of the recorded request.
    pub event: u32,
    /// Its ordinal in the recording, whatever was left out or added before it.
    pub malloc: u64,
    /// Bytes asked for.
    pub request_bytes: u64,
}

/// What came of a counterfactual. Peaks and counts are those up to the first failing request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The first failing request.
    pub first_failure: Option<FailedRequest>,
    /// Failing requests in all (1 at most unless run to the end).
    pub failures: u64,
    /// Figures at the first failure, or at the end.
    pub stats: Stats,
    /// Figures at the end.
    pub at_end: Stats,
    /// First recorded failure that succeeded: what follows is hypothetical.
    pub hypothetical_from: Option<u32>,
    /// Peak reserved bytes when that request had succeeded.
    pub peak_reserved_at_recorded_failure: Option<u64>,
    /// Active bytes when most was reserved: the rest of what was reserved then lay free.
    pub active_at_peak_reserved: u64,
    /// Whether the program was followed to its end.
    pub reached_end: bool,
    /// Whether it was not followed further, since something known beats it.
    pub was_given_up: bool,
}

/// Runs `program` under `scenario`. Time is linear in its steps; nothing is shared, so runs may go in parallel.
pub fn simulate(program: &Program, scenario: &Scenario<'_>) -> Outcome {
    Simulation::new(program, scenario).run(scenario.until)
}

/// Steps between two looks at the bar of [`Until::FirstFailureOrBeyond`], less one; a power of two, less one.
const BAR_EVERY: usize = 1023;

struct Simulation<'a> {
    program: &'a Program,
    allocator: Allocator,
    driver: HabitDriver,
    block_of: Vec<Option<BlockId>>,
    ordinal: u64,
    /// Peak reserved so far.
    highest: u64,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    fn new(program: &'a Program, scenario: &Scenario<'_>) -> Self {
        let mut this = Self {
            program,
            allocator: Allocator::sharing(scenario.model, scenario.settings.clone(), Arc::clone(&program.streams)),
            driver: HabitDriver::new(
                scenario.placement,
                scenario.limit,
                scenario.limit_kind,
                program.requests_before_first_free,
                program.first_workspace_request,
            ),
            block_of: vec![None; program.requests.len()],
            ordinal: 0,
            highest: 0,
            outcome: Outcome {
                first_failure: None,
                failures: 0,
                stats: Stats::default(),
                at_end: Stats::default(),
                hypothetical_from: None,
                peak_reserved_at_recorded_failure: None,
                active_at_peak_reserved: 0,
                reached_end: false,
                was_given_up: false,
            },
        };
        match scenario.start {
            Start::Warm if !program.initial_regions.is_empty() => this.start_warm(),
            _ => this.start_cold(),
        }
        this
    }

    fn start_warm(&mut self) {
        for region in &self.program.initial_regions {
            let block_of = &mut self.block_of;
            self.allocator.restore(region, |tag, id| {
                if let Some(slot) = block_of.get_mut(tag as usize) {
                    *slot = Some(id);
                }
            });
        }
        self.allocator.reset_peaks();
    }

    fn start_cold(&mut self) {
        for &id in &self.program.initial {
            let r = self.program.requests[id as usize];
            if !self.malloc(id, r, 0) && self.outcome.first_failure.is_some() {
                break;
            }
        }
        self.ordinal = 0;
    }

    /// Serves a request; notes a failure.
    #[inline]
    fn malloc(&mut self, tag: u32, r: ProgramRequest, event: u32) -> bool {
        let request = Request { bytes: r.bytes, stream: r.stream, pool: r.pool, tag };
        let placed = self.allocator.malloc(&mut self.driver, request);
        if self.allocator.has_synchronised() {
            for tag in self.allocator.take_synchronised() {
                if let Some(slot) = self.block_of.get_mut(tag as usize) {
                    *slot = None;
                }
            }
        }
        let Ok(block) = placed else {
            self.fail(event, r.bytes);
            return false;
        };
        let stats = self.allocator.stats();
        if stats.reserved.peak > self.highest && self.outcome.first_failure.is_none() {
            (self.highest, self.outcome.active_at_peak_reserved) = (stats.reserved.peak, stats.active.current);
        }
        if let Some(slot) = self.block_of.get_mut(tag as usize) {
            *slot = Some(block);
        } else {
            self.allocator.free(block);
        }
        true
    }

    #[cold]
    fn fail(&mut self, event: u32, request_bytes: u64) {
        self.outcome.failures += 1;
        if self.outcome.first_failure.is_none() {
            let malloc = self.program.recorded_ordinal(event, self.ordinal);
            self.outcome.first_failure = Some(FailedRequest { event, malloc, request_bytes });
            self.outcome.stats = *self.allocator.stats();
        }
    }

    fn run(mut self, until: Until) -> Outcome {
        let program = self.program;
        let (stop_at_failure, last_event) = match until {
            Until::End => (false, u32::MAX),
            Until::FirstFailure => (true, u32::MAX),
            Until::FirstFailureOrEvent(event) | Until::FirstFailureOrBeyond { event, .. } => (true, event),
        };
        let bar = match until {
            Until::FirstFailureOrBeyond { reserved, driver_calls, .. } => Some((reserved, driver_calls)),
            _ => None,
        };
        let mut reached_end = true;
        for (k, &op) in program.ops.iter().enumerate() {
            if k & BAR_EVERY == 0
                && let Some((reserved, calls)) = bar
            {
                let stats = self.allocator.stats();
                if stats.reserved.peak > reserved && stats.driver_allocations + stats.driver_frees > calls {
                    self.outcome.was_given_up = true;
                    reached_end = false;
                    break;
                }
            }
            match op {
                Op::Malloc(id) => {
                    if self.ordinal >= self.driver.next_landmark {
                        self.driver.before_request(self.ordinal);
                    }
                    let served = self.malloc(id, program.requests[id as usize], program.op_event[k]);
                    self.ordinal += 1;
                    if !served && stop_at_failure {
                        reached_end = false;
                        break;
                    }
                }
                Op::Free(id) => {
                    if let Some(block) = self.block_of[id as usize].take() {
                        self.allocator.free(block);
                    }
                }
                Op::Drop(id) => {
                    if let Some(block) = self.block_of[id as usize] {
                        self.allocator.free_pending(block);
                    }
                }
                Op::Complete(id) => {
                    if let Some(block) = self.block_of[id as usize].take() {
                        self.allocator.complete(block);
                    }
                }
                Op::Failed(index) => {
                    self.recorded_failure(index, program.op_event[k]);
                    if self.outcome.first_failure.is_some() && stop_at_failure {
                        reached_end = false;
                        break;
                    }
                }
                Op::EmptyCache => {
                    self.allocator.empty_cache(&mut self.driver);
                    for tag in self.allocator.take_synchronised() {
                        self.block_of[tag as usize] = None;
                    }
                }
                Op::PoolFreeable(pool) => self.allocator.make_pool_freeable(pool),
                Op::ReleasePool(pool) => self.allocator.release_private_pool(&mut self.driver, pool),
            }
            if last_event != u32::MAX && program.op_event[k] >= last_event {
                reached_end = k + 1 == program.ops.len();
                break;
            }
        }
        self.outcome.reached_end = reached_end;
        self.outcome.at_end = *self.allocator.stats();
        if self.outcome.first_failure.is_none() {
            self.outcome.stats = self.outcome.at_end;
        }
        self.outcome
    }

    /// A request that failed when recorded is tried; if it succeeds it is released at once.
    fn recorded_failure(&mut self, index: u32, event: u32) {
        if self.ordinal >= self.driver.next_landmark {
            self.driver.before_request(self.ordinal);
        }
        let served = self.malloc(u32::MAX, self.program.failed[index as usize], event);
        self.ordinal += 1;
        if served && self.outcome.hypothetical_from.is_none() {
            self.outcome.hypothetical_from = Some(event);
            if self.outcome.first_failure.is_none() {
                self.outcome.peak_reserved_at_recorded_failure = Some(self.allocator.stats().reserved.peak);
            }
        }
    }
}
