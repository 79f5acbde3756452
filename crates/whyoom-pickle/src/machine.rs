//! The stack machine.

use crate::cursor::Cursor;
use crate::list_cache::ListCache;
use crate::memo::Memo;
use crate::op;
use crate::shape::{Shapes, Template};
use crate::value::{Callable, Item};
use crate::{Error, ErrorKind, Kind, Limits, Ref, Sink, Value, number};

/// Dicts deeper than this are read without a template.
const TEMPLATE_DEPTH: usize = 16;

/// Reads one pickle from a byte slice into a [`Sink`].
#[derive(Debug)]
pub struct Machine<'a, S> {
    data: &'a [u8],
    pub(crate) sink: S,
    pub(crate) stack: Vec<Value>,
    pub(crate) stack_cap: usize,
    depth_cap: usize,
    pub(crate) memo: Memo,
    /// Stack heights at the open marks.
    pub(crate) marks: Vec<usize>,
    /// Stack height at the innermost mark: what lies below is out of reach for the opcodes above.
    floor: usize,
    /// Keys expected in a dict, by the number of marks around it.
    pub(crate) templates: Vec<Template>,
    pub(crate) shapes: Shapes,
    pub(crate) lists: ListCache<'a>,
    keys: Vec<u32>,
    values: Vec<Value>,
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

    /// Opcodes that snapshots rarely or never have. Returns the cursor behind the opcode's argument.
    #[cold]
    #[inline(never)]
    fn rare(&mut self, opcode: u8, mut cursor: Cursor<'a>) -> Result<Cursor<'a>, ErrorKind> {
        match opcode {
            op::PROTO => {
                let version = cursor.byte("PROTO")?;
                if version > 5 {
                    return Err(ErrorKind::UnknownProtocol(version));
                }
            }
            op::BINUNICODE8 => {
                let len = u64::from_le_bytes(cursor.array("BINUNICODE8")?);
                let text = cursor.bytes(len, "a text")?;
                self.push_text(text)?;
            }
            op::UNICODE => {
                let text = number::raw_unicode_escape(cursor.line("UNICODE")?)?;
                self.push_text(text.as_bytes())?;
            }
            op::STRING => {
                let text = number::quoted(cursor.line("STRING")?)?;
                self.push_text(&text)?;
            }
            op::BINSTRING => {
                let len = u32::from_le_bytes(cursor.array("BINSTRING")?);
                let text = cursor.bytes(u64::from(len), "a string")?;
                self.push_text(text)?;
            }
            op::SHORT_BINSTRING => {
                let len = cursor.byte("SHORT_BINSTRING")?;
                let text = cursor.bytes(u64::from(len), "a string")?;
                self.push_text(text)?;
            }
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                let len = match opcode {
                    op::SHORT_BINBYTES => u64::from(cursor.byte("SHORT_BINBYTES")?),
                    op::BINBYTES => u64::from(u32::from_le_bytes(cursor.array("BINBYTES")?)),
                    _ => u64::from_le_bytes(cursor.array("BINBYTES8")?),
                };
                cursor.bytes(len, "bytes")?;
                self.push(Value::BYTES)?;
            }
            op::LONG4 => {
                let len = u32::from_le_bytes(cursor.array("LONG4")?);
                let bytes = cursor.bytes(u64::from(len), "LONG4")?;
                self.push(number::long(bytes))?;
            }
            op::INT => {
                let value = number::decimal(cursor.line("INT")?, true)?;
                self.push(value)?;
            }
            op::LONG => {
                let value = number::decimal(cursor.line("LONG")?, false)?;
                self.push(value)?;
            }
            op::FLOAT => {
                let value = number::float(cursor.line("FLOAT")?)?;
                self.push(value)?;
            }
            op::BINFLOAT => {
                let bits = u64::from_be_bytes(cursor.array("BINFLOAT")?);
                self.push(Value::float(f64::from_bits(bits)))?;
            }
            op::EMPTY_SET => self.push(Value::of(Ref::EMPTY_LIST))?,
            op::EMPTY_TUPLE => self.push(Value::EMPTY_TUPLE)?,
            op::TUPLE1 => self.tuple_of(1, "TUPLE1")?,
            op::TUPLE3 => self.tuple_of(3, "TUPLE3")?,
            op::TUPLE | op::FROZENSET => self.tuple()?,
            op::LIST => self.list_or_dict(false)?,
            op::DICT => self.list_or_dict(true)?,
            op::GET => {
                let index = memo_index(cursor.line("GET")?, "GET")?;
                let slot = u32::try_from(index).map_err(|_| ErrorKind::NoMemo(index))?;
                self.push(self.memo.get(slot)?)?;
            }
            op::PUT => {
                let index = memo_index(cursor.line("PUT")?, "PUT")?;
                self.put(index, "PUT")?;
            }
            op::POP => {
                if self.stack.len() == self.floor && !self.marks.is_empty() {
                    self.pop_mark("POP")?;
                } else {
                    self.need(1, "POP")?;
                    self.stack.pop();
                }
            }
            op::POP_MARK => {
                let at = self.pop_mark("POP_MARK")?;
                self.stack.truncate(at);
            }
            op::DUP => {
                self.need(1, "DUP")?;
                let top = self.stack[self.stack.len() - 1];
                self.push(top)?;
            }
            op::GLOBAL => {
                let module = String::from_utf8_lossy(cursor.line("GLOBAL")?);
                let name = String::from_utf8_lossy(cursor.line("GLOBAL")?);
                let value = global(&module, &name)?;
                self.push(value)?;
            }
            op::STACK_GLOBAL => self.stack_global()?,
            op::REDUCE => self.reduce()?,
            other => return Err(op::code(other).map_or(ErrorKind::UnknownOpcode(other), ErrorKind::Code)),
        }
        Ok(cursor)
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
    fn push_text(&mut self, text: &[u8]) -> Result<(), ErrorKind> {
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
    fn need(&self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        if self.stack.len() < self.floor + count { Err(ErrorKind::TooFewValues(op)) } else { Ok(()) }
    }

    pub(crate) fn mark(&mut self) -> Result<(), ErrorKind> {
        if self.marks.len() >= self.depth_cap {
            return Err(ErrorKind::TooDeep(self.depth_cap));
        }
        self.floor = self.stack.len();
        self.marks.push(self.floor);
        Ok(())
    }

    /// Closes the innermost mark; returns the stack height at it.
    fn pop_mark(&mut self, op: &'static str) -> Result<usize, ErrorKind> {
        let at = self.marks.pop().ok_or(ErrorKind::NoMark(op))?;
        self.floor = self.marks.last().copied().unwrap_or(0);
        Ok(at)
    }

    /// The container whose items begin at `at`.
    fn target(&self, at: usize, op: &'static str) -> Result<Ref, ErrorKind> {
        self.need(self.stack.len() - at + 1, op)?;
        match self.stack[at - 1].as_ref() {
            Some(r) if r.kind != Kind::TEXT => Ok(r),
            _ => Err(ErrorKind::NotAContainer(op)),
        }
    }

    /// Replaces a container, whose items begin at `at`, and the items by what the sink made of them.
    #[inline(always)]
    fn collapse(&mut self, at: usize, made: Ref) -> Result<(), ErrorKind> {
        self.stack.truncate(at);
        let container = &mut self.stack[at - 1];
        let memo = container.memo();
        *container = Value::through(made, memo);
        self.memo.follow(memo, made)
    }

    pub(crate) fn set_items(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("SETITEMS")?;
        let target = self.target(at, "SETITEMS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.dict(target, at, "SETITEMS")?;
        if target == Ref::EMPTY_DICT
            && let Some(template) = self.templates.get_mut(self.marks.len())
        {
            template.learn(&self.stack[at..]);
        }
        self.collapse(at, made)
    }

    /// Hands the items above `at`, keys and values in turn, to the sink.
    fn dict(&mut self, target: Ref, at: usize, op: &'static str) -> Result<Ref, ErrorKind> {
        let items = &self.stack[at..];
        if !items.len().is_multiple_of(2) {
            return Err(ErrorKind::TooFewValues(op));
        }
        self.keys.clear();
        self.keys.extend(items.iter().step_by(2).map_while(|k| k.as_text()));
        let is_whole = target == Ref::EMPTY_DICT && self.keys.len() * 2 == items.len();
        match if is_whole { self.shapes.intern(&self.keys) } else { None } {
            Some(shape) => {
                self.values.clear();
                self.values.extend(items.iter().skip(1).step_by(2));
                Ok(self.sink.row(shape, &self.keys, &self.values)?)
            }
            None => Ok(self.sink.dict(target, items)?),
        }
    }

    fn append_items(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("APPENDS")?;
        let target = self.target(at, "APPENDS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.sink.list(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    fn append_one(&mut self) -> Result<(), ErrorKind> {
        self.need(2, "APPEND")?;
        let at = self.stack.len() - 1;
        let target = self.target(at, "APPEND")?;
        let made = self.sink.list(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    fn set_one(&mut self) -> Result<(), ErrorKind> {
        self.need(3, "SETITEM")?;
        let at = self.stack.len() - 2;
        let target = self.target(at, "SETITEM")?;
        // One item at a time is how protocol 0 writes every dict: what it will be is not known before the last.
        let made = self.sink.dict(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    fn list_or_dict(&mut self, is_dict: bool) -> Result<(), ErrorKind> {
        let op = if is_dict { "DICT" } else { "LIST" };
        let at = self.pop_mark(op)?;
        let empty = if is_dict { Ref::EMPTY_DICT } else { Ref::EMPTY_LIST };
        let made = if self.stack.len() == at {
            empty
        } else if is_dict {
            self.dict(empty, at, op)?
        } else {
            self.sink.list(empty, &self.stack[at..])?
        };
        self.stack.truncate(at);
        self.push(Value::of(made))
    }

    fn tuple(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("TUPLE")?;
        if self.stack.len() == at {
            return self.push(Value::EMPTY_TUPLE);
        }
        self.tuple_at(at)
    }

    #[inline(always)]
    fn tuple_of(&mut self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        self.need(count, op)?;
        self.tuple_at(self.stack.len() - count)
    }

    fn tuple_at(&mut self, at: usize) -> Result<(), ErrorKind> {
        let items = &self.stack[at..];
        let made = match items {
            [only] if only.item() == Item::Callable(Callable::Factory) => Value::callable(Callable::FactoryArgs),
            _ => Value::of(self.sink.tuple(items)?),
        };
        self.stack.truncate(at);
        self.push(made)
    }

    fn put(&mut self, index: u64, op: &'static str) -> Result<(), ErrorKind> {
        self.need(1, op)?;
        let top = self.stack.len() - 1;
        let (index, overwrote) = self.memo.put(index, self.stack[top])?;
        if overwrote {
            // Bytes of known keys may mean something else from here on.
            self.templates.iter_mut().for_each(Template::retire);
            self.lists.clear();
        }
        if let Some(r) = self.stack[top].as_ref() {
            self.stack[top] = Value::through(r, index);
        }
        Ok(())
    }

    fn stack_global(&mut self) -> Result<(), ErrorKind> {
        self.need(2, "STACK_GLOBAL")?;
        let at = self.stack.len() - 2;
        let [Some(module), Some(name)] = [self.stack[at].as_text(), self.stack[at + 1].as_text()] else {
            return Err(ErrorKind::Malformed("STACK_GLOBAL"));
        };
        let value = global(self.sink.resolve(module), self.sink.resolve(name))?;
        self.stack.truncate(at);
        self.push(value)
    }

    /// `OrderedDict()` and `defaultdict(factory)` become an empty dict; anything else is refused.
    fn reduce(&mut self) -> Result<(), ErrorKind> {
        self.need(2, "REDUCE")?;
        let at = self.stack.len() - 2;
        match (self.stack[at].item(), self.stack[at + 1].item()) {
            (Item::Callable(Callable::Dict), Item::EmptyTuple | Item::Callable(Callable::FactoryArgs)) => {
                self.stack.truncate(at);
                self.push(Value::of(Ref::EMPTY_DICT))
            }
            _ => Err(ErrorKind::Code("REDUCE")),
        }
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

fn memo_index(line: &[u8], op: &'static str) -> Result<u64, ErrorKind> {
    match number::decimal(line, false) {
        Ok(value) => value.as_int().and_then(|n| u64::try_from(n).ok()).ok_or(ErrorKind::Malformed(op)),
        Err(_) => Err(ErrorKind::Malformed(op)),
    }
}

/// A global that reads as data, or the refusal.
fn global(module: &str, name: &str) -> Result<Value, ErrorKind> {
    match (module, name) {
        ("collections", "OrderedDict" | "defaultdict") => Ok(Value::callable(Callable::Dict)),
        ("builtins" | "__builtin__", "int" | "float" | "list" | "dict" | "set" | "str" | "tuple") => {
            Ok(Value::callable(Callable::Factory))
        }
        _ => Err(ErrorKind::Global(format!("{module}.{name}"))),
    }
}
