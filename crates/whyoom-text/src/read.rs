//! Reading a text as a stream: filter, lines, recognisers, readings, in constant memory.

use std::collections::HashMap;
use std::io::{self, Read};

use memchr::{memchr_iter, memchr2, memrchr2};
use serde::Serialize;

use crate::decode::{Encoding, Utf16, without_escapes};
use crate::filter::{Filter, Marks};
use crate::shape::{self, Known, Shapes, Sketch};
use crate::{Again, Found, Line, Place, Reading, Recogniser, prefix};

/// How much of a text is held at once, and how much comes out of it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A line is cut after so many bytes.
    pub line_bytes: usize,
    /// Readings beyond this number are counted and dropped.
    pub readings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 1 << 20, readings: 100_000 }
    }
}

/// What a text holds.
#[derive(Debug, Serialize)]
pub struct Text {
    /// In the order of their ends; a message that is repeated word for word stands once, with a count.
    pub readings: Vec<Reading>,
    /// How the bytes were read.
    pub encoding: Encoding,
    /// Bytes read.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// Lines that were longer than [`Limits::line_bytes`]; their ends were not looked at.
    pub cut_lines: u64,
    /// Readings beyond [`Limits::readings`].
    pub dropped_readings: u64,
}

/// Every recogniser of this crate, in the order in which they are asked.
pub fn recognisers() -> Vec<Box<dyn Recogniser>> {
    let (beside_failures, steps) = crate::steps::recognisers();
    let mut all = vec![beside_failures];
    all.extend(crate::messages::recognisers());
    all.extend(crate::tables::recognisers());
    all.extend(crate::monitors::recognisers());
    all.push(steps);
    all
}

/// Reads a text to its end with every recogniser of this crate.
///
/// # Errors
/// What `input` returns.
pub fn read(input: impl Read, limits: &Limits) -> io::Result<Text> {
    read_with(input, limits, &mut recognisers())
}

/// Reads a text to its end with the recognisers given (at most 64).
///
/// # Errors
/// What `input` returns, and recognisers whose words are too many for one automaton.
pub fn read_with(mut input: impl Read, limits: &Limits, recognisers: &mut [Box<dyn Recogniser>]) -> io::Result<Text> {
    let mut raw = vec![0; CHUNK];
    let mut len = fill(&mut input, &mut raw)?;
    let (encoding, mark) = Encoding::of(&raw[..len]);
    let mut utf16 = Utf16::new(encoding == Encoding::Utf16Be);
    let mut scan = Scan {
        filter: Filter::new(recognisers).map_err(io::Error::other)?,
        marks: Marks::default(),
        shapes: Shapes::default(),
        inside: 0,
        learners: bits(recognisers, |one| one.learns()),
        recognisers,
        encoding,
        line: 1,
        offset: mark as u64,
        is_at_start: true,
        found: Found::default(),
        kept: Kept { limit: limits.readings, ..Kept::default() },
    };
    scan.inside = scan.inside();
    let mut cut_lines = 0;
    let mut bytes = len as u64;
    let mut buffer: Vec<u8> = Vec::with_capacity(CHUNK * 2);
    let mut skipping = false;
    let mut fresh = mark;
    loop {
        if encoding == Encoding::Utf8 {
            buffer.extend_from_slice(&raw[fresh..len]);
        } else {
            utf16.push(&raw[fresh..len], &mut buffer);
        }
        fresh = 0;
        let is_end = len == 0;
        // A carriage return at the very end may be half of a line ending.
        let sure = if is_end { buffer.len() } else { buffer.len().saturating_sub(1) };
        let mut from = 0;
        if skipping {
            let end = memchr2(b'\n', b'\r', &buffer[..sure]);
            from = end.map_or(buffer.len(), |n| n + if buffer[n..].starts_with(b"\r\n") { 2 } else { 1 });
            skipping = end.is_none();
            scan.advance(&buffer[..from]);
        }
        let mut to = if is_end {
            sure
        } else {
            memrchr2(b'\n', b'\r', &buffer[from..sure.max(from)]).map_or(from, |n| from + n + 1)
        };
        if buffer.get(to) == Some(&b'\n') && to > from && buffer[to - 1] == b'\r' {
            to += 1;
        }
        cut_lines += scan.region(&buffer[from..to], limits.line_bytes);
        buffer.drain(..to);
        if is_end {
            break;
        }
        if buffer.len() > limits.line_bytes {
            scan.region(&buffer, limits.line_bytes);
            cut_lines += 1;
            buffer.clear();
            skipping = true;
        }
        len = fill(&mut input, &mut raw)?;
        bytes += len as u64;
    }
    for i in 0..scan.recognisers.len() {
        scan.recognisers[i].end(&mut scan.found);
        scan.kept.add(&mut scan.found);
    }
    let lines = scan.line - u64::from(scan.is_at_start);
    Ok(Text { readings: scan.kept.readings, encoding, bytes, lines, cut_lines, dropped_readings: scan.kept.dropped })
}

