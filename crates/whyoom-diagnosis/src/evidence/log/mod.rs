//! Figures that a program printed as it went: what grows, what stays, what jumps.

mod growth;
mod one;
mod pairs;
mod versions;

use whyoom_text::Fact;
use whyoom_text::messages::Doing;
use whyoom_text::series::{Analysis, GapTrend, Relation, Shape, analyse, compare};
use whyoom_text::steps::{Measure, StepLog, StepSeries};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_number};
use crate::explanation::{Cause, Confidence, Evidence};
use crate::words;

/// Free and total bytes that `mem_get_info` or the like printed beside a failure.
pub(super) fn free_of_total(subject: &Subject<'_>) -> Option<(u64, u64)> {
    logs(subject).find_map(|log| {
        let free = log.series.iter().find(|s| s.measure == Measure::Free)?;
        let total =
            log.beside(free, Measure::Total).or_else(|| log.series.iter().find(|s| s.measure == Measure::Total))?;
        Some((free.figures.last?.bytes, total.figures.last?.bytes))
    })
}

fn logs<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = &'a StepLog> {
    subject.seen.iter().filter_map(|seen| match &seen.reading.fact {
        Fact::StepLog(log) => Some(&**log),
        _ => None,
    })
}

pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let mut answer = Answer::default();
    for log in logs(subject) {
        answer.take(of_log(log, about));
    }
    if answer.findings.is_empty() {
        answer.take(pressure(&StepLog::default(), about).unwrap_or_default());
    }
    answer
}

/// A quantity over the lines of a log, the one that says most of its group.
struct Drawn<'a> {
    series: &'a StepSeries,
    analysis: Analysis,
    /// Against what is reserved on the same lines.
    gap: Option<Relation>,
}

/// The allocator had to give back its cache to be served: the card is full, by what is live or by pieces.
fn pressure(log: &StepLog, about: &About<'_>) -> Option<Answer> {
    let clue = about.says(Doing::Retries)?;
    let last = |measure| log.series.iter().find(|s| s.measure == measure).and_then(|s| s.figures.last).map(|p| p.bytes);
    let live = last(Measure::MaxAllocated).or_else(|| last(Measure::Allocated));
    let reserved = last(Measure::MaxReserved).or_else(|| last(Measure::Reserved));
    let is_pieces = live.zip(reserved).is_some_and(|(live, reserved)| live < reserved / 10 * 9);
    let figures = match live.zip(reserved) {
        Some((live, reserved)) => format!(" {} are live in {} reserved.", words::bytes(live), words::bytes(reserved)),
        None => String::new(),
    };
    if figures.is_empty() && about.has_failed {
        return None;
    }
    let why = match (figures.is_empty(), is_pieces) {
        (true, _) => "",
        (false, true) => " As far as these go, what is cached is in pieces.",
        (false, false) => " As far as these go, nearly all of it is live.",
    };
    let summary = format!(
        "The driver has refused memory, and PyTorch gave back its cache and asked again (\"{}\"): the card is full, and steps \
         become slow.{figures}{why}",
        clue.text.chars().take(80).collect::<String>()
    );
    let cause = if is_pieces { Cause::Fragmentation } else { Cause::Capacity };
    Some(Answer::of(finding(cause, Confidence::Weak, summary, 0, Vec::new())).ask(next::record()))
}

/// What Python's collector frees was held by cycles.
fn cycles(drawn: &Drawn<'_>, about: &About<'_>, evidence: &[Evidence]) -> Option<Answer> {
    about.says(Doing::Collecting)?;
    let max = drawn.series.figures.max?.bytes;
    let fall = match drawn.analysis.shape {
        Shape::SawTooth { fall, .. } | Shape::Decline { fall } => fall,
        Shape::Jump { by, .. } if by < 0 => by.unsigned_abs(),
        _ => return None,
    };
    if fall < max / 10 {
        return None;
    }
    let summary = format!(
        "{} falls by {} where Python's collector runs: what it frees was held by reference cycles until then.",
        name(drawn.series),
        amount(drawn.series, fall as f64)
    );
    let mut leak = finding(Cause::Leak, Confidence::Weak, summary, fall, evidence.to_vec());
    leak.subcause = Some("reference_cycle");
    Some(Answer::of(leak).offer([offers::no_cycles()]).ask(next::record()))
}

/// What is live says most, a peak or a capacity least.
fn weight(measure: Measure) -> Option<u8> {
    Some(match measure {
        Measure::Allocated => 0,
        Measure::Active => 1,
        Measure::Used => 2,
        Measure::Memory => 3,
        Measure::Reserved => 4,
        Measure::MaxAllocated | Measure::MaxActive => 5,
        Measure::MaxUsed | Measure::MaxMemory | Measure::MaxReserved => 6,
        Measure::ReservedUnused | Measure::Free | Measure::Total => return None,
    })
}

