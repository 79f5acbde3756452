//! Failures in words: OOM messages of every release and backend, and what looks like one.

mod advice;
mod clue;
mod foreign;
mod form;
mod forms;
mod oom;
mod release;
mod traceback;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

pub use advice::{About, Advice, Retry, SettingsLine};
pub use clue::{Clue, Doing};
pub use foreign::{Foreign, Source};
pub use oom::{Backend, Hint, Impossible, OomMessage, Process};
pub use release::{Release, Releases};
pub use traceback::Frame;

use crate::{Fact, Found, Line, Place, Recogniser};
use traceback::{Step, Traceback};

/// The recognisers of this family.
pub fn recognisers() -> Vec<Box<dyn Recogniser>> {
    vec![Box::new(clue::Clues::default()), Box::new(Messages::default())]
}

/// Ranks whose lines are kept apart; more share the last place.
const STREAMS: usize = 64;
/// A message that goes on for longer is over.
const MESSAGE_LINES: u32 = 40;
const MESSAGE_BYTES: usize = 16 << 10;
/// Lines in a row that add nothing before a message is given up.
const GAP: u32 = 2;

/// Words that begin something, besides those of the other tables.
const OWN_NEEDLES: [&str; 7] = [
    "out of memory",
    "tried to allocate",
    "trying to allocate",
    "outofmemoryerror",
    "allocation on device",
    "invalid buffer size",
    "traceback (most recent call last)",
];
static NEEDLES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let rest = [
        "out_of_memory",
        "errormemoryallocation",
        "erroroutofmemory",
        "memoryerror",
        "cannot allocate memory",
        "errno 12",
        "cuda error 2",
        "failed with oom",
        "is killed by signal",
        "maximum number of tokens",
    ];
    OWN_NEEDLES.iter().chain(&foreign::NEEDLES).chain(&advice::NEEDLES).chain(&rest).copied().collect()
});
static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Warning))\s*:")
        .unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))
});

/// Finds messages, with the traceback above each. Ranks whose lines are mixed are kept apart by their prefixes.
#[derive(Debug, Default)]
struct Messages {
    streams: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    rank: Option<u32>,
    open: Option<Open>,
    traceback: Option<Traceback>,
}

/// A message that the next line may go on.
#[derive(Debug)]
struct Open {
    place: Place,
    /// Its lines, put together without anything between.
    text: String,
    message: OomMessage,
    range: Range<usize>,
    lines: u32,
    gap: u32,
    frame: Option<Frame>,
}

impl Recogniser for Messages {
    fn needles(&self) -> &'static [&'static str] {
        &NEEDLES
    }

    fn is_inside(&self) -> bool {
        self.streams.iter().any(|s| s.open.is_some() || s.traceback.is_some())
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        let known = self.streams.iter().position(|s| s.rank == line.rank);
        let at = known.unwrap_or_else(|| {
            if self.streams.len() < STREAMS {
                self.streams.push(Stream { rank: line.rank, open: None, traceback: None });
            }
            self.streams.len() - 1
        });
        self.streams[at].line(line, found)
    }

    fn end(&mut self, found: &mut Found) {
        self.streams.drain(..).for_each(|mut stream| stream.close(found));
    }
}

