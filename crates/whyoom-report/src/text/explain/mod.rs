//! `whyoom explain` as text: the verdict first, then what to do, then the rest.

mod choice;
mod details;
mod evidence;
mod next;
mod reading;
mod remedies;
mod results;
mod verdict;

pub(crate) use verdict::divergence;

use std::io::{self, Write};

use whyoom_diagnosis::explanation::{DeviceReport, Explanation};

use super::{
    TextOptions,
    doc::{Doc, Tone, WIDTH, shorten_middle},
    words::{View, cause_title, confidence, device_name},
};
use crate::number::{count, plural};

/// Devices shown in full with [`TextOptions::verbose`]; nobody reads more.
const IN_FULL: usize = 64;
/// Lines of the short form, at most.
const PAGE: usize = 42;
/// Column at which the labelled lines of the lower half begin their text.
const LABEL_COLUMN: usize = 25;

/// Writes `explanation` as text: the worst device in full, one line for each of the next (up to 64 in full with
/// [`TextOptions::verbose`]).
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_explanation(explanation: &Explanation, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let laid_out = |tightness| lay_out(explanation, options, tightness);
    let doc = (0..=View::TIGHTEST).map(laid_out).find(|doc| options.verbose || doc.height() <= PAGE);
    doc.unwrap_or_else(|| laid_out(View::TIGHTEST)).write(options.colour, out)
}

fn lay_out(explanation: &Explanation, options: TextOptions, tightness: usize) -> Doc {
    let mut doc = Doc::new(options.ascii);
    let in_full = if options.verbose { IN_FULL } else { 1 };
    for device in explanation.devices.iter().take(in_full) {
        doc.blank();
        write_device(&mut doc, &View::new(explanation, device, options).tightened(tightness));
    }
    if explanation.devices.is_empty() {
        nothing(&mut doc, explanation);
    }
    others(&mut doc, explanation, explanation.devices.get(in_full..).unwrap_or_default(), options);
    warnings(&mut doc, explanation, options);
    if let Some(first) = explanation.devices.first() {
        next::more(&mut doc, &View::new(explanation, first, options));
    }
    doc
}

fn write_device(doc: &mut Doc, view: &View<'_>) {
    if evidence::is_text_only(view) {
        return evidence::write(doc, view);
    }
    verdict::header(doc, view);
    verdict::verdict(doc, view);
    remedies::remedies(doc, view);
    next::next(doc, view);
    doc.blank();
    details::where_it_went(doc, view);
    details::not_the_cause(doc, view);
    if view.options.verbose {
        details::all(doc, view);
    }
}

fn nothing(doc: &mut Doc, explanation: &Explanation) {
    let read = explanation.inputs.iter().filter(|i| i.error.is_none()).count();
    let files = plural(read as u64, "file", "files");
    doc.paragraph(0, Tone::Heading, "Nothing to explain");
    doc.paragraph(2, Tone::Plain, &format!("{files} read, and neither a segment nor an event of any GPU in it."));
    doc.paragraph(
        2,
        Tone::Plain,
        "Was recording on, and the snapshot taken in the process that used the GPU? \
         torch.cuda.memory._record_memory_history() must run before the model is built.",
    );
}

/// One line per device that is not shown in full.
fn others(doc: &mut Doc, explanation: &Explanation, devices: &[DeviceReport], options: TextOptions) {
    const SHOWN: usize = 8;
    if devices.is_empty() {
        return;
    }
    doc.blank();
    doc.paragraph(0, Tone::Heading, "The others, worst first");
    let several = explanation.inputs.len() > 1;
    let name = |d: &DeviceReport| device_name(d.device, d.rank);
    let column = 5 + devices.iter().take(SHOWN).map(|d| name(d).chars().count()).max().unwrap_or(0);
    for device in devices.iter().take(SHOWN) {
        let view = View::new(explanation, device, options);
        let verdict = device.findings.first().map_or_else(
            || "no finding".to_owned(),
            |f| format!("{} ({})", cause_title(f.cause, f.subcause).to_lowercase(), confidence(f.confidence)),
        );
        let text = if several {
            // One line for each: the name takes what is left of it.
            let left = WIDTH.saturating_sub(column + verdict.chars().count() + 3).max(12);
            format!("{verdict} · {}", shorten_middle(view.input_name(device.input), left))
        } else {
            format!("{verdict}, peak reserved {}", view.bytes(device.peak.reserved_bytes))
        };
        doc.entry(2, &[(Tone::Plain, name(device))], column, &[(Tone::Plain, text)]);
    }
    if devices.len() > SHOWN {
        let all = if devices.len() < IN_FULL { "-v" } else { "--json" };
        doc.paragraph(2, Tone::Dim, &format!("and {} more; {all} shows all.", count((devices.len() - SHOWN) as u64)));
    }
}

fn warnings(doc: &mut Doc, explanation: &Explanation, options: TextOptions) {
    const SHOWN: usize = 3;
    let all = &explanation.warnings;
    if all.is_empty() {
        return;
    }
    doc.blank();
    let shown = if options.verbose { all.len() } else { SHOWN };
    for warning in all.iter().take(shown) {
        let times = if warning.count > 1 { format!(" ({} times)", count(warning.count)) } else { String::new() };
        doc.entry(0, &[(Tone::Caution, "Warning:".into())], 9, &[(Tone::Plain, format!("{}{times}", warning.message))]);
    }
    if all.len() > shown {
        doc.paragraph(9, Tone::Dim, &format!("{} more kinds; -v shows all.", all.len() - shown));
    }
}