fn of_log(log: &StepLog, about: &About<'_>) -> Answer {
    if let Some(answer) = versions::judge(log).or_else(|| one::disagreement(log)) {
        return answer;
    }
    let mut drawn: Vec<Drawn<'_>> = Vec::new();
    for series in &log.series {
        let Some(own) = weight(series.measure) else { continue };
        let is_best = log
            .series
            .iter()
            .all(|other| weight(other.measure).is_none_or(|w| w >= own) || log.beside(series, other.measure).is_none());
        if is_best && !series.figures.is_empty() {
            let gap = log
                .beside(series, Measure::Reserved)
                .filter(|_| series.measure != Measure::Reserved)
                .and_then(|reserved| compare(&series.figures, &reserved.figures));
            drawn.push(Drawn { series, analysis: analyse(&series.figures), gap });
        }
    }
    let mut answer = Answer { steps: 0, ..Answer::default() };
    if let Some(found) = pressure(log, about).or_else(|| pairs::judge(log, about)) {
        return found;
    }
    if drawn.iter().all(|d| matches!(d.analysis.shape, Shape::TooFew)) {
        return one::judge(log);
    }
    // The group that grows most speaks first.
    drawn.sort_by(|a, b| pace(b).total_cmp(&pace(a)));
    for one in drawn.iter().filter(|d| !matches!(d.analysis.shape, Shape::TooFew)).take(8) {
        answer.take(of_series(one, &drawn, log, about));
    }
    let comments = log.comments.iter().chain(&log.assumptions).take(4);
    if let Some(first) = answer.findings.first_mut() {
        first.evidence.extend(comments.map(|said| in_number(said.clone(), 1, "count", &[])));
    }
    answer
}

fn is_peak(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::MaxAllocated | Measure::MaxActive | Measure::MaxReserved | Measure::MaxUsed | Measure::MaxMemory
    )
}

