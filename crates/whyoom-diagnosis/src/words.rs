//! Numbers inside sentences: binary units with three significant figures, counts with separators.
//!
//! Findings are data, but their statements are sentences, and a figure reads the same wherever it stands.

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `bytes` with three significant figures: `512 B`, `1.56 GiB`, `130 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    for (i, unit) in UNITS.iter().enumerate() {
        // 999.5 would round to four digits; the next unit takes it.
        if value < 999.5 || i + 1 == UNITS.len() {
            return format!("{} {unit}", three_figures(value));
        }
        value /= 1024.0;
    }
    format!("{bytes} B")
}

fn three_figures(value: f64) -> String {
    match value {
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// `n` with thousands separators.
pub(crate) fn count(n: u64) -> String {
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

/// `1 step`, `10 steps`.
pub(crate) fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A ratio with two significant figures: `1.3`, `11`.
pub(crate) fn ratio(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// Last part of a path, as people name a file.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// `name` as it is called: `lm()`, but `<module>` as it is.
pub(crate) fn callable(name: &str) -> String {
    if name.is_empty() || name.ends_with(['>', ')']) { name.to_owned() } else { format!("{name}()") }
}

/// `lm() scenarios.py:158`.
pub(crate) fn line(function: &str, file: &str, line: u32) -> String {
    let at = if line == 0 { file_name(file).to_owned() } else { format!("{}:{line}", file_name(file)) };
    if function.is_empty() { at } else { format!("{} {at}", callable(function)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_in_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.977 KiB"),
            (20 << 20, "20.0 MiB"),
            (1000 << 20, "0.977 GiB"),
            (1_677_721_600, "1.56 GiB"),
            (9 << 30, "9.00 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(count(38_976), "38,976");
        assert_eq!(ratio(3.04), "3.0");
        assert_eq!(ratio(79.4), "79");
    }

    #[test]
    fn lines_of_code() {
        assert_eq!(line("lm", "/a/scenarios.py", 158), "lm() scenarios.py:158");
        assert_eq!(line("<module>", "a.py", 0), "<module> a.py");
    }
}
