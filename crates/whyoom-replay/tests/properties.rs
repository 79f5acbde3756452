//! What holds of every program: its own trace replays exactly, and a larger limit changes nothing before the smaller
//! one is first met.

use proptest::prelude::*;
use whyoom_allocator::{Allocator, AscendingDriver, BlockId, Driver, Model, PlacedState, Release, Request, Settings};
use whyoom_replay::{
    LimitKind, Op, Outcome, Placement, Program, ProgramRequest, RecordedOptions, Scenario, Start, Trace, Until,
    replay_recorded, simulate,
};
use whyoom_snapshot::{Action, Block, BlockState, Device, Events, PoolRef, Segment, Snapshot, StackId, StreamId};

const MIB: u64 = 1 << 20;

/// Requests, and frees of the n-th of what is live.
#[derive(Debug, Clone)]
enum Step {
    Malloc(u64),
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1u64..4096, 1u64..2 * MIB, MIB..64 * MIB, Just(10 * MIB), Just(20 * MIB)];
    let step = prop_oneof![5 => bytes.prop_map(Step::Malloc), 4 => any::<usize>().prop_map(Step::Free)];
    proptest::collection::vec(step, 1..200)
}

fn settings() -> impl Strategy<Value = Settings> {
    let split = prop_oneof![2 => Just(None), 1 => (20u64..300).prop_map(|m| Some(m * MIB))];
    let roundup = prop_oneof![2 => Just(0u32), 1 => (0u32..5).prop_map(|e| 1 << e)];
    (split, roundup, any::<bool>()).prop_map(|(max_split_size, roundup, expandable_segments)| Settings {
        max_split_size,
        roundup_power2_divisions: [roundup; 16],
        expandable_segments,
        ..Settings::default()
    })
}

/// A driver that writes its calls down as events.
struct Log {
    inner: AscendingDriver,
    calls: Vec<(Action, u64, u64)>,
}

impl Driver for Log {
    fn allows(&mut self, total: u64, maps: bool) -> bool {
        self.inner.allows(total, maps)
    }
    fn must_collect(&mut self, total: u64, threshold: f64, next: u64) -> bool {
        self.inner.must_collect(total, threshold, next)
    }
    fn segment_alloc(&mut self, bytes: u64, stream: u64) -> Option<u64> {
        let address = self.inner.segment_alloc(bytes, stream)?;
        self.calls.push((Action::SegmentAlloc, address, bytes));
        Some(address)
    }
    fn segment_free(&mut self, address: u64, bytes: u64) {
        self.inner.segment_free(address, bytes);
        self.calls.push((Action::SegmentFree, address, bytes));
    }
    fn reserve(&mut self, page: u64, stream: u64) -> (u64, u64) {
        self.inner.reserve(page, stream)
    }
    fn map(&mut self, address: u64, bytes: u64, _total_after: u64) -> bool {
        self.calls.push((Action::SegmentMap, address, bytes));
        true
    }
    fn unmap(&mut self, address: u64, bytes: u64) {
        self.calls.push((Action::SegmentUnmap, address, bytes));
    }
}

/// The snapshot that an allocator with these settings leaves of the program.
fn record(steps: &[Step], settings: &Settings, limit: Option<u64>) -> Snapshot {
    let mut allocator = Allocator::new(Model::for_torch(Release::DEFAULT), settings.clone(), &[0]);
    let mut log = Log { inner: AscendingDriver::new(limit), calls: Vec::new() };
    let mut events = Events::default();
    let push = |events: &mut Events, action: Action, addr: u64, size: u64| {
        events.action.push(action);
        events.addr.push(addr);
        events.size.push(size);
        events.stream.push(StreamId(0));
        events.stack.push(StackId::EMPTY);
        events.time_us.push(events.action.len() as i64);
    };
    let mut live: Vec<(BlockId, u64, u64)> = Vec::new();
    for (tag, step) in steps.iter().enumerate() {
        match *step {
            Step::Malloc(bytes) => {
                let placed = allocator.malloc(&mut log, Request { bytes, stream: 0, pool: 0, tag: tag as u32 });
                for (action, addr, size) in std::mem::take(&mut log.calls) {
                    push(&mut events, action, addr, size);
                }
                match placed {
                    Ok(block) => {
                        let address = allocator.block(block).address;
                        push(&mut events, Action::Alloc, address, bytes);
                        live.push((block, address, bytes));
                    }
                    Err(failure) => push(&mut events, Action::Oom, 1 << 37, failure.size),
                }
            }
            Step::Free(n) if !live.is_empty() => {
                let (block, address, bytes) = live.swap_remove(n % live.len());
                allocator.free(block);
                push(&mut events, Action::FreeRequested, address, bytes);
                push(&mut events, Action::FreeCompleted, address, bytes);
            }
            Step::Free(_) => {}
        }
    }
    let mut device = Device { index: 0, events, has_segments: true, ..Device::default() };
    for block in allocator.layout() {
        let at = device.blocks.len() as u32;
        // Unmapped pages part an expandable segment into several, as PyTorch lists them.
        let end = device.segments.last().map_or(0, |s: &Segment| s.address + s.total_size);
        if block.starts_segment || block.address != end {
            device.segments.push(Segment {
                address: block.address,
                total_size: 0,
                stream: StreamId(0),
                is_small: false,
                pool: PoolRef::DEFAULT,
                is_expandable: block.is_expandable,
                stack: None,
                blocks: at..at,
            });
        }
        if let Some(segment) = device.segments.last_mut() {
            segment.total_size += block.size;
            segment.blocks.end = at + 1;
        }
        let state = match block.state {
            PlacedState::Allocated => BlockState::Allocated,
            PlacedState::Pending => BlockState::PendingFree,
            PlacedState::Free => BlockState::Free,
        };
        let requested_size = (state != BlockState::Free).then_some(block.requested);
        device.blocks.push(Block { address: block.address, size: block.size, requested_size, state, stack: None });
    }
    Snapshot { devices: vec![device], streams: [0].into(), pools: vec![(0, 0)], ..Snapshot::default() }
}

