//! Expandable segments: reserved address space whose pages are mapped as needed.

use crate::Allocator;
use crate::block::{Block, EXPANDABLE, MAPPED, NONE};
use crate::driver::Driver;

impl Allocator {
    /// `try_allocate_expandable_block`: maps what is missing behind a free tail. The block comes back out of the pool.
    ///
    /// Pages mapped before a failing call stay mapped, as free blocks.
    pub(crate) fn alloc_expandable<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64) -> Option<u32> {
        let mut candidate = self.find_expandable(driver, arena, size)?;
        if !self.blocks[candidate].has(MAPPED) {
            let wanted = self.blocks[candidate].size.min(size);
            candidate = self.map_block(driver, candidate, wanted)?;
        }
        while self.blocks[candidate].size < size {
            let block = &self.blocks[candidate];
            let next = block.next;
            if next == NONE {
                return None;
            }
            let wanted = (size - block.size).min(self.blocks[next].size);
            candidate = self.map_block(driver, next, wanted)?;
        }
        self.remove_free(candidate);
        Some(candidate)
    }

    /// `find_expandable_block`: first fit by address over runs of free and unmapped blocks, else a new reservation.
    fn find_expandable<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64) -> Option<u32> {
        for &(_, unmapped) in &self.arenas[arena as usize].unmapped {
            let mut start = unmapped;
            let prev = self.blocks[start].prev;
            if prev != NONE && self.blocks[prev].is_allocatable() {
                start = prev;
            }
            let (mut sum, mut at) = (0, start);
            while at != NONE && self.blocks[at].is_allocatable() && sum < size {
                sum += self.blocks[at].size;
                at = self.blocks[at].next;
            }
            if sum >= size {
                return Some(start);
            }
        }
        let page = self.page_of(arena);
        let (base, length) = driver.reserve(page, self.arenas[arena as usize].stream);
        if length < size {
            return None;
        }
        Some(self.add_reservation(arena, base, length))
    }

    pub(crate) fn page_of(&self, arena: u16) -> u64 {
        self.sizes.page(self.pools[self.arenas[arena as usize].pool as usize].is_small)
    }

    /// A new reservation as one unmapped block.
    pub(crate) fn add_reservation(&mut self, arena: u16, base: u64, length: u64) -> u32 {
        let id = self.blocks.insert(Block {
            addr: base,
            size: length,
            requested: 0,
            prev: NONE,
            next: NONE,
            gc_base: 0,
            tag: 0,
            arena,
            flags: EXPANDABLE,
        });
        self.insert_free(id);
        id
    }

    /// `map_block`: maps the pages under the first `wanted` bytes of an unmapped block and merges the result.
    fn map_block<D: Driver>(&mut self, driver: &mut D, id: u32, wanted: u64) -> Option<u32> {
        let block = self.blocks[id];
        let page = self.page_of(block.arena);
        let mapped = (wanted.div_ceil(page) * page).min(block.size);
        let total = self.stats.reserved.current + mapped;
        if !driver.map(block.addr, mapped, total) {
            return None;
        }
        self.remove_free(id);
        if mapped < block.size {
            let rest = self.blocks.insert(Block {
                addr: block.addr + mapped,
                size: block.size - mapped,
                prev: id,
                next: block.next,
                ..block
            });
            if block.next != NONE {
                self.blocks[block.next].prev = rest;
            }
            self.blocks[id].next = rest;
            self.blocks[id].size = mapped;
            self.insert_free(rest);
        }
        self.blocks[id].flags |= MAPPED;
        self.stats.reserved.add(mapped);
        self.stats.driver_allocations += 1;
        self.stats.maps += 1;
        self.merge_with_neighbours(id);
        self.insert_free(id);
        Some(id)
    }

    /// `unmap_block`: gives back the whole pages of a free block; what is left of it stays in the pool.
    pub(crate) fn unmap_block<D: Driver>(&mut self, driver: &mut D, id: u32) {
        let block = self.blocks[id];
        let page = self.page_of(block.arena);
        let base = self.reservation_base(id);
        let first = base + (block.addr - base).div_ceil(page) * page;
        let last = base + (block.addr + block.size - base) / page * page;
        if last <= first {
            return;
        }
        driver.unmap(first, last - first);
        self.remove_free(id);
        if first > block.addr {
            let before = self.blocks.insert(Block { size: first - block.addr, next: id, ..block });
            if block.prev != NONE {
                self.blocks[block.prev].next = before;
            }
            self.blocks[id].prev = before;
            self.insert_free(before);
        }
        let end = block.addr + block.size;
        if end > last {
            let after = self.blocks.insert(Block { addr: last, size: end - last, prev: id, ..block });
            if block.next != NONE {
                self.blocks[block.next].prev = after;
            }
            self.blocks[id].next = after;
            self.insert_free(after);
        }
        let middle = &mut self.blocks[id];
        middle.addr = first;
        middle.size = last - first;
        middle.flags &= !MAPPED;
        self.stats.reserved.sub(last - first);
        self.stats.driver_frees += 1;
        self.stats.unmaps += 1;
        self.merge_with_neighbours(id);
        let merged = &self.blocks[id];
        if merged.is_split() {
            self.insert_free(id);
        } else {
            // Nothing of the reservation is mapped any more: it is given up.
            self.blocks.remove(id);
        }
    }

    /// Pages are counted from the start of the reservation.
    fn reservation_base(&self, id: u32) -> u64 {
        let mut at = id;
        while self.blocks[at].prev != NONE {
            at = self.blocks[at].prev;
        }
        self.blocks[at].addr
    }
}
