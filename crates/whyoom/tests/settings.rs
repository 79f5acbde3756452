//! `whyoom settings` against the released parsers, row by row of `fixtures/settings/parsers.jsonl`, and against strings as
//! people paste them.

#![allow(clippy::print_stderr)]

mod support;

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Scratch, run, run_with};
use whyoom::Exit;

/// The releases whose parsers made the fixture; rows name only those at which a result changes.
const RELEASES: [&str; 17] = [
    "1.13.1", "2.0.1", "2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0",
    "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0",
];

fn number(release: &str) -> Vec<u32> {
    release.split('.').map(|part| part.parse().expect("a number")).collect()
}

fn ask(arguments: &[&str]) -> Value {
    let ran = run(["settings", "--json=compact"].iter().chain(arguments));
    assert_eq!(ran.err, "", "{arguments:?}");
    serde_json::from_str(&ran.out).expect("one JSON object")
}

/// A version of the answer in the fixture's words: what is not the default.
fn outcome(version: &Value) -> Value {
    if version["accepted"] == false {
        assert!(version["error"].is_string() && version["in_force"].is_null(), "{version}");
        let word = match version["error_code"].as_str().expect("a code") {
            "missing_value" | "unclosed_list" => "string_ends",
            "not_a_number" | "number_overflow" => "number",
            "out_of_range" => "range",
            "not_power_of_two" => "power_of_two",
            "not_boolean" => "boolean",
            "unknown_backend" => "backend",
            same => same,
        };
        return json!({ "refused": word });
    }
    let values = &version["in_force"];
    let mut row = json!({ "accepted": true });
    let mut put = |name: &str, value: &Value, usual: Value| {
        if *value != usual {
            row[name] = value.clone();
        }
    };
    for (name, usual) in [
        ("max_split_size", Value::Null),
        ("max_non_split_rounding", json!(20 << 20)),
        ("large_segment_size", json!(20 << 20)),
        ("garbage_collection_threshold", json!(0.0)),
        ("expandable_segments", json!(false)),
        ("roundup_bypass_threshold", Value::Null),
        ("release_lock_on_cudamalloc", json!(false)),
        ("graph_capture_record_stream_reuse", json!(false)),
        ("throw_on_cudamalloc_oom", json!(false)),
        ("backend", json!("native")),
    ] {
        put(name, &values[name], usual);
    }
    for (name, usual) in [
        ("use_host_register", json!(false)),
        ("register_threads", json!(1)),
        ("use_background_threads", json!(false)),
        ("reserve_segment_mebibytes", json!(0)),
        ("free_catch_all", json!(false)),
        ("max_round_threshold", Value::Null),
        ("max_cached_size", Value::Null),
    ] {
        put(name, &values["host"][name], usual);
    }
    put("reserve", &values["expandable_segments_reserve"], Value::Null);
    // A fraction of 1, which limits nothing, has no row.
    let fraction = values["per_process_memory_fraction"].as_f64().unwrap_or(1.0);
    put("per_process_memory_fraction", &json!(fraction), json!(1.0));
    let classes = values["expandable_segments_reserve_by_class"].as_object().map_or(0, serde_json::Map::len);
    put("reserve_classes", &json!(classes), json!(0));
    let table = values["roundup_power2_divisions"].as_array().expect("a table");
    let is_even = table.iter().all(|divisions| *divisions == table[0]);
    let divisions = if is_even { table[0].clone() } else { json!(table) };
    put("roundup_power2_divisions", &divisions, json!(0));
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
    let torch = RELEASES.join(",");
    let (mut compared, mut wrong) = (0, Vec::new());
    for line in fixture.lines() {
        let string: Value = serde_json::from_str(line).expect("a JSON line");
        let text = string["text"].as_str().expect("a string");
        let answer = ask(&["--raw", "--torch", &torch, "--", text]);
        assert_eq!((&answer["schema"], &answer["string"]), (&json!("whyoom.settings/1"), &json!(text)));
        let versions = answer["versions"].as_array().expect("versions");
        assert_eq!(versions.len(), RELEASES.len());
        for (name, version) in RELEASES.iter().zip(versions) {
            // The fixture names patch 0, which is not written.
            assert_eq!(version["torch"].as_str(), Some(name.trim_end_matches(".0")), "{text:?}");
            let rows = string["releases"].as_array().expect("rows");
            let from = |row: &&Value| number(row["from"].as_str().expect("a release")) <= number(name);
            let mut theirs = rows.iter().rfind(from).expect("a row").clone();
            theirs.as_object_mut().and_then(|fields| fields.remove("from"));
            if theirs.get("undecided").is_some() {
                continue;
            }
            compared += 1;
            let ours = outcome(version);
            // Up to 2.9 a missing `True` or `False` is reported as a wrong one.
            let boolean_is_missing = text.ends_with(':')
                && ours == json!({ "refused": "string_ends" })
                && theirs == json!({ "refused": "boolean" });
            if !same(&ours, &theirs) && !boolean_is_missing {
                wrong.push(format!("{name} {text:?}\n  theirs {theirs}\n  ours   {ours}"));
            }
        }
        // What is offered instead is accepted where it is said to be.
        if let Some(corrected) = answer["corrected"]["string"].as_str() {
            let again = ask(&["--raw", "--torch", &torch, "--", corrected]);
            let accepting = again["versions"].as_array().expect("versions").iter().filter(|v| v["accepted"] == true);
            assert!(accepting.count() > 0, "{text:?} -> {corrected:?}");
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 4400, "{compared}");
}

#[test]
fn every_case_of_the_corpus_agrees() {
    let Some(corpus) = std::env::var_os("WHYOOM_CORPUS") else {
        eprintln!("skipped: WHYOOM_CORPUS is not set");
        return;
    };
    let cases = std::fs::read_to_string(Path::new(&corpus).join("cases/settings.jsonl")).expect("the cases");
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).expect("a JSON line");
        let text = case["value"].as_str().expect("a string");
        let answer = ask(&["--raw", "--torch", &RELEASES.join(","), "--", text]);
        for (name, version) in RELEASES.iter().zip(answer["versions"].as_array().expect("versions")) {
            // Not among the releases that made the cases, which name the next one that was.
            if *name == "2.12.1" {
                continue;
            }
            let rows = case["behaviour"].as_array().expect("rows");
            let from = |row: &&Value| number(row["from"].as_str().expect("a release")) <= number(name);
            let result = rows.iter().rfind(from).expect("a row")["result"].as_str().expect("a result");
            assert_eq!(version["accepted"], !result.starts_with("RAISES"), "{name} {text:?}: {result}");
        }
    }
}

