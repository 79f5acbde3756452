//! `whyoom tune` as text: the line to paste, what it buys, and what else there is.

use std::fmt::Write as _;
use std::io::{self, Write};

use whyoom_diagnosis::tuning::{Candidate, DeviceTuning, Tuning};

use super::{
    TextOptions,
    doc::{Doc, Tone, WIDTH},
    words::{header, nth_step, warnings},
};
use crate::number::{count, plain, plural};

/// Column at which the labelled lines begin their text.
const COLUMN: usize = 10;
/// Column at which the settings of a row begin.
const SETTINGS_AT: usize = 41;
/// Rows of the table in the short form.
const SHOWN: usize = 6;

/// Writes `tuning` as text, every device in full.
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_tuning(tuning: &Tuning, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut doc = Doc::new(options.ascii);
    for device in &tuning.devices {
        doc.blank();
        header(&mut doc, &tuning.inputs, device.input, device.device, options);
        Page { device, options }.write(&mut doc);
    }
    if tuning.devices.is_empty() {
        doc.paragraph(0, Tone::Heading, "Nothing to tune");
        doc.paragraph(2, Tone::Plain, "No input holds a segment or an event of any GPU.");
    }
    warnings(&mut doc, &tuning.warnings, options);
    doc.write(options.colour, out)
}

struct Page<'a> {
    device: &'a DeviceTuning,
    options: TextOptions,
}

