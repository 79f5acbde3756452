//! Who held the bytes, what it is not, and the full account of `-v`.

use serde_json::Value;
use whyoom_diagnosis::explanation::{CategoryBytes, Cause, Finding, PeakReport, Value as Number};

use super::{LABEL_COLUMN, reading::is_healthy};
use crate::{
    number::{count, exact_bytes, ordinal, plain, plural},
    text::{
        doc::{Doc, Tone, shorten_middle},
        words::{View, cause_title, source_line, spaced},
    },
};

pub(super) fn where_it_went(doc: &mut Doc, view: &View<'_>) {
    let categories = &view.device.categories;
    let at = categories.oom.as_ref().unwrap_or(&categories.peak);
    let shares = shares(view, at).map(|shares| format!("{shares}{}", named(view, at)));
    let total = view.bytes(at.iter().map(|c| c.bytes).sum());
    let label = if categories.oom.is_some() { format!("Where {total} went") } else { format!("At the peak, {total}") };
    let leaked = accumulated(view).filter(|_| !at.is_empty());
    match (leaked, shares) {
        (Some(leaked), shares) if categories.oom.is_some() => {
            let by_kind = shares.map(|s| format!("; by kind: {s}")).unwrap_or_default();
            labelled(doc, &label, &format!("{leaked}{by_kind}"));
        }
        (leaked, shares) => {
            if let Some(shares) = shares {
                labelled(doc, &label, &shares);
            }
            if let Some(leaked) = leaked {
                labelled(doc, "By the end", &leaked);
            }
        }
    }
}

/// `; of the activations, float32 logits 1.20 GiB`: parts that have a name, where they are much of all.
fn named(view: &View<'_>, at: &[CategoryBytes]) -> String {
    /// Less than this part of all is not worth a name in the short form.
    const NAMED: u64 = 10;
    let total: u64 = at.iter().map(|c| c.bytes).fold(0, u64::saturating_add);
    let named = &view.device.categories.named;
    let shown: Vec<String> = named
        .iter()
        .filter(|n| n.bytes.saturating_mul(if view.options.verbose { 100 } else { NAMED }) >= total)
        .map(|n| {
            let what = match n.name {
                "half_copies" => "half-precision copies of parameters",
                "float32_logits" => "float32 logits and their loss",
                other => other,
            };
            format!("{what} {}", view.bytes(n.bytes))
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!("; of the activations, {}", shown.join(", ")) }
}

/// Categories at the peaks of some steps.
fn by_step(doc: &mut Doc, view: &View<'_>) {
    const SHOWN: usize = 8;
    let steps = &view.device.categories.steps;
    if steps.len() < 2 {
        return;
    }
    doc.blank();
    doc.paragraph(0, Tone::Heading, "At the peak of a step");
    let shown = steps.len().min(SHOWN);
    for i in 0..shown {
        let step = &steps[i * (steps.len() - 1) / (shown - 1)];
        let total: u64 = step.categories.iter().map(|c| c.bytes).fold(0, u64::saturating_add);
        let parts = shares(view, &step.categories).map(|s| format!(": {s}")).unwrap_or_default();
        let label = format!("step {}", count(step.step + 1));
        let text = format!("{}{parts}", view.bytes(total));
        doc.entry(2, &[(Tone::Plain, label)], 14, &[(Tone::Plain, text)]);
    }
}

/// What a leak holds, by the line that made it: it is the answer to where the bytes went, of whatever kind they are.
fn accumulated(view: &View<'_>) -> Option<String> {
    let leak = view.device.findings.iter().find(|f| f.cause == Cause::Leak && f.bytes_explained > 0)?;
    let line = leak.culprits.first()?;
    let at = source_line(view.sources.get(&line.file), line.line);
    Some(format!("accumulated at {} {}", shorten_middle(&at, 60), view.bytes(leak.bytes_explained)))
}

/// `activations 3.41 GiB, parameters 0.43 GiB, …`, largest first; `None` where nothing is told apart.
fn shares(view: &View<'_>, categories: &[CategoryBytes]) -> Option<String> {
    const SHOWN: usize = 5;
    /// Less than this part of all is not worth a name in the short form.
    const NAMED: u64 = 200;
    let total: u64 = categories.iter().map(|c| c.bytes).fold(0, u64::saturating_add);
    let mut parts: Vec<&CategoryBytes> = categories.iter().filter(|c| c.bytes > 0).collect();
    if parts.iter().all(|c| c.category == "other") {
        return None;
    }
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.category.cmp(b.category)));
    let matters = parts.iter().filter(|c| c.bytes.saturating_mul(NAMED) >= total).count();
    let most = SHOWN.saturating_sub(view.tightness).max(2);
    let shown = if view.options.verbose { parts.len() } else { matters.min(most) };
    // A rest of one is that one.
    let shown = if shown + 1 == parts.len() { parts.len() } else { shown };
    let mut text: Vec<String> =
        parts.iter().take(shown).map(|c| format!("{} {}", spaced(c.category), view.bytes(c.bytes))).collect();
    if parts.len() > shown {
        let rest = parts[shown..].iter().map(|c| c.bytes).sum();
        text.push(format!("the rest {}", view.bytes(rest)));
    }
    Some(text.join(", "))
}

