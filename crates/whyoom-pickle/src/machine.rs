//! The stack machine.

use crate::cursor::Cursor;
use crate::list_cache::ListCache;
use crate::memo::Memo;
use crate::op;
use crate::shape::{Shapes, Template};
use crate::{Error, ErrorKind, Limits, Ref, Sink, Value, number};

/// Dicts deeper than this are read without a template.
const TEMPLATE_DEPTH: usize = 16;

/// Reads one pickle from a byte slice into a [`Sink`].
#[derive(Debug)]
pub struct Machine<'a, S> {
    data: &'a [u8],
    pub(crate) sink: S,
    pub(crate) stack: Vec<Value>,
    pub(crate) stack_cap: usize,
    pub(crate) depth_cap: usize,
    pub(crate) memo: Memo,
    /// Stack heights at the open marks.
    pub(crate) marks: Vec<usize>,
    /// Stack height at the innermost mark: what lies below is out of reach for the opcodes above.
    pub(crate) floor: usize,
    /// Keys expected in a dict, by the number of marks around it.
    pub(crate) templates: Vec<Template>,
    pub(crate) shapes: Shapes,
    pub(crate) lists: ListCache<'a>,
    pub(crate) keys: Vec<u32>,
    pub(crate) values: Vec<Value>,
    /// Bytes left at the opcode being carried out.
    pub(crate) left_at_op: usize,
    end: usize,
}

impl<'a, S: Sink> Machine<'a, S> {
    /// A machine at the start of `data`.
    pub fn new(data: &'a [u8], sink: S, limits: Limits) -> Self {
        Self {
            data,
            sink,
            stack: Vec::new(),
            stack_cap: limits.stack,
            depth_cap: limits.depth,
            memo: Memo::new(limits.memo),
            marks: Vec::new(),
            floor: 0,
            templates: vec![Template::default(); TEMPLATE_DEPTH],
            shapes: Shapes::default(),
            lists: ListCache::new(),
            keys: Vec::new(),
            values: Vec::new(),
            left_at_op: data.len(),
            end: 0,
        }
    }

    /// Runs to the `STOP` opcode and returns the value it leaves.
    ///
    /// # Errors
    /// [`Error`] with the offset of the opcode that could not be carried out; [`Machine::salvage`] then collects
    /// what had been read.
    pub fn run(&mut self) -> Result<Value, Error> {
        let mut cursor = Cursor::new(self.data);
        let outcome = self.execute(&mut cursor);
        self.end = self.data.len() - cursor.left();
        outcome.map_err(|kind| Error { kind, offset: self.data.len() - self.left_at_op })
    }

    /// After [`Machine::run`] failed: closes all open containers, innermost first, dropping what is incomplete as the
    /// sink sees fit, and returns what the outermost became.
    pub fn salvage(&mut self) -> Option<Value> {
        let marks = std::mem::take(&mut self.marks);
        self.floor = 0;
        crate::salvage::salvage(&mut self.sink, &mut self.stack, &marks)
    }

