//! What was tried, and what came of it.

use whyoom_diagnosis::explanation::{Cause, DeviceReport, Remedy, ReplayStatus};

use super::{
    choice::{choose, names, recommended},
    reading::{Reading, is_healthy, is_limit_asked, reading},
    results::{driver_calls, result},
};
use crate::{
    number::plural,
    text::{
        doc::{Doc, Tone, WIDTH},
        words::{View, sentence},
    },
};

/// Id of the recorded program under the limit that was asked about.
const UNCHANGED: &str = "environment/unchanged";
/// Column at which results begin, where the remedies leave room.
const RESULT_COLUMN: usize = 38;

pub(super) fn remedies(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    // Where nothing failed and nothing is known to be wrong, what settings would do is beside the point.
    let is_calm = device.findings.first().is_none_or(|f| matches!(f.cause, Cause::Healthy | Cause::Undetermined));
    let is_quiet = device.oom.is_none() && is_calm && !view.options.verbose;
    if device.remedies.is_empty() {
        return;
    }
    unchanged(doc, view);
    if is_quiet {
        worth_knowing(doc, view);
        return;
    }
    doc.blank();
    let title = match device.limit.low_bytes.filter(|_| is_limit_asked(device)) {
        Some(limit) => format!("What would run under {}", view.bytes(limit)),
        None => title(device).to_owned(),
    };
    doc.two_sided(&[(Tone::Heading, title)], &[(Tone::Plain, basis_of_all(device).into())]);
    bound(doc, view);
    let rows = choose(view);
    let shown: Vec<usize> = rows.iter().flatten().copied().collect();
    let common = common_notes(view, &shown);
    for row in &rows {
        match row.as_slice() {
            [one] => line(doc, view, &device.remedies[*one], &common),
            several => folded(doc, view, several, &common),
        }
    }
    rest(doc, view, &shown);
    caveats(doc, view, &shown, &common);
}

/// The answer to a limit that was asked about: the recorded settings under it.
fn unchanged(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    let Some(remedy) = device.remedies.iter().find(|r| r.id == UNCHANGED) else { return };
    let Some(limit) = device.limit.low_bytes else { return };
    doc.blank();
    let what = if device.oom.is_some() { "gets past this request" } else { "passes" };
    let text = match remedy.first_failure {
        None => format!(
            "Under {} it {what} unchanged, with a peak of {}.",
            view.bytes(limit),
            view.bytes(remedy.peak_reserved_bytes.unwrap_or(0))
        ),
        Some(_) => format!("Under {} it fails unchanged.", view.bytes(limit)),
    };
    doc.paragraph(0, Tone::Plain, &text);
}

/// What a run without a fault could spare: one line, where it is much.
fn worth_knowing(doc: &mut Doc, view: &View<'_>) {
    /// Parts of what was reserved that make it much.
    const MUCH: u64 = 4;
    /// Less than this is not worth a setting.
    const MATTERS: u64 = 256 << 20;
    let device = view.device;
    let reserved = device.peak.reserved_bytes;
    let Some(best) = recommended(device).map(|i| &device.remedies[i]) else { return };
    let Some((_, needs)) = best.peak_reserved_range.filter(|_| is_healthy(device)) else { return };
    let less = reserved.saturating_sub(needs);
    // Retries stop the device; to be rid of them is worth more than the bytes.
    let is_pressed = device.replay.retries > best.retries;
    if less >= MATTERS && (less >= reserved / MUCH || is_pressed) {
        let retries = match best.retries {
            _ if !is_pressed => String::new(),
            0 => ", and never given cached memory back".to_owned(),
            n => format!(", and given cached memory back {}", plural(n, "time", "times")),
        };
        let text = format!(
            "With {} it would have reserved {}, {} less{retries}.",
            best.apply,
            view.bytes(needs),
            view.bytes(less)
        );
        doc.blank();
        doc.entry(0, &[(Tone::Heading, "Worth knowing:".into())], 15, &[(Tone::Plain, text)]);
    }
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
    if tried(device).all(|r| r.basis == "replay_estimate") {
        "basis: an estimate by replay"
    } else if is_estimated_throughout(device) {
        "basis: replay; what passes, estimated"
    } else if tried(device).all(exact) {
        "basis: replay of this recording"
    } else if is_program_estimated(device) {
        "basis: replay; code and batch, estimated"
    } else if tried(device).any(exact) {
        "basis: replay, or as marked"
    } else {
        ""
    }
}

/// Whether every remedy that passes was estimated by replay, so that it need not be said of each. Those that fail
/// fail at the request that failed or before it, where nothing is supposed.
fn is_estimated_throughout(device: &DeviceReport) -> bool {
    let mut passing = tried(device).filter(|r| r.first_failure.is_none()).peekable();
    passing.peek().is_some() && passing.all(|r| r.basis == "replay_estimate") && device.oom.is_some()
        || tried(device).all(|r| r.basis == "replay_estimate")
}

/// What the rows are of; a larger limit has a line of its own below them.
fn tried(device: &DeviceReport) -> impl Iterator<Item = &Remedy> {
    device.remedies.iter().filter(|r| r.kind != "environment")
}

