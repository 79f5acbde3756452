//! What the allocator needs from below: memory, and the answer "no".

/// The CUDA driver as the allocator sees it, and at the same time the observer of every call to it.
///
/// Calls come in the order in which PyTorch records the trace entries of the same name.
pub trait Driver {
    /// Whether the limit lets reserved memory grow to `total` bytes (current plus the size asked for).
    /// `maps` is true when the growth would be by mapping pages.
    fn allows(&mut self, total: u64, maps: bool) -> bool;

    /// Whether garbage collection must (still) run with `total` bytes reserved, under `threshold` in (0, 1).
    /// `next` is the address of the block it would give back first in this pass.
    fn must_collect(&mut self, total: u64, threshold: f64, next: u64) -> bool;

    /// Whether [`Driver::must_collect`] may say yes: asked first, and only where there is something to give back. It
    /// must not say no where that would say yes.
    fn may_collect(&mut self, _total: u64, _threshold: f64) -> bool {
        true
    }

    /// `cudaMalloc`: the address, or `None` if the driver refuses.
    fn segment_alloc(&mut self, bytes: u64, stream: u64) -> Option<u64>;

    /// `cudaFree`.
    fn segment_free(&mut self, address: u64, bytes: u64);

    /// Reserves address space for an expandable segment: base and length in bytes (a multiple of `page`).
    fn reserve(&mut self, page: u64, stream: u64) -> (u64, u64);

    /// Maps pages; false if the driver has none left.
    fn map(&mut self, address: u64, bytes: u64, total_after: u64) -> bool;

    /// Unmaps pages.
    fn unmap(&mut self, address: u64, bytes: u64);

    /// All events are waited for, so that pending blocks complete.
    fn synchronise(&mut self) {}
}

/// A driver without limit that hands out ascending addresses: for tests and for bounds where addresses do not matter.
#[derive(Debug, Clone)]
pub struct AscendingDriver {
    next: u64,
    /// What may be reserved, in bytes.
    pub limit: Option<u64>,
}

impl Default for AscendingDriver {
    fn default() -> Self {
        Self::new(None)
    }
}

impl AscendingDriver {
    /// Addresses from 1 TiB up, reserved memory up to `limit`.
    pub fn new(limit: Option<u64>) -> Self {
        Self { next: 1 << 40, limit }
    }
}

impl Driver for AscendingDriver {
    fn allows(&mut self, total: u64, _maps: bool) -> bool {
        self.limit.is_none_or(|limit| total <= limit)
    }
    fn must_collect(&mut self, total: u64, threshold: f64, _next: u64) -> bool {
        self.limit.is_some_and(|limit| total > (threshold * limit as f64) as u64)
    }
    fn may_collect(&mut self, total: u64, threshold: f64) -> bool {
        self.must_collect(total, threshold, 0)
    }
    fn segment_alloc(&mut self, bytes: u64, _stream: u64) -> Option<u64> {
        let address = self.next;
        self.next = self.next.checked_add(bytes)?;
        Some(address)
    }
    fn segment_free(&mut self, _address: u64, _bytes: u64) {}
    fn reserve(&mut self, page: u64, _stream: u64) -> (u64, u64) {
        let length = (1u64 << 42) / page * page;
        let base = self.next;
        self.next = self.next.saturating_add(length);
        (base, length)
    }
    fn map(&mut self, _address: u64, _bytes: u64, _total_after: u64) -> bool {
        true
    }
    fn unmap(&mut self, _address: u64, _bytes: u64) {}
}
