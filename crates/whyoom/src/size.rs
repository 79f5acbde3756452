//! SIZE arguments: `9663676416`, `9GiB`, `512MiB`, `2.5GiB`.

use std::fmt;

/// Units by name, in bytes.
const UNITS: [(&str, u64); 5] = [("b", 1), ("kib", 1 << 10), ("mib", 1 << 20), ("gib", 1 << 30), ("tib", 1 << 40)];
/// More digits after the point than any size needs; keeps the arithmetic within 128 bits.
const MAX_FRACTION_DIGITS: usize = 12;

/// The text is no size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeError {
    /// No number where one is needed.
    NotANumber(String),
    /// An unknown unit; the second is what was probably meant.
    Unit(String, Option<String>),
    /// Nothing fits in nothing.
    Zero,
    /// Fewer bytes than any segment has; most likely the unit is missing.
    TooSmall(String),
    /// More than 64 bits of bytes.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(text) => write!(f, "`{text}` is no size; write it like 9GiB, 512MiB or 9663676416"),
            Self::Unit(unit, Some(meant)) => {
                write!(f, "`{unit}` may mean powers of 1000 or of 1024; write {meant}, or the number of bytes")
            }
            Self::Unit(unit, None) => {
                write!(f, "`{unit}` is no unit; use KiB, MiB, GiB or TiB, as in 9GiB, or the number of bytes")
            }
            Self::Zero => write!(f, "a limit of nothing fits nothing; write a size like 9GiB, or none for no limit"),
            Self::TooSmall(number) => {
                write!(
                    f,
                    "`{number}` is that many bytes, less than the smallest segment; is {number}GiB or {number}MiB meant?"
                )
            }
            Self::TooLarge => write!(f, "that is more than 16 million TiB; write a size like 9GiB"),
        }
    }
}

impl std::error::Error for SizeError {}

/// Reads a size: a whole number of bytes, or a decimal number with a binary unit (any case, space allowed).
///
/// Fractions of a byte are rounded to the nearest.
///
/// # Errors
///
/// [`SizeError`], whose text says what to write.
///
/// # Example
///
/// ```
/// assert_eq!(whyoom::parse_size("9GiB"), Ok(9_663_676_416));
/// assert_eq!(whyoom::parse_size("2.5 MiB"), Ok(2_621_440));
/// assert!(whyoom::parse_size("9GB").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let bad = || SizeError::NotANumber(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(bad());
    }
    let unit_bytes = match unit {
        // A fraction needs a unit: 9.5 bytes is a slip.
        "" if number.contains('.') => return Err(bad()),
        "" => 1,
        _ => unit_bytes(unit).ok_or_else(|| unknown_unit(unit, number).unwrap_or_else(bad))?,
    };
    if fraction.len() > MAX_FRACTION_DIGITS {
        return Err(bad());
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let digits: u128 = if fraction.is_empty() { whole.to_owned() } else { format!("{whole}{fraction}") }
        .parse()
        .map_err(|_| SizeError::TooLarge)?;
    let bytes = digits.checked_mul(u128::from(unit_bytes)).ok_or(SizeError::TooLarge)?;
    let rounded = bytes.checked_add(scale / 2).ok_or(SizeError::TooLarge)? / scale;
    match u64::try_from(rounded) {
        Ok(0) => Err(SizeError::Zero),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(SizeError::TooLarge),
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).map(|(_, bytes)| *bytes)
}

/// What is wrong with `unit`; `None` if it is no word at all.
fn unknown_unit(unit: &str, number: &str) -> Option<SizeError> {
    if !unit.chars().all(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    let meant = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => Some("KiB"),
        "m" | "mb" => Some("MiB"),
        "g" | "gb" => Some("GiB"),
        "t" | "tb" => Some("TiB"),
        _ => None,
    };
    Some(SizeError::Unit(unit.to_owned(), meant.map(|m| format!("{number}{m}"))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("9663676416", 9_663_676_416),
            ("9GiB", 9 << 30),
            ("9 GiB", 9 << 30),
            ("9gib", 9 << 30),
            ("512MiB", 512 << 20),
            ("1.5KiB", 1536),
            (".5GiB", 1 << 29),
            ("2.GiB", 2 << 30),
            ("0.1GiB", 107_374_182),
            ("1b", 1),
            ("1 B", 1),
            ("3TiB", 3 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn no_sizes() {
        for text in [
            "",
            " ",
            "GiB",
            "much",
            "-1",
            "-1GiB",
            "+1",
            "1.2.3GiB",
            ".",
            ".GiB",
            "9.5",
            "1,5GiB",
            "9,663,676,416",
            "1e9",
            "0x10",
            "9GiB!",
            "9 G iB",
            "∞",
            "९GiB",
            "0",
            "0GiB",
            "0.0000000001KiB",
            "99999999999999999999",
            "16777216TiB",
            "1.0000000000000000000001GiB",
            "9GB",
            "9G",
            "9M",
            "9xyz",
        ] {
            let error = parse_size(text).expect_err(text).to_string();
            assert!(error.contains("GiB") || error.contains("MiB"), "{text}: no example in: {error}");
        }
    }

    #[test]
    fn ambiguous_units_say_what_to_write() {
        assert_eq!(
            parse_size("24GB").map_err(|e| e.to_string()),
            Err("`GB` may mean powers of 1000 or of 1024; write 24GiB, or the number of bytes".to_owned())
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = parse_size(&text);
        }

        #[test]
        fn bytes_read_back(bytes in 1u64..) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }
    }
}
