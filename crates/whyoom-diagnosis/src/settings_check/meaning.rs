//! What each key does, in a sentence.

use serde::Serialize;
use whyoom_allocator::settings::{Backend, Key, MIB, Parsed, Target, ValueKind};

/// A key of a string, and what it does there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyMeaning {
    /// Its name.
    pub key: &'static str,
    /// The releases whose parser knows it, in words.
    pub known_to: String,
    /// What it does with the value in force.
    pub does: String,
}

/// The keys of an accepted string, in its order.
pub(super) fn of(parsed: &Parsed) -> Vec<KeyMeaning> {
    let by_driver = parsed.settings.backend == Backend::CudaMallocAsync;
    let is_ignored = |key: &Key| {
        by_driver && key.target == Target::Device && !matches!(key.value, ValueKind::Backend | ValueKind::Fraction)
    };
    let meaning = |key: &'static Key| {
        let does =
            if is_ignored(key) { "nothing: the driver's pool does not read it".to_owned() } else { does(key, parsed) };
        KeyMeaning { key: key.name, known_to: key.availability(), does }
    };
    parsed.mentioned.iter().map(|mention| meaning(mention.key)).collect()
}

fn does(key: &Key, parsed: &Parsed) -> String {
    let (settings, host) = (&parsed.settings, &parsed.host);
    let mib = |bytes: u64| bytes / MIB;
    let switch = |on: bool, yes: &str| if on { yes.to_owned() } else { format!("off; when on: {yes}") };
    match key.name {
        "backend" => match settings.backend {
            Backend::Native => "PyTorch's own caching allocator, the default".to_owned(),
            Backend::CudaMallocAsync => {
                "the driver's own pool in place of PyTorch's allocator, without snapshots".to_owned()
            }
        },
        "expandable_segments" => switch(
            settings.expandable_segments,
            "memory is mapped page by page into one growing address range, so that free space is not cut up by segments",
        ),
        "large_segment_size_mb" => {
            format!("requests above 1 MiB and below 10 MiB share segments of {} MiB", mib(settings.large_segment_size))
        }
        "max_split_size_mb" => settings.max_split_size.map_or_else(String::new, |size| match mib(size) {
            // `max_allowed_split_size_mb`.
            huge if huge >= u64::MAX / MIB => "so large that it limits nothing".to_owned(),
            n => format!("blocks of {n} MiB or more are never split, and serve no request below {n} MiB"),
        }),
        "max_non_split_rounding_mb" => {
            let n = mib(settings.max_non_split_rounding);
            format!("a block that may not be split serves requests down to {n} MiB below its size")
        }
        "garbage_collection_threshold" => format!(
            "under a memory fraction, cached blocks that lie unused are released once {} % of the limit is reserved",
            (settings.garbage_collection_threshold * 1000.0).round() / 10.0
        ),
        "roundup_power2_divisions" => divisions(&settings.roundup_power2_divisions),
        "roundup_bypass_threshold_mb" => settings.roundup_bypass_threshold.map_or_else(String::new, |bytes| {
            format!("requests above {} MiB are rounded to 512 bytes only", mib(bytes))
        }),
        "per_process_memory_fraction" => settings.per_process_memory_fraction.map_or_else(String::new, |fraction| {
            let percent = (fraction * 1000.0).round() / 10.0;
            if fraction >= 1.0 { "no limit".to_owned() } else { format!("at most {percent} % of the card is reserved") }
        }),
        "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => switch(
            settings.release_lock_on_cudamalloc,
            "other threads may allocate while the driver is asked for a segment",
        ),
        "graph_capture_record_stream_reuse" => switch(
            settings.graph_capture_record_stream_reuse,
            "blocks that other streams used are used again within a graph capture",
        ),
        "throw_on_cudamalloc_oom" => switch(
            settings.throw_on_cudamalloc_oom,
            "a request beyond the memory fraction fails at once, before anything cached is released",
        ),
        "expandable_segments_reserve" | "expandable_segments_reserve_by_class" => {
            "how much address space an expandable segment takes; memory only as it is mapped".to_owned()
        }
        "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => switch(
            host.use_host_register,
            "pinned host memory is allocated, then registered, in place of cudaHostAlloc",
        ),
        "pinned_num_register_threads" => {
            format!("pinned host memory is registered by {} threads", host.register_threads)
        }
        "pinned_use_background_threads" => {
            switch(host.use_background_threads, "a background thread looks after freed pinned host memory")
        }
        "pinned_reserve_segment_size_mb" => {
            format!("{} MiB of pinned host memory are reserved at once", host.reserve_segment_mebibytes)
        }
        "pinned_free_catch_all" => switch(host.free_catch_all, "errors while pinned host memory is freed are caught"),
        "pinned_max_round_threshold_mb" => {
            "up to which size pinned host memory is rounded to a power of two".to_owned()
        }
        "pinned_max_cached_size_mb" => "up to which size pinned host memory is kept when it is freed".to_owned(),
        _ => String::new(),
    }
}

fn divisions(table: &[u32; 16]) -> String {
    let first = table[0];
    if table.iter().any(|divisions| *divisions != first) {
        return "sizes are rounded up to parts of a power of two, by octave; the value for N holds from N to 2N MiB"
            .to_owned();
    }
    if first < 2 {
        return "sizes are rounded to 512 bytes only, as by default".to_owned();
    }
    // The worst case is just above a power of two.
    let percent = 100.0 / f64::from(first);
    let percent = (percent * 10.0).round() / 10.0;
    format!(
        "sizes are rounded up to one of {first} steps between two powers of two, by up to {percent} %, so that more of them are equal"
    )
}
