//! How a value was written last, which is how it will most likely be written next.

use crate::cursor::Cursor;
use crate::memo::Memo;
use crate::op;
use crate::{ErrorKind, Value};

/// The first bytes of a value, and what to make of the rest.
///
/// A processor guesses the outcome of the comparison and reads on behind the value at once; a length that it had to
/// look up by opcode would have to be there first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    /// Expected bytes: the opcode, and with it all that decides how the value is read.
    bits: u64,
    mask: u64,
    /// Length of the opcode and its argument.
    len: usize,
    class: Class,
    /// For integers: the bits of the argument.
    argument: u32,
    /// For integers: the argument's sign bit.
    sign: u32,
    /// For what is the same each time.
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// An integer of up to four bytes.
    Int,
    /// An integer of up to eight bytes.
    Long,
    /// A memo index.
    Get,
    /// `None` or a truth value.
    Constant,
    /// A short text that is stored in the memo anew each time.
    Text,
}

impl Guess {
    /// Matches nothing.
    pub(crate) const NEVER: Self =
        Self { bits: 1, mask: 0, len: 0, class: Class::Constant, argument: 0, sign: 0, value: Value::NONE };

    const fn opcode(opcode: u8, len: usize, class: Class) -> Self {
        Self { bits: opcode as u64, mask: 0xFF, len, class, ..Self::NEVER }
    }

    const fn int(opcode: u8, len: usize, argument: u32, sign: u32) -> Self {
        Self { argument, sign, ..Self::opcode(opcode, len, Class::Int) }
    }

    const fn get(opcode: u8, len: usize, argument: u32) -> Self {
        Self { argument, ..Self::opcode(opcode, len, Class::Get) }
    }

    const fn constant(opcode: u8, value: Value) -> Self {
        Self { value, ..Self::opcode(opcode, 1, Class::Constant) }
    }

    /// How to read the simple value that begins with the bytes `ahead`, if it is one.
    pub(crate) const fn of(ahead: u64) -> Option<Self> {
        Some(match ahead as u8 {
            op::BININT1 => Self::int(op::BININT1, 2, 0xFF, 0),
            op::BININT2 => Self::int(op::BININT2, 3, 0xFFFF, 0),
            op::BININT => Self::int(op::BININT, 5, u32::MAX, 1 << 31),
            op::BINGET => Self::get(op::BINGET, 2, 0xFF),
            op::LONG_BINGET => Self::get(op::LONG_BINGET, 5, u32::MAX),
            op::NONE => Self::constant(op::NONE, Value::NONE),
            op::NEWTRUE => Self::constant(op::NEWTRUE, Value::bool(true)),
            op::NEWFALSE => Self::constant(op::NEWFALSE, Value::bool(false)),
            op::LONG1 => {
                let len = (ahead >> 8) as u8;
                if len == 0 || len > 8 {
                    return None;
                }
                let guess = Self::opcode(op::LONG1, 2 + len as usize, Class::Long);
                Self { bits: ahead & 0xFFFF, mask: 0xFFFF, argument: 64 - 8 * len as u32, ..guess }
            }
            _ => return None,
        })
    }

    /// A text of `len` bytes, opcode and `MEMOIZE` included, that begin with `ahead`; `NEVER` if it is too long.
    pub(crate) const fn text(ahead: u64, len: usize, value: Value) -> Self {
        if len == 0 || len > 8 {
            return Self::NEVER;
        }
        let mask = u64::MAX >> (64 - 8 * len as u32);
        Self { bits: ahead & mask, mask, len, class: Class::Text, value, ..Self::NEVER }
    }

    /// The value at the cursor, if it is written as expected. The cursor moves past it then.
    #[inline(always)]
    pub(crate) fn read(&self, cursor: &mut Cursor<'_>, memo: &mut Memo) -> Result<Option<Value>, ErrorKind> {
        let Some(ahead) = cursor.peek_u64() else { return Ok(None) };
        if ahead & self.mask != self.bits {
            return Ok(None);
        }
        let argument = (ahead >> 8) as u32 & self.argument;
        let value = match self.class {
            // Subtracting the flipped sign bit extends it.
            Class::Int => Value::int(i64::from(argument ^ self.sign) - i64::from(self.sign)),
            // An entry that is not there is the plain opcode's to complain of, which knows the offset.
            Class::Get => match memo.get(argument) {
                Ok(value) => value,
                Err(_) => return Ok(None),
            },
            Class::Long => {
                // Reading eight bytes and shifting spares a copy of variable length.
                let Some(bytes) = cursor.peek_u64_at(2) else { return Ok(None) };
                Value::int((bytes << self.argument) as i64 >> self.argument)
            }
            Class::Constant => self.value,
            Class::Text => match self.value.as_ref() {
                Some(text) => Value::through(text, memo.push(self.value)?),
                None => self.value,
            },
        };
        cursor.skip(self.len);
        Ok(Some(value))
    }
}
