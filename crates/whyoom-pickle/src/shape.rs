//! Key sequences of dicts, each numbered once, and how they are written in the bytes.

use std::collections::HashMap;

use crate::value::NO_MEMO;
use crate::{Ref, Value};

/// Number of a distinct sequence of text keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// Numbers key sequences in the order in which they are first seen.
#[derive(Debug, Default)]
pub struct Shapes {
    ids: HashMap<Box<[u32]>, ShapeId>,
    last: Option<(Box<[u32]>, ShapeId)>,
}

impl Shapes {
    /// The number of `keys`, new or known.
    pub fn intern(&mut self, keys: &[u32]) -> ShapeId {
        if let Some((last, id)) = &self.last
            && **last == *keys
        {
            return *id;
        }
        let next = ShapeId(self.ids.len() as u32);
        let id = *self.ids.entry(keys.into()).or_insert(next);
        self.last = Some((keys.into(), id));
        id
    }
}

/// How one key is written: a reference to the memo of at most five bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBytes {
    pub(crate) bits: u64,
    pub(crate) mask: u64,
    pub(crate) len: u8,
}

/// The keys of a dict that is expected to come again in the same bytes.
///
/// Dicts of one list repeat their keys, and every writer refers to a repeated key through the memo, so a dict can be
/// read by comparing bytes instead of pushing and comparing keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Template {
    pub(crate) keys: Vec<KeyBytes>,
    pub(crate) texts: Vec<u32>,
    /// Shape of the first `i + 1` keys.
    pub(crate) shapes: Vec<Option<ShapeId>>,
}

impl Template {
    /// Lets no further key match. Keys that were already left out stay known.
    pub(crate) fn retire(&mut self) {
        for key in &mut self.keys {
            (key.bits, key.mask) = (1, 0);
        }
    }

    /// The template for a dict whose keys stand at even places of `items`; `None` if a key did not come from the memo.
    pub(crate) fn of(items: &[Value]) -> Option<Self> {
        let mut template = Self::default();
        for key in items.iter().step_by(2) {
            let Value::Ref(Ref { index, memo, .. }) = *key else { return None };
            if memo == NO_MEMO {
                return None;
            }
            let key = if let Ok(short) = u8::try_from(memo) {
                KeyBytes { bits: u64::from(short) << 8 | u64::from(b'h'), mask: 0xFFFF, len: 2 }
            } else {
                KeyBytes { bits: u64::from(memo) << 8 | u64::from(b'j'), mask: 0xFF_FFFF_FFFF, len: 5 }
            };
            template.keys.push(key);
            template.texts.push(index);
            template.shapes.push(None);
        }
        Some(template)
    }
}
