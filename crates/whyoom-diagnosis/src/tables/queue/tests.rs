use crate::explanation::{Cause, DeviceReport};
use crate::testing::{MIB, Recording, first_line};
use std::collections::VecDeque;

fn queue_of(report: &DeviceReport) -> Option<&'static str> {
    report.findings[0].growth.as_ref().and_then(|g| g.queue)
}

/// Each step fetches `in` batches and uses `out` of them, while it has more than `least`.
fn fetching(fetched: usize, used: usize, least: usize) -> DeviceReport {
    let mut r = Recording::new(None);
    let mut queue = VecDeque::new();
    for _ in 0..40 {
        for _ in 0..fetched {
            queue.push_back(r.alloc("20", 2 * MIB));
        }
        r.train_step(8 * MIB);
        for _ in 0..used {
            if queue.len() > least {
                let oldest = queue.pop_front().expect("an element");
                r.free("22", oldest);
            }
        }
    }
    r.train_step(8 * MIB);
    r.explain()
}

#[test]
fn a_queue_that_fills_faster_than_it_is_emptied_is_a_leak() {
    let report = fetching(3, 2, 0);
    let first = &report.findings[0];
    assert_eq!((first.cause, first.subcause, queue_of(&report)), (Cause::Leak, Some("tensors_kept"), Some("backlog")));
    assert_eq!(first_line(&report), 20);
    assert!(first.summary.contains("a queue that fills faster than it is emptied"), "{}", first.summary);
}

#[test]
fn a_queue_that_is_emptied_as_fast_as_it_fills_is_none() {
    assert_eq!(fetching(2, 2, 0).findings[0].cause, Cause::Healthy);
    // It fills to thirty and stays.
    assert_eq!(fetching(3, 3, 30).findings[0].cause, Cause::Healthy);
    // To ninety, late, but before the end.
    assert_eq!(fetching(3, 3, 90).findings[0].cause, Cause::Healthy);
}

/// What steps make is dropped all at once after so many of them.
fn bursts(lengths: &[usize]) -> DeviceReport {
    let mut r = Recording::new(None);
    let mut cycles = Vec::new();
    for (i, &length) in lengths.iter().enumerate() {
        for _ in 0..length {
            r.train_step(8 * MIB);
            cycles.push(r.alloc("20", 2 * MIB));
        }
        if i + 1 < lengths.len() {
            r.free_all("", cycles.drain(..));
        }
    }
    r.train_step(8 * MIB);
    r.explain()
}

#[test]
fn what_is_freed_in_bursts_only_is_in_cycles_once_more_waits_than_ever() {
    let report = bursts(&[12, 14, 40]);
    let first = &report.findings[0];
    assert_eq!((first.cause, first.subcause), (Cause::Leak, Some("reference_cycle")), "{first:?}");
    assert_eq!(queue_of(&report), Some("bursts"));
    assert!(first.summary.contains("2 bursts so far freed up to 14 of these"), "{}", first.summary);
    assert!(first.summary.contains("40 wait for the next"), "{}", first.summary);
}

#[test]
fn teeth_of_one_height_are_none() {
    assert_eq!(bursts(&[14, 14, 14, 14]).findings[0].cause, Cause::Healthy);
}

#[test]
fn what_one_step_drops_at_its_end_is_no_burst() {
    let mut r = Recording::new(None);
    for _ in 0..8 {
        let batch = r.alloc("10", MIB);
        let cells: Vec<u32> = (0..20).map(|_| r.alloc("11>5", MIB)).collect();
        let gradient = r.alloc("", 2 * MIB);
        r.free_all("", cells);
        r.step();
        r.free_all("14", [gradient, batch]);
    }
    for _ in 0..60 {
        r.alloc("11>5", MIB);
    }
    assert_eq!(r.explain().findings[0].cause, Cause::Healthy);
}
