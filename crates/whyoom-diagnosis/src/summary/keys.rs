//! The flat keys of `torch.cuda.memory_stats()`.

use std::collections::BTreeMap;
use whyoom_allocator::Release;
use whyoom_replay::{MemoryStats, PoolStat, Stat};

/// `memory_stats()` (`torch/cuda/memory.py`, 1.4) as the release has it: keys in ascending order, as it sorts them.
/// `max_split_size` in bytes, `None` = unlimited.
pub(super) fn flat(stats: &MemoryStats, max_split_size: Option<u64>, release: Release) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    let mut put = |key: &str, value: u64| {
        all.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    let pools = [
        ("allocation", &stats.allocation),
        ("segment", &stats.segment),
        ("active", &stats.active),
        ("inactive_split", &stats.inactive_split),
        ("allocated_bytes", &stats.allocated_bytes),
        ("reserved_bytes", &stats.reserved_bytes),
        ("active_bytes", &stats.active_bytes),
        ("inactive_split_bytes", &stats.inactive_split_bytes),
    ];
    let requested = release.at_least(2, 0).then_some(("requested_bytes", &stats.requested_bytes));
    for (name, stat) in pools.into_iter().chain(requested) {
        pool(name, stat, &mut put);
    }
    one("oversize_allocations", &stats.oversize_allocations, &mut put);
    one("oversize_segments", &stats.oversize_segments, &mut put);
    put("num_alloc_retries", stats.num_alloc_retries);
    put("num_ooms", stats.num_ooms);
    if release.at_least(2, 3) {
        put("num_sync_all_streams", stats.num_sync_all_streams);
    }
    if release.at_least(2, 4) {
        put("num_device_alloc", stats.num_device_alloc);
        put("num_device_free", stats.num_device_free);
    }
    let bytes = max_split_size.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(-1));
    all.insert("max_split_size".to_owned(), bytes);
    all
}

fn pool(name: &str, stat: &PoolStat, put: &mut impl FnMut(&str, u64)) {
    for (kind, stat) in [("all", &stat.all), ("small_pool", &stat.small_pool), ("large_pool", &stat.large_pool)] {
        one(&format!("{name}.{kind}"), stat, put);
    }
}

fn one(name: &str, stat: &Stat, put: &mut impl FnMut(&str, u64)) {
    let figures =
        [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)];
    for (figure, value) in figures {
        put(&format!("{name}.{figure}"), value);
    }
}
