use crate::explanation::{Cause, DeviceReport, Growth};
use crate::testing::{MIB, Recording};

/// What the verdict, a leak, says of its growth.
fn growth(report: &DeviceReport) -> (Option<&'static str>, Growth) {
    let first = &report.findings[0];
    assert_eq!(first.cause, Cause::Leak, "{first:?}");
    (first.subcause, first.growth.clone().expect("growth"))
}

/// A forward pass at line 11 with two layers of two operations each, and its tensors.
fn forward(r: &mut Recording) -> Vec<u32> {
    ["11>5", "11>6:relu", "11>7", "11>8:relu"].map(|at| r.alloc(at, 4 * MIB)).into()
}

fn backward(r: &mut Recording, activations: Vec<u32>) {
    let gradient = r.alloc("", 2 * MIB);
    r.free_all("", activations);
    r.step();
    r.free("14", gradient);
}

#[test]
fn calls_that_no_backward_pass_follows_are_broken_off_where_the_others_of_the_line_are_followed() {
    let run = |every: usize| {
        let mut r = Recording::new(None);
        for i in 0..24 {
            let batch = r.alloc("10", MIB);
            let activations = forward(&mut r);
            // A loss that is not finite is kept in a log, and its backward pass skipped.
            if i % every != every - 1 {
                backward(&mut r, activations);
            }
            r.free("15", batch);
        }
        r.alloc("30", MIB);
        r.explain()
    };
    let report = run(3);
    let (subcause, growth) = growth(&report);
    assert_eq!((subcause, growth.graphs_of), (Some("autograd_graph"), Some("broken_off")));
    assert_eq!((growth.calls, report.findings[0].bytes_explained), (8, 8 * 16 * MIB));
    assert!(report.findings[0].summary.contains("No backward pass follows those calls"));
}

#[test]
fn what_one_operation_of_pytorch_keeps_in_every_layer_is_a_graph() {
    let kept = |place: [&str; 4]| {
        let mut r = Recording::new(None);
        for _ in 0..8 {
            r.train_step(8 * MIB);
            for at in place {
                // Its operand goes, its result is saved for the backward pass.
                let operand = r.alloc("21>9", 4 * MIB);
                r.alloc(at, 4 * MIB);
                r.free("21>9", operand);
            }
        }
        r.alloc("30", MIB);
        growth(&r.explain()).0
    };
    assert_eq!(kept(["21>5:relu", "21>6:relu", "21>7:relu", "21>8:relu"]), Some("autograd_graph"));
    assert_eq!(kept(["21>5.update", "21>6.update", "21>7.update", "21>8.update"]), Some("tensors_kept"), "a cache");
}

#[test]
fn half_of_what_a_forward_makes_is_its_graph_and_a_little_of_it_is_kept_on_purpose() {
    let kept = |dropped: u64| {
        let mut r = Recording::new(None);
        for _ in 0..8 {
            r.train_step(8 * MIB);
            let more = r.alloc("21>9", dropped.max(1));
            for at in ["21>5", "21>6"] {
                r.alloc(at, 4 * MIB);
            }
            r.free("21>9", more);
        }
        r.alloc("30", MIB);
        growth(&r.explain()).0
    };
    assert_eq!(kept(0), Some("autograd_graph"));
    assert_eq!(kept(64 * MIB), Some("tensors_kept"));
}
