//! Every dialect under `fixtures/dialects` reads as its expected tables say, plain and compressed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use whyoom_snapshot::{Action, Device, ReadOptions, Snapshot, StackId, read_bytes, read_path, read_reader};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dialects")
}

fn expected() -> BTreeMap<String, Json> {
    let text = std::fs::read(fixtures().join("expected.json")).expect("fixtures/dialects/make.py writes expected.json");
    serde_json::from_slice(&text).expect("expected.json is JSON")
}

fn stack(snapshot: &Snapshot, stack: Option<StackId>) -> Json {
    stack.map_or(Json::Null, |stack| {
        let text = |id| snapshot.strings.get(id);
        let frames = snapshot.stacks.frames(stack);
        frames.map(|(_, f)| json!([text(f.function), text(f.file), f.line])).collect()
    })
}

fn events(snapshot: &Snapshot, device: &Device) -> Json {
    let events = &device.events;
    let name = |i: usize| match events.action[i] {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free_requested",
        Action::FreeCompleted => "free_completed",
        Action::SegmentAlloc => "segment_alloc",
        Action::SegmentFree => "segment_free",
        Action::SegmentMap => "segment_map",
        Action::SegmentUnmap => "segment_unmap",
        Action::Snapshot => "snapshot",
        Action::Oom => "oom",
        Action::Annotate => "annotate",
        Action::Other => {
            let note = events.notes.iter().find(|n| n.0 as usize == i && n.1 == whyoom_snapshot::NoteKind::ActionName);
            note.map_or("", |n| snapshot.strings.get(n.2))
        }
    };
    (0..events.len())
        .map(|i| {
            let stream = snapshot.streams[usize::from(events.stream[i].0)];
            let pool = events.pool_of(i).index().map(|p| snapshot.pools[p]);
            let frames = stack(snapshot, events.stack_of(i));
            json!([name(i), events.addr[i], events.size[i], stream, events.time_of(i), frames, pool])
        })
        .collect()
}

fn segments(snapshot: &Snapshot, device: &Device) -> Json {
    let block = |b: &whyoom_snapshot::Block| {
        json!([b.address, b.size, b.requested_size, format!("{:?}", b.state), stack(snapshot, b.stack)])
    };
    let segments = device.segments.iter().map(|s| {
        let blocks = &device.blocks[s.blocks.start as usize..s.blocks.end as usize];
        let blocks: Vec<Json> = blocks.iter().map(block).collect();
        let pool = s.pool.index().map(|p| snapshot.pools[p]);
        let stream = snapshot.streams[usize::from(s.stream.0)];
        let frames = stack(snapshot, s.stack);
        json!([s.address, s.total_size, stream, s.is_small, s.is_expandable, pool, frames, blocks])
    });
    segments.collect()
}

/// The tables in the form of `expected.json`.
fn tables(snapshot: &Snapshot) -> Json {
    let devices: serde_json::Map<String, Json> = snapshot
        .devices
        .iter()
        .map(|d| (d.index.to_string(), json!({"events": events(snapshot, d), "segments": segments(snapshot, d)})))
        .collect();
    let annotations: Vec<Json> = snapshot
        .annotations
        .iter()
        .map(|a| json!([snapshot.strings.get(a.name), a.is_start, a.device, a.time_us]))
        .collect();
    let warnings: Vec<&str> = snapshot.warnings.iter().map(|(code, _)| code).collect();
    json!({
        "devices": devices,
        "annotations": annotations,
        "torch": [snapshot.torch.at_least, snapshot.torch.below],
        "warnings": warnings,
    })
}

fn check(name: &str, snapshot: &Snapshot, expected: &Json) {
    let found = tables(snapshot);
    for key in ["warnings", "torch", "annotations"] {
        assert_eq!(found[key], expected[key], "{name}: {key} {:?}", snapshot.warnings);
    }
    let (found, expected) = (&found["devices"], &expected["devices"]);
    let keys = |json: &Json| json.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    assert_eq!(keys(found), keys(expected), "{name}: devices");
    for (device, tables) in expected.as_object().into_iter().flatten() {
        for table in ["events", "segments"] {
            let rows = |json: &Json| json[table].as_array().cloned().unwrap_or_default();
            let (found, expected) = (rows(&found[device]), rows(tables));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found, expected, "{name}: device {device}, row {i} of {table}");
            }
            assert_eq!(found.len(), expected.len(), "{name}: device {device}, number of {table}");
        }
    }
}

