//! Small courses of events whose outcome follows from PyTorch's rules.

use whyoom_allocator::{Allocator, AscendingDriver, BlockId, Driver, Model, PoolOptions, Request, Settings};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

struct World<D: Driver = AscendingDriver> {
    allocator: Allocator,
    driver: D,
}

fn world(settings: Settings, limit: Option<u64>) -> World {
    World { allocator: Allocator::new(Model::default(), settings, &[0]), driver: AscendingDriver::new(limit) }
}

impl<D: Driver> World<D> {
    fn malloc(&mut self, bytes: u64) -> BlockId {
        self.try_malloc(bytes).expect("served")
    }
    fn try_malloc(&mut self, bytes: u64) -> Option<BlockId> {
        self.allocator.malloc(&mut self.driver, Request { bytes, stream: 0, pool: 0, tag: 0 }).ok()
    }
    fn reserved(&self) -> u64 {
        self.allocator.stats().reserved.current
    }
    fn size(&self, block: BlockId) -> u64 {
        self.allocator.block(block).size
    }
    fn address(&self, block: BlockId) -> u64 {
        self.allocator.block(block).address
    }
}

fn expandable() -> Settings {
    Settings { expandable_segments: true, ..Settings::default() }
}

fn split(mib: u64) -> Settings {
    Settings { max_split_size: Some(mib * MIB), ..Settings::default() }
}

#[test]
fn a_remainder_of_up_to_one_mib_is_left_to_the_block() {
    let mut w = world(Settings::default(), None);
    let a = w.malloc(3 * MIB);
    assert_eq!(w.reserved(), 20 * MIB);
    let b = w.malloc(17 * MIB - 512 * KIB);
    assert_eq!((w.reserved(), w.size(b)), (20 * MIB, 17 * MIB));
    w.allocator.free(a);
    w.malloc(4 * MIB);
    assert_eq!(w.reserved(), 40 * MIB, "3 MiB are free, 4 are asked for");
}

#[test]
fn an_own_segment_keeps_its_slack() {
    let mut w = world(Settings::default(), None);
    let a = w.malloc(11 * MIB + 1);
    assert_eq!((w.reserved(), w.size(a)), (12 * MIB, 12 * MIB));
}

#[test]
fn expandable_memory_grows_by_pages_behind_a_free_tail() {
    let mut w = world(expandable(), None);
    let a = w.malloc(3 * MIB);
    assert_eq!(w.reserved(), 20 * MIB);
    let b = w.malloc(30 * MIB);
    assert_eq!((w.reserved(), w.address(b) - w.address(a)), (40 * MIB, 3 * MIB));
    w.allocator.empty_cache(&mut w.driver);
    assert_eq!(w.reserved(), 40 * MIB, "no whole page is free");
    w.allocator.free(a);
    w.allocator.free(b);
    w.allocator.empty_cache(&mut w.driver);
    assert_eq!((w.reserved(), w.allocator.stats().unmaps), (0, 1));
}

#[test]
fn expandable_search_avoids_the_block_before_the_unmapped_tail() {
    let mut w = world(expandable(), None);
    let x = w.malloc(4 * MIB);
    w.malloc(13 * MIB);
    w.allocator.free(x);
    // Free now: 4 MiB at the front, 3 MiB at the tail; the tail fits 2 MiB better but could grow.
    let c = w.malloc(2 * MIB);
    assert_eq!(w.address(c), w.allocator.layout()[0].address);
}

#[test]
fn oversize_blocks_serve_only_oversize_requests() {
    let mut w = world(split(32), None);
    let (a, guard, b) = (w.malloc(40 * MIB), w.malloc(25 * MIB), w.malloc(60 * MIB));
    w.allocator.free(a);
    w.allocator.free(b);
    let before = w.reserved();
    w.malloc(30 * MIB);
    assert_eq!(w.reserved(), before + 30 * MIB, "40 MiB is oversize, 30 MiB is not");
    let whole = w.malloc(36 * MIB);
    assert_eq!(w.size(whole), 40 * MIB);
    let reserved = w.reserved();
    w.malloc(33 * MIB);
    assert_eq!(w.reserved(), reserved + 34 * MIB, "60 MiB exceeds 33 by 20 or more");
    w.allocator.free(guard);
}

