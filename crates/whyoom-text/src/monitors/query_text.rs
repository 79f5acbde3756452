//! `nvidia-smi -q`: names and values, indented under their device.

use super::log::{Log, known, percent, quantity};
use super::{DeviceId, Mig, Process, Sample, Source, time};
use crate::series::Series;
use crate::steps::Unit;
use crate::{Found, Line, Place, Recogniser};

/// Which block of a device the lines belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Other,
    Memory,
    Utilization,
    Process,
}

/// Reads `nvidia-smi -q`, whole or with `-d MEMORY`.
#[derive(Debug)]
pub struct QueryText {
    log: Log,
    is_inside: bool,
    block: Block,
    id: DeviceId,
    name: Option<String>,
    sample: Option<Sample>,
    process: Option<Process>,
    is_divided: bool,
    model: Option<String>,
    time: Option<(String, f64)>,
    /// The device that the slice being read is part of, its name, and how far the head of the slice is indented.
    whole: Option<(DeviceId, usize)>,
}

impl Default for QueryText {
    fn default() -> Self {
        Self {
            log: Log::new(Source::SmiText),
            is_inside: false,
            block: Block::Other,
            id: DeviceId::default(),
            name: None,
            sample: None,
            process: None,
            is_divided: false,
            model: None,
            time: None,
            whole: None,
        }
    }
}

/// The address of a line `GPU 00000000:01:00.0`.
fn device(text: &str) -> Option<&str> {
    let bus = text.strip_prefix("GPU ")?;
    let is_bus = bus.len() >= 12 && bus.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
    is_bus.then_some(bus)
}

impl QueryText {
    fn flush_process(&mut self) {
        if let Some(process) = self.process.take() {
            self.log.process(process, self.time.as_ref().map(|time| time.1));
        }
    }

    /// Gives out the device or slice that is read.
    fn flush(&mut self) {
        self.flush_process();
        if let Some(mut sample) = self.sample.take() {
            sample.time = self.time.as_ref().map(|time| time.0.clone());
            sample.seconds = self.time.as_ref().map(|time| time.1);
            self.log.sample(&self.id, self.name.as_deref(), sample);
            if let Some(device) = self.log.device(&self.id) {
                device.is_divided |= self.is_divided && self.id.mig.is_none();
                if let Some(model) = self.model.take() {
                    device.driver_model = Some(model);
                }
            }
        }
        self.block = Block::Other;
    }

    fn value(&mut self, name: &str, value: &str, place: Place) {
        let value_known = known(value);
        let size = value_known.and_then(|text| quantity(text, Unit::MIB));
        match (name, self.block) {
            ("Timestamp", _) => self.time = time::any(value).map(|(printed, seconds)| (printed.to_owned(), seconds)),
            ("Driver Version", _) => self.log.versions(Some(value), None),
            ("CUDA Version", _) => self.log.versions(None, Some(value)),
            ("Product Name", _) => self.name = value_known.map(str::to_owned),
            ("GPU UUID" | "MIG UUID", _) => self.id.uuid = value_known.map(str::to_owned),
            ("Current", _) if value == "Enabled" && self.is_divided => {}
            ("Driver Model", _) => self.model = value_known.map(str::to_owned),
            ("Index", _) if self.id.mig.is_some() => self.mig(|mig, value| mig.device = Some(value), value),
            ("GPU Instance ID", Block::Other) => self.mig(|mig, value| mig.gpu_instance = Some(value), value),
            ("Compute Instance ID", Block::Other) => self.mig(|mig, value| mig.compute_instance = Some(value), value),
            ("Total" | "Reserved" | "Used" | "Free", Block::Memory) => {
                let sample = self.sample.get_or_insert_default();
                match name {
                    "Total" => sample.total = size,
                    "Reserved" => sample.reserved_by_driver = size,
                    "Used" => sample.used = size,
                    _ => sample.free = size,
                }
                self.log.begin(place, None);
            }
            ("Gpu" | "GPU", Block::Utilization) => {
                self.sample.get_or_insert_default().utilization = value_known.and_then(percent);
            }
            ("Process ID", _) => {
                self.flush_process();
                self.block = Block::Process;
                self.process = Some(Process {
                    device: DeviceId { uuid: None, mig: None, ..self.id.clone() },
                    pid: value.parse().ok(),
                    kind: None,
                    name: None,
                    user: None,
                    bytes: None,
                    used: Series::new(),
                });
                self.log.begin(place, None);
            }
            ("Type", Block::Process) => {
                if let Some(process) = &mut self.process {
                    process.kind = value_known.map(str::to_owned);
                }
            }
            ("Name", Block::Process) => {
                if let Some(process) = &mut self.process {
                    process.name = value_known.map(|name| crate::steps::cut(name, 120).to_owned());
                }
            }
            ("Used GPU Memory" | "Used FB Memory", Block::Process) => {
                if let Some(process) = &mut self.process {
                    process.bytes = size;
                }
            }
            _ => {}
        }
    }

    fn mig(&mut self, set: impl FnOnce(&mut Mig, u32), value: &str) {
        if let (Some(mig), Ok(value)) = (&mut self.id.mig, value.parse()) {
            set(mig, value);
        }
    }
}

impl Recogniser for QueryText {
    fn needles(&self) -> &'static [&'static str] {
        &["nvsmi log", "fb memory usage", "gpu 0000", "process id"]
    }

    fn is_inside(&self) -> bool {
        self.is_inside
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        let whole = line.whole.trim_end();
        let text = whole.trim_start();
        if text.len() > 1024 {
            return false;
        }
        if text.contains("NVSMI LOG") {
            self.flush();
            self.is_inside = true;
            return true;
        }
        if let Some(bus) = device(text) {
            self.flush();
            self.is_inside = true;
            self.id = DeviceId { bus: Some(bus.to_ascii_uppercase()), ..DeviceId::default() };
            (self.name, self.is_divided, self.model, self.whole) = (None, false, None, None);
            return true;
        }
        if text.eq_ignore_ascii_case("FB Memory Usage") {
            self.is_inside = true;
        }
        if !self.is_inside {
            return false;
        }
        let indent = whole.len() - text.len();
        if let Some((device, _)) = self.whole.take_if(|(_, head)| indent <= *head && !whole.is_empty()) {
            self.flush();
            self.id = device;
        }
        // `Name : value`, or the head of a block.
        if let Some((name, value)) = text.split_once(" : ").or_else(|| text.split_once(": ")) {
            self.value(name.trim(), value.trim(), line.place);
            return true;
        }
        if whole.is_empty() {
            return true;
        }
        match text {
            "FB Memory Usage" => self.block = Block::Memory,
            "Utilization" => self.block = Block::Utilization,
            "MIG Device" => {
                self.flush();
                self.is_divided = true;
                let bus = self.id.bus.clone();
                let mig = Mig { gpu_instance: None, compute_instance: None, device: None };
                let slice = DeviceId { bus, mig: Some(mig), ..DeviceId::default() };
                self.whole = Some((std::mem::replace(&mut self.id, slice), indent));
            }
            _ if whole.starts_with(' ') && text.len() <= 60 => self.block = Block::Other,
            // A line at the margin that is no name of a value is somebody else's.
            _ => {
                self.flush();
                self.is_inside = false;
                return false;
            }
        }
        true
    }

    fn end(&mut self, found: &mut Found) {
        self.flush();
        std::mem::take(self).log.end(found);
    }
}
