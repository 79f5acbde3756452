//! The fast lane: runs of dicts with the same keys, which is what a snapshot consists of.
//!
//! What it does shows nowhere but in the time it takes: where a dict turns out to be another than expected, the stack
//! is laid out as the plain opcodes would have left it, and they go on.

use crate::cursor::Cursor;
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
        let Some(template) = self.templates.get(depth) else { return Ok((0, End::OtherKey)) };
        let mut count = 0;
        loop {
            let (Some(key), Some(ahead)) = (template.keys.get(count), cursor.peek_u64()) else {
                return Ok((count, End::OtherKey));
            };
            if ahead & key.mask == key.bits {
                cursor.skip(key.len);
                let value = match simple_value(cursor, &self.memo) {
                    Some(value) => value,
                    None => match composed_value(cursor, &mut self.memo, &mut self.sink, &mut self.lists)? {
                        Some(value) => value,
                        None => return Ok((count, End::OtherValue)),
                    },
                };
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

/// Stores `r` in the memo if the next opcode says so, at the next free index as all writers do.
#[inline(always)]
fn memoize(cursor: &mut Cursor<'_>, memo: &mut Memo, r: Ref) -> Result<u32, ErrorKind> {
    let len = match cursor.peek() {
        Some(op::MEMOIZE) => 1,
        Some(op::BINPUT | op::LONG_BINPUT) => match cursor.peek_u64() {
            Some(ahead) if ahead as u8 == op::BINPUT && (ahead >> 8) as u8 as usize == memo.len() => 2,
            Some(ahead) if ahead as u8 == op::LONG_BINPUT && (ahead >> 8) as u32 as usize == memo.len() => 5,
            _ => return Ok(NO_MEMO),
        },
        _ => return Ok(NO_MEMO),
    };
    cursor.skip(len);
    memo.push(Value::of(r))
}

/// How the opcodes of simple values are read.
#[derive(Debug, Clone, Copy)]
struct Form {
    class: Class,
    /// Length of the opcode and its argument.
    len: u8,
    /// The bits of the argument.
    mask: u32,
    /// The argument's sign bit.
    sign: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    None,
    /// An integer in the argument.
    Int,
    /// A memo index in the argument.
    Get,
    Other,
}

/// By opcode. One branch for integers of all lengths, since which length comes next is what a processor cannot guess.
static FORMS: [Form; 256] = {
    let mut forms = [Form { class: Class::None, len: 0, mask: 0, sign: 0 }; 256];
    forms[op::BININT1 as usize] = Form { class: Class::Int, len: 2, mask: 0xFF, sign: 0 };
    forms[op::BININT2 as usize] = Form { class: Class::Int, len: 3, mask: 0xFFFF, sign: 0 };
    forms[op::BININT as usize] = Form { class: Class::Int, len: 5, mask: u32::MAX, sign: 1 << 31 };
    forms[op::BINGET as usize] = Form { class: Class::Get, len: 2, mask: 0xFF, sign: 0 };
    forms[op::LONG_BINGET as usize] = Form { class: Class::Get, len: 5, mask: u32::MAX, sign: 0 };
    forms[op::LONG1 as usize] = Form { class: Class::Other, len: 0, mask: 0, sign: 0 };
    forms[op::NONE as usize] = Form { class: Class::Other, len: 1, mask: 0, sign: 0 };
    forms[op::NEWTRUE as usize] = Form { class: Class::Other, len: 1, mask: 0, sign: 0 };
    forms[op::NEWFALSE as usize] = Form { class: Class::Other, len: 1, mask: 0, sign: 0 };
    forms
};

/// A number, truth value or reference to the memo; the cursor moves only if it is one.
#[inline(always)]
fn simple_value(cursor: &mut Cursor<'_>, memo: &Memo) -> Option<Value> {
    let ahead = cursor.peek_u64()?;
    let form = FORMS[usize::from(ahead as u8)];
    let argument = (ahead >> 8) as u32 & form.mask;
    let (value, len) = match form.class {
        Class::None => return None,
        Class::Int => {
            // Subtracting the flipped sign bit extends it.
            let number = i64::from(argument ^ form.sign) - i64::from(form.sign);
            (Value::int(number), usize::from(form.len))
        }
        Class::Get => (memo.get(argument).ok()?, usize::from(form.len)),
        Class::Other => match ahead as u8 {
            op::LONG1 => {
                // Addresses and times have 6 or 7 bytes: reading eight and shifting spares a copy of variable length.
                let len = (ahead >> 8) as u8;
                let mut bytes = *cursor;
                bytes.skip(2);
                let bytes = bytes.peek_u64()?;
                if !(1..=8).contains(&len) {
                    return None;
                }
                let unused = 64 - 8 * u32::from(len);
                (Value::int((bytes << unused) as i64 >> unused), 2 + usize::from(len))
            }
            op::NEWTRUE => (Value::bool(true), 1),
            op::NEWFALSE => (Value::bool(false), 1),
            _ => (Value::NONE, 1),
        },
    };
    cursor.skip(len);
    Some(value)
}

/// A text, or a list that is empty or holds references to the memo and nothing else; the cursor moves only past what
/// was read.
#[inline(always)]
fn composed_value<'a, S: Sink>(
    cursor: &mut Cursor<'a>,
    memo: &mut Memo,
    sink: &mut S,
    lists: &mut ListCache<'a>,
) -> Result<Option<Value>, ErrorKind> {
    match cursor.peek() {
        Some(op::SHORT_BINUNICODE) => {
            let mut after = *cursor;
            after.skip(1);
            let len = after.byte("SHORT_BINUNICODE")?;
            let text = Ref::new(crate::Kind::TEXT, sink.text(after.bytes(u64::from(len), "a text")?)?);
            let slot = memoize(&mut after, memo, text)?;
            *cursor = after;
            Ok(Some(Value::through(text, slot)))
        }
        Some(op::EMPTY_LIST) => {
            let mut after = *cursor;
            after.skip(1);
            let slot_first = after.peek() == Some(op::MEMOIZE);
            after.skip(usize::from(slot_first));
            let Some(made) = list_of_gets(&mut after, memo, sink, lists)? else { return Ok(None) };
            let slot = if slot_first { memo.push(Value::of(made))? } else { memoize(&mut after, memo, made)? };
            *cursor = after;
            Ok(Some(Value::through(made, slot)))
        }
        _ => Ok(None),
    }
}

/// What an empty list becomes by what follows: nothing, one reference and `APPEND`, or references and `APPENDS`.
#[inline(always)]
fn list_of_gets<'a, S: Sink>(
    cursor: &mut Cursor<'a>,
    memo: &Memo,
    sink: &mut S,
    lists: &mut ListCache<'a>,
) -> Result<Option<Ref>, ErrorKind> {
    if cursor.peek() == Some(op::MARK) {
        cursor.skip(1);
        return match gets(cursor) {
            Some(bytes) => lists.find_or_make(bytes, memo, sink).map(Some),
            None => Ok(None),
        };
    }
    let mut after = *cursor;
    if let Some(op::BINGET | op::LONG_BINGET) = after.peek()
        && let Some(item) = simple_value(&mut after, memo)
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
    (!bytes.is_empty()).then_some(bytes)
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
    match simple_value(&mut after, memo) {
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
