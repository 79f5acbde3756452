//! Which remedies the short form shows, and which of them share a row.

use whyoom_diagnosis::explanation::{Cause, DeviceReport, Remedy, RemedyOutcome};

use super::{
    reading::{Reading, reading},
    results::result,
};
use crate::text::words::View;

/// Rows in the short form, those apart that are always shown.
const SHOWN: usize = 8;
/// The same for a leak, which settings only delay.
const SHOWN_OF_LEAK: usize = 5;
/// Rows of what the limit or another run decides, apart from what is always shown.
const MOST_OPEN: usize = 1;
/// What people try first, whatever the cause: after a failure its result is always shown.
const FOLKLORE: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "garbage_collection_threshold:0.6",
    "empty_cache() every step",
];

/// One row: a remedy, or several that come to the same.
pub(super) type Row = Vec<usize>;

/// The rows of the short form: the best of each kind, a pair of settings only if no single one does as well, what is
/// recommended, what people try first, and what does harm as far as there is room.
pub(super) fn choose(view: &View<'_>) -> Vec<Row> {
    let device = view.device;
    let all = &device.remedies;
    if view.options.verbose {
        return (0..all.len()).map(|i| vec![i]).collect();
    }
    let is_leak = device.findings.first().is_some_and(|f| f.cause == Cause::Leak);
    let room = if is_leak { SHOWN_OF_LEAK } else { SHOWN };
    let room = room.saturating_sub(view.tightness);
    let mut rows = rows(view);
    let best_of =
        |kind: &str| rows.iter().flatten().copied().find(|&i| all[i].kind == kind && is_help(reading(device, &all[i])));
    // A smaller batch delays a leak as settings do.
    let (code, workload) = (best_of("code"), best_of("workload").filter(|_| !is_leak));
    let is_always = |row: &Row| {
        row.iter().any(|&i| {
            let is_known = fails(device) && FOLKLORE.contains(&all[i].apply.as_str());
            is_known || recommended(device) == Some(i) || code == Some(i) || workload == Some(i)
        })
    };
    let is_idle = |row: &Row| row.first().is_some_and(|&i| is_idle(reading(device, &all[i])));
    let mut left = room.saturating_sub(rows.iter().filter(|row| is_always(row)).count());
    // Of what does not help one row more is enough, the one of what does harm if there is one.
    let is_worse = |row: &Row| row.iter().any(|&i| all[i].outcome == RemedyOutcome::Worse);
    let wants = |row: &Row| is_idle(row) && !is_always(row) && !is_leak;
    let one_more = rows.iter().position(|r| wants(r) && is_worse(r)).or_else(|| rows.iter().position(wants));
    let one_more = one_more.filter(|_| view.tightness < View::TIGHTEST);
    left = left.saturating_sub(usize::from(one_more.is_some()));
    let mut depends = 0;
    let mut at = 0;
    rows.retain(|row| {
        at += 1;
        if is_always(row) || one_more == Some(at - 1) {
            return true;
        }
        // What the limit decides is mostly the same for all of these.
        let how = row.first().map(|&i| reading(device, &all[i]));
        let is_open = matches!(how, Some(Reading::Depends | Reading::Open));
        depends += usize::from(is_open);
        let is_kept = left > 0 && !is_idle(row) && (!is_open || depends <= MOST_OPEN);
        left -= usize::from(is_kept);
        is_kept
    });
    rows
}

/// All that the short form may show, best first: what helps by itself, the best of each key; what does not, together
/// with all others that come to the same.
fn rows(view: &View<'_>) -> Vec<Row> {
    let device = view.device;
    let all = &device.remedies;
    let is_single = |r: &Remedy| r.kind != "setting" || !is_pair(&r.apply);
    let single_helps = all.iter().any(|r| r.kind == "setting" && is_single(r) && is_help(reading(device, r)));
    let mut rows: Vec<Row> = Vec::new();
    let mut texts: Vec<Option<String>> = Vec::new();
    let mut helped: Vec<&str> = Vec::new();
    let mildest = mildest_workload(device);
    for (i, remedy) in all.iter().enumerate() {
        let how = reading(device, remedy);
        // A larger limit has a line of its own; of batches that pass, the largest is of interest.
        let is_told_elsewhere = remedy.kind == "environment"
            || (remedy.kind == "workload" && is_help(how) && mildest.is_some_and(|m| m != i));
        if is_told_elsewhere {
            continue;
        }
        if is_help(how) {
            let kind = match remedy.kind {
                "setting" => key(&remedy.apply),
                "call" => "call",
                _ => remedy.id.as_str(),
            };
            let is_best = is_single(remedy) && !helped.contains(&kind);
            let is_needed = !is_single(remedy) && !single_helps && !helped.contains(&"pair");
            let is_known = fails(device) && FOLKLORE.contains(&remedy.apply.as_str());
            if is_best || is_needed || is_known || recommended(device) == Some(i) {
                helped.push(if is_single(remedy) { kind } else { "pair" });
                rows.push(vec![i]);
                texts.push(None);
            }
        } else if is_single(remedy) && !is_rare(&remedy.apply) {
            let text = Some(result(view, remedy, how));
            if let Some(row) = texts.iter().position(|t| *t == text) {
                rows[row].push(i);
            } else {
                rows.push(vec![i]);
                texts.push(text);
            }
        }
    }
    rows
}

