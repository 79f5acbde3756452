//! What the allocator may reserve: given, or as the recording shows it.

use crate::LimitChoice;
use crate::explanation::LimitReport;
use crate::words;
use whyoom_replay::{LimitInterval, LimitKind, LimitSource};

/// The limit as an interval, and how it refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// The limit is at least this; `None` = unknown or unlimited.
    pub(crate) low: Option<u64>,
    /// The limit is at most this; `None` = unknown or unlimited.
    pub(crate) high: Option<u64>,
    /// Name in the contract.
    pub(crate) source: &'static str,
    pub(crate) kind: LimitKind,
}

impl Limit {
    /// `given` wins over what was `inferred`.
    pub(crate) fn new(inferred: Option<LimitInterval>, given: Option<LimitChoice>) -> Self {
        let unknown = Self { low: None, high: None, source: "unknown", kind: LimitKind::Fraction };
        // A cap that was refused below tells how it refuses; so does a full card, whatever the size given.
        let kind = match inferred.map(|i| i.source) {
            Some(LimitSource::Card) => LimitKind::Card,
            _ => LimitKind::Fraction,
        };
        match given {
            Some(LimitChoice::Bytes(bytes)) => Self { low: Some(bytes), high: Some(bytes), source: "argument", kind },
            Some(LimitChoice::Card(bytes)) => {
                Self { low: Some(bytes), high: Some(bytes), source: "argument", kind: LimitKind::Card }
            }
            Some(LimitChoice::None) => Self { source: "argument", ..unknown },
            None => inferred.and_then(|i| Self::inferred(&i, kind)).unwrap_or(unknown),
        }
    }

    /// The limit while recording: `given` if it lies in the inferred interval. A larger or smaller one is a question
    /// about another run, and does not change why this one failed.
    pub(crate) fn in_effect(inferred: LimitInterval, given: Option<LimitChoice>) -> Self {
        let own = Self::new(Some(inferred), None);
        let is_possible = match (given, own.low, own.high) {
            (Some(LimitChoice::Bytes(bytes) | LimitChoice::Card(bytes)), low, high) => {
                low.is_none_or(|l| bytes >= l) && high.is_none_or(|h| bytes <= h)
            }
            (Some(LimitChoice::None), _, high) => high.is_none(),
            (None, ..) => false,
        };
        if is_possible { Self::new(Some(inferred), given) } else { own }
    }

    fn inferred(interval: &LimitInterval, kind: LimitKind) -> Option<Self> {
        let low = interval.safe()?;
        let source = match interval.source {
            LimitSource::Card => "card",
            LimitSource::Fraction => "fraction",
            // Retries that succeeded leave no `oom` entry; what was refused and what was allowed are the same evidence.
            LimitSource::Refusals => "oom_event",
            LimitSource::Argument => "argument",
            LimitSource::Unknown => "unknown",
        };
        Some(Self { low: Some(low), high: interval.high.map(|h| h.max(low)), source, kind })
    }

    pub(crate) fn report(&self) -> LimitReport {
        LimitReport { low_bytes: self.low, high_bytes: self.high, source: self.source }
    }

    /// `a limit of 9.00 GiB`, `a limit between 8.86 and 9.06 GiB`; `None` where it is not known.
    pub(crate) fn in_words(&self) -> Option<String> {
        let low = self.low?;
        Some(match words::bytes_range(low, self.high.unwrap_or(low)) {
            None => format!("a limit of {}", words::bytes(low)),
            Some((low, high)) => format!("a limit between {low} and {high}"),
        })
    }

    /// Whether memory collection works: only where a fraction is set does PyTorch look at the threshold.
    pub(crate) fn collects(&self) -> bool {
        self.low.is_some() && self.kind == LimitKind::Fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn intervals_in_words() {
        let limit = |low, high| Limit { low, high, source: "fraction", kind: LimitKind::Fraction };
        assert_eq!(limit(None, None).in_words(), None);
        assert_eq!(limit(Some(9 * GIB), Some(9 * GIB)).in_words().as_deref(), Some("a limit of 9.00 GiB"));
        assert_eq!(
            limit(Some(8 * GIB), Some(9 * GIB)).in_words().as_deref(),
            Some("a limit between 8.00 and 9.00 GiB")
        );
        assert_eq!(limit(Some(900 << 20), Some(GIB)).in_words().as_deref(), Some("a limit between 0.879 and 1.00 GiB"));
    }

    #[test]
    fn a_limit_that_the_recording_contradicts_was_not_in_effect() {
        let seen =
            LimitInterval { low: 8 * GIB, high: Some(9 * GIB), source: LimitSource::Fraction, is_inconsistent: false };
        let source = |given| Limit::in_effect(seen, given).source;
        assert_eq!(source(Some(LimitChoice::Bytes(8 * GIB + 1))), "argument");
        assert_eq!(source(Some(LimitChoice::Bytes(40 * GIB))), "fraction");
        assert_eq!(source(Some(LimitChoice::None)), "fraction");
        assert_eq!(Limit::new(Some(seen), Some(LimitChoice::Bytes(40 * GIB))).low, Some(40 * GIB));
    }
}