fn codes(answer: &Value) -> Vec<&str> {
    answer["findings"].as_array().expect("findings").iter().filter_map(|finding| finding["code"].as_str()).collect()
}

/// The releases that accept, as the fixture's neighbours of a change.
fn accepted(answer: &Value, torch: &str) -> bool {
    let versions = answer["versions"].as_array().expect("versions");
    versions.iter().find(|v| v["torch"] == torch).expect("a version")["accepted"] == true
}

/// What people reported, with what a right answer says and what it must not offer.
#[test]
fn reported_strings_get_the_right_answer() {
    let answer = ask(&["expandable_segments=True"]);
    assert!(accepted(&answer, "1.13") && !accepted(&answer, "2.0") && !accepted(&answer, "2.15"));
    assert!(codes(&answer).contains(&"item_ignored"), "{answer}");
    assert_eq!(answer["corrected"]["line"], "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");

    let answer = ask(&["max_split_size_mb:20"]);
    assert!(!accepted(&answer, "2.9") && accepted(&answer, "2.10"));
    assert_eq!(answer["corrected"]["string"], "max_split_size_mb:21");

    let answer = ask(&["max_split_size_mb:512MB"]);
    assert!(answer["versions"].as_array().expect("versions").iter().all(|v| v["accepted"] == true));
    assert_eq!(answer["versions"][9]["in_force"]["max_split_size"], 512 << 20);
    assert_eq!(codes(&answer), ["number_tail"]);

    let answer = ask(&["garbage_collection_threshold:80,max_split_size_mb:128"]);
    assert!(answer["versions"].as_array().expect("versions").iter().all(|v| v["accepted"] == false));
    assert_eq!(answer["corrected"]["string"], "garbage_collection_threshold:0.8,max_split_size_mb:128");

    let answer = ask(&["expandable_segments:true"]);
    assert_eq!(answer["corrected"]["string"], "expandable_segments:True");

    let answer = ask(&["backend:cudaMallocAsync,max_split_size_mb:128,expandable_segments:True"]);
    assert!(codes(&answer).contains(&"ignored_by_backend"), "{answer}");
    assert_eq!(answer["corrected"]["string"], "backend:cudaMallocAsync");

    // On Windows the key does nothing: it must not be offered again.
    let answer = ask(&["set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]);
    assert!(codes(&answer).contains(&"no_effect") && answer["corrected"].is_null(), "{answer}");

    // Not a matter of memory.
    let text = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\nFailed: Cuda error \
                /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'\n";
    let ran = run_with(["settings", "--json", "--torch", "2.11", "-"], text.as_bytes());
    assert!(ran.out.contains("--disable-custom-all-reduce") && !ran.out.contains("batch"), "{}", ran.out);
}

#[test]
fn one_text_can_hold_several_verdicts() {
    let text = "ENV PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:512'\nenvironment:\n  - \
                PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"\n";
    let scratch = Scratch::new("settings-several");
    let file = scratch.file("Dockerfile", text.as_bytes());
    let ran = run(["settings".into(), "--json".into(), "--file".into(), file.into_os_string()]);
    let answer: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!((&answer["string"], &answer["form"]), (&json!("max_split_size_mb:512"), &json!("dockerfile")));
    assert!(accepted(&answer, "1.13") && answer["corrected"].is_null());
    let other = &answer["others"][0];
    assert!(!accepted(other, "2.15") && codes(other).contains(&"quotes_kept"), "{other}");
    assert_eq!(
        (&other["line"], &other["corrected"]["line"]),
        (&json!(3), &json!("- PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"))
    );
}

#[test]
fn newlines_and_blanks_differ() {
    let answer = ask(&["--", "expandable_segments:True\n"]);
    assert!(!accepted(&answer, "2.9") && accepted(&answer, "2.10"));
    let answer = ask(&["--", " expandable_segments:True "]);
    assert!(accepted(&answer, "2.1") && accepted(&answer, "2.9"));
    let ran = run_with(["settings", "-"], b"expandable_segments:True\n# note: the value ends with a newline\n");
    assert!(ran.out.contains("torch 2.1 to 2.9: the newline behind the text"), "{}", ran.out);
}

#[test]
fn the_name_of_the_variable_counts() {
    let answer = ask(&["export PYTORCH_ALLOC_CONF=expandable_segments:True"]);
    let read = |torch: &str| {
        let versions = answer["versions"].as_array().expect("versions");
        let version = versions.iter().find(|v| v["torch"] == torch).expect("a version");
        (version["read"].as_bool(), version["in_force"]["expandable_segments"].as_bool())
    };
    assert_eq!((read("2.9"), read("2.10")), ((Some(false), Some(false)), (Some(true), Some(true))));
    assert_eq!(answer["corrected"]["line"], "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

#[test]
fn what_a_shell_cuts_off_is_put_back() {
    let answer = ask(&["export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True;max_split_size_mb:128"]);
    assert_eq!(answer["string"], "expandable_segments:True");
    assert!(codes(&answer).contains(&"cut_off"), "{answer}");
    let line = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128";
    assert_eq!(answer["corrected"]["line"], line);
}

#[test]
fn check_fails_for_what_is_refused_or_ignored() {
    for (torch, text, exit) in [
        ("2.11", "expandable_segments:True", Exit::Fine),
        ("2.0,2.11", "expandable_segments:True", Exit::Found),
        ("1.13", "max_split_size_mb=128", Exit::Found),
        ("2.9", "PYTORCH_ALLOC_CONF=max_split_size_mb:128", Exit::Found),
        ("2.9", "", Exit::Fine),
    ] {
        assert_eq!(run(["settings", "--check", "--torch", torch, "--", text]).exit, exit, "{torch} {text}");
        assert_eq!(run(["settings", "--torch", torch, "--", text]).exit, Exit::Fine, "{torch} {text}");
    }
}

#[test]
fn bad_input_is_said_clearly() {
    let ran = run_with(["settings", "-"], b"import torch\nx = 1\n");
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("nothing in the text sets PYTORCH_CUDA_ALLOC_CONF"), "{}", ran.err);
    let ran = run(["settings", "--file", "no-such-file"]);
    assert_eq!(ran.exit, Exit::Unreadable);
    assert!(ran.err.contains("no-such-file"), "{}", ran.err);
    assert_eq!(run(["settings", "--env", "x"]).exit, Exit::Usage);
    assert_eq!(run(["settings", "--torch", "3.0", "x"]).exit, Exit::Usage);
    for bytes in [vec![b'x'; (1 << 20) + 1], vec![0xff, 0xfe, 0]] {
        assert!(!run_with(["settings", "--raw", "-"], &bytes).out.contains('\0'));
    }
}

#[test]
fn text_groups_releases_and_keeps_to_its_width() {
    let ran = run(["settings", "--", "max_split_size_mb:20"]);
    assert!(ran.out.contains("2.10 to 2.15  accepted") && ran.out.contains("1.13 to 2.9   refused"), "{}", ran.out);
    for text in ["a:[", "roundup_power2_divisions:[1:2,>:8]", &"x".repeat(5000), "\u{1b}[31m:\u{202e}"] {
        let ran = run(["settings", "--", text]);
        assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}']));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is pasted, there is an answer, and what it offers is accepted where it says so.
    #[test]
    fn anything_gets_an_answer(
        text in "(export |- |set |\\$env:|os.environ\\[\"|# )?(PYTORCH_(CUDA_)?ALLOC_CONF)?(\"\\] ?)?[=: ]{0,2}\
                 ([\"'|>\\[\\]:=,; \\n\u{e9}\\\\.-]|max_split_size_mb|expandable_segments|roundup_power2_divisions|backend|\
                 garbage_collection_threshold|True|cudaMallocAsync|[0-9]{1,25}|G|%){0,14}"
    ) {
        let ran = run_with(["settings", "--json", "--", &text], b"");
        prop_assume!(text != "-");
        let answer: Value = serde_json::from_str(&ran.out).expect("one JSON object");
        let others = answer["others"].as_array().expect("others");
        for one in std::iter::once(&answer).chain(others) {
            if let Some(string) = one["corrected"]["string"].as_str() {
                let again = ask(&["--raw", "--", string]);
                let versions = again["versions"].as_array().expect("versions");
                prop_assert!(versions.iter().any(|v| v["accepted"] == true), "{text:?} -> {string:?}");
                prop_assert!(again["corrected"].is_null() || again["corrected"]["string"] != string, "{string:?}");
            }
        }
        let text_form = run(["settings", "--ascii", "--", &text]);
        prop_assert_eq!(text_form.exit, Exit::Fine);
    }
}
