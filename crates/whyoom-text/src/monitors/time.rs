//! Times as monitors and loggers print them.

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Days from 1970-01-01 in the proleptic Gregorian calendar (Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2025/03/04 09:10:00.120`, `2025-03-04T09:10:00,120`, `20250304 09:10:00`, `09:10:00` at the beginning of a text,
/// a bracket before it or not: the text of the time, and its seconds (since 1970, or since midnight without a date).
/// A zone is not read: within one log it is the same.
pub(crate) fn leading(text: &str) -> Option<(&str, f64)> {
    let begin = text.trim_start_matches([' ', '[', '"', '\'', '(']);
    let bytes = begin.as_bytes();
    let mut at = 0;
    let mut midnight = 0.0;
    if let Some((seconds, length)) = date(begin) {
        midnight = seconds;
        at = length;
        if !matches!(bytes.get(at), Some(b' ' | b'T' | b'_' | b'-')) {
            return None;
        }
        while matches!(bytes.get(at), Some(b' ' | b'T' | b'_' | b'-')) {
            at += 1;
        }
    }
    let (seconds, length) = clock(begin.get(at..)?)?;
    Some((begin.get(..at + length)?, midnight + seconds))
}

fn date(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u16>().ok().map(i64::from);
    let (year, month, day, length) = match bytes.get(4)? {
        b'/' | b'-' if bytes.get(4) == bytes.get(7) => (number(0, 4)?, number(5, 7)?, number(8, 10)?, 10),
        byte if byte.is_ascii_digit() => (number(0, 4)?, number(4, 6)?, number(6, 8)?, 8),
        _ => return None,
    };
    let is_date = (1970..3000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| ((days(year, month, day) * 86_400) as f64, length))
}

fn clock(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    if bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (number(0, 2)?, number(3, 5)?, number(6, 8)?);
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let whole = f64::from(hour) * 3600.0 + f64::from(minute) * 60.0 + f64::from(second);
    let digits = match bytes.get(8) {
        Some(b'.' | b',') => bytes[9..].iter().take_while(|byte| byte.is_ascii_digit()).take(9).count(),
        _ => 0,
    };
    if digits == 0 {
        return Some((whole, 8));
    }
    let part: f64 = text.get(9..9 + digits)?.parse().ok()?;
    Some((whole + part / 10_f64.powi(digits as i32), 9 + digits))
}

/// `Tue Mar  4 09:10:00 2025`, with or without the year or a zone before it, as `date` and nvidia-smi print it.
pub(crate) fn ctime(text: &str) -> Option<(&str, f64)> {
    let text = text.trim();
    let words: Vec<&str> = text.split_whitespace().take(8).collect();
    let month_at = words.iter().position(|word| month(word).is_some())?;
    if month_at > 1 {
        return None;
    }
    let day: i64 = words.get(month_at + 1)?.trim_end_matches(',').parse().ok().filter(|day| (1..=31).contains(day))?;
    let (seconds, _) = words.iter().skip(month_at + 2).find_map(|word| clock(word))?;
    let mut after = words.iter().skip(month_at + 2);
    let (year, word) =
        after.find_map(|word| Some((word.parse().ok().filter(|year| (1970..3000).contains(year))?, word)))?;
    let end = text.find(word).map_or(text.len(), |at| at + word.len());
    let text = text.get(..end)?;
    Some((text, (days(year, month(words[month_at])?, day) * 86_400) as f64 + seconds))
}

/// Whether a text may be what [`ctime`] reads: one of its first two words begins as a month does.
pub(crate) fn may_be_ctime(text: &[u8]) -> bool {
    let is_month = |word: &[u8]| {
        word.get(..3).is_some_and(|start| MONTHS.iter().any(|name| start.eq_ignore_ascii_case(name.as_bytes())))
    };
    let words = text.split(|byte| byte.is_ascii_whitespace() || *byte == 0xb).filter(|word| !word.is_empty());
    // Blanks of other scripts part words too.
    let mut pairs = text.iter().zip(text.iter().skip(1)).take(64);
    words.take(2).any(is_month) || pairs.any(|pair| matches!(pair, (0xc2 | 0xe1 | 0xe3, _) | (0xe2, 0x80 | 0x81)))
}

fn month(word: &str) -> Option<i64> {
    let word = word.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().position(|name| *name == word).map(|index| index as i64 + 1)
}

/// A time in any of these forms.
pub(crate) fn any(text: &str) -> Option<(&str, f64)> {
    leading(text).or_else(|| ctime(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_their_forms() {
        assert_eq!(leading("1970/01/02 00:00:01.500, x"), Some(("1970/01/02 00:00:01.500", 86_401.5)));
        assert_eq!(leading("[2025-03-04 09:10:00,120] x").map(|time| time.1), Some(1_741_079_400.12));
        assert_eq!(leading("20250304 09:10:00").map(|time| time.1), Some(1_741_079_400.0));
        assert_eq!(leading("09:10:00 step"), Some(("09:10:00", 33_000.0)));
        assert_eq!(ctime("Tue Mar  4 09:10:00 2025").map(|time| time.1), Some(1_741_079_400.0));
        assert_eq!(ctime("Tue Mar  4 09:10:00 UTC 2025").map(|time| time.1), Some(1_741_079_400.0));
        for text in ["", "2025", "2025/13/04 09:10:00", "99:99:99", "é025/03/04 09:10:00", "Mar ché 9"] {
            assert_eq!(any(text), None, "{text}");
        }
    }
}
