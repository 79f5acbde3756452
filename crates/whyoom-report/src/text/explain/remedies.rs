//! What was tried, and what came of it.

use std::cmp::Ordering;

use whyoom_diagnosis::explanation::{DeviceReport, FailurePoint, Remedy, RemedyOutcome, ReplayStatus};

use crate::{
    number::{count, plural},
    text::{
        doc::{Doc, Tone},
        words::{View, sentence, steps_in_words},
    },
};

/// Remedies in the short form.
const SHOWN: usize = 8;
/// Column at which results begin, where the remedies leave room.
const RESULT_COLUMN: usize = 38;

/// How a remedy is to be read, beyond its recorded outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Passes with room.
    Passes,
    /// Passes with next to no room, or not in every placement tried.
    Gamble,
    /// Would lower what is reserved; nothing failed that it could get past.
    Lowers,
    /// Changes nothing, where nothing failed.
    Same,
    /// Does not help.
    Fails,
    /// Not known.
    Unverified,
}

impl Reading {
    fn mark(self) -> (Tone, &'static str) {
        match self {
            Self::Passes | Self::Lowers => (Tone::Good, "✓"),
            Self::Gamble => (Tone::Caution, "~"),
            Self::Fails => (Tone::Bad, "✗"),
            Self::Same => (Tone::Plain, "="),
            Self::Unverified => (Tone::Caution, "?"),
        }
    }
}

/// How `remedy` is to be read for `device`.
pub(super) fn reading(device: &DeviceReport, remedy: &Remedy) -> Reading {
    if device.replay.status == ReplayStatus::Diverged && remedy.basis.ends_with("replay") {
        return Reading::Unverified;
    }
    let failed = device.oom.is_some();
    match remedy.outcome {
        RemedyOutcome::NotVerified => Reading::Unverified,
        RemedyOutcome::Fails | RemedyOutcome::Worse => Reading::Fails,
        RemedyOutcome::NoChange if failed => Reading::Fails,
        RemedyOutcome::NoChange => Reading::Same,
        RemedyOutcome::Passes if is_gamble(device, remedy) => Reading::Gamble,
        RemedyOutcome::Passes if failed => Reading::Passes,
        RemedyOutcome::Passes => match remedy.peak_reserved_bytes.map(|p| p.cmp(&device.peak.reserved_bytes)) {
            Some(Ordering::Less) => Reading::Lowers,
            Some(Ordering::Equal) => Reading::Same,
            Some(Ordering::Greater) => Reading::Fails,
            None => Reading::Passes,
        },
    }
}

/// Bytes left under the limit's low end by the least favourable placement tried.
fn spare(device: &DeviceReport, remedy: &Remedy) -> Option<u64> {
    let headroom = remedy.headroom_bytes?;
    let worst = match (device.limit.low_bytes, remedy.peak_reserved_range) {
        (Some(limit), Some((_, high))) => limit.saturating_sub(high),
        _ => headroom,
    };
    Some(headroom.min(worst))
}

/// Whether less than half a percent of the limit is left: the next library update decides.
fn is_gamble(device: &DeviceReport, remedy: &Remedy) -> bool {
    match (spare(device, remedy), device.limit.low_bytes) {
        (Some(spare), Some(limit)) => u128::from(spare) * 200 < u128::from(limit),
        _ => false,
    }
}

pub(super) fn remedies(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    let is_quiet = device.oom.is_none() && is_healthy(device) && !view.options.verbose;
    if device.remedies.is_empty() || is_quiet {
        return;
    }
    doc.blank();
    doc.two_sided(&[(Tone::Heading, title(device).into())], &[(Tone::Plain, basis_of_all(device).into())]);
    bound(doc, view);
    let shown = choose(view);
    let common = common_notes(view, &shown);
    for &i in &shown {
        line(doc, view, &device.remedies[i], &common);
    }
    rest(doc, view, &shown);
    caveats(doc, view, &shown, &common);
}

pub(super) fn is_healthy(device: &DeviceReport) -> bool {
    device.findings.first().is_some_and(|f| f.cause == whyoom_diagnosis::explanation::Cause::Healthy)
}

fn title(device: &DeviceReport) -> &'static str {
    let scopes = |scope: &str| device.remedies.iter().any(|r| r.scope == scope);
    match (device.oom.is_some(), scopes("failing_request"), scopes("whole_run")) {
        (false, _, _) => "What would change the reserved memory",
        (true, true, false) => "What would have got past this request",
        (true, false, true) => "What would have let the whole run pass",
        (true, _, _) => "What would have helped",
    }
}

