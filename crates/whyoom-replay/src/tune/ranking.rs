//! Which of the settings replayed once are worth a closer look.

use super::{Candidate, FINALISTS, Price, Replayed, pareto};
use crate::counterfactual::Tried;
use whyoom_allocator::Settings;

/// Finalists of a single key.
const SIMPLEST: usize = 4;

/// Settings that pass, least reserved first.
pub(super) fn ranked(all: &[Replayed]) -> Vec<Settings> {
    let mut passing: Vec<&Replayed> =
        all.iter().filter(|(_, _, o)| o.first_failure.is_none() && !o.was_given_up).collect();
    passing.sort_by_key(|(_, text, o)| (o.stats.reserved.peak, Price::of(&o.stats), text.len(), text.clone()));
    let chosen: Vec<Settings> = passing.into_iter().map(|(s, ..)| s.clone()).collect();
    // Where nothing passes, what gets furthest is the best start for pairs.
    if !chosen.is_empty() {
        return chosen;
    }
    let mut failing: Vec<&Replayed> = all.iter().collect();
    failing.sort_by_key(|(_, text, o)| {
        (u64::MAX - o.first_failure.map_or(u64::MAX, |f| f.malloc), text.len(), text.clone())
    });
    failing.into_iter().map(|(s, ..)| s.clone()).collect()
}

/// What passes and nothing beats, least reserved first.
pub(super) fn front(all: &[Replayed], usual: u64) -> Vec<(Settings, String)> {
    let once = all.iter().filter(|r| r.2.first_failure.is_none() && !r.2.was_given_up).map(|(settings, text, o)| {
        let peak = o.stats.reserved.peak;
        let tried = Tried {
            outcome: *o,
            peak_reserved_range: (peak, peak),
            tie_sensitive: false,
            timing_sensitive: false,
            members: 1,
            failing_members: 0,
        };
        Candidate { settings: settings.clone(), text: text.clone(), tried }
    });
    let mut front = pareto::front(once.collect(), usual);
    // A long front is thinned out evenly: its ends are the least memory and the fewest calls.
    let most = FINALISTS - SIMPLEST;
    if front.len() > most {
        let last = front.len() - 1;
        front = (0..most).map(|k| front[k * last / (most - 1)].clone()).collect();
    }
    front.into_iter().map(|c| (c.settings, c.text)).collect()
}

/// The few settings of one key that pass and reserve least.
pub(super) fn simplest(all: &[Replayed]) -> Vec<(Settings, String)> {
    let single = |r: &&Replayed| pareto::keys(&r.1) <= 1 && r.2.first_failure.is_none() && !r.2.was_given_up;
    let mut passing: Vec<&Replayed> = all.iter().filter(single).collect();
    passing.sort_by_key(|(_, text, o)| (o.stats.reserved.peak, Price::of(&o.stats), text.clone()));
    passing.into_iter().take(SIMPLEST).map(|(s, text, _)| (s.clone(), text.clone())).collect()
}
