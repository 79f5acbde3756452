//! `whyoom replay` as text.

use std::io::{self, Write};

use super::{
    TextOptions,
    doc::{Doc, Tone},
    explain::divergence,
    words::{header, nth_step, warnings},
};
use crate::{
    number::{count, plain, plural},
    replay::{Costs, DeviceReplay, ReplayMode, ReplayResult},
};

/// Devices shown, in the order given; nobody reads more.
const IN_FULL: usize = 64;
/// Column at which the rows begin their text.
const COLUMN: usize = 13;

/// Writes `result` as text, every device in full.
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_replay(result: &ReplayResult, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut doc = Doc::new(options.ascii);
    for device in result.devices.iter().take(IN_FULL) {
        doc.blank();
        header(&mut doc, &result.inputs, device.input, device.device, options);
        write_device(&mut doc, device, options);
    }
    if result.devices.is_empty() {
        doc.paragraph(0, Tone::Heading, "Nothing to replay");
        doc.paragraph(2, Tone::Plain, "No input holds a segment or an event of any GPU.");
    }
    if result.devices.len() > IN_FULL {
        doc.blank();
        let more = plural((result.devices.len() - IN_FULL) as u64, "device", "devices");
        doc.paragraph(0, Tone::Dim, &format!("and {more} more; --json shows all."));
    }
    warnings(&mut doc, &result.warnings, options);
    doc.write(options.colour, out)
}

fn write_device(doc: &mut Doc, device: &DeviceReplay, options: TextOptions) {
    doc.paragraph(8, Tone::Dim, &world(device, options));
    doc.blank();
    match device.mode {
        ReplayMode::Recorded => recorded(doc, device),
        ReplayMode::Counterfactual => counterfactual(doc, device, options),
    }
    doc.blank();
    rows(doc, device, options);
}

/// What was replayed: settings, limit, calls, model.
fn world(device: &DeviceReplay, options: TextOptions) -> String {
    let mut parts = vec![match device.settings.as_deref() {
        None => "settings not in the file, defaults taken".to_owned(),
        Some("") => "default settings".to_owned(),
        Some(s) => s.to_owned(),
    }];
    parts.push(match (device.limit_bytes, device.mode) {
        (Some(limit), _) => {
            let inferred = if device.limit_is_inferred { " (inferred)" } else { "" };
            format!("limit {}{inferred}", options.numbers.bytes(limit))
        }
        (None, ReplayMode::Recorded) => "limit as recorded".to_owned(),
        (None, ReplayMode::Counterfactual) => "no limit".to_owned(),
    });
    parts.extend(device.changes.iter().cloned());
    parts.push(format!("model of torch {}", device.model));
    parts.join(" · ")
}

fn recorded(doc: &mut Doc, device: &DeviceReplay) {
    let events = plural(device.events, "event", "events");
    let blocks = match &device.final_state {
        Some(s) if s.equal => "the final blocks are equal".to_owned(),
        Some(s) => format!("{} differ", plural(s.differing_blocks, "final block", "final blocks")),
        None => "the file has no final blocks to compare".to_owned(),
    };
    let is_state_right = device.final_state.as_ref().is_none_or(|s| s.equal);
    match device.matched {
        Some(matched) if matched == device.events && is_state_right => {
            doc.paragraph(0, Tone::Heading, "Reproduced exactly");
            doc.paragraph(2, Tone::Plain, &format!("{} of {events} match; {blocks}.", count(matched)));
        }
        Some(matched) => {
            doc.paragraph(0, Tone::Heading, "Diverges");
            let text = match &device.first_divergence {
                Some(d) => {
                    doc.paragraph(
                        2,
                        Tone::Plain,
                        &format!("{} {}.", divergence(d, matched, device.events), capital(&blocks)),
                    );
                    doc.entry(2, &[(Tone::Plain, "recorded".into())], COLUMN, &[(Tone::Plain, d.recorded.clone())]);
                    doc.entry(2, &[(Tone::Plain, "modelled".into())], COLUMN, &[(Tone::Plain, d.simulated.clone())]);
                    None
                }
                None => Some(format!("{} of {events} match; {blocks}.", count(matched))),
            };
            if let Some(text) = text {
                doc.paragraph(2, Tone::Plain, &text);
            }
        }
        None => {
            doc.paragraph(0, Tone::Heading, "Not replayed");
            if device.note.is_none() {
                doc.paragraph(2, Tone::Plain, "The file holds no trace to replay.");
            }
        }
    }
    if let Some(note) = &device.note {
        doc.paragraph(2, Tone::Plain, note);
    }
}

