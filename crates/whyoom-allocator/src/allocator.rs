//! The allocator: `malloc`, `free`, and what both stand on.

use crate::block::{ALLOCATED, Block, BlockId, EXPANDABLE, MAPPED, NONE, PENDING, Slab};
use crate::driver::Driver;
use crate::free_set::{FreeKey, FreeSet};
use crate::size::{MIN_BLOCK, SMALL_REQUEST, SizeRules};
use crate::stats::Stats;
use crate::{Model, Settings};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Streams whose arenas are found by index; those of more are searched for.
const DIRECT_STREAMS: u16 = 64;
/// Highest number of a private pool; a file that names more is damaged, and they share this one.
const LAST_POOL: u16 = u16::MAX / 2 - 1;

/// One request of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Unrounded bytes.
    pub bytes: u64,
    /// Index of the stream in the list given to [`Allocator::new`].
    pub stream: u16,
    /// 0 = default pool, otherwise the private pool of that number.
    pub pool: u16,
    /// The caller's name for the allocation, handed back by [`Allocator::take_synchronised`].
    pub tag: u32,
}

/// A request failed after all retries (`num_ooms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Rounded request, as the trace's `oom` entry has it.
    pub size: u64,
    /// What the driver was asked for, as the message has it.
    pub segment_bytes: u64,
}

/// Options of a private pool (`torch.cuda.MemPool`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Blocks are never split (2.11 and later).
    pub no_split: bool,
    /// A last source for default-pool requests (2.8 and later).
    pub use_on_oom: bool,
}

/// Free blocks of one pool and one stream: an independent world.
#[derive(Debug, Clone)]
pub(crate) struct Arena {
    pub(crate) pool: u16,
    pub(crate) stream: u64,
    pub(crate) free: FreeSet,
    /// Unmapped address ranges of expandable segments, by address.
    pub(crate) unmapped: BTreeSet<(u64, u32)>,
}

/// `BlockPool`: the small or large half of the default pool or of a private one.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) is_small: bool,
    /// Private pool this half belongs to, 0 = default.
    pub(crate) owner: u16,
    /// `get_free_blocks_call_count`.
    pub(crate) clock: u32,
    /// Wholly free `cudaMalloc` segments.
    pub(crate) releasable: u32,
    /// Free blocks in expandable segments, some of whose pages may be given back.
    pub(crate) expandable: u32,
    /// Arenas in the order of their stream pointers, which is the order of releases.
    pub(crate) arenas: Vec<u16>,
    /// Arena per stream index below [`DIRECT_STREAMS`], `u16::MAX` where none was needed yet.
    pub(crate) by_stream: Vec<u16>,
    pub(crate) options: PoolOptions,
}

impl Pool {
    #[inline]
    fn count_free(&mut self, block: &Block) {
        if block.has(EXPANDABLE) {
            self.expandable += 1;
        } else if !block.is_split() {
            self.releasable += 1;
        }
    }

    /// A free block stays split, or not, as long as it is free. Only where blocks of a damaged file overlap may it not.
    #[inline]
    pub(crate) fn uncount_free(&mut self, block: &Block) {
        if block.has(EXPANDABLE) {
            self.expandable = self.expandable.saturating_sub(1);
        } else if !block.is_split() {
            self.releasable = self.releasable.saturating_sub(1);
        }
    }
}

/// PyTorch's native caching allocator of one device.
///
/// Requests in, placements out; the [`Driver`] supplies memory and sees every call to it. Nothing is guessed:
/// with the addresses the driver really gave, the placements are those of the real allocator.
#[derive(Debug, Clone)]
pub struct Allocator {
    pub(crate) model: Model,
    pub(crate) settings: Settings,
    pub(crate) sizes: SizeRules,
    pub(crate) streams: Arc<[u64]>,
    pub(crate) blocks: Slab,
    pub(crate) arenas: Vec<Arena>,
    /// `2 * owner` is the small half, `2 * owner + 1` the large half.
    pub(crate) pools: Vec<Pool>,
    /// Private pools whose use count fell to 0, in the order in which they did.
    pub(crate) freeable: Vec<u16>,
    /// Blocks that wait for other streams, in order; [`NONE`] where one is done. A waiting block's `gc_base` is its place.
    pub(crate) pending: Vec<u32>,
    pub(crate) pending_done: usize,
    pub(crate) synchronised: Vec<u32>,
    pub(crate) stats: Stats,
    pub(crate) max_split: u64,
    pub(crate) max_rounding: u64,
    pub(crate) has_use_on_oom_pool: bool,
    /// Garbage collection is on.
    pub(crate) collects: bool,
}

