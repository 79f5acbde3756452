//! The text of hand-built results, compared with golden files and held to the rules of the face.

mod common;

use proptest::prelude::any;
use unicode_width::UnicodeWidthStr;
use whyoom_diagnosis::explanation::Explanation;
use whyoom_report::{Numbers, TextOptions, WIDTH, write_explanation, write_replay};

fn text(e: &Explanation, options: TextOptions) -> String {
    let mut out = Vec::new();
    write_explanation(e, options, &mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("text is UTF-8")
}

const VERBOSE: TextOptions =
    TextOptions { verbose: true, numbers: Numbers { exact_bytes: false }, colour: false, ascii: false };

fn variants() -> Vec<TextOptions> {
    let mut all = Vec::new();
    for verbose in [false, true] {
        for exact_bytes in [false, true] {
            for ascii in [false, true] {
                all.push(TextOptions { verbose, numbers: Numbers { exact_bytes }, colour: false, ascii });
            }
        }
    }
    all
}

/// Lines to be pasted are never broken; all others keep to the width.
fn is_pasted(line: &str) -> bool {
    line.starts_with("Use it:") || line.starts_with("  PYTORCH_CUDA_ALLOC_CONF=")
}

#[test]
fn golden() {
    for (name, e) in common::all() {
        insta::assert_snapshot!(name, text(&e, TextOptions::default()));
    }
    insta::assert_snapshot!("story_two_verbose", text(&common::story_two(), VERBOSE));
    insta::assert_snapshot!("leak_verbose", text(&common::leak(), VERBOSE));
    insta::assert_snapshot!(
        "story_two_bytes",
        text(&common::story_two(), TextOptions { numbers: Numbers { exact_bytes: true }, ..TextOptions::default() })
    );
    insta::assert_snapshot!(
        "story_two_ascii",
        text(&common::story_two(), TextOptions { ascii: true, ..TextOptions::default() })
    );
}

#[test]
fn every_line_fits_80_columns() {
    let mut all = common::all();
    all.push(("hostile", common::hostile()));
    for (name, e) in all {
        for options in variants() {
            for line in text(&e, options).lines() {
                assert!(
                    is_pasted(line) || line.width() <= WIDTH,
                    "{name} {options:?}: {} columns: {line}",
                    line.width()
                );
                assert_eq!(line.trim_end(), line, "{name}: trailing blanks");
            }
        }
    }
}

#[test]
fn the_short_form_is_about_40_lines() {
    for (name, e) in common::all() {
        let lines = text(&e, TextOptions::default()).lines().count();
        assert!(lines <= 42, "{name}: {lines} lines");
    }
}

#[test]
fn much_to_say_is_still_one_page() {
    use whyoom_diagnosis::explanation::{CategoryBytes, Cause, Confidence, RemedyOutcome};
    let mut e = common::leak();
    let device = &mut e.devices[0];
    let long = "It fits; the layout does not. ".repeat(8);
    device.findings.push(common::finding(Cause::Fragmentation, None, Confidence::Proven, &long));
    device.findings.push(common::finding(Cause::Limit, None, Confidence::Proven, &long));
    for i in 0..12 {
        let mut more = common::fails(&format!("key_{i}:1"), RemedyOutcome::Fails, 19_001 + i, 178);
        more.first_failure.as_mut().expect("a failure").step = Some(200 + i);
        device.remedies.push(more);
    }
    let kinds = ["activations", "temporary", "optimizer_state", "gradients", "parameters", "inputs", "workspace"];
    device.categories.oom = Some(kinds.map(|category| CategoryBytes { category, bytes: common::GIB }).into());
    assert!(text(&e, VERBOSE).lines().count() > 80);
    let out = text(&e, TextOptions::default());
    assert!(out.lines().count() <= 42, "{} lines:\n{out}", out.lines().count());
    assert!(out.contains("Do this:") && out.contains("More:"), "{out}");
}

#[test]
fn every_failure_ends_in_what_to_do() {
    use whyoom_diagnosis::explanation::{CategoryBytes, Cause, Confidence, Remedy};
    let limit = 9 * common::GIB;
    for cause in [
        Cause::Fragmentation,
        Cause::Capacity,
        Cause::Spike,
        Cause::Outside,
        Cause::Limit,
        Cause::Settings,
        Cause::PendingFree,
        Cause::PrivatePool,
    ] {
        let mut e = common::story_two();
        let device = &mut e.devices[0];
        device.findings = vec![common::finding(cause, None, Confidence::Proven, "A request failed.")];
        device.remedies.retain(|r| r.first_failure.is_some());
        device.remedies.push(Remedy {
            id: "workload/batch/0.5".into(),
            kind: "workload",
            ..common::passes("half the batch", common::gib(500), limit)
        });
        let out = text(&e, TextOptions::default());
        let advice = out.split_once("Do this:").unwrap_or_else(|| panic!("{cause:?}:\n{out}")).1;
        let words = advice.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("half the batch passes, as tried"), "{words}");
    }
    let mut e = common::capacity();
    let of = |category, bytes| CategoryBytes { category, bytes };
    let at = vec![of("parameters", common::gib(300)), of("activations", common::gib(50))];
    e.devices[0].categories.oom = Some(at);
    let out = text(&e, TextOptions::default());
    assert!(out.contains("sharded or quantised model"), "{out}");
}

