//! What differs between releases, as named switches.

use crate::Release;

/// The allocator of one release: one algorithm, with the places where releases differ as switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// The release modelled.
    pub release: Release,
    /// With one division and more than 512 bytes the size comes back unrounded (`round_size`, up to 2.0).
    pub division_one_leaves_size_unrounded: bool,
    /// Expandable segments exist (`expandable_segments`, from 2.1).
    pub has_expandable_segments: bool,
    /// Private pools may be expandable (from 2.6).
    pub private_pools_expand: bool,
    /// Any pool scope, not only a real capture, disables the full release and retry (up to 2.12).
    pub pool_scope_blocks_retry: bool,
    /// `use_on_oom` pools are tried before memory is released (from 2.11), else as the last resort.
    pub use_on_oom_before_release: bool,
    /// `use_on_oom` pools exist (from 2.8).
    pub has_use_on_oom: bool,
    /// `no_split` pools exist (from 2.11).
    pub has_no_split: bool,
    /// A fraction of 1.0 means no limit (from 2.10); before, it sets a limit and switches the collector on.
    pub fraction_one_is_unlimited: bool,
    /// The rounding slack of oversize blocks is an option (`max_non_split_rounding_mb`, from 2.6), else the constant 20 MiB.
    pub has_max_non_split_rounding: bool,
    /// The large segment size is an option (`large_segment_size_mb`, from 2.11).
    pub has_large_segment_size: bool,
}

impl Model {
    /// The allocator of `release`.
    pub const fn for_torch(release: Release) -> Self {
        Self {
            release,
            division_one_leaves_size_unrounded: !release.at_least(2, 1),
            has_expandable_segments: release.at_least(2, 1),
            private_pools_expand: release.at_least(2, 6),
            pool_scope_blocks_retry: !release.at_least(2, 13),
            use_on_oom_before_release: release.at_least(2, 11),
            has_use_on_oom: release.at_least(2, 8),
            has_no_split: release.at_least(2, 11),
            fraction_one_is_unlimited: release.at_least(2, 10),
            has_max_non_split_rounding: release.at_least(2, 6),
            has_large_segment_size: release.at_least(2, 11),
        }
    }

    /// What the allocator may reserve under `set_per_process_memory_fraction(fraction)` on a device of
    /// `total_bytes`; `None` = no limit. Mirrors `setMemoryFraction` in `CUDACachingAllocator.cpp`.
    pub fn limit_of_fraction(&self, fraction: f64, total_bytes: u64) -> Option<u64> {
        if fraction >= 1.0 && self.fraction_one_is_unlimited {
            return None;
        }
        Some((fraction * total_bytes as f64) as u64)
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::for_torch(Release::DEFAULT)
    }
}
