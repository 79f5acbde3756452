//! Address ranges reserved for expandable segments, as far as a trace shows them.

use whyoom_snapshot::{Action, Device, PoolRef};

/// Pages of one reservation are mapped from its base without gaps; what was unmapped before the trace may leave
/// one. Two reservations are at least an eighth of the card apart.
const SLACK: u64 = 512 << 20;

/// The part of a reservation that was ever mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) base: u64,
    pub(crate) end: u64,
    /// Pool, where a segment of it is left at the end.
    pub(crate) pool: PoolRef,
}

/// All reservations of `device`, by ascending base.
pub(crate) fn reservations(device: &Device) -> Vec<Reservation> {
    let events = &device.events;
    let mut ranges: Vec<Reservation> = (0..events.len())
        .filter(|&i| matches!(events.action[i], Action::SegmentMap | Action::SegmentUnmap))
        .map(|i| Reservation {
            base: events.addr[i],
            end: events.addr[i].saturating_add(events.size[i]),
            pool: PoolRef::UNKNOWN,
        })
        .chain(device.segments.iter().filter(|s| s.is_expandable).map(|s| Reservation {
            base: s.address,
            end: s.address.saturating_add(s.total_size),
            pool: s.pool,
        }))
        .collect();
    ranges.sort_unstable_by_key(|r| r.base);
    let mut merged: Vec<Reservation> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.base <= last.end.saturating_add(SLACK) => {
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