fn basis_of_all(device: &DeviceReport) -> &'static str {
    if device.replay.status == ReplayStatus::Diverged {
        return "not verified: the replay diverges";
    }
    let exact = |r: &Remedy| r.basis == "exact_replay";
    if is_estimated_throughout(device) {
        "basis: an estimate by replay"
    } else if device.remedies.iter().all(exact) {
        "basis: replay of this recording"
    } else if device.remedies.iter().any(exact) {
        "basis: replay, or as marked"
    } else {
        ""
    }
}

/// Whether every remedy was estimated by replay, so that it need not be said of each.
fn is_estimated_throughout(device: &DeviceReport) -> bool {
    device.remedies.iter().all(|r| r.basis == "replay_estimate")
}

/// What no setting can do, said before the settings.
fn bound(doc: &mut Doc, view: &View<'_>) {
    let bound = &view.device.bound;
    if bound.bytes_to_free == 0 {
        return;
    }
    // Where the limit that suffices was searched, it is given below, and more exactly than by this bound.
    let is_searched = bound.fits_from_bytes_default.or(bound.fits_from_bytes_best).is_some();
    let or = if is_searched {
        String::new()
    } else {
        format!(", or the limit be {} or more", view.bytes(bound.compact_bytes))
    };
    doc.paragraph(
        2,
        Tone::Plain,
        &format!("No allocator setting can help: {} must go{or}.", view.bytes(bound.bytes_to_free)),
    );
}

/// Which remedies the short form shows: the best of each kind, a pair of settings only if no single one does as well,
/// and what does harm as far as there is room.
fn choose(view: &View<'_>) -> Vec<usize> {
    let device = view.device;
    let all = &device.remedies;
    if view.options.verbose {
        return (0..all.len()).collect();
    }
    let is_single = |r: &Remedy| r.kind != "setting" || !is_pair(&r.apply);
    let is_good = |r: &Remedy| {
        matches!(reading(device, r), Reading::Passes | Reading::Lowers) || reading(device, r) == Reading::Gamble
    };
    let mut shown: Vec<usize> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for (i, remedy) in all.iter().enumerate() {
        let kind = if remedy.kind == "setting" { key(&remedy.apply) } else { remedy.id.as_str() };
        if is_single(remedy) && !kinds.contains(&kind) {
            kinds.push(kind);
            shown.push(simplest(view, i));
        }
    }
    let single_helps = all.iter().any(|r| is_single(r) && r.kind == "setting" && is_good(r));
    if !single_helps {
        shown.extend(all.iter().position(|r| !is_single(r) && is_good(r)));
    }
    shown.sort_unstable();
    shown.truncate(SHOWN);
    let harmful = (0..all.len()).rev().filter(|&i| all[i].outcome == RemedyOutcome::Worse && is_single(&all[i]));
    for i in harmful {
        if shown.len() < SHOWN && !shown.contains(&i) && !shown.iter().any(|&s| all[s].outcome == RemedyOutcome::Worse)
        {
            shown.push(i);
        }
    }
    shown.sort_unstable();
    shown
}

/// Of the settings of one key that do as little as the `i`th remedy, the shortest.
fn simplest(view: &View<'_>, i: usize) -> usize {
    let all = &view.device.remedies;
    let first = &all[i];
    let is_idle = matches!(first.outcome, RemedyOutcome::NoChange | RemedyOutcome::Fails);
    if first.kind != "setting" || !is_idle {
        return i;
    }
    let is_like = |r: &Remedy| {
        r.kind == "setting" && r.outcome == first.outcome && !is_pair(&r.apply) && key(&r.apply) == key(&first.apply)
    };
    (i..all.len()).filter(|&j| is_like(&all[j])).min_by_key(|&j| all[j].apply.len()).unwrap_or(i)
}

/// Whether a settings string sets several keys; commas inside a list are not between keys.
fn is_pair(settings: &str) -> bool {
    let mut depth = 0;
    settings.chars().any(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
}

/// The first key of a settings string.
fn key(settings: &str) -> &str {
    settings.split(':').next().unwrap_or(settings)
}

/// Whether the note of a remedy is shown beside it.
fn shows_note(view: &View<'_>, remedy: &Remedy) -> bool {
    let helps = [Reading::Passes, Reading::Gamble, Reading::Lowers, Reading::Unverified];
    view.options.verbose || helps.contains(&reading(view.device, remedy))
}

/// The parts of a remedy's note, which are joined by semicolons.
fn notes(remedy: &Remedy) -> impl Iterator<Item = &str> {
    remedy.note.iter().flat_map(|n| n.split("; ")).map(|part| part.trim_end_matches('.'))
}

/// What holds for several of the remedies shown, to be said once below them.
fn common_notes<'a>(view: &View<'a>, shown: &[usize]) -> Vec<&'a str> {
    let remedies = &view.device.remedies;
    let mut common: Vec<&str> = Vec::new();
    let with_note: Vec<&Remedy> = shown.iter().map(|&i| &remedies[i]).filter(|r| shows_note(view, r)).collect();
    for part in with_note.iter().flat_map(|r| notes(r)) {
        let times = with_note.iter().filter(|r| notes(r).any(|n| n == part)).count();
        if times > 1 && !common.contains(&part) {
            common.push(part);
        }
    }
    common
}

