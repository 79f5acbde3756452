//! What was read, the cause, the numbers that matter and the line of the user's code.

use whyoom_diagnosis::explanation::{
    Cause, Culprit, DivergenceReport, Finding, OomReport, Operation, Place, ReplayStatus, StepsReport, Value,
};

use crate::{
    number::{count, duration, human_bytes, plural},
    text::{
        doc::{Doc, Tone, WIDTH, shorten_middle},
        words::{View, cause_title, confidence, device_name, nth_step, sentence, torch_range},
    },
};

/// Columns a file name may take in the first line.
const NAME_COLUMNS: usize = 70;
/// Where the first line's name begins.
const NAME_AT: usize = 8;
/// Where a culprit's line begins.
const CODE_AT: usize = 20;
/// Culprits in the short form.
const CULPRITS: usize = 3;

pub(super) fn header(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    let input = view.explanation.inputs.get(device.input);
    let torch = torch_range(input.and_then(|i| i.torch.as_ref()));
    let gpu = device_name(device.device, device.rank);
    let right = torch.map_or_else(|| gpu.clone(), |t| format!("{t} · {gpu}"));
    let name = if view.options.verbose {
        view.input_name(device.input).to_owned()
    } else {
        shorten_middle(view.input_name(device.input), NAME_COLUMNS)
    };
    doc.two_sided(&[(Tone::Heading, "whyoom".into()), (Tone::Plain, format!("  {name}"))], &[(Tone::Plain, right)]);

    let replay = &device.replay;
    let mut facts = Vec::new();
    if replay.events > 0 {
        facts.push(plural(replay.events, "event", "events"));
    }
    if device.steps.count > 0 {
        facts.push(plural(device.steps.count, "step", "steps"));
    }
    match replay.status {
        ReplayStatus::Exact => facts.push("replayed exactly".into()),
        ReplayStatus::Diverged => facts.push("replay diverges".into()),
        ReplayStatus::NotPossible => facts.push("not replayed".into()),
    }
    doc.paragraph(NAME_AT, Tone::Dim, &facts.join(" · "));
    if let Some(line) = replay_caveat(view) {
        doc.entry(NAME_AT, &[], NAME_AT, &[(Tone::Caution, line)]);
    }
}

/// What the reader must know about the replay before trusting anything below.
fn replay_caveat(view: &View<'_>) -> Option<String> {
    let replay = &view.device.replay;
    match replay.status {
        ReplayStatus::Exact => None,
        ReplayStatus::NotPossible => replay.note.clone(),
        ReplayStatus::Diverged => {
            let place = match &replay.first_divergence {
                Some(d) => divergence(d, replay.matched, replay.events),
                None => format!(
                    "{} of {} match; the final blocks differ.",
                    count(replay.matched),
                    plural(replay.events, "event", "events")
                ),
            };
            Some(match &replay.note {
                Some(note) => format!("{place} {note}"),
                None => place,
            })
        }
    }
}

/// Where and why a replay parts from its recording.
pub(crate) fn divergence(d: &DivergenceReport, matched: u64, events: u64) -> String {
    let reason = sentence(&d.likely_reason);
    format!(
        "{} of {} match; the first that does not is event {}. {reason}",
        count(matched),
        plural(events, "event", "events"),
        count(d.event)
    )
    .trim_end()
    .to_owned()
}

pub(super) fn verdict(doc: &mut Doc, view: &View<'_>) {
    doc.blank();
    let Some((first, rest)) = view.device.findings.split_first() else {
        doc.paragraph(0, Tone::Heading, "No finding");
        return;
    };
    let replayed = match &view.device.would_fail {
        Some(w) => format!(" under {}, replayed and not recorded", view.bytes(w.limit_bytes)),
        None => String::new(),
    };
    doc.two_sided(
        &[(Tone::Heading, cause_title(first.cause, first.subcause) + &replayed)],
        &[(Tone::Heading, confidence(first.confidence).into())],
    );
    doc.paragraph(2, Tone::Plain, &first.summary);
    too_little(doc, view);
    if view.options.numbers.exact_bytes {
        exactly(doc, view, first);
    }
    doc.blank();
    culprits(doc, view, first);
    if let Some(oom) = &view.device.oom {
        failed_request(doc, view, oom);
    } else if let Some(w) = &view.device.would_fail {
        where_it_fails(doc, view, w.step, w.place.as_ref(), false);
    }
    growth(doc, first);
    also(doc, view, first, rest);
}

/// A limit that was asked for, under which the recorded run could not have lived.
fn too_little(doc: &mut Doc, view: &View<'_>) {
    let (limit, bound) = (&view.device.limit, &view.device.bound);
    if view.device.would_fail.is_some() {
        return;
    }
    if let (None, Some(given), true) = (&view.device.oom, limit.high_bytes, bound.bytes_to_free > 0) {
        doc.paragraph(
            2,
            Tone::Plain,
            &format!(
                "Under {} it could not have run: at least {} must go, whatever the setting.",
                view.bytes(given),
                view.bytes(bound.bytes_to_free)
            ),
        );
    }
}

