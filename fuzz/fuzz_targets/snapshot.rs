//! Any bytes as a snapshot, in every encoding: what is read holds together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyoom_snapshot::{ReadOptions, Snapshot, read_bytes};

fn check(snapshot: &Snapshot) {
    for device in &snapshot.devices {
        let events = &device.events;
        let len = events.len();
        assert!([events.addr.len(), events.size.len(), events.stream.len(), events.stack.len()].iter().all(|l| *l == len));
        assert!(events.time_us.is_empty() || events.time_us.len() == len);
        assert!(events.pool.is_empty() || events.pool.len() == len);
        assert!(events.notes.is_sorted_by_key(|n| n.0) && events.notes.last().is_none_or(|n| (n.0 as usize) < len));
        assert!(events.stream.iter().all(|s| usize::from(s.0) < snapshot.streams.len()));
        for i in 0..len {
            if let Some(stack) = events.stack_of(i) {
                assert!((stack.0 as usize) < snapshot.stacks.len().max(1));
                snapshot.stacks.frames(stack).take(64).for_each(|(_, f)| assert!(snapshot.strings.get(f.file).len() < 1 << 30));
            }
            assert!(events.pool_of(i).index().is_none_or(|p| p < snapshot.pools.len()));
        }
        let mut at = 0;
        for segment in &device.segments {
            assert_eq!(segment.blocks.start, at);
            at = segment.blocks.end;
            assert!(segment.pool.index().is_none_or(|p| p < snapshot.pools.len()));
        }
        assert_eq!(at as usize, device.blocks.len());
        assert!(device.segments.is_sorted_by_key(|s| s.address));
    }
    assert!(snapshot.annotations.is_sorted_by_key(|a| a.time_us));
}

fuzz_target!(|data: &[u8]| {
    let options = ReadOptions { max_decompressed_bytes: 1 << 20 };
    if let Ok(snapshot) = read_bytes(data, &options) {
        check(&snapshot);
    }
});
