//! Statistics with PyTorch's names and meanings.

/// A figure with its maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Now.
    pub current: u64,
    /// Maximum so far.
    pub peak: u64,
}

impl Level {
    #[inline]
    pub(crate) fn add(&mut self, amount: u64) {
        self.current += amount;
        if self.current > self.peak {
            self.peak = self.current;
        }
    }
    #[inline]
    pub(crate) fn sub(&mut self, amount: u64) {
        self.current = self.current.saturating_sub(amount);
    }
}

/// `memory_stats()` in the figures that replays compare. Bytes and counts since construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// `allocated_bytes`: block sizes in the program's hands.
    pub allocated: Level,
    /// `active_bytes`: allocated, or freed and waiting for other streams.
    pub active: Level,
    /// `requested_bytes`: what the program asked for, of active blocks.
    pub requested: Level,
    /// `reserved_bytes`: obtained from the driver.
    pub reserved: Level,
    /// `segment`: live `cudaMalloc` segments; expandable ones do not count.
    pub segments: Level,
    /// `num_alloc_retries`.
    pub retries: u64,
    /// `num_ooms`.
    pub ooms: u64,
    /// `num_sync_all_streams`.
    pub synchronisations: u64,
    /// `num_device_alloc`: `cudaMalloc` and map calls.
    pub driver_allocations: u64,
    /// `num_device_free`: `cudaFree` and unmap calls.
    pub driver_frees: u64,
    /// Map calls among the driver allocations.
    pub maps: u64,
    /// Unmap calls among the driver frees.
    pub unmaps: u64,
}