    /// Byte after the `STOP` opcode, once [`Machine::run`] succeeded.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// The sink, and all that was collected in it.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// The sink while the machine stands still.
    pub const fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    #[inline(always)]
    fn execute(&mut self, cursor: &mut Cursor<'a>) -> Result<Value, ErrorKind> {
        loop {
            self.left_at_op = cursor.left();
            match cursor.byte("the next opcode")? {
                op::BINGET => {
                    let index = u32::from(cursor.byte("BINGET")?);
                    self.push(self.memo.get(index)?)?;
                }
                op::LONG_BINGET => {
                    let index = u32::from_le_bytes(cursor.array("LONG_BINGET")?);
                    self.push(self.memo.get(index)?)?;
                }
                op::MEMOIZE => {
                    self.need(1, "MEMOIZE")?;
                    let top = self.stack.len() - 1;
                    let value = self.stack[top];
                    let index = self.memo.push(value)?;
                    if let Some(r) = value.as_ref() {
                        self.stack[top] = Value::through(r, index);
                    }
                }
                op::BININT1 => {
                    let n = cursor.byte("BININT1")?;
                    self.push(Value::int(i64::from(n)))?;
                }
                op::BININT2 => {
                    let n = u16::from_le_bytes(cursor.array("BININT2")?);
                    self.push(Value::int(i64::from(n)))?;
                }
                op::BININT => {
                    let n = i32::from_le_bytes(cursor.array("BININT")?);
                    self.push(Value::int(i64::from(n)))?;
                }
                op::LONG1 => self.long1(cursor)?,
                op::MARK => self.mark()?,
                op::EMPTY_DICT => *cursor = self.dicts(*cursor)?,
                op::EMPTY_LIST => self.push(Value::of(Ref::EMPTY_LIST))?,
                op::SHORT_BINUNICODE => {
                    let len = cursor.byte("SHORT_BINUNICODE")?;
                    let text = cursor.bytes(u64::from(len), "a text")?;
                    self.push_text(text)?;
                }
                op::SETITEMS => self.set_items()?,
                op::APPENDS | op::ADDITEMS => self.append_items()?,
                op::APPEND => self.append_one()?,
                op::SETITEM => self.set_one()?,
                op::TUPLE2 => self.tuple_of(2, "TUPLE2")?,
                op::NONE => self.push(Value::NONE)?,
                op::NEWTRUE => self.push(Value::bool(true))?,
                op::NEWFALSE => self.push(Value::bool(false))?,
                op::BINUNICODE => {
                    let len = u32::from_le_bytes(cursor.array("BINUNICODE")?);
                    let text = cursor.bytes(u64::from(len), "a text")?;
                    self.push_text(text)?;
                }
                op::BINPUT => {
                    let index = cursor.byte("BINPUT")?;
                    self.put(u64::from(index), "BINPUT")?;
                }
                op::LONG_BINPUT => {
                    let index = u32::from_le_bytes(cursor.array("LONG_BINPUT")?);
                    self.put(u64::from(index), "LONG_BINPUT")?;
                }
                op::FRAME => {
                    let _: [u8; 8] = cursor.array("FRAME")?;
                }
                op::STOP => return self.stop(),
                other => *cursor = self.rare(other, *cursor)?,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: Value) -> Result<(), ErrorKind> {
        if self.stack.len() == self.stack.capacity() {
            grow(&mut self.stack, self.stack_cap)?;
        }
        self.stack.push(value);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn push_text(&mut self, text: &[u8]) -> Result<(), ErrorKind> {
        let index = self.sink.text(text)?;
        self.push(Value::text(index))
    }

    #[inline(always)]
    fn long1(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ErrorKind> {
        // Addresses and times are 6 to 8 bytes long; reading eight and shifting spares the copy of a variable length.
        if let Some(ahead) = cursor.peek_u64() {
            let len = ahead as u8;
            if (1..8).contains(&len) {
                let unused = 64 - 8 * u32::from(len);
                let value = ((ahead >> 8) << unused) as i64 >> unused;
                cursor.skip(1 + usize::from(len));
                return self.push(Value::int(value));
            }
        }
        let len = cursor.byte("LONG1")?;
        let bytes = cursor.bytes(u64::from(len), "LONG1")?;
        self.push(number::long(bytes))
    }

    /// Makes sure that the `count` topmost values may be consumed.
    #[inline(always)]
    pub(crate) fn need(&self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        if self.stack.len() < self.floor + count { Err(ErrorKind::TooFewValues(op)) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<Value, ErrorKind> {
        self.need(1, "STOP")?;
        match *self.stack.as_slice() {
            [value] if self.marks.is_empty() => Ok(value),
            _ => Err(ErrorKind::LeftOver(self.stack.len())),
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn grow(stack: &mut Vec<Value>, cap: usize) -> Result<(), ErrorKind> {
    if stack.len() >= cap {
        return Err(ErrorKind::TooManyValues);
    }
    stack.reserve(64);
    Ok(())
}
