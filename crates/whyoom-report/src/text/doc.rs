//! Lines of styled text within a fixed width.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of every line, except one that is to be pasted and may not be broken.
pub const WIDTH: usize = 80;

/// What a piece of text is, which decides its colour where there is one; the words never depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Code,
    Dim,
    Good,
    Caution,
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Code => AnsiColor::Cyan.on_default(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }
}

/// A piece of text of one tone.
pub(crate) type Span = (Tone, String);

/// A text document: lines are laid out as they are added, and written at the end.
#[derive(Debug)]
pub(crate) struct Doc {
    lines: Vec<Vec<Span>>,
    ascii: bool,
}

impl Doc {
    pub(crate) fn new(ascii: bool) -> Self {
        Self { lines: Vec::new(), ascii }
    }

    /// An empty line, unless the last one is empty or nothing stands above.
    pub(crate) fn blank(&mut self) {
        if self.lines.last().is_some_and(|l| !l.is_empty()) {
            self.lines.push(Vec::new());
        }
    }

    /// Wrapped text whose lines all start at column `indent`.
    pub(crate) fn paragraph(&mut self, indent: usize, tone: Tone, text: &str) {
        self.entry(indent, &[], indent, &[(tone, text.to_owned())]);
    }

    /// `label` from column `indent`, then `text` from column `column` on, wrapped there. A label that reaches
    /// into the text's columns gets a line of its own, wrapped if need be.
    pub(crate) fn entry(&mut self, indent: usize, label: &[Span], column: usize, text: &[Span]) {
        let label = self.prepare(label);
        let text = self.prepare(text);
        let label_end = indent + width(&label);
        let gap = usize::from(!label.is_empty());
        let mut line = pad(indent);
        if label_end + gap <= column {
            line.extend(label);
        } else {
            let rows = wrap(&label, WIDTH - indent);
            let last = rows.len().saturating_sub(1);
            for (i, row) in rows.into_iter().enumerate() {
                let mut full = pad(indent);
                full.extend(row);
                // A last row that is short enough shares its line with the text.
                if i == last && width(&full) + gap <= column {
                    line = full;
                } else {
                    self.lines.push(full);
                    line = Vec::new();
                }
            }
        }
        if text.is_empty() {
            self.push_filled(line);
            return;
        }
        for row in wrap(&text, WIDTH.saturating_sub(column).max(8)) {
            let used = width(&line);
            line.extend(pad(column - used));
            line.extend(row);
            self.lines.push(std::mem::take(&mut line));
        }
    }

    /// `left` at column 0 and `right` flush right; on its own line if both do not fit.
    pub(crate) fn two_sided(&mut self, left: &[Span], right: &[Span]) {
        let left = self.prepare(left);
        let right = self.prepare(right);
        let (l, r) = (width(&left), width(&right));
        if r == 0 || l + 2 + r > WIDTH {
            for row in wrap(&left, WIDTH) {
                self.push_filled(row);
            }
            for row in wrap(&right, WIDTH - 8) {
                let mut line = pad(WIDTH - width(&row));
                line.extend(row);
                self.push_filled(line);
            }
            return;
        }
        let mut line = left;
        line.extend(pad(WIDTH - l - r));
        line.extend(right);
        self.lines.push(line);
    }

    /// A line that is kept whole, however long: something to paste.
    pub(crate) fn verbatim(&mut self, spans: &[Span]) {
        let whole = spans.iter().map(|(tone, text)| (*tone, printable(text)));
        let line = whole.map(|(tone, text)| (tone, if self.ascii { to_ascii(&text) } else { text }));
        self.lines.push(line.filter(|(_, text)| !text.is_empty()).collect());
    }

    fn push_filled(&mut self, line: Vec<Span>) {
        if !line.is_empty() {
            self.lines.push(line);
        }
    }

    fn prepare(&self, spans: &[Span]) -> Vec<Span> {
        spans
            .iter()
            .map(|(tone, text)| (*tone, shorten_words(&printable(text))))
            .map(|(tone, text)| (tone, if self.ascii { to_ascii(&text) } else { text }))
            .filter(|(_, text)| !text.is_empty())
            .collect()
    }

    /// Lines down to the last that is not empty.
    pub(crate) fn height(&self) -> usize {
        self.lines.iter().rposition(|l| !l.is_empty()).map_or(0, |i| i + 1)
    }

