//! `healthy`: nothing is wrong.
//!
//! # What it finds
//! No request failed, nothing accumulates, and what is reserved is in proportion to what is needed.
//!
//! # Why it matters
//! Cached memory is not leaked: tools that show reserved memory as used frighten people into remedies that cost time.
//!
//! # How it decides
//! By the absence of every other finding. Proven where the whole trace was replayed exactly from its beginning and
//! steps show that live bytes come back to their level; else strong.
//!
//! # False positives
//! A recording that ends before trouble begins.
//!
//! # What to do
//! Nothing.

use super::{finding, in_bytes, in_number, leak, peak_in_words};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

pub(crate) fn find(case: &Case<'_>) -> Finding {
    let (reserved, needed) = (case.peak_reserved(), case.peak_active());
    let level = returns_to_level(case);
    let refused = if case.is_exact { case.recorded.stats.retries } else { 0 };
    let mut parts = vec!["No request failed".to_owned()];
    if !case.recorded.started_empty {
        parts[0].push_str(" in the part of the run that the trace keeps");
    }
    if refused > 0 {
        let times = words::plural(refused, "time", "times");
        parts[0].push_str(" for good, though cached memory had to be given back ");
        parts[0].push_str(&times);
    }
    if let Some((floor, steps)) = level {
        let steps = words::plural(steps, "step", "steps");
        parts.push(format!("live bytes come back to {} after every one of {steps}", words::bytes(floor)));
    }
    parts.push(format!("and {} reserved serve a peak of {}", words::bytes(reserved), peak_in_words(case)));
    let mut summary = parts.join(", ");
    summary.push_str(if case.recorded.started_empty {
        ". What is cached is not leaked: the allocator hands it out again."
    } else {
        " in it. What is cached, from before perhaps, is not leaked: the allocator hands it out again."
    });
    if let Some(later) = later_peak(case) {
        summary.extend([
            " The peak is the first step's alone, with what it makes and tries once (as cuDNN's search for algorithms does): \
             later steps reach ",
            &words::bytes(later),
            ".",
        ]);
    }
    let mut evidence = vec![
        in_bytes(format!("reserved memory peaks at {}", words::bytes(reserved)), reserved, &[]),
        in_bytes(format!("allocated and pending bytes peak at {}", words::bytes(needed)), needed, &[]),
    ];
    if let Some(statement) = leak::rule_out(case).filter(|_| case.growth.is_some()) {
        let growth = case.growth.as_ref().map_or((0, 0, 0), |g| (g.bytes_per_call, g.first_event, g.last_event));
        summary.extend([" Not a leak: ", &statement, "."]);
        evidence.push(in_bytes(statement, growth.0, &[growth.1, growth.2]));
    }
    if let Some((_, steps)) = level {
        evidence.push(in_number("steps whose live bytes come back to one level".to_owned(), steps, "steps", &[]));
    }
    let is_proven = case.is_exact && case.recorded.started_empty && level.is_some();
    let confidence = if is_proven { Confidence::Proven } else { Confidence::Strong };
    Finding { evidence, ..finding(Cause::Healthy, confidence, summary, 0) }
}

/// What steps after the first reach, where the first reaches far more.
fn later_peak(case: &Case<'_>) -> Option<u64> {
    let levels = &case.ledger.levels;
    let first = levels.first().filter(|l| l.step == 0)?;
    let later = levels.get(1..).filter(|l| l.len() >= 3)?.iter().map(|l| l.peak).max()?;
    (first.peak >= later.saturating_mul(2)).then_some(later)
}

/// The level that live bytes come back to after each step but the first, and the number of such steps; `None` if they
/// do not, or if there are too few.
fn returns_to_level(case: &Case<'_>) -> Option<(u64, u64)> {
    let floors: Vec<u64> = case.ledger.levels.iter().skip(2).map(|l| l.floor).collect();
    let (low, high) = (*floors.iter().min()?, *floors.iter().max()?);
    // Batches that are held over a step's end differ in size.
    let is_level = floors.len() >= 3 && (high - low).saturating_mul(50) <= case.ledger.peak_live;
    is_level.then_some((high, floors.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording};

    #[test]
    fn equal_steps_are_healthy_and_proven() {
        let mut r = Recording::new(None);
        for _ in 0..8 {
            r.train_step(16 * MIB);
        }
        let report = r.explain();
        assert_eq!(report.findings.len(), 1);
        assert_eq!((report.findings[0].cause, report.findings[0].confidence), (Cause::Healthy, Confidence::Proven));
        assert_eq!((report.steps.count, report.steps.source), (8, "annotations"));
        assert!(report.remedies.len() >= 12, "{}", report.remedies.len());
    }

    #[test]
    fn frees_that_wait_are_not_called_live() {
        let mut r = Recording::new(None);
        r.alloc("9", 64 * MIB);
        for _ in 0..8 {
            r.train_step(16 * MIB);
            let x = r.alloc("20", 32 * MIB);
            r.drop_while_used("21", x);
            r.complete(x);
        }
        let wait = r.alloc("20", 48 * MIB);
        r.drop_while_used("21", wait);
        let more = r.alloc("20", 48 * MIB);
        r.free("21", more);
        r.complete(wait);
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!(first.cause, Cause::Healthy, "{first:?}");
        let allocated = words::bytes(report.peak.allocated_bytes);
        let both = words::bytes(report.peak.active_bytes);
        assert_ne!(allocated, both);
        let says = format!("serve a peak of {allocated} allocated ({both} with frees that waited for other streams)");
        assert!(first.summary.contains(&says), "{}", first.summary);
    }

    #[test]
    fn a_peak_of_the_first_step_alone_is_told_as_such() {
        let run = |first: u64| {
            let mut r = Recording::new(None);
            let searched = r.alloc("11>5", first);
            r.free("11>5", searched);
            for _ in 0..8 {
                r.train_step(16 * MIB);
            }
            r.explain().findings.remove(0)
        };
        let high = run(100 * MIB);
        assert_eq!(high.cause, Cause::Healthy);
        assert!(high.summary.contains("The peak is the first step's alone"), "{}", high.summary);
        assert!(high.summary.ends_with("later steps reach 19.0 MiB."), "{}", high.summary);
        assert!(!run(30 * MIB).summary.contains("first step"), "less than twice as much");
    }
}
