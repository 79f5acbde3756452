//! Tables with a line of names above their figures: bars, commas, tabs or columns of blanks.

use memchr::memchr;

use super::amount::{Number, Unit, leading};
use super::key::{self, Counter, Key};
use super::lesson;
use super::scan::{Figure, Group};

/// A header and how its cells are parted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    separator: Separator,
    cells: Vec<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Bar,
    Comma,
    Tab,
    Blanks,
}

const MAX_CELLS: usize = 256;
/// Bytes of a name.
const MAX_NAME: usize = 60;

fn split(line: &str, separator: Separator) -> Vec<&str> {
    let cells: Vec<&str> = match separator {
        Separator::Bar => line.trim().trim_matches(['|', '\u{2502}']).split(['|', '\u{2502}']).collect(),
        Separator::Comma => line.split(',').collect(),
        Separator::Tab => line.split('\t').collect(),
        Separator::Blanks => line.trim().split("  ").filter(|cell| !cell.trim().is_empty()).collect(),
    };
    cells.into_iter().take(MAX_CELLS).map(|cell| cell.trim().trim_matches(['"', '\''])).collect()
}

/// Whether a cell is a name: short, without a number beside those of devices (`GPU 0 MiB`).
fn is_name(cell: &str) -> bool {
    let mut before = "";
    let has_number = cell.split([' ', ':', '=', '(']).any(|word| {
        let is_number = word.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
        let is_index = || ["gpu", "cuda", "device"].iter().any(|name| before.eq_ignore_ascii_case(name));
        let is_bad = is_number && !is_index();
        before = word;
        is_bad
    });
    !has_number && !cell.contains(['=', '{', '}'])
}

/// Whether cells under a name are figures.
fn is_figure(key: &Key) -> bool {
    key.measure.is_some() && !key.is_other && (key.is_strong || key.unit.is_some())
}

impl Header {
    /// Reads a header: at least two names, none of them a number, one of them a quantity of memory.
    pub(crate) fn read(line: &str) -> Option<Self> {
        Self::read_within(line, MAX_NAME)
    }

    /// Whether a line may be a header whatever the lengths of its numbers.
    pub(crate) fn may_be(line: &str) -> bool {
        Self::read_within(line, usize::MAX).is_some()
    }

    fn read_within(line: &str, most: usize) -> Option<Self> {
        if line.len() > 4096 || !lesson::names_memory(line.as_bytes()) {
            return None;
        }
        // Most lines with commas or bars have numbers: those are no headings.
        if line
            .split([' ', ',', '|', '\t'])
            .filter(|word| word.bytes().next().is_some_and(|byte| byte.is_ascii_digit()))
            .count()
            > 8
            && most == MAX_NAME
        {
            return None;
        }
        for separator in [Separator::Bar, Separator::Tab, Separator::Comma, Separator::Blanks] {
            let is_parted = match separator {
                Separator::Bar => line.contains(['|', '\u{2502}']),
                Separator::Comma => memchr(b',', line.as_bytes()).is_some(),
                Separator::Tab => memchr(b'\t', line.as_bytes()).is_some(),
                Separator::Blanks => line.contains("  "),
            };
            if !is_parted {
                continue;
            }
            let cells = split(line, separator);
            if cells.len() < 2 || cells.iter().any(|cell| cell.len() > most) || !cells.iter().all(|cell| is_name(cell))
            {
                continue;
            }
            let cells: Vec<Key> = cells.iter().map(|cell| key::read(cell)).collect();
            let is_memory = |key: &Key| key.measure.is_some() && key.is_strong && !key.is_other;
            let is_counter = |key: &Key| key.measure.is_none() && key.counter.is_some();
            // Blanks part prose too: there a counter must stand beside the quantity.
            if cells.iter().any(is_memory) && (separator != Separator::Blanks || cells.iter().any(is_counter)) {
                return Some(Self { separator, cells });
            }
        }
        None
    }

    /// The cells of a line, if they are as many as the header's.
    fn cells<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let mut cells = split(line, self.separator);
        if cells.len() != self.cells.len() && self.separator == Separator::Blanks {
            cells = line.split_whitespace().collect();
        }
        (cells.len() == self.cells.len()).then_some(cells)
    }

    /// Whether another line may be a row that differs from this one in its numbers alone.
    pub(crate) fn may_be_row(&self, line: &str) -> bool {
        let is_no_figure = |(cell, key): (&&str, &Key)| {
            is_figure(key) && cell.starts_with(char::is_alphabetic) && !matches!(*cell, "N/A" | "nan" | "None")
        };
        self.cells(line).is_some_and(|cells| !cells.iter().zip(&self.cells).any(is_no_figure))
    }

    /// Reads a row: as many cells, a number in each that holds a quantity.
    pub(crate) fn row(&self, line: &str) -> Option<Group> {
        let cells = self.cells(line)?;
        let mut group = Group::default();
        for (cell, key) in cells.iter().zip(&self.cells) {
            let number = leading(cell).filter(|number| cell[number.end..].trim().is_empty());
            // A cell is a part of the line: where it begins is known by its address.
            let begin = cell.as_ptr() as usize - line.as_ptr() as usize;
            let number = number.map(|number| Number { start: number.start + begin, end: number.end + begin, ..number });
            let place = number.map(|number| number.start);
            match (key.measure, key.counter) {
                (Some(measure), _) if is_figure(key) => {
                    let Some(number) = number else {
                        if cell.is_empty() || matches!(*cell, "-" | "N/A" | "nan" | "None") {
                            continue;
                        }
                        return None;
                    };
                    let unit: Option<Unit> = number.unit.or(key.unit);
                    if !number.is_other {
                        group.figures.push(Figure {
                            measure,
                            number,
                            unit,
                            device: key.device,
                            qualifier: key.qualifier.clone(),
                            is_strong: true,
                        });
                    }
                }
                (None, Some(counter)) => {
                    let Some(number) = number else { continue };
                    match counter {
                        Counter::Step if group.step.is_some() => {}
                        Counter::Step => (group.step, group.sources.step) = (number.count(), number.count().and(place)),
                        Counter::Batch => {
                            (group.batch, group.sources.batch) = (number.count(), number.count().and(place));
                        }
                        Counter::Epoch => (group.epoch, group.sources.epoch) = (Some(number.value), place),
                        Counter::Timestamp | Counter::Elapsed => {
                            (group.seconds, group.sources.seconds) = (Some(number.value), place);
                        }
                        Counter::Device | Counter::Rank => {}
                    }
                }
                _ => {}
            }
        }
        (!group.figures.is_empty()).then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_in_their_forms() {
        for (header, row) in [
            ("| step | allocated (MiB) | reserved (MiB) |", "| 10 | 100.0 | 200.0 |"),
            ("step,loss,allocated_mib,reserved_mib", "10,2.1,100.0,200.0"),
            ("step\tallocated_mib\treserved_mib", "10\t100.0\t200.0"),
            ("   step   allocated_mib  reserved_mib", "     10     100.0   200.0"),
        ] {
            let header = Header::read(header).expect("a header");
            let group = header.row(row).expect("a row");
            assert_eq!((group.step, group.figures.len()), (Some(10), 2), "{row}");
            assert_eq!(group.figures[0].unit.map(|unit| unit.name), Some("MiB"));
            assert_eq!(header.row("something else"), None);
        }
    }

    #[test]
    fn prose_is_no_header() {
        for line in ["out of memory, allocated 5", "memory", "see the memory docs, please  or ask", "loss, accuracy"] {
            assert!(Header::read(line).is_none_or(|header| header.row(line).is_none()), "{line}");
        }
    }
}
