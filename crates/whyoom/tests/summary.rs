//! `whyoom summary` against `torch.cuda.memory_summary()` as the recorded programs printed it: those in `fixtures/`, and
//! a wider corpus where `WHYOOM_CORPUS` names a directory that holds `recordings/`.

#![allow(clippy::print_stderr)]

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Scratch, run, snapshot};
use whyoom::Exit;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings")
}

/// Recordings with a summary beside them, without those that kept only the end of their trace.
fn recordings(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut all: Vec<(PathBuf, String)> = std::fs::read_dir(dir)
        .expect("recordings are readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| {
            let name = path.to_str()?.strip_suffix(".summary.txt")?;
            let pickle = PathBuf::from(format!("{name}.pickle.xz"));
            let whole = pickle.exists() && !name.contains(".ring");
            whole.then(|| (pickle, std::fs::read_to_string(&path).expect("a summary is readable")))
        })
        .collect();
    all.sort();
    all
}

fn agree(dir: &Path) -> usize {
    let all = recordings(dir);
    for (path, expected) in &all {
        let ran = run(["summary".into(), path.clone().into_os_string()]);
        assert_eq!((ran.exit, ran.err.as_str()), (Exit::Fine, ""));
        let lines = ran.out.lines().zip(expected.lines());
        let differing: Vec<_> = lines.filter(|(ours, theirs)| ours != theirs).collect();
        assert!(ran.out == *expected, "{}: {differing:#?}", path.display());
    }
    all.len()
}

#[test]
fn every_included_recording_has_its_summary_at_the_end() {
    assert!(agree(&fixtures()) >= 19);
}

#[test]
fn every_recording_of_the_corpus_has_its_summary_at_the_end() {
    let Some(corpus) = std::env::var_os("WHYOOM_CORPUS") else {
        eprintln!("skipped: WHYOOM_CORPUS is not set");
        return;
    };
    let dir = Path::new(&corpus).join("recordings");
    assert!(agree(&dir) >= 70);
    // The flat keys, too. A call of `empty_cache()` that releases nothing is in no trace.
    for (path, _) in recordings(&dir) {
        let name = path.to_str().and_then(|p| p.strip_suffix(".pickle.xz")).expect("the name of a recording");
        let facts = std::fs::read_to_string(format!("{name}.json")).expect("facts are readable");
        let facts: Value = serde_json::from_str(&facts).expect("one JSON object");
        let ran = run(["summary".into(), "--json".into(), path.clone().into_os_string()]);
        let object: Value = serde_json::from_str(&ran.out).expect("one JSON object");
        let (ours, theirs) = (&object["devices"][0]["stats"], facts["stats"].as_object().expect("statistics"));
        for (key, value) in theirs.iter().filter(|(key, _)| *key != "num_sync_all_streams") {
            assert_eq!(&ours[key], value, "{name} {key}");
        }
        assert_eq!(ours.as_object().map(serde_json::Map::len), Some(theirs.len()), "{name}");
    }
}

fn json(args: &[&str], path: &Path) -> Value {
    let args = ["summary", "--json"].iter().chain(args).map(Into::into).chain([path.as_os_str().to_owned()]);
    serde_json::from_str(&run(args).out).expect("one JSON object")
}

#[test]
fn any_moment_can_be_asked_for() {
    let path = fixtures().join("bptt_hidden.cap.pickle.xz");
    let figure = |object: &Value, key: &str| object["devices"][0]["stats"][key].as_i64().expect("a figure");
    let (end, oom, peak) = (json(&[], &path), json(&["--at", "oom"], &path), json(&["--at", "peak"], &path));
    assert_eq!((figure(&end, "num_ooms"), figure(&oom, "num_ooms")), (1, 1));
    assert!(figure(&end, "allocated_bytes.all.current") < figure(&oom, "allocated_bytes.all.current"));
    assert_eq!(figure(&peak, "allocated_bytes.all.current"), figure(&end, "allocated_bytes.all.peak"));
    let at = peak["devices"][0]["at"].to_string();
    assert_eq!(json(&["--at", &at], &path)["devices"], peak["devices"]);
    // Explanations name the same moments.
    let explained = run(["explain".into(), "--json".into(), path.into_os_string()]);
    let explained: Value = serde_json::from_str(&explained.out).expect("one JSON object");
    assert_eq!(explained["devices"][0]["peak"]["event"].to_string(), at);
    assert_eq!(explained["devices"][0]["oom"]["event"], oom["devices"][0]["at"]);
    assert_eq!(explained["devices"][0]["oom"]["live_bytes"], figure(&oom, "allocated_bytes.all.current"));
    assert_eq!(explained["devices"][0]["oom"]["reserved_bytes"], figure(&oom, "reserved_bytes.all.current"));
}

#[test]
fn a_moment_that_is_not_there_is_a_mistake() {
    let scratch = Scratch::new("summary-moment");
    let path = scratch.file("a.pickle", &snapshot(false)).into_os_string();
    for (at, said) in [("oom", "no request failed"), ("4", "the last one is 3"), ("noon", "is no moment")] {
        let ran = run(["summary".into(), "--at".into(), at.into(), path.clone()]);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Usage, ""), "{at}");
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn a_trace_without_beginning_says_so() {
    let ran = run(["summary".into(), fixtures().join("kv.ring5k.pickle.xz").into_os_string()]);
    assert_eq!(ran.exit, Exit::Fine);
    assert!(ran.out.contains("The trace has no beginning"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn the_gaps_are_explained() {
    let path = fixtures().join("frag.cap1.default.pickle.xz");
    let ran = run(["summary".into(), "--explain".into(), "--at".into(), "oom".into(), path.clone().into_os_string()]);
    for said in ["requested → allocated", "cannot give them back", "reserved → limit"] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    let object = json(&[], &path);
    assert_eq!((&object["schema"], &object["devices"][0]["layout"]), (&"whyoom.summary/1".into(), &"2.0".into()));
    assert_eq!(object["devices"][0]["gaps"].as_array().map(Vec::len), Some(4));
}

#[test]
fn the_layout_of_1_13_has_its_units() {
    let path = fixtures().join("frag.default.pickle.xz").into_os_string();
    let ran = run(["summary".into(), "--torch".into(), "1.13".into(), path]);
    assert!(ran.out.contains(" MB |") && !ran.out.contains("MiB"), "{}", ran.out);
    assert!(!ran.out.contains("Requested memory"), "{}", ran.out);
}