impl Allocator {
    /// An empty allocator. `streams` are the raw stream pointers that requests refer to by index.
    pub fn new(model: Model, settings: Settings, streams: &[u64]) -> Self {
        Self::sharing(model, settings, streams.into())
    }

    /// As [`Allocator::new`], without a copy of `streams`.
    pub fn sharing(model: Model, settings: Settings, streams: Arc<[u64]>) -> Self {
        let sizes = SizeRules::new(&model, &settings);
        let max_rounding = if model.has_max_non_split_rounding { settings.max_non_split_rounding } else { 20 << 20 };
        let mut new = Self {
            sizes,
            max_split: settings.max_split_size.unwrap_or(u64::MAX),
            max_rounding,
            collects: settings.garbage_collection_threshold > 0.0,
            model,
            settings,
            streams,
            blocks: Slab::default(),
            arenas: Vec::new(),
            pools: Vec::new(),
            freeable: Vec::new(),
            pending: Vec::new(),
            pending_done: 0,
            synchronised: Vec::new(),
            stats: Stats::default(),
            has_use_on_oom_pool: false,
        };
        new.ensure_pool(0);
        new
    }

    /// Figures so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Size rules in force.
    pub fn sizes(&self) -> &SizeRules {
        &self.sizes
    }

    /// Sets the options of private pool `pool`.
    pub fn set_pool_options(&mut self, pool: u16, options: PoolOptions) {
        let pool = pool.min(LAST_POOL);
        self.ensure_pool(pool);
        for half in [2 * pool, 2 * pool + 1] {
            self.pools[half as usize].options = options;
        }
        self.has_use_on_oom_pool |= options.use_on_oom && self.model.has_use_on_oom;
    }

    /// The private pool's use count fell to 0: its free memory goes at the next full release.
    pub fn make_pool_freeable(&mut self, pool: u16) {
        if pool != 0 && !self.freeable.contains(&pool) {
            self.freeable.push(pool);
        }
    }

    fn ensure_pool(&mut self, owner: u16) {
        while self.pools.len() <= 2 * owner as usize + 1 {
            let n = self.pools.len();
            self.pools.push(Pool {
                is_small: n.is_multiple_of(2),
                owner: (n / 2) as u16,
                clock: 0,
                releasable: 0,
                expandable: 0,
                arenas: Vec::new(),
                by_stream: Vec::new(),
                options: PoolOptions::default(),
            });
        }
    }

    /// The arena for requests of this class, made if new.
    pub(crate) fn arena(&mut self, pool: u16, is_small: bool, stream: u16) -> u16 {
        let pool = pool.min(LAST_POOL);
        let half = 2 * pool as usize + usize::from(!is_small);
        if let Some(&known) = self.pools.get(half).and_then(|p| p.by_stream.get(stream as usize))
            && known != u16::MAX
        {
            return known;
        }
        self.ensure_pool(pool);
        let pointer = self.streams.get(stream as usize).copied().unwrap_or(0);
        let (arenas, pool) = (&mut self.arenas, &mut self.pools[half]);
        let at = pool.arenas.partition_point(|&a| arenas[a as usize].stream < pointer);
        let id = match pool.arenas.get(at) {
            Some(&known) if arenas[known as usize].stream == pointer => known,
            // Only a damaged file has so many; they share the last one.
            _ if arenas.len() >= u16::MAX as usize => u16::MAX - 1,
            _ => {
                let id = arenas.len() as u16;
                arenas.push(Arena {
                    pool: half as u16,
                    stream: pointer,
                    free: FreeSet::default(),
                    unmapped: BTreeSet::new(),
                });
                pool.arenas.insert(at, id);
                id
            }
        };
        if stream < DIRECT_STREAMS {
            let slots = pool.by_stream.len().max(stream as usize + 1);
            pool.by_stream.resize(slots, u16::MAX);
            pool.by_stream[stream as usize] = id;
        }
        id
    }

