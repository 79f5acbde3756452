use crate::explanation::{Cause, DeviceReport};
use crate::testing::{self, MIB, Recording, first_line};
use std::time::{Duration, Instant};
use whyoom_snapshot::{
    Action, Device, Events, Frame, Snapshot, StackId, StackTableBuilder, StreamId, StringTableBuilder,
};

fn first(report: &DeviceReport) -> (Cause, Option<&'static str>) {
    (report.findings[0].cause, report.findings[0].subcause)
}

/// Layers of 4 MiB are unfrozen one after the other, each with a few steps; the optimizer makes `tensors` of state for
/// each when its first gradient comes.
fn unfreezing(tensors: usize) -> DeviceReport {
    let mut r = Recording::new(None);
    for _ in 0..8 {
        r.alloc("3@", 4 * MIB);
    }
    for _ in 0..8 {
        for i in 0..3 {
            r.train_step(8 * MIB);
            for _ in 0..if i == 0 { tensors } else { 0 } {
                r.alloc("13!", 4 * MIB);
            }
        }
    }
    r.train_step(8 * MIB);
    r.explain()
}

#[test]
fn state_that_parameters_need_is_no_leak_however_late_it_comes() {
    assert_eq!(first(&unfreezing(2)).0, Cause::Healthy);
    assert_eq!(first(&unfreezing(3)).0, Cause::Healthy);
}

#[test]
fn more_state_than_parameters_need_is_one_of_every_epoch() {
    assert_eq!(first(&unfreezing(4)), (Cause::Leak, Some("state_per_epoch")));
}

#[test]
fn what_a_closure_makes_is_the_programs_and_not_the_optimizers() {
    let mut r = Recording::new(None);
    for _ in 0..2 {
        r.alloc("3@", 2 * MIB);
    }
    for _ in 0..12 {
        let batch = r.alloc("10", MIB);
        let activations = [r.alloc("13!30>5", 4 * MIB), r.alloc("13!30>6", 4 * MIB)];
        r.alloc("13!31", 2 * MIB);
        let gradient = r.alloc("", 2 * MIB);
        r.free_all("", activations);
        let scratch = r.alloc("13!", 2 * MIB);
        r.free("13!", scratch);
        r.step();
        r.free_all("14", [batch, gradient]);
    }
    let report = r.explain();
    assert_eq!(first(&report), (Cause::Leak, Some("tensors_kept")), "{:?}", report.findings[0]);
    assert_eq!(first_line(&report), 31);
    let of = |name: &str| report.categories.peak.iter().find(|c| c.category == name).map_or(0, |c| c.bytes);
    assert_eq!(of("activations"), 8 * MIB + 12 * 2 * MIB, "those of the step, and what line 31 keeps");
    assert_eq!(of("optimizer_state"), 0);
}

#[test]
fn a_librarys_workspace_made_in_the_first_call_is_not_what_calls_keep() {
    let mut r = Recording::new(None);
    r.alloc("21", 32 * MIB);
    for _ in 0..12 {
        r.alloc("21", MIB);
        let other = r.alloc("22", 2 * MIB);
        r.train_step(8 * MIB);
        r.alloc("23", MIB);
        r.free("24", other);
    }
    r.train_step(8 * MIB);
    let report = r.explain();
    let growth = report.findings[0].growth.as_ref().expect("growth");
    assert_eq!((growth.calls, report.findings[0].bytes_explained), (12, 24 * MIB), "{:?}", report.findings[0]);
}