#[test]
fn collection_releases_the_oldest_until_the_target() {
    let settings = Settings { garbage_collection_threshold: 0.5, ..Settings::default() };
    let mut w = world(settings, Some(100 * MIB));
    let (a, b, keep) = (w.malloc(20 * MIB), w.malloc(30 * MIB), w.malloc(12 * MIB));
    w.allocator.free(a);
    for _ in 0..4 {
        let small = w.malloc(11 * MIB + 512);
        w.allocator.free(small);
    }
    w.allocator.free(b);
    let segments = w.allocator.stats().segments.current;
    w.malloc(38 * MIB);
    assert!(w.reserved() <= 100 * MIB);
    assert!(w.allocator.stats().driver_frees >= 1);
    assert!(w.allocator.stats().segments.current <= segments);
    assert_eq!(w.allocator.stats().retries, 0, "the collector made room, no retry was needed");
    w.allocator.free(keep);
}

#[test]
fn a_full_release_comes_before_out_of_memory() {
    let mut w = world(Settings::default(), Some(64 * MIB));
    let a = w.malloc(40 * MIB);
    w.allocator.free(a);
    w.malloc(60 * MIB);
    assert_eq!((w.allocator.stats().retries, w.reserved()), (1, 60 * MIB));
    assert!(w.try_malloc(10 * MIB).is_none());
    assert_eq!((w.allocator.stats().ooms, w.allocator.stats().retries), (1, 2));
}

#[test]
fn the_limit_is_inclusive_and_counts_whole_segments() {
    let mut w = world(Settings::default(), Some(40 * MIB));
    w.malloc(2 * MIB);
    w.malloc(19 * MIB);
    assert!(w.try_malloc(15 * MIB).is_some(), "the first segment has 18 MiB left");
    let mut w = world(Settings::default(), Some(40 * MIB));
    w.malloc(20 * MIB);
    assert!(w.try_malloc(20 * MIB).is_some());
    assert!(w.try_malloc(512).is_none());
}

#[test]
fn pending_blocks_stay_active_until_other_streams_are_done() {
    let mut w = world(Settings::default(), None);
    let a = w.malloc(8 * MIB);
    w.allocator.free_pending(a);
    let stats = *w.allocator.stats();
    assert_eq!((stats.allocated.current, stats.active.current), (0, 8 * MIB));
    let b = w.malloc(8 * MIB);
    assert_ne!(w.address(b), w.address(a));
    w.allocator.complete(a);
    assert_eq!(w.allocator.stats().active.current, 8 * MIB);
}

#[test]
fn a_release_waits_for_pending_blocks_but_does_not_search_again() {
    let mut w = world(Settings::default(), Some(40 * MIB));
    let a = w.malloc(30 * MIB);
    w.allocator.free_pending(a);
    let b = w.malloc(24 * MIB);
    assert_eq!((w.reserved(), w.size(b)), (24 * MIB, 24 * MIB), "the pending segment was released");
    assert_eq!(w.allocator.take_synchronised().count(), 1);
}

#[test]
fn private_pools_share_only_the_limit() {
    let mut w = world(Settings::default(), None);
    let a = w.malloc(4 * MIB);
    w.allocator.free(a);
    let request = Request { bytes: 4 * MIB, stream: 0, pool: 1, tag: 0 };
    let b = w.allocator.malloc(&mut w.driver, request).expect("served");
    assert_eq!(w.reserved(), 40 * MIB);
    w.allocator.free(b);
    w.allocator.empty_cache(&mut w.driver);
    assert_eq!(w.reserved(), 20 * MIB, "the private pool is in use");
    w.allocator.make_pool_freeable(1);
    w.allocator.empty_cache(&mut w.driver);
    assert_eq!(w.reserved(), 0);
}

#[test]
fn pool_options_change_splitting_and_the_last_source() {
    let mut w = world(Settings::default(), Some(40 * MIB));
    w.allocator.set_pool_options(1, PoolOptions { no_split: true, use_on_oom: true });
    let request = Request { bytes: 4 * MIB, stream: 0, pool: 1, tag: 0 };
    let a = w.allocator.malloc(&mut w.driver, request).expect("served");
    assert_eq!(w.size(a), 20 * MIB, "never split");
    w.allocator.free(a);
    w.malloc(20 * MIB);
    let last = w.malloc(5 * MIB);
    assert_eq!(w.size(last), 20 * MIB, "served from the pool that may be used before out of memory");
}

#[test]
fn releases_of_oversize_blocks_do_not_count_as_retry() {
    let mut w = world(split(32), Some(100 * MIB));
    let a = w.malloc(64 * MIB);
    w.allocator.free(a);
    w.malloc(40 * MIB);
    let stats = w.allocator.stats();
    assert_eq!((stats.retries, stats.driver_frees, w.reserved()), (0, 1, 40 * MIB));
}
