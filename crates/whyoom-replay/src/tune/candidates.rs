//! Settings worth trying on a program, from the sizes it asks for.

use super::TuneQuestion;
use std::collections::BTreeMap;
use whyoom_allocator::{SMALL_REQUEST, Settings, settings::MIB};

/// Split sizes taken from the program's own sizes.
const OWN_SPLITS: usize = 12;
/// Settings of the best that are paired with each other.
const PAIRED: usize = 24;
const THRESHOLDS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const DIVISIONS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Where candidates come from.
pub(super) struct Candidates {
    /// MiB at which not to split, from the sizes that weigh most.
    splits: Vec<u64>,
    /// Octaves of the list form of roundup that hold most bytes: exponent of their first MiB.
    octaves: Vec<usize>,
    segments: Vec<u64>,
    thresholds: Vec<f64>,
}

impl Candidates {
    pub(super) fn new(question: &TuneQuestion<'_>) -> Self {
        let mut weights: BTreeMap<u64, u64> = BTreeMap::new();
        let mut octaves = [0u64; 16];
        for request in question.program.requests.iter().chain(&question.program.failed) {
            if request.bytes > SMALL_REQUEST {
                let mebibytes = request.bytes.div_ceil(MIB);
                *weights.entry(mebibytes).or_default() += 1;
                let octave = (request.bytes / MIB).max(1).ilog2().min(15) as usize;
                octaves[octave] = octaves[octave].saturating_add(request.bytes);
            }
        }
        let largest = weights.keys().next_back().copied().unwrap_or(0);
        let mut own: Vec<(u64, u64)> =
            weights.into_iter().filter(|(mib, _)| *mib >= 20).map(|(mib, n)| (mib.saturating_mul(n), mib)).collect();
        own.sort_unstable_by(|a, b| b.cmp(a));
        let usual = [20, 32, 64, 128, 256, 512, 1024, 2048];
        let mut splits: Vec<u64> = usual.into_iter().filter(|&s| s <= largest.max(20)).collect();
        splits.extend(own.iter().take(OWN_SPLITS).map(|x| x.1));
        splits.sort_unstable();
        splits.dedup();
        let mut by_weight: Vec<usize> = (0..octaves.len()).filter(|&i| octaves[i] > 0).collect();
        by_weight.sort_unstable_by_key(|&i| (u64::MAX - octaves[i], i));
        by_weight.truncate(4);
        Self {
            splits,
            octaves: by_weight,
            segments: [32, 64, 128, 256, 512, 1024].to_vec(),
            thresholds: if question.collects { THRESHOLDS.to_vec() } else { Vec::new() },
        }
    }

    /// Settings of one key, the most used first.
    pub(super) fn singles(&self) -> Vec<Settings> {
        let default = Settings::default;
        let mut all = vec![default(), Settings { expandable_segments: true, ..default() }];
        all.extend(self.thresholds.iter().map(|&t| Settings { garbage_collection_threshold: t, ..default() }));
        all.extend(DIVISIONS.iter().map(|&d| roundup([d; 16])));
        // The usual split sizes before those of the program: where few are tried, people's own questions are answered.
        let is_usual = |s: &u64| s.is_power_of_two() || *s == 20;
        let (usual, own): (Vec<u64>, Vec<u64>) = self.splits.iter().partition(|s| is_usual(s));
        all.extend(usual.iter().map(|&s| split(s)));
        all.extend(self.segments.iter().map(|&s| large_segment(s)));
        for &octave in &self.octaves {
            all.extend([2, 4, 8].iter().map(|&d| roundup(std::array::from_fn(|i| if i == octave { d } else { 0 }))));
        }
        for first in [6usize, 8, 9, 10] {
            all.extend([1, 4].iter().map(|&d| roundup(std::array::from_fn(|i| if i < first { 0 } else { d }))));
        }
        // Coarse where small, fine where large.
        all.push(roundup(std::array::from_fn(|i| if i <= 8 { 1 } else { 1 << (i - 8).min(3) })));
        all.extend(own.iter().map(|&s| split(s)));
        all
    }

    /// Pairs of settings of different keys, of those that did best so far.
    pub(super) fn pairs(&self, ranked: &[Settings]) -> Vec<Settings> {
        let singles = self.singles();
        let mut pairs = Vec::new();
        for a in ranked.iter().take(PAIRED) {
            for b in &singles {
                pairs.extend(together(a, b));
            }
        }
        pairs
    }
}

fn roundup(divisions: [u32; 16]) -> Settings {
    Settings { roundup_power2_divisions: divisions, ..Settings::default() }
}

fn split(mebibytes: u64) -> Settings {
    Settings { max_split_size: Some(mebibytes * MIB), ..Settings::default() }
}

fn large_segment(mebibytes: u64) -> Settings {
    let bytes = mebibytes * MIB;
    // The release takes the rounding slack from the segment size unless it is set.
    Settings { large_segment_size: bytes, max_non_split_rounding: bytes, ..Settings::default() }
}

/// `a` with the key of `b` set too; `None` if it is set in both.
fn together(a: &Settings, b: &Settings) -> Option<Settings> {
    let default = Settings::default();
    let mut both = a.clone();
    let mut is_new = false;
    let mut set = |is_set: bool, is_taken: bool| {
        let may = is_set && !is_taken;
        is_new |= may;
        may
    };
    if set(b.expandable_segments, a.expandable_segments) {
        both.expandable_segments = true;
    }
    if set(b.max_split_size.is_some(), a.max_split_size.is_some()) {
        both.max_split_size = b.max_split_size;
    }
    if set(b.garbage_collection_threshold > 0.0, a.garbage_collection_threshold > 0.0) {
        both.garbage_collection_threshold = b.garbage_collection_threshold;
    }
    if set(
        b.roundup_power2_divisions != default.roundup_power2_divisions,
        a.roundup_power2_divisions != default.roundup_power2_divisions,
    ) {
        both.roundup_power2_divisions = b.roundup_power2_divisions;
    }
    if set(b.large_segment_size != default.large_segment_size, a.large_segment_size != default.large_segment_size) {
        (both.large_segment_size, both.max_non_split_rounding) = (b.large_segment_size, b.max_non_split_rounding);
    }
    is_new.then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_set_two_keys() {
        let a = Settings { expandable_segments: true, ..Settings::default() };
        let both = together(&a, &split(64)).expect("two keys");
        assert!(both.expandable_segments && both.max_split_size == Some(64 * MIB));
        assert_eq!(together(&a, &a), None);
        assert_eq!(together(&split(64), &split(128)), None);
    }
}
