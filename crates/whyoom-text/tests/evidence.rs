//! Every figure of the collected cases is read within the rounding of its message.

use serde_json::Value;
use whyoom_text::messages::{About, Backend, Impossible, OomMessage, Source};
use whyoom_text::tables::{Metric, Pool};
use whyoom_text::{Fact, Limits, Quantity, Reading, Units, read};

fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/evidence/cases.jsonl");
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn readings(text: &str) -> Vec<Reading> {
    read(text.as_bytes(), &Limits::default()).expect("memory can be read").readings
}

fn of(id: &str) -> Vec<Reading> {
    let case = cases().into_iter().find(|c| c["id"] == id).expect("the case is there");
    readings(case["evidence"].as_str().expect("text"))
}

fn ooms(readings: &[Reading]) -> Vec<&OomMessage> {
    readings.iter().filter_map(|r| if let Fact::Oom(m) = &r.fact { Some(&**m) } else { None }).collect()
}

/// Two figures agree if they print alike, give or take two of the last digit, or as far as `derived` may be off: the
/// cases round each sum before they go on with it.
fn agree(id: &str, name: &str, ours: Option<Quantity>, expected: &Value, derived: u64) {
    let text = expected.as_str().unwrap_or_else(|| panic!("{id} {name}: a text"));
    let expected = Quantity::parse(text, Units::Binary).unwrap_or_else(|| panic!("{id} {name}: {text}"));
    let ours = ours.unwrap_or_else(|| panic!("{id} {name}: not read, expected {text}"));
    let unit = expected.within.max(1) * 2;
    assert!(
        ours.bytes.abs_diff(expected.bytes) <= (unit * 2 + 2).max(derived),
        "{id} {name}: {ours:?}, expected {text}"
    );
}

