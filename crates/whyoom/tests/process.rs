//! What only a process can show: statuses, pipes, the environment.
#![cfg(unix)]

mod support;

use std::{
    io::{Read, Write},
    process::{Command, Output, Stdio},
};

use support::{Scratch, snapshot};

fn whyoom() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyoom"));
    command.env_clear();
    command
}

fn piped(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    // A program that ends without reading leaves a closed pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the binary ends")
}

#[test]
fn exit_statuses() {
    let scratch = Scratch::new("statuses");
    let good = scratch.file("good.pickle", &snapshot(true));
    for (args, status) in [
        (vec!["--version".into()], 0),
        (vec![good.clone().into_os_string()], 0),
        (vec!["replay".into(), good.into_os_string()], 0),
        (vec!["--limit".into(), "9GB".into(), "f".into()], 2),
        (vec![], 2),
        (vec!["absent.pickle".into()], 3),
    ] {
        let output = whyoom().args(&args).stdin(Stdio::null()).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = Scratch::new("pipe");
    // Enough files that the result cannot fit into the pipe.
    let file = scratch.file("good.pickle", &snapshot(true));
    let mut child = whyoom()
        .args(["replay", "--json"])
        .args(std::iter::repeat_n(&file, 200))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut first = [0; 16];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a result begins");
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = whyoom().arg("--help").stdout(full).stderr(Stdio::piped()).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the result"));
}

#[test]
fn a_file_named_like_a_verb_is_reached_by_its_path_or_after_two_dashes() {
    let scratch = Scratch::new("verbs");
    scratch.file("replay", &snapshot(true));
    for args in
        [&["./replay"][..], &["--", "replay"], &["explain", "replay"], &["replay", "replay"], &["--json", "replay"]]
    {
        let output = whyoom().current_dir(&scratch.0).args(args).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn no_colour_without_a_terminal_unless_asked_for() {
    let is_coloured = |args: &[&str], env: &[(&str, &str)]| {
        let output = piped(whyoom().args(args).envs(env.iter().copied()), &snapshot(true));
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout.contains(&0x1b)
    };
    assert!(!is_coloured(&["-"], &[]));
    assert!(!is_coloured(&["-"], &[("NO_COLOR", "1"), ("TERM", "xterm")]));
    assert!(!is_coloured(&["--color", "never", "-"], &[("CLICOLOR_FORCE", "1")]));
    assert!(is_coloured(&["--color", "always", "-"], &[]));
    assert!(is_coloured(&["--color=always", "-"], &[("NO_COLOR", "1")]), "the argument is nearer than the environment");
    assert!(!is_coloured(&["--color", "always", "--json", "-"], &[]));
}

#[test]
fn nothing_but_the_result_is_written_without_a_terminal() {
    let output = piped(whyoom().arg("-"), &snapshot(true));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(String::from_utf8(output.stdout).is_ok_and(|text| !text.contains('\r')));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for args in [&["-"][..], &["--json", "-"], &["-v", "-"], &["replay", "--json", "-"]] {
        let first = piped(whyoom().args(args), &snapshot(true)).stdout;
        let second =
            piped(whyoom().args(args).env("LANG", "de_DE.UTF-8").env("TZ", "Asia/Tokyo"), &snapshot(true)).stdout;
        assert!(first == second, "{args:?}");
    }
}

#[test]
fn the_environment_is_read_where_it_is_asked_for() {
    let ask = |variables: &[(&str, &str)]| {
        let mut command = whyoom();
        command.args(["settings", "--env", "--check", "--torch", "2.11"]).envs(variables.iter().copied());
        let output = command.stdin(Stdio::null()).output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (old, new) = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF");
    let (status, said) = ask(&[]);
    assert!(status == Some(0) && said.contains("PyTorch's defaults"), "{said}");
    let (status, said) = ask(&[(new, "max_split_size_mb:64")]);
    assert!(status == Some(0) && said.contains("in force: max_split_size_mb:64"), "{said}");
    let (status, said) = ask(&[(new, "max_split_size_mb:64"), (old, "expandable_segments:True")]);
    assert!(status == Some(1) && said.contains("another variable comes first"), "{said}");
}
