//! JSON: the contract's object, stable in keys and order, followed by one newline.

use std::io::{self, Write};

use serde::Serialize;

/// How the object is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Two-space indentation, for people (default).
    #[default]
    Pretty,
    /// One line, for pipes.
    Compact,
}

/// Writes `result` (an [`Explanation`](whyoom_diagnosis::explanation::Explanation) or a
/// [`ReplayResult`](crate::replay::ReplayResult)) as one JSON object and a newline.
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_json<T: Serialize + ?Sized>(result: &T, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    match layout {
        Layout::Pretty => serde_json::to_writer_pretty(&mut *out, result),
        Layout::Compact => serde_json::to_writer(&mut *out, result),
    }
    .map_err(io::Error::from)?;
    out.write_all(b"\n")
}
