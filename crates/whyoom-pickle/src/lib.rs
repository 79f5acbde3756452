//! Reads pickle opcodes into rows with bounded memory; calls nothing.
//!
//! A [`Machine`] runs over a byte slice and hands every dict, list and tuple to a [`Sink`] the moment it has its
//! items. The sink keeps what it wants and returns a small [`Ref`]; no tree of values is ever built, so a trace of
//! millions of entries costs the sink's columns and four bytes of memo per object.
//!
//! Protocols 0 to 5 are read, as written by Python's pickler and by PyTorch's C++ one. Opcodes that import, construct
//! or call are refused by name and offset; `OrderedDict` and `defaultdict` alone read as the dicts they are.
//!
//! Bounds: nothing is allocated for a length or an index that the input merely claims, the stack and the memo are
//! limited to what an honest file of that size needs, and nesting is limited ([`Limits`]).
//!
//! A container that contains itself reads as empty at the place where it does; no snapshot has one.

#![allow(clippy::inline_always, reason = "the dispatch loop is one function only if its parts are inlined")]

mod containers;
mod cursor;
mod error;
mod guess;
mod lane;
mod list_cache;
mod machine;
mod memo;
mod number;
mod op;
mod rare;
mod salvage;
mod shape;
mod sink;
mod value;

pub use error::{Error, ErrorKind};
pub use machine::Machine;
pub use shape::{ShapeId, Shapes};
pub use sink::{Refusal, Sink};
pub use value::{Callable, Item, Kind, Ref, Value};

/// Bounds of a [`Machine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Marks open at once.
    pub depth: usize,
    /// Values on the stack at once, roughly (the stack may grow to the next power of two).
    pub stack: usize,
    /// Memo entries.
    pub memo: usize,
}

impl Limits {
    /// What an honest file of `input_bytes` bytes cannot exceed.
    ///
    /// A value that waits on the stack is a row of at least eight bytes, or one of a short list; an object in the
    /// memo took at least two bytes to write.
    pub const fn for_input(input_bytes: usize) -> Self {
        const SMALL: usize = 1 << 16;
        const MOST: usize = u32::MAX as usize - 1;
        let memo = SMALL + input_bytes / 2;
        Self { depth: 512, stack: SMALL + input_bytes / 8, memo: if memo < MOST { memo } else { MOST } }
    }
}
