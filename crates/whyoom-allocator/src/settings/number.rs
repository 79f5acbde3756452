//! Numbers as C++ reads them: blanks and a sign first, then the longest prefix that is a number; the rest is ignored.

/// Why `std::stoi`, `std::stoul`, `std::stoull` or `std::stod` throws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFault {
    /// `std::invalid_argument`: no digits where they must begin.
    NotANumber,
    /// `std::out_of_range`: the type cannot hold it.
    OutOfRange,
}

/// A number, and how many bytes of the text it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number<T> {
    pub(super) value: T,
    pub(super) used: usize,
}

/// C's `isspace` in the "C" locale.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Blanks, a sign, decimal digits: sign and magnitude, `None` for a magnitude above `u64::MAX`.
fn integer(text: &str) -> Result<(bool, Option<u64>, usize), NumberFault> {
    let bytes = text.as_bytes();
    let (negative, first) = sign(bytes, bytes.iter().take_while(|byte| is_space(**byte)).count());
    let digits = bytes[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err(NumberFault::NotANumber);
    }
    let magnitude = bytes[first..first + digits]
        .iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Ok((negative, magnitude, first + digits))
}

fn sign(bytes: &[u8], at: usize) -> (bool, usize) {
    match bytes.get(at) {
        Some(b'-') => (true, at + 1),
        Some(b'+') => (false, at + 1),
        _ => (false, at),
    }
}

/// `std::stoi` widened to `size_t`, as 1.13 to 2.9 do: a negative number becomes a huge one.
pub(super) fn int_as_size(text: &str) -> Result<Number<u64>, NumberFault> {
    let (negative, magnitude, used) = integer(text)?;
    let magnitude = magnitude.and_then(|m| i64::try_from(m).ok()).ok_or(NumberFault::OutOfRange)?;
    let value = i32::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| NumberFault::OutOfRange)?;
    Ok(Number { value: i64::from(value) as u64, used })
}

/// `std::stoul` and `std::stoull`: a negative number wraps around.
pub(super) fn unsigned(text: &str) -> Result<Number<u64>, NumberFault> {
    let (negative, magnitude, used) = integer(text)?;
    let magnitude = magnitude.ok_or(NumberFault::OutOfRange)?;
    Ok(Number { value: if negative { magnitude.wrapping_neg() } else { magnitude }, used })
}

/// `std::stod`: decimal and hexadecimal, `inf` and `nan`; overflow and underflow are out of range.
pub(super) fn double(text: &str) -> Result<Number<f64>, NumberFault> {
    let bytes = text.as_bytes();
    let (negative, first) = sign(bytes, bytes.iter().take_while(|byte| is_space(**byte)).count());
    let rest = &bytes[first..];
    let starts = |word: &str| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word.as_bytes());
    let (value, used) = if starts("infinity") {
        (f64::INFINITY, 8)
    } else if starts("inf") {
        (f64::INFINITY, 3)
    } else if starts("nan") {
        (f64::NAN, 3 + nan_payload(&rest[3..]))
    } else if let Some(hexadecimal) = hexadecimal(rest)? {
        hexadecimal
    } else {
        decimal(&text[first..])?
    };
    Ok(Number { value: if negative { -value } else { value }, used: first + used })
}

