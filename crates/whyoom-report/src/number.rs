//! How byte quantities are written. The words for numbers are those of the diagnosis, so that a figure reads the same
//! in a statement and beside it.

pub use whyoom_diagnosis::number::{bytes_range, count, duration, exact_bytes, human_bytes, ordinal, plain, plural};

/// How byte quantities are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// `true`: exact bytes (`1,677,721,600 B`); `false` (default): three significant figures (`1.56 GiB`).
    pub exact_bytes: bool,
}

impl Numbers {
    /// `bytes` as text, per [`Numbers::exact_bytes`].
    pub fn bytes(self, bytes: u64) -> String {
        if self.exact_bytes { exact_bytes(bytes) } else { human_bytes(bytes) }
    }

    /// `low` to `high` in one unit, or one figure where both would read the same.
    pub fn bytes_range(self, low: u64, high: u64) -> String {
        let ends = if self.exact_bytes {
            (low != high).then(|| (exact_bytes(low), exact_bytes(high)))
        } else {
            bytes_range(low, high)
        };
        ends.map_or_else(|| self.bytes(high), |(a, b)| format!("{a} to {b}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn ranges_collapse_when_they_read_the_same() {
        let n = Numbers::default();
        assert_eq!(n.bytes_range(GIB, GIB + 1), "1.00 GiB");
        assert_eq!(n.bytes_range(GIB, 2 * GIB), "1.00 to 2.00 GiB");
        assert_eq!(Numbers { exact_bytes: true }.bytes_range(1024, 1025), "1,024 B to 1,025 B");
    }
}
