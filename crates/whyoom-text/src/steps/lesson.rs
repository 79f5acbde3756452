//! What a line of a step log is, kept for the lines that differ from it in their numbers alone.
//!
//! Nearly all of what [`scan`] finds out hangs on the words of a line. For a line of a known shape the numbers go
//! straight to their series.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::amount::Number;
use super::header::Header;
use super::recogniser::{SEPARATOR, Steps, is_foreign};
use super::scan::{Figure, Group, Scan, attributes, scan, seconds};
use super::table::Context;
use crate::Line;
use crate::monitors::time;
use crate::series::Point;
use crate::shape::{Again, Sketch, Slot};

/// Longer lines may be read in part only.
const MAX_LINE: usize = 512;
/// Bytes of a line in which a time at its beginning stands.
const MAX_TIME: usize = 64;

/// What lines of one shape are.
#[derive(Debug)]
pub(super) struct Lesson {
    /// The headers and separator lines that it was learnt under.
    headers: u64,
    variants: u64,
    /// The text that it was learnt from.
    text: Box<str>,
    /// It is a row of the header.
    is_row: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Nothing.
    Nothing,
    /// Nothing, as long as they are no longer than what is looked at for a name and a size.
    NothingIfShort,
    /// Counters for the lines that follow.
    Counters(Counters),
    /// Figures.
    Figures { groups: Vec<Figures>, label: String, rank: Option<u32>, has_time: bool },
}

/// In which numbers of the line the counters are.
#[derive(Debug, Clone, Copy)]
struct Counters {
    step: Option<usize>,
    batch: Option<usize>,
    epoch: Option<usize>,
    seconds: Option<usize>,
    is_timestamp: bool,
}

#[derive(Debug)]
struct Figures {
    counters: Counters,
    /// Each with its number's place, and the series that it went to.
    figures: Vec<(Figure, usize, Option<usize>)>,
}

impl Counters {
    fn of(group: &Group, sketch: &Sketch) -> Option<Self> {
        let place = |source: Option<usize>| match source {
            Some(start) => sketch.slot(start).map(Some),
            None => Some(None),
        };
        let sources = &group.sources;
        let all = Self {
            step: place(sources.step)?,
            batch: place(sources.batch)?,
            epoch: place(sources.epoch)?,
            seconds: place(sources.seconds)?,
            is_timestamp: sources.is_timestamp,
        };
        let is_same = all.step.is_some() == group.step.is_some()
            && all.batch.is_some() == group.batch.is_some()
            && all.epoch.is_some() == group.epoch.is_some()
            && all.seconds.is_some() == group.seconds.is_some();
        is_same.then_some(all)
    }

    fn read(&self, line: &Again<'_>) -> Group {
        let value = |slot: Option<usize>| Some(line.slots.get(slot?)?.read(line.bytes)?.1);
        Group {
            step: value(self.step).map(|value| value as u64),
            batch: value(self.batch).map(|value| value as u64),
            epoch: value(self.epoch),
            seconds: value(self.seconds).map(|value| seconds(value, self.is_timestamp)),
            ..Group::default()
        }
    }
}

/// The time at the beginning of a line, from no more than its first bytes.
fn time_of(line: &[u8]) -> Option<f64> {
    let length = line.iter().take(MAX_TIME).take_while(|byte| byte.is_ascii()).count();
    time::leading(str::from_utf8(&line[..length]).ok()?).map(|(_, seconds)| seconds)
}

/// Whether a line without digits may be a heading: the words of memory that one must have, and what parts its cells.
pub(super) fn may_be_heading(raw: &[u8]) -> bool {
    const MAX_NAME: usize = 60;
    let is_parted = |by: u8| {
        // The first cell may have a prefix before it.
        let mut cells = raw.split(|byte| *byte == by).skip(1).take(200).peekable();
        cells.peek().is_some() && cells.all(|cell| cell.trim_ascii().len() <= MAX_NAME + 4)
    };
    let has_bar = raw.iter().any(|byte| *byte == b'|' || *byte >= 0x80);
    let may_be = has_bar || is_parted(b',') || is_parted(b'\t') || memchr::memmem::find(raw, b"  ").is_some();
    may_be && names_memory(raw)
}

