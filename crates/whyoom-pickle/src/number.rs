//! Integers of any length and the text forms of protocol 0.

use crate::{ErrorKind, Value};

/// Little-endian two's complement of any length. What does not fit 64 bits saturates.
pub(crate) fn long(bytes: &[u8]) -> Value {
    let Some(last) = bytes.last() else { return Value::int(0) };
    let negative = last & 0x80 != 0;
    let fill = if negative { 0xFF } else { 0 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let mut eight = [fill; 8];
    eight[..low.len()].copy_from_slice(low);
    let fits = high.iter().all(|b| *b == fill);
    let low = u64::from_le_bytes(eight);
    match (negative, fits) {
        (false, true) => Value::unsigned(low),
        (true, true) if low >> 63 == 1 => Value::int(low as i64),
        (true, _) => Value::int(i64::MIN),
        (false, false) => Value::unsigned(u64::MAX),
    }
}

/// Argument of `INT` (`is_int`) or `LONG`: decimal, `00` and `01` being the booleans of old writers.
pub(crate) fn decimal(line: &[u8], is_int: bool) -> Result<Value, ErrorKind> {
    let op = if is_int { "INT" } else { "LONG" };
    if is_int && line == b"00" {
        return Ok(Value::bool(false));
    }
    if is_int && line == b"01" {
        return Ok(Value::bool(true));
    }
    let line = line.trim_ascii();
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let (negative, digits) = match line {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ErrorKind::Malformed(op));
    }
    let magnitude = digits.iter().fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')));
    Ok(match (negative, i64::try_from(magnitude)) {
        (false, Ok(n)) => Value::int(n),
        (false, Err(_)) => Value::unsigned(magnitude),
        (true, Ok(n)) => Value::int(-n),
        (true, Err(_)) => Value::int(i64::MIN),
    })
}

/// Argument of `FLOAT`.
pub(crate) fn float(line: &[u8]) -> Result<Value, ErrorKind> {
    let text = std::str::from_utf8(line).map_err(|_| ErrorKind::Malformed("FLOAT"))?;
    text.trim().parse().map(Value::float).map_err(|_| ErrorKind::Malformed("FLOAT"))
}

/// Argument of `UNICODE`: Latin-1 with `\uXXXX` and `\UXXXXXXXX`. Lone surrogates become U+FFFD.
pub(crate) fn raw_unicode_escape(line: &[u8]) -> Result<String, ErrorKind> {
    let mut text = String::new();
    let mut rest = line;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digits = match (first, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(*first));
                continue;
            }
        };
        let code = tail
            .get(1..=digits)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or(ErrorKind::Malformed("UNICODE"))?;
        rest = &tail[1 + digits..];
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    Ok(text)
}

/// Argument of `STRING`: a quoted Python 2 literal.
pub(crate) fn quoted(line: &[u8]) -> Result<Vec<u8>, ErrorKind> {
    let malformed = ErrorKind::Malformed("STRING");
    let ([b'\'', body @ .., b'\''] | [b'"', body @ .., b'"']) = line.trim_ascii() else { return Err(malformed) };
    let mut text = Vec::new();
    let mut rest = body;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            text.push(*first);
            continue;
        }
        let [escape, tail @ ..] = rest else { return Err(malformed) };
        rest = tail;
        match escape {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            b'x' => {
                let hex = rest.get(..2).and_then(|h| std::str::from_utf8(h).ok());
                let Some(byte) = hex.and_then(|h| u8::from_str_radix(h, 16).ok()) else { return Err(malformed) };
                text.push(byte);
                rest = &rest[2..];
            }
            other => text.push(*other),
        }
    }
    Ok(text)
}
