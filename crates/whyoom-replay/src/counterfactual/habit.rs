//! Where the CUDA driver puts new segments.
//!
//! Among free blocks of equal size PyTorch takes the one at the lower address, so the relative position of
//! segments decides ties, a fifth of all searches. The rules here are what recordings show of driver 580 with
//! CUDA 13 on Linux; where they leave a choice, [`Placement`] names it and a few members are run.
//! Expandable segments do not depend on any of this.

use super::rooms::Rooms;
use std::collections::BTreeMap;
use whyoom_allocator::Driver;

const MIB: u64 = 1 << 20;
/// Address space is taken in ranges of a multiple of this.
const RANGE: u64 = 32 * MIB;
/// A place at the top of the model's address space; any multiple of [`RANGE`] serves.
const TOP: u64 = 1 << 46;
/// The driver's own buffer below [`TOP`] at the start, replaced when kernels need more local memory.
const OWN_BUFFER: u64 = 416 * MIB;
/// What replaces it.
const GROWN_BUFFER: u64 = 512 * MIB;
/// Taken for good when the cuBLAS handle is made.
const CUBLAS_HANDLE: u64 = 64 * MIB;

/// One plausible course of the events that move the driver's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// When the driver's own buffer grows.
    pub growth: Growth,
    /// Whether the cuBLAS handle takes address space just before its workspace is requested.
    pub has_cublas_handle: bool,
}

/// When the driver's own buffer grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// Never.
    Never,
    /// Before the first request.
    AtStart,
    /// So many requests before the first free of the trace.
    BeforeFirstFree(u64),
}

impl Placement {
    /// The course that recordings show most often.
    pub const USUAL: Self = Self { growth: Growth::BeforeFirstFree(7), has_cublas_handle: true };

    /// The usual course first, then the other members of the ensemble.
    pub const ENSEMBLE: [Self; 6] = [
        Self::USUAL,
        Self { growth: Growth::BeforeFirstFree(7), has_cublas_handle: false },
        Self { growth: Growth::BeforeFirstFree(3), has_cublas_handle: true },
        Self { growth: Growth::BeforeFirstFree(0), has_cublas_handle: true },
        Self { growth: Growth::AtStart, has_cublas_handle: true },
        Self { growth: Growth::Never, has_cublas_handle: true },
    ];
}

/// How the limit refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// A memory fraction: compared with the size asked for before any driver call.
    Fraction,
    /// The card is full: also pages are refused one by one.
    Card,
}

/// A driver with invented addresses that follow the habit, and a limit.
#[derive(Debug, Clone)]
pub struct HabitDriver {
    /// Base and length of every address range in use.
    ranges: BTreeMap<u64, u64>,
    /// Free room inside ranges.
    gaps: Rooms,
    /// Free address space between ranges.
    holes: Rooms,
    limit: Option<u64>,
    kind: LimitKind,
    growth_at: u64,
    handle_at: u64,
    /// Ordinal of the next request before which something happens.
    pub(crate) next_landmark: u64,
    next_reservation: u64,
}

impl HabitDriver {
    /// A driver at the start of a process.
    ///
    /// `requests_before_first_free` and `first_workspace_request` are ordinals in the program
    /// ([`crate::Program`] has both).
    pub fn new(
        placement: Placement,
        limit: Option<u64>,
        kind: LimitKind,
        requests_before_first_free: Option<u64>,
        first_workspace_request: Option<u64>,
    ) -> Self {
        let ranges = BTreeMap::from([(TOP - OWN_BUFFER, OWN_BUFFER), (TOP + 64 * MIB, RANGE)]);
        let mut gaps = Rooms::default();
        gaps.insert(TOP - 2 * MIB, 2 * MIB);
        gaps.insert(TOP + 72 * MIB, 24 * MIB);
        let growth_at = match placement.growth {
            Growth::Never => u64::MAX,
            Growth::AtStart => 0,
            Growth::BeforeFirstFree(n) => requests_before_first_free.map_or(u64::MAX, |at| at.saturating_sub(n)),
        };
        let handle_at = first_workspace_request.filter(|_| placement.has_cublas_handle).unwrap_or(u64::MAX);
        Self {
            ranges,
            gaps,
            holes: Rooms::default(),
            limit,
            kind,
            growth_at,
            handle_at,
            next_landmark: growth_at.min(handle_at),
            next_reservation: 1 << 48,
        }
    }

    /// Tells the driver that request `ordinal` comes next.
    pub(crate) fn before_request(&mut self, ordinal: u64) {
        if ordinal >= self.growth_at {
            self.growth_at = u64::MAX;
            self.grow_own_buffer();
        }
        if ordinal >= self.handle_at {
            self.handle_at = u64::MAX;
            self.take(CUBLAS_HANDLE);
        }
        self.next_landmark = self.growth_at.min(self.handle_at);
    }

    fn grow_own_buffer(&mut self) {
        let base = self.new_range(GROWN_BUFFER);
        debug_assert!(self.ranges.contains_key(&base));
        self.give_back(TOP - OWN_BUFFER, OWN_BUFFER - 2 * MIB);
    }

