//! Telling text from snapshots and other binary files by the first bytes.

use crate::Encoding;

/// Beginnings of files that are no text: pickles, ZIP, gzip, Zstandard, xz, bzip2, LZ4, ELF, PNG, SQLite.
const MAGIC: [&[u8]; 11] = [
    b"\x80\x02",
    b"\x80\x03",
    b"\x80\x04",
    b"\x80\x05",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"BZh",
    b"\x04\x22\x4d\x18",
    b"\x7fELF",
];

/// How likely the bytes begin a text that facts can be read from, 0 to 1: 0 for pickles (every protocol), snapshots
/// in JSON and compressed files. The first few KiB of a file are enough.
pub fn sniff_likelihood(start: &[u8]) -> f64 {
    let start = &start[..start.len().min(1 << 16)];
    if start.is_empty() || MAGIC.iter().any(|magic| start.starts_with(magic)) || is_old_pickle(start) {
        return 0.0;
    }
    let (encoding, mark) = Encoding::of(start);
    if encoding != Encoding::Utf8 {
        return 0.95;
    }
    let start = &start[mark..];
    if is_json_snapshot(start) {
        return 0.0;
    }
    // Single control bytes stand in real logs: a device index of PyTorch 2.3, progress bars, terminal codes.
    let odd = start.iter().filter(|b| matches!(b, 0..=6 | 14..=26 | 28..=31 | 127)).count();
    let invalid = match std::str::from_utf8(start) {
        Ok(_) => 0,
        // A character that is cut by the end is none.
        Err(e) if e.error_len().is_none() => 0,
        Err(_) => String::from_utf8_lossy(start).matches('\u{fffd}').count(),
    };
    let share = (odd * 8 + invalid) as f64 / start.len().max(1) as f64;
    (1.0 - share * 2.0).clamp(0.0, 1.0)
}

/// Whether the bytes begin a text, and no snapshot.
pub fn sniff(start: &[u8]) -> bool {
    sniff_likelihood(start) >= 0.5
}

/// Protocols 0 and 1 are printable: `(dp0`, `(lp0`, `}q\0`, `]q\0`, `cos`.
fn is_old_pickle(start: &[u8]) -> bool {
    let is_numbered =
        |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit) && rest.iter().take(8).any(|b| *b == b'\n');
    match start {
        [b'(', b'd' | b'l', b'p', rest @ ..] => is_numbered(rest),
        [b'}' | b']', b'q' | b'r', ..] => true,
        // The name of something to call, on two lines, and its arguments.
        [b'c', rest @ ..] => {
            let mut lines = rest.split(|b| *b == b'\n');
            let mut is_name = || {
                let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
                lines.next().is_some_and(|line| !line.is_empty() && line.len() < 200 && line.iter().all(is_part))
            };
            is_name() && is_name() && lines.next().is_some_and(|line| line.starts_with(b"("))
        }
        _ => false,
    }
}

fn is_json_snapshot(start: &[u8]) -> bool {
    let trimmed = start.trim_ascii_start();
    trimmed.first() == Some(&b'{')
        && ["\"segments\"", "\"device_traces\""]
            .iter()
            .any(|key| memchr::memmem::find(trimmed, key.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_not() {
        for text in [
            &b"step 1 loss 2.3\nstep 2 loss 2.2\n"[..],
            b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU \0 has a total capacity",
            b"{\"allocated_bytes.all.current\": 12}",
            b"[{'device': 0, 'address': 140, 'total_size': 2097152}]",
            "\u{feff}|====|".as_bytes(),
            "7%|█▉        | 3/40 \u{1b}[31m".as_bytes(),
            b"\xff\xfes\0t\0",
        ] {
            assert!(sniff(text), "{:?}", String::from_utf8_lossy(text));
        }
        let noise: Vec<u8> = (0u32..4096).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for other in [
            &b""[..],
            b"\x80\x04\x95\x10",
            b"(dp0\nVsegments\np1\n",
            b"cos\nsystem\n(S'true'\ntR.",
            b"PK\x03\x04",
            b"{\"segments\": [], \"device_traces\": []}",
            &noise,
        ] {
            assert!(!sniff(other), "{:?}", String::from_utf8_lossy(other));
        }
    }
}