/// Whether nothing but what changes the program was estimated, so that the heading can say it.
fn is_program_estimated(device: &DeviceReport) -> bool {
    let is_change = |r: &Remedy| matches!(r.kind, "code" | "workload");
    tried(device).any(is_change)
        && tried(device).all(|r| r.basis == if is_change(r) { "replay_estimate" } else { "exact_replay" })
}

/// What no setting can do, said before the settings.
fn bound(doc: &mut Doc, view: &View<'_>) {
    let bound = &view.device.bound;
    // Without a failure this stands with the verdict.
    let fails = view.device.oom.is_some() || view.device.would_fail.is_some();
    if bound.bytes_to_free == 0 || !fails {
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
        &format!("No allocator setting can help: at least {} must go{or}.", view.bytes(bound.bytes_to_free)),
    );
}

/// Whether the note of a remedy is shown beside it.
fn shows_note(view: &View<'_>, remedy: &Remedy) -> bool {
    // Where the replay diverges there is no result that a note could qualify.
    let helps = [
        Reading::Passes,
        Reading::Gamble,
        Reading::Delays,
        Reading::Depends,
        Reading::Lowers,
        Reading::Open,
        Reading::Unverified,
    ];
    view.device.replay.status != ReplayStatus::Diverged
        && (view.options.verbose || helps.contains(&reading(view.device, remedy)))
}

/// The parts of a remedy's note, which are joined by semicolons.
fn notes(remedy: &Remedy) -> impl Iterator<Item = &str> {
    remedy.note.iter().flat_map(|n| n.split("; ")).map(|part| part.trim_end_matches('.'))
}

/// Whether a note says what the result says already: from which limit on it passes.
fn is_result(reading: Reading, note: &str) -> bool {
    reading == Reading::Depends && note.starts_with("passes if the limit")
}

