//! `whyoom settings` as text: what each release makes of a string, what it does, and the line to paste.

use std::io::{self, Write};

use whyoom_diagnosis::settings_check::{CheckedString, Form, SettingsCheck, VersionCheck};

use super::{
    TextOptions,
    doc::{Doc, Tone, printable, shorten_middle},
    words::sentence,
};

/// Where the second column begins.
const COLUMN: usize = 14;

/// Writes `check` as text: releases with the same answer are one line, the newest first.
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_settings(check: &SettingsCheck, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut doc = Doc::new(options.ascii);
    for string in check.strings() {
        doc.blank();
        write_one(&mut doc, string, options);
    }
    doc.write(options.colour, out)
}

fn write_one(doc: &mut Doc, checked: &CheckedString, options: TextOptions) {
    let shown = match checked.string.as_str() {
        "" => "the empty string: PyTorch's defaults".to_owned(),
        text if options.verbose => escaped(text),
        text => shorten_middle(&escaped(text), 300),
    };
    doc.entry(0, &[(Tone::Heading, "whyoom".into())], 8, &[(Tone::Plain, shown)]);
    if checked.form != Form::Value {
        let of = checked.variable.map_or_else(String::new, |name| format!("{name}, "));
        let line = if checked.form == Form::Environment { String::new() } else { format!(" (line {})", checked.line) };
        doc.paragraph(8, Tone::Dim, &format!("{of}from {}{line}", checked.form.in_words()));
    }
    doc.blank();
    for group in groups(&checked.versions).into_iter().rev() {
        answer(doc, group);
    }
    if !checked.keys.is_empty() {
        doc.blank();
        doc.paragraph(0, Tone::Heading, "What it does");
        for key in &checked.keys {
            let text = format!("{} (PyTorch {})", key.does, key.known_to);
            doc.entry(2, &[(Tone::Code, key.key.to_owned())], COLUMN, &[(Tone::Plain, sentence(&text))]);
        }
    }
    // Refusals stand above.
    let notes: Vec<_> = checked.findings.iter().filter(|f| f.code != "refused").collect();
    if !notes.is_empty() {
        doc.blank();
        doc.paragraph(0, Tone::Heading, "To know");
        for finding in notes {
            let of = finding.torch.as_ref().map_or_else(String::new, |torch| format!("torch {torch}: "));
            let text = if of.is_empty() { sentence(&finding.message) } else { format!("{of}{}.", finding.message) };
            doc.entry(2, &[(Tone::Caution, "-".into())], 4, &[(Tone::Plain, text)]);
            if let Some(fix) = finding.fix.as_ref().filter(|fix| !finding.message.contains(fix.as_str())) {
                doc.paragraph(4, Tone::Dim, &sentence(fix));
            }
        }
    }
    if let Some(corrected) = &checked.corrected {
        doc.blank();
        for (i, line) in corrected.line.lines().enumerate() {
            let label = if i == 0 { "Use it:   " } else { "          " };
            doc.verbatim(&[(Tone::Heading, label.into()), (Tone::Code, line.to_owned())]);
        }
        doc.paragraph(10, Tone::Dim, &format!("accepted by torch {}", corrected.accepted_by));
    }
}

/// Runs of releases with the same answer, in order.
fn groups(versions: &[VersionCheck]) -> Vec<&[VersionCheck]> {
    // An error's text names its release; the code and what came of it do not.
    let same = |a: &VersionCheck, b: &VersionCheck| {
        (a.accepted, a.read, a.error_code, &a.warning_codes) == (b.accepted, b.read, b.error_code, &b.warning_codes)
            && a.canonical == b.canonical
            && a.error.as_deref().map(reason) == b.error.as_deref().map(reason)
    };
    versions.chunk_by(same).collect()
}

/// An error up to why the release refuses.
fn reason(error: &str) -> &str {
    error.split_once(": ").map_or(error, |(what, _)| what)
}

fn answer(doc: &mut Doc, group: &[VersionCheck]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let torch = if group.len() == 1 { last.torch.clone() } else { format!("{} to {}", first.torch, last.torch) };
    let (tone, word, text) = match (&last.error, last.read) {
        (_, false) if last.canonical.is_none() => {
            (Tone::Caution, "not read", "another variable comes first".to_owned())
        }
        (_, false) => (Tone::Caution, "not read", "the defaults are in force".to_owned()),
        (Some(error), true) => {
            let many = format!("PyTorch {} ", last.torch);
            let error = if group.len() > 1 {
                error.replace(&format!("in {many}it "), "it ").replace(&many, "PyTorch ")
            } else {
                error.clone()
            };
            (Tone::Bad, "refused", error)
        }
        (None, true) => {
            let values = match last.canonical.as_deref() {
                Some("") => "GPU memory is served as by default".to_owned(),
                Some(canonical) => format!("in force: {canonical}"),
                None => "in force".to_owned(),
            };
            match (last.is_whole(), last.canonical.as_deref()) {
                (true, _) => (Tone::Good, "accepted", values),
                (false, Some("")) => (Tone::Caution, "ignored", values),
                (false, _) => (Tone::Caution, "ignored in part", values),
            }
        }
    };
    let label = [(Tone::Plain, torch)];
    doc.entry(0, &label, COLUMN, &[(tone, word.to_owned()), (Tone::Plain, format!(": {text}"))]);
}

/// Control characters as a person writes them: a newline is what is wrong in some strings.
fn escaped(text: &str) -> String {
    printable(&text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r"))
}
