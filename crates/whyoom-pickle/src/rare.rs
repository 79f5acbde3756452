//! Opcodes that a snapshot rarely or never has.

use crate::cursor::Cursor;
use crate::machine::Machine;
use crate::value::{Callable, Item};
use crate::{ErrorKind, Ref, Sink, Value, number, op};

impl<'a, S: Sink> Machine<'a, S> {
    /// Opcodes that snapshots rarely or never have. Returns the cursor behind the opcode's argument.
    #[cold]
    #[inline(never)]
    pub(crate) fn rare(&mut self, opcode: u8, mut cursor: Cursor<'a>) -> Result<Cursor<'a>, ErrorKind> {
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