/// What holds for all of the remedies whose notes are shown, to be said once below them.
fn common_notes<'a>(view: &View<'a>, shown: &[usize]) -> Vec<&'a str> {
    let remedies = &view.device.remedies;
    let mut common: Vec<&str> = Vec::new();
    let with_note: Vec<&Remedy> = shown.iter().map(|&i| &remedies[i]).filter(|r| shows_note(view, r)).collect();
    for part in with_note.iter().flat_map(|r| notes(r)) {
        let times = with_note.iter().filter(|r| notes(r).any(|n| n == part)).count();
        if times > 1 && times == with_note.len() && !common.contains(&part) {
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
    let is_marked = remedy.basis != "exact_replay" && !is_estimated_throughout(device) && !is_program_estimated(device);
    if is_marked && device.replay.status != ReplayStatus::Diverged {
        text.push_str(match remedy.basis {
            "replay_estimate" => " (estimate)",
            "arithmetic" => " (arithmetic)",
            _ => " (reasoning)",
        });
    }
    if shows_note(view, remedy) {
        for part in notes(remedy).filter(|n| !common.contains(n) && !is_result(reading, n)) {
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

/// Remedies that come to the same, in one row.
fn folded(doc: &mut Doc, view: &View<'_>, row: &[usize], common: &[&str]) {
    let all = &view.device.remedies;
    let Some(first) = row.first().map(|&i| &all[i]) else { return };
    let reading = reading(view.device, first);
    let (tone, mark) = reading.mark();
    let mut text = format!("{}: {}", names(all, row), result(view, first, reading));
    if shows_note(view, first) {
        for part in notes(first).filter(|n| !common.contains(n) && !is_result(reading, n)) {
            text.push_str("; ");
            text.push_str(part);
        }
    }
    doc.entry(2, &[(tone, mark.into())], 4, &[(Tone::Plain, text)]);
}

/// What the short form leaves out, counted by outcome.
fn rest(doc: &mut Doc, view: &View<'_>, shown: &[usize]) {
    let device = view.device;
    let hidden: Vec<Reading> = device
        .remedies
        .iter()
        .enumerate()
        // What a larger limit comes to is said by the line of its own.
        .filter(|(i, r)| !shown.contains(i) && r.kind != "environment")
        .map(|(_, r)| reading(device, r))
        .collect();
    if hidden.is_empty() {
        return;
    }
    let number = |wanted: &[Reading]| hidden.iter().filter(|r| wanted.contains(r)).count();
    let fails =
        if device.oom.is_some() || is_limit_asked(device) { ("fails", "fail") } else { ("is worse", "are worse") };
    let parts: Vec<String> = [
        (number(&[Reading::Passes]), "passes", "pass"),
        (number(&[Reading::Gamble]), "is a gamble", "are gambles"),
        (number(&[Reading::Delays]), "is a delay", "are delays"),
        (number(&[Reading::Depends]), "depends on the limit", "depend on the limit"),
        (number(&[Reading::Open]), "may reserve more or less", "may reserve more or less"),
        (number(&[Reading::Lowers]), "reserves less", "reserve less"),
        (number(&[Reading::Same]), "changes nothing", "change nothing"),
        (number(&[Reading::Fails]), fails.0, fails.1),
        (number(&[Reading::Unverified]), "is not verified", "are not verified"),
    ]
    .into_iter()
    .filter(|(n, _, _)| *n > 0)
    .map(|(n, one, many)| format!("{n} {}", if n == 1 { one } else { many }))
    .collect();
    doc.paragraph(4, Tone::Dim, &format!("{} more tried: {}", hidden.len(), parts.join(", ")));
}

/// What the results above do not say.
fn caveats(doc: &mut Doc, view: &View<'_>, shown: &[usize], common: &[&str]) {
    let device = view.device;
    for note in common {
        doc.paragraph(2, Tone::Plain, &sentence(note));
    }
    let mut said: Vec<String> = Vec::new();
    said.extend(terms(view, shown, common));
    let is_cut = |i: &usize| {
        let remedy = &device.remedies[*i];
        remedy.scope == "failing_request"
            && matches!(reading(device, remedy), Reading::Passes | Reading::Gamble | Reading::Delays)
    };
    if let Some(oom) = device.oom.as_ref().filter(|_| shown.iter().any(is_cut)) {
        let text = match (oom.went_on, oom.step) {
            (true, _) => "With this request the program might have gone on otherwise than it did.",
            (false, Some(_)) => "Nothing is recorded of later steps.",
            (false, None) => "Nothing is recorded of what came after this request.",
        };
        said.push(text.to_owned());
    }
    if device.replay.status != ReplayStatus::Diverged {
        said.extend(limit(view));
        said.extend(where_the_limit_is_known(view));
    }
    // Several on one line where there is room.
    let mut line = String::new();
    for text in said {
        if line.is_empty() {
            line = text;
        } else if line.chars().count() + 1 + text.chars().count() + 2 <= WIDTH {
            line.extend([" ", &text]);
        } else {
            doc.paragraph(2, Tone::Plain, &std::mem::replace(&mut line, text));
        }
    }
    if !line.is_empty() {
        doc.paragraph(2, Tone::Plain, &line);
    }
}

/// The words of the rows that people cannot know.
fn terms(view: &View<'_>, shown: &[usize], common: &[&str]) -> Vec<String> {
    let device = view.device;
    let rows = || shown.iter().map(|&i| &device.remedies[i]);
    let says = |what: &str| {
        let in_note = |r: &Remedy| shows_note(view, r) && notes(r).any(|n| n.contains(what));
        rows().any(|r| result(view, r, reading(device, r)).contains(what) || in_note(r))
            || common.iter().any(|n| n.contains(what))
    };
    let mut out = Vec::new();
    // The collector looks at its threshold only under a cap (`garbage_collect_cached_blocks`, all releases).
    let is_collector = |r: &Remedy| r.apply.starts_with("garbage_collection_threshold");
    let is_uncapped = device.limit.source == "card" || device.limit.low_bytes.is_none();
    if is_uncapped && rows().any(is_collector) {
        out.push("garbage_collection_threshold acts only under a set memory fraction.".to_owned());
    }
    if says("placement") {
        out.push("Placement: where the driver puts segments.".to_owned());
    }
    let passes_everywhere =
        |r: &Remedy| reading(device, r) == Reading::Gamble && !result(view, r, Reading::Gamble).contains("placement");
    if rows().any(passes_everywhere) {
        out.push("A gamble passes by under 0.5 %.".to_owned());
    }
    out
}

/// Where to read the limit, if the trace shows it only roughly.
fn where_the_limit_is_known(view: &View<'_>) -> Option<String> {
    let limit = &view.device.limit;
    let (low, high) = (limit.low_bytes?, limit.high_bytes?);
    // Up to a hundredth decides little.
    if view.device.oom.is_none() || high.saturating_sub(low) <= high / 100 {
        return None;
    }
    Some(match limit.source {
        "argument" | "oom_message" => return None,
        "card" => "What the card has decides: --card NAME or --limit SIZE says it.".to_owned(),
        // `allowed_info` in `CUDACachingAllocator.cpp`, from 1.8 on.
        _ => "Your OOM message says \"N allowed\": give it with --limit N.".to_owned(),
    })
}

/// The limit that was tried under, where it is not plain.
fn limit(view: &View<'_>) -> Option<String> {
    let limit = &view.device.limit;
    Some(match (limit.low_bytes, limit.high_bytes) {
        (Some(given), _) if limit.source == "argument" => match view.device.oom {
            Some(_) => format!("Tried under {}, as given.", view.bytes(given)),
            // The heading has it.
            None => return None,
        },
        (None, _) if limit.source == "argument" => "Tried without a limit, as given.".into(),
        (Some(low), Some(high)) if low == high => return None,
        (Some(low), Some(_)) => format!("Tried under {}, the limit's low end.", view.bytes(low)),
        (Some(low), None) => format!("Tried under {}, which the limit is at least.", view.bytes(low)),
        (None, _) if view.device.oom.is_some() => "The limit is not known; --limit SIZE says it.".into(),
        (None, _) => return None,
    })
}
