//! What monitors print of devices and their processes: nvidia-smi in its forms, gpustat, nvitop, DCGM, exported
//! metrics.
//!
//! A figure that a monitor does not print (`[N/A]`, `[Not Supported]`, `-`) is unknown: `None`, and never 0.

mod csv;
mod dmon;
mod gpustat;
mod infer;
mod log;
mod prometheus;
mod property;
mod query_text;
mod table;
pub(crate) mod time;
mod wandb;

use serde::Serialize;

use crate::series::Series;
use crate::{Quantity, Recogniser};

pub use csv::QueryCsv;
pub use dmon::Dmon;
pub use gpustat::Gpustat;
pub use prometheus::Prometheus;
pub use query_text::QueryText;
pub use table::Table;
pub use wandb::ExportedMetrics;

/// All recognisers of this family, those with the narrower forms first.
pub fn recognisers() -> Vec<Box<dyn Recogniser>> {
    vec![
        Box::new(Table::default()),
        Box::new(QueryText::default()),
        Box::new(Prometheus::default()),
        Box::new(ExportedMetrics::default()),
        Box::new(Gpustat::default()),
        Box::new(Dmon::default()),
        Box::new(QueryCsv::default()),
    ]
}

/// What printed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The boxes of nvidia-smi without arguments (and of nvitop).
    SmiTable,
    /// `--query-gpu`, `--query-compute-apps` and their like as CSV.
    SmiCsv,
    /// `nvidia-smi -q`.
    SmiText,
    /// `nvidia-smi dmon`.
    SmiDmon,
    /// `nvidia-smi pmon`.
    SmiPmon,
    /// gpustat.
    Gpustat,
    /// Metrics of DCGM and other exporters in Prometheus' text form.
    Prometheus,
    /// System metrics exported from Weights & Biases.
    Wandb,
    /// `nvtop -s`.
    Nvtop,
    /// `rocm-smi`.
    RocmSmi,
}

/// What a monitor said of devices and processes, over all its samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Monitor {
    /// What printed it.
    pub source: Source,
    /// The driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The highest CUDA version that the driver supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Devices, in the order in which they appear.
    pub devices: Vec<DeviceLog>,
    /// Processes, in the order in which they appear.
    pub processes: Vec<Process>,
    /// Indices between 0 and the highest one printed that no line has: hidden, lost, or left out by the asker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<u32>,
    /// What the text does not say and was taken to be so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// Devices and processes beyond those that are kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Which device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeviceId {
    /// As nvidia-smi counts, in the order of the bus; PyTorch may count otherwise.
    pub index: Option<u32>,
    /// `GPU-…` or `MIG-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bus address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// The host, where several are seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A MIG slice of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
}

/// Which slice of a device that is divided (MIG).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mig {
    /// GPU instance.
    pub gpu_instance: Option<u32>,
    /// Compute instance.
    pub compute_instance: Option<u32>,
    /// Index of the MIG device.
    pub device: Option<u32>,
}

/// A device over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceLog {
    /// Which one.
    pub id: DeviceId,
    /// Its product name; cut by nvidia-smi where it is long.
    pub name: Option<String>,
    /// `WDDM`, `TCC`, `MCDM` on Windows: under WDDM figures of processes are unknown and memory is paged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_model: Option<String>,
    /// Whether MIG is on: then the device's own figures are those of all its slices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_divided: bool,
    /// Samples, those without any figure among them.
    pub samples: u64,
    /// Samples that have no figure of memory.
    pub unknown_samples: u64,
    /// The first sample.
    pub first: Sample,
    /// The last sample.
    pub last: Sample,
    /// The last sample that has a figure of memory; the same as the last but where figures ceased.
    pub last_known: Option<Sample>,
    /// Bytes in use over time.
    pub used: Series,
}

/// One sample of a device. Bytes; nvidia-smi's are whole MiB.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// As printed.
    pub time: Option<String>,
    /// Since 1970 if a date is printed, since midnight if not; the zone of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// In use by all processes; up to driver 470 or so with what the driver reserves.
    pub used: Option<Quantity>,
    /// Free.
    pub free: Option<Quantity>,
    /// Capacity.
    pub total: Option<Quantity>,
    /// Held by the driver itself: printed, or what total leaves beside used and free.
    pub reserved_by_driver: Option<Quantity>,
    /// Part of the time in which kernels ran, 0 to 1.
    pub utilization: Option<f64>,
    /// Part of the memory in use, 0 to 1, as printed; where bytes are printed too they say more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
}

impl Sample {
    /// Capacity: the total, or used and free where no total is printed (what the driver reserves is missing then).
    pub fn capacity(&self) -> Option<u64> {
        let sum = || Some(self.used?.bytes.saturating_add(self.free?.bytes));
        self.total.map(|total| total.bytes).or_else(sum)
    }

    /// Part of the capacity in use, 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let bytes = || Some((self.used?.bytes as f64, self.capacity().filter(|capacity| *capacity > 0)? as f64));
        bytes().map(|(used, capacity)| used / capacity).or(self.memory_share)
    }

    /// Whether a figure of memory is known.
    pub fn is_known(&self) -> bool {
        self.used.is_some() || self.free.is_some() || self.memory_share.is_some()
    }
}

/// A process on a device, over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    /// The device, as far as the line names it.
    pub device: DeviceId,
    /// Process id; in a container nvidia-smi may show the host's, or none.
    pub pid: Option<u64>,
    /// `C` (compute), `G` (graphics), `C+G`, `M+C` (MPS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name as printed; none for `[Not Found]`, which is a process that nvidia-smi cannot see.
    pub name: Option<String>,
    /// The user, where one is printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Bytes on this device at the last sample that has them.
    pub bytes: Option<Quantity>,
    /// Bytes over time.
    pub used: Series,
}

/// Memory of processes that live mostly on other devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Foreign {
    /// The device that they stand on.
    pub device: u32,
    /// Process and bytes, by process id.
    pub processes: Vec<(u64, u64)>,
    /// Bytes of all.
    pub bytes: u64,
}

/// Processes that hold memory on several devices, seen from the devices that are not where they hold most: contexts
/// that a `map_location` or a `set_device` left out made. By device; a process whose bytes are unknown is left out.
pub fn foreign(processes: &[Process]) -> Vec<Foreign> {
    let known = |process: &Process| Some((process.pid?, process.device.index?, process.bytes?.bytes));
    let known: Vec<(u64, u32, u64)> = processes.iter().filter_map(known).collect();
    let mut found: Vec<Foreign> = Vec::new();
    for &(pid, device, bytes) in &known {
        let elsewhere = known.iter().filter(|other| other.0 == pid && other.1 != device).map(|other| other.2).max();
        if elsewhere.is_none_or(|most| most <= bytes) {
            continue;
        }
        let index = found.iter().position(|one| one.device == device).unwrap_or_else(|| {
            found.push(Foreign { device, processes: Vec::new(), bytes: 0 });
            found.len() - 1
        });
        found[index].processes.push((pid, bytes));
        found[index].bytes = found[index].bytes.saturating_add(bytes);
    }
    for one in &mut found {
        one.processes.sort_unstable();
    }
    found.sort_by_key(|one| one.device);
    found
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tests_others;