#[test]
fn what_a_leak_outlives_is_a_delay() {
    let out = text(&common::leak(), TextOptions::default());
    assert!(row(&out, "~ expandable_segments:True").contains("a delay, peak 23.7 GiB"), "{out}");
    assert!(out.contains("✓ without what"), "what mends it is none: {out}");
    let mut e = common::leak();
    e.devices[0].findings[0].growth.as_mut().expect("growth").dies_again_in_steps = None;
    let out = text(&e, TextOptions::default());
    assert!(out.contains("✓ expandable_segments:True"), "a line that no longer runs: {out}");
}

#[test]
fn where_it_went_names_the_leak() {
    use whyoom_diagnosis::explanation::CategoryBytes;
    let mut e = common::leak();
    e.devices[0].categories.oom = Some(vec![CategoryBytes { category: "activations", bytes: common::gib(2350) }]);
    e.devices[0].findings[0].bytes_explained = common::gib(2340);
    let out = text(&e, TextOptions::default());
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Where 23.5 GiB went accumulated at scenarios.py:132 23.4 GiB; by kind: activations 23.5 GiB"),
        "{out}"
    );
}

#[test]
fn a_range_around_the_recorded_peak_is_not_worse() {
    use whyoom_diagnosis::explanation::{Remedy, RemedyOutcome};
    let mut e = common::no_oom_fragmentation();
    let recorded = e.devices[0].peak.reserved_bytes;
    let tried = |low: u64, high: u64| Remedy {
        scope: "whole_run",
        peak_reserved_bytes: Some(high),
        peak_reserved_range: Some((low, high)),
        ..common::remedy("roundup_power2_divisions:2", RemedyOutcome::Worse)
    };
    e.devices[0].remedies = vec![tried(recorded / 2, recorded * 2)];
    let out = row(&text(&e, TextOptions::default()), "roundup_power2_divisions:2");
    assert!(out.starts_with('~') && out.contains("more or less than") && !out.contains("worse"), "{out}");
    e.devices[0].remedies = vec![tried(recorded + common::GIB, recorded * 2)];
    let out = row(&text(&e, TextOptions::default()), "roundup_power2_divisions:2");
    assert!(out.contains("worse"), "{out}");
}

#[test]
fn a_larger_limit_is_counted_once() {
    use whyoom_diagnosis::explanation::Remedy;
    let mut e = common::story_two();
    let before = text(&e, TextOptions::default());
    let larger = common::passes("a limit of 9.50 GiB", common::gib(950), 10 * common::GIB);
    e.devices[0].remedies.push(Remedy { id: "environment/limit".into(), kind: "environment", ..larger });
    assert_eq!(text(&e, TextOptions::default()), before, "the line `Fits` says it");
}

#[test]
fn figures_that_read_the_same_are_said_once() {
    let mut e = common::story_two();
    e.devices[0].bound.fits_from_bytes_default = Some(common::gib(360));
    e.devices[0].bound.fits_from_bytes_best = Some(common::gib(360) - 1);
    let out = text(&e, TextOptions::default());
    assert!(out.contains("from 3.60 GiB with default settings\n"), "{out}");
}