fn counterfactual(doc: &mut Doc, device: &DeviceReplay, options: TextOptions) {
    let title = match (&device.first_oom, &device.recorded_first_oom) {
        (None, None) => "Passes, as the recorded run did",
        (None, Some(_)) => "Passes, where the recorded run failed",
        (Some(_), None) => "Fails, where the recorded run passed",
        (Some(a), Some(b)) if a.malloc == b.malloc => "Fails at the same request as the recorded run",
        (Some(a), Some(b)) if a.malloc < b.malloc => "Fails earlier than the recorded run",
        (Some(_), Some(_)) => "Fails later than the recorded run",
    };
    doc.paragraph(0, Tone::Heading, title);
    if let Some(oom) = &device.first_oom {
        let step = oom.step.map_or_else(String::new, |s| format!(", in {}", nth_step(s)));
        let text =
            format!("first failure: {} at event {}{step}", options.numbers.bytes(oom.request_bytes), count(oom.event));
        doc.paragraph(2, Tone::Plain, &text);
    }
    if let Some(recorded) = &device.recorded_first_oom {
        doc.paragraph(2, Tone::Plain, &format!("the recorded run first failed at event {}", count(recorded.event)));
    }
    if let Some(from) = device.hypothetical_from {
        doc.paragraph(
            2,
            Tone::Plain,
            &format!(
                "from event {} on this is hypothetical: the program would have done something else there",
                count(from)
            ),
        );
    }
    if device.first_oom.is_some() {
        doc.paragraph(
            2,
            Tone::Plain,
            "peaks and calls are those up to it; the rest is without the requests that failed",
        );
    }
    for (is_so, what) in [
        (device.tie_sensitive, "ties among equal free blocks"),
        (device.timing_sensitive, "completion times on other streams"),
    ] {
        if is_so {
            doc.paragraph(2, Tone::Plain, &format!("{what} change some figure here"));
        }
    }
    if let Some(note) = &device.note {
        doc.paragraph(2, Tone::Plain, note);
    }
}

fn rows(doc: &mut Doc, device: &DeviceReplay, options: TextOptions) {
    let bytes = |n| options.numbers.bytes(n);
    let mut row =
        |label: &str, text: String| doc.entry(0, &[(Tone::Heading, label.into())], COLUMN, &[(Tone::Plain, text)]);
    if device.mode == ReplayMode::Recorded && device.matched.is_none() {
        row(
            "In the file",
            format!("reserved {}, allocated {}", bytes(device.end.reserved_bytes), bytes(device.end.allocated_bytes)),
        );
        return;
    }
    let (low, high) = device.peak_reserved_range;
    let range = if bytes(low) == bytes(high) {
        String::new()
    } else {
        format!(" ({} over the placements tried)", options.numbers.bytes_range(low, high))
    };
    row(
        "Peak",
        format!(
            "reserved {}{range}, allocated {}, active {}, requested {}",
            bytes(device.peak.reserved_bytes),
            bytes(device.peak.allocated_bytes),
            bytes(device.peak.active_bytes),
            bytes(device.peak.requested_bytes)
        ),
    );
    // Expandable segments are not counted by PyTorch, and so not here.
    let segments = match device.end.segments {
        0 => String::new(),
        n => format!(" in {}", plural(n, "segment", "segments")),
    };
    row(
        "End",
        format!(
            "reserved {}{segments}, allocated {}",
            bytes(device.end.reserved_bytes),
            bytes(device.end.allocated_bytes)
        ),
    );
    row("Failures", format!("{}, {}", plural(device.ooms, "OOM", "OOMs"), plural(device.retries, "retry", "retries")));
    let maps = if device.maps + device.unmaps > 0 {
        format!(" (maps {}, unmaps {} of these)", count(device.maps), count(device.unmaps))
    } else {
        String::new()
    };
    row(
        "Driver",
        format!(
            "{}, {}{maps}, {}",
            plural(device.driver_allocations, "allocation", "allocations"),
            plural(device.driver_frees, "free", "frees"),
            plural(device.synchronisations, "synchronisation", "synchronisations")
        ),
    );
    if let Some(recorded) = &device.recorded {
        row("Price", price(device, recorded));
    }
    let steps = if device.steps > 0 { format!("{} in ", plural(device.steps, "step", "steps")) } else { String::new() };
    row("Trace", format!("{steps}{}", plural(device.events, "event", "events")));
}

/// Calls to the driver and retries, against the recording's; a step, where steps are known and all were run.
fn price(device: &DeviceReplay, recorded: &Costs) -> String {
    let here = Costs::of(device);
    let calls = |c: &Costs| c.driver_allocations + c.driver_frees;
    let is_comparable = device.steps > 0 && device.first_oom.is_none() && device.recorded_first_oom.is_none();
    if is_comparable {
        let each = |n: u64| plain(n as f64 / device.steps as f64);
        return format!(
            "{} driver calls a step, {} as recorded; {} retries a step, {} as recorded",
            each(calls(&here)),
            each(calls(recorded)),
            each(here.retries),
            each(recorded.retries)
        );
    }
    format!(
        "{}, {} as recorded; {}, {} as recorded",
        plural(calls(&here), "driver call", "driver calls"),
        count(calls(recorded)),
        plural(here.retries, "retry", "retries"),
        count(recorded.retries)
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| format!("{}{}", c.to_uppercase(), chars.as_str()))
}
