//! Lists that are written in the same bytes.

use crate::cursor::Cursor;
use crate::memo::Memo;
use crate::{ErrorKind, Kind, Ref, Sink, Value, op};

/// Places of the cache; a run has a few hundred to a few thousand distinct stacks.
const PLACES: usize = 4096;

/// What lists of references to the memo became, by their bytes: the same bytes refer to the same items, so that a list
/// which comes again is found without looking at its items.
///
/// Only interned items and lists take part: they never change, and it does not matter who else holds them.
#[derive(Debug)]
pub(crate) struct ListCache<'a> {
    places: Vec<(&'a [u8], Ref)>,
    items: Vec<Value>,
}

impl<'a> ListCache<'a> {
    pub(crate) fn new() -> Self {
        Self { places: vec![(&[], Ref::EMPTY_LIST); PLACES], items: Vec::new() }
    }

    /// Forgets all: bytes may refer to other items from here on.
    #[cold]
    pub(crate) fn clear(&mut self) {
        self.places.fill((&[], Ref::EMPTY_LIST));
    }

    /// What the list became whose references are `bytes`, of which there is at least one.
    #[inline(always)]
    pub(crate) fn find_or_make<S: Sink>(
        &mut self,
        bytes: &'a [u8],
        memo: &Memo,
        sink: &mut S,
    ) -> Result<Ref, ErrorKind> {
        let place = place(bytes);
        match self.places.get(place) {
            Some((known, made)) if *known == bytes => Ok(*made),
            _ => self.make(place, bytes, memo, sink),
        }
    }

    #[inline(never)]
    fn make<S: Sink>(&mut self, place: usize, bytes: &'a [u8], memo: &Memo, sink: &mut S) -> Result<Ref, ErrorKind> {
        self.items.clear();
        let mut cursor = Cursor::new(bytes);
        let mut all_fixed = true;
        while let Some(opcode) = cursor.peek() {
            cursor.skip(1);
            let slot = match opcode {
                op::BINGET => u32::from(cursor.byte("BINGET")?),
                _ => u32::from_le_bytes(cursor.array("LONG_BINGET")?),
            };
            let item = memo.get(slot)?;
            all_fixed &= item.as_ref().is_none_or(|r| is_fixed(r, sink));
            self.items.push(item);
        }
        let made = sink.list(Ref::EMPTY_LIST, &self.items)?;
        if all_fixed && is_fixed(made, sink) {
            self.places[place] = (bytes, made);
        }
        Ok(made)
    }
}

/// Whether what `r` refers to never changes.
fn is_fixed<S: Sink>(r: Ref, sink: &S) -> bool {
    r.kind == Kind::TEXT || (r.kind >= Kind::FIRST_FREE && sink.is_interned(r.kind))
}

/// The place for these bytes.
#[inline(always)]
fn place(bytes: &[u8]) -> usize {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = bytes.len() as u64;
    let (words, _) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MIX).rotate_left(29);
    }
    // The last eight bytes once more, whole, instead of what is left over.
    let last = match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)),
    };
    hash = (hash ^ last).wrapping_mul(MIX);
    (hash >> 52) as usize % PLACES
}
