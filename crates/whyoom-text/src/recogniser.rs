//! What a recogniser is.

use crate::{Again, Fact, Line, Place, Reading, Sketch};

/// Readings on their way out, in the order of their places.
#[derive(Debug, Default)]
pub struct Found {
    readings: Vec<Reading>,
}

impl Found {
    /// Adds a fact read from the lines that begin at `place`.
    pub fn add(&mut self, place: Place, rank: Option<u32>, fact: Fact) {
        self.readings.push(Reading { place, rank, occurrences: 1, fact });
    }

    /// Takes what was found since the last call.
    pub fn take(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.readings)
    }

    /// Whether nothing was found since the last call of [`Self::take`].
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }
}

/// Finds one family of texts in a stream of lines; holds bounded state between lines.
pub trait Recogniser {
    /// Lower-case ASCII words of which a line must hold one to begin something (a filter before [`Self::line`];
    /// compared without case). A recogniser that is in the middle of something sees every line.
    fn needles(&self) -> &'static [&'static str];

    /// Whether the next line belongs to something begun.
    fn is_inside(&self) -> bool {
        false
    }

    /// Whether a line may matter, by a glance at its bytes; what a line without effect leaves behind is done here.
    fn heeds(&mut self, _raw: &[u8]) -> bool {
        true
    }

    /// Whether it learns at all.
    fn learns(&self) -> bool {
        false
    }

    /// Whether it knows, by this line, what any line with the same sketch is to it, and whether it claims them:
    /// such lines it is told by [`Self::again`], under the same `index`. It may keep numbers from changing.
    fn learn(&mut self, _line: &Line<'_>, _index: usize, _sketch: &mut Sketch) -> Option<bool> {
        None
    }

    /// Sees a line like one that it has learnt. `false`, with nothing done, if it needs to see the line in full.
    fn again(&mut self, _index: usize, _line: &Again<'_>) -> bool {
        false
    }

    /// Sees one line. `true` if the line is its own, and no other recogniser needs to see it.
    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool;

    /// The text ends: what was begun is given out, marked as cut where it is.
    fn end(&mut self, found: &mut Found);
}
