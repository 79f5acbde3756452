//! Figures that training loops print per step.
//!
//! Loops print memory in their own words: `key=value`, `key: value`, tables, JSON lines, the postfix of a progress
//! bar. What counts is read off the words: a counter (`step`, `iter`, `batch`, `epoch`), a quantity
//! ([`Measure`]), a number, a unit. Figures of one quantity make a [`StepSeries`]; a separator line
//! (`--- without detach ---`) or different words before the figures begin another.

mod amount;
mod beside;
mod header;
mod key;
mod lesson;
mod recogniser;
mod scan;
mod table;

use serde::Serialize;

use crate::series::Series;

pub use amount::Unit;
pub(crate) use amount::{Digits, Number, leading};
pub use beside::recognisers;
pub use key::Measure;
pub use recogniser::Steps;
pub(crate) use scan::numbers;

/// Memory figures of a log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepLog {
    /// Samples: lines, or steps where a line holds several.
    pub samples: u64,
    /// One series for each quantity, in the order of their first figures.
    pub series: Vec<StepSeries>,
    /// Comments that stand behind figures, at most 8 different ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// What the log does not say and was taken to be so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// Figures beyond the series that are kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub figures_left_out: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One quantity of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepSeries {
    /// What it measures.
    pub measure: Measure,
    /// The separator line above it.
    pub variant: Option<String>,
    /// Words that its lines have in common, and others have not: `autocast=on`, `val`.
    pub label: Option<String>,
    /// The device that its key names.
    pub device: Option<u32>,
    /// The rank that its lines name.
    pub rank: Option<u32>,
    /// How its numbers were read.
    pub unit: Unit,
    /// The figures.
    pub figures: Series,
}

impl StepLog {
    /// The series of `measure` that belongs to the same lines as `like`.
    pub fn beside(&self, like: &StepSeries, measure: Measure) -> Option<&StepSeries> {
        self.series.iter().find(|one| {
            one.measure == measure
                && one.variant == like.variant
                && one.label == like.label
                && one.rank == like.rank
                && one.device == like.device
        })
    }
}

/// At most `most` bytes of a text, cut between letters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
