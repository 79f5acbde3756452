//! Finds step logs in a stream of lines.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::header::Header;
use super::lesson::Lesson;
use super::scan::{Figure, Group, Scan, scan};
use super::table::{Context, Table};
use super::{Measure, StepLog, cut, leading, lesson};
use crate::monitors::time;
use crate::series::Point;
use crate::{Again, Fact, Found, Line, Place, Recogniser, Sketch};

/// Comments that are kept, and bytes of each.
const MAX_COMMENTS: usize = 8;
const MAX_TEXT: usize = 120;

/// A separator line: words between dashes.
pub(super) static SEPARATOR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*[-=#*~]{2,}\s*([^-=#*~\s].*?)\s*[-=#*~]*\s*$").expect("a valid pattern"));
/// A line that is a name and a size, no more.
static NAMED_SIZE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*([^:=|{}]{1,60}?)\s*[:=]\s*(\d[\d.,]*\s?[A-Za-z]{1,5})\s*$").expect("a valid pattern")
});

/// Words of texts that others read: OOM messages, `memory_summary()`, nvidia-smi.
const FOREIGN: &[&str] = &[
    "tried to allocate",
    "total capac",
    "by pytorch",
    "memory in use",
    "cur usage",
    "from large pool",
    "from small pool",
    "memory-usage",
    "memory.used",
    "memory.total",
    "memory.free",
    "used_gpu_memory",
    "used_memory",
    "dcgm_fi",
    "memoryallocated",
    "out of memory (",
];

/// Whether a line is one that others read.
pub(super) fn is_foreign(text: &str) -> bool {
    static WORDS: LazyLock<AhoCorasick> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(FOREIGN).expect("few short words"));
    WORDS.is_match(cut(text, 4096))
}

/// Reads step logs. One [`StepLog`] for the whole text, given out at its end.
#[derive(Debug, Default)]
pub struct Steps {
    pub(super) table: Table,
    pub(super) samples: u64,
    pub(super) variant: Option<String>,
    pub(super) header: Option<Header>,
    comments: Vec<String>,
    pub(super) begin: Option<Place>,
    /// Counters of a line without figures, for the lines that follow.
    pub(super) carried: Group,
    /// Lines that are a name and a size, in a row: few, or they would be something else.
    named: Vec<(String, Figure, Place)>,
    /// The line that was last read beside a failure.
    last_line: Option<u64>,
    /// What lines of a shape are, by the shape's index.
    pub(super) lessons: Vec<Option<Lesson>>,
    /// Headers and separator lines so far: what was learnt under another may not hold.
    pub(super) headers: u64,
    pub(super) variants: u64,
}

impl Steps {
    /// A recogniser that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn enter(&mut self, mut group: Group, line: &Line<'_>, scan: &Scan<'_>) {
        let carried = &self.carried;
        group.carry(carried);
        let point = Point {
            at: self.samples,
            step: group.step.or(group.batch),
            epoch: group.epoch,
            seconds: group.seconds.or_else(|| time::leading(line.whole).map(|(_, seconds)| seconds)),
            bytes: 0,
        };
        let context = Context { variant: self.variant.as_deref(), label: &scan.label, rank: line.rank.or(scan.rank) };
        for figure in &group.figures {
            self.table.push(figure, point, context);
        }
        self.samples += 1;
        self.begin.get_or_insert(line.place);
    }

    /// `mem_get_info: (7838, 25447)`: free and total, as `torch.cuda.mem_get_info()` returns them.
    pub(super) fn mem_get_info(text: &str) -> Option<Group> {
        let at = text.find("mem_get_info")?;
        let rest = text[at..].split_once('(').map(|(_, rest)| rest.strip_prefix(')').unwrap_or(rest))?;
        let rest = rest.trim_start_matches([' ', ':', '=', '(']);
        let free = leading(rest)?;
        let total = leading(rest[free.end..].trim_start().strip_prefix(',')?)?;
        let figure = |measure, number| Figure {
            measure,
            number,
            unit: number.unit.or(Some(super::Unit::BYTES)),
            device: None,
            qualifier: "mem_get_info".to_owned(),
            is_strong: true,
        };
        let is_pair = free.count().is_some() && total.value >= free.value && total.value > 1e6;
        is_pair.then(|| Group {
            figures: vec![figure(Measure::Free, free), figure(Measure::Total, total)],
            ..Group::default()
        })
    }

    /// Reads a line that also tells of a failure: its figures count where a step stands beside them.
    pub(super) fn beside_failure(&mut self, line: &Line<'_>) {
        if is_foreign(line.text) {
            return;
        }
        let scan = scan(line.text);
        let counts = |group: &&Group| group.step.is_some() || group.batch.is_some() || group.epoch.is_some();
        for group in scan.groups.iter().filter(counts).filter(|group| !group.figures.is_empty()) {
            self.enter(group.clone(), line, &scan);
            self.last_line = Some(line.place.line);
        }
    }

    fn named_size(&mut self, line: &Line<'_>) -> bool {
        const MAX_NAMED: usize = 64;
        // Most lines have no number behind their first sign, and are none.
        let behind = line.text.split([':', '=', '|', '{', '}']).nth(1).unwrap_or_default();
        if !behind.trim_start().starts_with(char::is_numeric) {
            return false;
        }
        let Some(found) = NAMED_SIZE.captures(cut(line.text, 200)) else { return false };
        let Some(number) = leading(&found[2]).filter(|number| !number.is_other) else { return false };
        let is_large = number.unit.is_some_and(|unit| unit.bytes >= 1_000_000);
        if !is_large || self.named.len() >= MAX_NAMED || super::key::read(&found[1]).is_other || found[1].contains('/')
        {
            return false;
        }
        // Names of files are no names of runs.
        let extension = found[1].rsplit_once('.').map_or("", |(_, end)| end);
        if (2..=11).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return false;
        }
        if self.named.last().is_some_and(|(_, _, place)| place.line + 1 != line.place.line) {
            self.named.clear();
        }
        let figure = Figure {
            measure: Measure::Memory,
            number,
            unit: number.unit,
            device: None,
            qualifier: String::new(),
            is_strong: false,
        };
        self.named.push((found[1].trim().to_owned(), figure, line.place));
        true
    }
}