/// Two validations of `calls` each whose graphs live until they end, in the second of which a request fails.
fn validations(calls: usize, is_followed: bool) -> DeviceReport {
    let mut r = Recording::new(Some(400 * MIB));
    for _ in 0..6 {
        r.train_step(8 * MIB);
    }
    let layers = ["30", "31>5", "31>6:relu", "31>7", "31>8:relu"];
    let kept: Vec<u32> = (0..calls).flat_map(|_| layers.map(|at| r.alloc(at, 4 * MIB))).collect();
    if is_followed {
        let gradient = r.alloc("", MIB);
        r.free("14", gradient);
    }
    r.free_all("40", kept);
    for _ in 0..6 {
        r.train_step(8 * MIB);
    }
    while layers.iter().all(|at| r.try_alloc(at, 4 * MIB).is_some()) {}
    r.explain()
}

#[test]
fn graphs_of_the_validation_in_progress_are_told_though_an_earlier_one_let_them_go() {
    let report = validations(4, false);
    assert_eq!(first(&report), (Cause::Leak, Some("autograd_graph")), "{:?}", report.findings[0]);
    assert_eq!(first_line(&report), 31);
    assert_eq!(report.findings[0].growth.as_ref().and_then(|g| g.graphs_of), Some("evaluation"));
    let followed = validations(4, true);
    assert_ne!(
        followed.findings[0].cause,
        Cause::Leak,
        "many calls before one backward pass: {:?}",
        followed.findings[0]
    );
}

/// A trace of `count` allocations, each by the stack that `stack_of` numbers; of those, `dropped` are dropped again right
/// after the allocation that comes so many after them. There is no layout to replay.
fn trace(count: u32, stack_of: impl Fn(u32) -> u32, dropped: impl Fn(u32) -> Option<u32>) -> Snapshot {
    let mut strings = StringTableBuilder::default();
    let mut stacks = StackTableBuilder::default();
    let (file, function) = (strings.intern("/job/train.py"), strings.intern("main"));
    let mut at = |line: u32| {
        let frame = stacks.frame(Frame { function, file, line });
        stacks.push(StackId::EMPTY, frame)
    };
    let mut events = Events::default();
    let mut push = |action: Action, id: u32, stack: StackId| {
        events.action.push(action);
        events.addr.push((1 << 40) + (u64::from(id) << 21));
        events.size.push(MIB);
        events.stream.push(StreamId(0));
        events.stack.push(stack);
        events.time_us.push(1_000 + 10 * events.time_us.len() as i64);
    };
    let mut drops: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
    for id in 0..count {
        if let Some(slot) = dropped(id).and_then(|after| drops.get_mut(id as usize + after as usize)) {
            slot.push(id);
        }
    }
    for id in 0..count {
        let stack = at(stack_of(id));
        push(Action::Alloc, id, stack);
        for &gone in &drops[id as usize] {
            push(Action::FreeRequested, gone, stack);
            push(Action::FreeCompleted, gone, stack);
        }
    }
    Snapshot {
        devices: vec![Device { index: 0, events, ..Device::default() }],
        streams: [0].into(),
        pools: vec![(0, 0)],
        strings: strings.finish(),
        stacks: stacks.finish(),
        ..Snapshot::default()
    }
}

#[test]
fn cost_is_near_linear_whatever_the_stacks() {
    const COUNT: u32 = 200_000;
    let shapes: [(&str, Snapshot); 5] = [
        ("one stack, nothing dropped", trace(COUNT, |_| 1, |_| None)),
        ("one stack, a long queue", trace(COUNT, |_| 1, |_| Some(COUNT / 3))),
        ("one stack, one burst after the other", trace(COUNT, |_| 1, |id| Some(99 - id % 100))),
        ("a stack each", trace(COUNT, |id| id, |_| None)),
        ("few of each stack", trace(COUNT, |id| id % (COUNT / 16), |id| (id % 2 == 0).then_some(COUNT / 2))),
    ];
    for (name, snapshot) in shapes {
        let begun = Instant::now();
        let report = testing::explain(&snapshot);
        assert!(!report.findings.is_empty());
        let taken = begun.elapsed();
        // Without optimisation this takes a second at most; each against each took twenty.
        assert!(taken < Duration::from_secs(8), "{name}: {taken:?}");
    }
}
