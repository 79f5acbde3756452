//! Numbers with units, as people print them.

use serde::Serialize;

/// How a unit is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// As printed, in its usual spelling; empty where none is printed.
    pub name: &'static str,
    /// Bytes in one.
    pub bytes: u64,
    /// Bytes in one if it was meant the other way: `MB` and `GB` are printed by programs that divide by 1000s and
    /// by programs that divide by 1024s. Figures are given the decimal way, so their digits stay those of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub or_bytes: Option<u64>,
    /// Whether nothing is printed and the size of the figures decided.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

const fn binary(name: &'static str, power: u32) -> Unit {
    Unit { name, bytes: 1 << (10 * power), or_bytes: None, assumed: false }
}

const fn either(name: &'static str, power: u32) -> Unit {
    Unit { name, bytes: 1000_u64.pow(power), or_bytes: Some(1 << (10 * power)), assumed: false }
}

impl Unit {
    /// Single bytes.
    pub const BYTES: Self = binary("bytes", 0);
    /// 2²⁰ bytes.
    pub const MIB: Self = binary("MiB", 2);
    /// 2³⁰ bytes.
    pub const GIB: Self = binary("GiB", 3);

    /// The unit with this name, whatever its case; single letters only as capitals.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if matches!(name, "B" | "K" | "M" | "G" | "T") {
            return Self::named(match name {
                "B" => "bytes",
                "K" => "kb",
                "M" => "mb",
                "G" => "gb",
                _ => "tb",
            });
        }
        // The longest name is `megabytes`.
        if name.len() > 9 || !name.is_ascii() {
            return None;
        }
        let mut lower = [0; 9];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        Some(match str::from_utf8(lower).ok()? {
            "byte" | "bytes" => Self::BYTES,
            "kib" | "ki" => binary("KiB", 1),
            "mib" | "mi" | "mibs" => Self::MIB,
            "gib" | "gi" | "gibs" => Self::GIB,
            "tib" | "ti" => binary("TiB", 4),
            "kb" | "kilobytes" => either("KB", 1),
            "mb" | "mbs" | "megabytes" | "mbyte" | "mbytes" => either("MB", 2),
            "gb" | "gbs" | "gigabytes" | "gbyte" | "gbytes" => either("GB", 3),
            "tb" | "terabytes" => either("TB", 4),
            _ => return None,
        })
    }
}

/// A number in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    pub start: usize,
    /// End of the number, its unit and its percent sign.
    pub end: usize,
    pub value: f64,
    /// Digits after the point.
    pub decimals: u32,
    pub unit: Option<Unit>,
    /// What follows makes it no size: `%`, `/s`, a letter, a clock.
    pub is_other: bool,
}

impl Number {
    /// The value as bytes of a unit and half of its last digit; `None` if it is negative, no number, or above 2⁶³.
    pub(crate) fn bytes(&self, unit: Unit) -> Option<(u64, u64)> {
        const MOST: f64 = 9.2e18;
        let value = self.value * unit.bytes as f64;
        if !(0.0..MOST).contains(&value) {
            return None;
        }
        let last_digit = unit.bytes as f64 / 10_f64.powi(self.decimals.min(30) as i32);
        let within = if unit.bytes == 1 && self.decimals == 0 { 0.0 } else { last_digit / 2.0 };
        Some((value.round() as u64, within.round() as u64))
    }

    /// The value as an index or count.
    pub(crate) fn count(&self) -> Option<u64> {
        (self.decimals == 0 && self.value >= 0.0 && self.value < 1e15).then_some(self.value as u64)
    }
}

/// A number and its unit as they stand at the beginning of a text: `11MiB`, `24.00 GiB`, `1,024 MB`.
pub(crate) fn leading(text: &str) -> Option<Number> {
    let trimmed = text.trim_start();
    let skipped = text.len() - trimmed.len();
    let number = number_at(trimmed, 0)?;
    Some(Number { start: number.start + skipped, end: number.end + skipped, ..number })
}

/// The digits of a number, without its sign and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits {
    /// Behind the last digit.
    pub end: usize,
    /// Digits after the point.
    pub decimals: u32,
    /// Commas between groups of three.
    pub commas: u32,
    /// Digits before and after the point.
    pub count: u32,
    /// These digits as a whole number, if they are at most 15.
    pub mantissa: u64,
    /// How many digits the exponent has.
    pub power_length: u32,
    /// Whether the exponent is negative.
    pub is_below_one: bool,
}

/// The digits at the beginning of `bytes`, behind those of `before`, as a whole number, and how many they are.
fn run(bytes: &[u8], before: u64) -> (u64, usize) {
    let (mut value, mut length) = (before, 0);
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    (value, length)
}

impl Digits {
    /// More digits than these are no longer exact.
    pub(crate) const EXACT: u32 = 15;

