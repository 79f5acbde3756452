//! Tables of one snapshot. Sizes and addresses are bytes as `u64`; addresses are device virtual addresses.

mod build;
mod events;
mod stacks;
mod torch;
mod warnings;

pub use build::{StackTableBuilder, StringTableBuilder};
pub use events::{Action, Events, NoteKind};
pub use stacks::{Frame, FrameId, StackId, StackTable, StrId, StringTable};
pub use torch::TorchRange;
pub use warnings::{Warning, Warnings};

/// One snapshot file: per-device tables over shared string, stack, stream and pool tables.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Devices that have segments or events, by ascending index.
    pub devices: Vec<Device>,
    /// Raw stream pointer values; entry 0 is always the default stream (0). Indexed by [`StreamId`].
    pub streams: std::sync::Arc<[u64]>,
    /// Pool identities; entry 0 is always the default pool `(0, 0)`. Indexed by [`PoolRef`].
    pub pools: Vec<(u64, u64)>,
    /// Interned strings.
    pub strings: StringTable,
    /// Interned frames and stacks.
    pub stacks: StackTable,
    /// `external_annotations`, by time (stable), all devices.
    pub annotations: Vec<Annotation>,
    /// `allocator_settings`, where the file has them (2.3 and later).
    pub settings: Option<RecordedSettings>,
    /// Release range inferred from the keys.
    pub torch: TorchRange,
    /// What was unknown, missing or repaired; never silent.
    pub warnings: Warnings,
    /// Size of the (decompressed) input in bytes.
    pub input_bytes: u64,
}

/// Index into [`Snapshot::streams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u16);

/// Index into [`Snapshot::pools`], or unknown: most traces do not name pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolRef(pub u16);

impl PoolRef {
    /// The default pool `(0, 0)`.
    pub const DEFAULT: Self = Self(0);
    /// The file does not say.
    pub const UNKNOWN: Self = Self(u16::MAX);
    /// The index into [`Snapshot::pools`], if the file says.
    pub fn index(self) -> Option<usize> {
        (self != Self::UNKNOWN).then_some(self.0 as usize)
    }
}

/// Everything recorded for one device index.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Device index as the process saw it.
    pub index: u32,
    /// Segments by ascending address.
    pub segments: Vec<Segment>,
    /// Blocks of all segments, in segment order; [`Segment::blocks`] are ranges into it.
    pub blocks: Vec<Block>,
    /// The trace, oldest event first.
    pub events: Events,
    /// Whether the file holds a segments table that may cover this device (a bare trace does not).
    pub has_segments: bool,
}

/// One `cudaMalloc` segment, or one contiguous mapped run of an expandable one, at dump time.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Start address.
    pub address: u64,
    /// Bytes; the sum of its blocks.
    pub total_size: u64,
    /// Stream that owns it.
    pub stream: StreamId,
    /// `true` for the small pool.
    pub is_small: bool,
    /// Owning pool.
    pub pool: PoolRef,
    /// Part of an expandable (VMM) segment.
    pub is_expandable: bool,
    /// Stack at creation; `None` without context.
    pub stack: Option<StackId>,
    /// Range into [`Device::blocks`].
    pub blocks: std::ops::Range<u32>,
}

/// One block at dump time.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Start address.
    pub address: u64,
    /// Rounded size in bytes.
    pub size: u64,
    /// Bytes the program asked for; `None` for inactive blocks (the file's value is stale) and where the key is absent.
    pub requested_size: Option<u64>,
    /// State.
    pub state: BlockState,
    /// Allocation stack; `None` without context.
    pub stack: Option<StackId>,
}

/// State of a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Held by the program (`active_allocated`).
    Allocated,
    /// Freed by the program, waiting for other streams (`active_pending_free`, `active_awaiting_free`).
    PendingFree,
    /// Free (`inactive`).
    Free,
}

/// One `external_annotations` mark: a user scope began or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// Label, for example `Optimizer.step#AdamW.step`.
    pub name: StrId,
    /// `true` for `START`.
    pub is_start: bool,
    /// Device index.
    pub device: u32,
    /// Unix time in microseconds.
    pub time_us: i64,
}

/// `allocator_settings` as recorded (2.3 and later).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedSettings {
    /// The last settings string parsed (`PYTORCH_CUDA_ALLOC_CONF`), `None` if the key is absent.
    pub conf: Option<String>,
    /// Bytes; `None` = unlimited or absent.
    pub max_split_size: Option<u64>,
    /// 0.0 = off.
    pub garbage_collection_threshold: f64,
    /// Value at dump time.
    pub expandable_segments: bool,
    /// Divisions for `[2^i MiB, 2^(i+1) MiB)`; `None` if absent.
    pub roundup_power2_divisions: Option<[u32; 16]>,
    /// Other keys as text, in file order.
    pub other: Vec<(String, String)>,
}
