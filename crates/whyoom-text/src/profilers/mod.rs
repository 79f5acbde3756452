//! Memory in the traces of profilers.
//!
//! These files are no lines of text: [`read_kineto`] takes a whole file, once decompressed, and reads it as a stream.

mod kineto;
mod memory;

use serde::Serialize;

use crate::series::Series;

pub use kineto::{KinetoError, read_kineto};

/// Memory in a trace of `torch.profiler` with `profile_memory=True`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProfilerTrace {
    /// Devices, by their index.
    pub devices: Vec<ProfiledDevice>,
    /// Host memory has the same events; how many there are.
    pub host_events: u64,
    /// All events of the trace.
    pub events: u64,
    /// Events of memory that could not be read.
    pub unreadable: u64,
    /// Steps that `profiler.step()` marked.
    pub steps: u64,
    /// Whether the file ends early.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// Memory of one device in a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProfiledDevice {
    /// Its index.
    pub device: u32,
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Allocated bytes after each event (`Total Allocated`); steps are those of `ProfilerStep#N`.
    pub allocated: Series,
    /// Reserved bytes after each event (`Total Reserved`).
    pub reserved: Series,
    /// The largest allocations, largest first, at most [`MAX_LARGEST`].
    pub largest: Vec<Allocation>,
    /// Bytes allocated in the trace and not freed in it.
    pub unfreed_bytes: u64,
    /// How many allocations these are.
    pub unfreed: u64,
    /// Failed requests (`[OutOfMemory]`), at most [`MAX_LARGEST`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub out_of_memory: Vec<FailedRequest>,
}

/// Allocations that are kept one by one.
pub const MAX_LARGEST: usize = 32;

/// An allocation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Allocation {
    /// Its size.
    pub bytes: u64,
    /// Its address.
    pub address: Option<u64>,
    /// Microseconds, on the trace's clock.
    pub time_us: f64,
    /// When it was freed, if it was.
    pub freed_us: Option<f64>,
    /// The step that it was made in.
    pub step: Option<u64>,
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FailedRequest {
    /// What was asked for.
    pub bytes: u64,
    /// Microseconds, on the trace's clock.
    pub time_us: f64,
    /// Allocated then.
    pub allocated: Option<u64>,
    /// Reserved then.
    pub reserved: Option<u64>,
}
