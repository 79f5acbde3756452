//! Real snapshots from the folder that `WHYOOM_CORPUS` names: `recordings/` with facts beside each, and
//! `public-snapshots/`, one for each dialect.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use whyoom_snapshot::{Action, BlockState, ReadOptions, Snapshot, read_path};

fn corpus(part: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("WHYOOM_CORPUS") else {
        eprintln!("skipped: WHYOOM_CORPUS is not set");
        return None;
    };
    let folder = Path::new(&folder).join(part);
    if !folder.is_dir() {
        eprintln!("skipped: {} is no folder", folder.display());
        return None;
    }
    Some(folder)
}

/// Snapshots in `folder`: file stem, path.
fn snapshots(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let stem = path.file_name()?.to_str()?.strip_suffix(".pickle.xz")?.to_owned();
            Some((stem, path))
        })
        .collect();
    found.sort();
    found
}

fn read(name: &str, path: &Path) -> Snapshot {
    read_path(path, &ReadOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn count(snapshot: &Snapshot, action: Action) -> u64 {
    snapshot.devices.iter().flat_map(|d| &d.events.action).filter(|a| **a == action).count() as u64
}

/// What must hold in every recording, whatever happened in it.
fn check_invariants(name: &str, snapshot: &Snapshot) {
    for device in &snapshot.devices {
        let events = &device.events;
        assert!(events.time_us.is_sorted(), "{name}: the trace is in order");
        for column in [events.addr.len(), events.size.len(), events.stream.len(), events.stack.len()] {
            assert_eq!(column, events.len(), "{name}: columns have one length");
        }
        for segment in &device.segments {
            let blocks = &device.blocks[segment.blocks.start as usize..segment.blocks.end as usize];
            assert_eq!(blocks.iter().map(|b| b.size).sum::<u64>(), segment.total_size, "{name}");
            assert_eq!(blocks.first().map(|b| b.address), Some(segment.address), "{name}");
            assert!(blocks.windows(2).all(|b| b[0].address + b[0].size == b[1].address), "{name}");
            assert!(blocks.iter().all(|b| (b.state == BlockState::Free) == b.requested_size.is_none()), "{name}");
        }
    }
}

#[test]
fn recordings_read_whole() {
    let Some(folder) = corpus("recordings") else { return };
    let found = snapshots(&folder);
    assert!(!found.is_empty(), "the corpus has recordings");
    for (name, path) in &found {
        let snapshot = read(name, path);
        assert!(snapshot.warnings.is_empty(), "{name}: {:?}", snapshot.warnings);
        assert_eq!(snapshot.torch.at_least.as_deref(), Some("2.10"), "{name}");
        assert_eq!(snapshot.torch.below.as_deref(), Some("2.12"), "{name}");
        check_invariants(name, &snapshot);
        // A dump made inside an OOM observer comes before the end that the facts tell of.
        if let Ok(text) = std::fs::read(folder.join(format!("{name}.json"))) {
            let facts: Json = serde_json::from_slice(&text).expect("facts are JSON");
            check_facts(name, &snapshot, &facts);
        }
    }
    eprintln!("{} recordings read", found.len());
}

/// Compares with what the program that was recorded knew of itself.
fn check_facts(name: &str, snapshot: &Snapshot, facts: &Json) {
    let stat = |key: &str| facts["stats"][key].as_u64();
    assert!(stat("num_ooms").is_some(), "{name}: the facts have statistics");
    let reserved: u64 = snapshot.devices.iter().flat_map(|d| &d.segments).map(|s| s.total_size).sum();
    if let Some(known) = stat("reserved_bytes.all.current") {
        assert_eq!(reserved, known, "{name}: reserved bytes");
    }
    let blocks = snapshot.devices.iter().flat_map(|d| &d.blocks);
    let allocated: u64 = blocks.filter(|b| b.state == BlockState::Allocated).map(|b| b.size).sum();
    if let Some(known) = stat("allocated_bytes.all.current") {
        assert_eq!(allocated, known, "{name}: allocated bytes");
    }
    // A ring that is full has lost events.
    if !name.contains("ring") {
        for (key, action) in [("num_ooms", Action::Oom), ("allocation.all.allocated", Action::Alloc)] {
            if let Some(known) = stat(key) {
                assert_eq!(count(snapshot, action), known, "{name}: {key}");
            }
        }
    }
}

#[test]
fn public_snapshots_read_whole() {
    let Some(folder) = corpus("public-snapshots") else { return };
    let expected = [
        ("t2.0-history", "2.0", 1),
        ("t2.0-history-oom", "2.0", 1),
        ("t2.1", "2.1", 10_307),
        ("t2.10", "2.10", 3840),
        ("t2.3", "2.3", 33),
        ("t2.3-notrace", "2.3", 1),
        ("t2.5", "2.5", 4657),
        ("t2.5-small", "2.5", 2811),
        ("t2.8-nosettings", "2.7", 1040),
    ];
    for (name, path) in snapshots(&folder) {
        let snapshot = read(&name, &path);
        assert!(
            snapshot.warnings.iter().all(|(code, _)| code == "segment_sums" || code == "blocks_not_contiguous"),
            "{name}: {:?}",
            snapshot.warnings
        );
        if let Some((_, torch, events)) = expected.iter().find(|(n, _, _)| *n == name) {
            assert_eq!(snapshot.torch.at_least.as_deref(), Some(*torch), "{name}: {:?}", snapshot.torch);
            assert_eq!(snapshot.devices[0].events.len(), *events, "{name}");
        }
    }
}
