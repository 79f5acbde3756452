//! The memo: what later opcodes may refer back to, in four bytes an entry.

use crate::value::NO_MEMO;
use crate::{ErrorKind, Kind, Ref, Value};

const KIND_SHIFT: u32 = 28;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;
/// Kind bits of an entry that is unset, or lies in `wide`.
const SPECIAL: u32 = 0xF;
const UNSET: u32 = u32::MAX;

/// Memo of a pickle. A snapshot memoises a few million containers and texts, nearly all of which are a kind and a
/// small index; the rest lies in a side table.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    entries: Vec<u32>,
    wide: Vec<Value>,
    cap: usize,
}

impl Memo {
    /// A memo that refuses more than `cap` entries.
    pub(crate) fn new(cap: usize) -> Self {
        // A snapshot has an entry for every 30 bytes or so. Room that is never used costs no memory.
        Self { entries: Vec::with_capacity(cap / 16), wide: Vec::new(), cap }
    }

    /// Index that the next implicit store gets.
    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline(always)]
    fn pack(&mut self, value: Value) -> Result<u32, ErrorKind> {
        match value.as_ref() {
            Some(r) if r.index <= INDEX_MASK => Ok(u32::from(r.kind.0) << KIND_SHIFT | r.index),
            _ => self.pack_wide(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn pack_wide(&mut self, value: Value) -> Result<u32, ErrorKind> {
        let at = self.wide.len() as u32;
        if at >= INDEX_MASK {
            return Err(ErrorKind::MemoIndex(self.entries.len() as u64));
        }
        self.wide.push(value);
        Ok(SPECIAL << KIND_SHIFT | at)
    }

    /// Stores at the next free index (`MEMOIZE`).
    #[inline(always)]
    pub(crate) fn push(&mut self, value: Value) -> Result<u32, ErrorKind> {
        let at = self.entries.len();
        if at >= self.cap {
            return Err(ErrorKind::MemoIndex(at as u64));
        }
        let entry = self.pack(value)?;
        self.entries.push(entry);
        Ok(at as u32)
    }

    /// Stores at `index` (`PUT` and its kin). Also tells whether the slot held something before.
    pub(crate) fn put(&mut self, index: u64, value: Value) -> Result<(u32, bool), ErrorKind> {
        if index >= self.cap as u64 {
            return Err(ErrorKind::MemoIndex(index));
        }
        let at = index as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, UNSET);
        }
        let overwrites = self.entries[at] != UNSET;
        self.entries[at] = self.pack(value)?;
        Ok((at as u32, overwrites))
    }

    /// Lets slot `index` follow a container that got its items.
    #[inline(always)]
    pub(crate) fn follow(&mut self, index: u32, now: Ref) -> Result<(), ErrorKind> {
        if index != NO_MEMO && (index as usize) < self.entries.len() {
            self.entries[index as usize] = self.pack(Value::of(now))?;
        }
        Ok(())
    }

    /// Reads slot `index`.
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Result<Value, ErrorKind> {
        match self.entries.get(index as usize) {
            Some(entry) if entry >> KIND_SHIFT != SPECIAL => {
                let kind = Kind((entry >> KIND_SHIFT) as u8);
                Ok(Value::through(Ref::new(kind, entry & INDEX_MASK), index))
            }
            other => self.get_wide(index, other.copied().unwrap_or(UNSET)),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_wide(&self, index: u32, entry: u32) -> Result<Value, ErrorKind> {
        match self.wide.get((entry & INDEX_MASK) as usize) {
            Some(value) if entry != UNSET => Ok(value.as_ref().map_or(*value, |r| Value::through(r, index))),
            _ => Err(ErrorKind::NoMemo(u64::from(index))),
        }
    }
}