    /// Writes all lines, styled if `colour`.
    pub(crate) fn write(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        for line in &self.lines[..self.height()] {
            let end = line.iter().rposition(|(_, t)| !t.trim_end().is_empty()).map_or(0, |i| i + 1);
            for (i, (tone, piece)) in line[..end].iter().enumerate() {
                let piece = if i + 1 == end { piece.trim_end() } else { piece };
                if colour && *tone != Tone::Plain {
                    let style = tone.style();
                    let _ = write!(text, "{style}{piece}{style:#}");
                } else {
                    text.push_str(piece);
                }
            }
            text.push('\n');
        }
        out.write_all(text.as_bytes())
    }
}

/// `text` with every character that could move the cursor, change colours or reorder the line written as an escape.
///
/// Names in a snapshot are data from elsewhere: a file name must not be able to repaint a terminal.
pub fn printable(text: &str) -> String {
    if !text.contains(is_unsafe) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Whether `c` moves the cursor, changes colours, reorders the line, or is not to be seen at all.
pub(crate) fn is_unsafe(c: char) -> bool {
    // Most text is ASCII, where only control characters are.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The longest word of a line and the longest piece of text, in columns. What a file calls things is unbounded.
const LONGEST_WORD: usize = 160;
const LONGEST_TEXT: usize = 2400;

/// `text` with words, and the whole, cut in the middle where they are longer than anybody reads.
fn shorten_words(text: &str) -> String {
    if text.len() <= LONGEST_WORD {
        return text.to_owned();
    }
    let words: Vec<String> = text.split(' ').map(|word| shorten_middle(word, LONGEST_WORD)).collect();
    shorten_middle(&words.join(" "), LONGEST_TEXT)
}

/// The typographic characters this product uses, in ASCII; names from elsewhere stay as they are.
fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '✓' => out.push('+'),
            '✗' | '×' => out.push('x'),
            '·' => out.push('|'),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '…' => out.push_str("..."),
            '–' | '−' => out.push('-'),
            '→' => out.push_str("->"),
            '≈' => out.push('~'),
            '’' | '‘' => out.push('\''),
            '“' | '”' => out.push('"'),
            c => out.push(c),
        }
    }
    out
}

/// `text` cut in the middle to at most `columns`, with an ellipsis where characters are missing.
pub(crate) fn shorten_middle(text: &str, columns: usize) -> String {
    // Three columns, so that the ASCII form of the ellipsis fits as well.
    const ELLIPSIS: usize = 3;
    let text = printable(text);
    if text.len() <= columns || text.width() <= columns || columns <= ELLIPSIS + 2 {
        return text;
    }
    let room = columns - ELLIPSIS;
    let (head, tail) = (room / 2, room - room / 2);
    format!("{}…{}", take_columns(text.chars(), head), {
        let reversed = take_columns(text.chars().rev(), tail);
        reversed.chars().rev().collect::<String>()
    })
}

