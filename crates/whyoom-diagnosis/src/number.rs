//! The one place where numbers become text: binary units with three significant figures, counts with thousands
//! separators.
//!
//! Statements and notes are written with these, and presenters format with the same ones, so that a figure reads the
//! same wherever it is shown.

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `bytes` with three significant figures in a binary unit: `512 B`, `1.56 GiB`, `26.2 GiB`, `130 GiB`.
///
/// The unit changes at 1024 and never before, so that what fills a unit is not written as a fraction of the next:
/// 1001 MiB is `1,001 MiB`.
///
/// # Example
///
/// ```
/// use whyoom_diagnosis::number::human_bytes;
/// assert_eq!(human_bytes(9 << 30), "9.00 GiB");
/// assert_eq!(human_bytes(1_677_721_600), "1.56 GiB");
/// assert_eq!(human_bytes(1001 << 20), "1,001 MiB");
/// ```
pub fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return exact_bytes(bytes);
    }
    let mut value = bytes as f64 / 1024.0;
    for (i, unit) in UNITS.iter().enumerate() {
        // 1023.5 would round to 1,024; the next unit takes it.
        if value < 1023.5 || i + 1 == UNITS.len() {
            return format!("{} {unit}", three_figures(value));
        }
        value /= 1024.0;
    }
    exact_bytes(bytes)
}

/// Three significant figures; whole numbers with separators from 1000 on.
fn three_figures(value: f64) -> String {
    // The thresholds are where rounding would carry into another digit: 9.995 reads 10.0, not 10.00.
    match value {
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
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
/// assert_eq!(whyoom_diagnosis::number::count(38_976), "38,976");
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
    if value < 0.0 { format!("{value:.1}") } else { three_figures(value) }
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
            (1000, "1,000 B"),
            (1023, "1,023 B"),
            (1024, "1.00 KiB"),
            (2 * MIB, "2.00 MiB"),
            (20 * MIB, "20.0 MiB"),
            (999 * MIB, "999 MiB"),
            (1000 * MIB, "1,000 MiB"),
            (1023 * MIB, "1,023 MiB"),
            (1023 * MIB + MIB / 2, "1.00 GiB"),
            (GIB - 1, "1.00 GiB"),
            (GIB, "1.00 GiB"),
            (1_677_721_600, "1.56 GiB"),
            (9 * GIB, "9.00 GiB"),
            (10 * GIB - 1, "10.0 GiB"),
            (100 * GIB - 1, "100 GiB"),
            (130 * GIB, "130 GiB"),
            (999 * GIB, "999 GiB"),
            (1000 * GIB, "1,000 GiB"),
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
    fn plain_numbers() {
        assert_eq!(plain(12_345.0), "12,345");
        assert_eq!(plain(0.5), "0.500");
        assert_eq!(plain(2.25), "2.25");
    }
}
