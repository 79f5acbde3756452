//! The string that was probably meant.

use super::pasted::Pasted;
use super::version::{ask, reads};
use super::{Corrected, releases};
use whyoom_allocator::Release;
use whyoom_allocator::settings::{KEYS, Key, Target, ValueKind, WarningCode, nearest_key, parse, variables};

/// What to write instead of `pasted`; `None` where it can stay as it is, or where nothing like it exists.
pub(super) fn correct(pasted: &Pasted, asked: &[Release]) -> Option<Corrected> {
    let whole = pasted.value.clone() + pasted.cut_off.as_deref().unwrap_or("");
    let text = mend(&whole, asked);
    let accepting =
        |text: &str| -> Vec<Release> { asked.iter().copied().filter(|r| parse(text, *r).is_ok()).collect() };
    // Where it is ignored, nothing is lost.
    let before: Vec<Release> = asked.iter().copied().filter(|r| ask(&whole, None, *r).is_whole()).collect();
    let after = accepting(&text);
    let unread = pasted.variable.is_some() && !asked.iter().all(|r| reads(pasted.variable, *r));
    let is_better = text != pasted.value && needs_mending(&whole, asked) && before.iter().all(|r| after.contains(r));
    if text.is_empty() || after.is_empty() || !(is_better || unread) {
        return None;
    }
    let string = if is_better { text } else { pasted.value.clone() };
    let oldest = asked.first().copied().unwrap_or_default();
    let kept = pasted.variable.filter(|_| !unread);
    let line = pasted.form.write(kept.unwrap_or_else(|| variables(oldest).preferred()), &string);
    Some(Corrected { accepted_by: releases::in_words(&accepting(&string), asked), string, line })
}

/// Whether a release refuses the string for more than a key it does not know yet, or takes it otherwise than written.
fn needs_mending(text: &str, asked: &[Release]) -> bool {
    let is_misread = |code: &WarningCode| {
        !matches!(
            code,
            WarningCode::DivisionsOverwritten
                | WarningCode::DivisionsGap
                | WarningCode::OneDivision
                | WarningCode::NeedsFraction
                | WarningCode::NothingAllowed
                | WarningCode::SplitUnderExpandable
                | WarningCode::HostOnly
        )
    };
    asked.iter().map(|release| ask(text, None, *release)).any(|v| !v.accepted || v.warning_codes.iter().any(is_misread))
}

/// The items that can be told, each as `key:value`, with what `asked` do not know left out.
fn mend(text: &str, asked: &[Release]) -> String {
    let mut items: Vec<(&'static Key, String)> = Vec::new();
    for piece in pieces(text) {
        let Some((key, value)) = item(&piece, asked) else { continue };
        // The last one holds.
        items.retain(|(known, _)| known.name != key.name);
        items.push((key, value));
    }
    let is_async = |(key, value): &(&Key, String)| key.value == ValueKind::Backend && value == "cudaMallocAsync";
    if items.iter().any(is_async) {
        items.retain(|(key, _)| {
            key.target == Target::PinnedHost || matches!(key.value, ValueKind::Backend | ValueKind::Fraction)
        });
    }
    items.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",")
}

