//! Bytes over time: how large each allocation is, what is live at an event, how high each step reaches.

use super::frames::Shapes;
use super::runs::Runs;
use super::shared::Shared;
use super::total;
use whyoom_replay::{NONE, Recorded, Steps, Trace};
use whyoom_snapshot::Action;

/// Highest and lowest live bytes of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    /// Number of the step.
    pub(crate) step: u64,
    /// First event.
    pub(crate) start: u32,
    /// Live bytes before the first event.
    pub(crate) floor: u64,
    /// Highest live bytes.
    pub(crate) peak: u64,
    /// Whether the step was completed.
    pub(crate) is_complete: bool,
}

/// Allocations of one device with sizes, calls and steps.
pub(crate) struct Ledger<'a> {
    pub(crate) trace: &'a Trace<'a>,
    pub(crate) shapes: &'a Shapes,
    pub(crate) runs: Runs,
    pub(crate) steps: Steps,
    /// Rounded bytes per allocation.
    pub(crate) sizes: Vec<u64>,
    /// Private pool per allocation, 0 = default; empty = all default.
    pub(crate) pools: Vec<u16>,
    /// Levels per step, the one in progress included; empty without steps.
    pub(crate) levels: Vec<Level>,
    /// Highest live bytes and the event after which they were reached.
    pub(crate) peak_live: u64,
    pub(crate) peak_event: Option<u32>,
    /// Highest requested bytes.
    pub(crate) peak_requested: u64,
    /// Last `alloc` event; what follows is the end of the program.
    pub(crate) last_alloc: Option<u32>,
    /// Steps that were completed. One that the last failing request ended is none, though the optimizer's mark closes
    /// when the exception passes it, and a period may look complete.
    pub(crate) completed: u64,
}

/// The smallest block, to round by where an allocation was never placed (`kMinBlockSize`, all releases).
const MIN_BLOCK: u64 = 512;

impl<'a> Ledger<'a> {
    pub(crate) fn new(trace: &'a Trace<'a>, recorded: &Recorded, shared: &'a Shared<'_>) -> Self {
        let shapes = shared.shapes();
        let runs = Runs::new(trace, shapes);
        let steps = Steps::find(trace, shared.step_basis());
        let round = |bytes: u64| bytes.max(1).saturating_add(MIN_BLOCK - 1) / MIN_BLOCK * MIN_BLOCK;
        let sizes: Vec<u64> = trace
            .allocations
            .iter()
            .enumerate()
            .map(|(i, a)| recorded.block_size.get(i).copied().filter(|&s| s > 0).unwrap_or_else(|| round(a.bytes)))
            .collect();
        let mut this = Self {
            trace,
            shapes,
            runs,
            steps,
            sizes,
            pools: recorded.pool_of.clone(),
            levels: Vec::new(),
            peak_live: 0,
            peak_event: None,
            peak_requested: 0,
            last_alloc: None,
            completed: 0,
        };
        this.completed = this.steps.completed();
        this.follow();
        this
    }

    fn follow(&mut self) {
        let events = &self.trace.device.events;
        let allocations = &self.trace.allocations;
        let old = || allocations.iter().zip(&self.sizes).filter(|(a, _)| a.alloc_event == NONE && a.free_event > 0);
        let mut live = total(old().map(|(_, &size)| size));
        let mut requested = total(old().map(|(a, _)| a.bytes));
        (self.peak_live, self.peak_requested) = (live, requested);
        let count = events.len() as u32;
        let mut ranges = self.steps.ranges(count);
        let mut next = ranges.next();
        let mut step = self.steps.first();
        for i in 0..events.len() {
            if let Some(range) = next.as_ref().filter(|r| r.start as usize <= i) {
                self.levels.push(Level { step, start: range.start, floor: live, peak: live, is_complete: true });
                step += 1;
                next = ranges.next();
            }
            match events.action[i] {
                Action::Alloc => {
                    let id = self.trace.allocation_of[i] as usize;
                    live = live.saturating_add(self.sizes[id]);
                    requested = requested.saturating_add(allocations[id].bytes);
                    self.peak_requested = self.peak_requested.max(requested);
                    self.last_alloc = Some(i as u32);
                    if live > self.peak_live {
                        self.peak_live = live;
                        self.peak_event = Some(i as u32);
                    }
                    if let Some(level) = self.levels.last_mut() {
                        level.peak = level.peak.max(live);
                    }
                }
                Action::FreeRequested | Action::FreeCompleted if self.is_drop(i) => {
                    let id = self.trace.allocation_of[i] as usize;
                    live = live.saturating_sub(self.sizes[id]);
                    requested = requested.saturating_sub(allocations[id].bytes);
                }
                _ => {}
            }
        }
        drop(ranges);
        let completed = self.completed as usize;
        for level in self.levels.iter_mut().skip(completed) {
            level.is_complete = false;
        }
    }

    /// Whether event `i` takes an allocation out of the program's hands. At event 0 it was gone before.
    pub(crate) fn is_drop(&self, i: usize) -> bool {
        let id = self.trace.allocation_of[i];
        i > 0 && self.trace.allocations.get(id as usize).is_some_and(|a| a.free_event == i as u32)
    }

