//! A device of which only texts speak: the verdict by arithmetic, what could be tried, what to collect next.

use whyoom_diagnosis::explanation::{Culprit, Evidence, Finding, Remedy, RemedyOutcome, ReplayStatus};

use super::details;
use crate::{
    number::plural,
    text::{
        doc::{Doc, Tone, WIDTH, shorten_middle},
        words::{View, cause_title, confidence, device_name, torch_range},
    },
};

/// Where the first line's name begins.
const NAME_AT: usize = 8;
const NAME_COLUMNS: usize = 70;
/// Remedies and figures in the short form.
const REMEDIES: usize = 4;
const FIGURES: usize = 12;

/// Whether nothing was recorded of the device.
pub(super) fn is_text_only(view: &View<'_>) -> bool {
    let input = view.explanation.inputs.get(view.device.input);
    view.device.replay.status == ReplayStatus::NotPossible && input.is_some_and(|i| i.kind != "snapshot")
}

pub(super) fn write(doc: &mut Doc, view: &View<'_>) {
    header(doc, view);
    doc.blank();
    let Some((first, rest)) = view.device.findings.split_first() else { return };
    doc.two_sided(
        &[(Tone::Heading, cause_title(first.cause, first.subcause))],
        &[(Tone::Heading, confidence(first.confidence).into())],
    );
    doc.paragraph(2, Tone::Plain, &first.summary);
    place(doc, view, first.culprits.first());
    figures(doc, view, first);
    also(doc, view, rest);
    remedies(doc, view);
    if !view.device.ruled_out.is_empty() {
        doc.blank();
        details::not_the_cause(doc, view);
    }
    collect(doc, view);
}

fn header(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    let input = view.explanation.inputs.get(device.input);
    let gpu = device_name(device.device, device.rank);
    let torch = torch_range(input.and_then(|i| i.torch.as_ref()));
    let right = torch.map_or_else(|| gpu.clone(), |t| format!("{t} · {gpu}"));
    let name = view.input_name(device.input);
    let name = if view.options.verbose { name.to_owned() } else { shorten_middle(name, NAME_COLUMNS) };
    doc.two_sided(&[(Tone::Heading, "whyoom".into()), (Tone::Plain, format!("  {name}"))], &[(Tone::Plain, right)]);
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for reading in &view.explanation.readings {
        let Some(kind) = kind(reading.kind) else { continue };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let listed: Vec<String> = kinds.iter().take(4).map(|(kind, n)| plural(*n, kind, &format!("{kind}s"))).collect();
    let what = if listed.is_empty() { "text".to_owned() } else { listed.join(", ") };
    doc.paragraph(NAME_AT, Tone::Dim, &format!("{what} · arithmetic, no recording to replay"));
}

/// A kind of reading, as a noun.
fn kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "oom_message" => "OOM message",
        "retry_warning" => "retry warning",
        "other_failure" => "failure",
        "notice" => "notice",
        "settings" => "settings line",
        "memory_summary" => "memory summary",
        "memory_stats" => "statistics table",
        "memory_snapshot" => "segment list",
        "profiler_trace" => "profiler trace",
        "nvidia_smi" => "monitor",
        "step_log" => "step log",
        _ => return None,
    })
}

fn place(doc: &mut Doc, view: &View<'_>, culprit: Option<&Culprit>) {
    let Some(culprit) = culprit else { return };
    doc.blank();
    let code = view.line_of_code(&culprit.function, &culprit.file, culprit.line);
    doc.entry(2, &[(Tone::Plain, "failed at".into())], 13, &[(Tone::Code, code)]);
    if let Some(source) = &culprit.source {
        doc.paragraph(15, Tone::Code, &shorten_middle(source.trim(), WIDTH - 15));
    }
}

/// The statements behind the verdict, a line each.
fn figures(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    let all: Vec<&Evidence> = finding.evidence.iter().collect();
    if all.is_empty() {
        return;
    }
    doc.blank();
    let few = FIGURES.saturating_sub(3 * view.tightness).max(4);
    let shown = if view.options.verbose { all.len() } else { few };
    for evidence in all.iter().take(shown) {
        doc.entry(2, &[(Tone::Plain, "-".into())], 4, &[(Tone::Plain, exact(view, evidence))]);
    }
    if all.len() > shown {
        doc.paragraph(4, Tone::Dim, &format!("{} more; -v shows all.", all.len() - shown));
    }
}

fn exact(view: &View<'_>, evidence: &Evidence) -> String {
    use whyoom_diagnosis::explanation::Value;
    match (evidence.value, evidence.unit) {
        (Value::Integer(bytes), "bytes") if view.options.numbers.exact_bytes && bytes > 0 => {
            format!("{} ({})", evidence.statement, view.bytes(bytes))
        }
        _ => evidence.statement.clone(),
    }
}

fn also(doc: &mut Doc, view: &View<'_>, rest: &[Finding]) {
    let shown = if view.options.verbose { rest.len() } else { 2 };
    for finding in rest.iter().take(shown) {
        doc.blank();
        let title = cause_title(finding.cause, finding.subcause).to_lowercase();
        doc.entry(
            2,
            &[],
            2,
            &[
                (Tone::Heading, format!("Also {title}")),
                (Tone::Plain, format!(" ({}): {}", confidence(finding.confidence), finding.summary)),
            ],
        );
    }
    if rest.len() > shown {
        let more = plural((rest.len() - shown) as u64, "finding", "findings");
        doc.paragraph(2, Tone::Dim, &format!("{more} more; -v shows all."));
    }
}

fn remedies(doc: &mut Doc, view: &View<'_>) {
    let all = &view.device.remedies;
    if all.is_empty() {
        return;
    }
    doc.blank();
    let right = if all.iter().all(|r| r.outcome == RemedyOutcome::NotVerified) { "reasoned, not verified" } else { "" };
    doc.two_sided(&[(Tone::Heading, "To try".into())], &[(Tone::Dim, right.into())]);
    let few = REMEDIES.saturating_sub(view.tightness / 2);
    let shown = if view.options.verbose { all.len() } else { few };
    for remedy in all.iter().take(shown) {
        one(doc, view, remedy);
    }
    if all.len() > shown {
        doc.paragraph(4, Tone::Dim, &format!("{} more; -v shows all.", all.len() - shown));
    }
}

fn one(doc: &mut Doc, view: &View<'_>, remedy: &Remedy) {
    let tone = if remedy.kind == "setting" { Tone::Code } else { Tone::Plain };
    doc.entry(2, &[(Tone::Caution, "?".into())], 4, &[(tone, remedy.apply.clone())]);
    if let Some(note) = remedy.note.as_ref().filter(|_| view.tightness < 3) {
        doc.paragraph(6, Tone::Dim, note);
    }
}

/// The one thing to collect, ready to paste.
fn collect(doc: &mut Doc, view: &View<'_>) {
    let Some(collect) = &view.device.collect else { return };
    doc.blank();
    doc.entry(0, &[(Tone::Heading, "Next:".into())], 7, &[(Tone::Plain, collect.why.clone())]);
    for line in collect.command.lines() {
        doc.verbatim(&[(Tone::Plain, "  ".into()), (Tone::Code, line.to_owned())]);
    }
}
