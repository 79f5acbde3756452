//! Columns of a CSV without headings, by what is in them.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::log::known;
use super::property::{Column, Property};
use super::time;
use crate::Sketch;
use crate::steps::{Unit, leading};

/// What a driver may hold back of a card, as a part of it.
const RESERVE_SHARE: f64 = 0.08;
/// MiB: no card that runs PyTorch has less, and no index or percentage is more.
const LEAST_CARD: f64 = 1000.0;

/// Product names.
static DEVICE_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)nvidia|geforce|tesla|quadro|titan|\brtx\b|\bgtx\b|radeon|instinct|\b[ahvpklbt]\d{1,3}[a-z]?\b|gh200|gb\d00")
        .expect("a valid pattern")
});

/// What a cell looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    Unknown,
    Time,
    Uuid,
    Bus,
    /// A size with its unit, in MiB.
    Size(f64),
    Percent,
    Whole(f64),
    DeviceName,
    Text,
    OtherNumber,
}

fn cell(text: &str) -> Cell {
    let Some(text) = known(text) else { return Cell::Unknown };
    if time::leading(text).is_some() {
        return Cell::Time;
    }
    if text.starts_with("GPU-") || text.starts_with("MIG-") {
        return Cell::Uuid;
    }
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    if colons == 2 && text.contains('.') && text.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte)) {
        return Cell::Bus;
    }
    let Some(number) = leading(text) else {
        return if DEVICE_NAME.is_match(text) { Cell::DeviceName } else { Cell::Text };
    };
    let rest = text.get(number.end..).unwrap_or_default().trim();
    match number.unit {
        Some(unit) if rest.is_empty() => {
            Cell::Size(number.value * unit.or_bytes.unwrap_or(unit.bytes) as f64 / 1_048_576.0)
        }
        None if text.ends_with('%') => Cell::Percent,
        None if rest == "%" => Cell::Percent,
        None if rest.is_empty() && number.count().is_some() => Cell::Whole(number.value),
        None if rest.is_empty() || matches!(rest, "W" | "MHz" | "C" | "P0" | "P2" | "P8") => Cell::OtherNumber,
        _ if DEVICE_NAME.is_match(text) => Cell::DeviceName,
        _ => Cell::Text,
    }
}

/// Whether a line may be a row of nvidia-smi: `Some(true)` if a cell of it says so, `Some(false)` if it is numbers only.
pub(super) fn row(line: &str) -> Option<bool> {
    if line.len() > 1024 {
        return None;
    }
    // Most lines with a comma are prose: their first words are enough to tell.
    if matches!(cell(line.split(',').next()?), Cell::Text | Cell::OtherNumber | Cell::Percent) {
        return None;
    }
    let cells: Vec<Cell> = line.split(',').map(cell).collect();
    let has = |what: fn(&Cell) -> bool| cells.iter().any(what);
    let is_number = |cell: &Cell| matches!(cell, Cell::Whole(_) | Cell::Size(_));
    if cells.len() == 1 {
        // One column: `8559 MiB`.
        let is_mib = line.trim().ends_with("MiB");
        return (is_mib && matches!(cells[0], Cell::Size(_))).then_some(true);
    }
    let texts = cells.iter().filter(|cell| matches!(cell, Cell::Text)).count();
    let figures = cells.iter().filter(|cell| is_number(cell) || **cell == Cell::Unknown).count();
    if figures == 0 || texts > 1 {
        return None;
    }
    let is_sized = has(|cell| matches!(cell, Cell::Size(_)));
    let names = has(|cell| matches!(cell, Cell::Uuid | Cell::Bus | Cell::DeviceName));
    if texts == 0 && (names || is_sized && figures >= 2 || matches!(cells[0], Cell::Time)) {
        return Some(true);
    }
    // `3090117, python, 10132 MiB`: a process.
    if texts == 1 && is_sized && line.contains("MiB") {
        return Some(true);
    }
    let is_plain = cells.iter().all(|cell| matches!(cell, Cell::Whole(_) | Cell::Unknown | Cell::Percent));
    (is_plain && line.contains(", ")).then_some(false)
}

