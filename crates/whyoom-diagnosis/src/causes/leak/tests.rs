use super::*;
use crate::explanation::DeviceReport;
use crate::testing::{MIB, Recording, first_line};

fn verdict(report: &DeviceReport) -> (Cause, Option<&'static str>, Confidence) {
    let first = &report.findings[0];
    (first.cause, first.subcause, first.confidence)
}

#[test]
fn a_tensor_kept_at_every_step_is_a_leak() {
    let mut r = Recording::new(None);
    for _ in 0..12 {
        r.train_step(8 * MIB);
        r.alloc("20", 4 * MIB);
    }
    let report = r.explain();
    assert_eq!(verdict(&report), (Cause::Leak, Some("tensors_kept"), Confidence::Strong));
    assert_eq!(first_line(&report), 20);
    let growth = report.findings[0].growth.as_ref().expect("growth");
    assert_eq!(growth.bytes_per_step, 4 * MIB);
}

#[test]
fn a_structure_that_is_copied_is_one_call() {
    let mut r = Recording::new(None);
    for _ in 0..12 {
        r.train_step(8 * MIB);
        for _ in 0..6 {
            r.alloc("20~~", 4 * MIB);
            r.alloc("20~", 2 * MIB);
        }
    }
    r.train_step(8 * MIB);
    let report = r.explain();
    assert_eq!(verdict(&report), (Cause::Leak, Some("tensors_kept"), Confidence::Strong));
    let first = &report.findings[0];
    let growth = first.growth.as_ref().expect("growth");
    assert_eq!(growth.bytes_per_step, 36 * MIB);
    assert_eq!(growth.calls * growth.bytes_per_step, first.bytes_explained);
    assert!(first.summary.contains("about 36.0 MiB each"), "{}", first.summary);
}

#[test]
fn what_is_left_lasts_for_steps_and_not_for_calls() {
    let mut r = Recording::new(None);
    for _ in 0..8 {
        r.train_step(8 * MIB);
        for line in ["20", "22", "20", "22"] {
            r.alloc(line, 2 * MIB);
        }
    }
    r.set_limit(120 * MIB);
    assert!(r.try_alloc("30", 64 * MIB).is_none());
    let report = r.explain();
    let growth = report.findings.iter().find_map(|f| f.growth.clone()).expect("growth");
    let oom = report.oom.expect("a failure");
    let room = report.limit.high_bytes.expect("a refusal") - oom.live_bytes - oom.request_bytes;
    assert_eq!(growth.per, "step");
    assert_eq!((growth.calls, growth.bytes_per_step), (16, 4 * MIB), "two calls a step");
    assert_eq!(room / (4 * MIB), 3, "three more calls, and that is not two steps: {room}");
    assert_eq!(growth.dies_again_in_steps, Some(1));
}

#[test]
fn graphs_of_training_steps_are_told_from_those_of_a_validation() {
    let graphs_of = |forward_is_last: bool| {
        let mut r = Recording::new(None);
        for _ in 0..12 {
            if forward_is_last {
                r.train_step(8 * MIB);
            }
            for at in ["21>5", "21>6", "21>7"] {
                r.alloc(at, 8 * MIB);
            }
            if !forward_is_last {
                // Its backward pass runs, and the graph stays.
                let gradient = r.alloc("", 2 * MIB);
                r.step();
                r.free("14", gradient);
            }
        }
        r.alloc("30", 4 * MIB);
        let first = r.explain().findings.remove(0);
        assert_eq!(first.subcause, Some("autograd_graph"), "{first:?}");
        first.growth.and_then(|g| g.graphs_of)
    };
    assert_eq!(graphs_of(false), Some("training"));
    assert_eq!(graphs_of(true), Some("evaluation"));
}

#[test]
fn a_step_that_the_failure_ended_is_not_complete() {
    let mut r = Recording::new(Some(100 * MIB));
    for _ in 0..5 {
        r.train_step(8 * MIB);
    }
    r.alloc("", 2 * MIB);
    assert!(r.try_alloc("13!", 200 * MIB).is_none());
    // The exception passes the optimizer's mark, which closes.
    r.step();
    let report = r.explain();
    assert_eq!(report.steps.count, 5);
    let oom = report.oom.expect("a failure");
    assert_eq!((oom.step, oom.went_on), (Some(5), false));
}

