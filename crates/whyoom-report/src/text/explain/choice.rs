//! Which remedies the short form shows.

use whyoom_diagnosis::explanation::{Cause, Remedy, RemedyOutcome};

use super::reading::{Reading, reading};
use crate::text::words::View;

/// Remedies in the short form.
const SHOWN: usize = 8;
/// The same for a leak, which settings only delay.
const SHOWN_OF_LEAK: usize = 5;

/// Which remedies the short form shows: the best of each kind, a pair of settings only if no single one does as well,
/// and what does harm as far as there is room.
pub(super) fn choose(view: &View<'_>) -> Vec<usize> {
    let device = view.device;
    let all = &device.remedies;
    if view.options.verbose {
        return (0..all.len()).collect();
    }
    let is_leak = device.findings.first().is_some_and(|f| f.cause == Cause::Leak);
    let room = if is_leak { SHOWN_OF_LEAK } else { SHOWN };
    let is_single = |r: &Remedy| r.kind != "setting" || !is_pair(&r.apply);
    let is_good = |r: &Remedy| matches!(reading(device, r), Reading::Passes | Reading::Lowers | Reading::Gamble);
    let mut shown: Vec<usize> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for (i, remedy) in all.iter().enumerate() {
        let kind = if remedy.kind == "setting" { key(&remedy.apply) } else { remedy.id.as_str() };
        if is_single(remedy) && !kinds.contains(&kind) {
            kinds.push(kind);
            shown.push(simplest(view, i));
        }
    }
    let single_helps = all.iter().any(|r| is_single(r) && r.kind == "setting" && is_good(r));
    if !single_helps {
        shown.extend(all.iter().position(|r| !is_single(r) && is_good(r)));
    }
    shown.sort_unstable();
    shown.truncate(room);
    let harmful = (0..all.len()).rev().filter(|&i| all[i].outcome == RemedyOutcome::Worse && is_single(&all[i]));
    for i in harmful {
        if shown.len() < room && !shown.contains(&i) && !shown.iter().any(|&s| all[s].outcome == RemedyOutcome::Worse) {
            shown.push(i);
        }
    }
    shown.sort_unstable();
    shown
}

/// Of the settings of one key that do as little as the `i`th remedy, the shortest.
fn simplest(view: &View<'_>, i: usize) -> usize {
    let all = &view.device.remedies;
    let first = &all[i];
    let is_idle = matches!(first.outcome, RemedyOutcome::NoChange | RemedyOutcome::Fails | RemedyOutcome::NotVerified);
    if first.kind != "setting" || !is_idle {
        return i;
    }
    let is_like = |r: &Remedy| {
        r.kind == "setting" && r.outcome == first.outcome && !is_pair(&r.apply) && key(&r.apply) == key(&first.apply)
    };
    (i..all.len()).filter(|&j| is_like(&all[j])).min_by_key(|&j| all[j].apply.len()).unwrap_or(i)
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
