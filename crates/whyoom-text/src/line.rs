//! A line of text as recognisers see it.

use serde::Serialize;

/// Where something was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// 1-based line; a carriage return begins a new one, as a progress bar does.
    pub line: u64,
    /// Offset in bytes of the line's beginning in the input, after decompression.
    pub offset: u64,
}

/// One line, decoded, without colours, line ending and what launchers put before it.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The text, prefixes removed (`[rank3]: `, `worker 2 | `, a timestamp of a logger).
    pub text: &'a str,
    /// The line as it stands, colours removed.
    pub whole: &'a str,
    /// Where it stands.
    pub place: Place,
    /// The rank that a prefix names.
    pub rank: Option<u32>,
}