    /// Allocations alive just before `event`, in order of discovery.
    pub(crate) fn alive_at(&self, event: u32) -> Vec<u32> {
        let alive = |(_, a): &(usize, &whyoom_replay::Allocation)| a.is_live_at(event);
        self.trace.allocations.iter().enumerate().filter(alive).map(|(i, _)| i as u32).collect()
    }

    /// Bytes allocated in the trace, each allocation counted once.
    pub(crate) fn made_in_trace(&self) -> u64 {
        let made = self.trace.allocations.iter().zip(&self.sizes).filter(|(a, _)| a.alloc_event != NONE);
        total(made.map(|(_, &size)| size))
    }

    /// Whether anything before `event` was allocated by autograd's threads: a backward pass has begun.
    pub(crate) fn has_backward_before(&self, event: u32) -> bool {
        let made = |a: &&whyoom_replay::Allocation| a.alloc_event < event;
        let is_of_autograd = |a: &whyoom_replay::Allocation| {
            let shape = self.shapes.of(a.stack);
            !shape.has_python() || shape.in_autograd
        };
        self.trace.allocations.iter().filter(made).any(is_of_autograd)
    }

    /// Whether an allocation is in a private pool: CUDA graphs keep what they captured.
    pub(crate) fn is_private(&self, id: u32) -> bool {
        self.pools.get(id as usize).is_some_and(|&pool| pool != 0)
    }

    /// Sum of the sizes of `allocations`.
    pub(crate) fn sum(&self, allocations: &[u32]) -> u64 {
        total(allocations.iter().map(|&id| self.sizes[id as usize]))
    }

    /// The level of the step that `event` lies in.
    pub(crate) fn level_at(&self, event: u32) -> Option<&Level> {
        self.levels.partition_point(|l| l.start <= event).checked_sub(1).map(|i| &self.levels[i])
    }
}

impl Level {
    /// Bytes that the step needs over what was live when it began.
    pub(crate) fn rise(&self) -> u64 {
        self.peak - self.floor
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{MIB, Recording};
    use whyoom_replay::Op;
    use whyoom_replay::edits::{Edit, EmptyCache};

    #[test]
    fn rounds_of_call_sites_are_steps_where_no_optimizer_steps() {
        let mut r = Recording::new(None);
        r.alloc("3", 8 * MIB);
        for _ in 0..10 {
            let x = r.alloc("10", MIB);
            let y = r.alloc("11>5", 4 * MIB);
            let z = r.alloc("12", MIB);
            r.free_all("13", [x, y, z]);
        }
        let report = r.explain();
        assert_eq!((report.steps.count, report.steps.source), (10, "period"));
    }

    #[test]
    fn layers_and_irregular_caches_are_no_steps() {
        // Ten layers inside one call, and a cache that is thrown away now and then.
        let mut r = Recording::new(None);
        for layer in 0..10 {
            let x = r.alloc("11>5", 4 * MIB);
            let y = r.alloc("11>6", 4 * MIB);
            r.free("11>6", if layer % 2 == 0 { x } else { y });
        }
        assert_eq!(r.explain().steps.source, "none");
        let mut r = Recording::new(None);
        let mut cache = r.alloc("9", MIB);
        for length in [3, 17, 5, 40, 9, 26, 2, 33] {
            for _ in 0..length {
                let longer = r.alloc("10", MIB);
                r.free("10", std::mem::replace(&mut cache, longer));
            }
            let fresh = r.alloc("12", MIB);
            r.free("12", std::mem::replace(&mut cache, fresh));
        }
        assert_eq!(r.explain().steps.source, "none");
    }

    #[test]
    fn optimizers_that_step_together_make_one_step() {
        let mut r = Recording::new(None);
        for _ in 0..6 {
            r.train_step(8 * MIB);
            let scratch = r.alloc("15!", 2 * MIB);
            r.free("15!", scratch);
            r.step();
        }
        assert_eq!(r.explain().steps.count, 6);
    }

    #[test]
    fn the_cache_is_emptied_before_the_next_steps_first_request() {
        let mut r = Recording::new(None);
        for _ in 0..6 {
            r.train_step(8 * MIB);
        }
        let snapshot = r.finish();
        let trace = whyoom_replay::Trace::new(&snapshot, &snapshot.devices[0]);
        let settings = whyoom_allocator::Settings::default();
        let options = whyoom_replay::RecordedOptions { model: whyoom_allocator::Model::default(), settings: &settings };
        let recorded = whyoom_replay::replay_recorded(&trace, options);
        let steps = whyoom_replay::Steps::find(&trace, &whyoom_replay::StepBasis::new(&snapshot));
        let edited = EmptyCache::after_steps(&steps, 2).apply(&recorded.program);
        let calls: Vec<usize> = (0..edited.ops.len()).filter(|&i| edited.ops[i] == Op::EmptyCache).collect();
        // After the second and the fourth step; no request follows the sixth.
        assert_eq!(calls.len(), 2);
        for at in calls {
            assert!(matches!(edited.ops[at + 1], Op::Malloc(_)));
            assert!(matches!(edited.ops[at - 1], Op::Free(_)), "gradients are gone by then");
        }
    }
}
