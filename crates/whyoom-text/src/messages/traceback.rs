//! Tracebacks before a message: which line of the user's code was running.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// A frame of a Python traceback.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// As printed.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// The function, if it is printed.
    pub function: Option<String>,
    /// The line of code, if it is printed.
    pub code: Option<String>,
}

static PLAIN: LazyLock<Regex> = LazyLock::new(|| regex(r#"File "([^"]+)", line ([0-9]{1,9})(?:, in (.+))?"#));
static RICH: LazyLock<Regex> = LazyLock::new(|| regex(r"^[│|] (\S.*?):([0-9]{1,9}) in (\S+)"));
static RICH_CODE: LazyLock<Regex> = LazyLock::new(|| regex(r"❱ *[0-9]+ │? ?(.*?)\s*│?$"));
static IPYTHON: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:File |Cell |Input )?(In ?\[[0-9]+\]|[^\s:]+\.py|<ipython[^>]+>)(?::|, line )([0-9]{1,9})(?:, in ([^\s(]+))?",
    )
});
static IPYTHON_CODE: LazyLock<Regex> = LazyLock::new(|| regex(r"^-+> ?[0-9]+ (.*)$"));
static EXCEPTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)\b"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Rich,
    IPython,
}

/// A traceback that is being read. Only the deepest frame of the user's is held.
#[derive(Debug)]
pub(super) struct Traceback {
    style: Style,
    user: Option<Frame>,
    /// The frame last read is the user's, and its code comes next.
    wants_code: bool,
    /// Lines behind the header.
    lines: u32,
}

/// What a line is to a traceback.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Part of it.
    Within,
    /// The exception, or something else behind it.
    Behind,
}

impl Traceback {
    /// A traceback, if the line is the header of one.
    pub(super) fn begin(whole: &str) -> Option<Self> {
        let at = whole.find("Traceback (most recent call last)")?;
        let style = if whole[..at].contains(['╭', '┌']) {
            Style::Rich
        } else if EXCEPTION.is_match(whole) {
            Style::IPython
        } else {
            Style::Plain
        };
        Some(Self { style, user: None, wants_code: false, lines: 0 })
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, text: &str) -> Step {
        self.lines += 1;
        let trimmed = text.trim();
        // Longer than Python's recursion limit prints, so something else.
        if self.lines > 10_000 {
            return Step::Behind;
        }
        match self.style {
            Style::Plain => self.plain(text, trimmed),
            Style::Rich => {
                if trimmed.starts_with(['╰', '└']) {
                    self.style = Style::Plain;
                } else if let Some(found) = RICH.captures(trimmed) {
                    self.frame(&found);
                } else if let Some(code) = RICH_CODE.captures(trimmed) {
                    self.code(&code[1]);
                }
                Step::Within
            }
            Style::IPython => {
                if let Some(found) = IPYTHON.captures(trimmed) {
                    self.frame(&found);
                } else if let Some(code) = IPYTHON_CODE.captures(trimmed) {
                    self.code(&code[1]);
                } else if EXCEPTION.is_match(text) {
                    return Step::Behind;
                }
                Step::Within
            }
        }
    }

    fn plain(&mut self, text: &str, trimmed: &str) -> Step {
        if let Some(found) = PLAIN.captures(text) {
            self.frame(&found);
            return Step::Within;
        }
        if self.wants_code && !EXCEPTION.is_match(text) {
            self.code(trimmed);
            return Step::Within;
        }
        let is_mark = !trimmed.is_empty() && trimmed.bytes().all(|b| matches!(b, b'^' | b'~' | b' '));
        if is_mark || text.starts_with("  ") || trimmed.starts_with("[Previous line repeated") {
            Step::Within
        } else {
            Step::Behind
        }
    }

    fn frame(&mut self, found: &regex::Captures<'_>) {
        let file = &found[1];
        self.wants_code = is_users(file);
        if self.wants_code {
            let function = found.get(3).map(|f| bounded(f.as_str().trim()));
            self.user = Some(Frame { file: bounded(file), line: found[2].parse().unwrap_or(0), function, code: None });
        }
    }

    fn code(&mut self, text: &str) {
        if std::mem::take(&mut self.wants_code)
            && let Some(user) = &mut self.user
        {
            user.code = Some(bounded(text.trim()));
        }
    }

    /// The deepest frame that is no library's.
    pub(super) fn into_user(self) -> Option<Frame> {
        self.user
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(400).collect()
}

/// Whether a file is the user's: not installed, not Python's own, not generated.
fn is_users(file: &str) -> bool {
    let library = [
        "site-packages",
        "dist-packages",
        "/torch/",
        "\\torch\\",
        "<frozen",
        "<string>",
        "/lib/python",
        "\\lib\\",
        "/tmp/torchinductor",
    ];
    !library.iter().any(|part| file.contains(part))
}