#[test]
fn every_dialect_reads_as_expected() {
    let expected = expected();
    assert!(expected.len() > 25, "the list of dialects is complete");
    for (name, expected) in &expected {
        let snapshot = read_path(&fixtures().join(name), &ReadOptions::default());
        let snapshot = snapshot.unwrap_or_else(|error| panic!("{name}: {error}"));
        check(name, &snapshot, expected);
    }
}

#[test]
fn compression_changes_nothing() {
    let expected = &expected()["t2.10.pickle"];
    let plain = std::fs::read(fixtures().join("t2.10.pickle")).expect("the fixture is there");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).expect("writes to memory");
    let gzip = gzip.finish().expect("writes to memory");
    let zstd = zstd::encode_all(plain.as_slice(), 3).expect("writes to memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(&plain).expect("writes to memory");
    let xz = xz.finish().expect("writes to memory");
    for (name, bytes) in [("plain", plain), ("gzip", gzip), ("zstd", zstd), ("xz", xz)] {
        let options = ReadOptions::default();
        check(name, &read_bytes(&bytes, &options).expect(name), expected);
        check(name, &read_reader(bytes.as_slice(), &options).expect(name), expected);
    }
}

#[test]
fn the_viewer_page_is_read() {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let plain = std::fs::read(fixtures().join("padded.pickle")).expect("the fixture is there");
    let digits = plain.chunks(3).flat_map(|three| {
        let word = three.iter().enumerate().fold(0u32, |word, (i, b)| word | u32::from(*b) << (16 - 8 * i));
        (0..4).map(move |i| if i <= three.len() { DIGITS[(word >> (18 - 6 * i)) as usize % 64] as char } else { '=' })
    });
    let text: String = digits.collect();
    let page = format!("<!DOCTYPE html>\n<html><script>add('a.pickle', '{text}')</script></html>");
    check("page", &read_bytes(page.as_bytes(), &ReadOptions::default()).expect("page"), &expected()["t2.10.pickle"]);
}

#[test]
fn settings_are_kept() {
    let read = |name: &str| read_path(&fixtures().join(name), &ReadOptions::default()).expect(name).settings;
    let settings = read("t2.10.pickle").expect("the file has settings");
    assert_eq!(settings.conf.as_deref(), Some("max_split_size_mb:64"));
    assert_eq!(settings.max_split_size, Some(64 << 20));
    assert!((settings.garbage_collection_threshold - 0.75).abs() < 1e-9);
    assert!(!settings.expandable_segments);
    let divisions = settings.roundup_power2_divisions.expect("the file has divisions");
    assert_eq!(divisions, [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let other: Vec<_> = settings.other.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        other,
        [
            ("pinned_num_register_threads", "1"),
            ("release_lock_on_cudamalloc", "false"),
            ("pinned_use_cuda_host_register", "false"),
        ]
    );
    assert_eq!(read("t2.10.json").expect("the file has settings"), settings);
    assert_eq!(read("t2.10.protocol0.pickle").expect("the file has settings"), settings);
    assert!(read("xpu.pickle").is_some_and(|s| s.other.is_empty()));
    assert!(read("t2.8-nosettings.pickle").is_none());
}

#[test]
fn notes_say_what_entries_say() {
    let snapshot = read_path(&fixtures().join("t2.15.pickle"), &ReadOptions::default()).expect("reads");
    let notes = &snapshot.devices[0].events.notes;
    let notes: Vec<_> =
        notes.iter().map(|(i, kind, text)| (*i, format!("{kind:?}"), snapshot.strings.get(*text))).collect();
    let expected = [
        (1, "InternalMetadata", "mallocWithAddress"),
        (3, "UserMetadata", "{\"step\": 1}"),
        (4, "UserMetadata", "{\"step\": 2, \"phase\": \"train\"}"),
        (5, "UserMetadata", "weights"),
        (9, "CompileContext", "0/0"),
    ];
    let expected: Vec<_> = expected.iter().map(|(i, kind, text)| (*i, (*kind).to_owned(), *text)).collect();
    assert_eq!(notes, expected);
}
