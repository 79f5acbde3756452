//! The fast lane: runs of dicts with the same keys, which is what a snapshot consists of.
//!
//! What it does shows nowhere but in the time it takes: where a dict turns out to be another than expected, the stack
//! is laid out as the plain opcodes would have left it, and they go on.

use crate::cursor::Cursor;
use crate::guess::Guess;
use crate::list_cache::ListCache;
use crate::machine::{Machine, grow};
use crate::memo::Memo;
use crate::op;
use crate::shape::TEMPLATE_KEYS;
use crate::value::NO_MEMO;
use crate::{ErrorKind, Ref, Sink, Value};

/// How a dict in the lane ended.
enum End {
    /// All of it was read.
    Closed,
    /// A key other than the expected ones stands here.
    OtherKey,
    /// A key was read and its value is none of the simple ones.
    OtherValue,
}

impl<'a, S: Sink> Machine<'a, S> {
    /// Reads dicts of the shape expected at this depth. `cursor` is behind the first one's `EMPTY_DICT`; returns
    /// where the plain opcodes go on.
    #[inline(never)]
    pub(crate) fn dicts(&mut self, mut cursor: Cursor<'a>) -> Result<Cursor<'a>, ErrorKind> {
        let depth = self.marks.len();
        let mut values = [Value::NONE; TEMPLATE_KEYS];
        loop {
            self.left_at_op = cursor.left() + 1;
            let memo = memoize(&mut cursor, &mut self.memo, Ref::EMPTY_DICT)?;
            if self.stack.len() == self.stack.capacity() {
                grow(&mut self.stack, self.stack_cap)?;
            }
            let is_expected = self.templates.get(depth).is_some_and(|t| !t.texts.is_empty());
            if !is_expected || cursor.peek() != Some(op::MARK) {
                self.stack.push(Value::through(Ref::EMPTY_DICT, memo));
                return Ok(cursor);
            }
            cursor.skip(1);
            let (count, end) = self.items(&mut cursor, depth, &mut values)?;
            if !matches!(end, End::Closed) {
                self.leave(memo, depth, &values[..count], &end)?;
                return Ok(cursor);
            }
            let Some(template) = self.templates.get_mut(depth) else { return Ok(cursor) };
            let Some(shape) = template.shape(count, &mut self.shapes) else {
                self.leave(memo, depth, &values[..count], &End::OtherKey)?;
                self.set_items()?;
                return Ok(cursor);
            };
            let made = self.sink.row(shape, &template.texts[..count], &values[..count])?;
            self.memo.follow(memo, made)?;
            self.stack.push(Value::through(made, memo));
            if cursor.peek() != Some(op::EMPTY_DICT) {
                return Ok(cursor);
            }
            cursor.skip(1);
        }
    }

    /// Reads keys and values up to `SETITEMS`. Returns how many values were read.
    #[inline(always)]
    fn items(
        &mut self,
        cursor: &mut Cursor<'a>,
        depth: usize,
        values: &mut [Value; TEMPLATE_KEYS],
    ) -> Result<(usize, End), ErrorKind> {
        let Some(template) = self.templates.get_mut(depth) else { return Ok((0, End::OtherKey)) };
        let mut count = 0;
        loop {
            let (Some(key), Some(ahead)) = (template.keys.get_mut(count), cursor.peek_u64()) else {
                return Ok((count, End::OtherKey));
            };
            if ahead & key.mask == key.bits {
                cursor.skip(key.len);
                let value = match key.value.read(cursor, &mut self.memo)? {
                    None => other_value(&mut key.value, cursor, &mut self.memo, &mut self.sink, &mut self.lists)?,
                    value => value,
                };
                let Some(value) = value else { return Ok((count, End::OtherValue)) };
                values[count] = value;
                count += 1;
                continue;
            }
            if count == 0 {
                return Ok((count, End::OtherKey));
            }
            if ahead as u8 == op::SETITEMS {
                cursor.skip(1);
                return Ok((count, End::Closed));
            }
            match pair(cursor, values[count - 1], &mut self.memo, &mut self.sink)? {
                Some(pair) => values[count - 1] = pair,
                None => return Ok((count, End::OtherKey)),
            }
        }
    }

    /// Lays the stack out as the plain opcodes would have it in the middle of this dict.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, memo: u32, depth: usize, values: &[Value], end: &End) -> Result<(), ErrorKind> {
        self.push(Value::through(Ref::EMPTY_DICT, memo))?;
        self.mark()?;
        let pending = usize::from(matches!(end, End::OtherValue));
        for at in 0..values.len() + pending {
            if let Some(key) = self.templates.get(depth).and_then(|t| t.key(at)) {
                self.push(key)?;
            }
            if let Some(value) = values.get(at) {
                self.push(*value)?;
            }
        }
        Ok(())
    }
}

/// Length of the opcode at the cursor if it stores at the next free memo index, which is where all writers store.
#[inline(always)]
fn store_len(cursor: &Cursor<'_>, memo: &Memo) -> usize {
    match cursor.peek() {
        Some(op::MEMOIZE) => 1,
        Some(op::BINPUT | op::LONG_BINPUT) => match cursor.peek_u64() {
            Some(ahead) if ahead as u8 == op::BINPUT && usize::from((ahead >> 8) as u8) == memo.len() => 2,
            Some(ahead) if ahead as u8 == op::LONG_BINPUT && (ahead >> 8) as u32 as usize == memo.len() => 5,
            _ => 0,
        },
        _ => 0,
    }
}