fn line(doc: &mut Doc, view: &View<'_>, remedy: &Remedy, common: &[&str]) {
    let device = view.device;
    let reading = reading(device, remedy);
    let (tone, mark) = reading.mark();
    let mut text = result(view, remedy, reading);
    let is_marked = remedy.basis != "exact_replay" && !is_estimated_throughout(device);
    if is_marked && device.replay.status != ReplayStatus::Diverged {
        text.push_str(match remedy.basis {
            "replay_estimate" => " (estimate)",
            "arithmetic" => " (arithmetic)",
            _ => " (reasoning)",
        });
    }
    if shows_note(view, remedy) {
        for part in notes(remedy).filter(|n| !common.contains(n)) {
            text.push_str("; ");
            text.push_str(part);
        }
    }
    doc.entry(
        2,
        &[(tone, mark.into()), (Tone::Plain, format!(" {}", remedy.apply))],
        RESULT_COLUMN,
        &[(Tone::Plain, text)],
    );
    if view.options.verbose {
        doc.paragraph(RESULT_COLUMN, Tone::Dim, &driver_calls(remedy));
    }
}

/// The price in time: calls to the driver.
fn driver_calls(remedy: &Remedy) -> String {
    let mut parts = vec![
        format!("{} driver allocations", count(remedy.driver_allocations)),
        format!("{} frees", count(remedy.driver_frees)),
    ];
    if remedy.maps + remedy.unmaps > 0 {
        parts.push(format!("{} maps", count(remedy.maps)));
        parts.push(format!("{} unmaps", count(remedy.unmaps)));
    }
    parts.push(plural(remedy.retries, "retry", "retries"));
    parts.push(format!("{} synchronisations", count(remedy.synchronisations)));
    parts.join(", ")
}

fn result(view: &View<'_>, remedy: &Remedy, reading: Reading) -> String {
    let device = view.device;
    match reading {
        Reading::Unverified => "not verified".into(),
        Reading::Passes => format!("passes{}", peak_and_spare(view, remedy)),
        Reading::Gamble => format!("passes{}: a gamble", peak_and_spare(view, remedy)),
        Reading::Same => "changes nothing".into(),
        Reading::Lowers => {
            let less = device.peak.reserved_bytes - remedy.peak_reserved_bytes.unwrap_or(device.peak.reserved_bytes);
            format!("reserves {}, {} less", peak(view, remedy).unwrap_or_default(), view.bytes(less))
        }
        Reading::Fails => failure(view, remedy),
    }
}

fn failure(view: &View<'_>, remedy: &Remedy) -> String {
    let device = view.device;
    let worse = match (remedy.outcome == RemedyOutcome::Worse, remedy.tie_sensitive) {
        (true, true) => ": worse (ties decide)",
        (true, false) => ": worse",
        (false, true) => " (ties decide)",
        (false, false) => "",
    };
    match (&remedy.first_failure, &device.oom) {
        // Where the program caught earlier failures, the first of them is what a remedy is measured by.
        (Some(_), Some(oom)) if oom.oom_count > 1 => match remedy.outcome {
            RemedyOutcome::NoChange => "changes nothing: fails where the run first failed".into(),
            RemedyOutcome::Worse => format!("fails before the run first failed{worse}"),
            _ => format!("fails after the run first failed{worse}"),
        },
        (Some(point), Some(oom)) => {
            let at = FailurePoint { event: oom.event, malloc: oom.malloc, step: oom.step };
            let when = when(point, &at);
            if remedy.outcome == RemedyOutcome::NoChange {
                format!("changes nothing: fails {when}")
            } else {
                format!("fails {when}{worse}")
            }
        }
        (Some(_), None) => format!("fails, where the recorded run did not{worse}"),
        (None, _) if remedy.outcome == RemedyOutcome::NoChange => "changes nothing".into(),
        (None, _) => {
            let recorded = device.peak.reserved_bytes;
            match remedy.peak_reserved_bytes {
                Some(p) if p > recorded => {
                    format!(
                        "reserves {}, {} more{worse}",
                        peak(view, remedy).unwrap_or_default(),
                        view.bytes(p - recorded)
                    )
                }
                _ => format!("fails{worse}"),
            }
        }
    }
}

