//! Edits of a program, one by one and together.

use whyoom_allocator::{Model, Settings};
use whyoom_replay::edits::{Drop, Edit, EmptyCache, Group, OptimizerSwap, Scale, StateTensors};
use whyoom_replay::{
    LimitKind, Op, Placement, Program, ProgramRequest, Scenario, Start, TuneQuestion, Until, simulate, tune,
};

const MIB: u64 = 1 << 20;

/// Two steps of a batch of 30 MiB each beside state of 8 MiB from the first of them.
fn program() -> Program {
    let mut p = Program { streams: [0].into(), ..Program::default() };
    let sizes = [30 * MIB, 8 * MIB, 30 * MIB];
    p.requests = sizes.iter().map(|&bytes| ProgramRequest { bytes, stream: 0, pool: 0 }).collect();
    p.ops = vec![Op::Malloc(0), Op::Malloc(1), Op::Free(0), Op::Malloc(2), Op::Free(2)];
    p.op_event = vec![0, 10, 20, 30, 40];
    p
}

fn peak(program: &Program) -> u64 {
    let scenario = Scenario {
        model: Model::default(),
        settings: &Settings::default(),
        limit: None,
        limit_kind: LimitKind::Fraction,
        start: Start::Cold,
        placement: Placement::USUAL,
        until: Until::End,
    };
    simulate(program, &scenario).stats.allocated.peak
}

#[test]
fn what_is_dropped_is_neither_requested_nor_freed() {
    let p = program();
    let dropped = Drop(Group::of_allocations(&p, &[0])).apply(&p);
    assert_eq!(dropped.ops, [Op::Malloc(1), Op::Malloc(2), Op::Free(2)]);
    assert_eq!(dropped.op_event, [10, 30, 40]);
    assert_eq!(peak(&p), 38 * MIB);
}

#[test]
fn a_group_is_scaled_and_nothing_else() {
    let p = program();
    let scaled = Scale { group: Group::of_allocations(&p, &[0, 2]), factor: 0.6 }.apply(&p);
    assert_eq!(scaled.requests.iter().map(|r| r.bytes / MIB).collect::<Vec<_>>(), [18, 8, 18]);
    assert_eq!(peak(&scaled), 26 * MIB);
    let nothing = Scale { group: Group::of_allocations(&p, &[0]), factor: 0.0 }.apply(&p);
    assert_eq!(nothing.requests[0].bytes, 1, "no request becomes none");
}

#[test]
fn the_cache_is_emptied_before_the_next_request() {
    let p = program();
    let edit = EmptyCache { before: vec![11, 15, 99] };
    assert_eq!(edit.count(&p), 2, "nothing follows the last place");
    let edited = edit.apply(&p);
    assert_eq!(edited.ops[3..5], [Op::EmptyCache, Op::Malloc(2)], "two places before one request are one call");
}

#[test]
fn another_optimizer_keeps_so_many_tensors_a_parameter() {
    let p = program();
    let parameter = ProgramRequest { bytes: 4 * MIB, stream: 0, pool: 0 };
    for (state, expected) in [(StateTensors::None, 30), (StateTensors::One, 34), (StateTensors::Two, 38)] {
        let swap = OptimizerSwap { recorded: Group::of_allocations(&p, &[1]), parameters: vec![parameter], state };
        let swapped = swap.apply(&p);
        assert_eq!(peak(&swapped), expected * MIB, "{state:?}");
        assert!(swapped.op_event.is_sorted());
    }
}

#[test]
fn edits_compose_in_any_order() {
    let p = program();
    let drop = Drop(Group::of_allocations(&p, &[1]));
    let scale = Scale { group: Group::of_allocations(&p, &[0, 1, 2]), factor: 2.0 };
    let calls = EmptyCache { before: vec![25] };
    let one = calls.apply(&scale.apply(&drop.apply(&p)));
    let other = drop.apply(&scale.apply(&calls.apply(&p)));
    assert_eq!((one.ops, one.requests), (other.ops, other.requests));
}

#[test]
fn the_search_finds_what_reserves_least() {
    // Each step asks for a little more than the one before, and pins a small block in what it leaves.
    let mut p = Program { streams: [0].into(), ..Program::default() };
    for i in 0..40u32 {
        p.requests.push(ProgramRequest { bytes: (40 + u64::from(i)) * MIB, stream: 0, pool: 0 });
        p.requests.push(ProgramRequest { bytes: 2 * MIB, stream: 0, pool: 0 });
        p.ops.extend([Op::Malloc(2 * i), Op::Free(2 * i), Op::Malloc(2 * i + 1)]);
        p.op_event.extend([3 * i, 3 * i + 1, 3 * i + 2]);
    }
    let question = TuneQuestion {
        program: &p,
        model: Model::default(),
        reference: Settings::default(),
        limit: None,
        limit_kind: LimitKind::Fraction,
        collects: false,
        start: Start::Cold,
        until: Until::FirstFailure,
        oldest: Model::default().release,
        most: 120,
    };
    let tuned = tune(&question);
    assert_eq!(tuned.tried, 120);
    let best = &tuned.pareto[tuned.best.expect("some pass")];
    assert!(best.peak_reserved() * 4 < tuned.default.peak_reserved(), "{}: {}", best.text, best.peak_reserved());
    assert!(tuned.pareto.windows(2).all(|w| w[0].peak_reserved() <= w[1].peak_reserved()));
    assert_eq!(tuned.default.text, "");
    assert_eq!(tuned.failed, 0, "without a limit nothing fails");
}

#[test]
fn a_failing_request_keeps_its_ordinal_in_the_recording() {
    let mut p = program();
    p.request_events = vec![0, 10, 30];
    let edited = Drop(Group::of_allocations(&p, &[1])).apply(&p);
    let scenario = Scenario {
        model: Model::default(),
        settings: &Settings::default(),
        limit: Some(MIB),
        limit_kind: LimitKind::Fraction,
        start: Start::Cold,
        placement: Placement::USUAL,
        until: Until::End,
    };
    let failure = simulate(&edited, &scenario).first_failure.expect("nothing fits in a MiB");
    assert_eq!((failure.event, failure.malloc), (0, 0));
    let later = Drop(Group::of_allocations(&p, &[0, 1])).apply(&p);
    let failure = simulate(&later, &scenario).first_failure.expect("nothing fits in a MiB");
    assert_eq!((failure.event, failure.malloc), (30, 2), "the third request when recorded");
}
