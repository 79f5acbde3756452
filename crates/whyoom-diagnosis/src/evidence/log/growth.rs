//! What grows from line to line: live memory, or what is reserved beyond it.

use whyoom_text::messages::Doing;
use whyoom_text::series::{GapTrend, Relation, Shape};
use whyoom_text::steps::{Measure, StepLog, StepSeries};

use super::super::answer::{Answer, finding};
use super::super::dossier::About;
use super::super::{next, offers};
use super::{Drawn, amount, name, pace, per};
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence, Evidence};
use crate::words;

pub(super) fn grows(
    drawn: &Drawn<'_>,
    all: &[Drawn<'_>],
    log: &StepLog,
    about: &About<'_>,
    mut evidence: Vec<Evidence>,
) -> Answer {
    let series = drawn.series;
    let (pace, unit) = per(drawn);
    let rise = series.figures.last.zip(series.figures.first).map_or(0, |(l, f)| l.bytes.saturating_sub(f.bytes));
    evidence.push(in_bytes(
        format!("grows by {pace}"),
        drawn.analysis.per_step.or(drawn.analysis.per_sample).unwrap_or(0.0).max(0.0) as u64,
        &[],
    ));
    let first = series.figures.first.map_or(0, |p| p.bytes);
    if rise < first / 50 {
        // A loss kept as a number for each step grows too, and fills no card.
        let summary = format!(
            "{} grows by {pace}, {} over the log beside {} at its first line: something small is kept, and negligible.",
            name(series),
            amount(series, rise as f64),
            amount(series, first as f64)
        );
        return Answer::of(finding(Cause::Healthy, Confidence::Weak, summary, 0, evidence)).ask(next::record());
    }
    if super::is_peak(series.measure) {
        let summary = format!(
            "{} rises by {}. A running maximum cannot fall: it shows the largest step so far, and not whether anything is kept.",
            name(series),
            amount(series, rise as f64)
        );
        return Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, rise, evidence))
            .ask(next::allocator_figures());
    }
    if series.measure == Measure::Reserved {
        return reserved_grows(drawn, about, &pace, rise, evidence);
    }
    let is_live = matches!(series.measure, Measure::Allocated | Measure::Active);
    let (gap, not_layout) = match &drawn.gap {
        Some(gap) if gap.trend == GapTrend::Flat => {
            let level = gap.gap.last.map_or(0, |p| p.bytes);
            evidence.push(in_bytes(
                format!("reserved less live stays at {}", amount(series, level as f64)),
                level,
                &[],
            ));
            (
                format!(
                    " Reserved memory follows it ({} above it throughout), so the cache is not what grows.",
                    amount(series, level as f64)
                ),
                true,
            )
        }
        _ => (String::new(), false),
    };
    let slower = other_variant(drawn, all);
    let stairs = if matches!(drawn.analysis.shape, Shape::Staircase { .. }) {
        " It rises in steps, at events and not at each line."
    } else {
        ""
    };
    let when = time_left(drawn, log).map_or(String::new(), |text| format!(" {text}"));
    let summary = format!(
        "{} grows by {pace}, {} over the log.{stairs}{gap}{slower}{when} Something is kept from {unit} to {unit}.",
        name(series),
        amount(series, rise as f64)
    );
    // A growth that ends in the failure explains it, whatever the figures are called.
    let is_fatal = about.has_failed && rise >= first / 5;
    let is_sure = (is_live || is_fatal) && series.figures.count >= 3;
    let sure = if is_sure { Confidence::Strong } else { Confidence::Weak };
    let mut answer = Answer::of(finding(Cause::Leak, sure, summary, rise, evidence));
    if not_layout {
        answer = answer.not(Cause::Fragmentation, "what is reserved beyond what is live does not grow");
    }
    let has_no_grad = series.label.as_deref().is_some_and(|l| l.contains("no_grad"));
    let has_autocast = series.label.as_deref().is_some_and(|l| l.contains("autocast"));
    if has_autocast {
        answer = answer.offer([offers::autocast_cache()]);
    }
    if !has_no_grad {
        answer = answer.offer(offers::no_graph_kept());
    }
    answer.ask(next::record())
}

