//! Interning of small things that repeat: stream pointers and pool ids.

use hashbrown::HashMap;

/// Distinct values in order of first appearance; the one asked for last is found without a look-up.
#[derive(Debug, Clone)]
pub(crate) struct Distinct<T> {
    items: Vec<T>,
    index: HashMap<T, u32>,
    last: (T, u32),
}

impl<T: Copy + Eq + std::hash::Hash> Distinct<T> {
    /// A table whose entry 0 is `first`.
    pub(crate) fn starting_with(first: T) -> Self {
        Self { items: vec![first], index: HashMap::from_iter([(first, 0)]), last: (first, 0) }
    }

    /// The place of `item`, new or known; `None` if it is new and `limit` are there.
    #[inline]
    pub(crate) fn intern(&mut self, item: T, limit: usize) -> Option<u32> {
        if self.last.0 == item {
            return Some(self.last.1);
        }
        self.look_up(item, limit)
    }

    #[inline(never)]
    fn look_up(&mut self, item: T, limit: usize) -> Option<u32> {
        let next = self.items.len();
        let place = match self.index.get(&item) {
            Some(place) => *place,
            None if next >= limit => return None,
            None => {
                self.items.push(item);
                self.index.insert(item, next as u32);
                next as u32
            }
        };
        self.last = (item, place);
        Some(place)
    }

    pub(crate) fn get(&self, place: u32) -> Option<T> {
        self.items.get(place as usize).copied()
    }

    pub(crate) fn into_items(self) -> Vec<T> {
        self.items
    }
}
