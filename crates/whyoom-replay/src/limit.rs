//! What the allocator may reserve, as far as a recording shows it.

/// Where a limit is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The driver was out of memory: reserved plus its free bytes.
    Card,
    /// A cap refused although the driver had room.
    Fraction,
    /// Refusals without an `oom` event (retries that succeeded).
    Refusals,
    /// Given by the caller.
    Argument,
    /// Nothing was ever refused.
    Unknown,
}

/// An interval for the limit: growth to `low` was allowed, growth to more than `high` was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitInterval {
    /// Largest reserved total that was allowed.
    pub low: u64,
    /// Largest total that may be allowed; `None` = nothing was refused.
    pub high: Option<u64>,
    /// Where it is known from.
    pub source: LimitSource,
    /// Allowed growth above a refused total was seen: the limit changed while the program ran.
    pub is_inconsistent: bool,
}

impl LimitInterval {
    pub(crate) fn new() -> Self {
        Self { low: 0, high: None, source: LimitSource::Unknown, is_inconsistent: false }
    }
    pub(crate) fn allowed(&mut self, total: u64) {
        self.low = self.low.max(total);
        self.check();
    }
    pub(crate) fn refused(&mut self, total: u64) {
        let below = total.saturating_sub(1);
        self.high = Some(self.high.map_or(below, |h| h.min(below)));
        if self.source == LimitSource::Unknown {
            self.source = LimitSource::Refusals;
        }
        self.check();
    }
    fn check(&mut self) {
        self.is_inconsistent |= self.high.is_some_and(|h| h < self.low);
    }
    /// The total a remedy must stay within to be called safe; `None` if nothing was refused.
    pub fn safe(&self) -> Option<u64> {
        self.high.map(|high| self.low.min(high))
    }
}
