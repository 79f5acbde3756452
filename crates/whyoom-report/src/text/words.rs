//! Words that several sections share.

use whyoom_diagnosis::explanation::{Cause, Confidence, DeviceReport, Explanation, Input, Torch, WarningLine};

use super::{
    TextOptions,
    doc::{Doc, Tone, shorten_middle},
};
use crate::{
    number::{count, ordinal},
    path::ShortPaths,
};

/// Columns that the name of a source file may take in the short form.
const FILE_COLUMNS: usize = 36;

/// What every section of one device looks at.
pub(super) struct View<'a> {
    pub(super) explanation: &'a Explanation,
    pub(super) device: &'a DeviceReport,
    pub(super) options: TextOptions,
    pub(super) sources: ShortPaths,
    pub(super) inputs: ShortPaths,
    /// How much the short form must leave out to keep to its page: 0 = what is usual, up to [`View::TIGHTEST`].
    pub(super) tightness: usize,
}

impl<'a> View<'a> {
    /// The most that [`View::tightness`] can be.
    pub(super) const TIGHTEST: usize = 4;

    pub(super) fn new(explanation: &'a Explanation, device: &'a DeviceReport, options: TextOptions) -> Self {
        let places = device.oom.iter().filter_map(|o| o.place.as_ref()).map(|p| p.file.as_str());
        let culprits = device.findings.iter().flat_map(|f| &f.culprits).map(|c| c.file.as_str());
        Self {
            explanation,
            device,
            options,
            sources: ShortPaths::new(places.chain(culprits)),
            inputs: ShortPaths::new(explanation.inputs.iter().map(|i| i.path.as_str())),
            tightness: 0,
        }
    }

    pub(super) fn tightened(self, tightness: usize) -> Self {
        Self { tightness, ..self }
    }

    pub(super) fn bytes(&self, bytes: u64) -> String {
        self.options.numbers.bytes(bytes)
    }

    /// `lm()  scenarios.py:158`, or the file and line alone where the function has no name.
    pub(super) fn line_of_code(&self, function: &str, file: &str, line: u32) -> String {
        let file = self.sources.get(file);
        let at = if self.options.verbose {
            source_line(file, line)
        } else {
            source_line(&shorten_middle(file, FILE_COLUMNS), line)
        };
        if function.is_empty() { at } else { format!("{}  {at}", callable(function)) }
    }

    /// Name of the device's input; short, or as given with `-v`.
    pub(super) fn input_name(&self, input: usize) -> &str {
        match self.explanation.inputs.get(input).map(|i| i.path.as_str()) {
            Some("-") => "standard input",
            Some(path) if self.options.verbose => path,
            Some(path) => self.inputs.get(path),
            None => "",
        }
    }
}

/// The first line of a device's answer: the file on the left, the release and the device on the right.
pub(super) fn header(doc: &mut Doc, inputs: &[Input], input: usize, device: u32, options: TextOptions) {
    let names = ShortPaths::new(inputs.iter().map(|i| i.path.as_str()));
    let input = inputs.get(input);
    let name = match input.map(|i| i.path.as_str()) {
        Some("-") => "standard input".to_owned(),
        Some(path) if options.verbose => path.to_owned(),
        Some(path) => shorten_middle(names.get(path), 70),
        None => String::new(),
    };
    let torch = torch_range(input.and_then(|i| i.torch.as_ref()));
    let gpu = device_name(device, None);
    doc.two_sided(
        &[(Tone::Heading, "whyoom".into()), (Tone::Plain, format!("  {name}"))],
        &[(Tone::Plain, torch.map_or_else(|| gpu.clone(), |t| format!("{t} · {gpu}")))],
    );
}

/// Losses and oddities, after everything else.
pub(super) fn warnings(doc: &mut Doc, warnings: &[WarningLine], options: TextOptions) {
    const SHOWN: usize = 3;
    let shown = if options.verbose { warnings.len() } else { SHOWN };
    if !warnings.is_empty() {
        doc.blank();
    }
    for warning in warnings.iter().take(shown) {
        let times = if warning.count > 1 { format!(" ({} times)", count(warning.count)) } else { String::new() };
        doc.entry(0, &[(Tone::Caution, "Warning:".into())], 9, &[(Tone::Plain, format!("{}{times}", warning.message))]);
    }
    if warnings.len() > shown {
        doc.paragraph(9, Tone::Dim, &format!("{} more kinds; -v shows all.", warnings.len() - shown));
    }
}

/// `scenarios.py:158`; no line where it is unknown.
pub(super) fn source_line(file: &str, line: u32) -> String {
    if line == 0 { file.to_owned() } else { format!("{file}:{line}") }
}

