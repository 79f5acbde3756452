//! From requested bytes to block and segment sizes.

use crate::{Model, Settings};

/// `kMinBlockSize` in `CUDACachingAllocator.cpp`, all releases.
pub const MIN_BLOCK: u64 = 512;
/// `kSmallSize` in `CUDACachingAllocator.cpp`: rounded requests up to this, inclusive, use the small pool; all releases.
pub const SMALL_REQUEST: u64 = 1 << 20;
/// `kSmallBuffer` in `CUDACachingAllocator.cpp`: segment and page size of the small pool, all releases.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// `kMinLargeAlloc` in `CUDACachingAllocator.cpp`: requests from here on get a segment of their own size, all releases.
pub const OWN_SEGMENT: u64 = 10 << 20;
/// `kRoundLarge` in `CUDACachingAllocator.cpp`, all releases.
pub const ROUND_LARGE: u64 = 2 << 20;

/// Size rules of one release under one set of settings, precomputed.
#[derive(Debug, Clone, Copy)]
pub struct SizeRules {
    divisions: [u32; 16],
    any_division: bool,
    bypass_above: u64,
    division_one_leaves_size_unrounded: bool,
    /// Segment (and expandable page) size of the large pool.
    pub large_segment: u64,
}

impl SizeRules {
    /// Rules of `model` under `settings`.
    pub fn new(model: &Model, settings: &Settings) -> Self {
        Self {
            divisions: settings.roundup_power2_divisions,
            any_division: settings.roundup_power2_divisions.iter().any(|&d| d > 0),
            bypass_above: settings.roundup_bypass_threshold.unwrap_or(u64::MAX),
            division_one_leaves_size_unrounded: model.division_one_leaves_size_unrounded,
            large_segment: if model.has_large_segment_size { settings.large_segment_size } else { 20 << 20 },
        }
    }

    /// Block size for a request of `bytes` (`round_size`).
    #[inline]
    pub fn round(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK {
            return MIN_BLOCK;
        }
        if self.any_division
            && let Some(rounded) = self.round_by_division(bytes)
        {
            return rounded;
        }
        bytes.saturating_add(MIN_BLOCK - 1) / MIN_BLOCK * MIN_BLOCK
    }

    fn round_by_division(&self, bytes: u64) -> Option<u64> {
        let octave = (bytes.max(1).ilog2() as usize).saturating_sub(20).min(15);
        let divisions = u64::from(self.divisions[octave]);
        if bytes > self.bypass_above || bytes <= MIN_BLOCK.saturating_mul(divisions) {
            return None;
        }
        match divisions {
            0 => None,
            1 => self.division_one_leaves_size_unrounded.then_some(bytes),
            _ if bytes.is_power_of_two() => Some(bytes),
            d => {
                let floor = 1u64 << bytes.ilog2();
                let step = floor >> d.ilog2();
                Some(if step == 0 { floor.saturating_mul(2) } else { bytes.div_ceil(step).saturating_mul(step) })
            }
        }
    }

    /// What the driver is asked for to serve a block of `size` (`get_allocation_size`).
    #[inline]
    pub fn segment(&self, size: u64) -> u64 {
        if size <= SMALL_REQUEST {
            SMALL_SEGMENT
        } else if size < OWN_SEGMENT {
            self.large_segment
        } else {
            size.saturating_add(ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE
        }
    }

    /// Page size of expandable segments in the small or large pool.
    #[inline]
    pub fn page(&self, is_small: bool) -> u64 {
        if is_small { SMALL_SEGMENT } else { self.large_segment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn rules(divisions: u32, release: Release) -> SizeRules {
        let settings = Settings { roundup_power2_divisions: [divisions; 16], ..Settings::default() };
        SizeRules::new(&Model::for_torch(release), &settings)
    }

    #[test]
    fn plain_rounding_is_to_512_bytes() {
        let r = rules(0, Release::DEFAULT);
        for (request, size) in [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)] {
            assert_eq!(r.round(request), size, "{request}");
        }
    }

    #[test]
    fn power_of_two_divisions_round_within_their_octave() {
        let r = rules(4, Release::DEFAULT);
        let cases = [
            (1200, 1536),
            (2048, 2048),
            (2049, 2560),
            (5000, 5120),
            (5 * MIB + 1, 6 * MIB),
            (9 * MIB, 10 * MIB),
            (GIB + 1, GIB + GIB / 4),
        ];
        for (request, size) in cases {
            assert_eq!(r.round(request), size, "{request}");
        }
        assert_eq!(rules(2, Release::DEFAULT).round(9 * MIB), 12 * MIB);
    }

    #[test]
    fn one_division_leaves_sizes_unrounded_up_to_2_0() {
        assert_eq!(rules(1, Release::new(2, 0)).round(1001), 1001);
        assert_eq!(rules(1, Release::new(2, 1)).round(1001), 1024);
    }

    #[test]
    fn segments_come_in_three_classes() {
        let r = rules(0, Release::DEFAULT);
        let cases = [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
            (21 * MIB, 22 * MIB),
        ];
        for (size, segment) in cases {
            assert_eq!(r.segment(size), segment, "{size}");
        }
    }
}
