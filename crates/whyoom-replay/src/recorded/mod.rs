//! The exact check: drive the model with a trace under its own settings and compare every event.

mod call;
mod driver;
mod layout;
mod pools;
mod reason;
mod reservations;
mod result;
mod run;

use crate::counterfactual::Program;
use crate::limit::LimitInterval;
use crate::trace::Trace;
use whyoom_allocator::{FreeSpace, Model, Settings, Stats};

/// Where the model and the recording part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Event index.
    pub event: usize,
    /// What the trace says.
    pub recorded: String,
    /// What the model did.
    pub simulated: String,
    /// The likely reason, in a sentence.
    pub likely_reason: String,
}

/// The final blocks against the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalState {
    /// Blocks that are in only one of the two, or differ in size or state.
    pub differing_blocks: u64,
}

/// State at an `oom` event, after the retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Event index.
    pub event: usize,
    /// Ordinal of the request.
    pub malloc: u64,
    /// Rounded request.
    pub request_bytes: u64,
    /// What the driver was asked for.
    pub segment_bytes: u64,
    /// The driver's free bytes.
    pub device_free: u64,
    /// Reserved bytes.
    pub reserved: u64,
    /// Allocated (rounded) bytes.
    pub allocated: u64,
    /// Allocated or pending bytes.
    pub active: u64,
    /// Free memory that the request could draw on.
    pub free: FreeSpace,
}

/// Result of the exact check.
#[derive(Debug)]
pub struct Recorded {
    /// Events in the trace.
    pub events: u64,
    /// Events reproduced.
    pub matched: u64,
    /// The first place where model and recording part.
    pub first_divergence: Option<Divergence>,
    /// `None` if the file has no segments for this device.
    pub final_state: Option<FinalState>,
    /// Peaks and counts of the replay.
    pub stats: Stats,
    /// Segments at the end.
    pub segments_at_end: u64,
    /// Allocated bytes peak after this event.
    pub peak_event: u32,
    /// What was allowed and refused.
    pub limit: LimitInterval,
    /// Every `oom` event with its state.
    pub failures: Vec<Failure>,
    /// Events of the requests for which the driver was asked again after a full release (`num_alloc_retries`), ascending.
    pub retry_events: Vec<u32>,
    /// Rounded size per allocation of the trace, 0 where it was never placed.
    pub block_size: Vec<u64>,
    /// Private pool per allocation; empty = all default.
    pub pool_of: Vec<u16>,
    /// The program for counterfactuals.
    pub program: Program,
    /// The replay started from an empty allocator; otherwise from a layout rebuilt backwards.
    pub started_empty: bool,
    /// Contradictions met while rebuilding the start: newest missing events, skipped kinds, a damaged file.
    pub rebuild_conflicts: u64,
}

impl Recorded {
    /// Every event and the final blocks are reproduced.
    pub fn is_exact(&self) -> bool {
        self.first_divergence.is_none()
            && self.matched == self.events
            && self.final_state.is_none_or(|f| f.differing_blocks == 0)
    }
}

/// How the recorded run is to be read.
#[derive(Debug, Clone, Copy)]
pub struct RecordedOptions<'s> {
    /// Allocator of this release.
    pub model: Model,
    /// Settings in force while recording.
    pub settings: &'s Settings,
}

/// Replays a trace under its own settings. Time is linear in its events, unless private pools have to be searched.
pub fn replay_recorded<'a>(trace: &'a Trace<'a>, options: RecordedOptions<'a>) -> Recorded {
    if let Some(wrong) = trace.implausible {
        return result::not_replayed(trace, &wrong);
    }
    pools::replay(trace, options)
}
