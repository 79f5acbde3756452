//! Running cargo and other programs from the root of the checkout.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The cargo that runs us, at the root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Shows the command, then runs it; whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    println!("\n==> {}", line(command));
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    Ok(status.success())
}

/// Shows the command, then runs it and passes its lines on; whether it succeeded, and what it said on both streams.
pub(crate) fn observed(command: &mut Command) -> Result<(bool, Vec<String>)> {
    println!("\n==> {}", line(command));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", line(command)))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (mut said, complained) = std::thread::scope(|scope| {
        let err = scope.spawn(|| passed_on(err));
        (passed_on(out), err.join().unwrap_or_default())
    });
    said.extend(complained);
    Ok((child.wait()?.success(), said))
}

fn passed_on(stream: Option<impl Read>) -> Vec<String> {
    let Some(stream) = stream else { return Vec::new() };
    let mut lines = Vec::new();
    // Compilers and tests may print anything: bytes that are not UTF-8 must not end the reading.
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        lines.push(line);
    }
    lines
}

/// Whether the program answers to `--version`.
pub(crate) fn has(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// `cargo xtask generate`: a crate of its own, so that the other chores need not build whyoom.
pub(crate) fn generate(flags: &[&str]) -> Result<bool> {
    let mut arguments = vec!["run", "--quiet", "--package", "xtask-generate", "--"];
    arguments.extend(flags);
    succeeds(&mut cargo(&arguments))
}
