//! Why a PyTorch run ran out of GPU memory, and which remedy would have stopped it.
//!
//! The command line as a library: [`run`] takes arguments and streams and gives an exit status, so that tests,
//! the Python package and generators need no process. [`command`] is the grammar, for man pages and completions.
//!
//! # Example
//!
//! ```
//! use whyoom::{Exit, Streams, run};
//! let (mut out, mut err) = (Vec::new(), Vec::new());
//! let args = ["whyoom", "--limit", "much", "oom.pickle"].map(Into::into);
//! let exit = run(args, &mut Streams::captured(b"", &mut out, &mut err));
//! assert_eq!(exit, Exit::Usage);
//! assert!(String::from_utf8_lossy(&err).contains("9GiB"));
//! ```

mod card;
mod cli;
mod exit;
mod pipeline;
mod progress;
mod reading;
mod size;
mod source;
mod streams;
mod verbs;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

pub use exit::Exit;
pub use size::{SizeError, parse_size};
pub use streams::Streams;

/// The grammar of the command line.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// Runs one command line, the program's name first, and says how it went.
///
/// Nothing is read but the files named (and `streams.stdin` for `-`); nothing is written but to `streams`.
pub fn run(args: impl IntoIterator<Item = OsString>, streams: &mut Streams<'_>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let exit = match parse(&args) {
        Ok(cli) => verbs::dispatch(cli, streams),
        Err(error) => usage(&harmless(error, &args), streams),
    };
    streams.finish(exit)
}

fn parse(args: &[OsString]) -> Result<cli::Cli, clap::Error> {
    command().try_get_matches_from(args).and_then(|m| cli::Cli::from_arg_matches(&m))
}

/// `error`, or the same about the same arguments with control characters written out: clap repeats them as they are,
/// and an escape sequence in one must not reach the terminal.
fn harmless(error: clap::Error, args: &[OsString]) -> clap::Error {
    let shown: Vec<OsString> = args.iter().map(|a| whyoom_report::printable(&a.to_string_lossy()).into()).collect();
    if shown.iter().zip(args).all(|(shown, arg)| shown == arg) {
        return error;
    }
    parse(&shown).err().unwrap_or_else(|| command().error(error.kind(), "an argument is not understood"))
}

/// Shows clap's answer: help and version are answers, the rest are mistakes.
fn usage(error: &clap::Error, streams: &mut Streams<'_>) -> Exit {
    let text = error.render();
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Fine };
    if error.use_stderr() {
        let text = if streams.stderr_colour { text.ansi().to_string() } else { text.to_string() };
        streams.complain_raw(&text);
        return exit;
    }
    let text = if streams.stdout_colour { text.ansi().to_string() } else { text.to_string() };
    streams.print(exit, |out| out.write_all(text.as_bytes()))
}
