//! The encoding of a text, and turning it into UTF-8 without ever holding more than a chunk.

use serde::Serialize;

/// How the bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// UTF-8, or anything that ASCII words can be found in; invalid bytes are replaced.
    Utf8,
    /// UTF-16, little-endian: what `>` and `Tee-Object` of Windows PowerShell write.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
}

impl Encoding {
    /// The encoding that the first bytes show, and the length of the byte order mark.
    pub fn of(start: &[u8]) -> (Self, usize) {
        match start {
            [0xef, 0xbb, 0xbf, ..] => return (Self::Utf8, 3),
            [0xff, 0xfe, ..] => return (Self::Utf16Le, 2),
            [0xfe, 0xff, ..] => return (Self::Utf16Be, 2),
            _ => {}
        }
        let pairs = start.chunks_exact(2).take(512);
        let (count, le, be) = pairs.fold((0usize, 0usize, 0usize), |(n, le, be), pair| {
            (n + 1, le + usize::from(pair[1] == 0 && pair[0] != 0), be + usize::from(pair[0] == 0 && pair[1] != 0))
        });
        // English text in UTF-16 has a zero in nearly every pair; single zeros stand in some PyTorch messages.
        if count >= 8 && le * 10 >= count * 8 {
            (Self::Utf16Le, 0)
        } else if count >= 8 && be * 10 >= count * 8 {
            (Self::Utf16Be, 0)
        } else {
            (Self::Utf8, 0)
        }
    }

    /// How many bytes of the input stand for a piece of decoded text.
    pub(crate) fn encoded_len(self, text: &[u8]) -> u64 {
        match self {
            Self::Utf8 => text.len() as u64,
            // One unit for each character, two for those of four UTF-8 bytes.
            _ => text.iter().map(|b| u64::from(*b & 0xc0 != 0x80) + u64::from(*b >= 0xf0)).sum::<u64>() * 2,
        }
    }
}

/// UTF-16 to UTF-8, a chunk at a time.
#[derive(Debug)]
pub(crate) struct Utf16 {
    big_endian: bool,
    odd: Option<u8>,
    high: Option<u16>,
}

impl Utf16 {
    pub(crate) fn new(big_endian: bool) -> Self {
        Self { big_endian, odd: None, high: None }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let Some(first) = self.odd.take() else {
                self.odd = Some(byte);
                continue;
            };
            let pair = [first, byte];
            let unit = if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
            self.unit(unit, out);
        }
    }

    fn unit(&mut self, unit: u16, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        if let Some(high) = self.high.take() {
            if (0xdc00..0xe000).contains(&unit) {
                let code = 0x10000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(unit) - 0xdc00);
                put(out, char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return;
            }
            put(out, char::REPLACEMENT_CHARACTER);
        }
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
        } else {
            put(out, char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
}

/// Removes ANSI escapes (CSI, OSC, two-byte ones) from a line that has any.
pub(crate) fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let bytes = rest.as_bytes();
        let len = match bytes.first() {
            Some(b'[') => {
                1 + bytes[1..].iter().position(|b| (0x40..=0x7e).contains(b)).map_or(bytes.len() - 1, |n| n + 1)
            }
            Some(b']') => {
                let end = bytes.iter().position(|b| matches!(b, 0x07 | 0x1b)).unwrap_or(bytes.len());
                match bytes.get(end) {
                    Some(0x07) => end + 1,
                    Some(_) if bytes.get(end + 1) == Some(&b'\\') => end + 2,
                    _ => end,
                }
            }
            Some(b) if b.is_ascii() => 1,
            _ => 0,
        };
        // A sequence that runs into the middle of a character is not one: keep what is left of it.
        rest = rest.get(len..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_seen() {
        let le: Vec<u8> = "CUDA out of memory".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = "CUDA out of memory".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(Encoding::of(&le), (Encoding::Utf16Le, 0));
        assert_eq!(Encoding::of(&be), (Encoding::Utf16Be, 0));
        assert_eq!(Encoding::of(b"GPU \0 has a total capacity of 1 GiB"), (Encoding::Utf8, 0));
        assert_eq!(Encoding::of(b"\xef\xbb\xbfstep"), (Encoding::Utf8, 3));
    }

    #[test]
    fn utf16_in_odd_pieces() {
        let text = "a\u{1f600}é\u{4e2d}z";
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let (mut utf16, mut out) = (Utf16::new(true), Vec::new());
        bytes.chunks(3).for_each(|c| utf16.push(c, &mut out));
        assert_eq!(String::from_utf8_lossy(&out), text);
        assert_eq!(Encoding::Utf16Be.encoded_len(&out), bytes.len() as u64);
    }

    #[test]
    fn escapes_go() {
        assert_eq!(
            without_escapes("\x1b[1;31mCUDA\x1b[0m out\x1b]8;;x\x1b\\ of\x1b(B memory\x1b["),
            "CUDA out ofB memory"
        );
        assert_eq!(without_escapes("\x1b[38;5é"), "");
    }
}
