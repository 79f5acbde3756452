//! Free address ranges that can be searched by room and address.

use std::collections::{BTreeMap, BTreeSet};

/// Ranges by address, and by classes of room: exact in steps of 2 MiB below 32 MiB, by powers of two from there.
#[derive(Debug, Clone, Default)]
pub(super) struct Rooms {
    by_address: BTreeMap<u64, u64>,
    classes: Vec<BTreeSet<u64>>,
}

const STEP: u64 = 2 << 20;
const EXACT: u64 = 16;

fn class(room: u64) -> usize {
    let steps = room / STEP;
    if steps < EXACT { steps as usize } else { (EXACT + u64::from(steps.ilog2()) - 4) as usize }
}

impl Rooms {
    pub(super) fn insert(&mut self, address: u64, room: u64) {
        let class = class(room);
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, BTreeSet::new);
        }
        self.classes[class].insert(address);
        self.by_address.insert(address, room);
    }

    pub(super) fn remove(&mut self, address: u64) -> Option<u64> {
        let room = self.by_address.remove(&address)?;
        self.classes[class(room)].remove(&address);
        Some(room)
    }

    /// The range that ends at `address` and starts at `from` or above.
    pub(super) fn ending_at(&self, from: u64, address: u64) -> Option<u64> {
        let (&start, &room) = self.by_address.range(from..address).next_back()?;
        (start + room == address).then_some(start)
    }

    fn room(&self, address: u64) -> u64 {
        self.by_address.get(&address).copied().unwrap_or(0)
    }

    /// The lowest range with at least `bytes`.
    pub(super) fn lowest(&self, bytes: u64) -> Option<(u64, u64)> {
        let first = class(bytes);
        let same = self.classes.get(first)?.iter().find(|&&a| self.room(a) >= bytes);
        let above = self.classes.get(first + 1..)?.iter().filter_map(|c| c.first());
        same.into_iter().chain(above).min().map(|&a| (a, self.room(a)))
    }

    /// The highest range with at least `bytes`.
    pub(super) fn highest(&self, bytes: u64) -> Option<(u64, u64)> {
        let first = class(bytes);
        let same = self.classes.get(first)?.iter().rev().find(|&&a| self.room(a) >= bytes);
        let above = self.classes.get(first + 1..)?.iter().filter_map(|c| c.last());
        same.into_iter().chain(above).max().map(|&a| (a, self.room(a)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(ops in proptest::collection::vec((any::<bool>(), 0u64..200, 1u64..600), 1..400)) {
            let mut rooms = Rooms::default();
            let mut plain: BTreeMap<u64, u64> = BTreeMap::new();
            for (adds, at, mib) in ops {
                let (address, room) = (at << 32, mib << 20);
                if adds && !plain.contains_key(&address) {
                    rooms.insert(address, room);
                    plain.insert(address, room);
                } else {
                    prop_assert_eq!(rooms.remove(address), plain.remove(&address));
                }
                let fits = |(a, r): (&u64, &u64)| (*r >= room).then_some((*a, *r));
                prop_assert_eq!(rooms.lowest(room), plain.iter().find_map(fits));
                prop_assert_eq!(rooms.highest(room), plain.iter().rev().find_map(fits));
            }
        }
    }
}
