//! Prints what is read from standard input, a reading a line, and a line of totals.

use std::io::{self, Write as _};

use whyoom_text::{Limits, read};

fn main() -> io::Result<()> {
    let text = read(io::stdin().lock(), &Limits::default())?;
    let mut out = io::stdout().lock();
    for reading in &text.readings {
        writeln!(out, "{}", serde_json::to_string(reading)?)?;
    }
    writeln!(
        out,
        "{} bytes, {} lines, {} cut, {} dropped",
        text.bytes, text.lines, text.cut_lines, text.dropped_readings
    )
}
