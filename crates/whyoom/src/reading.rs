//! Telling snapshots from texts by their content, and reading either.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use whyoom_diagnosis::{InputMeta, TextInput};
use whyoom_snapshot::{ReadError, ReadOptions, decompressed, read_path, read_reader};
use whyoom_text::{Encoding, Fact, Limits, Place, Reading, Text, profilers::read_kineto, sniff};

use crate::pipeline::Loaded;

/// So much is looked at to tell what an input is, in bytes.
const HEAD: usize = 1 << 16;
/// Texts up to this size are kept whole, in bytes.
const SHORT: usize = 1 << 16;

/// What was read.
pub(crate) enum Content {
    Snapshot(Box<Loaded>),
    Text(TextInput),
}

/// Reads a file, whatever it is.
pub(crate) fn file(path: &Path, options: &ReadOptions) -> Result<Content, ReadError> {
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let name = path.to_string_lossy().into_owned();
    if !metadata.is_file() {
        if metadata.is_dir() {
            return snapshot(path, options);
        }
        return piped(file, &name, options);
    }
    let Ok(mut stream) = decompressed(file) else { return snapshot(path, options) };
    let Ok(head) = head(&mut stream) else { return snapshot(path, options) };
    if !is_text(&head) {
        return snapshot(path, options);
    }
    let size_bytes = metadata.len();
    let whole = head.as_slice().chain(stream);
    let text = text(whole, &head, InputMeta { path: name, size_bytes })?;
    // JSON that holds no fact is no text that anybody meant: the reader of snapshots says what it lacks.
    if looks_like_json(&head) && text.text.readings.is_empty() {
        return snapshot(path, options);
    }
    Ok(Content::Text(text))
}

/// Reads a pipe, whatever comes through it. What was read of it to tell what it is goes before the rest.
pub(crate) fn piped(mut stdin: impl Read + Send, name: &str, options: &ReadOptions) -> Result<Content, ReadError> {
    let mut seen = Vec::new();
    let mut kept = Kept { from: &mut stdin, seen: &mut seen };
    // What cannot be decompressed is for the reader of snapshots to name.
    let head = decompressed(&mut kept).and_then(|mut stream| head(&mut stream)).unwrap_or_default();
    let whole = seen.as_slice().chain(stdin);
    if is_text(&head) {
        let meta = InputMeta { path: name.to_owned(), size_bytes: 0 };
        return text(decompressed(whole)?, &head, meta).map(Content::Text);
    }
    let snapshot = read_reader(whole, options)?;
    let meta = InputMeta { path: name.to_owned(), size_bytes: snapshot.input_bytes };
    Ok(Content::Snapshot(Box::new((meta, snapshot))))
}

/// Reads a log from a pipe and passes on what comes through, as it comes.
pub(crate) fn passed_on(stdin: impl Read, to: &mut dyn Write) -> Result<TextInput, ReadError> {
    let mut tee = Tee { from: stdin, to, last: b'\n', is_broken: false };
    let text = text(&mut tee, b"", InputMeta { path: "-".into(), size_bytes: 0 })?;
    // What was passed on ends where it ended; the answer stands apart from it.
    let gap: &[u8] = if tee.last == b'\n' { b"\n" } else { b"\n\n" };
    if !tee.is_broken {
        _ = tee.to.write_all(gap);
    }
    Ok(text)
}

fn snapshot(path: &Path, options: &ReadOptions) -> Result<Content, ReadError> {
    let snapshot = read_path(path, options)?;
    let size_bytes = std::fs::metadata(path).map_or(snapshot.input_bytes, |m| m.len());
    Ok(Content::Snapshot(Box::new((InputMeta { path: path.to_string_lossy().into_owned(), size_bytes }, snapshot))))
}

/// The first bytes; fewer at the end, or where compressed data is damaged.
fn head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    match stream.take(HEAD as u64).read_to_end(&mut head) {
        Err(error) if head.is_empty() => Err(error),
        _ => Ok(head),
    }
}

