//! Giving memory back: garbage collection, targeted release, full release.

use crate::Allocator;
use crate::block::{EXPANDABLE, NONE};
use crate::driver::Driver;

impl Allocator {
    /// `garbage_collect_cached_blocks`: unsplit blocks of the default large pool, oldest first by passes.
    pub(crate) fn collect_garbage<D: Driver>(&mut self, driver: &mut D) {
        let threshold = self.settings.garbage_collection_threshold;
        // Blocks are looked at only if there is something to collect and the driver might want it collected.
        if threshold <= 0.0
            || self.pools[1].releasable == 0
            || !driver.may_collect(self.stats.reserved.current, threshold)
        {
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
            .filter(|&id| self.blocks[id].is_releasable())
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

    /// `release_available_cached_blocks`: oversize blocks of the request's stream, enough for the request.
    pub(crate) fn release_available<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64) -> bool {
        if self.max_split == u64::MAX {
            return false;
        }
        let key = size.max(self.max_split);
        let free = &self.arenas[arena as usize].free;
        let at = free.lower_bound(key);
        if let Some(id) = at.and_then(|at| free.get(at)).map(|k| k.block)
            && self.blocks[id].is_releasable()
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
            if self.blocks[id].is_releasable() {
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
        self.pending_done = 0;
        for id in std::mem::take(&mut self.pending).into_iter().filter(|&id| id != NONE) {
            self.synchronised.push(self.blocks[id].tag);
            self.complete_now(id);
        }
    }

    fn release_pool<D: Driver>(&mut self, driver: &mut D, half: usize) {
        // Requests that fail ask for this over and over: where nothing can go, nothing is looked at.
        let Some(pool) = self.pools.get(half).filter(|p| p.releasable > 0 || p.expandable > 0) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AscendingDriver, BlockId, Model, Request, Settings};

    const MIB: u64 = 1 << 20;

    /// Counts how often blocks had to be looked at.
    struct Counting(AscendingDriver, usize);

    impl Driver for Counting {
        fn allows(&mut self, total: u64, maps: bool) -> bool {
            self.0.allows(total, maps)
        }
        fn must_collect(&mut self, total: u64, threshold: f64, next: u64) -> bool {
            self.1 += 1;
            self.0.must_collect(total, threshold, next)
        }
        fn may_collect(&mut self, total: u64, threshold: f64) -> bool {
            self.0.may_collect(total, threshold)
        }
        fn segment_alloc(&mut self, bytes: u64, stream: u64) -> Option<u64> {
            self.0.segment_alloc(bytes, stream)
        }
        fn segment_free(&mut self, address: u64, bytes: u64) {
            self.0.segment_free(address, bytes);
        }
        fn reserve(&mut self, page: u64, stream: u64) -> (u64, u64) {
            self.0.reserve(page, stream)
        }
        fn map(&mut self, address: u64, bytes: u64, total: u64) -> bool {
            self.0.map(address, bytes, total)
        }
        fn unmap(&mut self, address: u64, bytes: u64) {
            self.0.unmap(address, bytes);
        }
    }

    fn collecting(max_split_size: Option<u64>) -> Allocator {
        let settings = Settings { garbage_collection_threshold: 0.8, max_split_size, ..Settings::default() };
        Allocator::new(Model::default(), settings, &[0])
    }

    fn request(bytes: u64) -> Request {
        Request { bytes, stream: 0, pool: 0, tag: 0 }
    }

    #[test]
    fn free_blocks_are_looked_at_only_where_some_must_go() {
        let mut driver = Counting(AscendingDriver::new(Some(1 << 40)), 0);
        let mut allocator = collecting(None);
        let held: Vec<BlockId> =
            (0..500).map(|_| allocator.malloc(&mut driver, request(20 * MIB)).expect("room")).collect();
        for block in held {
            allocator.free(block);
        }
        for _ in 0..500 {
            allocator.malloc(&mut driver, request(30 * MIB)).expect("room");
        }
        assert_eq!(driver.1, 0, "far below the threshold nothing is collected");
        // Above it, but all in use.
        driver.0.limit = Some(26_000 * MIB);
        while allocator.malloc(&mut driver, request(20 * MIB - 512)).is_ok() && allocator.pools[1].releasable > 0 {}
        let before = driver.1;
        for _ in 0..100 {
            let _ = allocator.malloc(&mut driver, request(40 * MIB));
        }
        assert_eq!(driver.1, before);
    }

    #[test]
    fn what_could_be_given_back_is_counted() {
        for max_split in [None, Some(20 * MIB)] {
            let mut driver = AscendingDriver::new(Some(900 * MIB));
            let mut allocator = collecting(max_split);
            let mut held: Vec<BlockId> = Vec::new();
            let mut random = 7u64;
            for _ in 0..4000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let n = random >> 33;
                if n % 5 < 3 || held.is_empty() {
                    held.extend(allocator.malloc(&mut driver, request((n % 60) * MIB / 2 + 512)).ok());
                } else {
                    allocator.free(held.swap_remove(n as usize % held.len()));
                }
                let large = &allocator.pools[1];
                let free = large.arenas.iter().flat_map(|&a| allocator.arenas[a as usize].free.iter());
                let count = free.filter(|k| allocator.blocks[k.block].is_releasable()).count();
                assert_eq!(large.releasable as usize, count);
            }
        }
    }

    #[test]
    fn pending_blocks_complete_in_any_order_and_the_rest_in_theirs() {
        let mut driver = AscendingDriver::default();
        let mut allocator = collecting(None);
        let tagged = |tag: u32| Request { tag, ..request(2 * MIB) };
        let held: Vec<BlockId> =
            (0..200).map(|tag| allocator.malloc(&mut driver, tagged(tag)).expect("room")).collect();
        for block in &held {
            allocator.free_pending(*block);
        }
        for i in (0..200).rev().filter(|i| i % 4 != 0) {
            allocator.complete(held[i]);
            // Once is enough.
            allocator.complete(held[i]);
        }
        assert!(allocator.pending.len() <= 110, "{}", allocator.pending.len());
        assert_eq!(allocator.stats().active.current, 50 * 2 * MIB);
        allocator.empty_cache(&mut driver);
        assert_eq!(allocator.take_synchronised().collect::<Vec<_>>(), (0..200).step_by(4).collect::<Vec<u32>>());
        assert_eq!((allocator.stats().active.current, allocator.stats().reserved.current), (0, 0));
    }
}
