//! Lists of frames, each distinct one turned into a stack once.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{FrameId, StackId, StackTableBuilder};

/// A distinct list of frames, innermost first.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    start: u32,
    len: u32,
    stack: StackId,
}

/// Maps lists of frames to stacks. A list is hashed as a whole, so a known one costs one look-up and not one per frame.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    frames: Vec<FrameId>,
    known: Vec<Sequence>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Sequences {
    /// The place of the list `frames`, new or known.
    pub(crate) fn intern(&mut self, frames: &[FrameId], stacks: &mut StackTableBuilder) -> u32 {
        let Self { frames: all, known, index, hasher } = self;
        let slice = |s: &Sequence, all: &[FrameId]| -> std::ops::Range<usize> {
            let range = s.start as usize..(s.start + s.len) as usize;
            if range.end <= all.len() { range } else { 0..0 }
        };
        let hash = hash(*hasher, frames);
        if let Some(at) = index.find(hash, |at| all[slice(&known[*at as usize], all)] == *frames) {
            return *at;
        }
        let at = known.len() as u32;
        let stack = stacks.stack(frames.iter().copied());
        known.push(Sequence { start: all.len() as u32, len: frames.len() as u32, stack });
        all.extend_from_slice(frames);
        index.insert_unique(hash, at, |at| self::hash(*hasher, &all[slice(&known[*at as usize], all)]));
        at
    }

    /// The stack of list `at`.
    pub(crate) fn stack(&self, at: u32) -> StackId {
        self.known.get(at as usize).map_or(StackId::MISSING, |s| s.stack)
    }

    /// The frames of list `at`, innermost first.
    pub(crate) fn frames(&self, at: u32) -> &[FrameId] {
        let range = self.known.get(at as usize).map(|s| s.start as usize..s.start as usize + s.len as usize);
        range.and_then(|r| self.frames.get(r)).unwrap_or_default()
    }
}

fn hash(hasher: DefaultHashBuilder, frames: &[FrameId]) -> u64 {
    let mut state = hasher.build_hasher();
    for frame in frames {
        state.write_u32(frame.0);
    }
    state.finish()
}