/// The figures of the summary, which rounds them, to the byte.
fn exactly(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    let mut parts = Vec::new();
    let mut say = |what: &str, bytes: u64| parts.push(format!("{what} {}", view.bytes(bytes)));
    if let Some(oom) = &view.device.oom {
        say("request", oom.request_bytes);
        say("live", oom.live_bytes);
        say("reserved", oom.reserved_bytes);
        say("free in its pool", oom.free_in_pool_bytes);
        say("largest free block", oom.largest_free_block_bytes);
    } else {
        say("peak allocated", view.device.peak.allocated_bytes);
        say("peak reserved", view.device.peak.reserved_bytes);
    }
    if let Some(growth) = &finding.growth {
        say("kept", finding.bytes_explained);
        say("kept per call", growth.bytes_per_step);
    } else {
        // The statements behind the verdict round their figures as its summary does.
        let mut more: Vec<u64> = Vec::new();
        for e in &finding.evidence {
            if let (Value::Integer(bytes), "bytes") = (e.value, e.unit)
                && !more.contains(&bytes)
            {
                more.push(bytes);
                say(&format!("{} is", human_bytes(bytes)), bytes);
            }
        }
    }
    let limit = match (view.device.limit.low_bytes, view.device.limit.high_bytes) {
        (Some(low), Some(high)) => Some(view.options.numbers.bytes_range(low, high)),
        (Some(low), None) => Some(format!("at least {}", view.bytes(low))),
        _ => None,
    };
    parts.extend(limit.map(|l| format!("limit {l}")));
    doc.entry(2, &[], 2, &[(Tone::Dim, format!("Exactly: {}.", parts.join(", ")))]);
}

/// Where the failing request was made, and how many failed before it.
fn failed_request(doc: &mut Doc, view: &View<'_>, oom: &OomReport) {
    where_it_fails(doc, view, oom.step, oom.place.as_ref(), oom.went_on);
    if oom.oom_count > 1 {
        let others = oom.oom_count - 1;
        let text = if others == 1 {
            "another request failed before it; the program caught that and went on".to_owned()
        } else {
            format!("{} requests failed before it; the program caught those and went on", count(others))
        };
        doc.paragraph(2, Tone::Plain, &text);
    }
}

/// The step and the line of a failing request.
fn where_it_fails(doc: &mut Doc, view: &View<'_>, step: Option<u64>, place: Option<&Place>, went_on: bool) {
    let mut parts = Vec::new();
    if let Some(step) = step {
        parts.push(in_step(&view.device.steps, step, went_on));
    }
    let mut code = None;
    if let Some(place) = place {
        // A request of autograd's own threads has no frames: what is known is the line that ran before it.
        let relation = if place.is_inferred { "after" } else { "at" };
        parts.push(match place.phase {
            "forward" => format!("in forward {relation}"),
            "backward" => format!("in backward {relation}"),
            "optimizer" => format!("in the optimizer {relation}"),
            _ => relation.to_owned(),
        });
        code = Some(view.line_of_code(&place.function, &place.file, place.line));
    }
    if !parts.is_empty() {
        let mut spans = vec![(Tone::Plain, parts.join(", "))];
        if let Some(code) = code {
            spans.push((Tone::Code, format!("  {code}")));
        }
        doc.entry(2, &[], 2, &spans);
    }
}

/// When a request failed, by steps: what was completed before it is certain, whether it belongs to a further step is
/// not (an evaluation has no marks).
fn in_step(steps: &StepsReport, step: u64, went_on: bool) -> String {
    let kept = if steps.is_partial { " that the trace keeps" } else { "" };
    if went_on && steps.count > step {
        return format!("in {}{kept}", nth_step(step));
    }
    match step {
        0 if steps.is_partial => "in the first step that the trace keeps".to_owned(),
        0 => "in the first step".to_owned(),
        n => format!("after {}{kept}", plural(n, "step", "steps")),
    }
}

fn growth(doc: &mut Doc, finding: &Finding) {
    let Some(growth) = &finding.growth else { return };
    if let Some(steps) = growth.dies_again_in_steps {
        let (one, many) = if growth.per == "call" { ("call", "calls") } else { ("step", "steps") };
        let when = match steps {
            0 => format!("within one {one}"),
            n => format!("after about {}", plural(n, one, many)),
        };
        doc.paragraph(2, Tone::Plain, &format!("past this request it would fail again {when}: a delay, not a cure"));
    }
}

