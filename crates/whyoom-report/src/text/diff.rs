//! `whyoom diff` as text: the sentence, then the figures side by side.

use std::io::{self, Write};

use whyoom_diagnosis::diff::{DeviceDiff, Diff, Pair};

use super::{
    TextOptions,
    doc::{Doc, Tone, shorten_middle},
    words::{source_line, warnings},
};
use crate::path::ShortPaths;

/// Width of a figure's column.
const FIGURE: usize = 13;
/// Lines of the program in the short form.
const SHOWN: usize = 6;

/// Writes `diff` as text: the pair of devices that differs most in full, the others too with
/// [`TextOptions::verbose`].
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_diff(diff: &Diff, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut doc = Doc::new(options.ascii);
    let names = ShortPaths::new(diff.inputs.iter().map(|i| i.path.as_str()));
    for (label, input) in ["A", "B"].iter().zip(&diff.inputs) {
        let name = if options.verbose { input.path.clone() } else { shorten_middle(names.get(&input.path), 66) };
        let head = if *label == "A" { "whyoom  " } else { "        " };
        doc.verbatim(&[(Tone::Heading, head.into()), (Tone::Plain, format!("{label}  {name}"))]);
    }
    doc.blank();
    doc.paragraph(0, Tone::Heading, &diff.summary);
    let shown = if options.verbose { diff.devices.len() } else { 1 };
    for device in diff.devices.iter().take(shown) {
        if diff.devices.len() > 1 {
            doc.blank();
            doc.paragraph(0, Tone::Plain, &format!("GPU {} of A, GPU {} of B", device.device_a, device.device_b));
        }
        Page { device, options }.write(&mut doc);
    }
    let more = diff.devices.len().saturating_sub(shown);
    if more > 0 {
        doc.blank();
        doc.paragraph(0, Tone::Dim, &format!("{more} more pairs of devices differ less; -v shows all."));
    }
    warnings(&mut doc, &diff.warnings, options);
    doc.write(options.colour, out)
}

struct Page<'a> {
    device: &'a DeviceDiff,
    options: TextOptions,
}

impl Page<'_> {
    fn write(&self, doc: &mut Doc) {
        let device = self.device;
        doc.blank();
        doc.verbatim(&[(Tone::Dim, format!("  {:<28}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}", "", "A", "B", "B - A"))]);
        self.row(doc, "peak of live bytes", device.peak);
        self.row(doc, "peak of reserved bytes", device.reserved);
        doc.blank();
        doc.verbatim(&[(Tone::Dim, "  live at the peak".into())]);
        for c in &device.categories {
            self.row(doc, &c.category.replace('_', " "), Pair::new(c.a_bytes, c.b_bytes));
        }
        if !device.stacks.is_empty() {
            doc.blank();
            doc.verbatim(&[(Tone::Dim, "  held under".into())]);
            let files = ShortPaths::new(device.stacks.iter().map(|s| s.culprit.file.as_str()));
            let shown = if self.options.verbose { device.stacks.len() } else { SHOWN };
            for s in device.stacks.iter().take(shown) {
                let line = source_line(files.get(&s.culprit.file), s.culprit.line);
                let name =
                    if line.is_empty() { "no line of the program".to_owned() } else { shorten_middle(&line, 27) };
                self.row(doc, &name, Pair::new(s.a_bytes, s.b_bytes));
            }
        }
        if !device.findings.is_empty() {
            doc.blank();
            for finding in &device.findings {
                doc.paragraph(2, Tone::Plain, finding);
            }
        }
    }

    fn row(&self, doc: &mut Doc, name: &str, pair: Pair) {
        let bytes = |n| self.options.numbers.bytes(n);
        let sign = if pair.delta < 0 { "-" } else { "+" };
        let delta = match pair.delta.unsigned_abs() {
            0 => "0".to_owned(),
            n => format!("{sign}{}", bytes(n)),
        };
        let text = format!("{name:<28}{:>FIGURE$}{:>FIGURE$}{delta:>FIGURE$}", bytes(pair.a), bytes(pair.b));
        doc.verbatim(&[(Tone::Plain, format!("  {text}"))]);
    }
}
