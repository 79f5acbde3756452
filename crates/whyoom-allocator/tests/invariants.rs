//! What holds after every step of any program, under any settings.

use proptest::prelude::*;
use whyoom_allocator::{Allocator, AscendingDriver, BlockId, Model, PlacedState, Release, Request, Settings};

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone)]
enum Step {
    Malloc { bytes: u64, stream: u16, pool: u16 },
    Free(usize),
    Drop(usize),
    Complete(usize),
    EmptyCache,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1u64..4096, 1u64..2 * MIB, MIB..64 * MIB, Just(MIB), Just(10 * MIB), Just(20 * MIB)];
    let step = prop_oneof![
        6 => (bytes, 0u16..3, 0u16..2).prop_map(|(bytes, stream, pool)| Step::Malloc { bytes, stream, pool }),
        4 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Complete),
        1 => Just(Step::EmptyCache),
    ];
    proptest::collection::vec(step, 1..300)
}

fn settings() -> impl Strategy<Value = (Settings, Release)> {
    let split = prop_oneof![2 => Just(None), 1 => (20u64..300).prop_map(|m| Some(m * MIB))];
    let gc = prop_oneof![2 => Just(0.0), 1 => 0.1f64..0.95];
    let roundup = prop_oneof![2 => Just(0u32), 1 => (0u32..5).prop_map(|e| 1 << e)];
    let release = prop_oneof![
        Just(Release::new(2, 1)),
        Just(Release::new(2, 9)),
        Just(Release::DEFAULT),
        Just(Release::new(2, 15))
    ];
    (split, gc, roundup, any::<bool>(), release).prop_map(
        |(max_split_size, gc, roundup, expandable_segments, release)| {
            let settings = Settings {
                max_split_size,
                garbage_collection_threshold: gc,
                roundup_power2_divisions: [roundup; 16],
                expandable_segments,
                ..Settings::default()
            };
            (settings, release)
        },
    )
}

/// Blocks do not overlap, free neighbours are merged, and the figures equal what the blocks add up to.
fn check(allocator: &Allocator) -> Result<(), TestCaseError> {
    let layout = allocator.layout();
    let mut sums = (0, 0, 0, 0);
    for pair in layout.windows(2) {
        prop_assert!(pair[0].address + pair[0].size <= pair[1].address, "overlap: {pair:?}");
        let adjacent = pair[0].address + pair[0].size == pair[1].address && !pair[1].starts_segment;
        let both_free = pair[0].state == PlacedState::Free && pair[1].state == PlacedState::Free;
        prop_assert!(!(adjacent && both_free), "free neighbours not merged: {pair:?}");
    }
    for b in &layout {
        sums.0 += b.size;
        match b.state {
            PlacedState::Allocated => {
                sums.1 += b.size;
                sums.2 += b.size;
                sums.3 += b.requested;
            }
            PlacedState::Pending => {
                sums.2 += b.size;
                sums.3 += b.requested;
            }
            PlacedState::Free => {}
        }
    }
    let s = allocator.stats();
    prop_assert_eq!((s.reserved.current, s.allocated.current, s.active.current, s.requested.current), sums);
    prop_assert!(s.allocated.peak >= s.allocated.current && s.reserved.peak >= s.reserved.current);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn blocks_tile_and_figures_add_up(steps in steps(), (settings, release) in settings(), limit in proptest::option::of(64u64..400)) {
        let limit = limit.map(|m| m * MIB);
        let expandable = settings.expandable_segments;
        let mut driver = AscendingDriver::new(limit);
        let mut allocator = Allocator::new(Model::for_torch(release), settings, &[0, 77, 33]);
        let (mut live, mut pending): (Vec<BlockId>, Vec<BlockId>) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Malloc { bytes, stream, pool } => {
                    if let Ok(block) = allocator.malloc(&mut driver, Request { bytes, stream, pool, tag: 0 }) {
                        let placed = allocator.block(block);
                        prop_assert!(placed.size >= bytes && placed.requested == bytes);
                        live.push(block);
                    }
                }
                Step::Free(i) if !live.is_empty() => allocator.free(live.swap_remove(i % live.len())),
                Step::Drop(i) if !live.is_empty() => {
                    let block = live.swap_remove(i % live.len());
                    allocator.free_pending(block);
                    pending.push(block);
                }
                Step::Complete(i) if !pending.is_empty() => allocator.complete(pending.swap_remove(i % pending.len())),
                Step::EmptyCache => allocator.empty_cache(&mut driver),
                _ => {}
            }
            if allocator.has_synchronised() {
                pending.clear();
                allocator.take_synchronised();
            }
            check(&allocator)?;
            if let Some(limit) = limit {
                // Pages are larger than what the limit is compared with, so mapping may pass it by less than a page.
                let slack = if expandable { 20 * MIB } else { 0 };
                prop_assert!(allocator.stats().reserved.current <= limit + slack);
            }
        }
        for block in live.drain(..) {
            allocator.free(block);
        }
        for block in pending.drain(..) {
            allocator.complete(block);
        }
        allocator.make_pool_freeable(1);
        allocator.empty_cache(&mut driver);
        prop_assert_eq!(allocator.stats().reserved.current, 0, "all memory goes back when nothing is held");
    }
}
