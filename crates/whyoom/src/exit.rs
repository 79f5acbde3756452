//! Exit statuses.

use std::process::ExitCode;

/// How a run of the program went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was answered.
    Fine = 0,
    /// A finding named by `--fail-on` holds, or `--check` found a fault.
    Found = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// An input could not be read, or the answer could not be written; other inputs were still answered.
    Unreadable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