#[test]
fn a_rough_limit_is_asked_for() {
    let asks = |e: &Explanation| text(e, TextOptions::default()).contains("give it with --limit N");
    let mut e = common::story_two();
    assert!(!asks(&e));
    e.devices[0].limit.high_bytes = Some(common::gib(905));
    assert!(!asks(&e), "half a percent decides little");
    e.devices[0].limit.high_bytes = Some(common::gib(930));
    assert!(asks(&e));
    e.devices[0].limit.source = "card";
    assert!(text(&e, TextOptions::default()).contains("--card NAME or --limit SIZE"));
}

#[test]
fn no_two_blank_lines_and_none_at_the_ends() {
    for (name, e) in common::all() {
        for options in variants() {
            let out = text(&e, options);
            assert!(!out.contains("\n\n\n") && !out.starts_with('\n') && !out.ends_with("\n\n"), "{name}:\n{out}");
        }
    }
}

#[test]
fn ascii_means_ascii() {
    for (name, e) in common::all() {
        for options in variants().into_iter().filter(|o| o.ascii) {
            let out = text(&e, options);
            assert!(out.is_ascii(), "{name}: {:?}", out.chars().find(|c| !c.is_ascii()));
        }
    }
}

#[test]
fn colour_adds_no_word() {
    for (name, e) in common::all() {
        let plain = text(&e, TextOptions::default());
        let coloured = text(&e, TextOptions { colour: true, ..TextOptions::default() });
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some(at) = rest.find('\u{1b}') {
            stripped.push_str(&rest[..at]);
            rest = rest[at..].split_once('m').expect("every style ends").1;
        }
        stripped.push_str(rest);
        assert_eq!(stripped, plain, "{name}");
    }
}

#[test]
fn every_mark_is_doubled_by_words() {
    for (name, e) in common::all() {
        // The result may stand on the next line where the remedy is long.
        let out = text(&e, TextOptions::default());
        let lines: Vec<&str> = out.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let words: &[&str] = match line.trim_start().chars().next() {
                Some('✓') => &["passes", "less"],
                Some('~') => &["a gamble", "a delay", "more or less", "if the limit"],
                Some('✗') => &["fails", "worse", "changes nothing"],
                Some('=') => &["changes nothing"],
                Some('?') => &["not verified"],
                _ => continue,
            };
            let here = lines[i..lines.len().min(i + 3)].join(" ");
            assert!(words.iter().any(|w| here.contains(w)), "{name}: {line}");
        }
    }
}

