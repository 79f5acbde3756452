//! Figures of a device one by one: exporters in Prometheus' text form (DCGM, nvidia_gpu_exporter), `rocm-smi
//! --showmeminfo vram`, `nvtop -s`. They are gathered until one comes again for the same device.

use std::sync::LazyLock;

use regex::Regex;

use super::log::{Log, known, percent};
use super::{DeviceId, Sample, Source};
use crate::steps::leading;
use crate::{Found, Line, Quantity, Recogniser};

static METRIC: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*([A-Za-z_:][\w:]*)\{(.*)\}\s+([-+]?[\d.]+(?:[eE][-+]?\d+)?|NaN|[-+]Inf)(?:\s+(\d{9,16}))?\s*$")
        .expect("a valid pattern")
});
static LABEL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(\w+)="([^"]*)""#).expect("a valid pattern"));
static ROCM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^GPU\[(\d{1,4})\]\s*:\s*(?:VRAM Total (Used )?Memory \(B\)|(GPU use) \(%\)|GPU (?:memory|Memory) use \(%\))\s*:\s*(\d+)")
        .expect("a valid pattern")
});
static NVTOP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\s*"(device_name|gpu_util|mem_total|mem_used|mem_free|mem_util)"\s*:\s*"?([^",]*)"?,?\s*$"#)
        .expect("a valid pattern")
});

/// Which field of a sample a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Used,
    Free,
    Total,
    Reserved,
    Utilization,
}

/// The field and what its unit is in bytes.
fn metric(name: &str) -> Option<(Field, f64)> {
    const MIB: f64 = 1_048_576.0;
    Some(match name {
        "DCGM_FI_DEV_FB_USED" | "dcgm_fb_used" => (Field::Used, MIB),
        "DCGM_FI_DEV_FB_FREE" | "dcgm_fb_free" => (Field::Free, MIB),
        "DCGM_FI_DEV_FB_TOTAL" | "dcgm_fb_total" => (Field::Total, MIB),
        "DCGM_FI_DEV_FB_RESERVED" => (Field::Reserved, MIB),
        "DCGM_FI_DEV_GPU_UTIL" | "dcgm_gpu_utilization" | "nvidia_gpu_duty_cycle" => (Field::Utilization, 0.01),
        "nvidia_smi_memory_used_bytes" | "nvidia_gpu_memory_used_bytes" | "amd_gpu_memory_used_bytes" => {
            (Field::Used, 1.0)
        }
        "nvidia_smi_memory_free_bytes" | "nvidia_gpu_memory_free_bytes" => (Field::Free, 1.0),
        "nvidia_smi_memory_total_bytes" | "nvidia_gpu_memory_total_bytes" | "amd_gpu_memory_total_bytes" => {
            (Field::Total, 1.0)
        }
        "nvidia_smi_memory_reserved_bytes" => (Field::Reserved, 1.0),
        "nvidia_smi_utilization_gpu_ratio" => (Field::Utilization, 1.0),
        _ => return None,
    })
}

#[derive(Debug)]
struct Open {
    id: DeviceId,
    name: Option<String>,
    sample: Sample,
}

/// Reads metrics that stand one on a line.
#[derive(Debug)]
pub struct Prometheus {
    log: Log,
    open: Vec<Open>,
    /// Devices of an nvtop snapshot.
    nvtop: u32,
}

impl Default for Prometheus {
    fn default() -> Self {
        Self { log: Log::new(Source::Prometheus), open: Vec::new(), nvtop: 0 }
    }
}

impl Prometheus {
    fn enter(&mut self, id: DeviceId, name: Option<&str>, field: Field, value: f64, scale: f64, seconds: Option<f64>) {
        const MAX_OPEN: usize = 1024;
        let is_taken = |sample: &Sample| match field {
            Field::Used => sample.used.is_some(),
            Field::Free => sample.free.is_some(),
            Field::Total => sample.total.is_some(),
            Field::Reserved => sample.reserved_by_driver.is_some(),
            Field::Utilization => sample.utilization.is_some(),
        };
        let index = match self.open.iter().position(|open| open.id == id) {
            Some(index) if is_taken(&self.open[index].sample) => {
                self.flush();
                None
            }
            index => index,
        };
        let index = index.unwrap_or_else(|| {
            if self.open.len() >= MAX_OPEN {
                self.flush();
            }
            self.open.push(Open { id, name: None, sample: Sample::default() });
            self.open.len() - 1
        });
        let open = &mut self.open[index];
        open.name = open.name.take().or(name.map(str::to_owned));
        open.sample.seconds = open.sample.seconds.or(seconds);
        let bytes = value * scale;
        let within = if scale > 1.0 { (scale / 2.0) as u64 } else { 0 };
        let quantity = (0.0..9.2e18).contains(&bytes).then(|| Quantity { bytes: bytes.round() as u64, within });
        match field {
            Field::Used => open.sample.used = quantity,
            Field::Free => open.sample.free = quantity,
            Field::Total => open.sample.total = quantity,
            Field::Reserved => open.sample.reserved_by_driver = quantity,
            Field::Utilization => open.sample.utilization = Some(bytes).filter(|share| (0.0..=10.0).contains(share)),
        }
    }

