//! Reading a snapshot, in MB/s: `WHYOOM_BENCH_FILE=long.pickle cargo bench -p whyoom-snapshot --bench read`.
//!
//! `fixtures/dialects/longer.py` makes a long file out of a recording.
#![allow(clippy::print_stderr, reason = "it is a program")]

use divan::counter::{BytesCount, ItemsCount};
use whyoom_snapshot::{ReadOptions, read_bytes};

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn read(bencher: divan::Bencher) {
    let Some(path) = std::env::var_os("WHYOOM_BENCH_FILE") else {
        eprintln!("skipped: WHYOOM_BENCH_FILE is not set");
        return;
    };
    let bytes = std::fs::read(path).unwrap_or_default();
    let options = ReadOptions::default();
    let Ok(snapshot) = read_bytes(&bytes, &options) else {
        eprintln!("skipped: the file is no snapshot");
        return;
    };
    let events: usize = snapshot.devices.iter().map(|d| d.events.len()).sum();
    drop(snapshot);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .counter(ItemsCount::new(events))
        .bench(|| read_bytes(&bytes, &options));
}