/// Whether the bytes begin a text that facts can be in. Pages may hold a snapshot, and a Git LFS pointer stands for one.
fn is_text(head: &[u8]) -> bool {
    let start = head.trim_ascii_start();
    let begins = |mark: &[u8]| start.get(..mark.len()).is_some_and(|s| s.eq_ignore_ascii_case(mark));
    !head.is_empty()
        && ![&b"<!doctype"[..], b"<html", b"version https://git-lfs"].iter().any(|mark| begins(mark))
        && sniff(&without_nuls(head))
}

/// A log that was cut while it was written to has a run of NULs before its next line.
fn without_nuls(head: &[u8]) -> Vec<u8> {
    head.iter().copied().filter(|b| *b != 0).collect()
}

fn looks_like_json(head: &[u8]) -> bool {
    let start = head.trim_ascii_start();
    let next = start.get(1..).unwrap_or_default().trim_ascii_start().first();
    // A log's line may begin with a bracket too: `[rank1]: …`.
    match start.first() {
        Some(b'{') => matches!(next, Some(b'"' | b'}') | None),
        Some(b'[') => matches!(next, Some(b'{' | b'[' | b']' | b'"') | None),
        _ => false,
    }
}

/// Whether the bytes begin a profiler's trace.
fn is_trace(head: &[u8]) -> bool {
    let has = |word: &[u8]| head.windows(word.len()).any(|w| w == word);
    looks_like_json(head)
        && (has(b"\"traceEvents\"") || (has(b"\"ph\"") && has(b"\"ts\"")) || has(b"\"deviceProperties\""))
}

fn text(reader: impl Read, head: &[u8], meta: InputMeta) -> Result<TextInput, ReadError> {
    let mut counted = Short { from: reader, kept: Some(Vec::new()), bytes: 0, damage: None };
    let text = if is_trace(head) { trace(&mut counted)? } else { whyoom_text::read(&mut counted, &Limits::default())? };
    let size_bytes = if meta.size_bytes == 0 { counted.bytes } else { meta.size_bytes };
    let short = counted.kept.map(|bytes| String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned());
    Ok(TextInput { meta: InputMeta { size_bytes, ..meta }, text, short, damage: counted.damage })
}

fn trace(reader: impl Read) -> Result<Text, ReadError> {
    let found = read_kineto(reader).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let is_empty = found.devices.is_empty();
    let place = Place { line: 1, offset: 0 };
    let reading = Reading { place, rank: None, occurrences: 1, fact: Fact::ProfilerTrace(Box::new(found)) };
    Ok(Text {
        readings: if is_empty { Vec::new() } else { vec![reading] },
        encoding: Encoding::Utf8,
        bytes: 0,
        lines: 0,
        cut_lines: 0,
        dropped_readings: 0,
    })
}

/// Keeps all that comes through.
struct Kept<'a, R> {
    from: &'a mut R,
    seen: &'a mut Vec<u8>,
}

impl<R: Read> Read for Kept<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.seen.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// Keeps what comes through as long as it is short.
struct Short<R> {
    from: R,
    kept: Option<Vec<u8>>,
    bytes: u64,
    /// Why it ends early.
    damage: Option<String>,
}

impl<R: Read> Read for Short<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.from.read(buffer) {
            Ok(read) => read,
            // What came before it is text all the same.
            Err(error) if self.bytes > 0 && error.kind() != io::ErrorKind::Interrupted => {
                self.damage = Some(crate::pipeline::without_number(&error));
                0
            }
            Err(error) => return Err(error),
        };
        self.bytes += read as u64;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&buffer[..read]);
        }
        if self.bytes > SHORT as u64 {
            self.kept = None;
        }
        Ok(read)
    }
}

/// Passes on what is read. Where nobody listens any more, reading goes on.
struct Tee<'a, R> {
    from: R,
    to: &'a mut dyn Write,
    /// The last byte that went through.
    last: u8,
    is_broken: bool,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.last = buffer[..read].last().copied().unwrap_or(self.last);
        if !self.is_broken {
            self.is_broken = self.to.write_all(&buffer[..read]).and_then(|()| self.to.flush()).is_err();
        }
        Ok(read)
    }
}
