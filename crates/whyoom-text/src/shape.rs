//! Lines that differ in nothing but the values of their numbers: what is known of one need not be found out again.
//!
//! A log repeats a few lines a million times. A [`Shape`] is a line with its numbers taken out; another line has the
//! shape if all other bytes are the same and each number is of the same kind (with a point or not, with an exponent
//! or not, as many commas, a million or more or less). What decides beyond that is frozen: the length of a number
//! where a timestamp may stand, the number itself where it names a rank.

use crate::steps::{Digits, numbers};
use crate::{Line, Place};

/// Longer lines and lines with more numbers have no shape.
const MAX_LINE: usize = 512;
const MAX_NUMBERS: usize = 48;

/// A number of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Where its digits begin in the line.
    start: usize,
    is_negative: bool,
}

impl Slot {
    /// The digits in `line`, and the value.
    pub(crate) fn read(&self, line: &[u8]) -> Option<(Digits, f64)> {
        let digits = Digits::at(line, self.start)?;
        let text = str::from_utf8(line.get(self.start..digits.end)?).ok()?;
        let value = digits.value(text)?;
        Some((digits, if self.is_negative { -value } else { value }))
    }
}

/// A number of a line that is learnt.
#[derive(Debug, Clone, Copy)]
struct Taken {
    start: usize,
    digits: Digits,
    is_negative: bool,
}

/// The bit of a kind that says that there is no exponent.
const PLAIN: u32 = 1 << 1;

/// What numbers in the same place must have in common; `None` for those that are too large or too fine.
#[inline]
fn kind(digits: &Digits, is_negative: bool) -> Option<u32> {
    const MILLION: u64 = 1_000_000;
    let is_small = digits.is_below_one && digits.power_length <= 3 && digits.count <= 6;
    let is_plain = digits.power_length == 0 && digits.count <= Digits::EXACT;
    if !is_small && !is_plain || is_negative && digits.mantissa == 0 {
        return None;
    }
    let is_million = is_plain && digits.mantissa >= MILLION && digits.mantissa / 10_u64.pow(digits.decimals) >= MILLION;
    Some(
        u32::from(digits.decimals > 0)
            | if is_plain { PLAIN } else { 0 }
            | u32::from(is_million) << 2
            | u32::from(is_negative) << 3
            | digits.commas << 4,
    )
}

/// Whether digits hold the one number that a recogniser asks for by itself: an error code of Windows.
fn holds_an_error_code(digits: &[u8]) -> bool {
    const CODE: u32 = u32::from_be_bytes(*b"1455");
    let mut last = 0_u32;
    digits.iter().any(|digit| {
        last = last << 8 | u32::from(*digit);
        last == CODE
    })
}

/// The end of the number that begins at `start`, and its [`kind`], without its value where that does not decide.
fn skim(text: &[u8], start: usize, is_negative: bool) -> Option<(usize, u32)> {
    const SHORT: usize = 6;
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
    };
    let whole = digits(start);
    let mut end = start + whole;
    let mut decimals = 0;
    let next = text.get(end);
    if whole == 0 || whole > SHORT || is_negative || matches!(next, Some(b',' | b'e' | b'E')) {
        let digits = Digits::at(text, start)?;
        return Some((digits.end, kind(&digits, is_negative)?));
    }
    if next == Some(&b'.') {
        decimals = digits(end + 1);
        let after = text.get(end + 1 + decimals);
        if decimals > 0 && (whole + decimals > Digits::EXACT as usize || matches!(after, Some(b'e' | b'E'))) {
            let digits = Digits::at(text, start)?;
            return Some((digits.end, kind(&digits, is_negative)?));
        }
        end += if decimals > 0 { 1 + decimals } else { 0 };
    }
    Some((end, u32::from(decimals > 0) | PLAIN))
}

#[derive(Debug, Clone)]
struct Piece {
    /// Bytes before the number that are always the same.
    literal: usize,
    kind: u32,
    is_negative: bool,
    /// Its length decides, or the number.
    is_fixed: bool,
    /// Its length, where that decides.
    length: Option<usize>,
    /// The number, where that decides.
    text: Option<Box<[u8]>>,
}

