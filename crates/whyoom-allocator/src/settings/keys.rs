//! Every key of the settings string, with the releases whose parser knows it.

use std::fmt;

use crate::Release;

/// What a key takes after its colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// A whole number of MiB.
    Mebibytes,
    /// A number strictly between 0 and 1.
    Threshold,
    /// A number from 0 to 1.
    Fraction,
    /// `True` or `False`, spelled so.
    Boolean,
    /// A power of two, or a list `[MIB:DIVISIONS,...,>:DIVISIONS]` (2.0 and later).
    Divisions,
    /// `native` or `cudaMallocAsync`.
    Backend,
    /// A power of two up to 128.
    Threads,
    /// A fraction of the card, or a size such as `40G`.
    Reserve,
    /// A list `[CLASS:RESERVE,...]`.
    ReserveByClass,
}

/// What a key acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// The device allocator.
    Device,
    /// Pinned host memory only; device memory is the same with any value.
    PinnedHost,
}

/// Which of the two parsers of 2.10 and later reads a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Layer {
    /// `AcceleratorAllocatorConfig`, `c10/core/AllocatorConfig.cpp`.
    Accelerator,
    /// `CUDAAllocatorConfig`, `c10/cuda/CUDAAllocatorConfig.cpp`.
    Cuda,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its spelling; case matters.
    pub name: &'static str,
    /// What it takes.
    pub value: ValueKind,
    /// What it acts on.
    pub target: Target,
    /// First release line whose parser knows it; 1.13 stands for 1.13 and earlier.
    pub first: (u16, u16),
    /// Last release line whose parser knows it; `None` = still known.
    pub last: Option<(u16, u16)>,
    pub(super) layer: Layer,
}

impl Key {
    /// Whether the parser of `release` knows this key.
    pub fn is_known(&self, release: Release) -> bool {
        let line = (release.major, release.minor);
        (line >= self.first || self.first == FIRST) && self.last.is_none_or(|last| line <= last)
    }

    /// The key of that spelling, in whichever release.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// In words: the releases that know it, for example `2.11 and later`.
    pub fn availability(&self) -> String {
        let (major, minor) = self.first;
        match self.last {
            Some(last) if last == self.first => format!("{major}.{minor} only"),
            Some((last_major, last_minor)) => format!("{major}.{minor} to {last_major}.{last_minor}"),
            None => format!("{major}.{minor} and later"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The oldest parser that is modelled; earlier releases are read as this one.
pub(super) const FIRST: (u16, u16) = (1, 13);

const fn key(name: &'static str, value: ValueKind, target: Target, layer: Layer, first: (u16, u16)) -> Key {
    Key { name, value, target, first, last: None, layer }
}

use Layer::{Accelerator, Cuda};
use Target::{Device, PinnedHost};
use ValueKind::{Backend, Boolean, Divisions, Fraction, Mebibytes, Reserve, ReserveByClass, Threads, Threshold};

/// Every key that any release from 1.13 to 2.15 knows, in the order that [`canonical`](super::canonical) writes them.
///
/// The release columns were read from the released libraries (their string tables, and by running their parsers).
pub static KEYS: &[Key] = &[
    key("backend", Backend, Device, Cuda, (2, 0)),
    key("expandable_segments", Boolean, Device, Accelerator, (2, 1)),
    key("large_segment_size_mb", Mebibytes, Device, Accelerator, (2, 11)),
    key("max_split_size_mb", Mebibytes, Device, Accelerator, FIRST),
    key("max_non_split_rounding_mb", Mebibytes, Device, Accelerator, (2, 6)),
    key("garbage_collection_threshold", Threshold, Device, Accelerator, FIRST),
    key("roundup_power2_divisions", Divisions, Device, Accelerator, FIRST),
    Key {
        name: "roundup_bypass_threshold_mb",
        value: Mebibytes,
        target: Device,
        first: FIRST,
        last: Some(FIRST),
        layer: Accelerator,
    },
    key("per_process_memory_fraction", Fraction, Device, Cuda, (2, 10)),
    key("release_lock_on_cudamalloc", Boolean, Device, Cuda, (2, 2)),
    key("release_lock_on_hipmalloc", Boolean, Device, Cuda, (2, 2)),
    key("graph_capture_record_stream_reuse", Boolean, Device, Cuda, (2, 9)),
    key("throw_on_cudamalloc_oom", Boolean, Device, Cuda, (2, 12)),
    key("expandable_segments_reserve", Reserve, Device, Cuda, (2, 15)),
    key("expandable_segments_reserve_by_class", ReserveByClass, Device, Cuda, (2, 15)),
    key("pinned_use_cuda_host_register", Boolean, PinnedHost, Cuda, (2, 2)),
    key("pinned_use_hip_host_register", Boolean, PinnedHost, Cuda, (2, 2)),
    key("pinned_num_register_threads", Threads, PinnedHost, Cuda, (2, 2)),
    key("pinned_use_background_threads", Boolean, PinnedHost, Accelerator, (2, 6)),
    key("pinned_reserve_segment_size_mb", Mebibytes, PinnedHost, Cuda, (2, 10)),
    key("pinned_free_catch_all", Boolean, PinnedHost, Cuda, (2, 12)),
    key("pinned_max_round_threshold_mb", Mebibytes, PinnedHost, Accelerator, (2, 13)),
    key("pinned_max_cached_size_mb", Mebibytes, PinnedHost, Accelerator, (2, 13)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_reads_as_words() {
        let words = |name| Key::named(name).map(Key::availability).unwrap_or_default();
        assert_eq!(words("large_segment_size_mb"), "2.11 and later");
        assert_eq!(words("roundup_bypass_threshold_mb"), "1.13 only");
    }

    #[test]
    fn releases_before_the_first_parser_are_read_as_it() {
        let split = Key::named("max_split_size_mb").is_some_and(|key| key.is_known(Release::new(1, 9)));
        let segments = Key::named("expandable_segments").is_some_and(|key| key.is_known(Release::new(2, 0)));
        assert_eq!((split, segments), (true, false));
    }
}