const CHUNK: usize = 1 << 18;
/// A line that has a shape is never longer.
const LEAST_FOR_SHAPES: usize = 4096;

/// Reads until the buffer is full or the input ends: pipes hand out small pieces.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match input.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}

/// The recognisers of which something is so, as bits.
fn bits(recognisers: &[Box<dyn Recogniser>], is_so: impl Fn(&dyn Recogniser) -> bool) -> u64 {
    recognisers.iter().enumerate().take(64).fold(0, |bits, (i, one)| bits | (u64::from(is_so(one.as_ref())) << i))
}

/// Where the reader stands: at the beginning of a line, before the bytes it is given next.
struct Scan<'a> {
    filter: Filter,
    marks: Marks,
    shapes: Shapes,
    /// The recognisers that are in the middle of something, as bits.
    inside: u64,
    /// Those that learn.
    learners: u64,
    recognisers: &'a mut [Box<dyn Recogniser>],
    encoding: Encoding,
    line: u64,
    offset: u64,
    /// Nothing of the present line was read yet.
    is_at_start: bool,
    found: Found,
    kept: Kept,
}

impl Scan<'_> {
    /// Goes over bytes that end with a line, or are the last of the text. The number of lines cut.
    fn region(&mut self, region: &[u8], line_bytes: usize) -> u64 {
        let mut at = 0;
        let mut counted = 0;
        let mut cut = 0;
        // Lines by their shapes: only where a byte is a byte, and no line of a shape is cut.
        let has_shapes = self.encoding == Encoding::Utf8 && line_bytes >= LEAST_FOR_SHAPES;
        self.marks.clear();
        while at < region.len() {
            let mut known = if has_shapes { self.again(region, counted, at) } else { None };
            if known.is_none() && self.inside == 0 {
                let Some(hit) = self.marks.find(&self.filter, region, at) else { break };
                let start = memrchr2(b'\n', b'\r', &region[at..hit]).map_or(at, |n| at + n + 1);
                if start > at && has_shapes {
                    known = self.again(region, counted, start);
                }
                at = start;
            }
            let ending = |end: usize| end + if region[end..].starts_with(b"\r\n") { 2 } else { 1 };
            if let Some(end) = known {
                at = ending(end).min(region.len());
                counted = end;
                continue;
            }
            let end = memchr2(b'\n', b'\r', &region[at..]).map_or(region.len(), |n| at + n);
            let len = end - at;
            cut += u64::from(len > line_bytes);
            let raw = &region[at..at + len.min(line_bytes)];
            let asked = self.marks.asked(&self.filter, region, at, end);
            let heeded = self.heeded(asked | self.inside, raw);
            if heeded != 0 {
                let hash = if has_shapes { shape::hash(raw) } else { None };
                let known = hash.and_then(|hash| self.shapes.find_by_hash(&region[at..], hash));
                if known.is_some_and(|known| self.tell(region, counted, at, known)) {
                    counted = end;
                } else {
                    self.advance(&region[counted..at]);
                    counted = at;
                    self.line(raw, heeded, hash.map(|hash| (asked, hash)));
                }
            }
            at = ending(end);
        }
        self.advance(&region[counted..]);
        cut
    }

    /// A line at `at` that is like one learnt: where it ends. All before it are counted then.
    fn again(&mut self, region: &[u8], counted: usize, at: usize) -> Option<usize> {
        let known = self.shapes.find(&region[at..])?;
        self.tell(region, counted, at, known).then_some(at + known.1)
    }

    /// Tells those who have learnt it of a line at `at` of a shape, whose length is known too. All before it is
    /// counted then; `false`, with nothing done, if somebody needs to see it in full.
    fn tell(&mut self, region: &[u8], counted: usize, at: usize, (index, len): (usize, usize)) -> bool {
        let &Known { asked, learnt, told, .. } = self.shapes.known(index);
        if (asked | self.inside) & !learnt != 0 {
            return false;
        }
        let before = (self.line, self.offset, self.is_at_start);
        self.advance(&region[counted..at]);
        let bytes = &region[at..at + len];
        let place = Place { line: self.line, offset: self.offset };
        let line = Again { bytes, slots: &self.shapes.slots, place };
        let mut left = (asked | self.inside) & told;
        let mut is_done = true;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            is_done = self.recognisers[i].again(index, &line);
            if !is_done {
                break;
            }
            if self.inside & (1 << i) == 0 && self.recognisers[i].is_inside() {
                self.inside |= 1 << i;
            }
        }
        if is_done {
            self.is_at_start = len == 0 && self.is_at_start;
            self.offset += len as u64;
        } else {
            (self.line, self.offset, self.is_at_start) = before;
        }
        is_done
    }

    /// Of the recognisers asked, those to which the line may matter.
    fn heeded(&mut self, asked: u64, raw: &[u8]) -> u64 {
        let (mut left, mut heeded) = (asked, 0);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            heeded |= u64::from(self.recognisers[i].heeds(raw)) << i;
        }
        heeded
    }

    /// Counts the lines and bytes of a piece of text that holds whole line endings.
    fn advance(&mut self, text: &[u8]) {
        // One line ending, between lines of known shapes.
        if text == b"\n" && self.encoding == Encoding::Utf8 {
            self.line += 1;
            self.offset += 1;
            self.is_at_start = true;
            return;
        }
        let feeds = memchr_iter(b'\n', text).count();
        let returns = memchr_iter(b'\r', text).filter(|i| text.get(i + 1) != Some(&b'\n')).count();
        self.line += (feeds + returns) as u64;
        self.offset += self.encoding.encoded_len(text);
        self.is_at_start = text.last().map_or(self.is_at_start, |last| matches!(last, b'\n' | b'\r'));
    }

    fn inside(&self) -> u64 {
        bits(self.recognisers, |one| one.is_inside())
    }

    fn line(&mut self, raw: &[u8], heeded: u64, asked: Option<(u64, u32)>) {
        let decoded = String::from_utf8_lossy(raw);
        let clean = memchr::memchr(0x1b, raw).map(|_| without_escapes(&decoded));
        let whole = clean.as_deref().unwrap_or(&decoded);
        let (text, rank) = prefix::strip(whole);
        let line = Line { text, whole, place: Place { line: self.line, offset: self.offset }, rank };
        if let Some((asked, hash)) = asked
            && (asked | self.inside) & !self.learners == 0
            && self.shapes.wants(hash, self.line)
            && self.learn(&line, raw, asked, hash).is_none()
        {
            self.shapes.refuse(hash, self.line);
        }
        for (i, recogniser) in self.recognisers.iter_mut().enumerate().take(64) {
            if heeded & (1 << i) != 0 && recogniser.line(&line, &mut self.found) {
                break;
            }
        }
        self.kept.add(&mut self.found);
        self.inside = self.inside();
    }

    /// Learns a line's shape, if all who see it can.
    fn learn(&mut self, line: &Line<'_>, raw: &[u8], asked: u64, hash: u32) -> Option<()> {
        let mut sketch = Sketch::of(line, raw)?;
        let index = self.shapes.place(raw, hash);
        let (mut learnt, mut told) = (0, 0);
        let mut left = asked | self.inside;
        // What one of them has learnt under the index before is gone, whoever refuses.
        self.shapes.forget(index);
        while left != 0 {
            let i = left.trailing_zeros();
            left &= left - 1;
            let is_claimed = self.recognisers[i as usize].learn(line, index, &mut sketch)?;
            learnt |= 1 << i;
            told |= 1 << i;
            if is_claimed {
                learnt |= u64::MAX << i;
                break;
            }
        }
        self.shapes.keep(index, hash, Known { shape: sketch.finish(), asked, learnt, told });
        Some(())
    }
}

/// The readings that go out.
#[derive(Default)]
struct Kept {
    readings: Vec<Reading>,
    /// Where the first of several equal ones stands.
    first: HashMap<u64, usize>,
    limit: usize,
    dropped: u64,
}

impl Kept {
    fn add(&mut self, found: &mut Found) {
        if found.is_empty() {
            return;
        }
        for reading in found.take() {
            // A summary at the end repeats a rank's message without its prefix: no rank is like any rank.
            let keys = [reading.fact.sameness(reading.rank), reading.fact.sameness(None)];
            let known = |key: Option<u64>| key.and_then(|key| self.first.get(&key)).copied();
            let unranked =
                known(keys[1]).filter(|&place| reading.rank.is_none() || self.readings[place].rank.is_none());
            if let Some(place) = known(keys[0]).or(unranked) {
                keys[0].into_iter().for_each(|key| _ = self.first.entry(key).or_insert(place));
                self.readings[place].merge(reading);
            } else if self.readings.len() < self.limit {
                let place = self.readings.len();
                keys.into_iter().flatten().for_each(|key| _ = self.first.entry(key).or_insert(place));
                self.readings.push(reading);
            } else {
                self.dropped += 1;
            }
        }
    }
}
