//! `whyoom replay` on small recordings.

mod support;

use serde_json::Value;
use support::{Scratch, run, run_with, snapshot};
use whyoom::Exit;

fn json(args: &[&str], bytes: &[u8]) -> Value {
    let mut all = vec!["replay", "--json=compact"];
    all.extend(args);
    all.push("-");
    let ran = run_with(all, bytes);
    assert_eq!((ran.exit, ran.err.as_str()), (Exit::Fine, ""), "{args:?}");
    serde_json::from_str(&ran.out).expect("one JSON object")
}

#[test]
fn the_recorded_run_is_reproduced() {
    let object = json(&[], &snapshot(true));
    let device = &object["devices"][0];
    assert_eq!(device["mode"], "recorded");
    assert_eq!((&device["matched"], &device["events"]), (&3.into(), &3.into()));
    assert_eq!(device["final_state"]["equal"], true);
    assert_eq!((&device["oom"], &device["first_oom"]["malloc"]), (&true.into(), &1.into()));
    assert_eq!(device["limit_bytes"], Value::Null);
    insta::assert_snapshot!("recorded", run_with(["replay", "-"], &snapshot(true)).out);
    insta::assert_snapshot!("recorded_without_oom", run_with(["replay", "-"], &snapshot(false)).out);
}

#[test]
fn other_worlds_are_tried() {
    let more = json(&["--limit", "80MiB"], &snapshot(true));
    let device = &more["devices"][0];
    assert_eq!((&device["mode"], &device["oom"]), (&"counterfactual".into(), &false.into()));
    assert_eq!((&device["limit_bytes"], &device["hypothetical_from"]), (&(80 << 20).into(), &2.into()));
    assert_eq!(device["matched"], Value::Null);

    let none = json(&["--limit", "none"], &snapshot(true));
    assert_eq!((&none["devices"][0]["oom"], &none["devices"][0]["limit_bytes"]), (&false.into(), &Value::Null));

    let less = json(&["--limit", "20MiB", "--settings", "expandable_segments:True"], &snapshot(false));
    let device = &less["devices"][0];
    assert_eq!((&device["oom"], &device["recorded_first_oom"]), (&true.into(), &Value::Null));
    assert_eq!(device["settings"], "expandable_segments:True");
    insta::assert_snapshot!("counterfactual", run_with(["replay", "--limit", "80MiB", "-"], &snapshot(true)).out);
}

#[test]
fn without_a_limit_the_inferred_one_holds() {
    let object = json(&["--settings", ""], &snapshot(true));
    let device = &object["devices"][0];
    assert_eq!((&device["settings"], &device["limit_is_inferred"]), (&"".into(), &true.into()));
    assert_eq!(device["oom"], true);
}

#[test]
fn refused_settings_are_a_mistake_of_usage() {
    let ran = run_with(["replay", "--settings", "expandable_segments:maybe", "-"], &snapshot(true));
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Usage, ""));
    assert!(ran.err.contains("expandable_segments"), "{}", ran.err);
    // 20 is refused up to 2.9 and accepted from 2.10 on.
    let args = |torch| ["replay", "--settings", "max_split_size_mb:20", "--torch", torch, "-"];
    assert_eq!(run_with(args("2.9"), &snapshot(true)).exit, Exit::Usage);
    assert_eq!(run_with(args("2.11"), &snapshot(true)).exit, Exit::Fine);
}

#[test]
fn without_steps_there_is_no_call_to_inject_and_it_is_said() {
    let ran = run_with(["replay", "--empty-cache", "step", "-"], &snapshot(true));
    assert_eq!(ran.exit, Exit::Fine);
    let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("empty_cache() was never called"), "{}", ran.out);
}

#[test]
fn one_unreadable_file_does_not_lose_the_others() {
    let scratch = Scratch::new("replay-some");
    let good = scratch.file("good.pickle", &snapshot(true));
    let bad = scratch.file("bad.pickle", b"PK\x03\x04not a snapshot");
    for verb in ["explain", "replay"] {
        let ran = run([verb.into(), bad.clone().into_os_string(), good.clone().into_os_string()]);
        assert_eq!(ran.exit, Exit::Unreadable);
        assert!(ran.out.contains("good.pickle"), "{verb}: {}", ran.out);
        assert!(ran.err.contains("bad.pickle") && !ran.out.contains("bad.pickle"), "{verb}: said once: {}", ran.err);
        let ran = run([verb.into(), "--json".into(), bad.clone().into_os_string(), good.clone().into_os_string()]);
        let object: Value = serde_json::from_str(&ran.out).expect("one JSON object");
        let inputs = object["inputs"].as_array().expect("an array");
        let kinds: Vec<&str> = inputs.iter().filter_map(|i| i["kind"].as_str()).collect();
        assert_eq!(kinds, ["snapshot", "unreadable"], "{verb}: devices name inputs by index, so these come last");
        assert!(inputs[1]["error"].is_string() && inputs[0]["error"].is_null(), "{verb}");
        let codes: Vec<&str> =
            object["warnings"].as_array().expect("an array").iter().filter_map(|w| w["code"].as_str()).collect();
        assert!(codes.contains(&"unreadable_input"), "{verb}: {codes:?}");
    }
}
