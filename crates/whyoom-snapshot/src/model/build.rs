//! Interning strings, frames and stacks without a second copy of the keys.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Frame, FrameId, StackId, StackTable, StrId, StringTable};

/// Builds a [`StringTable`].
#[derive(Debug)]
pub struct StringTableBuilder {
    table: StringTable,
    index: HashTable<StrId>,
    hasher: DefaultHashBuilder,
}

impl Default for StringTableBuilder {
    fn default() -> Self {
        let table = StringTable { offsets: vec![0], bytes: String::new() };
        let mut builder = Self { table, index: HashTable::new(), hasher: DefaultHashBuilder::default() };
        builder.intern("");
        builder
    }
}

impl StringTableBuilder {
    /// The id of `text`, new or known. Past 4 GiB of distinct text, new strings get the id of the empty one.
    pub fn intern(&mut self, text: &str) -> StrId {
        let Self { table, index, hasher } = self;
        let hash = hasher.hash_one(text);
        if let Some(id) = index.find(hash, |id| table.get(*id) == text) {
            return *id;
        }
        let Ok(end) = u32::try_from(table.bytes.len() + text.len()) else { return StrId(0) };
        let id = StrId(table.offsets.len() as u32 - 1);
        table.bytes.push_str(text);
        table.offsets.push(end);
        index.insert_unique(hash, id, |id| hasher.hash_one(table.get(*id)));
        id
    }

    /// The table so far.
    pub fn table(&self) -> &StringTable {
        &self.table
    }

    /// The finished table.
    pub fn finish(self) -> StringTable {
        self.table
    }
}

/// Builds a [`StackTable`].
#[derive(Debug)]
pub struct StackTableBuilder {
    table: StackTable,
    frames: HashTable<FrameId>,
    nodes: HashTable<StackId>,
    hasher: DefaultHashBuilder,
}

impl Default for StackTableBuilder {
    fn default() -> Self {
        let table = StackTable { frames: Vec::new(), nodes: vec![(StackId::EMPTY, FrameId(u32::MAX))] };
        Self { table, frames: HashTable::new(), nodes: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl StackTableBuilder {
    /// The id of `frame`, new or known.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        let Self { table, frames, hasher, .. } = self;
        intern(&mut table.frames, frames, *hasher, frame, FrameId, |id| id.0)
    }

    /// The stack that `frame` makes on top of its caller's stack `parent`.
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let Self { table, nodes, hasher, .. } = self;
        intern(&mut table.nodes, nodes, *hasher, (parent, frame), StackId, |id| id.0)
    }

    /// The stack of `frames`, given innermost first.
    pub fn stack(&mut self, frames: impl DoubleEndedIterator<Item = FrameId>) -> StackId {
        frames.rev().fold(StackId::EMPTY, |parent, frame| self.push(parent, frame))
    }

    /// The table so far.
    pub fn table(&self) -> &StackTable {
        &self.table
    }

    /// The finished table.
    pub fn finish(self) -> StackTable {
        self.table
    }
}

fn intern<T: Copy + Eq + Hash, Id: Copy>(
    rows: &mut Vec<T>,
    index: &mut HashTable<Id>,
    hasher: DefaultHashBuilder,
    row: T,
    make: impl Fn(u32) -> Id,
    place: impl Fn(Id) -> u32,
) -> Id {
    let hash = hasher.hash_one(row);
    if let Some(id) = index.find(hash, |id| rows[place(*id) as usize] == row) {
        return *id;
    }
    let id = make(rows.len() as u32);
    rows.push(row);
    index.insert_unique(hash, id, |id| hasher.hash_one(rows[place(*id) as usize]));
    id
}
