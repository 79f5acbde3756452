//! Damaged and hostile input: an error or a part of the snapshot, in bounded memory, never a panic.
#![allow(unsafe_code, reason = "an allocator that counts is the only way to see what a read costs")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::path::Path;

use whyoom_snapshot::{ReadError, ReadOptions, Snapshot, read_bytes, read_reader};

struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees its locals last; what it frees after that is nobody's test.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came; only sizes are added up beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads `bytes` and checks that no more memory than a multiple of them was held.
fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let before = NOW.get();
    PEAK.set(before);
    let outcome = read_bytes(bytes, &ReadOptions::default());
    let peak = PEAK.get() - before;
    let allowed = 48 * bytes.len() as isize + (2 << 20);
    assert!(peak <= allowed, "{} bytes of input took {peak} bytes of memory", bytes.len());
    outcome
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dialects").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Address, size and depth of stack of an event.
type Event = (u64, u64, usize);

/// All events, by device.
fn events(snapshot: &Snapshot) -> Vec<(u32, Vec<Event>)> {
    let depth =
        |d: &whyoom_snapshot::Device, i: usize| d.events.stack_of(i).map_or(99, |s| snapshot.stacks.frames(s).count());
    snapshot
        .devices
        .iter()
        .map(|d| (d.index, (0..d.events.len()).map(|i| (d.events.addr[i], d.events.size[i], depth(d, i))).collect()))
        .collect()
}

fn has(snapshot: &Snapshot, code: &str) -> bool {
    snapshot.warnings.iter().any(|(c, _)| c == code)
}

const WHOLE: [&str; 8] = [
    "t2.10.pickle",
    "t2.10.protocol0.pickle",
    "t2.10.protocol2.pickle",
    "t2.12.cpp.pickle",
    "t2.10.json",
    "t1.13-list.pickle",
    "t2.8-nosettings.pickle",
    "wrapped.pickle",
];

#[test]
fn a_file_cut_anywhere_yields_what_came_before() {
    for name in WHOLE {
        let bytes = fixture(name);
        let whole = read(&bytes).expect(name);
        let all = events(&whole);
        let (mut most_events, mut most_segments) = (0, 0);
        for cut in 0..bytes.len() {
            let partial = match read(&bytes[..cut]) {
                Ok(partial) => partial,
                Err(ReadError::Damaged { offset, .. }) => {
                    assert!(offset <= cut as u64, "{name} cut at {cut}: offset {offset}");
                    assert!(most_events + most_segments == 0, "{name} cut at {cut} yields less than cut earlier");
                    continue;
                }
                Err(ReadError::NotASnapshot { .. }) => {
                    assert!(cut < 40 || !name.ends_with("4.pickle"), "{name} cut at {cut}");
                    continue;
                }
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            };
            assert!(has(&partial, "truncated"), "{name} cut at {cut}: no warning");
            assert_eq!(partial.torch.below, None, "{name} cut at {cut}: what is missing dates nothing");
            let mut count = 0;
            for (device, found) in events(&partial) {
                let (_, expected) = all.iter().find(|(d, _)| *d == device).expect("no device is made up");
                assert_eq!(found[..], expected[..found.len()], "{name} cut at {cut}: events of device {device}");
                count += found.len();
            }
            let segments: usize = partial.devices.iter().map(|d| d.segments.len()).sum();
            assert!(
                count >= most_events && segments >= most_segments,
                "{name} cut at {cut} yields less than cut earlier"
            );
            (most_events, most_segments) = (count, segments);
            for device in &partial.devices {
                let whole = whole.devices.iter().find(|d| d.index == device.index).expect("no device is made up");
                for segment in &device.segments {
                    let twin =
                        whole.segments.iter().find(|s| s.address == segment.address).expect("no segment is made up");
                    assert_eq!(segment.total_size, twin.total_size, "{name} cut at {cut}");
                    assert_eq!(segment.blocks.len(), twin.blocks.len(), "{name} cut at {cut}");
                }
                assert!(!device.has_segments || device.segments.len() == whole.segments.len(), "{name} cut at {cut}");
            }
        }
        let count: usize = all.iter().map(|(_, e)| e.len()).sum();
        assert_eq!(most_events, count, "{name}: all events are there before the last byte");
    }
}

/// A small generator, so that every run flips the same bits.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = Xorshift(0x5EED);
    for name in WHOLE {
        let bytes = fixture(name);
        for _ in 0..1200 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] ^= 1 << random.below(8);
            }
            let _ = read(&damaged);
        }
        for _ in 0..500 {
            // A stretch of the file moved elsewhere: opcodes stay valid more often than with single bits.
            let mut damaged = bytes.clone();
            let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
            let len = random.below(64).min(bytes.len() - from.max(to));
            damaged.copy_within(from..from + len, to);
            let _ = read(&damaged);
        }
    }
}