#[test]
fn outputs_of_a_validation_that_keep_their_graphs_are_told_at_the_failing_request() {
    let mut r = Recording::new(Some(400 * MIB));
    for _ in 0..6 {
        r.train_step(8 * MIB);
    }
    let mut kept = Vec::new();
    let failed = loop {
        let batch = r.alloc("30", MIB);
        let Some(a) = r.try_alloc("31>5", 12 * MIB) else { break batch };
        let Some(b) = r.try_alloc("31>6", 12 * MIB) else { break batch };
        let Some(c) = r.try_alloc("31>7", 12 * MIB) else { break batch };
        r.free("30", batch);
        kept.extend([a, b, c]);
    };
    r.free_all("40", kept);
    r.free("40", failed);
    let report = r.explain();
    assert_eq!(verdict(&report), (Cause::Leak, Some("autograd_graph"), Confidence::Strong));
    assert_eq!(first_line(&report), 31);
    let growth = report.findings[0].growth.as_ref().expect("growth");
    assert_eq!(growth.dies_again_in_steps, Some(0));
    let without = report.remedies.iter().find(|x| x.kind == "code").expect("the program without what is kept");
    assert_eq!(without.outcome, crate::explanation::RemedyOutcome::Passes);
}

/// Twelve steps, each with what `each` does; the verdict must be that nothing is wrong.
fn is_healthy(mut each: impl FnMut(&mut Recording, usize)) {
    let mut r = Recording::new(None);
    for i in 0..12 {
        r.train_step(8 * MIB);
        each(&mut r, i);
    }
    r.train_step(8 * MIB);
    let report = r.explain();
    assert_eq!(report.findings[0].cause, Cause::Healthy, "{:?}", report.findings[0]);
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn state_made_in_the_first_step_is_none() {
    is_healthy(|r, i| {
        if i == 0 {
            r.alloc("13!", 8 * MIB);
            r.alloc("13!", 8 * MIB);
        }
    });
}

#[test]
fn a_saw_tooth_is_none() {
    let mut kept = Vec::new();
    is_healthy(|r, i| {
        kept.push(r.alloc("20", 4 * MIB));
        if i % 5 == 4 {
            r.free_all("21", kept.drain(..));
        }
    });
}

#[test]
fn a_queue_of_fixed_length_is_none() {
    let mut queue = std::collections::VecDeque::new();
    is_healthy(|r, _| {
        queue.push_back(r.alloc("20", 4 * MIB));
        if queue.len() > 3 {
            let oldest = queue.pop_front().expect("an element");
            r.free("20", oldest);
        }
    });
}

#[test]
fn a_buffer_that_fills_and_stays_is_none() {
    is_healthy(|r, i| {
        if i < 6 {
            r.alloc("20", 4 * MIB);
        }
    });
}

#[test]
fn peaks_that_climb_while_nothing_survives_are_none() {
    let mut r = Recording::new(None);
    for i in 0..12 {
        r.train_step((8 + 4 * i) * MIB);
    }
    assert_eq!(r.explain().findings[0].cause, Cause::Healthy);
}

#[test]
fn a_loss_kept_at_every_step_is_negligible_and_told() {
    let mut r = Recording::new(None);
    for _ in 0..12 {
        r.train_step(128 * MIB);
        r.alloc("20", 4);
    }
    let report = r.explain();
    assert_eq!(report.findings[0].cause, Cause::Healthy);
    assert!(report.findings[0].summary.contains("512 B"), "{}", report.findings[0].summary);
}

#[test]
fn a_model_that_does_not_fit_is_none() {
    let mut r = Recording::new(Some(100 * MIB));
    while r.try_alloc("5@", 4 * MIB).is_some()
        && r.try_alloc("6", 4 * MIB).is_some()
        && r.try_alloc("7@", 4 * MIB).is_some()
    {}
    let report = r.explain();
    let leaked = report.findings.iter().filter(|f| f.cause == Cause::Leak).map(|f| f.bytes_explained).sum::<u64>();
    assert!(leaked <= 40 * MIB, "what line 6 keeps at most");
}

#[test]
fn the_activations_of_the_failing_step_are_none() {
    let mut r = Recording::new(Some(100 * MIB));
    for _ in 0..6 {
        r.train_step(8 * MIB);
    }
    // The model is called many times in one step, as a recurrent cell is, and the last step is a long one.
    loop {
        let input = r.try_alloc("10", MIB);
        if input.is_none() || r.try_alloc("11>5", 4 * MIB).is_none() {
            break;
        }
    }
    let report = r.explain();
    assert_ne!(report.findings[0].cause, Cause::Leak, "{:?}", report.findings[0]);
}

#[test]
fn what_failed_attempts_left_is_of_exception_frames() {
    let mut r = Recording::new(Some(400 * MIB));
    for _ in 0..8 {
        r.train_step(8 * MIB);
        for at in ["21>5", "21>6"] {
            r.alloc(at, 6 * MIB);
        }
        assert!(r.try_alloc("21>7", 900 * MIB).is_none(), "each attempt fails");
    }
    let report = r.explain();
    let leak = report.findings.iter().find(|f| f.cause == Cause::Leak).expect("a leak");
    assert_eq!(leak.subcause, Some("exception_frames"), "{leak:?}");
}