fn pace(drawn: &Drawn<'_>) -> f64 {
    let analysis = &drawn.analysis;
    match analysis.shape {
        Shape::Growth { .. } | Shape::Staircase { .. } | Shape::SawTooth { .. } => {
            analysis.per_step.or(analysis.per_sample).unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

/// Bytes with the digits of the log where its unit may mean either.
fn amount(series: &StepSeries, bytes: f64) -> String {
    if series.unit.or_bytes.is_none() {
        return words::bytes(bytes.max(0.0).round() as u64);
    }
    let value = bytes / series.unit.bytes as f64;
    // A small part of a gigabyte reads better as megabytes, which are a thousand to one in such a log.
    let smaller = match series.unit.name {
        "GB" if value.abs() < 0.1 => Some("MB"),
        "MB" if value.abs() < 0.1 => Some("KB"),
        _ => None,
    };
    let (value, unit) = smaller.map_or((value, series.unit.name), |unit| (value * 1000.0, unit));
    let text = match value.abs() {
        v if v >= 100.0 => words::count(v.round() as u64),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    format!("{text} {unit}")
}

fn name(series: &StepSeries) -> String {
    let what = match series.measure {
        Measure::Allocated => "Live memory",
        Measure::Active => "Active memory",
        Measure::Reserved => "Reserved memory",
        Measure::MaxAllocated | Measure::MaxActive => "The peak of live memory",
        Measure::MaxReserved => "The peak of reserved memory",
        _ => "Memory",
    };
    let words = [series.variant.as_deref(), series.label.as_deref()];
    let label: Vec<&str> = words.into_iter().flatten().collect();
    let rank = series.rank.map_or(String::new(), |r| format!(" of rank {r}"));
    if label.is_empty() { format!("{what}{rank}") } else { format!("{what}{rank} ({})", label.join(", ")) }
}

/// `step`, `second` or `sample`, and the pace.
fn per(drawn: &Drawn<'_>) -> (String, &'static str) {
    let analysis = &drawn.analysis;
    let (pace, unit) = match (analysis.per_step, analysis.per_second) {
        (Some(pace), _) => (pace, "step"),
        (None, Some(pace)) => (pace, "second"),
        (None, None) => (analysis.per_sample.unwrap_or(0.0), "line"),
    };
    (format!("{} a {unit}", amount(drawn.series, pace)), unit)
}

fn of_series(drawn: &Drawn<'_>, all: &[Drawn<'_>], log: &StepLog, about: &About<'_>) -> Answer {
    let series = drawn.series;
    let (first, last) = match (series.figures.first, series.figures.last) {
        (Some(first), Some(last)) => (first.bytes, last.bytes),
        _ => return Answer::default(),
    };
    let evidence = vec![
        in_bytes(
            format!("{} at the first line, {} at the last", amount(series, first as f64), amount(series, last as f64)),
            last,
            &[],
        ),
        in_number(format!("{} figures", words::count(series.figures.count)), series.figures.count, "count", &[]),
    ];
    if let Some(found) = cycles(drawn, about, &evidence) {
        return found;
    }
    match drawn.analysis.shape {
        // A maximum never falls: two of them that differ by little show nothing.
        Shape::Growth { .. } | Shape::Staircase { .. } if is_peak(series.measure) && last < first + first / 20 => {
            Answer::default()
        }
        Shape::Growth { .. } | Shape::Staircase { .. } => growth::grows(drawn, all, log, about, evidence),
        Shape::SawTooth { fall, drift, resets, .. } => saw_tooth(drawn, fall, drift, resets, evidence),
        Shape::Jump { by, before, after, .. } if by > 0 => {
            let summary = format!(
                "{} is level at {} and then jumps to {}, {} in one step: this step is another one (a longer batch, an evaluation), \
                 and nothing grows before it.",
                name(series),
                amount(series, before as f64),
                amount(series, after as f64),
                amount(series, by as f64)
            );
            let spike = finding(Cause::Spike, Confidence::Strong, summary, by.unsigned_abs(), evidence);
            Answer::of(spike)
                .not(Cause::Leak, "a jump, not a slope")
                .offer([offers::bound_inputs()])
                .ask(next::record())
        }
        _ => {
            let gap = drawn.gap.as_ref().filter(|gap| gap.trend == GapTrend::Grows);
            if let Some(gap) = gap {
                return growth::cache_grows(drawn, gap, evidence);
            }
            let summary = format!("{} does not grow: {} at the last line.", name(series), amount(series, last as f64));
            Answer::of(finding(Cause::Healthy, Confidence::Weak, summary, 0, evidence))
                .not(Cause::Leak, "no growth over the lines of the log")
                .ask(next::record())
        }
    }
}

/// One figure far above both of its neighbours, which are level.
fn outlier(series: &StepSeries, evidence: &[Evidence]) -> Option<Answer> {
    let points = series.figures.points();
    let (at, peak) = points.iter().enumerate().max_by_key(|(i, p)| (p.bytes, usize::MAX - i))?;
    let (before, after) = (points.get(at.checked_sub(1)?)?.bytes, points.get(at + 1)?.bytes);
    let base = series.figures.min?.bytes;
    let is_near = |bytes: u64| bytes - base <= (peak.bytes - base) / 5;
    // A second figure of that height is a pattern.
    let is_alone = points.iter().filter(|p| !is_near(p.bytes)).count() == 1;
    if !is_near(before) || !is_near(after) || !is_alone || peak.bytes < base + base / 10 {
        return None;
    }
    let summary = format!(
        "{} is level at about {} and is {} once, at one step: that step is another one (a longer batch, an evaluation).",
        name(series),
        amount(series, before as f64),
        amount(series, peak.bytes as f64)
    );
    let spike = finding(Cause::Spike, Confidence::Strong, summary, peak.bytes - base, evidence.to_vec());
    Some(
        Answer::of(spike)
            .not(Cause::Leak, "what rose fell again at once")
            .offer([offers::bound_inputs()])
            .ask(next::record()),
    )
}

fn saw_tooth(drawn: &Drawn<'_>, fall: u64, drift: Option<i64>, resets: u64, mut evidence: Vec<Evidence>) -> Answer {
    let series = drawn.series;
    if let Some(found) = outlier(series, &evidence) {
        return found;
    }
    let pace = per(drawn).0;
    let times = words::plural(resets, "time", "times");
    evidence.push(in_number(format!("falls {times}, by {}", amount(series, fall as f64)), resets, "count", &[]));
    if let Some(drift) = drift.filter(|d| *d > 0 && d.unsigned_abs() > fall / 50) {
        let summary = format!(
            "{} rises by {pace} and falls again, but {} more stays each time: beside what is collected and let go, something is \
             kept for good.",
            name(series),
            amount(series, drift as f64)
        );
        let leak = finding(Cause::Leak, Confidence::Weak, summary, drift.unsigned_abs() * resets, evidence);
        return Answer::of(leak).offer(offers::no_graph_kept()).ask(next::record());
    }
    let summary = format!(
        "{} rises by {pace} and is let go again ({} at a time): something is collected over an epoch and freed at its end. The \
         peak is that of a whole epoch; it is no permanent leak.",
        name(series),
        amount(series, fall as f64)
    );
    let spike = finding(Cause::Spike, Confidence::Weak, summary, fall, evidence);
    Answer::of(spike).not(Cause::Leak, "what rises is let go again").offer([offers::collect_less()]).ask(next::record())
}