#[test]
fn claimed_lengths_and_indices_allocate_nothing() {
    let claims: [&[u8]; 12] = [
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc",
        b"\x80\x04X\xff\xff\xff\xffabc",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xffabc",
        b"\x80\x04\x8b\xff\xff\xff\x7fabc",
        b"\x80\x04\x8a\xffabc",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff}(",
        b"\x80\x04]r\xff\xff\xff\xff.",
        b"\x80\x04]r\xff\xff\xff\x0f.",
        b"(lp99999999999999999999\n.",
        b"(lp4000000000\n.",
        b"\x80\x04j\xff\xff\xff\xff.",
        b"\x80\x04]\x94h\x07.",
    ];
    for claim in claims {
        assert!(read(claim).is_err(), "{claim:?}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |open: &[u8], n: usize| [b"\x80\x04".as_slice(), &open.repeat(n)].concat();
    for open in
        [b"(".as_slice(), b"](", b"}(", b"](K\x01", b"]", b"}", b"N", b"]\x94", b"N\x94", b"K\x01\x94\x94", b"}\x94(N"]
    {
        assert!(read(&nested(open, 200_000)).is_err(), "{open:?}");
    }
    assert!(read(&b"[".repeat(200_000)).is_err());
    assert!(read(&b"{\"a\":".repeat(200_000)).is_err());
    assert!(read(&b"(lp0\n".repeat(100_000)).is_err());
}

#[test]
fn code_is_refused_by_name() {
    let refused = |bytes: &[u8]| match read(bytes) {
        Err(ReadError::RunsCode { what, offset }) => (what, offset),
        other => panic!("{bytes:?}: {other:?}"),
    };
    let (what, offset) = refused(b"\x80\x02}(X\x01\x00\x00\x00acos\nsystem\n(X\x02\x00\x00\x00lstRu.");
    assert!(what.contains("`os.system`") && offset == 10, "{what} {offset}");
    let (what, _) = refused(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.");
    assert!(what.contains("`posix.system`"), "{what}");
    // An ordered dict is data; calling it with items that are not is not.
    let (what, _) = refused(b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93]\x85R.");
    assert!(what.contains("REDUCE"), "{what}");
    for (bytes, name) in [
        (b"\x80\x02]}b.".as_slice(), "BUILD"),
        (b"\x80\x02])\x81.", "NEWOBJ"),
        (b"\x80\x04])}\x92.", "NEWOBJ_EX"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"Pid\n.", ""),
        (b"\x80\x02NQ.", "BINPERSID"),
        (b"(ios\nsystem\n.", "INST"),
        (b"(]o.", "OBJ"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
    ] {
        match read(bytes) {
            Err(ReadError::RunsCode { what, .. }) => assert!(what.contains(name), "{what} for {name}"),
            Err(ReadError::NotASnapshot { .. }) if name.is_empty() => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn references_without_end_are_cut_off() {
    let prefix = b"\x80\x02}q\x00(X\x0d\x00\x00\x00device_traces";
    let event = b"}(X\x06\x00\x00\x00actionX\x05\x00\x00\x00allocu";
    let many = 100_000;
    let list_of = |item: &[u8], n: usize| [b"](".as_slice(), &item.repeat(n), b"e"].concat();
    // One entry named over and over, in one list and by lists of lists.
    let named = [b"](".as_slice(), event, b"q\x01", &b"h\x01".repeat(many), b"eq\x02"].concat();
    let twice = [prefix.as_slice(), b"](", &named, &b"h\x02".repeat(many), b"eu."].concat();
    let snapshot = read(&twice).expect("a trace is there");
    assert!(has(&snapshot, "repeated_rows"));
    // One list of blocks named by many segments.
    let block = b"}(X\x05\x00\x00\x00stateX\x08\x00\x00\x00inactiveX\x04\x00\x00\x00sizeK\x01u";
    let blocks = [b"](".as_slice(), &block.repeat(1000), b"eq\x05"].concat();
    let first =
        [b"}(X\x06\x00\x00\x00blocksq\x06".as_slice(), &blocks, b"X\x07\x00\x00\x00addressq\x07K\x01u"].concat();
    let segment = b"}(h\x06h\x05h\x07K\x01u";
    let segments = [b"\x80\x02](".as_slice(), &first, &segment.repeat(many), b"e."].concat();
    let snapshot = read(&segments).expect("segments are there");
    assert!(snapshot.devices[0].blocks.len() <= 2000);
    // A list of frames that grows by one and is used each time.
    let frame = b"}(X\x08\x00\x00\x00filenameX\x01\x00\x00\x00fX\x04\x00\x00\x00lineK\x01uq\x01";
    let used = b"h\x01a2X\x06\x00\x00\x00framesh\x02";
    let mut growing = [b"\x80\x02](".as_slice(), frame, b"]q\x02"].concat();
    growing.extend(used.repeat(20_000));
    growing.push(b'.');
    let _ = read(&growing);
    let appended = [b"\x80\x02](".as_slice(), frame, b"]", &b"h\x01a".repeat(many), b"e."].concat();
    let _ = read(&appended);
    // Dicts whose keys are never the same, dicts and lists without meaning, texts, pairs.
    let shapes: Vec<u8> = (0..20_000u32)
        .flat_map(|i| {
            [b"}(X\x04\x00\x00\x00".as_slice(), format!("{i:04x}").as_bytes(), b"NX\x01\x00\x00\x00aNu"].concat()
        })
        .collect();
    let _ = read(&list_of_bytes(&shapes));
    let _ = read(&list_of_bytes(&b"}NNs".repeat(many)));
    let _ = read(&list_of_bytes(&b"]Na".repeat(many)));
    let _ = read(&list_of(b"K\x01K\x02\x86", many));
    let pairs: Vec<u8> =
        (0..many as u32).flat_map(|i| [b"J".as_slice(), &i.to_le_bytes(), b"K\x01\x86"].concat()).collect();
    let _ = read(&list_of_bytes(&pairs));
}

fn list_of_bytes(items: &[u8]) -> Vec<u8> {
    [b"\x80\x02](".as_slice(), items, b"e."].concat()
}

#[test]
fn columns_are_even_though_keys_come_and_go() {
    let text =
        br#"{"device_traces": [[{"action": "alloc", "addr": 1}, {"action": "alloc", "time_us": 7, "pool_id": [0, 1]},
        {"action": "alloc"}, {"action": "alloc", "time_us": 9}, {"action": "alloc", "pool_id": [0, 0]}]]}"#;
    let snapshot = read(text).expect("a trace is there");
    let events = &snapshot.devices[0].events;
    assert_eq!(events.time_us, [0, 7, 7, 9, 9]);
    let pools: Vec<_> = (0..events.len()).map(|i| events.pool_of(i).index().map(|p| snapshot.pools[p])).collect();
    assert_eq!(pools, [None, Some((0, 1)), None, None, Some((0, 0))]);
    assert!(has(&snapshot, "times_missing"));
}

#[test]
fn bombs_are_refused() {
    let options = ReadOptions { max_decompressed_bytes: 1 << 20 };
    let blanks = vec![b' '; 1 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    // JSON so far, so that only the size speaks against it.
    for part in std::iter::once(&b"["[..]).chain(std::iter::repeat_n(&blanks[..], 64)) {
        gzip.write_all(part).expect("writes to memory");
        zstd.write_all(part).expect("writes to memory");
        xz.write_all(part).expect("writes to memory");
    }
    let bombs = [
        ("gzip", gzip.finish().expect("writes to memory")),
        ("zstd", zstd.finish().expect("writes to memory")),
        ("xz", xz.finish().expect("writes to memory")),
    ];
    for (name, bomb) in bombs {
        PEAK.set(NOW.get());
        let before = NOW.get();
        match read_bytes(&bomb, &options) {
            Err(ReadError::TooLarge { format, limit_bytes }) => assert!(format == name && limit_bytes == 1 << 20),
            other => panic!("{name}: {other:?}"),
        }
        assert!(PEAK.get() - before < 16 << 20, "{name} took {} bytes", PEAK.get() - before);
    }
}

#[test]
fn what_grows_beyond_measure_after_a_good_start_is_read_up_to_a_cap() {
    let plain = fixture("t2.10.pickle");
    let zeros = vec![0; 1 << 20];
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for part in std::iter::once(&plain[..]).chain(std::iter::repeat_n(&zeros[..], 200)) {
        zstd.write_all(part).expect("writes to memory");
        gzip.write_all(part).expect("writes to memory");
    }
    let whole = [zstd.finish().expect("writes to memory"), gzip.finish().expect("writes to memory")];
    for bomb in whole {
        PEAK.set(NOW.get());
        let before = NOW.get();
        let snapshot = read_bytes(&bomb, &ReadOptions::default()).expect("the snapshot comes before the zeros");
        let allowed = 4 * (256 * bomb.len()).max(64 << 20);
        assert!(PEAK.get() - before < allowed as isize, "{} bytes", PEAK.get() - before);
        assert_eq!(events(&snapshot), events(&read(&plain).expect("a fixture")));
        assert_eq!(has(&snapshot, "damaged_archive"), 256 * bomb.len() < 200 << 20, "{:?}", snapshot.warnings);
    }
}

#[test]
fn data_beside_the_snapshot_does_not_cost_the_snapshot() {
    let list = format!("[{}]", vec!["7"; 200].join(","));
    let event = format!(
        r#"{{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "frames": [], "user_metadata": {{"x": {list}}}}}"#
    );
    let text = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, vec![event.as_str(); 3000].join(","));
    let snapshot = read(text.as_bytes()).expect("a trace is there");
    assert_eq!(snapshot.devices[0].events.len(), 3000);
    assert!(has(&snapshot, "data_dropped"));
}

#[test]
fn more_devices_than_a_process_has_are_left_out() {
    let traces = |n: usize| {
        let trace = r#"[{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "frames": []}]"#;
        format!(r#"{{"segments": [], "device_traces": [{}]}}"#, vec![trace; n].join(","))
    };
    let snapshot = read(traces(128).as_bytes()).expect("traces");
    assert!(snapshot.devices.len() == 128 && !has(&snapshot, "devices_left_out"));
    let snapshot = read(traces(5000).as_bytes()).expect("traces");
    assert!(snapshot.devices.len() == 128 && has(&snapshot, "devices_left_out"));
    let segment = |device: usize| {
        format!(
            r#"{{"device": {device}, "address": 4096, "total_size": 512, "stream": 0, "segment_type": "small", "blocks": []}}"#
        )
    };
    let list: Vec<String> = (0..5000).map(segment).collect();
    let text = format!(r#"{{"segments": [{}], "device_traces": []}}"#, list.join(","));
    let snapshot = read(text.as_bytes()).expect("segments");
    assert!(snapshot.devices.len() == 128 && has(&snapshot, "devices_left_out"));
    assert_eq!(snapshot.warnings.iter().find(|w| w.0 == "devices_left_out").map(|w| w.1.count), Some(5000 - 128));
}

#[test]
fn an_endless_stream_of_something_else_ends_early() {
    PEAK.set(NOW.get());
    let before = NOW.get();
    let read = read_reader(std::io::repeat(0), &ReadOptions::default());
    assert!(matches!(read, Err(ReadError::NotASnapshot { .. })), "{read:?}");
    assert!(PEAK.get() - before < 1 << 20);
}

#[test]
fn decoders_do_not_get_all_the_memory_they_ask_for() {
    // A zstd frame that asks for a window of 2 GiB, and an xz block that asks for a dictionary of 4 GiB.
    let frame = b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    assert!(matches!(read(frame), Err(ReadError::Decompress { format: "zstd", .. })));
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(b"abc").expect("writes to memory");
    let mut bytes = xz.finish().expect("writes to memory");
    let header = 12..12 + (usize::from(bytes[12]) + 1) * 4;
    let filter = header.start + bytes[header.clone()].windows(2).position(|w| w == [0x21, 1]).expect("an LZMA2 filter");
    bytes[filter + 2] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[header.start..header.end - 4]);
    bytes[header.end - 4..header.end].copy_from_slice(&crc.sum().to_le_bytes());
    match read(&bytes) {
        Err(ReadError::Decompress { format: "xz", reason, .. }) => assert!(reason.contains("mem"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_archive_yields_what_came_before() {
    let plain = fixture("t2.10.pickle");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(&plain).expect("writes to memory");
    let gzip = gzip.finish().expect("writes to memory");
    let snapshot = read(&gzip[..gzip.len() - 300]).expect("most of it is there");
    assert!(has(&snapshot, "truncated"));
    // All data is there and only the check sum is missing.
    let snapshot = read(&gzip[..gzip.len() - 4]).expect("all of it is there");
    assert!(has(&snapshot, "damaged_archive") && !has(&snapshot, "truncated"));
}

#[test]
fn other_files_are_named() {
    let looks_like = |bytes: &[u8]| match read(bytes) {
        Err(ReadError::NotASnapshot { looks_like, .. }) => looks_like,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(bytes)),
    };
    let cases: [(&[u8], &str); 14] = [
        (b"", "empty"),
        (b"PK\x03\x04rest", "torch.save"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "torch.save"),
        (b"step 1 loss 0.3\nRuntimeError: CUDA out of memory. Tried to allocate", "out-of-memory"),
        (b"hello, world\n", "`hello, world`"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "Git LFS"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "binary"),
        (b"{\"loss\": [1, 2]}", "`loss`"),
        (b"[1, 2, 3]", "list"),
        (b"\x80\x04}\x94\x8c\x01aK\x01s.", "`a`"),
        (b"\x80\x04K\x07.", "7"),
        (b"\x80\x04\x8c\x02hi.", "text"),
        (b"[INFO] starting up, all is well, nothing to see here, but this is no JSON at all", "[INFO]"),
    ];
    for (bytes, word) in cases {
        let found = looks_like(bytes);
        assert!(found.contains(word), "{found:?} should name {word:?}");
    }
}
