//! Samples on their way to a [`Monitor`].

use super::{DeviceId, DeviceLog, Monitor, Process, Sample, Source};
use crate::series::{Point, Series};
use crate::steps::Number;
use crate::{Fact, Found, Place, Quantity};

/// Devices and processes that a log keeps at most.
const MAX_DEVICES: usize = 1024;
const MAX_PROCESSES: usize = 4096;
const MAX_ASSUMPTIONS: usize = 16;

/// A monitor's log while it is read.
#[derive(Debug)]
pub(super) struct Log {
    monitor: Monitor,
    begin: Option<Place>,
    rank: Option<u32>,
    /// Ordinal of the present sample of all devices.
    pub(super) at: u64,
    /// Devices of the present sample: the first one seen again begins the next.
    seen: Vec<DeviceId>,
    seen_processes: Vec<(Option<u64>, DeviceId)>,
}

impl Log {
    pub(super) fn new(source: Source) -> Self {
        let monitor = Monitor {
            source,
            driver: None,
            cuda: None,
            devices: Vec::new(),
            processes: Vec::new(),
            absent: Vec::new(),
            assumptions: Vec::new(),
            left_out: 0,
        };
        Self { monitor, begin: None, rank: None, at: 0, seen: Vec::new(), seen_processes: Vec::new() }
    }

    /// Notes where it begins; later places are not looked at.
    pub(super) fn begin(&mut self, place: Place, rank: Option<u32>) {
        if self.begin.is_none() {
            self.begin = Some(place);
            self.rank = rank;
        }
    }

    pub(super) fn versions(&mut self, driver: Option<&str>, cuda: Option<&str>) {
        let keep = |old: &mut Option<String>, new: Option<&str>| {
            if let (None, Some(new)) = (&old, new) {
                *old = Some(crate::steps::cut(new, 40).to_owned());
            }
        };
        keep(&mut self.monitor.driver, driver);
        keep(&mut self.monitor.cuda, cuda);
    }

    pub(super) fn source(&mut self, source: Source) {
        self.monitor.source = source;
    }

    pub(super) fn assume(&mut self, text: &str) {
        let assumptions = &mut self.monitor.assumptions;
        if assumptions.len() < MAX_ASSUMPTIONS && !assumptions.iter().any(|one| one == text) {
            assumptions.push(text.to_owned());
        }
    }

    /// The log of a device; a new one if it was not seen. `None` if there are too many.
    pub(super) fn device(&mut self, id: &DeviceId) -> Option<&mut DeviceLog> {
        let devices = &mut self.monitor.devices;
        let index = match devices.iter().position(|one| is_same(&one.id, id)) {
            Some(index) => index,
            None if devices.len() < MAX_DEVICES => {
                devices.push(DeviceLog {
                    id: id.clone(),
                    name: None,
                    driver_model: None,
                    is_divided: false,
                    samples: 0,
                    unknown_samples: 0,
                    first: Sample::default(),
                    last: Sample::default(),
                    last_known: None,
                    used: Series::new(),
                });
                devices.len() - 1
            }
            None => {
                self.monitor.left_out += 1;
                return None;
            }
        };
        Some(&mut devices[index])
    }

    /// Marks a device that is divided.
    pub(super) fn divided(&mut self, index: Option<u32>) {
        let is_whole = |one: &&mut DeviceLog| one.id.mig.is_none() && one.id.index == index;
        if let Some(device) = self.monitor.devices.iter_mut().find(is_whole) {
            device.is_divided = true;
        }
    }

    /// Enters a sample of a device; a device that has one already begins the next sample of all.
    pub(super) fn sample(&mut self, id: &DeviceId, name: Option<&str>, mut sample: Sample) {
        if self.seen.len() >= MAX_DEVICES || self.seen.contains(id) {
            self.seen.clear();
            self.at += 1;
        }
        self.seen.push(id.clone());
        let at = self.at;
        let Some(device) = self.device(id) else { return };
        complete(&mut sample);
        if let (None, Some(name)) = (&device.name, name) {
            device.name = Some(crate::steps::cut(name.trim(), 120).to_owned());
        }
        if device.samples == 0 {
            device.first = sample.clone();
        }
        device.samples += 1;
        if let Some(used) = sample.used {
            device.used.push(point(at, sample.seconds, used.bytes), used.within);
        }
        if sample.is_known() {
            device.last_known = Some(sample.clone());
        } else {
            device.unknown_samples += 1;
        }
        device.last = sample;
    }

    /// Enters what a process holds, where no device is sampled beside it: the first one seen again begins the next
    /// sample.
    pub(super) fn process_row(&mut self, process: Process, seconds: Option<f64>) {
        let key = (process.pid, process.device.clone());
        if self.seen_processes.len() >= MAX_PROCESSES || self.seen_processes.contains(&key) {
            self.seen_processes.clear();
            self.at += 1;
        }
        self.seen_processes.push(key);
        self.process(process, seconds);
    }

