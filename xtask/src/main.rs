//! Project chores: `cargo xtask help` lists them.
// A chore talks to whoever runs it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod layers;
mod shell;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask test             everything that must hold: format, lints, tests, documentation, layers, generated files
cargo xtask check-layers     crates depend on each other only as the picture in ARCHITECTURE.md allows
cargo xtask generate         write the generated files under docs/ (--check: fail if they differ)
cargo xtask bench-gate       compare instruction counts with the committed ones (--bless: commit the new ones)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => Ok(test::run()),
        ["check-layers"] => layers::run(),
        ["generate", flags @ ..] => shell::generate(flags),
        ["bench-gate"] => bench::run(false),
        ["bench-gate", "--bless"] => bench::run(true),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(true)
        }
        other => bail!("no chore `{}`\n{HELP}", other.join(" ")),
    }
}
