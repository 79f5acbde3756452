//! The figures of `torch.cuda.memory_stats()`, with PyTorch's names.

/// `Stat` (`c10/core/CachingDeviceAllocator.h`, 2.6; before, `c10/cuda/CUDACachingAllocator.h`, 1.13): a level and what
/// moved it. Bytes or counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// Maximum so far.
    pub peak: u64,
    /// Sum of all increases.
    pub allocated: u64,
    /// Sum of all decreases.
    pub freed: u64,
}

impl Stat {
    pub(super) fn increase(&mut self, amount: u64) {
        self.current = self.current.saturating_add(amount);
        self.peak = self.peak.max(self.current);
        self.allocated = self.allocated.saturating_add(amount);
    }

    /// A trace without beginning may drop what it never had.
    pub(super) fn decrease(&mut self, amount: u64) {
        self.current = self.current.saturating_sub(amount);
        self.freed = self.freed.saturating_add(amount);
    }

    /// Up or down by the difference of two sums, as one step.
    pub(super) fn change(&mut self, up: u64, down: u64) {
        match up.checked_sub(down) {
            Some(0) => {}
            Some(rise) => self.increase(rise),
            None => self.decrease(down - up),
        }
    }
}

/// `StatArray`, indexed by `StatType`: the same for all pools together and for each kind. Private pools count by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStat {
    /// `StatType::AGGREGATE`, `all` in keys.
    pub all: Stat,
    /// `StatType::SMALL_POOL`.
    pub small_pool: Stat,
    /// `StatType::LARGE_POOL`.
    pub large_pool: Stat,
}

impl PoolStat {
    pub(super) fn each(&mut self, is_small: bool, step: impl Fn(&mut Stat)) {
        step(&mut self.all);
        step(if is_small { &mut self.small_pool } else { &mut self.large_pool });
    }
}

/// `DeviceStats` (`c10/core/CachingDeviceAllocator.h`, 2.6): what `memory_stats()` flattens into its keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Blocks in the program's hands.
    pub allocation: PoolStat,
    /// `cudaMalloc` segments; expandable ones do not count.
    pub segment: PoolStat,
    /// Blocks in the program's hands, or waiting for other streams.
    pub active: PoolStat,
    /// Free blocks of segments that are partly in use; never of expandable ones.
    pub inactive_split: PoolStat,
    /// Bytes of [`allocation`](Self::allocation), rounded.
    pub allocated_bytes: PoolStat,
    /// Bytes obtained from the driver.
    pub reserved_bytes: PoolStat,
    /// Bytes of [`active`](Self::active), rounded.
    pub active_bytes: PoolStat,
    /// Bytes of [`inactive_split`](Self::inactive_split): what no release gives back.
    pub inactive_split_bytes: PoolStat,
    /// Bytes of [`active`](Self::active) as asked for (2.0 and later).
    pub requested_bytes: PoolStat,
    /// Blocks of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// `num_alloc_retries`: the driver asked again after everything cached was released.
    pub num_alloc_retries: u64,
    /// `num_ooms`: requests that failed.
    pub num_ooms: u64,
    /// `num_sync_all_streams` (2.3 and later). Calls of `empty_cache()` that released nothing leave no trace.
    pub num_sync_all_streams: u64,
    /// `num_device_alloc` (2.4 and later): `cudaMalloc` and map calls.
    pub num_device_alloc: u64,
    /// `num_device_free` (2.4 and later): `cudaFree` and unmap calls.
    pub num_device_free: u64,
}
