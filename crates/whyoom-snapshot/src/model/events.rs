//! The trace of one device as columns.

use super::{PoolRef, StackId, StrId, StreamId};

/// What a trace entry says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Block handed out; size = requested bytes.
    Alloc,
    /// The program dropped a block; size = requested bytes.
    FreeRequested,
    /// The block went back to the free pool; size = requested bytes.
    FreeCompleted,
    /// `cudaMalloc` succeeded; size = segment bytes.
    SegmentAlloc,
    /// `cudaFree`; size = segment bytes.
    SegmentFree,
    /// Pages mapped; size = mapped bytes.
    SegmentMap,
    /// Pages unmapped; size = unmapped bytes.
    SegmentUnmap,
    /// A dump was taken; size = active bytes.
    Snapshot,
    /// A request failed; size = rounded request, [`Events::addr`] = the driver's free bytes.
    Oom,
    /// A user annotation on a live block; no state change.
    Annotate,
    /// Anything else: kept, ignored for state.
    Other,
}

/// Columns of a device's trace; all have the same length except the sparse ones.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Action per event.
    pub action: Vec<Action>,
    /// Address per event; for [`Action::Oom`] the driver's free bytes (`device_free`).
    pub addr: Vec<u64>,
    /// Size per event, meaning per [`Action`].
    pub size: Vec<u64>,
    /// Stream per event.
    pub stream: Vec<StreamId>,
    /// Stack per event, [`StackId::MISSING`] where the entry has no `frames` key.
    pub stack: Vec<StackId>,
    /// Unix time in microseconds per event; empty if no entry has one.
    pub time_us: Vec<i64>,
    /// Pool per event; empty if no entry names one (before 2.12).
    pub pool: Vec<PoolRef>,
    /// Sparse `user_metadata` / `compile_context` / `internal_metadata` that say something: `(event, kind, text)`, ascending.
    pub notes: Vec<(u32, NoteKind, StrId)>,
}

/// Which key a note of [`Events::notes`] came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// `compile_context` other than `N/A`.
    CompileContext,
    /// Non-empty `user_metadata`.
    UserMetadata,
    /// `internal_metadata`.
    InternalMetadata,
    /// The name of an [`Action::Other`].
    ActionName,
}

impl Events {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.action.len()
    }
    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }
    /// The stack of event `i`; `None` if the entry has no context (an empty list is `Some(StackId::EMPTY)`).
    pub fn stack_of(&self, i: usize) -> Option<StackId> {
        self.stack.get(i).copied().filter(|s| *s != StackId::MISSING)
    }
    /// Time of event `i` in microseconds, if the trace has times.
    pub fn time_of(&self, i: usize) -> Option<i64> {
        self.time_us.get(i).copied()
    }
    /// Pool of event `i`, [`PoolRef::UNKNOWN`] where the trace does not say.
    pub fn pool_of(&self, i: usize) -> PoolRef {
        self.pool.get(i).copied().unwrap_or(PoolRef::UNKNOWN)
    }
}
