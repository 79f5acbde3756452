//! `whyoom explain` on small recordings.

mod support;

use serde_json::Value;
use support::{Scratch, run, run_with, snapshot};
use whyoom::Exit;

fn json(args: &[&str], bytes: &[u8]) -> Value {
    let mut all = vec!["--json=compact"];
    all.extend(args);
    all.push("-");
    let ran = run_with(all, bytes);
    assert_eq!((ran.exit, ran.err.as_str()), (Exit::Fine, ""), "{args:?}");
    assert_eq!(ran.out.lines().count(), 1, "one object on one line");
    serde_json::from_str(&ran.out).expect("one JSON object")
}

#[test]
fn the_default_verb_is_explain() {
    let short = run_with(["-"], &snapshot(true));
    let long = run_with(["explain", "-"], &snapshot(true));
    assert_eq!((short.exit, &short.out), (long.exit, &long.out));
    assert_eq!(short.exit, Exit::Fine);
    assert!(short.out.starts_with("whyoom  standard input"), "{}", short.out);
}

#[test]
fn text_and_json_tell_the_same() {
    for (name, bytes) in [("oom", snapshot(true)), ("calm", snapshot(false))] {
        let text = run_with(["-"], &bytes).out;
        let device = &json(&[], &bytes)["devices"][0];
        let cause = device["findings"][0]["cause"].as_str().expect("a cause");
        assert!(text.to_lowercase().contains(&cause.replace('_', " ")), "{name}: {cause}\n{text}");
        let events = device["replay"]["events"].as_u64().expect("a number");
        assert!(text.contains(&format!("{events} events")), "{name}:\n{text}");
    }
}

#[test]
fn both_verbs_take_a_recording_alike() {
    for bytes in [snapshot(true), snapshot(false)] {
        // A release that the file can be of: another one is a question about another world to `replay`.
        let read = json(&[], &bytes);
        let first = read["inputs"][0]["torch"]["at_least"].as_str().expect("a release").to_owned();
        for args in [&[][..], &["--torch", &first]] {
            let explained = json(args, &bytes)["devices"][0].clone();
            let mut replay = vec!["replay", "--json=compact"];
            replay.extend(args);
            replay.push("-");
            let replayed: Value = serde_json::from_str(&run_with(replay, &bytes).out).expect("one JSON object");
            let replayed = &replayed["devices"][0];
            assert_eq!(explained["replay"]["model"], replayed["model"]);
            assert_eq!(explained["replay"]["matched"], replayed["matched"]);
            assert_eq!(explained["replay"]["final_state"], replayed["final_state"]);
            assert_eq!(explained["settings"]["string"], replayed["settings"]);
            assert_eq!(explained["steps"]["count"], replayed["steps"]);
            for peak in ["requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"] {
                assert_eq!(explained["peak"][peak], replayed["peak"][peak], "{peak}");
            }
            assert_eq!(explained["oom"]["malloc"], replayed["first_oom"]["malloc"]);
        }
    }
}

#[test]
fn the_limit_given_is_the_limit_taken() {
    let device = &json(&["--limit", "1GiB"], &snapshot(false))["devices"][0];
    assert_eq!((&device["limit"]["low_bytes"], &device["limit"]["source"]), (&(1 << 30).into(), &"argument".into()));
    let device = &json(&["--limit", "none"], &snapshot(true))["devices"][0];
    assert_eq!(device["limit"]["low_bytes"], Value::Null);
}

#[test]
fn fail_on_turns_a_finding_into_a_status() {
    let findings = json(&[], &snapshot(true))["devices"][0]["findings"].clone();
    for finding in findings.as_array().expect("an array") {
        let cause = finding["cause"].as_str().expect("a cause");
        let expected = if finding["confidence"] == "weak" { Exit::Fine } else { Exit::Found };
        let ran = run_with(["--fail-on", cause, "-"], &snapshot(true));
        assert_eq!(ran.exit, expected, "{cause}");
        assert!(ran.out.starts_with("whyoom"), "the answer is given all the same");
    }
    let names: Vec<&str> = findings.as_array().expect("an array").iter().filter_map(|f| f["cause"].as_str()).collect();
    let absent = ["spike", "outside"].into_iter().find(|c| !names.contains(c)).expect("one is absent");
    assert_eq!(run_with(["--fail-on", absent, "-"], &snapshot(true)).exit, Exit::Fine);
    assert_eq!(run_with(["--fail-on", "any", "-"], &snapshot(false)).exit, Exit::Fine);
}

