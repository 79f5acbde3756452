//! The ordered set of free blocks of one pool and stream.
//!
//! PyTorch keeps a `std::set` ordered by (stream, size, address). Streams never mix in a search, so each has a
//! set of its own here, ordered by (size, address). It is a sorted list cut into short chunks: sets are small in
//! practice (tens to thousands of blocks), and moving a few cache lines beats following tree nodes.

/// A free block's place in the order, and its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreeKey {
    pub(crate) size: u64,
    pub(crate) addr: u64,
    pub(crate) block: u32,
}

const CHUNK: usize = 64;

/// Sorted by (size, address), ascending.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeSet {
    chunks: Vec<Vec<FreeKey>>,
    /// Largest key of each chunk, so that finding the chunk touches one array.
    tops: Vec<(u64, u64)>,
    len: usize,
    bytes: u64,
}

/// Position of a key; valid until the set changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    chunk: usize,
    index: usize,
}

impl FreeSet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Sum of the sizes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn seek(&self, size: u64, addr: u64) -> Option<Position> {
        let chunk = if self.tops.len() <= 1 { 0 } else { self.tops.partition_point(|&top| top < (size, addr)) };
        let keys = self.chunks.get(chunk)?;
        let index = keys.partition_point(|k| (k.size, k.addr) < (size, addr));
        if index == keys.len() {
            return None;
        }
        Some(Position { chunk, index })
    }

    /// First key not less than (`size`, address 0).
    #[inline]
    pub(crate) fn lower_bound(&self, size: u64) -> Option<Position> {
        self.seek(size, 0)
    }

    pub(crate) fn get(&self, at: Position) -> Option<&FreeKey> {
        self.chunks.get(at.chunk)?.get(at.index)
    }

    pub(crate) fn next(&self, at: Position) -> Option<Position> {
        let next = if at.index + 1 < self.chunks[at.chunk].len() {
            Position { chunk: at.chunk, index: at.index + 1 }
        } else {
            Position { chunk: at.chunk + 1, index: 0 }
        };
        self.get(next).map(|_| next)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: FreeKey) {
        self.len += 1;
        self.bytes += key.size;
        let order = (key.size, key.addr);
        let chunk = if self.tops.len() <= 1 {
            0
        } else {
            self.tops.partition_point(|&top| top < order).min(self.tops.len() - 1)
        };
        let Some(keys) = self.chunks.get_mut(chunk) else {
            // Most sets of a file with very many streams hold few blocks.
            let mut keys = Vec::with_capacity(8);
            keys.push(key);
            self.chunks.push(keys);
            self.tops.push(order);
            return;
        };
        let index = keys.partition_point(|k| (k.size, k.addr) < order);
        if index == keys.len() {
            self.tops[chunk] = order;
        }
        keys.insert(index, key);
        if keys.len() == CHUNK {
            let mut upper = Vec::with_capacity(CHUNK);
            upper.extend_from_slice(&keys[CHUNK / 2..]);
            keys.truncate(CHUNK / 2);
            let top = keys[CHUNK / 2 - 1];
            self.tops.insert(chunk, (top.size, top.addr));
            self.chunks.insert(chunk + 1, upper);
        }
    }

    #[inline]
    pub(crate) fn remove_at(&mut self, at: Position) -> FreeKey {
        let keys = &mut self.chunks[at.chunk];
        let key = keys.remove(at.index);
        self.len -= 1;
        self.bytes -= key.size;
        match keys.last() {
            None => {
                self.chunks.remove(at.chunk);
                self.tops.remove(at.chunk);
            }
            Some(last) if at.index == keys.len() => self.tops[at.chunk] = (last.size, last.addr),
            Some(_) => {}
        }
        key
    }

    /// Removes the block at (`size`, `addr`); false if it is not here.
    #[inline]
    pub(crate) fn remove(&mut self, size: u64, addr: u64) -> bool {
        match self.seek(size, addr) {
            Some(at) if self.get(at).is_some_and(|k| k.size == size && k.addr == addr) => {
                self.remove_at(at);
                true
            }
            _ => false,
        }
    }

    /// All keys in ascending order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &FreeKey> {
        self.chunks.iter().flatten()
    }

    /// The largest free block's size, 0 if there is none.
    pub(crate) fn largest(&self) -> u64 {
        self.tops.last().map_or(0, |top| top.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_map(ops in proptest::collection::vec((0u8..4, 0u64..40, 0u64..200), 1..2000)) {
            let mut set = FreeSet::default();
            let mut map = BTreeMap::new();
            for (op, size, addr) in ops {
                match op {
                    0 | 1 => {
                        if map.insert((size, addr), addr as u32).is_none() {
                            set.insert(FreeKey { size, addr, block: addr as u32 });
                        }
                    }
                    2 => prop_assert_eq!(set.remove(size, addr), map.remove(&(size, addr)).is_some()),
                    _ => {
                        let found = set.lower_bound(size).and_then(|at| set.get(at)).map(|k| (k.size, k.addr));
                        prop_assert_eq!(found, map.range((size, 0)..).next().map(|(k, _)| *k));
                    }
                }
                prop_assert_eq!(set.len(), map.len());
                prop_assert_eq!(set.bytes(), map.keys().map(|k| k.0).sum::<u64>());
            }
            let keys: Vec<_> = set.iter().map(|k| (k.size, k.addr)).collect();
            prop_assert_eq!(keys, map.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.largest(), map.keys().next_back().map_or(0, |k| k.0));
        }
    }
}
