//! Which candidates nothing beats, and which of them to use.

use super::Candidate;

/// A further key, or a call to the driver, is worth it if it saves more than this part of what is reserved.
const WORTH: u64 = 100;

/// The candidates that pass in every placement and that no other equals or beats in peak reserved, driver calls and
/// retries together; least reserved first, then cheapest, then shortest. What is simpler stays beside what reserves
/// about as much: within a hundredth of `usual`.
pub(super) fn front(mut candidates: Vec<Candidate>, usual: u64) -> Vec<Candidate> {
    candidates.retain(|c| c.tried.passes_firmly());
    candidates.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut front: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        // Earlier ones reserve no more. What is simpler stays beside what reserves about as much.
        let is_beaten = front.iter().any(|f| {
            let (a, b) = (f.price(), candidate.price());
            let is_simpler =
                keys(&candidate.text) < keys(&f.text) && candidate.peak_reserved() - f.peak_reserved() <= usual / WORTH;
            a.driver_calls <= b.driver_calls && a.retries <= b.retries && !is_simpler
        });
        if !is_beaten {
            front.push(candidate);
        }
    }
    front
}

fn key(c: &Candidate) -> (u64, super::Price, usize, &str) {
    (c.peak_reserved(), c.price(), c.text.len(), &c.text)
}

/// Of those that reserve about the least, the one with the fewest keys, then the fewest calls, then the fewest retries.
/// About means within a hundredth of `usual`, what is reserved otherwise. What `is_read` refuses is taken only where
/// nothing else passes.
pub(super) fn best(front: &[Candidate], usual: u64, is_read: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let mut readable: Vec<(usize, &Candidate)> = front.iter().enumerate().filter(|(_, c)| is_read(c)).collect();
    if readable.is_empty() {
        readable = front.iter().enumerate().collect();
    }
    let least = readable.first()?.1.peak_reserved();
    let slack = least.max(usual) / WORTH;
    readable
        .iter()
        .filter(|(_, c)| c.peak_reserved() - least <= slack)
        .min_by_key(|(i, c)| (keys(&c.text), c.price(), *i))
        .map(|(i, _)| *i)
}

/// Keys that a string sets.
pub(super) fn keys(text: &str) -> usize {
    let mut depth = 0;
    let commas = text.chars().filter(|&c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    });
    commas.count() + usize::from(!text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn commas_in_lists_are_not_between_keys() {
        assert_eq!(keys(""), 0);
        assert_eq!(keys("roundup_power2_divisions:[64:1,>:4]"), 1);
        assert_eq!(keys("roundup_power2_divisions:[64:1,>:4],expandable_segments:True"), 2);
    }
}