/// `lm()`, but `<module>` and `<lambda>` as they are.
fn callable(function: &str) -> String {
    if function.ends_with(['>', ')']) { function.to_owned() } else { format!("{function}()") }
}

/// `rank 1 · GPU 0`.
pub(super) fn device_name(device: u32, rank: Option<u32>) -> String {
    rank.map_or_else(|| format!("GPU {device}"), |r| format!("rank {r} · GPU {device}"))
}

/// `torch ≥ 2.10`, `torch 2.10 to 2.11`; `None` where nothing is known.
pub(super) fn torch_range(torch: Option<&Torch>) -> Option<String> {
    let torch = torch?;
    match (torch.at_least.as_deref(), torch.below.as_deref()) {
        (Some(a), Some(b)) => Some(match release_before(b) {
            Some(last) if last == a => format!("torch {a}"),
            Some(last) => format!("torch {a} to {last}"),
            // 1.13 was the last before 2.0, and so the only one from itself on.
            None if a == "1.13" && b == "2.0" => "torch 1.13".to_owned(),
            None => format!("torch ≥ {a}, < {b}"),
        }),
        (Some(a), None) => Some(format!("torch ≥ {a}")),
        (None, Some(b)) => Some(format!("torch < {b}")),
        (None, None) => None,
    }
}

/// The minor release before `release`; `None` where a major one begins.
fn release_before(release: &str) -> Option<String> {
    let (major, minor) = release.split_once('.')?;
    let minor: u32 = minor.parse().ok()?;
    Some(format!("{major}.{}", minor.checked_sub(1)?))
}

/// A 0-based step, for people who count from 0 and for people who count from 1.
pub(super) fn nth_step(step: u64) -> String {
    format!("the {} step", ordinal(step + 1))
}

/// `one step`, `two steps`, … in words up to ten.
pub(super) fn in_words(n: u64, one: &str, many: &str) -> String {
    const WORDS: [&str; 11] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let number = WORDS.get(n as usize).map_or_else(|| count(n), |w| (*w).to_owned());
    format!("{number} {}", if n == 1 { one } else { many })
}

/// The cause as a heading, with its sub-cause.
pub(super) fn cause_title(cause: Cause, subcause: Option<&str>) -> String {
    let name = match cause {
        Cause::Leak => "Leak",
        Cause::Fragmentation => "Fragmentation",
        Cause::Capacity => "Capacity",
        Cause::Spike => "Spike",
        Cause::Outside => "Memory held outside",
        Cause::Limit => "Limit",
        Cause::Settings => "Settings",
        Cause::PendingFree => "Pending free",
        Cause::PrivatePool => "Private pool",
        Cause::Healthy => "Healthy",
        Cause::Undetermined => "Undetermined",
    };
    subcause.map_or_else(|| name.to_owned(), |s| format!("{name}: {}", spaced(s)))
}

/// `autograd_graph` as prose.
pub(super) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// `text` with a capital first letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim();
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), chars.as_str())
}

pub(super) fn confidence(c: Confidence) -> &'static str {
    match c {
        Confidence::Proven => "proven",
        Confidence::Strong => "strong evidence",
        Confidence::Weak => "weak evidence",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_read_as_calls() {
        assert_eq!(callable("lm"), "lm()");
        assert_eq!(callable("<module>"), "<module>");
        assert_eq!(source_line("a.py", 0), "a.py");
    }

    #[test]
    fn steps_count_from_either_end() {
        assert_eq!(nth_step(10), "the 11th step");
        assert_eq!(in_words(2, "step", "steps"), "two steps");
        assert_eq!(in_words(1200, "step", "steps"), "1,200 steps");
    }

    #[test]
    fn torch_ranges() {
        let torch = |a: Option<&str>, b: Option<&str>| Torch {
            at_least: a.map(str::to_owned),
            below: b.map(str::to_owned),
            because: String::new(),
        };
        assert_eq!(torch_range(Some(&torch(Some("2.10"), None))).as_deref(), Some("torch ≥ 2.10"));
        assert_eq!(torch_range(Some(&torch(Some("2.1"), Some("2.3")))).as_deref(), Some("torch 2.1 to 2.2"));
        assert_eq!(torch_range(Some(&torch(Some("2.0"), Some("2.1")))).as_deref(), Some("torch 2.0"));
        assert_eq!(torch_range(Some(&torch(Some("1.4"), Some("2.0")))).as_deref(), Some("torch ≥ 1.4, < 2.0"));
        assert_eq!(torch_range(Some(&torch(None, None))), None);
        assert_eq!(torch_range(None), None);
    }
}
