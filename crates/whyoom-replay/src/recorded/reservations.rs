//! Address ranges reserved for expandable segments, as far as a trace shows them.

use std::collections::BTreeMap;
use whyoom_allocator::SMALL_SEGMENT;
use whyoom_snapshot::{Action, Device, PoolRef, StreamId};

/// Pages of one reservation are mapped from its base without gaps, but what was unmapped before the trace leaves
/// some: at most what was ever reserved. Two reservations of one kind start 9/8 of the card apart.
const SLACK: std::ops::RangeInclusive<u64> = 1 << 30..=45 << 30;

/// The part of a reservation that was ever mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) base: u64,
    pub(crate) end: u64,
    /// Pool, where a segment of it is left at the end.
    pub(crate) pool: PoolRef,
}

/// All reservations of `device`, by ascending base.
pub(crate) fn reservations(device: &Device, peak_reserved: u64) -> Vec<Reservation> {
    let slack = peak_reserved.clamp(*SLACK.start(), *SLACK.end());
    let events = &device.events;
    let mut kinds: BTreeMap<(StreamId, bool), Vec<Reservation>> = BTreeMap::new();
    for i in 0..events.len() {
        // The small pool maps single pages of 2 MiB; what it unmaps is seldom a multiple of a large page.
        let is_small = match events.action[i] {
            Action::SegmentMap => events.size[i] == SMALL_SEGMENT,
            Action::SegmentUnmap => !events.size[i].is_multiple_of(10 * SMALL_SEGMENT),
            _ => continue,
        };
        kinds.entry((events.stream[i], is_small)).or_default().push(Reservation {
            base: events.addr[i],
            end: events.addr[i].saturating_add(events.size[i]),
            pool: PoolRef::UNKNOWN,
        });
    }
    for s in device.segments.iter().filter(|s| s.is_expandable) {
        kinds.entry((s.stream, s.is_small)).or_default().push(Reservation {
            base: s.address,
            end: s.address.saturating_add(s.total_size),
            pool: s.pool,
        });
    }
    let mut all: Vec<Reservation> = kinds.into_values().flat_map(|ranges| merge(ranges, slack)).collect();
    all.sort_unstable_by_key(|r| r.base);
    all
}

fn merge(mut ranges: Vec<Reservation>, slack: u64) -> Vec<Reservation> {
    ranges.sort_unstable_by_key(|r| r.base);
    let mut merged: Vec<Reservation> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.base <= last.end.saturating_add(slack) => {
                last.end = last.end.max(range.end);
                if last.pool == PoolRef::UNKNOWN {
                    last.pool = range.pool;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Index of the reservation that holds `address`.
pub(crate) fn find(reservations: &[Reservation], address: u64) -> Option<usize> {
    let at = reservations.partition_point(|r| r.base <= address).checked_sub(1)?;
    (address < reservations[at].end).then_some(at)
}
