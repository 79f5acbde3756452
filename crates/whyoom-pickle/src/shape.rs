//! Key sequences of dicts, each numbered once, and how they are written in the bytes.

use std::collections::HashMap;

use crate::guess::Guess;
use crate::op;
use crate::value::NO_MEMO;
use crate::{Kind, Ref, Value};

/// Number of a distinct sequence of text keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// Distinct key sequences that are numbered; a snapshot has a few dozen.
const MOST_SHAPES: usize = 4096;

/// Numbers key sequences in the order in which they are first seen, up to 4096 of them.
#[derive(Debug, Default)]
pub struct Shapes {
    ids: HashMap<Box<[u32]>, ShapeId>,
    last: Option<(Box<[u32]>, ShapeId)>,
}

impl Shapes {
    /// The number of `keys`, new or known; `None` if it is new and there are too many.
    pub fn intern(&mut self, keys: &[u32]) -> Option<ShapeId> {
        if let Some((last, id)) = &self.last
            && **last == *keys
        {
            return Some(*id);
        }
        let id = match self.ids.get(keys) {
            Some(id) => *id,
            None if self.ids.len() >= MOST_SHAPES => return None,
            None => {
                let id = ShapeId(self.ids.len() as u32);
                self.ids.insert(keys.into(), id);
                id
            }
        };
        self.last = Some((keys.into(), id));
        Some(id)
    }
}

/// How one key is written, a reference to the memo of at most five bytes, and how its value was written last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBytes {
    pub(crate) bits: u64,
    pub(crate) mask: u64,
    pub(crate) len: usize,
    pub(crate) value: Guess,
}

impl KeyBytes {
    /// Matches nothing.
    const NEVER: Self = Self { bits: 1, mask: 0, len: 0, value: Guess::NEVER };
}

/// Longest dict that a template covers, plus one.
pub(crate) const TEMPLATE_KEYS: usize = 32;

/// The keys of a dict that is expected to come again in the same bytes.
///
/// Dicts of one list repeat their keys, and every writer refers to a repeated key through the memo, so a dict can be
/// read by comparing bytes instead of pushing and comparing keys.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The keys, then [`KeyBytes::NEVER`] to the end.
    pub(crate) keys: [KeyBytes; TEMPLATE_KEYS],
    pub(crate) texts: Vec<u32>,
    /// Memo slot of each key.
    memos: Vec<u32>,
    /// Shape of the first `i + 1` keys.
    shapes: Vec<Option<ShapeId>>,
}

impl Default for Template {
    fn default() -> Self {
        Self { keys: [KeyBytes::NEVER; TEMPLATE_KEYS], texts: Vec::new(), memos: Vec::new(), shapes: Vec::new() }
    }
}

impl Template {
    /// Forgets all.
    pub(crate) fn retire(&mut self) {
        self.keys = [KeyBytes::NEVER; TEMPLATE_KEYS];
        self.texts.clear();
        self.memos.clear();
        self.shapes.clear();
    }

    /// Becomes the template for a dict whose keys stand at even places of `items`, unless a key did not come from the
    /// memo.
    pub(crate) fn learn(&mut self, items: &[Value]) {
        let keys = || items.iter().step_by(2);
        if items.len() / 2 >= TEMPLATE_KEYS || keys().any(|k| k.as_text().is_none() || k.memo() == NO_MEMO) {
            return;
        }
        self.retire();
        for (key, bytes) in keys().zip(&mut self.keys) {
            let memo = key.memo();
            *bytes = if let Ok(short) = u8::try_from(memo) {
                KeyBytes {
                    bits: u64::from(short) << 8 | u64::from(op::BINGET),
                    mask: 0xFFFF,
                    len: 2,
                    value: Guess::NEVER,
                }
            } else {
                KeyBytes {
                    bits: u64::from(memo) << 8 | u64::from(op::LONG_BINGET),
                    mask: 0xFF_FFFF_FFFF,
                    len: 5,
                    value: Guess::NEVER,
                }
            };
            self.texts.extend(key.as_text());
            self.memos.push(memo);
            self.shapes.push(None);
        }
    }

    /// Key number `at` as the machine's stack would hold it.
    pub(crate) fn key(&self, at: usize) -> Option<Value> {
        let (text, memo) = (self.texts.get(at)?, self.memos.get(at)?);
        Some(Value::through(Ref::new(Kind::TEXT, *text), *memo))
    }

    /// The shape of the first `count` keys, which are at least one; `None` if there are too many shapes.
    #[inline(always)]
    pub(crate) fn shape(&mut self, count: usize, shapes: &mut Shapes) -> Option<ShapeId> {
        match self.shapes.get(count - 1) {
            Some(Some(shape)) => Some(*shape),
            _ => self.new_shape(count, shapes),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_shape(&mut self, count: usize, shapes: &mut Shapes) -> Option<ShapeId> {
        let shape = shapes.intern(self.texts.get(..count)?)?;
        *self.shapes.get_mut(count - 1)? = Some(shape);
        Some(shape)
    }
}