/// The program of the steps, one event each.
fn program(steps: &[Step]) -> Program {
    let mut program = Program { streams: [0].into(), ..Program::default() };
    let mut live: Vec<u32> = Vec::new();
    for (event, step) in steps.iter().enumerate() {
        let op = match *step {
            Step::Malloc(bytes) => {
                let id = program.requests.len() as u32;
                program.requests.push(ProgramRequest { bytes, stream: 0, pool: 0 });
                live.push(id);
                Op::Malloc(id)
            }
            Step::Free(n) if !live.is_empty() => Op::Free(live.swap_remove(n % live.len())),
            Step::Free(_) => continue,
        };
        program.ops.push(op);
        program.op_event.push(event as u32);
    }
    program
}

fn run(program: &Program, settings: &Settings, limit: Option<u64>, until: Until) -> Outcome {
    under(LimitKind::Fraction, program, settings, limit, until)
}

fn under(limit_kind: LimitKind, program: &Program, settings: &Settings, limit: Option<u64>, until: Until) -> Outcome {
    let scenario = Scenario {
        model: Model::for_torch(Release::DEFAULT),
        settings,
        limit,
        limit_kind,
        start: Start::Cold,
        placement: Placement::USUAL,
        until,
    };
    simulate(program, &scenario)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_trace_of_a_replay_replays_exactly(
        steps in steps(), settings in settings(), limit in prop_oneof![Just(None), (100u64..2000).prop_map(|m| Some(m * MIB))],
    ) {
        let snapshot = record(&steps, &settings, limit);
        let trace = Trace::new(&snapshot, &snapshot.devices[0]);
        let options = RecordedOptions { model: Model::for_torch(Release::DEFAULT), settings: &settings };
        let recorded = replay_recorded(&trace, options);
        prop_assert!(recorded.is_exact(), "{}/{} {:?}", recorded.matched, recorded.events, recorded.first_divergence);
        // The figures are those that the events add up to.
        let live: u64 = snapshot.devices[0].blocks.iter().filter(|b| b.state == BlockState::Allocated).map(|b| b.size).sum();
        prop_assert_eq!(recorded.stats.allocated.current, live);
    }

    #[test]
    fn a_larger_limit_changes_nothing_before_the_smaller_one_is_met(
        steps in steps(), settings in settings(), small in 50u64..1000, more in 1u64..1000,
    ) {
        let program = program(&steps);
        let (small, large) = (Some(small * MIB), Some((small + more) * MIB));
        // The last step before which the smaller limit has refused nothing.
        // Oversize blocks are released without a retry being counted; nothing else frees segments here.
        let is_untouched = |o: &Outcome| o.stats.retries == 0 && o.failures == 0 && o.stats.driver_frees == 0;
        let events = program.op_event.len();
        let untouched = (0..events)
            .take_while(|&k| is_untouched(&run(&program, &settings, small, Until::FirstFailureOrEvent(program.op_event[k]))))
            .last();
        if let Some(k) = untouched {
            let until = Until::FirstFailureOrEvent(program.op_event[k]);
            let (a, b) = (run(&program, &settings, small, until), run(&program, &settings, large, until));
            prop_assert_eq!(a.stats, b.stats);
            let free = run(&program, &settings, None, until);
            prop_assert_eq!(a.stats, free.stats);
        }
    }

    #[test]
    fn a_program_fits_from_what_the_search_says(steps in steps(), settings in settings()) {
        let program = program(&steps);
        let trial = whyoom_replay::Trial {
            program: &program,
            model: Model::for_torch(Release::DEFAULT),
            settings: settings.clone(),
            limit: None,
            limit_kind: LimitKind::Card,
            start: Start::Cold,
            until: Until::FirstFailure,
        };
        let fits = whyoom_replay::smallest_limit(&trial, whyoom_replay::Members::All).expect("it passes without a limit");
        prop_assert!(fits.bytes <= fits.reliable_bytes);
        for limit in [fits.bytes, fits.reliable_bytes] {
            let outcome = under(LimitKind::Card, &program, &settings, Some(limit), Until::FirstFailure);
            prop_assert!(outcome.first_failure.is_none(), "{limit} of {fits:?}");
        }
        let requested = run(&program, &settings, None, Until::End).stats.requested.peak;
        // A card holds what is asked for; a cap is compared with a request before whole pages are mapped.
        prop_assert!(fits.bytes + 2 * MIB > requested);
    }
}