    /// The lowest gap that fits, else a new range.
    fn take(&mut self, bytes: u64) -> u64 {
        if let Some((address, room)) = self.gaps.lowest(bytes) {
            self.gaps.remove(address);
            if room > bytes {
                self.gaps.insert(address + bytes, room - bytes);
            }
            return address;
        }
        let length = bytes.div_ceil(RANGE) * RANGE;
        let base = self.new_range(length);
        if length > bytes {
            self.gaps.insert(base + bytes, length - bytes);
        }
        base
    }

    /// At the top of the highest hole with room to align, else directly below the lowest range.
    fn new_range(&mut self, length: u64) -> u64 {
        let base = if let Some((hole, room)) = self.holes.highest(length + RANGE) {
            self.holes.remove(hole);
            self.holes.insert(hole, room - length);
            hole + room - length
        } else {
            let lowest = self.ranges.keys().next().copied().unwrap_or(TOP);
            lowest.saturating_sub(length)
        };
        self.ranges.insert(base, length);
        base
    }

    fn give_back(&mut self, address: u64, bytes: u64) {
        let (mut start, mut room) = (address, bytes);
        // Segments of a restored layout lie outside of the ranges that this driver handed out.
        let Some((&range, &length)) =
            self.ranges.range(..=address).next_back().filter(|(range, length)| address - **range < **length)
        else {
            return;
        };
        if let Some(before) = self.gaps.ending_at(range, start) {
            self.gaps.remove(before);
            room += start - before;
            start = before;
        }
        if start + room < range + length
            && let Some(r) = self.gaps.remove(start + room)
        {
            room += r;
        }
        if room < length {
            self.gaps.insert(start, room);
            return;
        }
        self.ranges.remove(&range);
        self.add_hole(range, length);
    }

    fn add_hole(&mut self, address: u64, bytes: u64) {
        let (mut start, mut room) = (address, bytes);
        if let Some(before) = self.holes.ending_at(0, start) {
            self.holes.remove(before);
            room += start - before;
            start = before;
        }
        if let Some(r) = self.holes.remove(start + room) {
            room += r;
        }
        // Below the lowest range there is only free space.
        if self.ranges.keys().next().is_some_and(|&lowest| lowest > start) {
            return;
        }
        self.holes.insert(start, room);
    }
}

impl Driver for HabitDriver {
    #[inline]
    fn allows(&mut self, total: u64, _maps: bool) -> bool {
        self.limit.is_none_or(|limit| total <= limit)
    }

    fn must_collect(&mut self, total: u64, threshold: f64, _next: u64) -> bool {
        // PyTorch looks at the threshold only where a fraction is set (`garbage_collect_cached_blocks`).
        self.kind == LimitKind::Fraction && self.limit.is_some_and(|limit| total > (threshold * limit as f64) as u64)
    }

    fn may_collect(&mut self, total: u64, threshold: f64) -> bool {
        self.must_collect(total, threshold, 0)
    }

    fn segment_alloc(&mut self, bytes: u64, _stream: u64) -> Option<u64> {
        // Nothing larger than the address space exists; a damaged trace may ask for it.
        (bytes < TOP / 2).then(|| self.take(bytes))
    }

    fn segment_free(&mut self, address: u64, bytes: u64) {
        self.give_back(address, bytes);
    }

    fn reserve(&mut self, page: u64, _stream: u64) -> (u64, u64) {
        let length = crate::RESERVATION / page * page;
        let base = self.next_reservation;
        self.next_reservation = self.next_reservation.saturating_add(crate::RESERVATION);
        (base, length)
    }

    fn map(&mut self, _address: u64, _bytes: u64, total_after: u64) -> bool {
        self.kind == LimitKind::Fraction || self.limit.is_none_or(|limit| total_after <= limit)
    }

    fn unmap(&mut self, _address: u64, _bytes: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(placement: Placement) -> HabitDriver {
        HabitDriver::new(placement, None, LimitKind::Fraction, Some(10), None)
    }

    #[test]
    fn first_segments_lie_where_the_start_leaves_room() {
        let mut d = driver(Placement::USUAL);
        assert_eq!(d.take(2 * MIB), TOP - 2 * MIB);
        assert_eq!(d.take(20 * MIB), TOP + 72 * MIB);
        assert_eq!(d.take(20 * MIB), TOP - OWN_BUFFER - RANGE);
        assert_eq!(d.take(94 * MIB), TOP - OWN_BUFFER - RANGE - 96 * MIB);
    }

    #[test]
    fn a_hole_needs_room_to_align() {
        let mut d = driver(Placement { growth: Growth::Never, has_cublas_handle: false });
        let a = d.take(64 * MIB);
        let b = d.take(64 * MIB);
        d.give_back(a, 64 * MIB);
        let c = d.take(64 * MIB);
        assert!(c < b, "a hole of exactly the length is refused");
        assert_eq!(d.take(32 * MIB), a + 32 * MIB);
    }

    #[test]
    fn growth_turns_the_own_buffer_into_room() {
        let mut d = driver(Placement::USUAL);
        d.take(2 * MIB);
        d.before_request(3);
        assert_eq!(d.take(20 * MIB), TOP - OWN_BUFFER, "the old buffer is a gap below the others");
        assert_eq!(d.take(20 * MIB), TOP - OWN_BUFFER + 20 * MIB, "filled upwards");
    }
}
