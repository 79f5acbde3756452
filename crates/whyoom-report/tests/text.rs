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
    line.starts_with("Use it:")
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
        assert!(lines <= 40, "{name}: {lines} lines");
    }
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
                Some('~') => &["a gamble"],
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
    assert!(
        text(&common::story_two(), TextOptions::default())
            .contains("The recording ends here: nothing is known of later steps.")
    );
    assert!(!text(&common::no_oom_fragmentation(), TextOptions::default()).contains("The recording ends here"));
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
    assert!(out.contains("Tried under 3.96 GiB, the low end of what the limit can be."), "{out}");
    let out = text(&common::story_two(), TextOptions::default());
    assert!(!out.contains("low end"), "this limit is known: {out}");
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
    assert!(out.contains("Under 512 MiB it could not have run: 369 MiB must go"), "{out}");
}

#[test]
fn a_placement_that_refutes_is_named() {
    let mut e = common::story_two();
    let limit = e.devices[0].limit.low_bytes.expect("set");
    e.devices[0].remedies[0].peak_reserved_range = Some((common::gib(766), limit + 1));
    let out = text(&e, TextOptions::default());
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("not in every placement tried: a gamble"), "{out}");
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
