//! Where a run reads from and writes to.

use std::io::{self, BufWriter, IsTerminal, Read, Write};

use anstream::{AutoStream, ColorChoice};
use whyoom_report::printable;

use crate::Exit;

/// Standard input, output and error of one run, and what is known of them.
pub struct Streams<'a> {
    /// Read for the file `-`.
    pub stdin: Box<dyn Read + Send + 'a>,
    /// Results, help and version.
    pub stdout: Box<dyn Write + 'a>,
    /// Complaints.
    pub stderr: Box<dyn Write + 'a>,
    /// Whether `stdout` shows colours, unless `--color` says otherwise.
    pub stdout_colour: bool,
    /// Whether `stderr` shows colours, unless `--color` says otherwise.
    pub stderr_colour: bool,
    /// Whether standard error is a terminal, so that progress may be drawn on it.
    pub shows_progress: bool,
}

impl Streams<'static> {
    /// Those of the process. Colour follows the terminal, `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.
    pub fn standard() -> Self {
        Self {
            stdin: Box::new(io::stdin()),
            stdout: Box::new(BufWriter::new(io::stdout())),
            stderr: Box::new(io::stderr()),
            stdout_colour: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            stderr_colour: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
            shows_progress: io::stderr().is_terminal(),
        }
    }
}

impl<'a> Streams<'a> {
    /// Buffers in place of the process's streams; no terminal, so no colour and no progress.
    pub fn captured(stdin: &'a [u8], stdout: &'a mut Vec<u8>, stderr: &'a mut Vec<u8>) -> Self {
        Self {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            stdout_colour: false,
            stderr_colour: false,
            shows_progress: false,
        }
    }

    /// Writes a result. A reader that went away is no error: the run ends quietly with the status it had earned.
    pub(crate) fn print(&mut self, exit: Exit, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
        let written = write(&mut *self.stdout);
        self.outcome(written, exit)
    }

    /// Writes what is still buffered.
    pub(crate) fn finish(&mut self, exit: Exit) -> Exit {
        let written = self.stdout.flush();
        self.outcome(written, exit)
    }

    fn outcome(&mut self, written: io::Result<()>, exit: Exit) -> Exit {
        match written {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                // What is still buffered cannot be written either, and one complaint is enough.
                self.stdout = Box::new(io::sink());
                self.complain(&format!("cannot write the result: {e}"), &["Is the disk full?"], None);
                Exit::Unreadable
            }
            _ => exit,
        }
    }

    /// Says what failed, what to try, and last where.
    pub(crate) fn complain(&mut self, what: &str, try_this: &[&str], path: Option<&str>) {
        let mut text = format!("whyoom: {}\n", printable(what));
        for line in try_this {
            text.push_str("  ");
            text.push_str(&printable(line));
            text.push('\n');
        }
        if let Some(path) = path {
            text.push_str("  ");
            text.push_str(&printable(path));
            text.push('\n');
        }
        self.complain_raw(&text);
    }

    /// Writes to standard error. If that fails there is nobody left to tell.
    pub(crate) fn complain_raw(&mut self, text: &str) {
        let _ = self.stderr.write_all(text.as_bytes());
        let _ = self.stderr.flush();
    }
}
