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
    bytes_to(bytes, 0)
}

/// `bytes` as [`human_bytes`] writes it, with `more` digits.
fn bytes_to(bytes: u64, more: usize) -> String {
    match unit_of(bytes) {
        None => exact_bytes(bytes),
        Some(unit) => format!("{} {}", in_unit(bytes, unit, more), UNITS[unit]),
    }
}

/// Index of the unit that `bytes` is written in; `None` for plain bytes.
fn unit_of(bytes: u64) -> Option<usize> {
    if bytes < 1024 {
        return None;
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would round to 1,024; the next unit takes it.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    Some(unit)
}

fn in_unit(bytes: u64, unit: usize, more: usize) -> String {
    let value = bytes as f64 / (1u64 << (10 * (unit + 1))) as f64;
    let text = three_figures(value);
    if more == 0 {
        return text;
    }
    let decimals = text.split_once('.').map_or(0, |(_, d)| d.len()) + more;
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{}.{fraction}", count(whole.parse().unwrap_or(0)))
}

/// `values` as text, with as many digits as it takes for different values to read differently; where that is too many,
/// with three figures each.
///
/// # Example
///
/// ```
/// use whyoom_diagnosis::number::bytes_apart;
/// let mib = 1 << 20;
/// assert_eq!(bytes_apart([142_000 * mib, 142_060 * mib]), ["138.67 GiB", "138.73 GiB"].map(String::from));
/// assert_eq!(bytes_apart([512 * mib, 512 * mib]), ["512 MiB", "512 MiB"].map(String::from));
/// ```
pub fn bytes_apart<const N: usize>(values: [u64; N]) -> [String; N] {
    const MOST: usize = 3;
    let told_apart =
        |texts: &[String; N]| (0..N).all(|i| (0..i).all(|j| (values[i] == values[j]) == (texts[i] == texts[j])));
    (0..=MOST).map(|more| values.map(|v| bytes_to(v, more))).find(told_apart).unwrap_or_else(|| values.map(human_bytes))
}

/// Both ends of a range in the unit of the higher one, which is written once: `0.994` and `1.01 GiB`. The lower end keeps
/// its own unit where it would be less than a tenth of the other; `None` where both read the same.
pub fn bytes_range(low: u64, high: u64) -> Option<(String, String)> {
    let (a, b) = (human_bytes(low), human_bytes(high));
    if a == b {
        return None;
    }
    let unit = unit_of(high).filter(|_| low >= high / 10);
    let digits = |text: &str| text.split(' ').next().unwrap_or(text).to_owned();
    let lower = match unit {
        Some(unit) if unit_of(low) != Some(unit) => {
            // What rounds up to the other end is told apart by further digits.
            let value = |text: &str| text.parse::<f64>().ok();
            let differs = |text: &String| value(text) != value(&digits(&b));
            (0..4).map(|more| in_unit(low, unit, more)).find(differs).unwrap_or(a)
        }
        Some(_) => digits(&a),
        None => a,
    };
    Some((lower, b))
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

/// `3.2 s`, `14 min` from microseconds.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.1} s", us as f64 / 1e6),
        120_000_000..7_200_000_000 => format!("{} min", us / 60_000_000),
        _ => format!("{} h", us / 3_600_000_000),
    }
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
    fn what_differs_reads_differently() {
        assert_eq!(bytes_apart([138 * GIB, 139 * GIB]), ["138 GiB", "139 GiB"]);
        assert_eq!(bytes_apart([139 * GIB, 139 * GIB + 64 * MIB]), ["139.0 GiB", "139.1 GiB"]);
        assert_eq!(bytes_apart([2 * GIB, 2 * GIB + 3 * MIB]), ["2.000 GiB", "2.003 GiB"]);
        assert_eq!(bytes_apart([1000 * MIB, 1000 * MIB + MIB / 4]), ["1,000.0 MiB", "1,000.2 MiB"]);
        // A byte is not worth ten digits.
        assert_eq!(bytes_apart([GIB, GIB + 1]), ["1.00 GiB", "1.00 GiB"]);
    }

    #[test]
    fn a_range_has_one_unit() {
        let range = |low, high| bytes_range(low, high).map(|(a, b)| format!("{a} to {b}"));
        assert_eq!(range(GIB, GIB + 1), None);
        assert_eq!(range(1018 * MIB, 1034 * MIB).as_deref(), Some("0.994 to 1.01 GiB"));
        assert_eq!(range(800 * MIB, 812 * MIB).as_deref(), Some("800 to 812 MiB"));
        assert_eq!(range(20 * MIB, GIB).as_deref(), Some("20.0 MiB to 1.00 GiB"));
        assert_eq!(range(1023 * MIB, GIB).as_deref(), Some("0.999 to 1.00 GiB"));
        assert_eq!(range(GIB - MIB / 2 - 1, GIB).as_deref(), Some("0.9995 to 1.00 GiB"));
        assert_eq!(range(3, 900).as_deref(), Some("3 B to 900 B"));
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