/// The line to mend, then those inside the model. The first is left out where the failing request's line said it.
fn culprits(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    let replayed = || view.device.would_fail.as_ref().and_then(|w| w.place.as_ref());
    let said = view.device.oom.as_ref().and_then(|o| o.place.as_ref()).or_else(replayed);
    let is_said = |c: &Culprit| said.is_some_and(|p| p.file == c.file && p.line == c.line);
    let few = CULPRITS - usize::from(view.tightness >= 3);
    let shown = if view.options.verbose { finding.culprits.len() } else { few };
    // The layout has no line of its own: what is named is the line whose request it failed.
    let is_of_request = finding.cause == Cause::Fragmentation;
    for (i, culprit) in finding.culprits.iter().take(shown).enumerate() {
        let is_repeated =
            if is_of_request { i > 0 || is_said(culprit) } else { finding.culprits.len() == 1 && is_said(culprit) };
        let source = culprit.source.as_ref().filter(|_| i == 0 || view.options.verbose);
        let source = source.map(|text| shorten_middle(text, WIDTH - CODE_AT - 2));
        if is_repeated {
            if let Some(text) = source {
                doc.entry(2, &[(Tone::Plain, "that line is".into())], CODE_AT, &[(Tone::Code, text)]);
            }
            continue;
        }
        // Lines inside the model, and those that the first one calls, made part of what is said of the first.
        let is_part = |of: &Culprit| {
            let frame = format!("{} ({}:{})", of.function, of.file, of.line);
            i > 0 && (culprit.in_module_forward || culprit.stack.contains(&frame))
        };
        let has_first = finding.culprits.first().is_some_and(|first| !first.in_module_forward);
        let label = match (i, culprit.in_module_forward) {
            (_, true) if has_first => "of that, inside",
            (_, true) => "inside the model",
            (0, false) if is_of_request => "asked for at",
            (0, false) => "made at",
            (_, false) if finding.culprits.first().is_some_and(is_part) => "of that, at",
            (_, false) => "and at",
        };
        let code = view.line_of_code(&culprit.function, &culprit.file, culprit.line);
        let share = match culprit.count {
            0 => String::new(),
            _ if is_of_request => String::new(),
            n => format!("{} in {}", view.bytes(culprit.bytes), plural(n, "allocation", "allocations")),
        };
        let label = [(Tone::Plain, label.into())];
        if share.is_empty() {
            doc.entry(2, &label, CODE_AT, &[(Tone::Code, code)]);
            if let Some(text) = source {
                doc.paragraph(CODE_AT + 2, Tone::Code, &text);
            }
            continue;
        }
        if CODE_AT + code.chars().count() + 2 + share.chars().count() <= WIDTH {
            doc.entry(2, &label, CODE_AT, &[(Tone::Code, code), (Tone::Plain, format!("  {share}"))]);
        } else {
            doc.entry(2, &label, CODE_AT, &[(Tone::Code, code)]);
            doc.paragraph(CODE_AT + 2, Tone::Plain, &share);
        }
        if let Some(text) = source {
            doc.paragraph(CODE_AT + 2, Tone::Code, &text);
        }
        if view.options.verbose {
            since(doc, view, culprit);
            operations(doc, view, &culprit.below, CODE_AT + 2);
        }
    }
}

/// How long a line has been making what is named.
fn since(doc: &mut Doc, view: &View<'_>, culprit: &Culprit) {
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (culprit.first_step, culprit.last_step) {
        parts.push(if first == last {
            format!("in step {}", count(first + 1))
        } else {
            format!("in steps {} to {}", count(first + 1), count(last + 1))
        });
    }
    if let Some(bytes) = culprit.bytes_per_step {
        parts.push(format!("{} a step", view.bytes(bytes)));
    }
    if let Some(age) = culprit.age_us.filter(|a| *a > 0) {
        parts.push(format!("the oldest for {}", duration(age)));
    }
    if !parts.is_empty() {
        doc.paragraph(CODE_AT + 2, Tone::Plain, &parts.join(", "));
    }
}

/// What a line calls, a line each.
fn operations(doc: &mut Doc, view: &View<'_>, below: &[Operation], indent: usize) {
    const SHOWN: usize = 6;
    const DEEPEST: usize = CODE_AT + 2 + 2 * 4;
    for operation in below.iter().take(SHOWN) {
        let code = view.line_of_code(&operation.function, &operation.file, operation.line);
        doc.paragraph(indent, Tone::Dim, &format!("{}  {code}", view.bytes(operation.bytes)));
        if indent < DEEPEST {
            operations(doc, view, &operation.below, indent + 2);
        }
    }
}

/// Findings after the verdict, a sentence each.
fn also(doc: &mut Doc, view: &View<'_>, first: &Finding, rest: &[Finding]) {
    const SHOWN: usize = 2;
    let shown = if view.options.verbose { rest.len() } else { SHOWN };
    if rest.is_empty() {
        return;
    }
    doc.blank();
    // All begin with the request that failed, which is said once.
    let request = first.summary.split_once(". ").map_or("", |s| s.0);
    let own = |summary: &str| {
        let rest = summary.strip_prefix(request).and_then(|s| s.strip_prefix(". ")).filter(|_| !request.is_empty());
        rest.unwrap_or(summary).to_owned()
    };
    for finding in rest.iter().take(shown) {
        let title = cause_title(finding.cause, finding.subcause).to_lowercase();
        doc.entry(
            2,
            &[],
            2,
            &[
                (Tone::Heading, format!("Also {title}")),
                (Tone::Plain, format!(" ({}): {}", confidence(finding.confidence), own(&finding.summary))),
            ],
        );
    }
    if rest.len() > shown {
        doc.paragraph(
            2,
            Tone::Dim,
            &format!("{} more; -v shows all.", plural((rest.len() - shown) as u64, "finding", "findings")),
        );
    }
}