#[test]
fn names_from_a_file_cannot_command_the_terminal() {
    for options in variants() {
        let out = text(&common::hostile(), options);
        assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}

#[test]
fn nothing_is_verified_by_a_replay_that_diverges() {
    let out = text(&common::diverged(), TextOptions::default());
    assert!(out.contains("not verified"));
    assert!(!out.contains("passes") && !out.contains("Use it"), "{out}");
}

#[test]
fn a_cut_recording_says_so() {
    let said = "Nothing is recorded of later steps.";
    assert!(text(&common::story_two(), TextOptions::default()).contains(said));
    assert!(!text(&common::no_oom_fragmentation(), TextOptions::default()).contains(said));
}

#[test]
fn one_key_is_advised_before_a_pair_that_does_as_well() {
    let mut e = common::story_two();
    e.devices[0].remedies.swap(0, 1);
    let out = text(&e, TextOptions::default());
    assert!(out.contains("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"), "{out}");
    e.devices[0].remedies.retain(|r| r.apply.contains(','));
    let out = text(&e, TextOptions::default());
    assert!(out.contains("CONF=expandable_segments:True,garbage_collection_threshold:0.8\n"), "{out}");
}

#[test]
fn a_limit_that_was_given_is_called_so() {
    let mut e = common::story_two();
    e.devices[0].limit.source = "argument";
    assert!(text(&e, TextOptions::default()).contains("Tried under 9.00 GiB, as given."));
    (e.devices[0].limit.low_bytes, e.devices[0].limit.high_bytes) = (None, None);
    assert!(text(&e, TextOptions::default()).contains("Tried without a limit, as given."));
}

#[test]
fn an_interval_is_called_one() {
    let out = text(&common::capacity(), TextOptions::default());
    assert!(out.contains("Tried under 3.96 GiB, the limit's low end."), "{out}");
    let out = text(&common::story_two(), TextOptions::default());
    assert!(!out.contains("low end"), "this limit is known: {out}");
}

/// The row that `part` stands in, its continuation included.
fn row(out: &str, part: &str) -> String {
    let lines: Vec<&str> = out.lines().collect();
    let at = lines.iter().position(|l| l.contains(part)).unwrap_or_else(|| panic!("{part} is not in:\n{out}"));
    let first = (0..=at).rev().find(|&i| lines[i].starts_with("  ") && !lines[i].starts_with("   ")).unwrap_or(at);
    let more = lines[first + 1..].iter().take_while(|l| l.starts_with("    "));
    let text = [lines[first]].into_iter().chain(more.copied()).collect::<Vec<_>>().join(" ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_comes_to_the_same_shares_a_row() {
    use whyoom_diagnosis::explanation::RemedyOutcome::NoChange;
    let mut e = common::story_two();
    for apply in ["roundup_power2_divisions:16", "max_split_size_mb:20", "max_split_size_mb:64"] {
        e.devices[0].remedies.push(common::fails(apply, NoChange, 19_000, 10));
    }
    let out = text(&e, TextOptions::default());
    let row = row(&out, "garbage_collection_threshold:0.6");
    assert!(row.contains("max_split_size_mb:20, 64") && row.contains("roundup_power2_divisions:16"), "{row}");
    assert!(row.contains("empty_cache() every step") && row.contains(": fails at the same request"), "{row}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("fails at the same request").count(), 1, "{out}");
}

#[test]
fn what_people_try_first_is_answered_after_a_failure() {
    use whyoom_diagnosis::explanation::RemedyOutcome::{Fails, Worse};
    let mut e = common::leak();
    let limit = 24 * common::GIB;
    let more = (0..9).map(|i| common::passes(&format!("key_{i}:1"), limit - common::gib(40 + i), limit));
    e.devices[0].remedies.extend(more);
    e.devices[0].remedies.push(common::fails("garbage_collection_threshold:0.6", Worse, 18_000, 177));
    e.devices[0].remedies.push(common::fails("empty_cache() every step", Fails, 19_100, 178));
    let out = text(&e, TextOptions::default());
    for known in FOLKLORE {
        assert!(out.contains(known), "{known} is not answered:\n{out}");
    }
}

const FOLKLORE: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "garbage_collection_threshold:0.6",
    "empty_cache() every step",
];

#[test]
fn what_is_advised_is_among_the_rows() {
    let mut e = common::story_two();
    let limit = 9 * common::GIB;
    let device = &mut e.devices[0];
    device.remedies.truncate(1);
    device.remedies[0].apply = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]".into();
    let more = (0..20).map(|i| common::passes(&format!("key_{i}:1,other:2"), limit - common::gib(40 + i), limit));
    device.remedies.splice(0..0, more.collect::<Vec<_>>());
    let out = text(&e, TextOptions::default());
    // A shell would take the angle bracket for a file.
    assert!(
        out.contains("Use it:\n  PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[256:1,512:2,1024:4,>:8]'"),
        "{out}"
    );
    assert!(row(&out, "✓ roundup_power2_divisions").contains("passes"), "{out}");
}

#[test]
fn what_the_limits_exact_size_decides_is_a_state_of_its_own() {
    let mut e = common::story_two();
    let device = &mut e.devices[0];
    device.limit.high_bytes = Some(common::gib(930));
    device.remedies = vec![whyoom_diagnosis::explanation::Remedy {
        passes_from_limit_bytes: Some(common::gib(920)),
        note: Some("passes if the limit, known to lie between 9.00 GiB and 9.30 GiB, is 9.20 GiB or more".into()),
        ..common::fails(
            "expandable_segments:True",
            whyoom_diagnosis::explanation::RemedyOutcome::NotVerified,
            19_000,
            10,
        )
    }];
    let out = text(&e, TextOptions::default());
    assert!(out.contains("~ expandable_segments:True          passes if the limit is 9.20 GiB or more\n"), "{out}");
    assert!(!out.contains("Use it") && out.contains("none passes with room to spare"), "{out}");
}

#[test]
fn graphs_of_training_are_detached_and_not_made_without_gradients() {
    let mut e = common::leak();
    let mut advice = |of: Option<&'static str>| {
        e.devices[0].findings[0].growth.as_mut().expect("growth").graphs_of = of;
        let out = text(&e, TextOptions::default());
        out.split_once("Do this:").expect("advice").1.split("\n\n").next().unwrap_or_default().to_owned()
    };
    let training = advice(Some("training"));
    assert!(training.contains(".detach()") && training.contains("retain_graph") && !training.contains("no_grad"));
    assert!(advice(Some("evaluation")).contains("torch.no_grad()"));
    assert!(advice(None).contains("backward()"));
}