impl Page<'_> {
    fn bytes(&self, bytes: u64) -> String {
        self.options.numbers.bytes(bytes)
    }

    fn write(&self, doc: &mut Doc) {
        let device = self.device;
        doc.paragraph(8, Tone::Dim, &self.world());
        doc.blank();
        let Some(default) = &device.default else {
            doc.paragraph(0, Tone::Heading, "Nothing tried");
            doc.paragraph(2, Tone::Plain, device.note.as_deref().unwrap_or("There is no trace to replay."));
            return;
        };
        match &device.best {
            Some(best) => self.best(doc, best, default),
            None => self.none(doc),
        }
        self.table(doc);
        doc.blank();
        self.bounds(doc);
        if let Some(note) = &device.note {
            label(doc, "Note", note);
        }
    }

    fn world(&self) -> String {
        let device = self.device;
        let limit = match (device.limit.low_bytes, device.limit.source) {
            (Some(limit), "argument") => format!("limit {}", self.bytes(limit)),
            (Some(limit), _) => format!("limit {} (inferred)", self.bytes(limit)),
            (None, _) => "no limit".to_owned(),
        };
        let replayed = if device.is_exact { "replayed exactly" } else { "not replayed exactly" };
        let mut parts = vec![replayed.to_owned(), limit];
        if device.steps > 0 {
            parts.push(plural(device.steps, "step", "steps"));
        }
        parts.push(format!("model of torch {}", device.model));
        parts.join(" · ")
    }

    fn best(&self, doc: &mut Doc, best: &Candidate, default: &Candidate) {
        if best.settings.is_empty() {
            doc.paragraph(0, Tone::Heading, "The defaults are best");
            let text = format!("Nothing tried reserves less than their {}.", self.bytes(best.peak_reserved_range.1));
            doc.paragraph(2, Tone::Plain, &text);
        } else {
            doc.verbatim(&[
                (Tone::Heading, self.advice(best).into()),
                (Tone::Plain, "   ".into()),
                (Tone::Code, format!("{}={}", best.variable, best.settings)),
            ]);
            doc.blank();
            if self.device.accumulates {
                label(
                    doc,
                    "Leak",
                    "memory accumulates in this run, and settings only delay its end; whyoom FILE says where",
                );
            }
            label(doc, "Reserves", &format!("{}{}", self.reserved(best), self.against(best, default)));
        }
        label(doc, "Price", &Self::price(best, default));
        if !best.incompatible_with.is_empty() {
            label(doc, "Not with", &best.incompatible_with.join("; "));
        }
    }

    /// What to make of the best: a line to use, unless next to nothing is left under the limit or nothing is verified.
    fn advice(&self, best: &Candidate) -> &'static str {
        let high = best.peak_reserved_range.1;
        let is_tight = self.device.limit.low_bytes.is_some_and(|limit| (limit - high.min(limit)) * 200 < limit);
        match () {
            () if !self.device.is_exact => "Not verified:",
            () if is_tight => "A gamble:",
            () if self.device.accumulates => "A delay:",
            () => "Use it:",
        }
    }

    fn reserved(&self, c: &Candidate) -> String {
        let (low, high) = c.peak_reserved_range;
        let spare = match self.device.limit.low_bytes.and_then(|l| l.checked_sub(high)) {
            Some(spare) => format!(", {} to spare", self.bytes(spare)),
            None => String::new(),
        };
        format!("{}{spare}", self.options.numbers.bytes_range(low, high))
    }

    /// What it gives over the defaults and the recorded settings.
    fn against(&self, best: &Candidate, default: &Candidate) -> String {
        let of = |c: &Candidate| match &c.first_oom {
            Some(oom) => oom.step.map_or_else(|| "fail".to_owned(), |s| format!("fail in {}", nth_step(s))),
            None => format!("reserve {}", self.bytes(c.peak.reserved_bytes)),
        };
        let mut text = format!("; the defaults {}", of(default));
        let recorded = self.device.recorded.as_ref();
        if let Some(recorded) = recorded.filter(|r| r.settings != default.settings && r.settings != best.settings) {
            let _ = write!(text, ", the recorded settings {}", of(recorded));
        }
        text
    }

    fn price(best: &Candidate, default: &Candidate) -> String {
        let calls = |c: &Candidate| match c.driver_calls_per_step {
            Some(per_step) => format!("{} driver calls a step", plain(per_step)),
            None => plural(c.driver_allocations + c.driver_frees, "driver call", "driver calls"),
        };
        let retries = |c: &Candidate| plural(c.retries, "retry", "retries");
        if best.settings == default.settings {
            return format!("{}, {}", calls(best), retries(best));
        }
        format!("{}, {}; the defaults {}, {}", calls(best), retries(best), calls(default), retries(default))
    }

    fn none(&self, doc: &mut Doc) {
        doc.paragraph(0, Tone::Heading, "No setting passes");
        let tried = plural(self.device.candidates_tried, "setting", "settings");
        let what = if self.device.scope == "failing_request" { "gets past the request that failed" } else { "passes" };
        let limit = self.device.limit.low_bytes.map(|l| format!(" under {}", self.bytes(l))).unwrap_or_default();
        doc.paragraph(
            2,
            Tone::Plain,
            &format!("Of {tried} tried none {what}{limit} wherever the driver puts segments."),
        );
        let needed = self.device.bounds.compact_bytes;
        if self.device.limit.high_bytes.is_some_and(|high| needed > high) {
            let text = format!("None can: {} are live at the peak, and no layout reserves less.", self.bytes(needed));
            doc.paragraph(2, Tone::Plain, &text);
        }
    }

    fn table(&self, doc: &mut Doc) {
        let device = self.device;
        let shown = if self.options.verbose { device.pareto.len() } else { SHOWN };
        if device.pareto.len() > 1 {
            doc.blank();
            let per = if device.steps > 0 { "calls a step" } else { "calls" };
            doc.verbatim(&[(Tone::Dim, format!("  {:<16}{per:<14}{:<9}settings", "reserves", "retries"))]);
            for c in device.pareto.iter().take(shown) {
                let calls = c.driver_calls_per_step.map_or_else(|| count(c.driver_allocations + c.driver_frees), plain);
                let (low, high) = c.peak_reserved_range;
                let peak = if low == high { self.bytes(high) } else { format!("≤ {}", self.bytes(high)) };
                let settings = if c.settings.is_empty() { "(defaults)" } else { &c.settings };
                let start = format!("{peak:<16}{calls:<14}{:<9}", count(c.retries));
                // Settings are to be copied, and so never broken: long ones get a line of their own.
                if SETTINGS_AT + settings.chars().count() <= WIDTH {
                    doc.entry(2, &[(Tone::Plain, start)], SETTINGS_AT, &[(Tone::Code, settings.to_owned())]);
                } else {
                    doc.entry(2, &[(Tone::Plain, start)], SETTINGS_AT, &[]);
                    doc.verbatim(&[(Tone::Plain, "    ".into()), (Tone::Code, settings.to_owned())]);
                }
            }
        }
        doc.blank();
        let mut text = format!("{} tried", plural(device.candidates_tried, "setting", "settings"));
        let given_up = device.candidates_tried - device.candidates_completed;
        if given_up > 0 {
            let _ =
                write!(text, ", {} given up once they reserved more and cost more than what passes", count(given_up));
        }
        if device.candidates_failed > 0 {
            let _ = write!(text, ", {} with a request that fails", count(device.candidates_failed));
        }
        let more = device.pareto.len().saturating_sub(shown);
        if more > 0 {
            let _ = write!(text, "; {} more that nothing beats, -v shows all", count(more as u64));
        }
        doc.paragraph(0, Tone::Dim, &format!("{text}."));
        if device.scope == "failing_request" {
            doc.paragraph(0, Tone::Dim, "The recording ends in its OOM: nothing is known of later steps.");
        }
    }

    fn bounds(&self, doc: &mut Doc) {
        let (device, b) = (self.device, &self.device.bounds);
        let mut text = format!(
            "{} are held at the peak, rounded up to 2 MiB: no layout reserves less",
            self.bytes(b.compact_bytes)
        );
        if let (Some(best), Some(active)) = (&device.best, b.active_at_best_peak_bytes) {
            let holes = best.peak.reserved_bytes.saturating_sub(active);
            let _ = write!(
                text,
                "; when the best settings reserved most, {} were live and {} free",
                self.bytes(active),
                self.bytes(holes)
            );
        }
        label(doc, "Bound", &text);
        let from = |from: Option<u64>, reliably: Option<u64>| {
            let from = from?;
            let gap = reliably
                .filter(|r| self.bytes(*r) != self.bytes(from))
                .map(|r| format!(" (at every limit tried only from {})", self.bytes(r)));
            Some(format!("{}{}", self.bytes(from), gap.unwrap_or_default()))
        };
        let of_default = from(b.fits_from_bytes_default, b.fits_reliably_from_bytes_default);
        let of_best = from(b.fits_from_bytes_best, b.fits_reliably_from_bytes_best);
        let is_default_best = device.best.as_ref().is_none_or(|best| best.settings.is_empty());
        match (of_default, of_best) {
            (Some(d), Some(best)) if !is_default_best && d != best => {
                label(doc, "Fits", &format!("from {best} with these settings, from {d} with the defaults"));
            }
            (Some(d), _) => label(doc, "Fits", &format!("from {d} with the defaults")),
            (None, Some(best)) => label(doc, "Fits", &format!("from {best} with these settings")),
            (None, None) => {}
        }
        if let Some(batch) = device.batch {
            let times = plain(batch.factor);
            let text = match batch.factor.total_cmp(&1.0) {
                std::cmp::Ordering::Equal => "no larger one passes under the limit".to_owned(),
                std::cmp::Ordering::Less => format!("only {times} times the recorded one passes under the limit"),
                std::cmp::Ordering::Greater if batch.is_at_least => {
                    format!("{times} times the recorded one passes under the limit, and perhaps more")
                }
                std::cmp::Ordering::Greater => format!("up to {times} times the recorded one passes under the limit"),
            };
            label(doc, "Batch", &format!("{text} (estimate)"));
        }
    }
}

fn label(doc: &mut Doc, name: &str, text: &str) {
    doc.entry(0, &[(Tone::Heading, name.into())], COLUMN, &[(Tone::Plain, text.into())]);
}