/// The smallest cut of the batch that passes with room.
pub(super) fn mildest_workload(device: &DeviceReport) -> Option<usize> {
    let factor = |r: &Remedy| r.id.strip_prefix("workload/batch/").and_then(|f| f.parse::<f64>().ok());
    let passing = device.remedies.iter().enumerate().filter(|(_, r)| reading(device, r) == Reading::Passes);
    passing.filter_map(|(i, r)| Some((i, factor(r)?))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

/// What few people write; shown where it helps.
fn is_rare(settings: &str) -> bool {
    settings.contains('[') || settings.starts_with("large_segment_size_mb")
}

/// Whether a request failed, in the recording or in the replay of what was asked.
fn fails(device: &DeviceReport) -> bool {
    device.oom.is_some() || device.would_fail.is_some()
}

fn is_idle(how: Reading) -> bool {
    !is_help(how) && !matches!(how, Reading::Depends | Reading::Open)
}

fn is_help(how: Reading) -> bool {
    matches!(how, Reading::Passes | Reading::Lowers | Reading::Gamble | Reading::Delays)
}

/// The setting to use, as an index: the best that passes with room, one key before two (it is understood, kept and
/// removed more easily).
pub(super) fn recommended(device: &DeviceReport) -> Option<usize> {
    let is_good = |r: &Remedy| {
        let is_available = !r.note.as_deref().is_some_and(|n| n.contains("not available"));
        r.kind == "setting"
            && !r.apply.is_empty()
            && is_available
            && matches!(reading(device, r), Reading::Passes | Reading::Lowers)
    };
    let good = || device.remedies.iter().enumerate().filter(|(_, r)| is_good(r));
    good().find(|(_, r)| !is_pair(&r.apply)).or_else(|| good().next()).map(|(i, _)| i)
}

/// Several remedies as one text: `max_split_size_mb:20, 128; empty_cache() every step`. What people try first comes
/// first.
pub(super) fn names(all: &[Remedy], row: &[usize]) -> String {
    let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
    for &i in row {
        let (key, value) = match all[i].apply.split_once(':').filter(|_| all[i].kind == "setting") {
            Some((key, value)) => (key, value),
            None => (all[i].apply.as_str(), ""),
        };
        match keys.iter_mut().find(|k| k.0 == key) {
            Some((_, values)) => values.push(value),
            None => keys.push((key, vec![value])),
        }
    }
    let place = |key: &str, value: &str| {
        let is_it = |f: &str| f.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(':') == value);
        FOLKLORE.iter().position(|f| is_it(f)).unwrap_or(FOLKLORE.len())
    };
    for (_, values) in &mut keys {
        let number = |v: &str| v.parse::<f64>().unwrap_or(f64::INFINITY);
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    keys.sort_by_key(|(key, values)| values.iter().map(|v| place(key, v)).min());
    let text = |(key, values): (&str, Vec<&str>)| {
        if values == [""] { key.to_owned() } else { format!("{key}:{}", values.join(", ")) }
    };
    keys.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Whether a settings string sets several keys; commas inside a list are not between keys.
pub(super) fn is_pair(settings: &str) -> bool {
    let mut depth = 0;
    settings.chars().any(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
}

/// The first key of a settings string.
fn key(settings: &str) -> &str {
    settings.split(':').next().unwrap_or(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_lists() {
        assert!(is_pair("expandable_segments:True,max_split_size_mb:128"));
        assert!(!is_pair("roundup_power2_divisions:[256:1,512:2,>:8]"));
        assert_eq!(key("max_split_size_mb:128"), "max_split_size_mb");
        assert_eq!(key("odd"), "odd");
    }
}