/// A line with its numbers taken out.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    literals: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Shape {
    /// Whether a line at the beginning of `text` has the shape: its length, and its numbers in `slots`.
    pub(crate) fn fit(&self, text: &[u8], slots: &mut Vec<Slot>) -> Option<usize> {
        slots.clear();
        let mut literals = self.literals.as_slice();
        let mut at = 0;
        for piece in &self.pieces {
            let (literal, rest) = literals.split_at(piece.literal);
            literals = rest;
            if text.get(at..at + literal.len())? != literal {
                return None;
            }
            at += piece.literal;
            let (end, kind) = skim(text, at, piece.is_negative)?;
            if kind != piece.kind
                || piece.is_fixed
                    && (piece.length.is_some_and(|length| end - at != length)
                        || piece.text.as_deref().is_some_and(|number| *number != text[at..end]))
                || end - at >= 4 && holds_an_error_code(&text[at..end])
            {
                return None;
            }
            slots.push(Slot { start: at, is_negative: piece.is_negative });
            at = end;
        }
        if !text[at..].starts_with(literals) {
            return None;
        }
        at += literals.len();
        text.get(at).is_none_or(|next| matches!(next, b'\n' | b'\r')).then_some(at)
    }
}

/// A shape while recognisers say what of it must not change.
#[derive(Debug)]
pub struct Sketch {
    shape: Shape,
    /// Where the numbers stand in the line, and where the text begins in it.
    slots: Vec<Taken>,
    text: usize,
}

