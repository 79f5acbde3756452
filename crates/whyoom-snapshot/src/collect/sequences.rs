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
    index: HashTable<Sequence>,
    hasher: DefaultHashBuilder,
}

impl Sequences {
    /// The stack of `frames`, new or known.
    pub(crate) fn intern(&mut self, frames: &[FrameId], stacks: &mut StackTableBuilder) -> StackId {
        let Self { frames: all, index, hasher } = self;
        let hash = hash(*hasher, frames);
        if let Some(known) = index.find(hash, |s| slice(all, s) == frames) {
            return known.stack;
        }
        let stack = stacks.stack(frames.iter().copied());
        let (Ok(start), Ok(len)) = (u32::try_from(all.len()), u32::try_from(frames.len())) else { return stack };
        all.extend_from_slice(frames);
        index.insert_unique(hash, Sequence { start, len, stack }, |s| self::hash(*hasher, slice(all, s)));
        stack
    }
}

fn slice<'a>(all: &'a [FrameId], s: &Sequence) -> &'a [FrameId] {
    let start = s.start as usize;
    all.get(start..start + s.len as usize).unwrap_or_default()
}

fn hash(hasher: DefaultHashBuilder, frames: &[FrameId]) -> u64 {
    let mut state = hasher.build_hasher();
    for frame in frames {
        state.write_u32(frame.0);
    }
    state.finish()
}