/// The `(chars)` that may follow `nan`.
fn nan_payload(rest: &[u8]) -> usize {
    if rest.first() != Some(&b'(') {
        return 0;
    }
    let inside = rest[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if rest.get(inside + 1) == Some(&b')') { inside + 2 } else { 0 }
}

/// Digits with at most one point among them: how many bytes, and whether there is a digit.
fn digits_and_point(bytes: &[u8], is_digit: fn(&u8) -> bool) -> (usize, bool) {
    let whole = bytes.iter().take_while(|byte| is_digit(byte)).count();
    if bytes.get(whole) != Some(&b'.') {
        return (whole, whole > 0);
    }
    let fraction = bytes[whole + 1..].iter().take_while(|byte| is_digit(byte)).count();
    (whole + 1 + fraction, whole + fraction > 0)
}

/// An exponent (`e`/`p`, sign, digits) at the start of `bytes`: its value and length, if it is whole.
fn exponent(bytes: &[u8], letter: u8) -> Option<(i32, usize)> {
    if !bytes.first()?.eq_ignore_ascii_case(&letter) {
        return None;
    }
    let (negative, first) = sign(bytes, 1);
    let digits = bytes[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = bytes[first..first + digits]
        .iter()
        .fold(0_i32, |sum, digit| sum.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
    (digits > 0).then_some((if negative { -value } else { value }, first + digits))
}

fn decimal(text: &str) -> Result<(f64, usize), NumberFault> {
    let bytes = text.as_bytes();
    let (mantissa, any) = digits_and_point(bytes, u8::is_ascii_digit);
    if !any {
        return Err(NumberFault::NotANumber);
    }
    let used = mantissa + exponent(&bytes[mantissa..], b'e').map_or(0, |(_, length)| length);
    let value = text[..used].parse::<f64>().map_err(|_| NumberFault::NotANumber)?;
    let is_zero = bytes[..mantissa].iter().all(|byte| matches!(byte, b'0' | b'.'));
    if value.is_infinite() || (!is_zero && value < f64::MIN_POSITIVE) {
        return Err(NumberFault::OutOfRange);
    }
    Ok((value, used))
}

/// `0x` notation, if `bytes` is in it; `0x` without a digit is the decimal `0`.
fn hexadecimal(bytes: &[u8]) -> Result<Option<(f64, usize)>, NumberFault> {
    if !(bytes.len() > 2 && bytes[0] == b'0' && bytes[1].eq_ignore_ascii_case(&b'x')) {
        return Ok(None);
    }
    let (length, any) = digits_and_point(&bytes[2..], u8::is_ascii_hexdigit);
    if !any {
        return Ok(None);
    }
    let (mut mantissa, mut scale, mut seen_point) = (0_u64, 0_i32, false);
    for &byte in &bytes[2..2 + length] {
        let Some(digit) = char::from(byte).to_digit(16) else {
            seen_point = true;
            continue;
        };
        // 60 bits and a sticky last bit are enough to round to 53 correctly.
        if mantissa < 1 << 56 {
            mantissa = mantissa << 4 | u64::from(digit);
            scale -= if seen_point { 4 } else { 0 };
        } else {
            mantissa |= u64::from(digit != 0);
            scale += if seen_point { 0 } else { 4 };
        }
    }
    let (power, power_length) = exponent(&bytes[2 + length..], b'p').unwrap_or_default();
    let power = scale.saturating_add(power);
    let value = scaled(mantissa as f64, power);
    // Only an underflow that loses bits counts as one.
    let is_exact = scaled(value, power.saturating_neg()).to_bits() == (mantissa as f64).to_bits();
    let underflows = value < f64::MIN_POSITIVE && !is_exact;
    if value.is_infinite() || underflows {
        return Err(NumberFault::OutOfRange);
    }
    Ok(Some((value, 2 + length + power_length)))
}

/// `value * 2^power`, exact while the result is a normal number.
fn scaled(mut value: f64, power: i32) -> f64 {
    let mut left = power.clamp(-3000, 3000);
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-512, 512);
        value *= 2_f64.powi(step);
        left -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_a_prefix_and_wrap() {
        let size = |text| int_as_size(text).map(|n| (n.value, n.used));
        assert_eq!(size("512MB"), Ok((512, 3)));
        assert_eq!(size("\t+64"), Ok((64, 4)));
        assert_eq!(size("1e3"), Ok((1, 1)));
        assert_eq!(size("0x40"), Ok((0, 1)));
        assert_eq!(size("-1"), Ok((u64::MAX, 2)));
        assert_eq!(size("2147483647"), Ok((2_147_483_647, 10)));
        assert_eq!(size("-2147483648"), Ok(((-2_147_483_648_i64) as u64, 11)));
        assert_eq!(size("2147483648"), Err(NumberFault::OutOfRange));
        assert_eq!(size("99999999999999999999999"), Err(NumberFault::OutOfRange));
        assert_eq!(size("abc"), Err(NumberFault::NotANumber));
        assert_eq!(size("-"), Err(NumberFault::NotANumber));
        assert_eq!(unsigned("-18446744073709551615").map(|n| n.value), Ok(1));
        assert_eq!(unsigned("18446744073709551616"), Err(NumberFault::OutOfRange));
    }

    #[test]
    fn doubles_take_every_form_of_strtod() {
        let read = |text| double(text).map(|n| (n.value, n.used));
        assert_eq!(read("0.9f"), Ok((0.9, 3)));
        assert_eq!(read(".5"), Ok((0.5, 2)));
        assert_eq!(read("5e-1xyz"), Ok((0.5, 4)));
        assert_eq!(read("0.5e+"), Ok((0.5, 3)));
        assert_eq!(read("0x.8"), Ok((0.5, 4)));
        assert_eq!(read("0x1p-1"), Ok((0.5, 6)));
        assert_eq!(read("0x"), Ok((0.0, 1)));
        assert_eq!(read("0x1.00000000000001p0"), Ok((1.0, 20)));
        assert_eq!(read("-infinity"), Ok((f64::NEG_INFINITY, 9)));
        assert!(double("nan(a_1)").is_ok_and(|n| n.value.is_nan() && n.used == 8));
        assert_eq!(read("0e-999"), Ok((0.0, 6)));
        assert_eq!(read("1e400"), Err(NumberFault::OutOfRange));
        assert_eq!(read("1e-320"), Err(NumberFault::OutOfRange));
        assert_eq!(read("0x1p-1074"), Ok((f64::from_bits(1), 9)));
        assert_eq!(read("0x1p-1075"), Err(NumberFault::OutOfRange));
        assert_eq!(read("."), Err(NumberFault::NotANumber));
        assert_eq!(read("e5"), Err(NumberFault::NotANumber));
    }
}
