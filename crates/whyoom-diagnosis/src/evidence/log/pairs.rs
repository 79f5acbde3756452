//! One figure for each of two ways to run the same program.

use whyoom_text::messages::Doing;
use whyoom_text::steps::{StepLog, StepSeries};

use super::super::answer::{Answer, finding};
use super::super::dossier::About;
use super::super::{next, offers};
use super::amount;
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence};

/// Two figures that differ by less are the same.
const SAME: f64 = 0.03;

pub(super) fn judge(log: &StepLog, about: &About<'_>) -> Option<Answer> {
    let single = |s: &&StepSeries| {
        s.label.is_some() && s.figures.count <= 2 && s.figures.first.map(|p| p.bytes) == s.figures.last.map(|p| p.bytes)
    };
    let first = log.series.iter().find(single)?;
    let all: Vec<(&StepSeries, u64)> = log
        .series
        .iter()
        .filter(single)
        .filter(|s| s.measure == first.measure && s.unit == first.unit)
        .filter_map(|s| Some((s, s.figures.last?.bytes)))
        .collect();
    let low = all.iter().min_by_key(|(_, bytes)| *bytes)?;
    let high = all.iter().max_by_key(|(_, bytes)| *bytes)?;
    if all.len() < 2 {
        return None;
    }
    let has = |series: &StepSeries, words: &[&str]| {
        let label = series.label.as_deref().unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|word| label.contains(word))
    };
    let rise = high.1 - low.1;
    let is_same = rise as f64 <= SAME * high.1 as f64;
    let text = |s: &StepSeries| s.label.clone().unwrap_or_default();
    let says = format!(
        "{} with \"{}\", {} with \"{}\"",
        amount(low.0, low.1 as f64),
        text(low.0),
        amount(high.0, high.1 as f64),
        text(high.0)
    );
    let evidence = vec![in_bytes(format!("{says}: an amount, the same at each step"), rise, &[])];
    let (cause, subcause, why, remedies) = if is_same && has(high.0, &["checkpoint"]) {
        let why =
            "checkpointing changes nothing, so it does not act: in evaluation mode, or where no input needs a gradient";
        (Cause::Capacity, None, why, vec![offers::train_mode()])
    } else if is_same {
        return None;
    } else if has(high.0, &["benchmark"]) {
        let why = "the difference is what the search for algorithms tries and keeps in the cache";
        (Cause::Spike, Some("workspace"), why, offers::against_workspace())
    } else if about.says(Doing::CudaGraphs).is_some() || has(high.0, &["reduce-overhead", "max-autotune", "cudagraph"])
    {
        let why = "the difference is what CUDA graphs keep in pools of their own";
        (Cause::PrivatePool, None, why, vec![offers::fewer_graphs(), offers::without_graphs()])
    } else {
        return None;
    };
    let mut found = finding(cause, Confidence::Weak, format!("{says}: {why}."), rise, evidence);
    found.subcause = subcause;
    Some(
        Answer::of(found)
            .not(Cause::Leak, "a difference between two set-ups is not growth over steps")
            .offer(remedies)
            .ask(next::record()),
    )
}