pub(super) fn not_the_cause(doc: &mut Doc, view: &View<'_>) {
    const SHOWN: usize = 3;
    let all = &view.device.ruled_out;
    // That a healthy run is healthy is said by its verdict.
    if all.is_empty() || (is_healthy(view.device) && !view.options.verbose) {
        return;
    }
    let shown = if view.options.verbose { all.len() } else { SHOWN.saturating_sub(view.tightness).max(1) };
    let mut label = if is_healthy(view.device) { "Ruled out" } else { "Not the cause" };
    for r in all.iter().take(shown) {
        let cause = cause_title(r.cause, None).to_lowercase();
        labelled(doc, label, &format!("{cause}: {}", r.statement.trim_end_matches('.')));
        label = "";
    }
}

fn labelled(doc: &mut Doc, label: &str, text: &str) {
    doc.entry(0, &[(Tone::Heading, label.into())], LABEL_COLUMN, &[(Tone::Plain, text.into())]);
}

/// Everything else that is known of the device.
pub(super) fn all(doc: &mut Doc, view: &View<'_>) {
    for finding in &view.device.findings {
        evidence(doc, view, finding);
    }
    by_step(doc, view);
    figures(doc, view);
}

fn evidence(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    if finding.evidence.is_empty() && finding.culprits.is_empty() {
        return;
    }
    doc.blank();
    let title = cause_title(finding.cause, finding.subcause);
    let explained = if finding.bytes_explained > 0 {
        format!("explains {}", view.bytes(finding.bytes_explained))
    } else {
        String::new()
    };
    doc.two_sided(&[(Tone::Heading, format!("Evidence of {}", title.to_lowercase()))], &[(Tone::Plain, explained)]);
    for e in &finding.evidence {
        // The statement holds its number for people; the exact one is added where it was asked for.
        let exact = match (e.value, e.unit) {
            _ if !view.options.numbers.exact_bytes => String::new(),
            (Number::Integer(bytes), "bytes") => format!(" ({})", exact_bytes(bytes)),
            (Number::Integer(n), unit) => format!(" ({} {unit})", count(n)),
            (Number::Fraction(x), unit) => format!(" ({} {unit})", plain(x)),
        };
        let events = match e.events.as_slice() {
            [] => String::new(),
            [one] => format!(" [event {}]", count(*one)),
            many => {
                let first: Vec<String> = many.iter().take(3).map(|n| count(*n)).collect();
                let more = if many.len() > 3 { ", …" } else { "" };
                format!(" [events {}{more}]", first.join(", "))
            }
        };
        doc.entry(
            2,
            &[(Tone::Plain, "-".into())],
            4,
            &[(Tone::Plain, format!("{}{exact}", e.statement)), (Tone::Dim, events)],
        );
    }
    if let Some(g) = &finding.growth {
        doc.entry(
            2,
            &[(Tone::Plain, "-".into())],
            4,
            &[(Tone::Plain, {
                let kept = view.bytes(g.bytes_per_step);
                let calls = plural(g.calls, "call", "calls");
                let (first, last) = (ordinal(g.first_step + 1), ordinal(g.last_step + 1));
                let when =
                    if g.per == "step" { format!(", from the {first} step to the {last}") } else { String::new() };
                format!("{kept} kept by each of {calls}{when}")
            })],
        );
    }
    if let Some(culprit) = finding.culprits.iter().find(|c| !c.stack.is_empty()) {
        let code = view.line_of_code(&culprit.function, &culprit.file, culprit.line);
        doc.paragraph(2, Tone::Plain, &format!("An example stack of {code}, innermost first:"));
        for frame in &culprit.stack {
            doc.entry(4, &[], 4, &[(Tone::Dim, installed(frame))]);
        }
    }
}

/// A frame `function (file:line)` with the file of an installed package as it is imported.
fn installed(frame: &str) -> String {
    let Some((function, at)) = frame.rsplit_once(" (") else { return frame.to_owned() };
    let packages = ["site-packages/", "dist-packages/", "site-packages\\", "dist-packages\\"];
    let file = packages.iter().find_map(|p| at.rsplit_once(p)).map_or(at, |(_, file)| file);
    format!("{function} ({file}")
}