#[test]
fn every_computed_figure() {
    let mut checked = 0;
    for case in cases() {
        let Some(computed) = case["computed"].as_object() else { continue };
        let id = case["id"].as_str().expect("id");
        let found = readings(case["evidence"].as_str().expect("text"));
        let found = ooms(&found);
        assert_eq!(found.len(), 1, "{id}: {found:#?}");
        let m = found[0];
        for (name, expected) in computed {
            checked += 1;
            let sized = match name.as_str() {
                "request" => m.request_bytes,
                "total" => m.total_bytes,
                "free" => m.free_bytes,
                "allocated" => m.allocated_bytes,
                "reserved" => m.reserved_bytes,
                "reserved_unallocated" => m.reserved_unallocated_bytes,
                "allowed" => m.allowed_bytes,
                "headroom_under_cap" => m.headroom_bytes(),
                "shortfall_vs_free" => m.shortfall_bytes(),
                "own_non_pytorch" => m.own_outside_bytes,
                "outside_pytorch_allocator" if expected.as_str().is_some_and(|t| t.starts_with("negative")) => {
                    assert_eq!(m.outside_bytes, None, "{id}");
                    assert!(m.impossible.contains(&Impossible::ReservedAndFreeOverTotal), "{id}");
                    continue;
                }
                "outside_pytorch_allocator" => m.outside_bytes,
                "request_exceeds_capacity" => {
                    assert_eq!(m.request_exceeds_capacity(), expected.as_bool(), "{id} {name}");
                    continue;
                }
                "request_fits_in_free" => {
                    assert_eq!(m.request_fits_in_free(), expected.as_bool(), "{id} {name}");
                    continue;
                }
                "gap_covers_request" => {
                    assert_eq!(m.unused_covers_request(), expected.as_bool(), "{id} {name}");
                    continue;
                }
                "compact_would_fit" => {
                    assert_eq!(m.compact_would_fit, expected.as_bool(), "{id} {name}");
                    continue;
                }
                "gap_share_of_reserved" => {
                    let expected = expected.as_f64();
                    let close = m.unused_share().zip(expected).is_some_and(|(a, b)| (a - b).abs() < 0.0011);
                    assert!(close || (m.unused_share().is_none() && expected.is_none()), "{id} {name}");
                    continue;
                }
                "other_or_namespaced_processes" => {
                    let expected = expected.as_object().expect("by pid");
                    assert_eq!(m.other_processes.len(), expected.len(), "{id}");
                    for process in &m.other_processes {
                        agree(id, "process", process.bytes, &expected[&process.pid.to_string()], 0);
                    }
                    continue;
                }
                other => panic!("{id}: a figure that the test does not know: {other}"),
            };
            let is_printed = matches!(name.as_str(), "request" | "total" | "free" | "allocated" | "allowed");
            let derived = if is_printed { 0 } else { m.reserved_bytes.map_or(0, |r| r.within * 2) };
            agree(id, name, sized, expected, derived);
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn every_message_is_read() {
    for case in cases().iter().filter(|c| c["kind"] == "oom_message") {
        let found = readings(case["evidence"].as_str().expect("text"));
        assert!(!found.is_empty(), "{}", case["id"]);
    }
}

#[test]
fn forms_without_arithmetic() {
    let found = of("graph-02");
    let m = ooms(&found);
    assert_eq!((m.len(), m[0].form, m[0].request_bytes, found[0].occurrences), (1, "thc", None, 2));
    assert_eq!(m[0].user_frame.as_ref().map(|f| (f.file.as_str(), f.line)), Some(("train.py", 118)));

    for (id, device) in [("cma-01", 5), ("cma-02", 0), ("cma-03", 0)] {
        let found = of(id);
        let m = ooms(&found);
        assert_eq!((m.len(), m[0].backend, m[0].device, m[0].is_cut), (1, Backend::Async, Some(device), false), "{id}");
        assert!(m[0].total_bytes.is_some() && m[0].free_bytes.is_some() && m[0].request_bytes.is_some(), "{id}");
        assert_eq!((m[0].allowed_bytes, m[0].impossible.as_slice()), (None, &[][..]), "{id}: unlimited is no limit");
    }
    let found = of("cma-04");
    assert!(ooms(&found).iter().any(|m| m.is_cut && m.backend == Backend::Async));
    let found = of("conf-16");
    let m = ooms(&found);
    let mib = |q: Option<Quantity>| q.map(|q| q.bytes >> 20);
    assert_eq!((m[0].backend, mib(m[0].request_bytes), mib(m[0].allowed_bytes)), (Backend::Mps, Some(11), Some(6932)));
    assert_eq!(mib(m[0].outside_bytes), Some(4444));
    let found = of("npu-01");
    assert_eq!((ooms(&found)[0].backend, mib(ooms(&found)[0].active_bytes)), (Backend::Npu, Some(10465)));
    let found = of("xpu-02");
    assert_eq!((ooms(&found)[0].backend, mib(ooms(&found)[0].block_limit_bytes)), (Backend::Xpu, Some(4096)));
    let found = of("frac-03");
    assert_eq!(ooms(&found)[0].request_bytes, Some(Quantity::exact(2_147_483_648)));
    assert!(found.iter().any(|r| matches!(&r.fact, Fact::Settings(s) if s.value.starts_with("per_process_memory"))));
    let found = of("fsdp-02");
    assert_eq!(ooms(&found)[0].exception.as_deref(), Some("UserWarning"));
}

#[test]
fn what_is_not_the_allocators() {
    let source =
        |id: &str| of(id).into_iter().find_map(|r| if let Fact::Foreign(f) = r.fact { Some(f.source) } else { None });
    assert_eq!(source("place-04"), Some(Source::Driver));
    assert_eq!(source("blas-02"), Some(Source::MathLibrary));
    assert_eq!(source("pin-03"), Some(Source::Pinned));
    assert_eq!(source("proc-06"), Some(Source::Startup));
    assert_eq!(source("nograd-03"), Some(Source::Driver));
    let about =
        |id: &str| of(id).into_iter().find_map(|r| if let Fact::Advice(a) = r.fact { Some(a.about) } else { None });
    assert_eq!(about("nograd-03"), Some(About::VolatileIgnored));
    assert_eq!(about("es-02"), Some(About::InvalidArgument));
    assert_eq!(about("es-04"), Some(About::SettingIgnored));
    assert_eq!(about("es-10"), Some(About::ExpandableSegmentsShared));
    let quoted: Vec<bool> = of("conf-03")
        .iter()
        .filter_map(|r| if let Fact::Settings(s) = &r.fact { Some(s.is_quoted) } else { None })
        .collect();
    assert_eq!(quoted, [true, true]);
}

#[test]
fn tables() {
    let table = |id: &str| {
        of(id).into_iter().find_map(|r| if let Fact::Summary(s) = r.fact { Some(s) } else { None }).expect("a table")
    };
    let old = table("frag-01");
    assert_eq!((old.device, old.num_ooms, old.num_alloc_retries, old.is_cut), (Some(0), Some(1), Some(1), false));
    assert_eq!(old.releases.below.map(|r| (r.major, r.minor)), Some((2, 0)));
    let reserved = old.row(Metric::ReservedBytes, Pool::All).expect("row");
    assert_eq!(reserved.current.map(|c| c.least), Some(12420 << 20));
    assert_eq!(old.row(Metric::Segment, Pool::LargePool).and_then(|r| r.peak).map(|c| c.least), Some(34));
    assert_eq!(old.rows.len(), 24);
    let new = table("ms-01");
    assert_eq!(new.rows.len(), 29);
    assert_eq!(new.releases.at_least.map(|r| (r.major, r.minor)), Some((2, 0)));
    assert_eq!(new.row(Metric::InactiveSplitBytes, Pool::All).and_then(|r| r.peak).map(|c| c.least), Some(46080 << 10));
    let cut = table("ms-05");
    assert!(cut.is_cut && cut.row(Metric::ReservedBytes, Pool::All).is_none());
}