    /// The digits that begin at byte `start`; `None` if there are none.
    #[inline]
    pub(crate) fn at(bytes: &[u8], start: usize) -> Option<Self> {
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let (mut mantissa, length) = run(bytes.get(start..)?, 0);
        let (mut end, mut commas, mut decimals) = (start + length, 0, 0);
        let mut next = bytes.get(end).copied().unwrap_or(b' ');
        // `1,264,582,656`: a comma, three digits, and no fourth.
        while next == b',' && end > start && end - start <= 15 && (end + 1..end + 4).all(is_digit) && !is_digit(end + 4)
        {
            mantissa = run(&bytes[end + 1..end + 4], mantissa).0;
            commas += 1;
            end += 4;
            next = bytes.get(end).copied().unwrap_or(b' ');
        }
        let mut count = (end - start) as u32 - commas;
        if next == b'.' && is_digit(end + 1) {
            let (all, length) = run(&bytes[end + 1..], mantissa);
            mantissa = all;
            decimals = length as u32;
            count += decimals;
            end += 1 + length;
            next = bytes.get(end).copied().unwrap_or(b' ');
        } else if end == start {
            return None;
        }
        let (mut power_length, mut is_below_one) = (0, false);
        if matches!(next, b'e' | b'E') {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
            if is_digit(end + 1 + sign) {
                is_below_one = bytes[end + 1] == b'-';
                end += 1 + sign;
                while is_digit(end) {
                    power_length += 1;
                    end += 1;
                }
            }
        }
        Some(Self { end, decimals, commas, count, mantissa, power_length, is_below_one })
    }

    /// The number; `None` if it is too large for one. `text` is the digits' own.
    pub(crate) fn value(&self, text: &str) -> Option<f64> {
        const POWERS: [f64; 16] =
            [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
        if self.power_length == 0 && self.count <= Self::EXACT {
            // Both are exact, so the quotient is the number nearest to what is printed.
            return Some(self.mantissa as f64 / POWERS[self.decimals as usize]);
        }
        let parsed = if self.commas == 0 { text.parse() } else { text.replace(',', "").parse() };
        parsed.ok().filter(|value: &f64| value.is_finite())
    }
}

/// The number that begins at byte `start` of `text`, which is a digit, a point or a sign.
pub(crate) fn number_at(text: &str, start: usize) -> Option<Number> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let first = start + usize::from(matches!(bytes.get(start), Some(b'-' | b'+')));
    let digits = Digits::at(bytes, first)?;
    let (end, decimals) = (digits.end, digits.decimals);
    let value = digits.value(&text[first..end])?;
    let value = if bytes[start] == b'-' { -value } else { value };
    let (unit, after) = unit_at(text, end);
    let rest = &bytes[after..];
    let is_rate = unit.is_some() && (rest.starts_with(b"/s") || rest.starts_with(b"ps"));
    let is_other = match rest.first() {
        Some(b'%') => true,
        Some(b'.') => is_digit(after + 1),
        Some(b':' | b'-') => unit.is_none() && is_digit(after + 1),
        Some(next) => next.is_ascii_alphabetic() || *next == b'_' || is_rate,
        None => false,
    };
    let after = after + usize::from(rest.first() == Some(&b'%'));
    Some(Number { start, end: after, value, decimals, unit, is_other })
}

/// The unit after a number, at most one blank (or bracket) away, and where it ends.
fn unit_at(text: &str, end: usize) -> (Option<Unit>, usize) {
    let rest = &text[end..];
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    if blanks > 1 {
        return (None, end);
    }
    let word = &rest[blanks..];
    let length = word.bytes().take_while(u8::is_ascii_alphabetic).count();
    let followed_by_word = word.as_bytes().get(length).is_some_and(|next| next.is_ascii_digit() || *next == b'_');
    // A single letter is a unit only where it touches its number.
    match Unit::named(&word[..length]) {
        Some(unit) if !followed_by_word && (length > 1 || blanks == 0) => (Some(unit), end + blanks + length),
        _ => (None, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<(u64, u64)> {
        let number = leading(text)?;
        number.bytes(number.unit?)
    }

    #[test]
    fn sizes_in_their_spellings() {
        assert_eq!(bytes("11MiB"), Some((11 << 20, 1 << 19)));
        assert_eq!(bytes(" 24.00 GiB |"), Some((24 << 30, 5_368_709)));
        assert_eq!(bytes("2.14 GB"), Some((2_140_000_000, 5_000_000)));
        assert_eq!(bytes("1,024 MB"), Some((1_024_000_000, 500_000)));
        assert_eq!(bytes("123 bytes"), Some((123, 0)));
        assert_eq!(bytes("5123M"), Some((5_123_000_000, 500_000)));
        assert_eq!(bytes("-1 MB"), None);
        assert_eq!(bytes("1e300 GB"), None);
        assert_eq!(leading("5 M steps").and_then(|number| number.unit), None);
    }

    #[test]
    fn what_is_no_size_is_marked() {
        for text in ["12%", "3.1MB/s", "09:10", "1.13.1", "10x", "2025-03-04"] {
            assert!(leading(text).is_some_and(|number| number.is_other), "{text}");
        }
        assert_eq!(leading("1,264,582,656").map(|number| number.value), Some(1_264_582_656.0));
        assert_eq!(leading("16,1,80").map(|number| number.value), Some(16.0));
    }
}
