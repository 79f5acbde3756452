//! The JSON against the contract: every key it names is there, and the bytes are stable.

mod common;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use whyoom_report::{Layout, write_json};

/// Every key path `whyoom.explain/1` promises; `[]` is any element.
const EXPLAIN: &[&str] = &[
    "schema",
    "inputs[].path",
    "inputs[].kind",
    "inputs[].size_bytes",
    "inputs[].torch.at_least",
    "inputs[].torch.below",
    "inputs[].torch.because",
    "warnings[].code",
    "warnings[].count",
    "warnings[].message",
    "readings[].input",
    "readings[].kind",
    "readings[].facts",
    "devices[].input",
    "devices[].device",
    "devices[].rank",
    "devices[].settings.string",
    "devices[].settings.in_force",
    "devices[].replay.status",
    "devices[].replay.events",
    "devices[].replay.matched",
    "devices[].replay.first_divergence.event",
    "devices[].replay.first_divergence.recorded",
    "devices[].replay.first_divergence.simulated",
    "devices[].replay.first_divergence.likely_reason",
    "devices[].replay.final_state.equal",
    "devices[].replay.final_state.differing_blocks",
    "devices[].replay.model",
    "devices[].limit.low_bytes",
    "devices[].limit.high_bytes",
    "devices[].limit.source",
    "devices[].steps.count",
    "devices[].steps.source",
    "devices[].peak.requested_bytes",
    "devices[].peak.allocated_bytes",
    "devices[].peak.active_bytes",
    "devices[].peak.reserved_bytes",
    "devices[].peak.event",
    "devices[].oom.event",
    "devices[].oom.malloc",
    "devices[].oom.step",
    "devices[].oom.request_bytes",
    "devices[].oom.reserved_bytes",
    "devices[].oom.live_bytes",
    "devices[].oom.largest_free_block_bytes",
    "devices[].oom.free_in_pool_bytes",
    "devices[].oom.free_blocks",
    "devices[].bound.compact_bytes",
    "devices[].bound.bytes_to_free",
    "devices[].bound.fits_from_bytes_default",
    "devices[].bound.fits_from_bytes_best",
    "devices[].categories.peak[].category",
    "devices[].categories.peak[].bytes",
    "devices[].categories.oom[].category",
    "devices[].categories.oom[].bytes",
    "devices[].categories.end[].category",
    "devices[].categories.end[].bytes",
    "devices[].findings[].cause",
    "devices[].findings[].subcause",
    "devices[].findings[].confidence",
    "devices[].findings[].summary",
    "devices[].findings[].bytes_explained",
    "devices[].findings[].evidence[].statement",
    "devices[].findings[].evidence[].value",
    "devices[].findings[].evidence[].unit",
    "devices[].findings[].evidence[].events",
    "devices[].findings[].growth.bytes_per_step",
    "devices[].findings[].growth.first_step",
    "devices[].findings[].growth.last_step",
    "devices[].findings[].growth.dies_again_in_steps",
    "devices[].findings[].culprits[].function",
    "devices[].findings[].culprits[].file",
    "devices[].findings[].culprits[].line",
    "devices[].findings[].culprits[].bytes",
    "devices[].findings[].culprits[].count",
    "devices[].findings[].culprits[].in_module_forward",
    "devices[].findings[].culprits[].stack",
    "devices[].remedies[].id",
    "devices[].remedies[].kind",
    "devices[].remedies[].apply",
    "devices[].remedies[].outcome",
    "devices[].remedies[].scope",
    "devices[].remedies[].basis",
    "devices[].remedies[].peak_reserved_bytes",
    "devices[].remedies[].peak_reserved_range",
    "devices[].remedies[].tie_sensitive",
    "devices[].remedies[].headroom_bytes",
    "devices[].remedies[].first_failure.event",
    "devices[].remedies[].first_failure.malloc",
    "devices[].remedies[].first_failure.step",
    "devices[].remedies[].retries",
    "devices[].remedies[].driver_allocations",
    "devices[].remedies[].driver_frees",
    "devices[].remedies[].maps",
    "devices[].remedies[].unmaps",
    "devices[].remedies[].synchronisations",
    "devices[].remedies[].note",
];