impl Stream {
    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        let text = unboxed(line.text);
        if let Some(open) = &mut self.open {
            match open.go_on(text) {
                Going::Done => {
                    self.close(found);
                    return true;
                }
                Going::On => return true,
                Going::Unsure => return beside(text, line, None, found),
                Going::Over => self.close(found),
            }
        }
        if let Some(begun) = Traceback::begin(line.text) {
            self.traceback = Some(begun);
            return false;
        }
        let mut frame = None;
        if let Some(traceback) = &mut self.traceback {
            if traceback.line(line.text) == Step::Within {
                return false;
            }
            frame = self.traceback.take().and_then(Traceback::into_user);
        }
        self.begin(text, line, frame, found)
    }

    /// A line that belongs to nothing begun.
    fn begin(&mut self, text: &str, line: &Line<'_>, frame: Option<Frame>, found: &mut Found) -> bool {
        match forms::read(text) {
            Some((message, range)) if message.form != "bare" || foreign::read(text).is_none() => {
                let text = text.to_owned();
                let open = Open { place: line.place, text, message, range, lines: 1, gap: 0, frame };
                let is_over = open.is_over();
                self.open = Some(open);
                if is_over {
                    self.close(found);
                }
                true
            }
            _ => beside(text, line, frame, found),
        }
    }

    fn close(&mut self, found: &mut Found) {
        if let Some(open) = self.open.take() {
            let before = open.text.get(..open.range.end).unwrap_or("");
            let exception = EXCEPTION.captures(before).map(|c| c[1].to_owned());
            let exception =
                exception.or_else(|| before.contains("OutOfMemoryError").then(|| "OutOfMemoryError".to_owned()));
            let message = OomMessage { rank: self.rank, exception, user_frame: open.frame, ..open.message };
            found.add(open.place, self.rank, Fact::Oom(Box::new(message)));
        }
    }
}

/// What a line says that is no allocator's message.
fn beside(text: &str, line: &Line<'_>, frame: Option<Frame>, found: &mut Found) -> bool {
    let mut add = |fact| found.add(line.place, line.rank, fact);
    if let Some(retry) = advice::read_retry(text) {
        add(Fact::Retry(retry));
        return true;
    }
    if let Some(foreign) = foreign::read(text) {
        add(Fact::Foreign(Box::new(Foreign { user_frame: frame, ..foreign })));
        return true;
    }
    let advice = advice::read(text);
    let settings = advice::read_settings(text);
    let any = advice.is_some() || settings.is_some();
    for fact in advice.map(Fact::Advice).into_iter().chain(settings.map(Fact::Settings)) {
        add(fact);
    }
    any
}

enum Going {
    /// The line ends the message.
    Done,
    /// The line is part of it.
    On,
    /// The line added nothing yet.
    Unsure,
    /// The line is not part of it.
    Over,
}

impl Open {
    /// Whether nothing more is expected.
    fn is_over(&self) -> bool {
        let behind = self.text[self.range.end..].trim();
        match self.message.form {
            "bare" => !self.message.is_cut,
            "mps" | "mps_buffer_size" | "over_1eb" | "thc" | "malloc_async" | "preemptively_rejected" => {
                !self.message.is_cut
            }
            _ => !self.message.is_cut && !behind.is_empty() && !forms::is_hint_open(behind),
        }
    }

    fn go_on(&mut self, text: &str) -> Going {
        let trimmed = text.trim();
        let is_else = trimmed.is_empty()
            || trimmed.contains("Traceback (most recent")
            || EXCEPTION.find(trimmed).is_some_and(|m| m.start() == 0);
        if is_else || self.lines >= MESSAGE_LINES || self.text.len() + text.len() > MESSAGE_BYTES {
            return Going::Over;
        }
        let behind = self.text[self.range.end..].trim();
        let goes_on = if behind.is_empty() { forms::is_hint(trimmed) } else { forms::is_hint_open(behind) };
        if !self.message.is_cut && !goes_on {
            return Going::Over;
        }
        self.lines += 1;
        let before = self.text.len();
        self.text.push_str(text);
        match forms::read(&self.text) {
            Some((message, range))
                if range.start == self.range.start && (range.end > self.range.end || !message.is_cut) =>
            {
                // A second message of the same line count would begin behind the first.
                self.message = message;
                self.range = range;
                self.gap = 0;
                if self.is_over() { Going::Done } else { Going::On }
            }
            _ => {
                self.gap += 1;
                let is_another = forms::read(text).is_some_and(|(m, _)| m.form != "bare");
                if self.gap > GAP || is_another {
                    self.text.truncate(before);
                    return Going::Over;
                }
                Going::Unsure
            }
        }
    }
}

/// A line without the borders that rich draws around it.
fn unboxed(text: &str) -> &str {
    let is_border = |c: char| matches!(c, '│' | '┃' | '║');
    if text.contains(is_border) {
        text.trim_matches(|c| is_border(c) || c == ' ')
    } else {
        text.trim_end_matches(['\r', '\n'])
    }
}