/// When a replay fails, seen from where the recording failed.
fn when(point: &FailurePoint, recorded: &FailurePoint) -> String {
    if point.malloc == recorded.malloc {
        return "at the same request".into();
    }
    let is_earlier = point.malloc < recorded.malloc;
    let side = if is_earlier { "earlier" } else { "later" };
    match (point.step, recorded.step) {
        (Some(a), Some(b)) if a != b => format!("{} {side}", steps_in_words(a.abs_diff(b))),
        (Some(_), Some(_)) => format!("{side} in the same step"),
        _ => format!("{} {side}", plural(point.malloc.abs_diff(recorded.malloc), "request", "requests")),
    }
}

/// The peak, as a range where the placement decides it.
fn peak(view: &View<'_>, remedy: &Remedy) -> Option<String> {
    match (remedy.peak_reserved_range, remedy.peak_reserved_bytes) {
        (Some((low, high)), _) => Some(view.options.numbers.bytes_range(low, high)),
        (None, peak) => peak.map(|p| view.bytes(p)),
    }
}

fn peak_and_spare(view: &View<'_>, remedy: &Remedy) -> String {
    let mut text = peak(view, remedy).map(|p| format!(", peak {p}")).unwrap_or_default();
    match (spare(view.device, remedy), remedy.peak_reserved_range, view.device.limit.low_bytes) {
        (_, Some((_, high)), Some(limit)) if high > limit => text.push_str(", not in every placement tried"),
        // Without room in some placement only; the note says in how many.
        (Some(0), _, Some(limit)) if remedy.peak_reserved_bytes.is_some_and(|p| p < limit) => {}
        (Some(0), _, _) => text.push_str(", nothing to spare"),
        (Some(spare), _, _) => {
            text.push_str(", ");
            text.push_str(&view.bytes(spare));
            text.push_str(" to spare");
        }
        (None, _, _) => {}
    }
    text
}

/// What the short form leaves out, counted by outcome.
fn rest(doc: &mut Doc, view: &View<'_>, shown: &[usize]) {
    let device = view.device;
    let hidden: Vec<Reading> = device
        .remedies
        .iter()
        .enumerate()
        .filter(|(i, _)| !shown.contains(i))
        .map(|(_, r)| reading(device, r))
        .collect();
    if hidden.is_empty() {
        return;
    }
    let number = |wanted: &[Reading]| hidden.iter().filter(|r| wanted.contains(r)).count();
    let fails = if device.oom.is_some() { ("fails", "fail") } else { ("is worse", "are worse") };
    let parts: Vec<String> = [
        (number(&[Reading::Passes]), "passes", "pass"),
        (number(&[Reading::Gamble]), "is a gamble", "are gambles"),
        (number(&[Reading::Lowers]), "reserves less", "reserve less"),
        (number(&[Reading::Same]), "changes nothing", "change nothing"),
        (number(&[Reading::Fails]), fails.0, fails.1),
        (number(&[Reading::Unverified]), "is not verified", "are not verified"),
    ]
    .into_iter()
    .filter(|(n, _, _)| *n > 0)
    .map(|(n, one, many)| format!("{n} {}", if n == 1 { one } else { many }))
    .collect();
    doc.paragraph(4, Tone::Dim, &format!("{} more tried: {}; -v shows all", hidden.len(), parts.join(", ")));
}

/// What the results above do not say.
fn caveats(doc: &mut Doc, view: &View<'_>, shown: &[usize], common: &[&str]) {
    let device = view.device;
    for note in common {
        doc.paragraph(2, Tone::Plain, &sentence(note));
    }
    let is_cut = |i: &usize| {
        let remedy = &device.remedies[*i];
        remedy.scope == "failing_request" && matches!(reading(device, remedy), Reading::Passes | Reading::Gamble)
    };
    if let Some(oom) = device.oom.as_ref().filter(|_| shown.iter().any(is_cut)) {
        // The program went on if it completed the step that the request failed in.
        let went_on = oom.step.is_some_and(|step| device.steps.count > step);
        let text = match (went_on, oom.step) {
            (true, _) => "The program went on without this request: what it would have done with it is not known.",
            (false, Some(_)) => "The recording ends here: nothing is known of later steps.",
            (false, None) => "Nothing is known of what would have come after this request.",
        };
        doc.paragraph(2, Tone::Plain, text);
    }
    limit(doc, view);
}

fn limit(doc: &mut Doc, view: &View<'_>) {
    let limit = &view.device.limit;
    let text = match (limit.low_bytes, limit.high_bytes) {
        (Some(low), Some(high)) if low == high => return,
        (Some(low), Some(_)) => format!("Tried under {}, the low end of what the limit can be.", view.bytes(low)),
        (Some(low), None) => format!("Tried under {}, which the limit is at least.", view.bytes(low)),
        (None, _) if view.device.oom.is_some() => "The limit is not known; --limit SIZE says it.".into(),
        (None, _) => return,
    };
    doc.paragraph(2, Tone::Plain, &text);
}
