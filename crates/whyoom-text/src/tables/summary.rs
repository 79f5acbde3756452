//! `torch.cuda.memory_summary()`: the same layout from 1.4 on, other units and rows by release.

use serde::Serialize;

use crate::messages::Releases;
use crate::{Fact, Found, Line, Place, Recogniser};

/// What a row counts; the names are those of `memory_stats()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// "Allocated memory".
    AllocatedBytes,
    /// "Active memory": allocated, or waiting for another stream.
    ActiveBytes,
    /// "Requested memory", before rounding; from 2.0.
    RequestedBytes,
    /// "GPU reserved memory".
    ReservedBytes,
    /// "Non-releasable memory": free parts of split segments.
    InactiveSplitBytes,
    /// "Allocations".
    Allocation,
    /// "Active allocs".
    Active,
    /// "GPU reserved segments".
    Segment,
    /// "Non-releasable allocs".
    InactiveSplit,
    /// "Oversize allocations".
    OversizeAllocations,
    /// "Oversize GPU segments".
    OversizeSegments,
}

const LABELS: [(&str, Metric); 11] = [
    ("Allocated memory", Metric::AllocatedBytes),
    ("Active memory", Metric::ActiveBytes),
    ("Requested memory", Metric::RequestedBytes),
    ("GPU reserved memory", Metric::ReservedBytes),
    ("Non-releasable memory", Metric::InactiveSplitBytes),
    ("Allocations", Metric::Allocation),
    ("Active allocs", Metric::Active),
    ("GPU reserved segments", Metric::Segment),
    ("Non-releasable allocs", Metric::InactiveSplit),
    ("Oversize allocations", Metric::OversizeAllocations),
    ("Oversize GPU segments", Metric::OversizeSegments),
];

/// Which blocks a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Both.
    All,
    /// Over 1 MiB.
    LargePool,
    /// Up to 1 MiB.
    SmallPool,
}

/// A figure of the table. PyTorch divides and drops the rest: the truth lies in `least..=most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Cell {
    /// As printed, times the unit; bytes or a count.
    pub least: u64,
    /// The largest value that prints the same.
    pub most: u64,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it counts.
    pub metric: Metric,
    /// Of which blocks.
    pub pool: Pool,
    /// "Cur Usage".
    pub current: Option<Cell>,
    /// "Peak Usage".
    pub peak: Option<Cell>,
    /// "Tot Alloc".
    pub allocated: Option<Cell>,
    /// "Tot Freed".
    pub freed: Option<Cell>,
}

/// A `memory_summary()` table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Device index.
    pub device: Option<u32>,
    /// "CUDA OOMs".
    pub num_ooms: Option<u64>,
    /// "cudaMalloc retries".
    pub num_alloc_retries: Option<u64>,
    /// In the order of the table.
    pub rows: Vec<Row>,
    /// Releases that print this layout: units named `MB` end with 1.13.
    pub releases: Releases,
    /// The table's end is missing.
    pub is_cut: bool,
}

impl Summary {
    /// A row by what it counts.
    pub fn row(&self, metric: Metric, pool: Pool) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == metric && row.pool == pool)
    }
}

/// Finds the tables.
#[derive(Debug, Default)]
pub(super) struct SummaryTable {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    place: Place,
    rank: Option<u32>,
    summary: Summary,
    metric: Option<Metric>,
    rules: u32,
    foreign: u32,
}

/// Lines of others that may stand between the lines of a table (ranks that print at once).
const FOREIGN_LINES: u32 = 4;

impl Recogniser for SummaryTable {
    fn needles(&self) -> &'static [&'static str] {
        &["memory summary, device id"]
    }

    fn is_inside(&self) -> bool {
        self.open.is_some()
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        // A table that was printed by `repr` is one line with `\n` in two characters.
        if line.text.contains("\\n|") {
            let mut any = false;
            for part in line.text.split("\\n") {
                any |= self.row(part, line, found);
            }
            return any;
        }
        self.row(line.text, line, found)
    }

    fn end(&mut self, found: &mut Found) {
        self.close(found, true);
    }
}