fn figures(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    doc.blank();
    doc.paragraph(0, Tone::Heading, "Figures");
    let mut row = |label: &str, text: String| {
        if !text.is_empty() {
            doc.entry(2, &[(Tone::Plain, label.into())], LABEL_COLUMN, &[(Tone::Plain, text)]);
        }
    };
    row("peak", peak(view, &device.peak));
    if let Some(oom) = &device.oom {
        row(
            "at the failed request",
            format!(
                "event {}, request {} of {}: {} live, {} reserved; in its pool {} free in {}, the largest {}",
                count(oom.event),
                count(oom.malloc),
                view.bytes(oom.request_bytes),
                view.bytes(oom.live_bytes),
                view.bytes(oom.reserved_bytes),
                view.bytes(oom.free_in_pool_bytes),
                plural(oom.free_blocks, "piece", "pieces"),
                view.bytes(oom.largest_free_block_bytes)
            ),
        );
    }
    row("limit", limit(view));
    row("a compact layout needs", format!("{}, at its highest", view.bytes(device.bound.compact_bytes)));
    for (label, categories) in
        [("live at the peak", &device.categories.peak), ("live at the end", &device.categories.end)]
    {
        row(label, shares(view, categories).unwrap_or_default());
    }
    let steps = match device.steps.source {
        "annotations" => format!("{} (from the optimizer's marks)", count(device.steps.count)),
        "period" => format!("{} (from the period of the requests)", count(device.steps.count)),
        _ => "cannot be told".into(),
    };
    row("completed steps", steps);
    row(
        "settings",
        match device.settings.string.as_deref() {
            None => "not in the file".into(),
            Some("") => "PyTorch's defaults".into(),
            Some(s) => s.into(),
        },
    );
    row("in force", in_force(view));
    row("allocator modelled", format!("torch {}", device.replay.model));
    if device.replay.events > 0 {
        row("events reproduced", format!("{} of {}", count(device.replay.matched), count(device.replay.events)));
    }
    if let Some(state) = device.replay.final_state.as_ref().filter(|_| device.replay.matched > 0) {
        row(
            "final blocks",
            if state.equal { "equal".into() } else { format!("{} differ", count(state.differing_blocks)) },
        );
    }
    if let Some(torch) = view.explanation.inputs.get(device.input).and_then(|i| i.torch.as_ref()) {
        row("written by", torch.because.clone());
    }
}

fn peak(view: &View<'_>, peak: &PeakReport) -> String {
    let at = peak.event.map_or_else(String::new, |e| format!(" (allocated peaks at event {})", count(e)));
    format!(
        "requested {}, allocated {}, active {}, reserved {}{at}",
        view.bytes(peak.requested_bytes),
        view.bytes(peak.allocated_bytes),
        view.bytes(peak.active_bytes),
        view.bytes(peak.reserved_bytes)
    )
}

fn limit(view: &View<'_>) -> String {
    let limit = &view.device.limit;
    let source = match limit.source {
        "card" => "the card's memory",
        "fraction" => "a memory fraction",
        "oom_event" => "from the failed requests and those that passed",
        "oom_message" => "from the OOM message",
        "argument" => "as given",
        _ => return "not known".into(),
    };
    match (limit.low_bytes, limit.high_bytes) {
        (Some(low), Some(high)) => format!("{}, {source}", view.options.numbers.bytes_range(low, high)),
        (Some(low), None) => format!("at least {}, {source}", view.bytes(low)),
        (None, Some(high)) => format!("at most {}, {source}", view.bytes(high)),
        (None, None) if limit.source == "argument" => "none, as given".into(),
        (None, None) => "not known".into(),
    }
}

/// `expandable_segments=true, large_segment_size=20.0 MiB`: what is set, by key.
fn in_force(view: &View<'_>) -> String {
    let Some(map) = view.device.settings.in_force.as_object() else { return String::new() };
    let parts: Vec<String> =
        map.iter().filter_map(|(key, value)| Some(format!("{key}={}", setting(view, value)?))).collect();
    parts.join(", ")
}

/// A value as text; `None` for what is off.
fn setting(view: &View<'_>, value: &Value) -> Option<String> {
    /// Below this a number is a number, from it on a size.
    const SIZE_FROM: u64 = 1 << 20;
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => match n.as_u64() {
            Some(0) => None,
            Some(bytes) if bytes >= SIZE_FROM => Some(view.bytes(bytes)),
            _ => n.as_f64().filter(|f| *f != 0.0).map(|_| n.to_string()),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|i| setting(view, i).unwrap_or_else(|| "0".into())).collect();
            items.iter().any(|i| i != "0").then(|| format!("[{}]", items.join(" ")))
        }
        other => Some(other.to_string()),
    }
}