/// Every key path `whyoom.replay/1` promises.
const REPLAY: &[&str] = &[
    "schema",
    "devices[].input",
    "devices[].device",
    "devices[].mode",
    "devices[].settings",
    "devices[].limit_bytes",
    "devices[].model",
    "devices[].events",
    "devices[].matched",
    "devices[].first_divergence.event",
    "devices[].first_divergence.recorded",
    "devices[].first_divergence.simulated",
    "devices[].first_divergence.likely_reason",
    "devices[].final_state.equal",
    "devices[].final_state.differing_blocks",
    "devices[].oom",
    "devices[].first_oom.event",
    "devices[].first_oom.malloc",
    "devices[].first_oom.step",
    "devices[].first_oom.request_bytes",
    "devices[].recorded_first_oom.event",
    "devices[].recorded_first_oom.malloc",
    "devices[].peak.requested_bytes",
    "devices[].peak.allocated_bytes",
    "devices[].peak.active_bytes",
    "devices[].peak.reserved_bytes",
    "devices[].peak_reserved_range",
    "devices[].tie_sensitive",
    "devices[].timing_sensitive",
    "devices[].end.allocated_bytes",
    "devices[].end.reserved_bytes",
    "devices[].end.segments",
    "devices[].retries",
    "devices[].ooms",
    "devices[].driver_allocations",
    "devices[].driver_frees",
    "devices[].maps",
    "devices[].unmaps",
    "devices[].synchronisations",
    "devices[].steps",
    "devices[].hypothetical_from",
];

fn json<T: Serialize>(value: &T, layout: Layout) -> String {
    let mut out = Vec::new();
    write_json(value, layout, &mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn paths(value: &Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                out.insert(path.clone());
                paths(inner, &path, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|i| paths(i, &format!("{at}[]"), out)),
        _ => {}
    }
}

fn missing(required: &[&str], objects: &[String]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for object in objects {
        paths(&serde_json::from_str(object).expect("one JSON object"), "", &mut found);
    }
    required.iter().filter(|p| !found.contains(**p)).map(|p| (*p).to_owned()).collect()
}

#[test]
fn explain_has_every_key_of_the_contract() {
    let mut objects: Vec<_> = common::all().into_iter().map(|(_, e)| e).collect();
    objects[0].readings.push(whyoom_diagnosis::explanation::Reading {
        input: 0,
        kind: "oom_message",
        line: 1,
        rank: None,
        occurrences: 1,
        facts: serde_json::json!({"backend": "cuda"}),
    });
    objects[0].devices[0].categories.end =
        vec![whyoom_diagnosis::explanation::CategoryBytes { category: "other", bytes: 1 }];
    let objects: Vec<String> = objects.iter().map(|e| json(e, Layout::Pretty)).collect();
    assert_eq!(missing(EXPLAIN, &objects), Vec::<String>::new());
}

#[test]
fn replay_has_every_key_of_the_contract() {
    let objects: Vec<String> = common::replays().iter().map(|(_, r)| json(r, Layout::Pretty)).collect();
    assert_eq!(missing(REPLAY, &objects), Vec::<String>::new());
}

/// Absent facts are `null`, never absent keys: a reader may index without asking first.
#[test]
fn keys_do_not_depend_on_the_result() {
    for (name, e) in common::all() {
        let object: Value = serde_json::from_str(&json(&e, Layout::Compact)).expect("one JSON object");
        for device in object["devices"].as_array().expect("an array") {
            let mut found = BTreeSet::new();
            paths(device, "devices[]", &mut found);
            for key in [
                "rank",
                "oom",
                "replay.first_divergence",
                "replay.final_state",
                "limit.low_bytes",
                "peak.event",
                "categories.oom",
            ] {
                assert!(found.contains(&format!("devices[].{key}")), "{name}: {key}");
            }
        }
    }
}

#[test]
fn names_in_the_contract_are_spelt_as_there() {
    let object: Value = serde_json::from_str(&json(&common::story_two(), Layout::Compact)).expect("one JSON object");
    assert_eq!(object["schema"], "whyoom.explain/1");
    let device = &object["devices"][0];
    assert_eq!(device["replay"]["status"], "exact");
    assert_eq!(device["findings"][0]["cause"], "fragmentation");
    assert_eq!(device["findings"][0]["confidence"], "proven");
    let outcomes: Vec<&str> =
        device["remedies"].as_array().expect("an array").iter().filter_map(|r| r["outcome"].as_str()).collect();
    for outcome in ["passes", "fails", "no_change", "worse"] {
        assert!(outcomes.contains(&outcome), "{outcome}");
    }
    assert_eq!(device["remedies"][0]["peak_reserved_range"].as_array().map(Vec::len), Some(2));
    let (_, replay) = &common::replays()[3];
    let object: Value = serde_json::from_str(&json(replay, Layout::Compact)).expect("one JSON object");
    assert_eq!(
        (object["schema"].as_str(), object["devices"][0]["mode"].as_str()),
        (Some("whyoom.replay/1"), Some("counterfactual"))
    );
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    for layout in [Layout::Pretty, Layout::Compact] {
        for (_, e) in common::all() {
            let first = json(&e, layout);
            assert_eq!(first, json(&e.clone(), layout));
            assert!(first.ends_with("}\n") && !first.ends_with("\n\n"));
            assert!(layout == Layout::Pretty || first.lines().count() == 1);
        }
    }
}

#[test]
fn whole_numbers_stay_whole() {
    let out = json(&common::story_two(), Layout::Compact);
    assert!(out.contains("\"peak_reserved_bytes\":8224862371"), "sizes are integers, exact to the byte");
}