impl Sketch {
    /// The shape of a line, unless its bytes are not those of the input (`raw`), or it is long.
    pub(crate) fn of(line: &Line<'_>, raw: &[u8]) -> Option<Self> {
        let whole = line.whole.as_bytes();
        if raw != whole || raw.len() > MAX_LINE {
            return None;
        }
        let text = whole.len() - line.text.len();
        let (front, _) = line.whole.split_at(text);
        if front.bytes().next_back().is_some_and(|last| !matches!(last, b' ' | b':' | b'|' | b']' | b'>')) {
            return None;
        }
        let mut slots = Vec::new();
        for (part, begin) in [(front, 0), (line.text, text)] {
            for number in numbers(part) {
                let is_negative = part.as_bytes()[number.start] == b'-';
                let start = number.start + usize::from(is_negative);
                let digits = Digits::at(part.as_bytes(), start)?;
                let digits = Digits { end: digits.end + begin, ..digits };
                slots.push(Taken { start: start + begin, digits, is_negative });
            }
        }
        if slots.len() > MAX_NUMBERS {
            return None;
        }
        let mut shape = Shape { literals: Vec::new(), pieces: Vec::new() };
        let mut at = 0;
        for slot in &slots {
            let literal = whole.get(at..slot.start)?;
            // What recognisers ask for may end in digits.
            let ends = |word: &str| {
                literal.len() >= word.len()
                    && literal[literal.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
            };
            if ends("errno ") || ends("cuda error ") {
                return None;
            }
            shape.literals.extend_from_slice(literal);
            shape.pieces.push(Piece {
                literal: literal.len(),
                kind: kind(&slot.digits, slot.is_negative)?,
                is_negative: slot.is_negative,
                is_fixed: ends("gpu "),
                length: ends("gpu ").then_some(slot.digits.end - slot.start),
                text: ends("gpu ").then(|| whole[slot.start..slot.digits.end].into()),
            });
            at = slot.digits.end;
        }
        shape.literals.extend_from_slice(&whole[at..]);
        let mut sketch = Self { shape, slots, text };
        // A prefix is what it is by its number of digits.
        sketch.fix_lengths(0, text.max(crate::prefix::decides(line.whole)));
        sketch.fix_lengths(text, text + crate::prefix::decides(line.text));
        if let Some(rank) = line.rank {
            for index in 0..sketch.slots.len() {
                if sketch.slots[index].start < text && sketch.slots[index].digits.mantissa == u64::from(rank) {
                    sketch.freeze(index, whole);
                }
            }
        }
        Some(sketch)
    }

    /// Keeps the lengths of the numbers in a part of the line.
    pub(crate) fn fix_lengths(&mut self, from: usize, to: usize) {
        for (piece, slot) in self.shape.pieces.iter_mut().zip(&self.slots) {
            if slot.start < to && slot.digits.end > from {
                (piece.is_fixed, piece.length) = (true, Some(slot.digits.end - slot.start));
            }
        }
    }

    /// Keeps the numbers that touch a part of the line as they are.
    pub(crate) fn freeze_whole(&mut self, line: &Line<'_>, from: usize, to: usize) {
        for index in 0..self.slots.len() {
            if self.slots[index].start <= to && self.slots[index].digits.end >= from {
                self.freeze(index, line.whole.as_bytes());
            }
        }
    }

    /// The number without a sign that begins at a place of the line.
    pub(crate) fn slot_of_whole(&self, start: usize) -> Option<(usize, Digits)> {
        let index = self.slots.iter().position(|slot| slot.start == start && !slot.is_negative)?;
        Some((index, self.slots[index].digits))
    }

    fn freeze(&mut self, index: usize, whole: &[u8]) {
        let slot = self.slots[index];
        self.shape.pieces[index].is_fixed = true;
        self.shape.pieces[index].text = Some(whole[slot.start..slot.digits.end].into());
    }

    /// Keeps the numbers that touch a part of the text as they are.
    pub(crate) fn freeze_text(&mut self, line: &Line<'_>, from: usize, to: usize) {
        self.freeze_whole(line, from + self.text, to + self.text);
    }

    /// The number that begins at a place of the text, its sign included.
    pub(crate) fn slot(&self, start: usize) -> Option<usize> {
        let start = start + self.text;
        self.slots.iter().position(|slot| slot.start - usize::from(slot.is_negative) == start)
    }

    /// Where a number stands in the text.
    pub(crate) fn digits(&self, slot: usize) -> Digits {
        let digits = self.slots[slot].digits;
        Digits { end: digits.end - self.text, ..digits }
    }

    pub(crate) fn finish(self) -> Shape {
        self.shape
    }
}

/// A line of a shape that is known.
#[derive(Debug, Clone, Copy)]
pub struct Again<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) slots: &'a [Slot],
    pub(crate) place: Place,
}

/// A shape, and who knows lines of it; recognisers as bits.
#[derive(Debug)]
pub(crate) struct Known {
    pub shape: Shape,
    /// Those that ask for such lines.
    pub asked: u64,
    /// Those that have learnt it, and those that never see such a line since another one claims it.
    pub learnt: u64,
    /// Those that are told of such lines.
    pub told: u64,
}

/// The shapes that lines lately had.
#[derive(Debug)]
pub(crate) struct Shapes {
    known: Vec<Known>,
    /// What [`hash`] makes of a line of each shape.
    hashes: Vec<u32>,
    /// Indices of the shapes, the latest first.
    order: Vec<usize>,
    /// The shape that came after each one when it last came.
    follower: Vec<usize>,
    last: usize,
    /// Numbers of the line found.
    pub slots: Vec<Slot>,
    /// Hashes of lines seen once.
    seen: Vec<u32>,
    /// Hashes of lines that could not be learnt, and the line at which to try again.
    refused: Vec<(u32, u64)>,
}

/// Shapes that are kept, and how many of them are looked at for a line.
const MAX_SHAPES: usize = 256;
const MAX_TRIED: usize = 6;
const HASHES: usize = 1 << 10;
/// Lines after which one that could not be learnt is tried again.
const PATIENCE: u64 = 1 << 9;