#[test]
fn an_unreadable_file_weighs_more_than_a_finding() {
    let scratch = Scratch::new("fail-on");
    let good = scratch.file("good.pickle", &snapshot(true));
    let causes = "leak,fragmentation,capacity,limit,undetermined";
    let ran =
        run(["--fail-on".into(), causes.into(), good.into_os_string(), scratch.0.join("absent").into_os_string()]);
    assert_eq!(ran.exit, Exit::Unreadable);
    assert!(ran.out.contains("good.pickle"), "{}", ran.out);
}

#[test]
fn options_of_the_text() {
    let plain = run_with(["-"], &snapshot(true)).out;
    let verbose = run_with(["-v", "-"], &snapshot(true)).out;
    assert!(verbose.len() > plain.len() && verbose.contains("Figures"), "{verbose}");
    assert!(run_with(["--bytes", "-"], &snapshot(true)).out.contains("41,943,040 B"));
    assert!(run_with(["--ascii", "-v", "-"], &snapshot(true)).out.is_ascii());
    assert!(run_with(["--color", "always", "-"], &snapshot(true)).out.contains("\u{1b}["));
}

#[test]
fn several_files_are_explained_together_in_the_order_of_their_trouble() {
    let scratch = Scratch::new("several");
    let calm = scratch.file("run_rank0.pickle", &snapshot(false));
    let oom = scratch.file("run_rank1.pickle", &snapshot(true));
    let ran = run([calm.clone().into_os_string(), oom.clone().into_os_string()]);
    assert_eq!(ran.exit, Exit::Fine);
    assert!(ran.out.starts_with("whyoom  run_rank1.pickle"), "{}", ran.out);
    assert!(ran.out.contains("The others, worst first"), "{}", ran.out);
    let object: Value = serde_json::from_str(&run(["--json".into(), calm.into_os_string(), oom.into_os_string()]).out)
        .expect("one JSON object");
    let ranks: Vec<&Value> = object["devices"].as_array().expect("an array").iter().map(|d| &d["rank"]).collect();
    assert_eq!(ranks, [&Value::from(1), &Value::from(0)]);
    assert_eq!(object["inputs"].as_array().map(Vec::len), Some(2));
}

/// The text of a program whose 12th line is told apart.
fn program() -> String {
    (1..=20)
        .map(|i| if i == 12 { "    kept.append(model(x))  # line 12\n".into() } else { format!("pass  # {i}\n") })
        .collect()
}

#[test]
fn source_lines_are_shown_from_where_the_program_lies_now() {
    let scratch = Scratch::new("source");
    let folder = scratch.0.to_str().expect("a name in UTF-8").to_owned();
    let shows = |args: &[&str]| run_with(args.iter().copied().chain(["-"]), &snapshot(true)).out;
    assert!(!shows(&["--source", &folder]).contains("kept.append"), "there is no such file yet");
    // It was recorded as /home/me/train.py: an end of that path is looked for.
    std::fs::create_dir_all(scratch.0.join("me")).expect("a folder");
    scratch.file("me/train.py", program().as_bytes());
    let text = shows(&["--source", &folder]);
    assert!(text.contains("kept.append(model(x))  # line 12"), "{text}");
    assert!(!shows(&[]).contains("kept.append"), "the folder was not given");
    let other = Scratch::new("source-other");
    let elsewhere = other.0.to_str().expect("a name in UTF-8");
    assert!(shows(&["--source", elsewhere, "--source", &folder]).contains("kept.append"), "given again");
}

#[test]
fn source_lines_are_in_json_only_where_that_is_asked_for() {
    let scratch = Scratch::new("source-json");
    scratch.file("train.py", program().as_bytes());
    let folder = scratch.0.to_str().expect("a name in UTF-8");
    let of = |args: &[&str]| json(args, &snapshot(true))["devices"][0]["findings"][0]["culprits"][0].clone();
    let asked = of(&["--source", folder]);
    assert_eq!((&asked["line"], &asked["source"]), (&12.into(), &"kept.append(model(x))  # line 12".into()));
    assert_eq!(of(&[])["source"], Value::Null);
}
