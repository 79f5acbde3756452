//! The best settings for a recording: `whyoom.tune/1` of the JSON contract, field for field.
//!
//! Integers are bytes, counts or indices. Every candidate was replayed; what the search is and how it is cut short
//! is said in [`whyoom_replay::tune`].

mod device;
mod incompatible;

pub(crate) use incompatible::incompatible;

use crate::explanation::{Input, LimitReport, WarningLine};
use crate::tables::shared::Shared;
use crate::{ExplainOptions, InputMeta, explain, impossible_sizes};
use rayon::prelude::*;
use serde::Serialize;
use whyoom_snapshot::Snapshot;

/// Everything `whyoom tune` says.
#[derive(Debug, Clone, Serialize)]
pub struct Tuning {
    /// Always `whyoom.tune/1`.
    pub schema: &'static str,
    /// What was read.
    pub inputs: Vec<Input>,
    /// Losses and oddities, in code order.
    pub warnings: Vec<WarningLine>,
    /// One entry per device of each input, in their order.
    pub devices: Vec<DeviceTuning>,
}

/// One device of one input.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceTuning {
    /// Index into [`Tuning::inputs`].
    pub input: usize,
    /// Device index.
    pub device: u32,
    /// Release whose allocator was modelled.
    pub model: String,
    /// Whether the model reproduces the recording; if not, nothing here is verified.
    pub is_exact: bool,
    /// `whole_run`, or `failing_request` where the recording ends in its OOM: nothing is known of later steps.
    pub scope: &'static str,
    /// Completed steps; 0 where none can be told.
    pub steps: u64,
    /// The limit that candidates had to stay under.
    pub limit: LimitReport,
    /// The settings of the recording, replayed.
    pub recorded: Option<Candidate>,
    /// PyTorch's defaults, replayed.
    pub default: Option<Candidate>,
    /// The settings to use; `null` if none passes.
    pub best: Option<Candidate>,
    /// Settings replayed.
    pub candidates_tried: u64,
    /// Of these, followed to their end or first failing request; the others were given up when they reserved more and
    /// called the driver more often than what was known to pass.
    pub candidates_completed: u64,
    /// Of these, with a failing request.
    pub candidates_failed: u64,
    /// What passes and nothing beats in peak reserved, driver calls and retries; least reserved first.
    pub pareto: Vec<Candidate>,
    /// Whether memory accumulates in the recording: settings only delay the end of such a run.
    pub accumulates: bool,
    /// What any settings need.
    pub bounds: Bounds,
    /// The largest factor by which what grows with the batch can be scaled under the limit and the best settings.
    pub batch: Option<BatchScale>,
    /// Why nothing was tried, or what limits the answer.
    pub note: Option<String>,
}

/// Settings that were replayed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// The string; empty for the defaults.
    pub settings: String,
    /// The environment variable that the release reads it from.
    pub variable: &'static str,
    /// The limit replayed; `null` = unlimited.
    pub limit_bytes: Option<u64>,
    /// Release whose allocator was modelled.
    pub model: String,
    /// Requests that failed.
    pub ooms: u64,
    /// Event of the first recorded failure that succeeds here: what follows is hypothetical.
    pub hypothetical_from: Option<u64>,
    /// Whether a request failed.
    pub oom: bool,
    /// The first request that failed.
    pub first_oom: Option<FirstOom>,
    /// Maxima up to the first failure, or over the run.
    pub peak: Peak,
    /// Peak reserved over the placements and timings tried, lowest and highest.
    pub peak_reserved_range: (u64, u64),
    /// Whether address ties among equal free blocks change a figure.
    pub tie_sensitive: bool,
    /// Whether completion times on other streams change a figure.
    pub timing_sensitive: bool,
    /// Full releases followed by another try.
    pub retries: u64,
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
    /// Calls to the driver a step; `null` without steps.
    pub driver_calls_per_step: Option<f64>,
    /// Where the settings cannot be used.
    pub incompatible_with: Vec<String>,
}

/// A request that failed in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FirstOom {
    /// Event index of the recorded request.
    pub event: u64,
    /// Its ordinal.
    pub malloc: u64,
    /// 0-based step, if known.
    pub step: Option<u64>,
    /// The request in bytes.
    pub request_bytes: u64,
}

/// Maxima of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Allocated (rounded) bytes.
    pub allocated_bytes: u64,
    /// Allocated or waiting for other streams.
    pub active_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
}

/// What any settings need, and from how many bytes the run passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Bounds {
    /// Peak of the bytes that the program asked for.
    pub requested_bytes: u64,
    /// Peak of the rounded bytes in the program's hands.
    pub allocated_bytes: u64,
    /// Live bytes at their peak as asked for (or with the request that failed), in whole pages of 2 MiB: no layout
    /// reserves less.
    pub compact_bytes: u64,
    /// Live bytes when the best settings reserved most: the rest lay free in holes then.
    pub active_at_best_peak_bytes: Option<u64>,
    /// The smallest limit found under which the defaults pass.
    pub fits_from_bytes_default: Option<u64>,
    /// From here on they pass at every limit tried, in every placement.
    pub fits_reliably_from_bytes_default: Option<u64>,
    /// The smallest limit found under which the best settings pass.
    pub fits_from_bytes_best: Option<u64>,
    /// From here on they pass at every limit tried, in every placement.
    pub fits_reliably_from_bytes_best: Option<u64>,
    /// Peak reserved of the best settings under their smallest limit: what a memory fraction of that size buys.
    pub peak_reserved_bytes_best_under_smallest_limit: Option<u64>,
}

/// By how much the batch can grow. An estimate: requests are scaled, workspaces and kernels are not chosen anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchScale {
    /// The largest factor that passes, in sixteenths.
    pub factor: f64,
    /// Whether larger factors were not tried.
    pub is_at_least: bool,
}

/// Searches the settings of every device of every input.
///
/// The same inputs give the same result. Time is linear in the events, with a number of candidates that falls from
/// 240 to 40 as programs grow.
pub fn tune(inputs: &[(InputMeta, Snapshot)], options: &ExplainOptions) -> Tuning {
    let jobs = explain::wanted_devices(inputs, options);
    let shared: Vec<Shared<'_>> = inputs.iter().map(|(_, snapshot)| Shared::new(snapshot)).collect();
    let devices: Vec<DeviceTuning> =
        jobs.into_par_iter().map(|(i, d)| device::tune(i, &shared[i], &inputs[i].1.devices[d], options)).collect();
    let not_tried = devices.iter().filter(|d| d.default.is_none());
    let impossible = impossible_sizes(inputs, not_tried.map(|d| (d.input, d.device)));
    Tuning {
        schema: "whyoom.tune/1",
        inputs: inputs.iter().map(explain::input).collect(),
        warnings: explain::warnings(inputs, impossible),
        devices,
    }
}