/// Stores `r` in the memo if the next opcode says so.
#[inline(always)]
fn memoize(cursor: &mut Cursor<'_>, memo: &mut Memo, r: Ref) -> Result<u32, ErrorKind> {
    match store_len(cursor, memo) {
        0 => Ok(NO_MEMO),
        len => {
            cursor.skip(len);
            memo.push(Value::of(r))
        }
    }
}

/// A number, truth value or reference to the memo; the cursor moves only if it is one.
// Every function here that takes the cursor is inlined: only a cursor whose address nobody takes lives in registers.
#[inline(always)]
fn simple_value(cursor: &mut Cursor<'_>, memo: &mut Memo) -> Result<Option<Value>, ErrorKind> {
    match cursor.peek_u64().and_then(Guess::of) {
        Some(guess) => guess.read(cursor, memo),
        None => Ok(None),
    }
}

/// A value that is written otherwise than the last one for the same key: a simple one, a text, or a list that is empty
/// or holds references to the memo and nothing else. The cursor moves only past what was read.
#[inline(always)]
fn other_value<'a, S: Sink>(
    guess: &mut Guess,
    cursor: &mut Cursor<'a>,
    memo: &mut Memo,
    sink: &mut S,
    lists: &mut ListCache<'a>,
) -> Result<Option<Value>, ErrorKind> {
    match cursor.peek() {
        Some(opcode @ (op::SHORT_BINUNICODE | op::BINUNICODE)) => {
            let mut after = *cursor;
            after.skip(1);
            let len = match opcode {
                op::SHORT_BINUNICODE => u32::from(after.byte("SHORT_BINUNICODE")?),
                _ => u32::from_le_bytes(after.array("BINUNICODE")?),
            };
            let text = Ref::new(crate::Kind::TEXT, sink.text(after.bytes(u64::from(len), "a text")?)?);
            let is_memoized = after.peek() == Some(op::MEMOIZE);
            let slot = memoize(&mut after, memo, text)?;
            if is_memoized && let Some(ahead) = cursor.peek_u64() {
                *guess = Guess::text(ahead, cursor.left() - after.left(), Value::of(text));
            }
            *cursor = after;
            Ok(Some(Value::through(text, slot)))
        }
        Some(op::EMPTY_LIST) => {
            let mut after = *cursor;
            after.skip(1);
            let store = store_len(&after, memo);
            after.skip(store);
            let Some(made) = list_of_gets(&mut after, memo, sink, lists)? else { return Ok(None) };
            // References store nothing, so that the list itself gets the index it would have got before them.
            let slot = if store > 0 { memo.push(Value::of(made))? } else { memoize(&mut after, memo, made)? };
            *cursor = after;
            Ok(Some(Value::through(made, slot)))
        }
        _ => {
            if let Some(next) = cursor.peek_u64().and_then(Guess::of) {
                *guess = next;
            }
            simple_value(cursor, memo)
        }
    }
}

/// What an empty list becomes by what follows: nothing, one reference and `APPEND`, or references and `APPENDS`.
#[inline(always)]
fn list_of_gets<'a, S: Sink>(
    cursor: &mut Cursor<'a>,
    memo: &mut Memo,
    sink: &mut S,
    lists: &mut ListCache<'a>,
) -> Result<Option<Ref>, ErrorKind> {
    if cursor.peek() == Some(op::MARK) {
        cursor.skip(1);
        return match gets(cursor) {
            // The C++ pickler marks empty lists as well.
            Some([]) => Ok(Some(Ref::EMPTY_LIST)),
            Some(bytes) => lists.find_or_make(bytes, memo, sink).map(Some),
            None => Ok(None),
        };
    }
    let mut after = *cursor;
    if let Some(op::BINGET | op::LONG_BINGET) = after.peek()
        && let Some(item) = simple_value(&mut after, memo)?
        && after.peek() == Some(op::APPEND)
    {
        after.skip(1);
        *cursor = after;
        return Ok(Some(sink.list(Ref::EMPTY_LIST, &[item])?));
    }
    Ok(Some(Ref::EMPTY_LIST))
}

/// The bytes of references to the memo up to `APPENDS`, behind which the cursor then stands.
#[inline(always)]
fn gets<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let start = *cursor;
    loop {
        match cursor.peek() {
            Some(op::BINGET) => cursor.skip(2),
            Some(op::LONG_BINGET) => cursor.skip(5),
            Some(op::APPENDS) => break,
            _ => return None,
        }
    }
    let bytes = start.until(cursor);
    cursor.skip(1);
    Some(bytes)
}

/// Two integers that `TUPLE2` makes a pair of; `first` was read, the cursor stands behind it.
#[inline(always)]
fn pair<S: Sink>(
    cursor: &mut Cursor<'_>,
    first: Value,
    memo: &mut Memo,
    sink: &mut S,
) -> Result<Option<Value>, ErrorKind> {
    let mut after = *cursor;
    if first.as_int().is_none() {
        return Ok(None);
    }
    match simple_value(&mut after, memo)? {
        Some(second) if second.as_int().is_some() && after.peek() == Some(op::TUPLE2) => {
            after.skip(1);
            let made = sink.tuple(&[first, second])?;
            let slot = memoize(&mut after, memo, made)?;
            *cursor = after;
            Ok(Some(Value::through(made, slot)))
        }
        _ => Ok(None),
    }
}