#[test]
fn what_a_healthy_run_could_spare_is_one_line() {
    let mut e = common::healthy();
    let whole = |r: whyoom_diagnosis::explanation::Remedy| whyoom_diagnosis::explanation::Remedy {
        scope: "whole_run",
        headroom_bytes: None,
        ..r
    };
    let device = &mut e.devices[0];
    device.peak.reserved_bytes = 3 * common::GIB;
    device.replay.retries = 45;
    device.remedies = vec![whole(common::passes("expandable_segments:True", common::gib(168), 9 * common::GIB))];
    device.remedies[0].retries = 0;
    let out = text(&e, TextOptions::default());
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("With expandable_segments:True it would have reserved 1.68 GiB, 1.32 GiB less, and never given"),
        "{out}"
    );
    e.devices[0].remedies[0].peak_reserved_range = Some((common::gib(290), common::gib(295)));
    e.devices[0].replay.retries = 0;
    assert!(!text(&e, TextOptions::default()).contains("Worth knowing"), "next to nothing");
}

#[test]
fn steps_are_counted_as_far_as_they_are_known() {
    let mut e = common::story_two();
    let line = |e: &Explanation| row(&text(e, TextOptions::default()), "in backward");
    assert!(line(&e).starts_with("after 10 steps, in backward"), "{}", line(&e));
    e.devices[0].steps.is_partial = true;
    assert!(line(&e).starts_with("after 10 steps that the trace keeps"), "{}", line(&e));
    e.devices[0].steps.is_partial = false;
    e.devices[0].oom.as_mut().expect("a failure").went_on = true;
    e.devices[0].steps.count = 14;
    assert!(line(&e).starts_with("in the 11th step"), "{}", line(&e));
    assert!(text(&e, TextOptions::default()).contains("might have gone on otherwise than it did"));
}

#[test]
fn the_record_hint_is_one_that_the_release_takes() {
    let mut e = common::no_trace();
    let torch = e.inputs[0].torch.as_mut().expect("a release");
    (torch.at_least, torch.below) = (Some("2.0".into()), Some("2.1".into()));
    let out = text(&e, TextOptions::default());
    assert!(out.contains("trace_alloc_max_entries") && out.contains("trace_alloc_record_context=True"), "{out}");
}

#[test]
fn passing_by_a_hair_is_a_gamble_and_never_recommended() {
    let mut e = common::story_two();
    e.devices[0].remedies.retain(|r| r.apply.starts_with("max_split"));
    let out = text(&e, TextOptions::default());
    assert!(out.contains("a gamble") && !out.contains("Use it"), "{out}");
    assert!(out.contains("none passes with room to spare"), "{out}");
}

#[test]
fn undetermined_without_a_failure_asks_for_a_recording() {
    let out = text(&common::no_trace(), TextOptions::default());
    assert!(out.contains("_record_memory_history()") && out.contains("_dump_snapshot"), "{out}");
}

#[test]
fn a_limit_below_what_any_layout_needs_is_never_passed_over() {
    let mut e = common::healthy();
    e.devices[0].limit = whyoom_diagnosis::explanation::LimitReport {
        low_bytes: Some(common::gib(50)),
        high_bytes: Some(common::gib(50)),
        source: "argument",
    };
    e.devices[0].bound.bytes_to_free = common::gib(36);
    let out = text(&e, TextOptions::default());
    assert!(out.contains("Under 512 MiB it could not have run: at least 369 MiB must go"), "{out}");
}

#[test]
fn a_placement_that_refutes_is_named() {
    let mut e = common::story_two();
    let limit = e.devices[0].limit.low_bytes.expect("set");
    e.devices[0].remedies[0].peak_reserved_range = Some((common::gib(766), limit + 1));
    let out = text(&e, TextOptions::default());
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("a gamble, peak 7.66 to 9.00 GiB, not in every placement tried"), "{out}");
    assert!(!out.contains("CONF=expandable_segments:True\n"), "{out}");
}

