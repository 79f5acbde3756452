//! A size as it is printed, and how precisely.

use serde::{Serialize, Serializer};

/// A number of bytes read from text that was rounded when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Quantity {
    /// The value, to the nearest byte.
    pub bytes: u64,
    /// The true value lies within this many bytes on either side (half of the last digit printed); 0 if exact.
    pub within: u64,
}

/// What `MB` means. `MiB` always means 2^20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// `MB` is 2^20, as PyTorch, nvidia-smi and most training loops write it.
    Binary,
    /// `MB` is 10^6.
    Decimal,
}

impl Quantity {
    /// A value that was printed in full.
    pub const fn exact(bytes: u64) -> Self {
        Self { bytes, within: 0 }
    }

    /// 2^64 and more: an all-ones sentinel, printed as `17179869184.00 GiB`; it stands for "unlimited" or "unknown".
    pub const fn is_unlimited(self) -> bool {
        self.bytes == u64::MAX
    }

    /// `194.00 MiB`, `0 bytes`, `10.4GB`; the whole text is the size.
    pub fn parse(text: &str, units: Units) -> Option<Self> {
        let text = text.trim();
        Self::parse_prefix(text, units).and_then(|(quantity, len)| (len == text.len()).then_some(quantity))
    }

    /// A size at the beginning of a text, and how many bytes of the text it takes. A number needs its unit.
    pub fn parse_prefix(text: &str, units: Units) -> Option<(Self, usize)> {
        let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let number = &text[..digits];
        let after = &text[digits..];
        let blanks = after.len() - after.trim_start_matches([' ', '\t', '\u{a0}']).len();
        let (unit, len) = unit(&after[blanks..], units)?;
        Self::scaled(number, unit).map(|quantity| (quantity, digits + blanks + len))
    }

    /// A decimal number such as `61.2` counted in units of `unit` bytes.
    pub fn scaled(number: &str, unit: u64) -> Option<Self> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        // More digits than a byte resolves are dropped, so that the arithmetic stays within 128 bits.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10u128.pow(fraction.len() as u32);
        let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_or(u128::from(u64::MAX), u128::from) };
        let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
        let unit = u128::from(unit);
        let bytes = whole.saturating_mul(unit).saturating_add((part * unit + scale / 2) / scale);
        let within = if unit == 1 { 0 } else { unit.div_ceil(scale * 2) };
        let narrow = |v: u128| u64::try_from(v).unwrap_or(u64::MAX);
        Some(Self { bytes: narrow(bytes), within: narrow(within) })
    }

    /// A serializer for fields of the contract that are plain integers of bytes.
    #[allow(clippy::ref_option)] // serde's signature
    pub(crate) fn as_bytes<S: Serializer>(value: &Option<Self>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|q| q.bytes).serialize(to)
    }
}

/// The unit at the beginning of a text, in bytes, and its length.
fn unit(text: &str, units: Units) -> Option<(u64, usize)> {
    let len = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = &text[..len];
    if ["b", "byte", "bytes"].iter().any(|w| word.eq_ignore_ascii_case(w)) {
        return Some((1, len));
    }
    let bytes = word.as_bytes();
    let power = match bytes.first()?.to_ascii_uppercase() {
        b'K' => 1,
        b'M' => 2,
        b'G' => 3,
        b'T' => 4,
        b'P' => 5,
        b'E' => 6,
        _ => return None,
    };
    let base: u64 = match &bytes[1..] {
        [] | [b'i' | b'I'] | [b'i' | b'I', b'b' | b'B'] => 1024,
        [b'b' | b'B'] => match units {
            Units::Binary => 1024,
            Units::Decimal => 1000,
        },
        _ => return None,
    };
    Some((base.pow(power), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn read(text: &str) -> Option<Quantity> {
        Quantity::parse(text, Units::Binary)
    }

    #[test]
    fn sizes_as_pytorch_prints_them() {
        assert_eq!(read("194.00 MiB"), Some(Quantity { bytes: 194 * MIB, within: 5243 }));
        assert_eq!(read("0 bytes"), Some(Quantity::exact(0)));
        assert_eq!(read("512 bytes"), Some(Quantity::exact(512)));
        assert_eq!(read("1024.00 KiB").map(|q| q.bytes), Some(MIB));
        assert_eq!(read("10.4GB").map(|q| q.bytes), Some(11_166_914_970));
        assert_eq!(read("18432MiB"), Some(Quantity { bytes: 18432 * MIB, within: MIB / 2 }));
        assert_eq!(Quantity::parse("1.5 GB", Units::Decimal).map(|q| q.bytes), Some(1_500_000_000));
        assert_eq!(Quantity::parse("1.5 GiB", Units::Decimal).map(|q| q.bytes), Some(GIB + GIB / 2));
    }

    #[test]
    fn two_to_the_64_is_unlimited() {
        assert!(read("17179869184.00 GiB").is_some_and(Quantity::is_unlimited));
        assert!(read("99999999999999999999999999 GiB").is_some_and(Quantity::is_unlimited));
        assert!(!read("16777215.99 TiB").is_some_and(Quantity::is_unlimited));
    }

    #[test]
    fn what_is_no_size() {
        for text in ["", "GiB", "1.2.3 GiB", ". GiB", "1 GiBs", "one GiB", "1", "-1 GiB", "1 m/s"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(Quantity::parse_prefix("2.00 GiB free", Units::Binary).map(|p| p.1), Some(8));
    }
}
