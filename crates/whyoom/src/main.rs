//! The binary: `main` and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    whyoom::run(std::env::args_os(), &mut whyoom::Streams::standard()).into()
}