#[test]
fn a_leak_is_never_cured_by_a_setting() {
    let mut e = common::leak();
    e.devices[0].remedies.retain(|r| r.kind == "setting");
    let out = text(&e, TextOptions::default());
    assert!(!out.contains("Use it"), "{out}");
    assert!(out.contains("torch.no_grad()") && !out.contains("Use it") && out.contains("a delay, not a cure"), "{out}");
}

#[test]
fn replays() {
    for (name, result) in common::replays() {
        for options in variants() {
            let mut out = Vec::new();
            write_replay(&result, options, &mut out).expect("a vector takes everything");
            let out = String::from_utf8(out).expect("text is UTF-8");
            for line in out.lines() {
                assert!(line.width() <= WIDTH, "{name}: {line}");
            }
            assert!(!options.ascii || out.is_ascii(), "{name}:\n{out}");
            if options == TextOptions::default() {
                insta::assert_snapshot!(name, out);
            }
        }
    }
}

/// Columns as a terminal without emoji sequences counts them.
fn columns(line: &str) -> usize {
    line.chars().map(|c| unicode_width::UnicodeWidthChar::width(c).unwrap_or(0)).sum()
}

proptest::proptest! {
    #[test]
    fn any_names_keep_to_the_page(
        summary in any::<String>(),
        function in any::<String>(),
        file in any::<String>(),
        apply in any::<String>(),
        note in any::<String>(),
        path in any::<String>(),
        line in any::<u32>(),
    ) {
        let mut e = common::story_two();
        e.inputs[0].path = path;
        let device = &mut e.devices[0];
        device.findings[0].summary = summary;
        device.findings[0].culprits[0].function = function.clone();
        device.findings[0].culprits[0].file = file.clone();
        device.findings[0].culprits[0].line = line;
        device.findings[0].culprits[0].stack = vec![file.clone(), function];
        device.remedies[1].apply = apply;
        device.remedies[1].note = Some(note);
        device.settings.string = Some(file);
        for options in variants() {
            for line in text(&e, options).lines() {
                proptest::prop_assert!(is_pasted(line) || columns(line) <= WIDTH, "{} columns: {line:?}", columns(line));
                proptest::prop_assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }
}

#[test]
fn a_tuned_string_is_never_broken() {
    use whyoom_diagnosis::explanation::LimitReport;
    use whyoom_diagnosis::tuning::{Bounds, Candidate, DeviceTuning, Peak, Tuning};
    let peak =
        |bytes| Peak { requested_bytes: bytes, allocated_bytes: bytes, active_bytes: bytes, reserved_bytes: bytes };
    let candidate = |settings: &str, bytes| Candidate {
        settings: settings.into(),
        variable: "PYTORCH_CUDA_ALLOC_CONF",
        limit_bytes: None,
        model: "2.11".into(),
        ooms: 0,
        hypothetical_from: None,
        oom: false,
        first_oom: None,
        peak: peak(bytes),
        peak_reserved_range: (bytes, bytes),
        tie_sensitive: false,
        timing_sensitive: false,
        retries: 0,
        driver_allocations: 28,
        driver_frees: 0,
        maps: 28,
        unmaps: 0,
        synchronisations: 0,
        driver_calls_per_step: Some(0.233),
        incompatible_with: Vec::new(),
    };
    let long = "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,1024:4]";
    let best = candidate(long, 960 * common::MIB);
    let device = DeviceTuning {
        input: 0,
        device: 0,
        model: "2.11".into(),
        is_exact: true,
        scope: "whole_run",
        steps: 120,
        limit: LimitReport { low_bytes: None, high_bytes: None, source: "unknown" },
        recorded: None,
        default: Some(candidate("", 15 * common::GIB)),
        best: Some(best.clone()),
        candidates_tried: 240,
        candidates_completed: 240,
        candidates_failed: 0,
        pareto: vec![best, candidate("large_segment_size_mb:1024", common::GIB)],
        accumulates: false,
        bounds: Bounds { compact_bytes: 918 * common::MIB, ..Bounds::default() },
        batch: None,
        note: None,
    };
    let tuning = Tuning {
        schema: "whyoom.tune/1",
        inputs: vec![common::input("frag.default.pickle")],
        warnings: Vec::new(),
        devices: vec![device],
    };
    let mut out = Vec::new();
    whyoom_report::write_tuning(&tuning, TextOptions::default(), &mut out).expect("a vector takes everything");
    insta::assert_snapshot!("tune", String::from_utf8(out).expect("text is UTF-8"));
}