fn take_columns(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

fn pad(columns: usize) -> Vec<Span> {
    if columns == 0 { Vec::new() } else { vec![(Tone::Plain, " ".repeat(columns))] }
}

pub(crate) fn width(spans: &[Span]) -> usize {
    spans.iter().map(|(_, t)| t.width()).sum()
}

/// Breaks `spans` into rows of at most `columns`, at spaces; a word longer than a row is cut.
fn wrap(spans: &[Span], columns: usize) -> Vec<Vec<Span>> {
    let mut rows: Vec<Vec<Span>> = Vec::new();
    let mut row: Vec<Span> = Vec::new();
    let mut used = 0;
    for (space, word) in words(spans) {
        let word_width = width(&word);
        if used > 0 && used + space + word_width <= columns {
            let tone = match (row.last(), word.first()) {
                (Some((a, _)), Some((b, _))) if a == b => *a,
                _ => Tone::Plain,
            };
            push(&mut row, tone, &" ".repeat(space));
            used += space;
        } else if used > 0 {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        for (tone, text) in &word {
            for c in text.chars() {
                let w = c.width().unwrap_or(0);
                if used + w > columns {
                    rows.push(std::mem::take(&mut row));
                    used = 0;
                }
                push(&mut row, *tone, c.encode_utf8(&mut [0; 4]));
                used += w;
            }
        }
    }
    if !row.is_empty() {
        rows.push(row);
    }
    rows
}

fn push(row: &mut Vec<Span>, tone: Tone, text: &str) {
    match row.last_mut() {
        Some((t, s)) if *t == tone => s.push_str(text),
        _ => row.push((tone, text.to_owned())),
    }
}

/// Words with the number of spaces before them. A number and its unit are one word.
fn words(spans: &[Span]) -> Vec<(usize, Vec<Span>)> {
    let mut out: Vec<(usize, Vec<Span>)> = Vec::new();
    let mut spaces = 0;
    let mut word: Vec<Span> = Vec::new();
    for (tone, text) in spans {
        for c in text.chars() {
            if c == ' ' {
                if !word.is_empty() {
                    out.push((spaces, std::mem::take(&mut word)));
                    spaces = 0;
                }
                spaces += 1;
            } else {
                push(&mut word, *tone, c.encode_utf8(&mut [0; 4]));
            }
        }
    }
    if !word.is_empty() {
        out.push((spaces, word));
    }
    let mut glued: Vec<(usize, Vec<Span>)> = Vec::with_capacity(out.len());
    for (space, word) in out {
        match glued.last_mut() {
            Some((_, before)) if space == 1 && is_unit(&word) && is_number(before) => {
                push(before, word[0].0, " ");
                for (tone, text) in &word {
                    push(before, *tone, text);
                }
            }
            _ => glued.push((space, word)),
        }
    }
    glued
}

fn is_number(word: &[Span]) -> bool {
    word.first().is_some_and(|(_, t)| t.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit()))
}

fn is_unit(word: &[Span]) -> bool {
    word.first().is_some_and(|(_, t)| {
        let bare = t.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        matches!(bare, "B" | "KiB" | "MiB" | "GiB" | "TiB" | "PiB" | "EiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(doc: &Doc) -> String {
        let mut out = Vec::new();
        doc.write(false, &mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("the document is UTF-8")
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        let mut doc = Doc::new(false);
        doc.paragraph(2, Tone::Plain, &format!("{} 1.56 GiB.", "x".repeat(70)));
        assert_eq!(text(&doc), format!("  {}\n  1.56 GiB.\n", "x".repeat(70)));
    }

    #[test]
    fn long_words_are_cut_not_spilled() {
        let mut doc = Doc::new(false);
        doc.paragraph(2, Tone::Plain, &"y".repeat(300));
        doc.entry(2, &[(Tone::Plain, "z".repeat(200))], 40, &[(Tone::Plain, "value".into())]);
        for line in text(&doc).lines() {
            assert!(line.width() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_long_label_gives_its_text_a_line() {
        let mut doc = Doc::new(false);
        doc.entry(2, &[(Tone::Plain, "l".repeat(50))], 40, &[(Tone::Plain, "passes".into())]);
        assert_eq!(text(&doc), format!("  {}\n{}passes\n", "l".repeat(50), " ".repeat(40)));
    }

    #[test]
    fn two_sides_share_a_line_or_not() {
        let mut doc = Doc::new(false);
        doc.two_sided(&[(Tone::Plain, "left".into())], &[(Tone::Plain, "right".into())]);
        doc.two_sided(&[(Tone::Plain, "l".repeat(78))], &[(Tone::Plain, "right".into())]);
        let out = text(&doc);
        assert!(out.lines().all(|l| l.width() <= WIDTH));
        assert_eq!(out.lines().next(), Some(format!("left{}right", " ".repeat(71)).as_str()));
        assert_eq!(out.lines().count(), 3);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\u{202e}c\nd"), "a\\u{1b}[31mb\\u{202e}c d");
        assert_eq!(printable("größe.py"), "größe.py");
        for c in ['\u{9b}', '\u{ad}', '\u{61c}', '\u{180e}', '\u{202e}', '\u{2066}', '\u{fff9}', '\u{fffb}', '\u{3164}']
        {
            assert!(printable(&format!("a{c}b")).is_ascii(), "{c:?}");
        }
    }

    #[test]
    fn endless_names_are_cut_in_the_middle() {
        let mut doc = Doc::new(false);
        doc.paragraph(2, Tone::Plain, &format!("start {}end", "x".repeat(100_000)));
        doc.paragraph(2, Tone::Plain, &"word ".repeat(100_000));
        let out = text(&doc);
        assert!(out.len() < 4000, "{}", out.len());
        assert!(out.starts_with("  start") && out.replace("\n  ", "").contains("xend"));
    }

    #[test]
    fn colour_changes_no_word() {
        let mut doc = Doc::new(false);
        doc.paragraph(0, Tone::Good, "fine");
        let mut out = Vec::new();
        doc.write(true, &mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8(out).expect("UTF-8"), "\u{1b}[32mfine\u{1b}[0m\n");
        assert_eq!(text(&doc), "fine\n");
    }

    #[test]
    fn the_middle_goes_first() {
        assert_eq!(shorten_middle("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten_middle("abcdefghijklmnop", 10), "abc…mnop");
    }
}
