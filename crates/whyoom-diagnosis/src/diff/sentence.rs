//! The answer in words.

use super::CategoryPair;
use super::side::{LineKey, Side};
use crate::tables::kinds::Kind;
use crate::words;
use std::collections::BTreeMap;

/// A change below this part of the larger side is none.
const SAME: u64 = 100;

/// What changed, in a sentence.
pub(super) fn summary(a: &Side, b: &Side, categories: &[CategoryPair]) -> String {
    let delta = a.peak_live.abs_diff(b.peak_live);
    if delta <= a.peak_live.max(b.peak_live) / SAME {
        let reserved = a.peak_reserved.abs_diff(b.peak_reserved);
        let both = format!("Both hold about {} at their peaks", words::bytes(b.peak_live));
        if reserved <= a.peak_reserved.max(b.peak_reserved) / 10 {
            return format!("{both}.");
        }
        let more = if b.peak_reserved > a.peak_reserved { "more" } else { "less" };
        return format!("{both}, and B reserves {} {more} for it: the layout differs.", words::bytes(reserved));
    }
    let is_more = b.peak_live > a.peak_live;
    let more = if is_more { "more" } else { "less" };
    let head = format!("B holds {} {more} at its peak", words::bytes(delta));
    let same_way: Vec<&CategoryPair> = categories.iter().filter(|c| (c.b_bytes > c.a_bytes) == is_more).collect();
    let Some(first) = same_way.first() else { return format!("{head}.") };
    let share = first.a_bytes.abs_diff(first.b_bytes);
    let name = first.category.replace('_', " ");
    let what = if share.saturating_mul(10) >= delta.saturating_mul(9) {
        format!("all {name}")
    } else if share.saturating_mul(2) >= delta {
        format!("mostly {name}")
    } else {
        let second = same_way.get(1).map(|c| format!(" and {}", c.category.replace('_', " "))).unwrap_or_default();
        format!("mostly {name}{second}")
    };
    let from = line(a, b, first.category).map(|l| format!(", from {l}")).unwrap_or_default();
    let why = why(a, b, first.category).map(|w| format!(": {w}")).unwrap_or_default();
    format!("{head}, {what}{from}{why}.")
}

/// The calling line whose bytes of a category changed most.
fn line(a: &Side, b: &Side, category: &str) -> Option<String> {
    let of = |side: &Side| {
        let mut lines: BTreeMap<LineKey, u64> = BTreeMap::new();
        for ((kind, key), held) in side.lines.iter().filter(|((kind, _), _)| kind.category() == category) {
            debug_assert_eq!(kind.category(), category);
            let sum = lines.entry(key.clone()).or_default();
            *sum = sum.saturating_add(held.bytes);
        }
        lines
    };
    let (of_a, of_b) = (of(a), of(b));
    let bytes = |lines: &BTreeMap<LineKey, u64>, key: &LineKey| lines.get(key).copied().unwrap_or(0);
    let keys = of_a.keys().chain(of_b.keys()).filter(|k| k.line > 0);
    let most = keys.max_by_key(|k| (bytes(&of_a, k).abs_diff(bytes(&of_b, k)), std::cmp::Reverse((*k).clone())))?;
    Some(words::line(&most.function, &most.file, most.line))
}

/// Why a category changed, where the recordings show it.
fn why(a: &Side, b: &Side, category: &str) -> Option<String> {
    if category == Kind::OptimizerState.category() && a.state_tensors != b.state_tensors {
        let tensors = |n: usize| match n {
            0 => "none".to_owned(),
            1 => "one tensor".to_owned(),
            2 => "two".to_owned(),
            n => n.to_string(),
        };
        let (now, before) = (b.state_tensors, a.state_tensors);
        let (now, before) = match (now, before) {
            (2, _) => ("two tensors".to_owned(), tensors(before)),
            _ => (tensors(now), tensors(before)),
        };
        return Some(format!("{now} for each parameter in place of {before}"));
    }
    let count = |side: &Side| -> u64 {
        side.operations.iter().filter(|((kind, _), _)| kind.category() == category).map(|(_, held)| held.count).sum()
    };
    let (in_a, in_b) = (count(a), count(b));
    let (size, number) = (size_ratio(a, b, category)?, in_b as f64 / in_a.max(1) as f64);
    // Whichever changed more is the reason.
    if number.ln().abs() > size.ln().abs() {
        let is_other = in_a.abs_diff(in_b) > in_a.max(in_b) / 20;
        return is_other.then(|| format!("{} tensors in place of {}", words::count(in_b), words::count(in_a)));
    }
    match size {
        s if s > 1.05 => Some(format!("its tensors are {} times as large", words::ratio(s))),
        s if s < 0.95 => Some(format!("its tensors are {} times smaller", words::ratio(1.0 / s))),
        _ => None,
    }
}

/// How large the tensors of B are beside those of A: the median over the operations that made both, by bytes.
fn size_ratio(a: &Side, b: &Side, category: &str) -> Option<f64> {
    let mut ratios: Vec<(f64, u64)> = a
        .operations
        .iter()
        .filter(|((kind, _), _)| kind.category() == category)
        .filter_map(|(key, in_a)| {
            let in_b = b.operations.get(key)?;
            let mean = |bytes: u64, count: u64| bytes as f64 / count.max(1) as f64;
            let ratio = mean(in_b.bytes, in_b.count) / mean(in_a.bytes, in_a.count).max(1.0);
            Some((ratio, in_a.bytes.max(in_b.bytes)))
        })
        .collect();
    ratios.sort_by(|x, y| x.0.total_cmp(&y.0));
    let total: u128 = ratios.iter().map(|r| u128::from(r.1)).sum();
    let mut below = 0u128;
    ratios
        .into_iter()
        .find(|(_, weight)| {
            below += u128::from(*weight);
            below * 2 >= total
        })
        .map(|(ratio, _)| ratio)
}

/// What else differs.
pub(super) fn findings(a: &Side, b: &Side) -> Vec<String> {
    let mut all = Vec::new();
    if a.settings != b.settings {
        let name = |s: &Option<String>| match s.as_deref() {
            None => "settings that the file does not hold".to_owned(),
            Some("") => "the defaults".to_owned(),
            Some(text) => text.to_owned(),
        };
        all.push(format!("A ran with {}, B with {}.", name(&a.settings), name(&b.settings)));
    }
    match (a.failed, b.failed) {
        (false, true) => all.push("B ran out of memory, A did not.".to_owned()),
        (true, false) => all.push("A ran out of memory, B did not.".to_owned()),
        _ => {}
    }
    let spread = |side: &Side| side.peak_reserved as f64 / side.peak_live.max(1) as f64;
    let (of_a, of_b) = (spread(a), spread(b));
    if (of_a - of_b).abs() > 0.2 {
        all.push(format!("A reserves {} times its live peak, B {} times.", words::ratio(of_a), words::ratio(of_b)));
    }
    if a.steps != b.steps {
        all.push(format!("A completed {} steps, B {}.", words::count(a.steps), words::count(b.steps)));
    }
    all
}
