//! Best fit with PyTorch's exceptions: `get_free_block`.

use crate::Allocator;
use crate::block::{EXPANDABLE, MAPPED, NONE};
use crate::free_set::{FreeKey, Position};

impl Allocator {
    /// Takes the block that a request of `size` gets out of the arena's free set.
    #[inline]
    pub(crate) fn take_free_block(&mut self, arena: u16, size: u64) -> Option<u32> {
        let pool = self.arenas[arena as usize].pool as usize;
        if self.collects {
            self.pools[pool].clock = self.pools[pool].clock.wrapping_add(1);
        }
        let at = self.find_free_block(arena, size)?;
        let id = self.arenas[arena as usize].free.remove_at(at).block;
        self.pools[pool].uncount_free(&self.blocks[id]);
        Some(id)
    }

    /// The block that a request of `size` would get, by best fit.
    #[inline]
    pub(crate) fn find_free_block(&self, arena: u16, size: u64) -> Option<Position> {
        let free = &self.arenas[arena as usize].free;
        let mut at = free.lower_bound(size)?;
        let mut key = free.get(at)?;
        if self.blocks[key.block].has(EXPANDABLE) {
            (at, key) = self.walk_expandable(arena, at)?;
        }
        // Oversize blocks are kept for oversize requests, and only the single best fit is looked at.
        if size < self.max_split && key.size >= self.max_split {
            return None;
        }
        if size >= self.max_split && key.size >= size.saturating_add(self.max_rounding) {
            return None;
        }
        Some(at)
    }

    /// With expandable segments on, prefer a block that does not border the big unmapped tail;
    /// with them switched off at run time, pass over their blocks.
    fn walk_expandable(&self, arena: u16, mut at: Position) -> Option<(Position, &FreeKey)> {
        let free = &self.arenas[arena as usize].free;
        if self.settings.expandable_segments {
            while self.blocks[free.get(at)?.block].has(EXPANDABLE)
                && let Some(next) = free.next(at)
                && self.expandable_extent(free.get(next)?.block) < self.expandable_extent(free.get(at)?.block)
            {
                at = next;
            }
        } else {
            while self.blocks[free.get(at)?.block].has(EXPANDABLE) {
                at = free.next(at)?;
            }
        }
        free.get(at).map(|key| (at, key))
    }

    /// The size a block could grow to by mapping what follows it.
    fn expandable_extent(&self, id: u32) -> u64 {
        let block = &self.blocks[id];
        let next = if block.next == NONE { None } else { Some(&self.blocks[block.next]) };
        block.size + next.filter(|n| !n.has(MAPPED)).map_or(0, |n| n.size)
    }

    /// Free blocks of `use_on_oom` pools, the last source of a default-pool request.
    pub(crate) fn take_from_use_on_oom(&mut self, arena: u16, size: u64) -> Option<u32> {
        let half = self.arenas[arena as usize].pool as usize;
        if !self.has_use_on_oom_pool || self.pools[half].owner != 0 {
            return None;
        }
        let stream = self.arenas[arena as usize].stream;
        let candidates: Vec<u16> = self
            .pools
            .iter()
            .filter(|p| p.options.use_on_oom && p.is_small == self.pools[half].is_small)
            .flat_map(|p| p.arenas.iter().copied())
            .filter(|&a| self.arenas[a as usize].stream == stream)
            .collect();
        candidates.into_iter().find_map(|a| self.take_free_block(a, size))
    }
}
