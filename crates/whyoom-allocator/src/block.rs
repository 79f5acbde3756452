//! Blocks and the slab that holds them.

/// Handle of a block in an [`crate::Allocator`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockId(pub(crate) u32);

pub(crate) const NONE: u32 = u32::MAX;

pub(crate) const ALLOCATED: u8 = 1;
/// Freed by the program, waiting for other streams.
pub(crate) const PENDING: u8 = 2;
pub(crate) const MAPPED: u8 = 4;
pub(crate) const EXPANDABLE: u8 = 8;
/// A slot of the slab without a block.
pub(crate) const VACANT: u8 = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// Pool clock when the block last became free.
    pub(crate) gc_base: u32,
    /// The caller's name for the allocation.
    pub(crate) tag: u32,
    pub(crate) arena: u16,
    pub(crate) flags: u8,
}

impl Block {
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    /// Not held by the program and not waiting: mergeable, and usable by an expandable walk.
    #[inline]
    pub(crate) fn is_allocatable(&self) -> bool {
        self.flags & (ALLOCATED | PENDING) == 0
    }
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }
    /// Of a free block: a `cudaMalloc` segment that is free as a whole. It stays so as long as the block is free.
    #[inline]
    pub(crate) fn is_releasable(&self) -> bool {
        !self.has(EXPANDABLE) && !self.is_split()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Slab {
    blocks: Vec<Block>,
    vacant: Vec<u32>,
}

impl Slab {
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) -> u32 {
        if let Some(id) = self.vacant.pop() {
            self.blocks[id as usize] = block;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.blocks[id as usize].flags = VACANT;
        self.vacant.push(id);
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        self.blocks.iter().enumerate().filter(|(_, b)| !b.has(VACANT)).map(|(i, b)| (i as u32, b))
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Block;
    #[inline]
    fn index(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Block {
        &mut self.blocks[id as usize]
    }
}
