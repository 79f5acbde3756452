//! Texts that nobody wrote: nothing panics, memory stays bounded, what is there is still found.

use std::io::Read;

use proptest::prelude::*;
use whyoom_text::tables::SnapshotList;
use whyoom_text::{Fact, Limits, Text, read, sniff_likelihood};

const OOM: &str = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 7.00 GiB reserved in total by PyTorch)";

fn all(text: impl AsRef<[u8]>) -> Text {
    read(text.as_ref(), &Limits::default()).expect("memory can be read")
}

/// Hands out a few bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let len = self.1.min(self.0.len()).min(to.len());
        to[..len].copy_from_slice(&self.0[..len]);
        self.0 = &self.0[len..];
        Ok(len)
    }
}

#[test]
fn long_lines_are_cut_and_counted() {
    let text = format!("{}\n{OOM}\n{}{OOM}\n{OOM} again\n", "x".repeat(3 << 20), "y".repeat(2 << 20));
    let found = all(&text);
    assert_eq!((found.cut_lines, found.lines, found.readings.len()), (2, 4, 1));
    assert_eq!((found.readings[0].place.line, found.readings[0].place.offset), (2, (3 << 20) + 1));
    assert_eq!(found.readings[0].occurrences, 2);
    let found = all("z".repeat(5 << 20));
    assert_eq!((found.cut_lines, found.lines), (1, 1));
}

#[test]
fn places_hold_across_buffers_and_line_endings() {
    for ending in ["\n", "\r\n", "\r"] {
        let filler = format!("step loss 2.3 é{ending}").repeat(30_000);
        let text = format!("{filler}{OOM}{ending}{filler}");
        let found = all(&text);
        let place = found.readings[0].place;
        assert_eq!((place.line, place.offset, found.lines), (30_001, filler.len() as u64, 60_001), "{ending:?}");
    }
    let dripped = read(Drip(OOM.as_bytes(), 3), &Limits::default()).expect("memory can be read");
    assert_eq!((dripped.readings.len(), dripped.lines), (1, 1));
    assert_eq!(all("").lines, 0);
}

#[test]
fn readings_are_bounded() {
    let text: String = (0..200).map(|i| OOM.replace("2.00 MiB", &format!("{i}.00 MiB")) + "\n").collect();
    let found = read(text.as_bytes(), &Limits { readings: 50, ..Limits::default() }).expect("memory can be read");
    assert_eq!((found.readings.len(), found.dropped_readings), (50, 150));
}

#[test]
fn odd_bytes() {
    for text in [
        b"\xff\xfe".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        [b"\0\0\0".as_slice(), OOM.as_bytes(), b"\xff\xc3"].concat(),
        b"Traceback (most recent call last)\n".repeat(10_000),
        b"{".repeat(1 << 16),
        [b"'total_size': 1".as_slice(), &b"{[(".repeat(1 << 16)].concat(),
        b"CUDA out of memory. Tried to allocate ".repeat(10_000),
        b"Process 1 has 1.00 GiB memory in use. ".repeat(10_000),
        b"CUDA out of memory.\n".repeat(10_000),
        b"|====|\n| PyTorch CUDA memory summary, device ID 0 |\n".repeat(1000),
    ] {
        all(text);
    }
    let nul = [b"\0\0\0".as_slice(), OOM.as_bytes(), b"\xff\xc3"].concat();
    assert_eq!(all(nul).readings.len(), 1);
}

fn stats(text: &str) -> Vec<whyoom_text::tables::Stats> {
    all(text).readings.into_iter().filter_map(|r| if let Fact::Stats(s) = r.fact { Some(*s) } else { None }).collect()
}

