//! What lies between the figures of a summary, a sentence each.

use super::Gap;
use crate::limit::Limit;
use crate::words;
use whyoom_allocator::Settings;
use whyoom_replay::MemoryStats;

pub(super) fn find(stats: &MemoryStats, settings: &Settings, limit: &Limit) -> Vec<Gap> {
    let level = |stat: &whyoom_replay::PoolStat| stat.all.current;
    let (requested, allocated) = (level(&stats.requested_bytes), level(&stats.allocated_bytes));
    let (active, reserved) = (level(&stats.active_bytes), level(&stats.reserved_bytes));
    vec![
        rounding(requested, active, settings),
        pending(allocated, active),
        cache(active, reserved, level(&stats.inactive_split_bytes), settings),
        headroom(reserved, limit),
    ]
}

/// Requested bytes are those of active blocks, so this is what active blocks have too much.
fn rounding(requested: u64, active: u64, settings: &Settings) -> Gap {
    let bytes = active.saturating_sub(requested);
    let percent = bytes as f64 / requested.max(1) as f64 * 100.0;
    let why = if settings.roundup_power2_divisions.iter().any(|divisions| *divisions > 1) {
        "`roundup_power2_divisions` rounds sizes up to parts of a power of two"
    } else if settings.expandable_segments {
        "blocks are multiples of 512 bytes"
    } else {
        "blocks are multiples of 512 bytes, and a rest of 1 MiB or less is not split off"
    };
    let statement = if bytes == 0 {
        "Rounding costs nothing here.".to_owned()
    } else if percent < 0.05 {
        format!("Rounding adds {}, under 0.1 % of what was asked for.", words::bytes(bytes))
    } else {
        format!("Rounding adds {} ({} % of what was asked for): {why}.", words::bytes(bytes), words::ratio(percent))
    };
    Gap { from: "requested_bytes", to: "allocated_bytes", bytes: Some(bytes), statement }
}

fn pending(allocated: u64, active: u64) -> Gap {
    let bytes = active.saturating_sub(allocated);
    let statement = if bytes == 0 {
        "Nothing waits for another stream: what is active is allocated.".to_owned()
    } else {
        format!(
            "{} were freed by the program and wait for other streams that `record_stream` named; nothing else can use \
             them until then.",
            words::bytes(bytes)
        )
    };
    Gap { from: "allocated_bytes", to: "active_bytes", bytes: Some(bytes), statement }
}

fn cache(active: u64, reserved: u64, split: u64, settings: &Settings) -> Gap {
    let bytes = reserved.saturating_sub(active);
    let whole = bytes.saturating_sub(split);
    let where_whole = if settings.expandable_segments {
        "in whole free segments or mapped pages, of which `empty_cache()` gives back whole pages"
    } else {
        "in segments that are wholly free, which `empty_cache()` gives back"
    };
    let statement = match (split, whole) {
        (0, 0) => "Nothing is cached: all that is reserved is in use.".to_owned(),
        (0, whole) => format!("{} are cached, {where_whole}.", words::bytes(whole)),
        (split, 0) => format!(
            "{} are cached, all in free parts of segments that are in use: `empty_cache()` cannot give them back.",
            words::bytes(split)
        ),
        (split, whole) => format!(
            "{} are cached: {} in free parts of segments that are in use, which nothing can give back, and {} \
             {where_whole}.",
            words::bytes(bytes),
            words::bytes(split),
            words::bytes(whole)
        ),
    };
    Gap { from: "active_bytes", to: "reserved_bytes", bytes: Some(bytes), statement }
}

fn headroom(reserved: u64, limit: &Limit) -> Gap {
    let bytes = limit.low.map(|low| low.saturating_sub(reserved));
    let statement = match (bytes, limit.in_words()) {
        (Some(0), Some(limit)) => format!("Nothing more can be reserved: {limit} is reached."),
        (Some(bytes), Some(limit)) => format!("{} more can be reserved under {limit}.", words::bytes(bytes)),
        _ if limit.source == "argument" => "There is no limit, as asked.".to_owned(),
        _ => "The limit is not known: the driver never refused; --limit gives it.".to_owned(),
    };
    Gap { from: "reserved_bytes", to: "limit_bytes", bytes, statement }
}
