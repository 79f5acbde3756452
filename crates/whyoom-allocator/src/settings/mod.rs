//! Allocator settings: the values in force and the grammar of `PYTORCH_CUDA_ALLOC_CONF` per release.

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;

/// Which allocator serves the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum Backend {
    /// PyTorch's own caching allocator.
    #[default]
    #[serde(rename = "native")]
    Native,
    /// The driver's stream-ordered pool; not simulated.
    #[serde(rename = "cudaMallocAsync")]
    CudaMallocAsync,
}

/// Values in force. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Settings {
    /// `max_split_size_mb`; `None` = unlimited (default).
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb`; default 20 MiB.
    pub max_non_split_rounding: u64,
    /// `large_segment_size_mb`; default 20 MiB.
    pub large_segment_size: u64,
    /// `garbage_collection_threshold`; 0 = off (default). Works only where a memory fraction is set.
    pub garbage_collection_threshold: f64,
    /// `expandable_segments`; default off.
    pub expandable_segments: bool,
    /// `roundup_power2_divisions` per octave: entry i serves `[2^i MiB, 2^(i+1) MiB)`, the first also all below, the last all above. 0 = off.
    pub roundup_power2_divisions: [u32; 16],
    /// `roundup_bypass_threshold_mb` (1.13 only).
    pub roundup_bypass_threshold: Option<u64>,
    /// `per_process_memory_fraction` (2.10 and later).
    pub per_process_memory_fraction: Option<f64>,
    /// `backend`.
    pub backend: Backend,
    /// `release_lock_on_cudamalloc`.
    pub release_lock_on_cudamalloc: bool,
    /// `graph_capture_record_stream_reuse` (2.9 and later).
    pub graph_capture_record_stream_reuse: bool,
    /// `throw_on_cudamalloc_oom` (2.13 and later).
    pub throw_on_cudamalloc_oom: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_split_size: None,
            max_non_split_rounding: 20 * MIB,
            large_segment_size: 20 * MIB,
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            roundup_power2_divisions: [0; 16],
            roundup_bypass_threshold: None,
            per_process_memory_fraction: None,
            backend: Backend::Native,
            release_lock_on_cudamalloc: false,
            graph_capture_record_stream_reuse: false,
            throw_on_cudamalloc_oom: false,
        }
    }
}
