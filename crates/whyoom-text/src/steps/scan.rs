//! One line of a log: its counters and figures.

use std::sync::LazyLock;

use regex::Regex;

use super::amount::{Number, Unit, number_at};
use super::key::{self, Counter, Key, Measure};

/// Bytes of a line that are looked at, and numbers in them.
const MAX_LINE: usize = 1 << 16;
const MAX_NUMBERS: usize = 512;

/// A figure of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub measure: Measure,
    pub number: Number,
    /// The unit printed beside the number or in its key.
    pub unit: Option<Unit>,
    pub device: Option<u32>,
    pub qualifier: String,
    /// A number that can only be memory, without looking at the rest of the line.
    pub is_strong: bool,
}

/// Figures that belong to the same step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Group {
    pub step: Option<u64>,
    pub batch: Option<u64>,
    pub epoch: Option<f64>,
    pub seconds: Option<f64>,
    pub figures: Vec<Figure>,
    pub sources: Sources,
}

/// Where in the text the counters of a group begin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sources {
    pub step: Option<usize>,
    pub batch: Option<usize>,
    pub epoch: Option<usize>,
    pub seconds: Option<usize>,
    /// The seconds are a timestamp, which may count milliseconds.
    pub is_timestamp: bool,
}

impl Group {
    /// Takes over from the lines before what the line itself does not say.
    pub(crate) fn carry(&mut self, carried: &Self) {
        if self.step.is_none() && self.batch.is_none() {
            (self.step, self.batch) = (carried.step, carried.batch);
        }
        self.epoch = self.epoch.or(carried.epoch);
    }
}

/// What a line holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scan<'a> {
    pub groups: Vec<Group>,
    pub label: String,
    pub comment: Option<&'a str>,
    pub rank: Option<u32>,
    /// Where numbers begin whose values decide what the others are: those of devices and ranks.
    pub deciding: Vec<usize>,
}

/// Numbers of a text in their order.
pub(crate) fn numbers(text: &str) -> Vec<Number> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() && found.len() < MAX_NUMBERS {
        let before = if at == 0 { b' ' } else { bytes[at - 1] };
        if !bytes[at].is_ascii_digit() {
            at += 1;
        } else if before.is_ascii_alphanumeric() || before == b'_' || before >= 0x80 {
            // Part of a name (`gpu0`, `cu117`).
            while bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'.') {
                at += 1;
            }
        } else {
            // A minus is a sign only where it is no hyphen.
            let is_signed = before == b'-' && (at < 2 || !bytes[at - 2].is_ascii_alphanumeric());
            let start = if is_signed { at - 1 } else { at };
            match number_at(text, start) {
                Some(mut number) => {
                    number.is_other |= matches!(before, b'.' | b':') && at >= 2 && bytes[at - 2].is_ascii_digit();
                    number.is_other |= before == b'.';
                    at = number.end.max(at + 1);
                    found.push(number);
                }
                None => {
                    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                        at += 1;
                    }
                }
            }
        }
    }
    found
}

/// Numbers joined by `/`, as in `12.3/24.0 GiB`: how many from `first` on.
fn chain(text: &str, numbers: &[Number], first: usize) -> usize {
    let mut length = 1;
    while let Some(next) = numbers.get(first + length) {
        let between = text[numbers[first + length - 1].end..next.start].trim();
        if between != "/" {
            break;
        }
        length += 1;
    }
    length
}

/// The text of a key: what lies before a number and behind the last comma, bar or semicolon.
fn clause(text: &str) -> &str {
    text.rsplit([',', ';', '|', '{', '\u{2502}']).next().unwrap_or(text)
}

/// Whether the signs between a key and its number say "is", not "call" or "divided by".
fn is_assigned(key: &str, number: &Number) -> bool {
    let gap = key.rsplit(char::is_alphanumeric).next().unwrap_or(key);
    if gap.contains(['*', '+', '%']) || gap.contains("//") || gap.contains("==") || gap.trim() == "/" {
        return false;
    }
    number.unit.is_some() || !gap.contains(['(', ')', '>', '<']) || gap.contains([':', '=', '|'])
}

