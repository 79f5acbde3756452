//! Numbers inside sentences: binary units with three significant figures, counts with separators.
//!
//! Findings are data, but their statements are sentences, and a figure reads the same wherever it stands.

pub(crate) use crate::number::{bytes_apart, bytes_range, count, duration, human_bytes as bytes, ordinal, plural};

/// `bytes` as PyTorch's messages write them (`format_size`, all releases): two decimals.
pub(crate) fn bytes_of_pytorch(bytes: u64) -> String {
    let value = |unit: u32| bytes as f64 / f64::from(unit);
    match bytes {
        0..=1024 => format!("{bytes} bytes"),
        1025..=0x10_0000 => format!("{:.2} KiB", value(1 << 10)),
        0x10_0001..=0x4000_0000 => format!("{:.2} MiB", value(1 << 20)),
        _ => format!("{:.2} GiB", value(1 << 30)),
    }
}

/// A ratio with two significant figures: `1.3`, `11`.
pub(crate) fn ratio(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// `text` with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
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
    fn ratios() {
        assert_eq!(ratio(3.04), "3.0");
        assert_eq!(ratio(79.4), "79");
    }

    #[test]
    fn sizes_as_pytorch_writes_them() {
        assert_eq!(bytes_of_pytorch(20 << 20), "20.00 MiB");
        assert_eq!(bytes_of_pytorch(1_677_721_600), "1.56 GiB");
        assert_eq!(bytes_of_pytorch(1 << 30), "1024.00 MiB");
    }

    #[test]
    fn lines_of_code() {
        assert_eq!(line("lm", "/a/scenarios.py", 158), "lm() scenarios.py:158");
        assert_eq!(line("<module>", "a.py", 0), "<module> a.py");
    }
}
