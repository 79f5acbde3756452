//! Throughput of the allocator on a made-up program: `cargo bench -p whyoom-allocator`.
//!
//! One item is a request with its free (three events of a trace).

use divan::counter::ItemsCount;
use whyoom_allocator::{Allocator, AscendingDriver, Model, Request, Settings};

const STEPS: usize = 200_000;

/// A training-like program: waves of short-lived blocks of a few dozen sizes over a base of long-lived ones.
fn program() -> Vec<(u64, u32)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sizes: Vec<u64> = (0..48).map(|_| 1u64 << (9 + next() % 18)).map(|s| s + s / 3).collect();
    (0..STEPS).map(|_| (sizes[(next() % 48) as usize], (next() % 512) as u32)).collect()
}

fn run(settings: &Settings, program: &[(u64, u32)]) -> u64 {
    let mut driver = AscendingDriver::default();
    let mut allocator = Allocator::new(Model::default(), settings.clone(), &[0]);
    let mut slots = vec![None; 512];
    for &(bytes, slot) in program {
        if let Some(block) = slots[slot as usize].take() {
            allocator.free(block);
        }
        slots[slot as usize] = allocator.malloc(&mut driver, Request { bytes, stream: 0, pool: 0, tag: slot }).ok();
    }
    allocator.stats().reserved.peak
}

#[divan::bench(args = ["default", "expandable", "split", "roundup"])]
fn requests_and_frees(bencher: divan::Bencher<'_, '_>, kind: &str) {
    let settings = match kind {
        "expandable" => Settings { expandable_segments: true, ..Settings::default() },
        "split" => Settings { max_split_size: Some(64 << 20), ..Settings::default() },
        "roundup" => Settings { roundup_power2_divisions: [8; 16], ..Settings::default() },
        _ => Settings::default(),
    };
    let program = program();
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| run(&settings, &program));
}

fn main() {
    divan::main();
}