    /// Enters what a process holds.
    pub(super) fn process(&mut self, process: Process, seconds: Option<f64>) {
        let bytes = process.bytes;
        let at = self.at;
        let is_same = |one: &Process| {
            one.pid == process.pid && one.device == process.device && (one.pid.is_some() || one.name == process.name)
        };
        let processes = &mut self.monitor.processes;
        let index = match processes.iter().position(is_same) {
            Some(index) => index,
            None if processes.len() < MAX_PROCESSES => {
                processes.push(process);
                processes.len() - 1
            }
            None => {
                self.monitor.left_out += 1;
                return;
            }
        };
        let kept = &mut processes[index];
        if let Some(bytes) = bytes {
            kept.bytes = Some(bytes);
            kept.used.push(point(at, seconds, bytes.bytes), bytes.within);
        }
    }

    /// Gives out what was read, if anything.
    pub(super) fn end(mut self, found: &mut Found) {
        let Some(place) = self.begin else { return };
        let monitor = &mut self.monitor;
        if monitor.devices.is_empty() && monitor.processes.is_empty() {
            return;
        }
        let mut indices: Vec<u32> = monitor.devices.iter().filter_map(|device| device.id.index).collect();
        indices.sort_unstable();
        if let Some(&highest) = indices.last()
            && highest < 1024
        {
            monitor.absent = (0..highest).filter(|index| indices.binary_search(index).is_err()).collect();
        }
        // One device and a rank of one are no holes: a query of `-i 3` asks for one.
        if indices.len() == 1 {
            monitor.absent.clear();
        }
        found.add(place, self.rank, Fact::Monitor(Box::new(self.monitor)));
    }
}

fn point(at: u64, seconds: Option<f64>, bytes: u64) -> Point {
    Point { at, step: None, epoch: None, seconds, bytes }
}

/// Lines name a device by what they have: an index, an address, or both.
fn is_same(one: &DeviceId, other: &DeviceId) -> bool {
    if one.mig != other.mig || one.host != other.host {
        return false;
    }
    match (&one.uuid, &other.uuid, &one.bus, &other.bus) {
        (Some(a), Some(b), ..) | (_, _, Some(a), Some(b)) => a == b,
        _ => one.index == other.index,
    }
}

/// What follows from the figures of one sample.
fn complete(sample: &mut Sample) {
    if let (Some(used), Some(free), Some(total), None) =
        (sample.used, sample.free, sample.total, sample.reserved_by_driver)
    {
        let within = used.within.saturating_add(free.within).saturating_add(total.within);
        let rest = total.bytes.checked_sub(used.bytes.saturating_add(free.bytes));
        sample.reserved_by_driver = rest.map(|bytes| Quantity { bytes, within });
    }
    if let (Some(free), Some(total), None, None) = (sample.free, sample.total, sample.used, sample.memory_share)
        && total.bytes > 0
        && free.bytes <= total.bytes
    {
        sample.memory_share = Some(1.0 - free.bytes as f64 / total.bytes as f64);
    }
}

/// A size that is printed with its unit, or in `unit`; `None` if it is unknown.
pub(super) fn quantity(text: &str, unit: crate::steps::Unit) -> Option<Quantity> {
    sized(&crate::steps::leading(text)?, unit)
}

/// A number as a size that is printed with its unit, or in `unit`.
pub(super) fn sized(number: &Number, unit: crate::steps::Unit) -> Option<Quantity> {
    if number.is_other {
        return None;
    }
    // Monitors print binary sizes whatever their unit is called.
    let printed = number.unit.map(|unit| crate::steps::Unit { bytes: unit.or_bytes.unwrap_or(unit.bytes), ..unit });
    let (bytes, within) = number.bytes(printed.unwrap_or(unit))?;
    Some(Quantity { bytes, within })
}

/// A part of 1 that is printed in percent.
pub(super) fn percent(text: &str) -> Option<f64> {
    share(crate::steps::leading(text)?.value)
}

/// A part of 1 from percents; `None` if it is no such part.
pub(super) fn share(percents: f64) -> Option<f64> {
    (0.0..=1000.0).contains(&percents).then_some(percents / 100.0)
}

/// A text that is not one of the ways to say that nothing is known.
pub(super) fn known(text: &str) -> Option<&str> {
    let text = text.trim();
    // Most cells are figures.
    if text.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
        return Some(text);
    }
    let plain = text.trim_matches(['[', ']', '(', ')']).to_ascii_lowercase();
    let is_unknown = matches!(
        plain.as_str(),
        "" | "-"
            | "n/a"
            | "na"
            | "nan"
            | "null"
            | "none"
            | "not supported"
            | "not available"
            | "not found"
            | "unknown error"
            | "insufficient permissions"
            | "gpu requires reset"
            | "gpu is lost"
            | "requested functionality has been deprecated"
    );
    (!is_unknown).then_some(text)
}
