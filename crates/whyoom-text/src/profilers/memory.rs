//! The state of memory while a trace is read.

use std::collections::{BTreeMap, HashMap};

use super::{Allocation, FailedRequest, MAX_LARGEST, ProfiledDevice, ProfilerTrace};
use crate::series::{Point, Series};

/// Devices, live blocks and steps that are kept at most.
const MAX_DEVICES: usize = 1024;
const MAX_LIVE: usize = 1 << 20;
const MAX_STEPS: usize = 1 << 16;

/// An event of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Event {
    pub time_us: f64,
    pub device: u32,
    pub address: Option<u64>,
    /// Negative where it frees.
    pub bytes: i64,
    pub allocated: Option<u64>,
    pub reserved: Option<u64>,
    pub is_failure: bool,
}

#[derive(Debug, Default)]
struct Device {
    found: ProfiledDevice,
    at: u64,
    live: HashMap<u64, u64>,
}

/// Gathers events, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    devices: BTreeMap<u32, Device>,
    /// Begin, end and number of each step.
    steps: Vec<(f64, f64, u64)>,
    pub(super) host_events: u64,
    pub(super) events: u64,
    pub(super) unreadable: u64,
    step_count: u64,
}

impl Memory {
    pub(super) fn is_empty(&self) -> bool {
        self.events == 0
    }

    pub(super) fn step(&mut self, begin: f64, end: f64, number: u64) {
        self.step_count += 1;
        if self.steps.len() < MAX_STEPS {
            self.steps.push((begin, end, number));
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&event.device) {
            self.unreadable += 1;
            return;
        }
        let device = self.devices.entry(event.device).or_default();
        device.found.device = event.device;
        if event.is_failure {
            if device.found.out_of_memory.len() < MAX_LARGEST {
                device.found.out_of_memory.push(FailedRequest {
                    bytes: event.bytes.unsigned_abs(),
                    time_us: event.time_us,
                    allocated: event.allocated,
                    reserved: event.reserved,
                });
            }
            return;
        }
        let point = |bytes| Point { at: device.at, step: None, epoch: None, seconds: Some(event.time_us / 1e6), bytes };
        if let Some(bytes) = event.allocated {
            device.found.allocated.push(point(bytes), 0);
        }
        if let Some(bytes) = event.reserved {
            device.found.reserved.push(point(bytes), 0);
        }
        device.at += 1;
        let bytes = event.bytes.unsigned_abs();
        if event.bytes >= 0 {
            device.found.allocations += 1;
            if let Some(address) = event.address.filter(|_| device.live.len() < MAX_LIVE) {
                device.live.insert(address, bytes);
            }
            keep(
                &mut device.found.largest,
                Allocation { bytes, address: event.address, time_us: event.time_us, freed_us: None, step: None },
            );
        } else {
            device.found.frees += 1;
            if let Some(address) = event.address {
                device.live.remove(&address);
                let is_it = |one: &&mut Allocation| one.address == Some(address) && one.freed_us.is_none();
                if let Some(one) = device.found.largest.iter_mut().rfind(is_it) {
                    one.freed_us = Some(event.time_us);
                }
            }
        }
    }

    pub(super) fn finish(mut self, is_cut: bool) -> ProfilerTrace {
        self.steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let steps = &self.steps;
        let step_at = |time_us: f64| {
            let after = steps.partition_point(|step| step.0 <= time_us);
            steps.get(after.checked_sub(1)?).filter(|step| time_us <= step.1).map(|step| step.2)
        };
        let devices = self.devices.into_values().map(|device| {
            let mut found = device.found;
            found.unfreed = device.live.len() as u64;
            found.unfreed_bytes = device.live.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            for one in &mut found.largest {
                one.step = step_at(one.time_us);
            }
            let set = |series: &mut Series| {
                series.each_point(|point| point.step = point.seconds.and_then(|seconds| step_at(seconds * 1e6)));
            };
            set(&mut found.allocated);
            set(&mut found.reserved);
            found
        });
        ProfilerTrace {
            devices: devices.collect(),
            host_events: self.host_events,
            events: self.events,
            unreadable: self.unreadable,
            steps: self.step_count,
            is_cut,
        }
    }
}

/// Keeps the largest, the earlier of equals first.
fn keep(largest: &mut Vec<Allocation>, one: Allocation) {
    if largest.len() == MAX_LARGEST && largest.last().is_some_and(|last| last.bytes >= one.bytes) {
        return;
    }
    let position = largest.partition_point(|other| other.bytes >= one.bytes);
    largest.insert(position, one);
    largest.truncate(MAX_LARGEST);
}
