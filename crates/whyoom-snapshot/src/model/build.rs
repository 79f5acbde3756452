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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_interned_once() {
        let mut strings = StringTableBuilder::default();
        let (a, b) = (strings.intern("alpha"), strings.intern("beta"));
        assert_eq!(strings.intern(""), StrId(0));
        assert_eq!((strings.intern("alpha"), strings.intern("beta")), (a, b));
        let table = strings.finish();
        assert_eq!((table.get(a), table.get(b), table.get(StrId(0)), table.get(StrId(99))), ("alpha", "beta", "", ""));
    }

    #[test]
    fn stacks_share_their_outer_ends() {
        let mut strings = StringTableBuilder::default();
        let mut stacks = StackTableBuilder::default();
        let mut frame = |name: &str, line| stacks.frame(Frame { function: strings.intern(name), file: StrId(0), line });
        let (main, step, loss) = (frame("main", 1), frame("step", 2), frame("loss", 3));
        assert_eq!(frame("main", 1), main);
        let short = stacks.stack([step, main].into_iter());
        let long = stacks.stack([loss, step, main].into_iter());
        assert_eq!(stacks.stack([].into_iter()), StackId::EMPTY);
        assert_eq!(stacks.stack([loss, step, main].into_iter()), long);
        let table = stacks.finish();
        assert_eq!(table.parent(long), Some(short));
        assert_eq!(table.frames(long).map(|(id, _)| id).collect::<Vec<_>>(), [loss, step, main]);
        assert_eq!(table.len(), 4);
    }
}