/// Whether a line may be a row or a heading, by its first cell: words between blanks are neither.
pub(super) fn may_be_row(raw: &[u8]) -> bool {
    static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let words = ["nvidia", "geforce", "tesla", "quadro", "titan", "rtx", "gtx", "radeon", "instinct"];
        AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("few short words")
    });
    let text = raw.trim_ascii();
    let first = text[..memchr::memchr(b',', text).unwrap_or(text.len())].trim_ascii_end();
    let is_prose = first.first().is_some_and(u8::is_ascii_alphabetic)
        && first.contains(&b' ')
        // The longest of the words for what is unknown has 44 letters, and brackets.
        && first.iter().all(|byte| matches!(byte, b' '..=b'~') && !byte.is_ascii_digit() && *byte != b'[')
        && (first.len() > 48 || known(str::from_utf8(first).unwrap_or_default()).is_some())
        && !first.starts_with(b"GPU-")
        && !first.starts_with(b"MIG-");
    !is_prose || memchr::memchr(0x1b, first).is_some() || WORDS.is_match(first)
}

/// Whether a line is no row, and any other of its sketch is none: its first cell is text, or two cells are, or none
/// of them can be a figure.
pub(super) fn is_surely_no_row(line: &str, sketch: &mut Sketch) -> bool {
    /// Bytes in which a time stands that makes a cell one.
    const TIME: usize = 24;
    if row(line.trim()).is_some() || line.len() > 1000 {
        return false;
    }
    let mut texts = 0;
    let mut is_sure = true;
    for (index, part) in line.trim().split(',').enumerate() {
        let begin = part.as_ptr() as usize - line.as_ptr() as usize;
        let plain = part.trim_start_matches([' ', '[', '"', '\'', '(']);
        let is_number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit() || "+-.".contains(letter));
        let kind = cell(part);
        let is_text = kind == Cell::Text && !is_number(plain) && !is_number(part.trim_start());
        let bytes = plain.as_bytes();
        let is_date = matches!(bytes.get(4), Some(b'/' | b'-')) && bytes.get(4) == bytes.get(7)
            || bytes.len() >= 8 && bytes[..8].iter().all(u8::is_ascii_digit);
        let may_be_time = bytes.get(2) == Some(&b':') || is_date;
        if is_text || kind == Cell::Text && !may_be_time {
            // What begins with a number could be a time if it were longer or shorter.
            sketch.fix_lengths(begin, begin + part.len().min(TIME));
            texts += 1;
            if index == 0 {
                return true;
            }
        } else if kind != Cell::Time {
            is_sure = false;
        }
    }
    texts >= 2 || is_sure
}

/// The columns, and what was assumed to name them; `None` if the figures do not look like memory.
pub(super) fn columns(rows: &[String]) -> Option<(Vec<Column>, Vec<String>)> {
    let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.split(',').map(cell).collect()).collect();
    let width = rows.first()?.len();
    let values = |column: usize| -> Vec<Option<f64>> {
        let value = |row: &Vec<Cell>| match row.get(column) {
            Some(Cell::Size(value) | Cell::Whole(value)) => Some(*value),
            _ => None,
        };
        rows.iter().map(value).collect()
    };
    let kind =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).find(|cell| **cell != Cell::Unknown).copied();
    let mut found = vec![Property::Other; width];
    let mut numbers = Vec::new();
    for (column, property) in found.iter_mut().enumerate() {
        *property = match kind(column) {
            Some(Cell::Time) => Property::Time,
            Some(Cell::Uuid) => Property::Uuid,
            Some(Cell::Bus) => Property::Bus,
            Some(Cell::DeviceName) => Property::Name,
            Some(Cell::Text) => Property::ProcessName,
            Some(Cell::Size(_) | Cell::Whole(_)) => {
                numbers.push(column);
                Property::Other
            }
            _ => Property::Other,
        };
    }
    // Where sizes have units, numbers without are no sizes.
    let sized: Vec<usize> =
        numbers.iter().copied().filter(|&column| matches!(kind(column), Some(Cell::Size(_)))).collect();
    let candidates = if sized.is_empty() { numbers.clone() } else { sized.clone() };
    let mut notes = Vec::new();
    let is_process = found.contains(&Property::ProcessName);
    if is_process && candidates.len() == 1 {
        found[candidates[0]] = Property::ProcessBytes;
        let pid = numbers.iter().find(|&&column| column != candidates[0])?;
        found[*pid] = Property::Pid;
        notes.push("no headings: read as process id, name and memory of a process".to_owned());
    } else {
        memory(&candidates, &values, &mut found, &mut notes)?;
    }
    let first_memory = found.iter().position(|property| is_memory(*property)).unwrap_or(width);
    let is_index = |column: usize| values(column).iter().flatten().all(|value| *value < 64.0);
    if let Some(&column) = numbers.iter().find(|&&column| column < first_memory && found[column] == Property::Other)
        && is_index(column)
    {
        found[column] = Property::Index;
        notes.push(format!("no headings: column {} is read as the index of the device", column + 1));
    }
    let percents: Vec<usize> = (0..width).filter(|&column| kind(column) == Some(Cell::Percent)).collect();
    if let Some(&column) = percents.first() {
        found[column] = Property::Utilization;
        notes.push(format!("no headings: column {} is read as utilization.gpu", column + 1));
    }
    Some((found.into_iter().map(|property| Column { property, unit: Unit::MIB }).collect(), notes))
}

