//! Strings, frames and stacks, each interned once.

/// Index into a [`StringTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StrId(pub u32);

/// Index of a distinct frame in a [`StackTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Index of a stack in a [`StackTable`]: a node of a prefix tree whose root is the empty stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

impl StackId {
    /// The stack without frames (autograd's own threads record it).
    pub const EMPTY: Self = Self(0);
    /// Column value for "no `frames` key".
    pub const MISSING: Self = Self(u32::MAX);
}

/// One source position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name.
    pub function: StrId,
    /// File as recorded.
    pub file: StrId,
    /// 1-based line, 0 where unknown.
    pub line: u32,
}

/// Interned strings; `StrId(0)` is the empty string.
#[derive(Debug, Clone, Default)]
pub struct StringTable {
    pub(super) offsets: Vec<u32>,
    pub(super) bytes: String,
}

impl StringTable {
    /// The text of `id`; empty for an id of another table.
    pub fn get(&self, id: StrId) -> &str {
        let i = id.0 as usize;
        match (self.offsets.get(i), self.offsets.get(i + 1)) {
            (Some(&a), Some(&b)) => &self.bytes[a as usize..b as usize],
            _ => "",
        }
    }
}

/// Interned frames and stacks. A stack is a node: its frame is the innermost, its parent the caller's stack.
#[derive(Debug, Clone, Default)]
pub struct StackTable {
    pub(super) frames: Vec<Frame>,
    pub(super) nodes: Vec<(StackId, FrameId)>,
}

impl StackTable {
    /// The frame `id`.
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0 as usize)
    }
    /// Frames of `stack`, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = (FrameId, &Frame)> {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::EMPTY || at == StackId::MISSING {
                return None;
            }
            let (parent, frame) = *self.nodes.get(at.0 as usize)?;
            at = parent;
            Some((frame, self.frames.get(frame.0 as usize)?))
        })
    }
    /// The caller's stack, `None` for the empty stack.
    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        if stack == StackId::EMPTY { None } else { self.nodes.get(stack.0 as usize).map(|n| n.0) }
    }
    /// Number of stacks, the empty one included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// Whether only the empty stack is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }
}