/// Reads a line.
pub(crate) fn scan(line: &str) -> Scan<'_> {
    let line = super::cut(line, MAX_LINE);
    let (text, comment) = split_comment(line);
    let numbers = numbers(text);
    let mut scan = Scan { comment, ..Scan::default() };
    let mut group = Group::default();
    let mut device = None;
    let mut context = false;
    let mut previous_end = 0;
    let mut first_event = text.len();
    let mut last_measure = None;
    let mut index = 0;
    while index < numbers.len() {
        let number = numbers[index];
        let length = chain(text, &numbers, index);
        let last = numbers[index + length - 1];
        let before = clause(&text[previous_end.min(number.start)..number.start]);
        let mut key = key::read(before);
        let after_end = numbers.get(index + length).map_or(text.len(), |next| next.start);
        let after = &text[last.end.min(after_end)..after_end];
        let is_tqdm =
            length == 2 && after.trim_start().starts_with('[') && number.unit.is_none() && key.measure.is_none();
        if is_tqdm {
            key = Key { counter: Some(key.counter.unwrap_or(Counter::Step)), ..Key::default() };
        }
        let has_unit = (0..length).any(|next| numbers[index + next].unit.is_some()) || key.unit.is_some();
        if let Some(counter) = key.counter.filter(|_| !has_unit && !number.is_other || is_tqdm) {
            if matches!(counter, Counter::Device | Counter::Rank) {
                scan.deciding.push(number.start);
            }
            match (counter, number.count()) {
                (Counter::Device, Some(found)) => device = u32::try_from(found).ok().filter(|index| *index < 4096),
                (Counter::Rank, Some(found)) => scan.rank = u32::try_from(found).ok(),
                _ => {
                    context |= matches!(counter, Counter::Step | Counter::Batch | Counter::Epoch);
                    count(&mut scan.groups, &mut group, counter, &number);
                    first_event = first_event.min(number.start);
                }
            }
            previous_end = last.end;
            index += length;
            continue;
        }
        device = key.device.or(device);
        let mut used_after = 0;
        let is_key = is_assigned(before, &number);
        if (key.measure.is_none() || !is_key) && !key.is_other && number.unit.is_some() {
            // `5.2 GiB allocated`: the key comes behind.
            let behind = after.split([',', ';', '|', '(', '/', '.']).next().unwrap_or(after);
            let found = key::read(behind);
            if found.measure.is_some() && !found.is_other {
                key = found;
                used_after = behind.len();
            }
        } else if !is_key {
            key.measure = None;
        }
        if let (Some(measure), false) = (key.measure, key.is_other) {
            // `mem 61.2GiB max 63.0GiB`: the peak of what came before.
            let measure = match last_measure {
                Some(last) if key.is_bare_peak => Measure::peak(last),
                _ => measure,
            };
            let measures = several(before, measure, length, &key);
            let shared = (0..length).rev().find_map(|next| numbers[index + next].unit).or(key.unit);
            for (number, measure) in numbers[index..index + length].iter().zip(measures) {
                let is_size = !number.is_other && (number.unit.is_some() || shared.is_some() || key.is_strong);
                if is_size && (key.is_strong || number.unit.or(shared).is_some()) {
                    group.figures.push(Figure {
                        measure,
                        number: *number,
                        unit: number.unit.or(shared),
                        device,
                        qualifier: key.qualifier.clone(),
                        is_strong: key.is_strong,
                    });
                    last_measure = Some(measure);
                    first_event = first_event.min(number.start - before.len().min(number.start));
                }
            }
        }
        previous_end = last.end + used_after;
        index += length;
    }
    scan.groups.push(group);
    // Beside sizes with units, a small number without one is a count (`alloc=7591`).
    if scan.groups.iter().flat_map(|group| &group.figures).any(|figure| figure.unit.is_some()) {
        for group in &mut scan.groups {
            group.figures.retain(|figure| figure.unit.is_some() || figure.number.value >= 1e6);
        }
    }
    scan.groups.retain(|group| *group != Group::default());
    if scan.groups.iter().all(|group| group.figures.is_empty()) {
        return scan;
    }
    context = context || {
        let lower = text.to_ascii_lowercase();
        ["mem", "vram", "gpu", "cuda", "hbm", "alloc", "reserved"].iter().any(|word| lower.contains(word))
    };
    for group in &mut scan.groups {
        group.figures.retain(|figure| context || figure.is_strong);
    }
    scan.label = label(text, first_event);
    scan
}

