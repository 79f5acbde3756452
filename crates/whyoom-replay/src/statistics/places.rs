//! Where blocks lie: which segment an address is in, and what is free in it.

use std::collections::BTreeMap;

/// A segment, or pages mapped by one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    start: u64,
    end: u64,
    pub(super) is_small: bool,
    pub(super) is_expandable: bool,
}

/// What handing out or taking back a block does to the free blocks of split segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SplitChange {
    pub(super) blocks_up: u64,
    pub(super) blocks_down: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

/// Segments and mapped pages, and the free blocks of segments. Expandable ones have no part in `inactive_split`, so their
/// free blocks are not kept.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: BTreeMap<u64, Place>,
    /// Bytes by address.
    free: BTreeMap<u64, u64>,
}

impl Places {
    /// The place that holds `address`.
    pub(super) fn find(&self, address: u64) -> Option<Place> {
        self.places.range(..=address).next_back().map(|(_, place)| *place).filter(|place| address < place.end)
    }

    pub(super) fn add(&mut self, start: u64, bytes: u64, is_small: bool, is_expandable: bool) {
        let end = start.saturating_add(bytes);
        // Addresses are used again, by other kinds too.
        let stale: Vec<u64> = self.places.range(start..end).map(|(at, _)| *at).collect();
        for at in stale {
            self.places.remove(&at);
        }
        self.places.insert(start, Place { start, end, is_small, is_expandable });
    }

    /// A segment that is wholly free.
    pub(super) fn add_segment(&mut self, start: u64, bytes: u64, is_small: bool) {
        self.add(start, bytes, is_small, false);
        self.free.insert(start, bytes);
    }

    pub(super) fn add_free(&mut self, address: u64, bytes: u64) {
        self.free.insert(address, bytes);
    }

    /// Takes a wholly free segment away; returns its kind.
    pub(super) fn remove_segment(&mut self, start: u64) -> Option<Place> {
        self.free.remove(&start);
        self.places.remove(&start)
    }

    /// `alloc_found_block`: `bytes` at `address` are handed out of the free block that begins there.
    pub(super) fn take(&mut self, place: Place, address: u64, bytes: u64) -> SplitChange {
        let whole = self.free.remove(&address).unwrap_or(bytes);
        let was_split = address != place.start || address.saturating_add(whole) != place.end;
        let rest = whole.saturating_sub(bytes);
        if rest > 0 {
            self.free.insert(address + bytes, rest);
        }
        match (rest > 0, was_split) {
            (true, true) => SplitChange { bytes_down: bytes, ..SplitChange::default() },
            (true, false) => SplitChange { blocks_up: 1, bytes_up: rest, ..SplitChange::default() },
            (false, true) => SplitChange { blocks_down: 1, bytes_down: bytes, ..SplitChange::default() },
            (false, false) => SplitChange::default(),
        }
    }

    /// `free_block`: `bytes` at `address` become free and merge with their free neighbours in the segment.
    pub(super) fn give(&mut self, place: Place, address: u64, bytes: u64) -> SplitChange {
        let mut change = SplitChange::default();
        let (mut start, mut end) = (address, address.saturating_add(bytes));
        let before = self.free.range(place.start..address).next_back().map(|(at, size)| (*at, *size));
        if let Some((at, size)) = before.filter(|(at, size)| at + size == address) {
            (change.blocks_down, change.bytes_down) = (1, size);
            self.free.remove(&at);
            start = at;
        }
        if end < place.end
            && let Some(size) = self.free.remove(&end)
        {
            change.blocks_down += 1;
            change.bytes_down += size;
            end += size;
        }
        self.free.insert(start, end - start);
        if start != place.start || end != place.end {
            change.blocks_up = 1;
            change.bytes_up = end - start;
        }
        change
    }
}