impl Recogniser for Steps {
    fn needles(&self) -> &'static [&'static str] {
        &[
            "alloc", "mem", "reserved", "cached", "vram", "mib", "gib", "mb", "gb", "used", "step", "iter", "epoch",
            "batch",
        ]
    }

    fn is_inside(&self) -> bool {
        self.begin.is_some() || self.header.is_some()
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        // Without a number there is no figure and no counter: a heading or a separator at most.
        raw.iter().fold(false, |any, byte| any | byte.is_ascii_digit())
            || lesson::may_be_heading(raw)
            || !self.table.is_empty() && lesson::may_be_separator(raw)
    }

    fn learn(&mut self, line: &Line<'_>, index: usize, sketch: &mut Sketch) -> Option<bool> {
        self.learn_line(line, index, sketch)
    }

    fn again(&mut self, index: usize, line: &Again<'_>) -> bool {
        self.line_again(index, line)
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        // Entered already, beside the failure that the line tells of.
        if self.last_line == Some(line.place.line) {
            return true;
        }
        let text = line.text;
        if is_foreign(text) {
            return false;
        }
        if let Some(group) = Self::mem_get_info(text) {
            self.enter(group, line, &Scan::default());
            return true;
        }
        if let Some(group) = self.header.as_ref().and_then(|header| header.row(text)) {
            self.enter(group, line, &Scan::default());
            return true;
        }
        if let Some(header) = Header::read(text) {
            if self.header.as_ref() != Some(&header) {
                self.header = Some(header);
                self.headers += 1;
            }
            return true;
        }
        let scan = scan(text);
        let has_figures = scan.groups.iter().any(|group| !group.figures.is_empty());
        if !has_figures {
            let counters = scan.groups.into_iter().next_back();
            if let Some(counters) = counters {
                if counters.step.is_some() || counters.batch.is_some() {
                    (self.carried.step, self.carried.batch) = (counters.step, counters.batch);
                }
                self.carried.epoch = counters.epoch.or(self.carried.epoch);
                return false;
            }
            if self.named_size(line) {
                return false;
            }
            if text.trim_start().starts_with(['-', '=', '#', '*', '~'])
                && let Some(found) = SEPARATOR.captures(cut(text, 400))
                && found[1].chars().any(char::is_alphabetic)
                && !self.table.is_empty()
            {
                self.variant = Some(cut(&found[1], MAX_TEXT).to_owned());
                self.carried = Group::default();
                self.variants += 1;
            }
            return false;
        }
        if let Some(comment) = scan.comment
            && self.comments.len() < MAX_COMMENTS
        {
            let comment = cut(comment, MAX_TEXT).to_owned();
            if !self.comments.contains(&comment) {
                self.comments.push(comment);
            }
        }
        for group in scan.groups.clone() {
            if !group.figures.is_empty() {
                self.enter(group, line, &scan);
            }
        }
        true
    }

    fn end(&mut self, found: &mut Found) {
        let mut state = std::mem::take(self);
        if state.table.is_empty() && state.named.len() >= 2 {
            for (at, (label, figure, place)) in (0..).zip(std::mem::take(&mut state.named)) {
                let point = Point { at, step: None, epoch: None, seconds: None, bytes: 0 };
                state.table.push(&figure, point, Context { variant: None, label: &label, rank: None });
                state.samples += 1;
                state.begin.get_or_insert(place);
            }
        }
        let (Some(place), false) = (state.begin, state.table.is_empty()) else { return };
        let (series, assumptions, figures_left_out) = state.table.finish();
        let rank = series.first().and_then(|one| one.rank);
        let rank = rank.filter(|_| series.iter().all(|one| one.rank == rank));
        let log = StepLog { samples: state.samples, series, comments: state.comments, assumptions, figures_left_out };
        found.add(place, rank, Fact::StepLog(Box::new(log)));
    }
}

#[cfg(test)]
#[path = "recogniser_tests.rs"]
mod tests;
