//! The one place where numbers become text: binary units with three significant figures, counts with
//! thousands separators, ordinals.
//!
//! Every view formats through [`Numbers`], so that a figure reads the same wherever it is shown.

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

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

    /// `low` to `high`, or one figure where both would read the same.
    pub fn bytes_range(self, low: u64, high: u64) -> String {
        let (a, b) = (self.bytes(low), self.bytes(high));
        if a == b { a } else { format!("{a} to {b}") }
    }
}

/// `bytes` with three significant figures in a binary unit: `512 B`, `1.56 GiB`, `26.2 GiB`, `130 GiB`.
///
/// The unit changes at 1000, not 1024, so that no figure needs a fourth digit: 1000 MiB is `0.977 GiB`.
///
/// # Example
///
/// ```
/// use whyoom_report::number::human_bytes;
/// assert_eq!(human_bytes(9 << 30), "9.00 GiB");
/// assert_eq!(human_bytes(1_677_721_600), "1.56 GiB");
/// ```
pub fn human_bytes(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    for (i, unit) in UNITS.iter().enumerate() {
        let text = three_figures(value);
        if text.len() <= 5 || i + 1 == UNITS.len() {
            return format!("{text} {unit}");
        }
        value /= 1024.0;
    }
    exact_bytes(bytes)
}

/// Three significant figures, more digits only from 1000 on (which the caller turns into the next unit).
fn three_figures(value: f64) -> String {
    // The thresholds are where rounding would carry into another digit: 9.995 reads 10.0, not 10.00.
    if value < 0.9995 {
        format!("{value:.3}")
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else if value < 999.5 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

/// `bytes` exactly, with thousands separators: `1,677,721,600 B`.
pub fn exact_bytes(bytes: u64) -> String {
    format!("{} B", count(bytes))
}

/// `n` with thousands separators: `38,976`.
///
/// # Example
///
/// ```
/// assert_eq!(whyoom_report::number::count(38_976), "38,976");
/// ```
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `n` of something: `1 step`, `10 steps`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `n`-th: `1st`, `2nd`, `11th`, `1,023rd`.
///
/// Steps are shown so, because "step 10" reads differently to people who count from 0 and from 1.
pub fn ordinal(n: u64) -> String {
    let suffix = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{}{suffix}", count(n))
}

/// A plain number: whole ones with separators, others with three significant figures.
pub fn plain(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..9.0e15).contains(&value) {
        return count(value as u64);
    }
    if !(0.0..999.5).contains(&value) {
        return format!("{value:.1}");
    }
    three_figures(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn bytes_have_three_significant_figures() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (512, "512 B"),
            (999, "999 B"),
            (1000, "0.977 KiB"),
            (1023, "0.999 KiB"),
            (1024, "1.00 KiB"),
            (2 * MIB, "2.00 MiB"),
            (20 * MIB, "20.0 MiB"),
            (999 * MIB, "999 MiB"),
            (1000 * MIB, "0.977 GiB"),
            (1023 * MIB, "0.999 GiB"),
            (GIB - 1, "1.00 GiB"),
            (GIB, "1.00 GiB"),
            (1_677_721_600, "1.56 GiB"),
            (9 * GIB, "9.00 GiB"),
            (10 * GIB - 1, "10.0 GiB"),
            (100 * GIB - 1, "100 GiB"),
            (130 * GIB, "130 GiB"),
            (999 * GIB, "999 GiB"),
            (1000 * GIB, "0.977 TiB"),
            (1 << 40, "1.00 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(human_bytes(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn every_size_reads_in_three_figures() {
        let mut bytes = 1u64;
        while bytes < 1 << 62 {
            for b in [bytes - 1, bytes, bytes + 1, bytes / 10 * 9] {
                let digits = human_bytes(b).chars().filter(char::is_ascii_digit).count();
                assert!(digits <= 4, "{b}: {}", human_bytes(b));
            }
            bytes += bytes / 10 + 1;
        }
    }

    #[test]
    fn counts_have_separators() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (38_976, "38,976"), (1_000_000, "1,000,000")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(exact_bytes(1_677_721_600), "1,677,721,600 B");
    }

    #[test]
    fn ordinals() {
        for (n, text) in [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (12, "12th"),
            (13, "13th"),
            (21, "21st"),
            (112, "112th"),
            (1023, "1,023rd"),
        ] {
            assert_eq!(ordinal(n), text);
        }
    }

    #[test]
    fn ranges_collapse_when_they_read_the_same() {
        let n = Numbers::default();
        assert_eq!(n.bytes_range(GIB, GIB + 1), "1.00 GiB");
        assert_eq!(n.bytes_range(GIB, 2 * GIB), "1.00 GiB to 2.00 GiB");
        assert_eq!(Numbers { exact_bytes: true }.bytes_range(1024, 1025), "1,024 B to 1,025 B");
    }

    #[test]
    fn plain_numbers() {
        assert_eq!(plain(12_345.0), "12,345");
        assert_eq!(plain(0.5), "0.500");
        assert_eq!(plain(2.25), "2.25");
    }
}
