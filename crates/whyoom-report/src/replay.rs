//! The result of `whyoom replay`: `whyoom.replay/1` of the JSON contract, field for field.
//!
//! Plain data: whoever drives the replay fills it, every presenter reads it. Integers are bytes, counts or
//! indices; `event` and `malloc` mean what they mean in [`whyoom_diagnosis::explanation`].

use serde::Serialize;
pub use whyoom_diagnosis::explanation::{DivergenceReport, FinalStateReport, Input, Torch, WarningLine};

/// Everything `whyoom replay` says.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayResult {
    /// Always [`ReplayResult::SCHEMA`].
    pub schema: &'static str,
    /// What was read, in the order given.
    pub inputs: Vec<Input>,
    /// Losses and oddities, in code order.
    pub warnings: Vec<WarningLine>,
    /// One entry per device of each input.
    pub devices: Vec<DeviceReplay>,
}

impl ReplayResult {
    /// Name and version of the contract.
    pub const SCHEMA: &'static str = "whyoom.replay/1";
}

/// One device's trace, driven through the model once.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReplay {
    /// Index into [`ReplayResult::inputs`].
    pub input: usize,
    /// Device index.
    pub device: u32,
    /// Whether the recording was checked or another world was tried.
    pub mode: ReplayMode,
    /// What came of it.
    pub status: ReplayState,
    /// The settings string replayed; empty = PyTorch's defaults, `null` = the file does not state one.
    pub settings: Option<String>,
    /// What was changed in the program, a phrase each: calls added, allocations left out or scaled, another optimizer.
    pub changes: Vec<String>,
    /// `exact_replay`, or `replay_estimate` where the program was changed or its beginning is missing.
    pub basis: &'static str,
    /// What the recorded run reserved and cost, to compare a counterfactual with.
    pub recorded: Option<Costs>,
    /// The limit replayed; `null` = unlimited, or, in recorded mode, whatever the record shows.
    pub limit_bytes: Option<u64>,
    /// Whether the limit was inferred from the recording (the low end of what is possible), not given.
    pub limit_is_inferred: bool,
    /// Release whose allocator was modelled.
    pub model: String,
    /// Events in the trace.
    pub events: u64,
    /// Events reproduced; `null` where there is nothing to compare with.
    pub matched: Option<u64>,
    /// Where the model and the recording part.
    pub first_divergence: Option<DivergenceReport>,
    /// Final blocks against the file's; `null` where there is nothing to compare with.
    pub final_state: Option<FinalStateReport>,
    /// Whether a request failed.
    pub oom: bool,
    /// The first request that failed in this replay.
    pub first_oom: Option<FailedRequest>,
    /// The first request that failed in the recording.
    pub recorded_first_oom: Option<RecordedFailure>,
    /// Maxima up to the first failure of a counterfactual, or over the whole recording.
    pub peak: ReplayPeak,
    /// Peak reserved over the ensemble of placements, lowest and highest.
    pub peak_reserved_range: (u64, u64),
    /// Whether it passes although more is reserved than the limit: a cap is compared with the size asked for, before
    /// whole pages are mapped; a card has no such room.
    pub exceeds_limit: bool,
    /// Whether address ties among equal free blocks change a figure.
    pub tie_sensitive: bool,
    /// Whether completion times on other streams change a figure.
    pub timing_sensitive: bool,
    /// State after the last event.
    pub end: ReplayEnd,
    /// Full releases followed by another try; like the counts below up to where [`DeviceReplay::peak`] is.
    pub retries: u64,
    /// Requests that failed, to the end of the trace.
    pub ooms: u64,
    /// `cudaMalloc` and map calls.
    pub driver_allocations: u64,
    /// `cudaFree` and unmap calls.
    pub driver_frees: u64,
    /// Map calls.
    pub maps: u64,
    /// Unmap calls.
    pub unmaps: u64,
    /// Forced synchronisations.
    pub synchronisations: u64,
    /// Completed steps of the program; 0 where none can be told.
    pub steps: u64,
    /// Event of the first recorded failure that succeeds here: what follows is hypothetical.
    pub hypothetical_from: Option<u64>,
    /// Why the replay is not possible or not complete, in a sentence.
    pub note: Option<String>,
}

/// What a run reserved, and what it cost in calls to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Peak reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Full releases followed by another try.
    pub retries: u64,
    /// `cudaMalloc` and map calls.
    pub driver_allocations: u64,
    /// `cudaFree` and unmap calls.
    pub driver_frees: u64,
    /// Forced synchronisations.
    pub synchronisations: u64,
}

impl Costs {
    /// Those of `replay`.
    pub fn of(replay: &DeviceReplay) -> Self {
        Self {
            peak_reserved_bytes: replay.peak.reserved_bytes,
            retries: replay.retries,
            driver_allocations: replay.driver_allocations,
            driver_frees: replay.driver_frees,
            synchronisations: replay.synchronisations,
        }
    }
}

/// What a replay compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    /// The trace under its own settings, every address compared.
    Recorded,
    /// The same requests under other settings, another limit or with calls injected.
    Counterfactual,
}

/// What came of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// The recording is reproduced in every event and block.
    Exact,
    /// It is not.
    Diverged,
    /// Another world, on a recording that is reproduced exactly.
    Simulated,
    /// Another world, on a recording that the model does not reproduce.
    NotVerified,
    /// There is no trace, or the allocator is not modelled: no figure here says how it would go.
    NotPossible,
}

/// A request that failed in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FailedRequest {
    /// Event index of the recorded request.
    pub event: u64,
    /// Its ordinal.
    pub malloc: u64,
    /// 0-based step, if known.
    pub step: Option<u64>,
    /// Rounded request.
    pub request_bytes: u64,
}

/// A request that failed in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecordedFailure {
    /// Event index.
    pub event: u64,
    /// Its ordinal.
    pub malloc: u64,
}

/// Maxima of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReplayPeak {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Allocated (rounded) bytes.
    pub allocated_bytes: u64,
    /// Allocated or waiting for other streams.
    pub active_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
}

/// State after the last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReplayEnd {
    /// Allocated (rounded) bytes.
    pub allocated_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
    /// Segments.
    pub segments: u64,
}
