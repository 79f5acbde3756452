//! Every string of `fixtures/settings/parsers.jsonl` at every release that was run: accepted or refused, why, and the
//! values in force.

use std::path::Path;

use serde_json::{Value, json};
use whyoom_allocator::settings::{HostSettings, Parsed, Reserve, SettingsErrorKind, parse};
use whyoom_allocator::{Backend, Release, Settings};

/// The releases whose parsers made the fixture; rows name only those at which a result changes.
const RELEASES: [&str; 17] = [
    "1.13.1", "2.0.1", "2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0",
    "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0",
];

fn release(text: &str) -> Release {
    text.parse().expect("a release")
}

/// Ours in the fixture's words.
fn outcome(text: &str, release: Release) -> Value {
    match parse(text, release) {
        Ok(parsed) => accepted(&parsed),
        Err(error) => {
            assert!(error.position <= text.chars().count(), "{text:?}: position {}", error.position);
            json!({ "refused": word(error.kind) })
        }
    }
}

fn word(kind: SettingsErrorKind) -> &'static str {
    use SettingsErrorKind as Kind;
    match kind {
        Kind::UnknownKey => "unknown_key",
        Kind::WrongSeparator => "wrong_separator",
        Kind::MissingValue | Kind::UnclosedList => "string_ends",
        Kind::Undefined => "undefined",
        Kind::NotANumber | Kind::NumberOverflow => "number",
        Kind::OutOfRange => "range",
        Kind::NotPowerOfTwo => "power_of_two",
        Kind::NotBoolean => "boolean",
        Kind::UnknownBackend => "backend",
        Kind::BackendMismatch => "backend_mismatch",
    }
}

fn accepted(parsed: &Parsed) -> Value {
    let (settings, host) = (&parsed.settings, &parsed.host);
    let (usual, usual_host) = (Settings::default(), HostSettings::default());
    let mut row = json!({ "accepted": true });
    let mut put = |name: &str, value: Value, usual: Value| {
        if value != usual {
            row[name] = value;
        }
    };
    put("max_split_size", json!(settings.max_split_size), json!(usual.max_split_size));
    put("max_non_split_rounding", json!(settings.max_non_split_rounding), json!(usual.max_non_split_rounding));
    put("large_segment_size", json!(settings.large_segment_size), json!(usual.large_segment_size));
    put("garbage_collection_threshold", json!(settings.garbage_collection_threshold), json!(0.0));
    put("expandable_segments", json!(settings.expandable_segments), json!(false));
    put("roundup_bypass_threshold", json!(settings.roundup_bypass_threshold), Value::Null);
    // The fixture has no row for a fraction of 1, which limits nothing.
    put("per_process_memory_fraction", json!(settings.per_process_memory_fraction.unwrap_or(1.0)), json!(1.0));
    put("release_lock_on_cudamalloc", json!(settings.release_lock_on_cudamalloc), json!(false));
    put("graph_capture_record_stream_reuse", json!(settings.graph_capture_record_stream_reuse), json!(false));
    put("throw_on_cudamalloc_oom", json!(settings.throw_on_cudamalloc_oom), json!(false));
    put("use_host_register", json!(host.use_host_register), json!(false));
    put("register_threads", json!(host.register_threads), json!(usual_host.register_threads));
    put("use_background_threads", json!(host.use_background_threads), json!(false));
    put("reserve_segment_mebibytes", json!(host.reserve_segment_mebibytes), json!(0));
    put("free_catch_all", json!(host.free_catch_all), json!(false));
    put("max_round_threshold", json!(host.max_round_threshold), Value::Null);
    put("max_cached_size", json!(host.max_cached_size), Value::Null);
    put("reserve_classes", json!(parsed.reserve_by_class.len()), json!(0));
    if settings.backend == Backend::CudaMallocAsync {
        row["backend"] = json!("cudaMallocAsync");
    }
    let table = settings.roundup_power2_divisions;
    if table.iter().all(|divisions| *divisions == table[0]) {
        if table[0] != 0 {
            row["roundup_power2_divisions"] = json!(table[0]);
        }
    } else {
        row["roundup_power2_divisions"] = json!(table);
    }
    match parsed.reserve {
        Some(Reserve::Fraction(value)) => row["reserve"] = json!({ "fraction": value }),
        Some(Reserve::Gibibytes(value)) => row["reserve"] = json!({ "gibibytes": value }),
        None => {}
    }
    row
}

/// Equal as numbers: the fixture writes 1.0 as 1, and 0.0 for -0.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y)),
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64().is_some() && x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

#[test]
fn every_released_parser_agrees() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/settings/parsers.jsonl");
    let fixture = std::fs::read_to_string(path).expect("the fixture");
    let (mut compared, mut undecided, mut wrong) = (0, 0, Vec::new());
    for line in fixture.lines() {
        let string: Value = serde_json::from_str(line).expect("a JSON line");
        let text = string["text"].as_str().expect("a string");
        let rows: Vec<(Release, Value)> = string["releases"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let mut row = row.clone();
                let from = row.as_object_mut().and_then(|fields| fields.remove("from")).expect("a release");
                (release(from.as_str().expect("a release")), row)
            })
            .collect();
        for name in RELEASES {
            let (_, theirs) = rows.iter().rfind(|(from, _)| *from <= release(name)).expect("a row");
            if theirs.get("undecided").is_some() {
                undecided += 1;
                continue;
            }
            compared += 1;
            let ours = outcome(text, release(name));
            // Up to 2.9 a missing `True` or `False` is reported as a wrong one.
            let boolean_is_missing = text.ends_with(':')
                && ours == json!({ "refused": "string_ends" })
                && *theirs == json!({ "refused": "boolean" });
            if !same(&ours, theirs) && !boolean_is_missing {
                wrong.push(format!("{name} {text:?}\n  theirs {theirs}\n  ours   {ours}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 4400 && undecided < 70, "{compared} compared, {undecided} undecided");
}