impl Default for Shapes {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            hashes: Vec::new(),
            order: Vec::new(),
            follower: Vec::new(),
            last: 0,
            slots: Vec::new(),
            seen: vec![0; HASHES],
            refused: vec![(0, 0); HASHES],
        }
    }
}

impl Shapes {
    pub(crate) fn known(&self, index: usize) -> &Known {
        &self.known[index]
    }

    /// The shape of the line at the beginning of `text`, and the line's length; its numbers are in `slots`.
    pub(crate) fn find(&mut self, text: &[u8]) -> Option<(usize, usize)> {
        let guess = self.follower.get(self.last).copied()?;
        if let Some(len) = self.known[guess].shape.fit(text, &mut self.slots) {
            self.last = guess;
            return Some((guess, len));
        }
        for rank in 0..self.order.len().min(MAX_TRIED) {
            let index = self.order[rank];
            if index == guess {
                continue;
            }
            if let Some(len) = self.known[index].shape.fit(text, &mut self.slots) {
                self.come(index);
                return Some((index, len));
            }
        }
        None
    }

    /// The same among all shapes, by the line's hash; `text` begins with the line.
    pub(crate) fn find_by_hash(&mut self, text: &[u8], hash: u32) -> Option<(usize, usize)> {
        for index in 0..self.hashes.len() {
            if self.hashes[index] == hash
                && let Some(len) = self.known[index].shape.fit(text, &mut self.slots)
            {
                self.come(index);
                return Some((index, len));
            }
        }
        None
    }

    /// Notes that a line of a shape came.
    fn come(&mut self, index: usize) {
        if let Some(rank) = self.order.iter().position(|other| *other == index) {
            self.order[..=rank].rotate_right(1);
        }
        if let Some(follower) = self.follower.get_mut(self.last) {
            *follower = index;
        }
        self.last = index;
    }

    /// Whether a line is worth learning: one like it came before, and was not refused lately.
    pub(crate) fn wants(&mut self, hash: u32, at: u64) -> bool {
        let place = hash as usize % HASHES;
        let was_seen = std::mem::replace(&mut self.seen[place], hash) == hash;
        was_seen && (self.refused[place].0 != hash || self.refused[place].1 <= at)
    }

    /// Notes that a line cannot be learnt.
    pub(crate) fn refuse(&mut self, hash: u32, at: u64) {
        self.refused[hash as usize % HASHES] = (hash, at + PATIENCE);
    }

    /// The index under which a line's shape is to be learnt: its own, a new one, or that of the shape not seen for
    /// the longest time, which is forgotten.
    pub(crate) fn place(&mut self, raw: &[u8], hash: u32) -> usize {
        if let Some((index, _)) = self.find_by_hash(raw, hash) {
            return index;
        }
        if self.known.len() < MAX_SHAPES { self.known.len() } else { self.order.last().copied().unwrap_or(0) }
    }

    /// Lets nobody be told of the lines of a shape.
    pub(crate) fn forget(&mut self, index: usize) {
        if let Some(known) = self.known.get_mut(index) {
            (known.asked, known.learnt, known.told) = (u64::MAX, 0, 0);
        }
    }

    pub(crate) fn keep(&mut self, index: usize, hash: u32, known: Known) {
        if index == self.known.len() {
            self.known.push(known);
            self.hashes.push(hash);
            self.order.insert(0, index);
            self.follower.push(index);
        } else {
            (self.known[index], self.hashes[index]) = (known, hash);
        }
        self.come(index);
    }
}

/// A number for a line's shape, nearly its own: the line with each run of digits as one.
pub(crate) fn hash(line: &[u8]) -> Option<u32> {
    if line.len() > MAX_LINE {
        return None;
    }
    let mut hash = 0x811c_9dc5_u32;
    let mut was_digit = false;
    for &byte in line {
        let is_digit = byte.is_ascii_digit();
        if !(is_digit && was_digit) {
            hash = (hash ^ u32::from(if is_digit { b'0' } else { byte })).wrapping_mul(0x0100_0193);
        }
        was_digit = is_digit;
    }
    Some(hash.max(1))
}
