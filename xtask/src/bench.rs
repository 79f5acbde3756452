//! `cargo xtask bench-gate`: instructions of the release binary on an included recording, against a committed figure.
//!
//! Instructions, not seconds: they are the same on a busy machine.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::shell;

/// The committed figures.
const FIGURES: &str = "xtask/instructions.json";
/// A change by more than this much, either way, wants a look and a new figure.
const TOLERANCE: f64 = 0.03;

/// How a comparison ended.
#[derive(Debug)]
pub(crate) enum Gate {
    /// It could not be made here, and why.
    Skipped(String),
    /// Whether every figure is within the tolerance.
    Compared(bool),
}

/// The chore: compares, or with `bless` writes the new figures.
pub(crate) fn run(bless: bool) -> Result<bool> {
    if bless {
        return write();
    }
    match gate()? {
        Gate::Skipped(why) => {
            println!("skipped: {why}");
            Ok(true)
        }
        Gate::Compared(holds) => Ok(holds),
    }
}

/// Compares every committed figure.
pub(crate) fn gate() -> Result<Gate> {
    println!("\n==> cargo xtask bench-gate");
    let Ok(text) = fs::read_to_string(shell::root().join(FIGURES)) else {
        return Ok(Gate::Skipped(format!("there is no {FIGURES}")));
    };
    let figures: Value = serde_json::from_str(&text).with_context(|| format!("{FIGURES} is not JSON"))?;
    if !shell::has(Command::new("valgrind").arg("--version")) {
        return Ok(Gate::Skipped("valgrind is not installed".to_owned()));
    }
    let compiler = compiler()?;
    if figures["compiler"] != compiler.as_str() {
        return Ok(Gate::Skipped(format!("the figures are of {}, this is {compiler}", figures["compiler"])));
    }
    build()?;
    let mut holds = true;
    for run in figures["runs"].as_array().context("no runs")? {
        let arguments = arguments(run)?;
        let committed = run["instructions"].as_u64().context("a run without instructions")?;
        let counted = count(&arguments)?;
        let change = counted as f64 / committed as f64 - 1.0;
        let within = change.abs() <= TOLERANCE;
        holds &= within;
        println!(
            "whyoom {}: {counted} instructions, {:+.2} % of {committed}{}",
            arguments.join(" "),
            change * 100.0,
            if within { "" } else { ": look why, then `cargo xtask bench-gate --bless`" }
        );
    }
    Ok(Gate::Compared(holds))
}

fn write() -> Result<bool> {
    let path = shell::root().join(FIGURES);
    let mut figures: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    build()?;
    figures["compiler"] = json!(compiler()?);
    for run in figures["runs"].as_array_mut().context("no runs")? {
        run["instructions"] = json!(count(&arguments(run)?)?);
    }
    fs::write(path, format!("{figures:#}\n"))?;
    Ok(true)
}

fn arguments(run: &Value) -> Result<Vec<String>> {
    let words = run["arguments"].as_array().context("a run without arguments")?;
    words.iter().map(|word| word.as_str().map(str::to_owned).context("an argument that is no string")).collect()
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("cannot start rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn build() -> Result<()> {
    anyhow::ensure!(
        shell::succeeds(&mut shell::cargo(&["build", "--quiet", "--release", "--package", "whyoom"]))?,
        "the release build failed"
    );
    Ok(())
}

/// Instructions of one run, as callgrind counts them.
fn count(arguments: &[String]) -> Result<u64> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), Into::into);
    let mut command = Command::new("valgrind");
    command.current_dir(shell::root()).args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    // One thread: what several interleave is not the same twice.
    command.arg(target.join("release/whyoom")).args(arguments).env("RAYON_NUM_THREADS", "1");
    let output = command.output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(collected) = said.lines().find_map(|line| line.split_once("Collected :")) else {
        bail!("callgrind counted nothing: {}", said.trim());
    };
    collected.1.trim().parse().context("callgrind's count is no number")
}