/// The string cut at commas, semicolons and blanks outside of brackets; blanks around colons and equals signs go.
fn pieces(text: &str) -> Vec<String> {
    let mut tight = String::new();
    let mut blank = false;
    for c in text.chars().filter(|c| !matches!(c, '"' | '\'' | '`')) {
        if c.is_whitespace() {
            blank = true;
            continue;
        }
        let is_joint = |c: char| matches!(c, ':' | '=' | ',' | ';' | '[' | ']' | '>');
        if blank && !is_joint(c) && !tight.ends_with(is_joint) && !tight.is_empty() {
            tight.push(' ');
        }
        blank = false;
        tight.push(c);
    }
    let mut pieces = vec![String::new()];
    let mut depth = 0_u32;
    for c in tight.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' | ';' | ' ' if depth == 0 => {
                pieces.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The key and value that a piece stands for.
fn item(piece: &str, asked: &[Release]) -> Option<(&'static Key, String)> {
    let newest = asked.last().copied().unwrap_or_default();
    let (name, value) = piece.split_once([':', '=']).unwrap_or((piece, ""));
    let (key, value) = match Key::named(name) {
        Some(key) => (key, value),
        // A key within what stands before it, such as a path or the name of the variable.
        None => within(piece).or_else(|| nearest_key(&name.replace('-', "_"), newest).map(|key| (key, value)))?,
    };
    if !asked.iter().any(|release| key.is_known(*release)) {
        return None;
    }
    Some((key, self::value(key, value, asked)?))
}

/// The longest key that stands in `piece` before a colon or an equals sign.
fn within(piece: &str) -> Option<(&'static Key, &str)> {
    let found = KEYS.iter().filter_map(|key| {
        let at = piece.find(key.name)?;
        let value = piece[at + key.name.len()..].strip_prefix([':', '='])?;
        let is_whole = !piece[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        is_whole.then_some((key, value))
    });
    found.max_by_key(|(key, _)| key.name.len())
}

/// `text` as a value that `key` takes.
fn value(key: &Key, text: &str, asked: &[Release]) -> Option<String> {
    match key.value {
        ValueKind::Boolean => match text.to_ascii_lowercase().as_str() {
            "" | "true" | "1" | "yes" | "on" => Some("True".to_owned()),
            "false" | "0" | "no" | "off" => Some("False".to_owned()),
            _ => None,
        },
        ValueKind::Mebibytes => mebibytes(key, text, asked),
        ValueKind::Threshold => {
            let value = fraction(text)?;
            (value > 0.0 && value < 1.0).then(|| value.to_string())
        }
        ValueKind::Fraction => {
            let value = fraction(text)?;
            (0.0..=1.0).contains(&value).then(|| value.to_string())
        }
        ValueKind::Threads => Some(power_of_two(number(text)? as u64).min(128).to_string()),
        ValueKind::Divisions => divisions(text),
        ValueKind::Backend if text.to_ascii_lowercase().contains("async") => Some("cudaMallocAsync".to_owned()),
        ValueKind::Backend => text.eq_ignore_ascii_case("native").then(|| "native".to_owned()),
        ValueKind::Reserve | ValueKind::ReserveByClass => Some(text.to_owned()),
    }
}

/// The number that `text` begins with.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// A fraction, or a percentage of which one is made.
fn fraction(text: &str) -> Option<f64> {
    let value = number(text)?;
    Some(if value > 1.0 || text.ends_with('%') { value / 100.0 } else { value })
}

fn mebibytes(key: &Key, text: &str, asked: &[Release]) -> Option<String> {
    // A negative number is the largest size, in every release.
    if text.starts_with('-') {
        return Some(text.to_owned());
    }
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_ascii_lowercase();
    let scale = if unit.starts_with('g') { 1024.0 } else { 1.0 };
    let size = (number(text)? * scale) as u64;
    // The smallest size that every release asked which knows the key takes.
    let takes = |size: u64| {
        let text = format!("{key}:{size}");
        asked.iter().filter(|release| key.is_known(**release)).all(|release| parse(&text, *release).is_ok())
    };
    [size, 1, 11, 20, 21].into_iter().find(|candidate| *candidate >= size && takes(*candidate)).map(|n| n.to_string())
}

fn divisions(text: &str) -> Option<String> {
    let Some(list) = text.strip_prefix('[') else {
        return Some(power_of_two(number(text)? as u64).to_string());
    };
    let entries: Option<Vec<String>> = list
        .trim_end_matches(']')
        .split([',', ';'])
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let (boundary, value) = entry.split_once([':', '='])?;
            let boundary =
                if boundary == ">" { ">".to_owned() } else { power_of_two(number(boundary)? as u64).to_string() };
            Some(format!("{boundary}:{}", power_of_two(number(value)? as u64)))
        })
        .collect();
    entries.filter(|entries| !entries.is_empty()).map(|entries| format!("[{}]", entries.join(",")))
}

/// The nearest power of two, the larger of two equally near; 0 stays.
fn power_of_two(n: u64) -> u64 {
    let Some(up) = n.checked_next_power_of_two().filter(|_| n > 0) else { return n };
    let down = up / 2;
    if up - n <= n - down.min(n) { up } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(text: &str) -> String {
        mend(text, &releases::modelled())
    }

    #[test]
    fn slips_become_what_was_meant() {
        for (text, meant) in [
            ("expandable_segments=True", "expandable_segments:True"),
            ("expandable_segments:true", "expandable_segments:True"),
            ("expandable_segments", "expandable_segments:True"),
            ("\"expandable_segments:True\"", "expandable_segments:True"),
            ("Expandable_Segments: True ", "expandable_segments:True"),
            ("expandable_segment:1", "expandable_segments:True"),
            ("expandable-segments:on\n", "expandable_segments:True"),
            (",expandable_segments:True;max_split_size_mb:128", "expandable_segments:True,max_split_size_mb:128"),
            ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "expandable_segments:True"),
            ("C:\\Users\\x\\max_split_size_mb:128", "max_split_size_mb:128"),
            ("max_split_size:512", "max_split_size_mb:512"),
            ("max_split_size_mb:512MB", "max_split_size_mb:512"),
            ("max_split_size_mb:1GiB", "max_split_size_mb:1024"),
            ("max_split_size_mb:10", "max_split_size_mb:21"),
            ("garbage_collection_threshold:80", "garbage_collection_threshold:0.8"),
            ("garbage_collection_threshold:1", ""),
            ("roundup_power2_divisions:3", "roundup_power2_divisions:4"),
            ("roundup_power2_divisions:[256:1,512:2,1000:4,>:8]", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"),
            ("backend:async", "backend:cudaMallocAsync"),
            ("backend:cudaMallocAsync,max_split_size_mb:128", "backend:cudaMallocAsync"),
            ("max_split_size_mb:64,max_split_size_mb:128", "max_split_size_mb:128"),
            ("True", ""),
            ("0", ""),
        ] {
            assert_eq!(mended(text), meant, "{text}");
        }
    }

    #[test]
    fn nothing_is_mended_that_only_an_old_release_does_not_know() {
        let all = releases::modelled();
        assert_eq!(correct(&Pasted::value("expandable_segments:True"), &all), None);
        let twenty = |asked| correct(&Pasted::value("max_split_size_mb:20"), asked).map(|c| c.string);
        assert_eq!(twenty(&all[..]).as_deref(), Some("max_split_size_mb:21"));
        assert_eq!(twenty(&[Release::new(2, 11)]), None);
    }
}
