//! Figures of a single moment.

use whyoom_text::steps::{Measure, StepLog};

use super::super::answer::{Answer, finding};
use super::super::{next, offers};
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence};
use crate::words;

fn last(log: &StepLog, measure: Measure) -> Option<u64> {
    log.series.iter().find(|s| s.measure == measure)?.figures.last.map(|p| p.bytes)
}

/// Live and reserved at one moment: whether the rest is cache.
pub(super) fn judge(log: &StepLog) -> Answer {
    let live = last(log, Measure::Allocated).or_else(|| last(log, Measure::Active));
    let reserved = last(log, Measure::Reserved);
    let (Some(live), Some(reserved)) = (live, reserved) else {
        let summary = "The figures are of one moment, and too few to say what becomes of them.";
        return Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, 0, Vec::new()))
            .ask(next::allocator_figures());
    };
    let unused = reserved.saturating_sub(live);
    let share = unused as f64 / reserved.max(1) as f64;
    let evidence = vec![
        in_bytes(format!("live {}", words::bytes(live)), live, &[]),
        in_bytes(format!("reserved {}", words::bytes(reserved)), reserved, &[]),
        in_bytes(format!("unused {} ({:.1} %)", words::bytes(unused), share * 100.0), unused, &[]),
    ];
    if share < 0.10 {
        let summary = format!(
            "{} of {} reserved are live: there is next to nothing to rearrange, the amount is what it is. Which line holds it, \
             these figures cannot say.",
            words::bytes(live),
            words::bytes(reserved)
        );
        return Answer::of(finding(Cause::Capacity, Confidence::Weak, summary, live, evidence))
            .not(Cause::Fragmentation, format!("only {} are unused", words::bytes(unused)))
            .offer([offers::smaller_batch()])
            .ask(next::record());
    }
    let summary = format!(
        "{} of {} reserved are live, and no failure is shown: the rest is cache, as it is between steps or after a large one. It \
         is reused and is no fault.",
        words::bytes(live),
        words::bytes(reserved)
    );
    Answer::of(finding(Cause::Healthy, Confidence::Weak, summary, 0, evidence))
        .not(Cause::Fragmentation, "no request has failed; unused bytes alone are no fault")
        .ask(next::record())
}

/// Two sources name different free bytes of one card.
pub(super) fn disagreement(log: &StepLog) -> Option<Answer> {
    let free: Vec<(&str, u64)> = log
        .series
        .iter()
        .filter(|s| s.measure == Measure::Free && s.figures.count == 1)
        .filter_map(|s| Some((s.label.as_deref()?, s.figures.last?.bytes)))
        .collect();
    let is_nvml =
        |label: &str| label.to_ascii_lowercase().contains("nvml") || label.to_ascii_lowercase().contains("smi");
    let (nvml, cuda) = match free.as_slice() {
        [a, b] | [b, a] if is_nvml(a.0) && !is_nvml(b.0) => (a, b),
        _ => return None,
    };
    let difference = cuda.1.abs_diff(nvml.1);
    let summary = format!(
        "{} says {} free, {} says {}: {} apart. On Windows the CUDA figure leaves out what other programs hold; NVML's counts them. \
         Trust the lower one.",
        cuda.0,
        words::bytes(cuda.1),
        nvml.0,
        words::bytes(nvml.1),
        words::bytes(difference)
    );
    let evidence = vec![in_bytes(format!("the two differ by {}", words::bytes(difference)), difference, &[])];
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, difference, evidence);
    Some(Answer::of(unknown).ask(next::task_manager()))
}