#[test]
fn stats_in_every_dress() {
    let keys = [
        "active.all.current",
        "allocated_bytes.all.current",
        "allocated_bytes.all.peak",
        "num_ooms",
        "reserved_bytes.all.peak",
    ];
    let join = |pair: &dyn Fn(usize, &str) -> String, by: &str| {
        keys.iter().enumerate().map(|(i, k)| pair(i, k)).collect::<Vec<_>>().join(by)
    };
    for text in [
        format!("OrderedDict([{}])", join(&|i, k| format!("('{k}', {i})"), ", ")),
        format!("{{{}}}", join(&|i, k| format!("'{k}': {i}"), ", ")),
        format!("{{{}}}", join(&|i, k| format!("'{k}': {i}"), ",\n ")),
        format!("{{\n{}\n}}", join(&|i, k| format!("  \"{k}\": {i}"), ",\n")),
        join(&|i, k| format!("{k}: {i}"), "\n"),
    ] {
        let found = stats(&format!("step 1\n{text}\nstep 2\n"));
        assert_eq!(
            (found.len(), found[0].get("reserved_bytes.all.peak"), found[0].is_cut),
            (1, Some(4), false),
            "{text}"
        );
        assert_eq!(stats(&format!("{text}\n{text}")).len(), 2, "{text}");
    }
    assert!(stats(&join(&|i, k| format!("'{k}': {i},"), "\n")[..110])[0].is_cut);
}

fn list(text: &str) -> SnapshotList {
    let found = all(text).readings;
    match found.into_iter().next().map(|r| r.fact) {
        Some(Fact::SnapshotList(list)) => *list,
        other => panic!("a list expected: {other:?}\n{text}"),
    }
}

#[test]
fn segment_lists_in_every_dress() {
    let json = r#"[{"device": 1, "address": 9, "total_size": 100, "allocated_size": 60, "active_size": 70, "segment_type": "small", "blocks": [{"size": 60, "state": "active_allocated", "frames": [{"name": "f", "line": 3}]}, {"size": 10, "state": "active_awaiting_free"}, {"size": 30, "state": "inactive"}]}, {"device": 1, "total_size": 50, "allocated_size": 0, "active_size": 0, "blocks": [{"size": 50, "state": "inactive"}]}]"#;
    let python = json.replace('"', "'");
    let lines = json.replace(", ", ",\n  ").replace('{', "{\n  ");
    for text in [json, &python] {
        let found = list(text);
        let sums = found.devices[&1];
        assert_eq!((sums.segments, sums.reserved_bytes, sums.allocated_bytes, sums.active_bytes), (2, 150, 60, 70));
        assert_eq!(
            (sums.blocks, sums.free_blocks, sums.free_bytes, sums.largest_free_block_bytes, found.is_cut),
            (4, 2, 80, 50, false)
        );
    }
    let found = list(&lines);
    assert_eq!(found.devices.values().map(|d| d.reserved_bytes).sum::<u64>(), 150);
    assert!(list(&json[..250]).is_cut || json.len() < 250);
}

/// Pieces that recognisers know, in any order, between noise.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        OOM,
        "CUDA out of memory.",
        " Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which",
        "Allocation on device",
        "Currently allocated     : 5.97 GiB",
        "Of the allocated memory 17179869184.00 GiB is allocated by PyTorch, and",
        "\n",
        "\r",
        "\r\n",
        "Traceback (most recent call last):\n",
        "  File \"a.py\", line 99999999999, in f\n",
        "\x1b[",
        "│ ",
        "[rank3]: ",
        "(",
        "\0",
        "| PyTorch CUDA memory summary, device ID 0 |",
        "|====|",
        "| Allocated memory      |  18446744073709551615 PB |",
        "'total_size': 18446744073709551615",
        "[{",
        "}]",
        "'active.all.current': 99999999999999999999",
        "num_ooms: 1",
        "PYTORCH_CUDA_ALLOC_CONF=",
        "99999999999999999999.99 EiB",
        "é",
        "\u{feff}",
    ]);
    let piece =
        prop_oneof![4 => known.prop_map(|s| s.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..20)];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_panics(text in pieces(), drip in 1usize..40, line_bytes in 1usize..200) {
        prop_assert!((0.0..=1.0).contains(&sniff_likelihood(&text)));
        let whole = all(&text);
        let small = read(Drip(&text, drip), &Limits { line_bytes, readings: 8 }).expect("memory can be read");
        prop_assert_eq!(whole.bytes, text.len() as u64);
        prop_assert_eq!((whole.bytes, whole.lines), (small.bytes, small.lines));
        for reading in &whole.readings {
            prop_assert!(reading.place.offset <= whole.bytes && reading.place.line <= whole.lines);
        }
        let dripped = read(Drip(&text, drip), &Limits::default()).expect("memory can be read");
        prop_assert_eq!(&dripped.readings, &whole.readings);
        prop_assert!(serde_json::to_string(&whole).is_ok());
    }
}
