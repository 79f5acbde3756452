//! The stack machine.

use crate::cursor::Cursor;
use crate::memo::Memo;
use crate::op;
use crate::shape::{Shapes, Template};
use crate::value::{Callable, NO_MEMO};
use crate::{Error, ErrorKind, Kind, Limits, Ref, Sink, Value, number};

/// Dicts deeper than this are read without a template.
const TEMPLATE_DEPTH: usize = 16;
const NO_TEMPLATE: u32 = u32::MAX;

/// What lies between two marks.
///
/// With a template, the stack above `at` holds values only: the first `matched` keys of the template are left out.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Stack height at the mark.
    at: usize,
    /// Index of the template in use.
    template: u32,
    /// Keys read through the template.
    matched: u32,
}

/// Reads one pickle from a byte slice into a [`Sink`].
#[derive(Debug)]
pub struct Machine<'a, S> {
    data: &'a [u8],
    sink: S,
    stack: Vec<Value>,
    stack_cap: usize,
    depth_cap: usize,
    memo: Memo,
    marks: Vec<Level>,
    level: Level,
    /// Opcodes may consume the stack down to here without first putting the left-out keys back.
    floor: usize,
    /// Stack height at which the next key of the template may stand in the bytes.
    watch: usize,
    templates: Vec<Template>,
    shapes: Shapes,
    keys: Vec<u32>,
    values: Vec<Value>,
    op_at: usize,
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
            level: Level { at: 0, template: NO_TEMPLATE, matched: 0 },
            floor: 0,
            watch: usize::MAX,
            templates: vec![Template::default(); TEMPLATE_DEPTH],
            shapes: Shapes::default(),
            keys: Vec::new(),
            values: Vec::new(),
            op_at: 0,
            end: 0,
        }
    }

    /// Runs to the `STOP` opcode and returns the value it leaves.
    ///
    /// # Errors
    /// [`Error`] with the offset of the opcode that could not be carried out; [`Machine::salvage`] then collects
    /// what had been read.
    pub fn run(&mut self) -> Result<Value, Error> {
        let mut cursor = Cursor { data: self.data, pos: 0 };
        self.execute(&mut cursor).inspect(|_| self.end = cursor.pos).map_err(|kind| Error { kind, offset: self.op_at })
    }

    /// After [`Machine::run`] failed: closes all open containers, innermost first, dropping what is incomplete as the
    /// sink sees fit, and returns what the outermost became.
    pub fn salvage(&mut self) -> Option<Value> {
        let mut marks = Vec::new();
        while !self.marks.is_empty() {
            self.restore_keys();
            marks.push(self.level.at);
            self.pop_mark("salvage").ok()?;
            // Keys put back below move every mark above.
            let before = self.stack.len();
            self.restore_keys();
            let moved = self.stack.len() - before;
            for at in &mut marks {
                *at += moved;
            }
        }
        marks.reverse();
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
            if self.stack.len() == self.watch {
                self.try_key(cursor);
            }
            self.op_at = cursor.pos;
            match cursor.byte("the next opcode")? {
                op::BINGET => {
                    let index = cursor.byte("BINGET")?;
                    self.push(self.memo.get(u64::from(index))?)?;
                }
                op::LONG_BINGET => {
                    let index = u32::from_le_bytes(cursor.array("LONG_BINGET")?);
                    self.push(self.memo.get(u64::from(index))?)?;
                }
                op::MEMOIZE => {
                    self.need(1, "MEMOIZE")?;
                    let top = self.stack.len() - 1;
                    let index = self.memo.push(self.stack[top])?;
                    if let Value::Ref(r) = &mut self.stack[top] {
                        r.memo = index;
                    }
                }
                op::BININT1 => {
                    let n = cursor.byte("BININT1")?;
                    self.push(Value::Int(i64::from(n)))?;
                }
                op::BININT2 => {
                    let n = u16::from_le_bytes(cursor.array("BININT2")?);
                    self.push(Value::Int(i64::from(n)))?;
                }
                op::BININT => {
                    let n = i32::from_le_bytes(cursor.array("BININT")?);
                    self.push(Value::Int(i64::from(n)))?;
                }
                op::LONG1 => self.long1(cursor)?,
                op::MARK => self.mark()?,
                op::EMPTY_DICT => self.push(Value::Ref(Ref::EMPTY_DICT))?,
                op::EMPTY_LIST | op::EMPTY_SET => self.push(Value::Ref(Ref::EMPTY_LIST))?,
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
                op::NONE => self.push(Value::None)?,
                op::NEWTRUE => self.push(Value::Bool(true))?,
                op::NEWFALSE => self.push(Value::Bool(false))?,
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
                other => cursor.pos = self.rare(other, cursor.pos)?,
            }
        }
    }

    /// Opcodes that snapshots rarely or never have. Returns the position after the opcode's argument.
    #[cold]
    #[inline(never)]
    fn rare(&mut self, opcode: u8, pos: usize) -> Result<usize, ErrorKind> {
        let mut cursor = Cursor { data: self.data, pos };
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
                self.push(Value::Bytes)?;
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
                self.push(Value::Float(f64::from_bits(bits)))?;
            }
            op::EMPTY_TUPLE => self.push(Value::EmptyTuple)?,
            op::TUPLE1 => self.tuple_of(1, "TUPLE1")?,
            op::TUPLE3 => self.tuple_of(3, "TUPLE3")?,
            op::TUPLE | op::FROZENSET => self.tuple()?,
            op::LIST => self.list_or_dict(false)?,
            op::DICT => self.list_or_dict(true)?,
            op::GET => {
                let index = memo_index(cursor.line("GET")?, "GET")?;
                self.push(self.memo.get(index)?)?;
            }
            op::PUT => {
                let index = memo_index(cursor.line("PUT")?, "PUT")?;
                self.put(index, "PUT")?;
            }
            op::POP => {
                self.restore_keys();
                if self.stack.len() == self.level.at {
                    self.pop_mark("POP")?;
                } else {
                    self.need(1, "POP")?;
                    self.stack.pop();
                }
            }
            op::POP_MARK => {
                let at = self.open_mark("POP_MARK")?;
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
        Ok(cursor.pos)
    }

    #[inline(always)]
    fn push(&mut self, value: Value) -> Result<(), ErrorKind> {
        if self.stack.len() == self.stack.capacity() {
            self.grow()?;
        }
        self.stack.push(value);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), ErrorKind> {
        if self.stack.len() >= self.stack_cap {
            return Err(ErrorKind::TooManyValues);
        }
        self.stack.reserve(64);
        Ok(())
    }

    #[inline(always)]
    fn push_text(&mut self, text: &[u8]) -> Result<(), ErrorKind> {
        let index = self.sink.text(text).map_err(|r| ErrorKind::Sink(r.0))?;
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
                cursor.pos += 1 + usize::from(len);
                return self.push(Value::Int(value));
            }
        }
        let len = cursor.byte("LONG1")?;
        let bytes = cursor.bytes(u64::from(len), "LONG1")?;
        self.push(number::long(bytes))
    }

    /// Makes sure that the `count` topmost values may be consumed.
    #[inline(always)]
    fn need(&mut self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        if self.stack.len() < self.floor + count { self.need_slow(count, op) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn need_slow(&mut self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        self.restore_keys();
        if self.stack.len() < self.floor + count { Err(ErrorKind::TooFewValues(op)) } else { Ok(()) }
    }

    /// Steps over the next key of the template if it stands here.
    #[inline(always)]
    fn try_key(&mut self, cursor: &mut Cursor<'a>) {
        let key = self.templates.get(self.level.template as usize).and_then(|t| t.keys.get(self.level.matched as usize));
        if let (Some(key), Some(ahead)) = (key, cursor.peek_u64())
            && ahead & key.mask == key.bits
        {
            cursor.pos += usize::from(key.len);
            self.level.matched += 1;
            self.floor = self.watch;
            self.watch += 1;
        }
    }

    /// Puts the keys that the template left out back between the values of the innermost level.
    #[cold]
    fn restore_keys(&mut self) {
        let Level { at, template, matched } = self.level;
        if let Some(template) = self.templates.get(template as usize) {
            let mut values = self.stack.split_off(at).into_iter();
            for key in template.texts.iter().take(matched as usize) {
                self.stack.push(Value::text(*key));
                self.stack.extend(values.next());
            }
            self.stack.extend(values);
        }
        self.enter(Level { at, template: NO_TEMPLATE, matched: 0 });
    }

    /// Makes `level` the innermost.
    #[inline(always)]
    fn enter(&mut self, level: Level) {
        self.level = level;
        if level.template == NO_TEMPLATE {
            self.floor = level.at;
            self.watch = usize::MAX;
        } else {
            self.watch = level.at + level.matched as usize;
            self.floor = level.at.max(self.watch.saturating_sub(1));
        }
    }

    #[inline(always)]
    fn mark(&mut self) -> Result<(), ErrorKind> {
        let depth = self.marks.len();
        if depth >= self.depth_cap {
            return Err(ErrorKind::TooDeep(self.depth_cap));
        }
        let at = self.stack.len();
        let opens_dict = at > self.floor && self.stack[at - 1] == Value::Ref(Ref::EMPTY_DICT);
        let has_template = opens_dict && self.templates.get(depth).is_some_and(|t| !t.keys.is_empty());
        self.marks.push(self.level);
        self.enter(Level { at, template: if has_template { depth as u32 } else { NO_TEMPLATE }, matched: 0 });
        Ok(())
    }

    /// Leaves the innermost level; returns the stack height at its mark.
    #[inline(always)]
    fn pop_mark(&mut self, op: &'static str) -> Result<usize, ErrorKind> {
        let outer = self.marks.pop().ok_or(ErrorKind::NoMark(op))?;
        let at = self.level.at;
        self.enter(outer);
        Ok(at)
    }

    /// As `pop_mark`, for opcodes that see the values of a level as they are.
    #[inline(always)]
    fn open_mark(&mut self, op: &'static str) -> Result<usize, ErrorKind> {
        if self.level.template != NO_TEMPLATE {
            self.restore_keys();
        }
        self.pop_mark(op)
    }

    /// The container below the mark that was at `at`, and where it stands.
    ///
    /// Putting left-out keys back moves everything above them, so the place is told anew.
    #[inline(always)]
    fn target(&mut self, at: usize, op: &'static str) -> Result<(usize, Ref), ErrorKind> {
        let above = self.stack.len() - at;
        self.need(above + 1, op)?;
        let at = self.stack.len() - above;
        match self.stack[at - 1] {
            Value::Ref(r) if r.kind != Kind::TEXT => Ok((at, r)),
            _ => Err(ErrorKind::NotAContainer(op)),
        }
    }

    /// Replaces a container and the items above it by what the sink made of them.
    #[inline(always)]
    fn collapse(&mut self, at: usize, target: Ref, made: Ref) -> Result<(), ErrorKind> {
        self.memo.follow(target.memo, made)?;
        self.stack.truncate(at);
        self.stack[at - 1] = Value::Ref(Ref { memo: target.memo, ..made });
        Ok(())
    }

    #[inline(always)]
    fn set_items(&mut self) -> Result<(), ErrorKind> {
        let Level { at, template, matched } = self.level;
        let count = matched as usize;
        if count > 0 && self.stack.len() == self.watch {
            let template = &mut self.templates[template as usize];
            let keys = &template.texts[..count];
            let shape = match template.shapes[count - 1] {
                Some(shape) => shape,
                None => *template.shapes[count - 1].insert(self.shapes.intern(keys)),
            };
            let made = self.sink.row(shape, keys, &self.stack[at..]).map_err(|r| ErrorKind::Sink(r.0))?;
            self.pop_mark("SETITEMS")?;
            // A template is used only above an empty dict.
            let memo = self.stack[at - 1].as_ref().map_or(NO_MEMO, |r| r.memo);
            return self.collapse(at, Ref { memo, ..Ref::EMPTY_DICT }, made);
        }
        self.set_items_slow()
    }

    #[cold]
    #[inline(never)]
    fn set_items_slow(&mut self) -> Result<(), ErrorKind> {
        let depth = self.marks.len().wrapping_sub(1);
        let at = self.open_mark("SETITEMS")?;
        let (at, target) = self.target(at, "SETITEMS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.dict(target, at, "SETITEMS")?;
        if target == Ref::EMPTY_DICT
            && let Some(slot) = self.templates.get_mut(depth)
            && let Some(template) = Template::of(&self.stack[at..])
        {
            *slot = template;
        }
        self.collapse(at, target, made)
    }

    /// Hands the items above `at`, keys and values in turn, to the sink.
    fn dict(&mut self, target: Ref, at: usize, op: &'static str) -> Result<Ref, ErrorKind> {
        let items = &self.stack[at..];
        if !items.len().is_multiple_of(2) {
            return Err(ErrorKind::TooFewValues(op));
        }
        self.keys.clear();
        self.keys.extend(items.iter().step_by(2).map_while(|k| k.as_text()));
        let made = if target == Ref::EMPTY_DICT && self.keys.len() * 2 == items.len() {
            self.values.clear();
            self.values.extend(items.iter().skip(1).step_by(2));
            let shape = self.shapes.intern(&self.keys);
            self.sink.row(shape, &self.keys, &self.values)
        } else {
            self.sink.dict(target, items)
        };
        made.map_err(|r| ErrorKind::Sink(r.0))
    }

    #[inline(always)]
    fn append_items(&mut self) -> Result<(), ErrorKind> {
        let at = self.open_mark("APPENDS")?;
        let (at, target) = self.target(at, "APPENDS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.sink.list(target, &self.stack[at..]).map_err(|r| ErrorKind::Sink(r.0))?;
        self.collapse(at, target, made)
    }

    fn append_one(&mut self) -> Result<(), ErrorKind> {
        self.need(2, "APPEND")?;
        let (at, target) = self.target(self.stack.len() - 1, "APPEND")?;
        let made = self.sink.list(target, &self.stack[at..]).map_err(|r| ErrorKind::Sink(r.0))?;
        self.collapse(at, target, made)
    }

    fn set_one(&mut self) -> Result<(), ErrorKind> {
        self.need(3, "SETITEM")?;
        let (at, target) = self.target(self.stack.len() - 2, "SETITEM")?;
        // One item at a time is how protocol 0 writes every dict: what it will be is not known before the last.
        let made = self.sink.dict(target, &self.stack[at..]).map_err(|r| ErrorKind::Sink(r.0))?;
        self.collapse(at, target, made)
    }

    fn list_or_dict(&mut self, is_dict: bool) -> Result<(), ErrorKind> {
        let op = if is_dict { "DICT" } else { "LIST" };
        let at = self.open_mark(op)?;
        let empty = if is_dict { Ref::EMPTY_DICT } else { Ref::EMPTY_LIST };
        let made = if self.stack.len() == at {
            empty
        } else if is_dict {
            self.dict(empty, at, op)?
        } else {
            self.sink.list(empty, &self.stack[at..]).map_err(|r| ErrorKind::Sink(r.0))?
        };
        self.stack.truncate(at);
        self.push(Value::Ref(made))
    }

    fn tuple(&mut self) -> Result<(), ErrorKind> {
        let at = self.open_mark("TUPLE")?;
        if self.stack.len() == at {
            return self.push(Value::EmptyTuple);
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
        let made = if items == [Value::Callable(Callable::Factory)] {
            Value::Callable(Callable::FactoryArgs)
        } else {
            Value::Ref(self.sink.tuple(items).map_err(|r| ErrorKind::Sink(r.0))?)
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
        }
        if let Value::Ref(r) = &mut self.stack[top] {
            r.memo = index;
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
        match (self.stack[at], self.stack[at + 1]) {
            (Value::Callable(Callable::Dict), Value::EmptyTuple | Value::Callable(Callable::FactoryArgs)) => {
                self.stack.truncate(at);
                self.push(Value::Ref(Ref::EMPTY_DICT))
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

fn memo_index(line: &[u8], op: &'static str) -> Result<u64, ErrorKind> {
    match number::decimal(line, false) {
        Ok(Value::Int(n)) if n >= 0 => Ok(n as u64),
        _ => Err(ErrorKind::Malformed(op)),
    }
}

/// A global that reads as data, or the refusal.
fn global(module: &str, name: &str) -> Result<Value, ErrorKind> {
    match (module, name) {
        ("collections", "OrderedDict" | "defaultdict") => Ok(Value::Callable(Callable::Dict)),
        ("builtins" | "__builtin__", "int" | "float" | "list" | "dict" | "set" | "str" | "tuple") => {
            Ok(Value::Callable(Callable::Factory))
        }
        _ => Err(ErrorKind::Global(format!("{module}.{name}"))),
    }
}