/// Whether a line holds one of the words of which a heading has one.
pub(super) fn names_memory(raw: &[u8]) -> bool {
    static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let words = ["mem", "vram", "hbm", "alloc", "reserve", "resv", "rsv", "cached"];
        let builder = &mut AhoCorasick::builder();
        builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(words).expect("few short words")
    });
    // An apostrophe inside a word is not looked at: they are few.
    WORDS.is_match(raw) || memchr::memchr(b'\'', raw).is_some()
}

/// Whether a line may be one of words between dashes, behind any prefix.
pub(super) fn may_be_separator(raw: &[u8]) -> bool {
    let is_dash = |byte: u8| matches!(byte, b'-' | b'=' | b'#' | b'*' | b'~');
    raw.windows(2).any(|pair| is_dash(pair[0]) && is_dash(pair[1]))
}

impl Steps {
    pub(super) fn learn_line(&mut self, line: &Line<'_>, index: usize, sketch: &mut Sketch) -> Option<bool> {
        let (kind, is_own, is_row) = self.lesson(line, sketch)?;
        let text = line.text.into();
        if self.lessons.len() <= index {
            self.lessons.resize_with(index + 1, || None);
        }
        self.lessons[index] = Some(Lesson { headers: self.headers, variants: self.variants, text, is_row, kind });
        Some(is_own)
    }