/// Enters a counter; one that the group has already begins the next group.
fn count(groups: &mut Vec<Group>, group: &mut Group, counter: Counter, number: &Number) {
    let is_taken = match counter {
        Counter::Step => group.step.is_some(),
        Counter::Batch => group.batch.is_some(),
        Counter::Epoch => group.epoch.is_some(),
        _ => false,
    };
    if is_taken && !group.figures.is_empty() {
        let sources = Sources { step: None, batch: None, ..group.sources };
        let next = Group { epoch: group.epoch, seconds: group.seconds, sources, ..Group::default() };
        groups.push(std::mem::replace(group, next));
    } else if is_taken && counter == Counter::Step {
        // `global_step 7000 step 3`: the first one counts.
        return;
    }
    let place = Some(number.start);
    let sources = &mut group.sources;
    match counter {
        Counter::Step => (group.step, sources.step) = (number.count(), number.count().and(place)),
        Counter::Batch => (group.batch, sources.batch) = (number.count(), number.count().and(place)),
        Counter::Epoch => (group.epoch, sources.epoch) = (Some(number.value), place),
        Counter::Timestamp | Counter::Elapsed => {
            sources.is_timestamp = counter == Counter::Timestamp;
            (group.seconds, sources.seconds) = (Some(seconds(number.value, sources.is_timestamp)), place);
        }
        Counter::Device | Counter::Rank => {}
    }
}

/// Seconds of a printed number; timestamps may count milliseconds.
pub(crate) fn seconds(value: f64, is_timestamp: bool) -> f64 {
    if is_timestamp && value > 1e12 { value / 1000.0 } else { value }
}

/// The quantities of `a/b`: named one by one in the key, or a level and its capacity.
fn several(before: &str, measure: Measure, length: usize, key: &Key) -> Vec<Measure> {
    if length == 1 {
        return vec![measure];
    }
    let parts: Vec<Option<Measure>> = before
        .split('/')
        .rev()
        .take(length)
        .map(|part| key::read(part).measure)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    if parts.len() == length
        && let Some(parts) = parts.into_iter().collect::<Option<Vec<Measure>>>()
    {
        return parts;
    }
    if length == 2 {
        let first = if key.measure == Some(Measure::Total) { Measure::Used } else { measure };
        return vec![first, Measure::Total];
    }
    vec![measure]
}

/// A comment behind figures: `# …` after a blank.
fn split_comment(text: &str) -> (&str, Option<&str>) {
    match text.find(" #") {
        Some(at) if at > 0 && !text[..at].trim().is_empty() => {
            let comment = text[at + 2..].trim_start_matches('#').trim();
            (&text[..at], Some(comment).filter(|comment| !comment.is_empty()))
        }
        _ => (text, None),
    }
}

static ATTRIBUTE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[A-Za-z_]\w*=[A-Za-z][^\s,;|=]*(?:=[^\s,;|=]*\))?").expect("a valid pattern"));

/// Where the attributes of a line stand that its label may hold.
pub(crate) fn attributes(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    ATTRIBUTE.find_iter(text).map(|found| found.range())
}

/// What tells this line from others of the same log: words before its first figure or counter, and `name=word`.
fn label(text: &str, first_event: usize) -> String {
    const MAX_LABEL: usize = 80;
    const LEVELS: &[&str] = &["INFO", "DEBUG", "WARNING", "WARN", "ERROR", "root", "nan", "inf"];
    let mut label = String::new();
    let mut add = |word: &str| {
        if label.len() + word.len() < MAX_LABEL {
            if !label.is_empty() {
                label.push(' ');
            }
            label.push_str(word);
        }
    };
    let lead = text.get(..first_event).unwrap_or_default();
    for word in lead.split_whitespace().filter(|word| !word.contains('=')) {
        let plain = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let is_known = LEVELS.contains(&plain) || key::read(plain).counter.is_some();
        if !plain.is_empty() && !plain.bytes().any(|byte| byte.is_ascii_digit()) && !is_known {
            add(plain);
        }
    }
    let attributes = if text.contains('=') { text } else { "" };
    for found in ATTRIBUTE.find_iter(attributes) {
        let value = found.as_str().split_once('=').map_or("", |(_, value)| value);
        if !LEVELS.contains(&value) && found.as_str().len() <= 40 {
            add(found.as_str());
        }
    }
    label
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