    fn flush(&mut self) {
        for open in self.open.drain(..) {
            self.log.sample(&open.id, open.name.as_deref(), open.sample);
        }
    }

    fn prometheus(&mut self, text: &str) -> bool {
        let Some(found) = METRIC.captures(text) else { return false };
        let Some((field, scale)) = metric(&found[1]) else { return false };
        let mut id = DeviceId::default();
        let mut name = None;
        let mut slice: Option<u32> = None;
        for label in LABEL.captures_iter(&found[2]).take(32) {
            let value = label.get(2).map_or("", |value| value.as_str());
            match label.get(1).map_or("", |name| name.as_str()) {
                "gpu" | "minor_number" | "index" => id.index = value.parse().ok(),
                "UUID" | "uuid" => id.uuid = known(value).map(str::to_owned),
                "modelName" | "name" => name = known(value).map(str::to_owned),
                "Hostname" | "hostname" | "instance" => id.host = known(value).map(str::to_owned),
                "GPU_I_ID" => slice = value.parse().ok(),
                _ => {}
            }
        }
        if slice.is_some() {
            id.mig = Some(super::Mig { gpu_instance: slice, compute_instance: None, device: None });
        }
        let value = found[3].parse().unwrap_or(f64::NAN);
        let seconds = found.get(4).and_then(|text| text.as_str().parse::<f64>().ok());
        let seconds = seconds.map(|time| if time > 1e11 { time / 1000.0 } else { time });
        self.enter(id, name.as_deref(), field, value, scale, seconds);
        true
    }

    fn rocm(&mut self, text: &str) -> bool {
        let Some(found) = ROCM.captures(text) else { return false };
        let id = DeviceId { index: found[1].parse().ok(), ..DeviceId::default() };
        let value = found[4].parse().unwrap_or(f64::NAN);
        let (field, scale) = if found.get(3).is_some() {
            (Field::Utilization, 0.01)
        } else if text.contains("(%)") {
            return false;
        } else if found.get(2).is_some() {
            (Field::Used, 1.0)
        } else {
            (Field::Total, 1.0)
        };
        self.log.source(Source::RocmSmi);
        self.enter(id, None, field, value, scale, None);
        true
    }

    fn nvtop(&mut self, text: &str) -> bool {
        let Some(found) = NVTOP.captures(text) else { return false };
        let value = &found[2];
        if &found[1] == "device_name" {
            self.flush();
            self.log.source(Source::Nvtop);
            let id = DeviceId { index: Some(self.nvtop), ..DeviceId::default() };
            self.open.push(Open { id, name: Some(value.to_owned()), sample: Sample::default() });
            self.nvtop = self.nvtop.saturating_add(1);
            return true;
        }
        let Some(open) = self.open.last_mut() else { return false };
        if &found[1] == "mem_util" {
            open.sample.memory_share = known(value).and_then(percent);
            return true;
        }
        let id = open.id.clone();
        let Some(number) = known(value).and_then(leading) else { return true };
        let scale = number.unit.map_or(1.0, |unit| unit.or_bytes.unwrap_or(unit.bytes) as f64);
        match &found[1] {
            "gpu_util" => self.enter(id, None, Field::Utilization, number.value, 0.01, None),
            "mem_total" => self.enter(id, None, Field::Total, number.value, scale, None),
            "mem_used" => self.enter(id, None, Field::Used, number.value, scale, None),
            _ => self.enter(id, None, Field::Free, number.value, scale, None),
        }
        true
    }
}

impl Recogniser for Prometheus {
    fn needles(&self) -> &'static [&'static str] {
        &[
            "dcgm_f",
            "dcgm_g",
            "nvidia_smi_",
            "nvidia_gpu_",
            "amd_gpu_",
            "gpu[",
            "\"device_name\"",
            "\"mem_",
            "\"gpu_util\"",
        ]
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        let text = line.whole.trim();
        let is_own = text.len() <= 4096 && (self.prometheus(text) || self.rocm(text) || self.nvtop(text));
        if is_own {
            self.log.begin(line.place, line.rank);
        }
        is_own
    }

    fn end(&mut self, found: &mut Found) {
        self.flush();
        std::mem::take(self).log.end(found);
    }
}