/// What the same program does in another variant of the log.
fn other_variant(drawn: &Drawn<'_>, all: &[Drawn<'_>]) -> String {
    let own = pace(drawn);
    let other = all
        .iter()
        .find(|d| !std::ptr::eq(*d, drawn) && d.series.measure == drawn.series.measure && pace(d) < own / 2.0);
    let Some(other) = other else { return String::new() };
    let label =
        |s: &StepSeries| s.label.clone().or_else(|| s.variant.clone()).unwrap_or_else(|| "the other lines".to_owned());
    if pace(other) <= 0.0 {
        return format!(" It does so only there, and not in \"{}\".", label(other.series));
    }
    format!(
        " That is {} times the {} of \"{}\": two effects, of which only the larger is new.",
        words::ratio(own / pace(other)),
        per(other).0,
        label(other.series)
    )
}

/// How long it takes to the capacity that the log prints.
fn time_left(drawn: &Drawn<'_>, log: &StepLog) -> Option<String> {
    let total = log.beside(drawn.series, Measure::Total)?.figures.last?.bytes;
    let until = whyoom_text::series::until(&drawn.series.figures, &drawn.analysis, total)?;
    let steps = until.steps.or(until.samples)?;
    Some(format!("The card is full after about {} more steps.", words::count(steps.round() as u64)))
}

/// Only reserved bytes are printed.
fn reserved_grows(drawn: &Drawn<'_>, about: &About<'_>, pace: &str, rise: u64, evidence: Vec<Evidence>) -> Answer {
    if about.says(Doing::CudaGraphs).is_some() {
        let summary = format!(
            "Reserved memory grows by {pace} in a program that captures CUDA graphs: each captured shape keeps a pool of its own."
        );
        let pool = finding(Cause::PrivatePool, Confidence::Weak, summary, rise, evidence);
        return Answer::of(pool).offer([offers::fewer_graphs(), offers::without_graphs()]).ask(next::pools());
    }
    let shapes = about.count(Doing::Shapes);
    if shapes >= 2 {
        let summary = format!(
            "Reserved memory grows by {pace} while the shapes of the inputs change ({shapes} different ones): a workspace or a \
             block for each new shape, kept in the cache. What is live is not printed, so that nothing is kept is likely and \
             not sure."
        );
        let mut spike = finding(Cause::Spike, Confidence::Weak, summary, rise, evidence);
        spike.subcause = Some("workspace");
        return Answer::of(spike).offer(offers::against_workspace()).ask(next::allocator_figures());
    }
    let summary = format!(
        "{} grows by {pace}. What is live is not printed: either it grows too (a leak), or blocks are left that later requests \
         cannot use.",
        name(drawn.series)
    );
    let layout = finding(Cause::Fragmentation, Confidence::Weak, summary, rise, evidence);
    Answer::of(layout).ask(next::allocator_figures())
}

/// Live memory is level and reserved memory grows away from it.
pub(super) fn cache_grows(drawn: &Drawn<'_>, gap: &Relation, mut evidence: Vec<Evidence>) -> Answer {
    let series = drawn.series;
    let (first, last) = match (gap.gap.first, gap.gap.last) {
        (Some(first), Some(last)) => (first.bytes, last.bytes),
        _ => return Answer::default(),
    };
    evidence.push(in_bytes(format!("reserved less live grows to {}", amount(series, last as f64)), last, &[]));
    let summary = format!(
        "{} does not grow, and reserved memory grows away from it: {} were unused at the first line, {} at the last. Blocks are \
         left that later requests cannot use.",
        name(series),
        amount(series, first as f64),
        amount(series, last as f64)
    );
    Answer::of(finding(Cause::Fragmentation, Confidence::Strong, summary, last.saturating_sub(first), evidence))
        .not(Cause::Leak, "live memory does not grow")
        .ask(next::record())
}
