//! Starting from a layout that already exists, as a trace without its beginning needs.

use crate::Allocator;
use crate::allocator::PlacedState;
use crate::block::{ALLOCATED, Block, BlockId, EXPANDABLE, MAPPED, NONE, PENDING};
use crate::stats::{Level, Stats};

/// A segment, or a reservation with its mapped parts, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// 0 = default pool, otherwise the private pool of that number.
    pub pool: u16,
    /// In the small half of the pool.
    pub is_small: bool,
    /// Index of the stream.
    pub stream: u16,
    /// Base and length of the reservation; `None` for a `cudaMalloc` segment.
    pub reservation: Option<(u64, u64)>,
    /// Mapped blocks by ascending address. In a segment they leave no gaps; in a reservation gaps are unmapped.
    pub blocks: Vec<RegionBlock>,
}

/// A mapped block of a [`Region`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionBlock {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Requested bytes of its owner.
    pub requested: u64,
    /// State.
    pub state: PlacedState,
    /// The caller's name for the allocation.
    pub tag: u32,
}

impl Allocator {
    /// Adds `region` to the allocator; `found` gets every block in the program's hands or pending.
    ///
    /// Blocks must not overlap others; ages for garbage collection start at 0.
    pub fn restore(&mut self, region: &Region, mut found: impl FnMut(u32, BlockId)) {
        let arena = self.arena(region.pool, region.is_small, region.stream);
        let kind = if region.reservation.is_some() { EXPANDABLE } else { 0 };
        let mut last = NONE;
        let mut at = region.reservation.map(|r| r.0);
        let mut add = |this: &mut Self, addr: u64, size: u64, flags: u8, requested: u64, tag: u32| {
            let id = this.blocks.insert(Block {
                addr,
                size,
                requested,
                prev: last,
                next: NONE,
                gc_base: 0,
                tag,
                arena,
                flags,
            });
            if last != NONE {
                this.blocks[last].next = id;
            }
            last = id;
            id
        };
        let mut bytes = 0;
        // A block joins the free ones once its neighbours are known.
        let mut free: Vec<u32> = Vec::new();
        for block in &region.blocks {
            if let Some(gap) = at.and_then(|at| block.address.checked_sub(at)).filter(|&gap| gap > 0) {
                free.push(add(self, block.address - gap, gap, kind, 0, 0));
            }
            let state = match block.state {
                PlacedState::Allocated => ALLOCATED,
                PlacedState::Pending => PENDING,
                PlacedState::Free => 0,
            };
            let id = add(self, block.address, block.size, kind | MAPPED | state, block.requested, block.tag);
            at = at.map(|_| block.address + block.size);
            bytes += block.size;
            match block.state {
                PlacedState::Free => free.push(id),
                PlacedState::Allocated => self.stats.allocated.add(block.size),
                PlacedState::Pending => self.push_pending(id),
            }
            if block.state != PlacedState::Free {
                self.stats.active.add(block.size);
                self.stats.requested.add(block.requested);
                found(block.tag, BlockId(id));
            }
        }
        if let (Some((base, length)), Some(at)) = (region.reservation, at)
            && base + length > at
        {
            free.push(add(self, at, base + length - at, kind, 0, 0));
        }
        for id in free {
            self.insert_free(id);
        }
        self.stats.reserved.add(bytes);
        if region.reservation.is_none() {
            self.stats.segments.add(1);
        }
    }

    /// Forgets peaks and counts, as at the start of a trace.
    pub fn reset_peaks(&mut self) {
        let reset = |level: &mut Level| level.peak = level.current;
        let stats = &mut self.stats;
        for level in
            [&mut stats.allocated, &mut stats.active, &mut stats.requested, &mut stats.reserved, &mut stats.segments]
        {
            reset(level);
        }
    }

    /// Takes over the counts, and the peaks where they are higher, of an allocator this one stands in for.
    pub fn carry_over(&mut self, earlier: &Stats) {
        let now = self.stats;
        let level = |now: Level, then: Level| Level { current: now.current, peak: now.current.max(then.peak) };
        self.stats = Stats {
            allocated: level(now.allocated, earlier.allocated),
            active: level(now.active, earlier.active),
            requested: level(now.requested, earlier.requested),
            reserved: level(now.reserved, earlier.reserved),
            segments: level(now.segments, earlier.segments),
            ..*earlier
        };
    }

    /// Forgets what [`Allocator::take_synchronised`] would tell.
    pub fn synchronised_clear(&mut self) {
        self.synchronised.clear();
    }

    /// The private pool that holds `address`, 0 for the default pool; `None` if nothing is mapped there.
    ///
    /// Looks at every block: for rare questions only.
    pub fn private_pool_at(&self, address: u64) -> Option<u16> {
        let (_, block) =
            self.blocks.iter().find(|(_, b)| b.has(MAPPED) && b.addr <= address && address - b.addr < b.size)?;
        Some(self.pools[self.arenas[block.arena as usize].pool as usize].owner)
    }
}
