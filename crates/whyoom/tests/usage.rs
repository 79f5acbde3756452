//! Arguments, help and exit statuses, without a process.

mod support;

use support::{Scratch, run, run_with, snapshot};
use whyoom::Exit;

#[test]
fn help_is_an_answer_and_fits_80_columns() {
    for args in [&["--help"][..], &["-h"], &["explain", "--help"], &["replay", "-h"], &["help", "replay"]] {
        let ran = run(args);
        assert_eq!((ran.exit, ran.err.as_str()), (Exit::Fine, ""), "{args:?}");
        for line in ran.out.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
    insta::assert_snapshot!("help", run(["--help"]).out);
    insta::assert_snapshot!("help_explain", run(["explain", "--help"]).out);
    insta::assert_snapshot!("help_replay", run(["replay", "--help"]).out);
}

#[test]
fn version() {
    let ran = run(["--version"]);
    assert_eq!(ran.exit, Exit::Fine);
    assert_eq!(ran.out, format!("whyoom {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn nothing_at_all_shows_the_help_as_a_mistake() {
    for args in [&[][..], &["explain"], &["replay"]] {
        let ran = run(args);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Usage, ""), "{args:?}");
        assert!(ran.err.contains("Usage: whyoom"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn bad_arguments_say_what_would_be_good() {
    for (args, hint) in [
        (&["--limit", "much", "f"][..], "9GiB"),
        (&["--limit", "9GB", "f"], "9GiB"),
        (&["--limit", "0", "f"], "none"),
        (&["--limit", "", "f"], "9GiB"),
        (&["--limit=-1", "f"], "9GiB"),
        (&["--torch", "two", "f"], "2.11"),
        (&["--device", "x", "f"], "--device"),
        (&["--device", "-1", "f"], "--help"),
        (&["--color", "blue", "f"], "never"),
        (&["--json=yaml", "f"], "compact"),
        (&["--fail-on", "oom", "f"], "fragmentation"),
        (&["--fail-on", "leak,oom", "f"], "fragmentation"),
        (&["replay", "--empty-cache", "0", "f"], "step"),
        (&["replay", "--empty-cache", "often", "f"], "step"),
        (&["replay", "--fail-on", "leak", "f"], "--help"),
        (&["--nonsense", "f"], "--help"),
    ] {
        let ran = run(args);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Usage, ""), "{args:?}");
        assert!(ran.err.contains(hint), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_file_that_is_not_there() {
    let ran = run(["no/such/file.pickle"]);
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Unreadable, ""));
    assert!(ran.err.ends_with("  no/such/file.pickle\n"), "the path comes last: {}", ran.err);
    assert!(!ran.err.contains("os error"), "{}", ran.err);
}

#[test]
fn a_verb_in_the_wrong_place_is_explained() {
    let ran = run(["--json", "replay", "f"]);
    assert_eq!(ran.exit, Exit::Unreadable);
    assert!(ran.err.contains("whyoom replay"), "{}", ran.err);
}

#[test]
fn files_that_are_something_else() {
    let scratch = Scratch::new("else");
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text.txt", b"Epoch 1, loss 0.5\n"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("weights.pt", b"PK\x03\x04archive/data.pkl"),
        ("other.pickle", b"\x80\x04N."),
        ("evil.pickle", b"cos\nsystem\n(S'true'\ntR."),
        ("cut.xz", b"\xfd7zXZ\0\0\x04"),
        ("json.json", b"{\"a\": 1}"),
        ("zeros", &[0; 4096]),
    ] {
        let path = scratch.file(name, bytes);
        for verb in [&[][..], &["replay"]] {
            // A text is an answer's beginning for `explain`, if only to say what is missing in it.
            if verb.is_empty() && name == "text.txt" {
                continue;
            }
            let mut args: Vec<std::ffi::OsString> = verb.iter().map(Into::into).collect();
            args.push(path.clone().into());
            let ran = run(args);
            assert_eq!((ran.exit, ran.out.as_str()), (Exit::Unreadable, ""), "{name}: {}", ran.err);
            assert!(ran.err.trim_end().ends_with(name), "{name}: the path comes last: {}", ran.err);
        }
    }
    let ran = run([scratch.0.join("text.txt")]);
    assert_eq!(ran.exit, Exit::Fine, "{}", ran.err);
    assert!(ran.out.contains("Undetermined") && ran.out.contains("Next:"), "{}", ran.out);
    let ran = run([scratch.0.clone()]);
    assert_eq!(ran.exit, Exit::Unreadable, "a directory: {}", ran.err);
}

#[test]
fn a_huge_path() {
    for path in ["x".repeat(5_000), "d/".repeat(10_000)] {
        let ran = run([path]);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Unreadable, ""));
    }
}

#[cfg(unix)]
#[test]
fn paths_that_are_not_utf8_are_read_and_shown_without_harm() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("bytes");
    let name = std::ffi::OsStr::from_bytes(b"oom-\xff-\x1b[31m.pickle");
    let path = scratch.file(name, &snapshot(true));
    let ran = run([path]);
    assert_eq!(ran.exit, Exit::Fine, "{}", ran.err);
    assert!(ran.out.contains("oom-\u{fffd}-\\u{1b}[31m.pickle"), "{}", ran.out);
    let ran = run([scratch.0.join(std::ffi::OsStr::from_bytes(b"absent-\xff\x07"))]);
    assert_eq!(ran.exit, Exit::Unreadable);
    assert!(!ran.err.contains('\u{7}'));
}

#[test]
fn standard_input_is_read_once() {
    assert_eq!(run(["-", "-"]).exit, Exit::Usage);
    let ran = run_with(["-"], &snapshot(true));
    assert_eq!(ran.exit, Exit::Fine, "{}", ran.err);
    assert!(ran.out.contains("standard input"), "{}", ran.out);
    let ran = run_with(["-"], b"");
    assert_eq!(ran.exit, Exit::Unreadable);
    assert!(ran.err.ends_with("  standard input\n"), "{}", ran.err);
}

#[test]
fn a_device_that_is_not_there_is_a_slip() {
    let scratch = Scratch::new("device");
    let path = scratch.file("s.pickle", &snapshot(true));
    for verb in ["explain", "replay"] {
        let ran = run([verb.into(), "--device".into(), "3".into(), path.clone().into_os_string()]);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Usage, ""), "{}", ran.err);
        assert!(ran.err.contains("device 3") && ran.err.contains("device 0"), "{}", ran.err);
    }
}
