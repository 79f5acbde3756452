//! Giving memory back: garbage collection, targeted release, full release.

use crate::Allocator;
use crate::block::{EXPANDABLE, NONE};
use crate::driver::Driver;

impl Allocator {
    /// `garbage_collect_cached_blocks`: unsplit blocks of the default large pool, oldest first by passes.
    pub(crate) fn collect_garbage<D: Driver>(&mut self, driver: &mut D) {
        let threshold = self.settings.garbage_collection_threshold;
        if threshold <= 0.0 {
            return;
        }
        let large = &self.pools[1];
        let clock = large.clock;
        let age = |this: &Self, id: u32| clock.wrapping_sub(this.blocks[id].gc_base);
        let mut candidates: Vec<u32> = large
            .arenas
            .iter()
            .flat_map(|&a| self.arenas[a as usize].free.iter())
            .map(|k| k.block)
            .filter(|&id| self.is_releasable(id))
            .collect();
        let mut total_age: f64 = candidates.iter().map(|&id| f64::from(age(self, id))).sum();
        loop {
            let count = candidates.len();
            if count == 0 {
                return;
            }
            let limit_age = total_age / count as f64;
            let (old, young): (Vec<u32>, Vec<u32>) =
                candidates.iter().partition(|&&id| f64::from(age(self, id)) >= limit_age);
            let Some(&first) = old.first() else { return };
            if !driver.must_collect(self.stats.reserved.current, threshold, self.blocks[first].addr) {
                return;
            }
            for id in old {
                total_age -= f64::from(age(self, id));
                self.release_block(driver, id);
            }
            candidates = young;
        }
    }

    /// An unsplit free `cudaMalloc` block: the whole segment is free.
    fn is_releasable(&self, id: u32) -> bool {
        let block = &self.blocks[id];
        !block.has(EXPANDABLE) && !block.is_split()
    }

    /// `release_available_cached_blocks`: oversize blocks of the request's stream, enough for the request.
    pub(crate) fn release_available<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64) -> bool {
        if self.max_split == u64::MAX {
            return false;
        }
        let key = size.max(self.max_split);
        let free = &self.arenas[arena as usize].free;
        let at = free.lower_bound(key);
        if let Some(id) = at.and_then(|at| free.get(at)).map(|k| k.block)
            && self.is_releasable(id)
        {
            self.release_block(driver, id);
            return true;
        }
        // Differs: a split block at the lower bound (possible only after the settings changed at run time) is passed over.
        let oversize: Vec<(u64, u32)> = free
            .iter()
            .rev()
            .skip_while(|k| k.size >= key)
            .take_while(|k| k.size >= self.max_split)
            .map(|k| (k.size, k.block))
            .collect();
        let mut released = 0u64;
        for (size, id) in oversize {
            if released >= key {
                break;
            }
            if self.is_releasable(id) {
                released += size;
                self.release_block(driver, id);
            }
        }
        released >= key
    }

    /// `release_cached_blocks`: waits for all events, then returns every wholly free segment and page.
    pub(crate) fn release_cached<D: Driver>(&mut self, driver: &mut D) {
        self.synchronise(driver);
        self.release_pool(driver, 1);
        self.release_pool(driver, 0);
        for owner in self.freeable.clone() {
            self.release_pool(driver, 2 * owner as usize);
            self.release_pool(driver, 2 * owner as usize + 1);
        }
    }

    /// `empty_cache()`.
    pub fn empty_cache<D: Driver>(&mut self, driver: &mut D) {
        self.release_cached(driver);
    }

    /// Gives back the free memory of private pool `pool` alone, small then large, as the end of a `MemPool` does.
    ///
    /// Blocks of the pool that wait for other streams are left to the caller.
    pub fn release_private_pool<D: Driver>(&mut self, driver: &mut D, pool: u16) {
        if pool != 0 {
            self.release_pool(driver, 2 * pool as usize);
            self.release_pool(driver, 2 * pool as usize + 1);
        }
    }

    fn synchronise<D: Driver>(&mut self, driver: &mut D) {
        self.stats.synchronisations += 1;
        driver.synchronise();
        for id in std::mem::take(&mut self.pending) {
            self.synchronised.push(self.blocks[id].tag);
            self.complete_now(id);
        }
    }

    fn release_pool<D: Driver>(&mut self, driver: &mut D, half: usize) {
        let Some(pool) = self.pools.get(half) else { return };
        let (mut segments, mut expandable) = (Vec::new(), Vec::new());
        for &arena in &pool.arenas {
            for key in self.arenas[arena as usize].free.iter() {
                let block = &self.blocks[key.block];
                if block.has(EXPANDABLE) {
                    expandable.push(key.block);
                } else if !block.is_split() {
                    segments.push(key.block);
                }
            }
        }
        for id in segments {
            self.release_block(driver, id);
        }
        for id in expandable {
            self.unmap_block(driver, id);
        }
    }

    /// `release_block`: `cudaFree` of a wholly free segment.
    fn release_block<D: Driver>(&mut self, driver: &mut D, id: u32) {
        let block = self.blocks[id];
        debug_assert!(block.prev == NONE && block.next == NONE);
        driver.segment_free(block.addr, block.size);
        self.remove_free(id);
        self.blocks.remove(id);
        self.stats.reserved.sub(block.size);
        self.stats.segments.sub(1);
        self.stats.driver_frees += 1;
    }
}
