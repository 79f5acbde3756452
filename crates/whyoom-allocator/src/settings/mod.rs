//! Allocator settings: the values in force and the grammar of `PYTORCH_CUDA_ALLOC_CONF` per release.
//!
//! [`parse`] reads a string as the parser of one release reads it, from 1.13 to 2.15: what it refuses is refused, what it
//! silently drops is a [`SettingsWarning`]. Earlier releases are read as 1.13, later ones as 2.15.
//!
//! ```
//! use whyoom_allocator::{Release, settings::parse};
//!
//! let parsed = parse("max_split_size_mb:20", Release::new(2, 11))?;
//! assert_eq!(parsed.settings.max_split_size, Some(20 << 20));
//!
//! let refused = parse("max_split_size_mb:20", Release::new(2, 9)).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "`max_split_size_mb` is 20, at character 19: in PyTorch 2.9 it must be at least 21; \
//!      write for example `max_split_size_mb:21`"
//! );
//! # Ok::<(), whyoom_allocator::settings::SettingsError>(())
//! ```

mod canonical;
mod draft;
mod error;
mod grammar;
mod keys;
mod lists;
mod notes;
mod number;
mod parsed;
mod recorded;
mod tokens;
mod variables;
mod warning;

pub use canonical::{Unwritable, canonical};
pub use error::{SettingsError, SettingsErrorKind, nearest_key};
pub use keys::{KEYS, Key, Target, ValueKind};
pub use parsed::{HostSettings, Mention, Parsed, Reserve, parse};
pub use recorded::RecordedValues;
pub use variables::{Variables, variables};
pub use warning::{SettingsWarning, WarningCode};

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