impl SummaryTable {
    fn close(&mut self, found: &mut Found, is_cut: bool) {
        if let Some(mut open) = self.open.take() {
            open.summary.is_cut = is_cut;
            found.add(open.place, open.rank, Fact::Summary(Box::new(open.summary)));
        }
    }

    fn row(&mut self, text: &str, line: &Line<'_>, found: &mut Found) -> bool {
        if let Some((_, device)) = text.split_once("memory summary, device ID") {
            self.close(found, true);
            let device = device.trim().split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            let releases = Releases::from(1, 4);
            let summary =
                Summary { device, num_ooms: None, num_alloc_retries: None, rows: Vec::new(), releases, is_cut: false };
            self.open = Some(Open { place: line.place, rank: line.rank, summary, metric: None, rules: 0, foreign: 0 });
            return true;
        }
        let Some(open) = &mut self.open else { return false };
        if line.rank != open.rank {
            return false;
        }
        let trimmed = text.trim().trim_start_matches(|c| c != '|');
        let inner = trimmed.trim_matches('|');
        if !trimmed.starts_with('|') {
            open.foreign += 1;
            if open.foreign > FOREIGN_LINES {
                self.close(found, true);
            }
            return false;
        }
        if inner.starts_with("====") {
            open.rules += 1;
            // One above the header row, one at the end; the one above the title came before it.
            if open.rules >= 2 {
                self.close(found, false);
            }
            return true;
        }
        open.row(inner)
    }
}

impl Open {
    fn row(&mut self, inner: &str) -> bool {
        if inner.starts_with("----") || inner.trim_start().starts_with("Metric") {
            return true;
        }
        let mut fields = inner.split('|').map(str::trim);
        let label = fields.next().unwrap_or("");
        if let Some(ooms) = label.strip_prefix("CUDA OOMs:") {
            self.summary.num_ooms = ooms.trim().parse().ok();
            let retries = fields.next().and_then(|f| f.strip_prefix("cudaMalloc retries:"));
            self.summary.num_alloc_retries = retries.and_then(|n| n.trim().parse().ok());
            return true;
        }
        let pool = match label {
            "from large pool" => Pool::LargePool,
            "from small pool" => Pool::SmallPool,
            _ => {
                self.metric = LABELS.iter().find(|l| l.0 == label).map(|l| l.1);
                Pool::All
            }
        };
        let Some(metric) = self.metric else { return false };
        // A table has 29 rows; more are several tables whose heads are missing.
        if self.summary.rows.len() >= 64 {
            return true;
        }
        let mut cell = || fields.next().and_then(|text| self.summary.cell(text, metric));
        let (current, peak, allocated, freed) = (cell(), cell(), cell(), cell());
        self.summary.rows.push(Row { metric, pool, current, peak, allocated, freed });
        true
    }
}

impl Summary {
    /// `1062 MB`, `46080 KiB`, `812`, `90 K`.
    fn cell(&mut self, text: &str, metric: Metric) -> Option<Cell> {
        let (number, unit) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let number: u64 = number.parse().ok()?;
        let unit = unit.trim();
        let is_bytes = matches!(
            metric,
            Metric::AllocatedBytes
                | Metric::ActiveBytes
                | Metric::RequestedBytes
                | Metric::ReservedBytes
                | Metric::InactiveSplitBytes
        );
        let power = match unit.as_bytes().first() {
            None | Some(b'B') => 0,
            Some(b'K') => 1,
            Some(b'M') => 2,
            Some(b'G') => 3,
            Some(b'T') => 4,
            Some(b'P') => 5,
            Some(_) => return None,
        };
        if unit.ends_with("iB") || metric == Metric::RequestedBytes {
            self.releases = self.releases.and(Releases::from(2, 0));
        } else if unit.len() == 2 {
            self.releases = self.releases.and(Releases::ANY.below(2, 0));
        }
        let scale = if is_bytes { 1024u64 } else { 1000 }.pow(power);
        let least = number.saturating_mul(scale);
        Some(Cell { least, most: least.saturating_add(scale - 1) })
    }
}