    /// Serves a request: `malloc` in `CUDACachingAllocator.cpp`.
    ///
    /// Pending blocks must have been completed by the caller up to the moment of this request
    /// ([`Allocator::complete`]); when work on other streams ends is not the allocator's knowledge.
    ///
    /// # Errors
    /// [`OutOfMemory`] after every retry failed; the retries' releases stay in effect.
    #[inline]
    pub fn malloc<D: Driver>(&mut self, driver: &mut D, request: Request) -> Result<BlockId, OutOfMemory> {
        let size = self.sizes.round(request.bytes);
        let arena = self.arena(request.pool, size <= SMALL_REQUEST, request.stream);
        let found = match self.take_free_block(arena, size) {
            Some(block) => block,
            None => self.grow(driver, arena, size, request.pool != 0)?,
        };
        Ok(self.finish(found, size, &request))
    }

    /// Whether a request would be served from free blocks as they are now, without asking the driver.
    pub fn would_fit(&mut self, request: &Request) -> bool {
        let size = self.sizes.round(request.bytes);
        let arena = self.arena(request.pool, size <= SMALL_REQUEST, request.stream);
        self.find_free_block(arena, size).is_some()
    }

    #[cold]
    fn grow<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64, in_scope: bool) -> Result<u32, OutOfMemory> {
        let segment_bytes = self.sizes.segment(size);
        self.collect_garbage(driver);
        if let Some(block) = self.alloc_block(driver, arena, size, false) {
            return Ok(block);
        }
        if self.model.use_on_oom_before_release
            && let Some(block) = self.take_from_use_on_oom(arena, size)
        {
            return Ok(block);
        }
        if !self.settings.throw_on_cudamalloc_oom || driver.allows(self.stats.reserved.current + segment_bytes, false) {
            if self.release_available(driver, arena, size)
                && let Some(block) = self.alloc_block(driver, arena, size, false)
            {
                return Ok(block);
            }
            if !(in_scope && self.model.pool_scope_blocks_retry) {
                self.release_cached(driver);
                if let Some(block) = self.alloc_block(driver, arena, size, true) {
                    return Ok(block);
                }
            }
        }
        if !self.model.use_on_oom_before_release
            && let Some(block) = self.take_from_use_on_oom(arena, size)
        {
            return Ok(block);
        }
        self.stats.ooms += 1;
        Err(OutOfMemory { size, segment_bytes })
    }

    /// `alloc_block`: asks the driver, by mapping or by a segment.
    fn alloc_block<D: Driver>(&mut self, driver: &mut D, arena: u16, size: u64, is_retry: bool) -> Option<u32> {
        if is_retry {
            self.stats.retries += 1;
        }
        let segment_bytes = self.sizes.segment(size);
        let expands = self.expands(arena);
        let wanted = self.stats.reserved.current.checked_add(segment_bytes)?;
        if !driver.allows(wanted, expands) {
            return None;
        }
        if expands {
            return self.alloc_expandable(driver, arena, size);
        }
        let addr = driver.segment_alloc(segment_bytes, self.arenas[arena as usize].stream)?;
        self.stats.reserved.add(segment_bytes);
        self.stats.segments.add(1);
        self.stats.driver_allocations += 1;
        Some(self.blocks.insert(Block {
            addr,
            size: segment_bytes,
            requested: 0,
            prev: NONE,
            next: NONE,
            gc_base: 0,
            tag: 0,
            arena,
            flags: MAPPED,
        }))
    }

    /// Whether new memory of this arena is mapped into expandable segments.
    pub(crate) fn expands(&self, arena: u16) -> bool {
        self.settings.expandable_segments
            && self.model.has_expandable_segments
            && (self.model.private_pools_expand || self.pools[self.arenas[arena as usize].pool as usize].owner == 0)
    }

    /// Splits a block taken out of the pool if the rules say so, and hands out its low part.
    fn finish(&mut self, id: u32, size: u64, request: &Request) -> BlockId {
        let block = self.blocks[id];
        if self.should_split(&block, size) {
            let rest = self.blocks.insert(Block {
                addr: block.addr + size,
                size: block.size - size,
                requested: 0,
                prev: id,
                next: block.next,
                ..block
            });
            if block.next != NONE {
                self.blocks[block.next].prev = rest;
            }
            let taken = &mut self.blocks[id];
            taken.size = size;
            taken.next = rest;
            self.insert_free(rest);
        }
        let taken = &mut self.blocks[id];
        taken.flags |= ALLOCATED;
        taken.requested = request.bytes;
        taken.tag = request.tag;
        let size = taken.size;
        self.stats.allocated.add(size);
        self.stats.active.add(size);
        self.stats.requested.add(request.bytes);
        BlockId(id)
    }

    /// `should_split`.
    #[inline]
    fn should_split(&self, block: &Block, size: u64) -> bool {
        let remaining = block.size - size;
        if remaining == 0 {
            return false;
        }
        let pool = &self.pools[self.arenas[block.arena as usize].pool as usize];
        if pool.options.no_split && self.model.has_no_split {
            return false;
        }
        if pool.is_small || (self.settings.expandable_segments && self.model.has_expandable_segments) {
            remaining >= MIN_BLOCK
        } else {
            size < self.max_split && remaining > SMALL_REQUEST
        }
    }

    /// The program dropped a block no other stream uses: `free` with an immediate `free_block`.
    #[inline]
    pub fn free(&mut self, id: BlockId) {
        self.stats.allocated.sub(self.blocks[id.0].size);
        self.free_block(id.0);
    }

    /// The program dropped a block that other streams still use: it stays active until [`Allocator::complete`].
    pub fn free_pending(&mut self, id: BlockId) {
        let block = &mut self.blocks[id.0];
        block.flags = (block.flags & !ALLOCATED) | PENDING;
        let size = block.size;
        self.stats.allocated.sub(size);
        self.push_pending(id.0);
    }

    pub(crate) fn push_pending(&mut self, id: u32) {
        self.blocks[id].gc_base = self.pending.len() as u32;
        self.pending.push(id);
    }

    /// Work on other streams is done with a pending block.
    pub fn complete(&mut self, id: BlockId) {
        let place = self.blocks[id.0].gc_base as usize;
        if self.pending.get(place) != Some(&id.0) {
            return;
        }
        self.pending[place] = NONE;
        self.pending_done += 1;
        // Now and then the gaps are closed, so that the list stays as short as what waits.
        if self.pending_done > 32 && self.pending_done * 2 > self.pending.len() {
            self.pending.retain(|&p| p != NONE);
            self.pending_done = 0;
            for (place, &p) in self.pending.iter().enumerate() {
                self.blocks[p].gc_base = place as u32;
            }
        }
        self.free_block(id.0);
    }

    /// Whether the memory that completing `id` sets free could serve `request`. Where it could not, and nothing else
    /// can, nothing can afterwards.
    pub fn may_serve(&mut self, id: BlockId, request: &Request) -> bool {
        let size = self.sizes.round(request.bytes);
        let arena = self.arena(request.pool, size <= SMALL_REQUEST, request.stream);
        let block = &self.blocks[id.0];
        let beside = |at: u32| match at {
            NONE => 0,
            at => Some(&self.blocks[at]).filter(|b| b.is_allocatable() && b.has(MAPPED)).map_or(0, |b| b.size),
        };
        block.arena == arena && block.size + beside(block.prev) + beside(block.next) >= size
    }

    /// Tags of pending blocks that a synchronisation inside the allocator completed since the last call.
    pub fn take_synchronised(&mut self) -> std::vec::Drain<'_, u32> {
        self.synchronised.drain(..)
    }

    /// Whether [`Allocator::take_synchronised`] has something to tell.
    pub fn has_synchronised(&self) -> bool {
        !self.synchronised.is_empty()
    }

    /// Completes a block that is no longer on the pending list.
    pub(crate) fn complete_now(&mut self, id: u32) {
        self.free_block(id);
    }

    /// `free_block`: merge with the neighbours and go back to the pool.
    fn free_block(&mut self, id: u32) {
        let block = &mut self.blocks[id];
        block.flags &= !(ALLOCATED | PENDING);
        let (size, requested) = (block.size, block.requested);
        self.stats.active.sub(size);
        self.stats.requested.sub(requested);
        self.merge_with_neighbours(id);
        self.insert_free(id);
    }

    /// Merges `id` with its previous, then its next neighbour, where they are free and in the same mapping state.
    /// `id` survives. A neighbour leaves the set it is in.
    pub(crate) fn merge_with_neighbours(&mut self, id: u32) {
        let block = self.blocks[id];
        if block.prev != NONE {
            let prev = self.blocks[block.prev];
            if prev.is_allocatable() && prev.has(MAPPED) == block.has(MAPPED) {
                self.remove_free(block.prev);
                let merged = &mut self.blocks[id];
                merged.addr = prev.addr;
                merged.size += prev.size;
                merged.prev = prev.prev;
                if prev.prev != NONE {
                    self.blocks[prev.prev].next = id;
                }
                self.blocks.remove(block.prev);
            }
        }
        if block.next != NONE {
            let next = self.blocks[block.next];
            if next.is_allocatable() && next.has(MAPPED) == block.has(MAPPED) {
                self.remove_free(block.next);
                let merged = &mut self.blocks[id];
                merged.size += next.size;
                merged.next = next.next;
                if next.next != NONE {
                    self.blocks[next.next].prev = id;
                }
                self.blocks.remove(block.next);
            }
        }
    }

    /// Puts a free block into the set it belongs to.
    #[inline]
    pub(crate) fn insert_free(&mut self, id: u32) {
        let block = &mut self.blocks[id];
        let arena = &mut self.arenas[block.arena as usize];
        if block.has(MAPPED) {
            let pool = &mut self.pools[arena.pool as usize];
            block.gc_base = pool.clock;
            pool.count_free(block);
            arena.free.insert(FreeKey { size: block.size, addr: block.addr, block: id });
        } else {
            arena.unmapped.insert((block.addr, id));
        }
    }

    #[inline]
    pub(crate) fn remove_free(&mut self, id: u32) {
        let block = &self.blocks[id];
        let arena = &mut self.arenas[block.arena as usize];
        if block.has(MAPPED) {
            if arena.free.remove(block.size, block.addr) {
                self.pools[arena.pool as usize].uncount_free(block);
            }
        } else {
            arena.unmapped.remove(&(block.addr, id));
        }
    }

    /// Address, size and requested bytes of a block.
    #[inline]
    pub fn block(&self, id: BlockId) -> PlacedBlock {
        placed(&self.blocks[id.0])
    }

    /// Free bytes, free blocks and the largest free block that a request of this class could draw on.
    pub fn free_space(&mut self, request: &Request) -> FreeSpace {
        let size = self.sizes.round(request.bytes);
        let arena = self.arena(request.pool, size <= SMALL_REQUEST, request.stream);
        let free = &self.arenas[arena as usize].free;
        FreeSpace { bytes: free.bytes(), blocks: free.len() as u64, largest: free.largest() }
    }

    /// All mapped blocks by address.
    pub fn layout(&self) -> Vec<PlacedBlock> {
        let mut all: Vec<_> = self.blocks.iter().filter(|(_, b)| b.has(MAPPED)).map(|(_, b)| placed(b)).collect();
        all.sort_unstable_by_key(|b| b.address);
        all
    }
}

fn placed(block: &Block) -> PlacedBlock {
    PlacedBlock {
        address: block.addr,
        size: block.size,
        requested: block.requested,
        state: if block.has(ALLOCATED) {
            PlacedState::Allocated
        } else if block.has(PENDING) {
            PlacedState::Pending
        } else {
            PlacedState::Free
        },
        is_expandable: block.has(EXPANDABLE),
        starts_segment: block.prev == NONE,
    }
}

/// A block as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Requested bytes of the last owner.
    pub requested: u64,
    /// State.
    pub state: PlacedState,
    /// In an expandable segment.
    pub is_expandable: bool,
    /// First block of its segment or reservation.
    pub starts_segment: bool,
}

/// State of a [`PlacedBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedState {
    /// In the program's hands.
    Allocated,
    /// Freed, waiting for other streams.
    Pending,
    /// Free.
    Free,
}

/// Free memory that one class of requests can draw on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Sum in bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Largest block in bytes.
    pub largest: u64,
}