fn is_memory(property: Property) -> bool {
    matches!(property, Property::Used | Property::Free | Property::Total | Property::Reserved | Property::ProcessBytes)
}

/// Names the columns of memory by arithmetic: total = reserve + used + free.
fn memory(
    candidates: &[usize],
    values: &impl Fn(usize) -> Vec<Option<f64>>,
    found: &mut [Property],
    notes: &mut Vec<String>,
) -> Option<()> {
    const MOST: usize = 12;
    let candidates = &candidates[..candidates.len().min(MOST)];
    let all: Vec<Vec<Option<f64>>> = candidates.iter().map(|&column| values(column)).collect();
    let lowest = |index: usize| all[index].iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let name = |index: usize| format!("column {}", candidates[index] + 1);
    let is_above = |upper: usize, lower: usize| {
        all[upper].iter().zip(&all[lower]).all(|pair| !matches!(pair, (Some(a), Some(b)) if a < b))
    };
    let is_card = |index: usize| lowest(index) >= LEAST_CARD && lowest(index).is_finite();
    // What total leaves beside two others, as the greatest part of total; none if it is negative somewhere.
    let rest = |total: usize, one: usize, other: usize| -> Option<f64> {
        let mut most: Option<f64> = None;
        for ((total, one), other) in all[total].iter().zip(&all[one]).zip(&all[other]) {
            if let (Some(total), Some(one), Some(other)) = (total, one, other) {
                // Three figures in whole MiB may miss their sum by two.
                let left = total - one - other;
                if left < -2.0 {
                    return None;
                }
                most = Some(most.unwrap_or(0.0).max(left / total.max(1.0)));
            }
        }
        most
    };
    let count = all.len();
    let mut best: Option<(f64, [usize; 3])> = None;
    for total in (0..count).filter(|&index| is_card(index)) {
        for one in (0..count).filter(|&one| one != total) {
            for other in (one + 1..count).filter(|&other| other != total) {
                if let Some(left) = rest(total, one, other).filter(|left| *left <= RESERVE_SHARE)
                    && best.is_none_or(|(least, _)| left < least)
                {
                    best = Some((left, [total, one, other]));
                }
            }
        }
    }
    if let Some((_, [total, used, free])) = best {
        found[candidates[total]] = Property::Total;
        found[candidates[used]] = Property::Used;
        found[candidates[free]] = Property::Free;
        notes.push(format!(
            "no headings: {} is read as memory.total, {} as memory.used and {} as memory.free, in MiB, since total is used and free and a small reserve of the driver; used and free could stand the other way round",
            name(total), name(used), name(free)
        ));
        return Some(());
    }
    let total = (0..count).find(|&total| is_card(total) && (0..count).all(|other| is_above(total, other)) && count > 1);
    if let Some(total) = total {
        let used = (0..count).find(|&other| other != total && (count == 2 || lowest(other) >= 100.0))?;
        found[candidates[total]] = Property::Total;
        found[candidates[used]] = Property::Used;
        notes.push(format!(
            "no headings: {} is read as memory.total and {} as memory.used, in MiB; {} could be memory.free",
            name(total),
            name(used),
            name(used)
        ));
        return Some(());
    }
    let used = (0..count).find(|&index| lowest(index) >= 100.0).or((count == 1).then_some(0))?;
    found[candidates[used]] = Property::Used;
    notes.push(format!("no headings: {} is read as memory.used, in MiB", name(used)));
    Some(())
}