    fn lesson(&self, line: &Line<'_>, sketch: &mut Sketch) -> Option<(Kind, bool, bool)> {
        let text = line.text;
        if text.len() > MAX_LINE || text.contains("mem_get_info") || text.contains(" #") {
            return None;
        }
        if is_foreign(text) {
            return Some((Kind::Nothing, false, false));
        }
        let row = self.header.as_ref().and_then(|header| header.row(text));
        let is_row = row.is_some();
        let scan = match row {
            Some(group) => Scan { groups: vec![group], ..Scan::default() },
            None if self.header.as_ref().is_some_and(|header| header.may_be_row(text)) || Header::may_be(text) => {
                return None;
            }
            None => scan(text),
        };
        for &start in &scan.deciding {
            let slot = sketch.slot(start)?;
            sketch.freeze_text(line, start, sketch.digits(slot).end);
        }
        if scan.groups.iter().all(|group| group.figures.is_empty()) {
            return match scan.groups.last() {
                Some(group) => Some((Kind::Counters(Counters::of(group, sketch)?), false, false)),
                None => Self::nothing(text).map(|kind| (kind, false, false)),
            };
        }
        for range in attributes(text).filter(|_| !is_row) {
            sketch.freeze_text(line, range.start, range.end);
        }
        let mut groups = Vec::new();
        for group in scan.groups.iter().filter(|group| !group.figures.is_empty()) {
            let mut figures = Vec::new();
            for figure in &group.figures {
                let slot = sketch.slot(figure.number.start)?;
                // A cell ends where its number does, with no comma in it.
                if is_row && sketch.digits(slot).commas > 0 {
                    return None;
                }
                figures.push((figure.clone(), slot, None));
            }
            let counters = Counters::of(group, sketch)?;
            let slots = [counters.step, counters.batch, counters.epoch, counters.seconds];
            if is_row && slots.iter().flatten().any(|slot| sketch.digits(*slot).commas > 0) {
                return None;
            }
            groups.push(Figures { counters, figures });
        }
        let time = time::leading(line.whole).map(|(_, seconds)| seconds);
        if time != time_of(line.whole.as_bytes()) {
            return None;
        }
        let has_time = line
            .whole
            .trim_start_matches([' ', '[', '"', '\'', '('])
            .starts_with(['+', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        if has_time {
            sketch.fix_lengths(0, MAX_TIME);
        }
        Some((Kind::Figures { groups, label: scan.label, rank: line.rank.or(scan.rank), has_time }, true, is_row))
    }

    /// A line without counters and figures: whether any other of its shape is neither a name and a size nor a
    /// separator.
    fn nothing(text: &str) -> Option<Kind> {
        const LOOKED_AT: usize = 200;
        if SEPARATOR.is_match(text) || may_be_separator(text.as_bytes().get(..text.len().min(LOOKED_AT * 2))?) {
            return None;
        }
        let end = text.find([':', '=', '|', '{', '}']);
        let behind =
            end.filter(|end| matches!(text.as_bytes()[*end], b':' | b'=')).map(|end| text[end + 1..].trim_start());
        if !behind.is_some_and(|behind| behind.starts_with(|letter: char| letter.is_numeric())) {
            return Some(Kind::Nothing);
        }
        let ends_in_unit = text.trim_end().ends_with(|letter: char| letter.is_alphabetic());
        (!ends_in_unit && text.len() <= LOOKED_AT).then_some(Kind::NothingIfShort)
    }

    /// Whether what was learnt holds under the present header and separator line.
    fn holds(&self, lesson: &mut Lesson) -> bool {
        if lesson.headers != self.headers {
            if lesson.is_row || self.header.as_ref().is_some_and(|header| header.may_be_row(&lesson.text)) {
                return false;
            }
            lesson.headers = self.headers;
        }
        if lesson.variants != self.variants {
            // The figures go to other series now.
            if let Kind::Figures { groups, .. } = &mut lesson.kind {
                groups.iter_mut().flat_map(|group| &mut group.figures).for_each(|figure| figure.2 = None);
            }
            lesson.variants = self.variants;
        }
        true
    }

    pub(super) fn line_again(&mut self, index: usize, line: &Again<'_>) -> bool {
        const LOOKED_AT: usize = 200;
        let mut lessons = std::mem::take(&mut self.lessons);
        let lesson = lessons.get_mut(index).and_then(Option::as_mut);
        let lesson = lesson.and_then(|lesson| self.holds(lesson).then_some(lesson));
        let is_known = match lesson {
            Some(lesson) => match &mut lesson.kind {
                Kind::Nothing => true,
                Kind::NothingIfShort => line.bytes.len() <= LOOKED_AT,
                Kind::Counters(counters) => {
                    let group = counters.read(line);
                    if group.step.is_some() || group.batch.is_some() {
                        (self.carried.step, self.carried.batch) = (group.step, group.batch);
                    }
                    self.carried.epoch = group.epoch.or(self.carried.epoch);
                    true
                }
                Kind::Figures { groups, label, rank, has_time } => {
                    let time = if *has_time { time_of(line.bytes) } else { None };
                    for group in groups {
                        self.figures_again(group, line, label, *rank, time);
                    }
                    true
                }
            },
            None => false,
        };
        self.lessons = lessons;
        is_known
    }

    fn figures_again(
        &mut self,
        known: &mut Figures,
        line: &Again<'_>,
        label: &str,
        rank: Option<u32>,
        time: Option<f64>,
    ) {
        let mut group = known.counters.read(line);
        group.carry(&self.carried);
        let point = Point {
            at: self.samples,
            step: group.step.or(group.batch),
            epoch: group.epoch,
            seconds: group.seconds.or(time),
            bytes: 0,
        };
        for (figure, slot, series) in &mut known.figures {
            let slot = line.slots.get(*slot);
            let Some(number) = slot.and_then(|slot| number(&figure.number, slot, line.bytes)) else { continue };
            figure.number = number;
            if let Some(index) = series {
                self.table.push_to(*index, figure, point);
            } else {
                let context = Context { variant: self.variant.as_deref(), label, rank };
                *series = self.table.push(figure, point, context);
            }
        }
        self.samples += 1;
        self.begin.get_or_insert(line.place);
    }
}

fn number(like: &Number, slot: &Slot, line: &[u8]) -> Option<Number> {
    let (digits, value) = slot.read(line)?;
    Some(Number { value, decimals: digits.decimals, ..*like })
}
