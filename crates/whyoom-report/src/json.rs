//! JSON: the contract's object, stable in keys and order, followed by one newline.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::text::is_unsafe;

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
        Layout::Pretty => {
            result.serialize(&mut Serializer::with_formatter(&mut *out, Harmless(PrettyFormatter::new())))
        }
        Layout::Compact => result.serialize(&mut Serializer::with_formatter(&mut *out, Harmless(CompactFormatter))),
    }
    .map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// Writes what could command a terminal, or hide in a line, as `\uXXXX`: JSON is looked at in terminals too, and reads
/// back the same.
struct Harmless<F>(F);

/// Hands a call on to the layout.
macro_rules! as_laid_out {
    ($($name:ident($($argument:ident: $kind:ty),*));* $(;)?) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Harmless<F> {
    as_laid_out! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_command_a_terminal_is_escaped_and_reads_back() {
        let names = ["plain", "größe", "\u{9b}31m\u{7f}", "\u{202e}gnp", "\u{e0041}\u{ad}", "\u{1b}[0m\n"];
        for layout in [Layout::Pretty, Layout::Compact] {
            let mut out = Vec::new();
            write_json(&names, layout, &mut out).expect("a vector takes everything");
            let text = String::from_utf8(out).expect("JSON is UTF-8");
            assert!(!text.replace('\n', "").contains(is_unsafe), "{text}");
            assert!(text.contains("\\u009b31m\\u007f") && text.contains("größe"), "{text}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&text).expect("valid JSON"), names);
        }
    }
}
