//! System metrics exported from Weights & Biases: CSV with headings in quotes, or an object on each line.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::log::Log;
use super::{DeviceId, Process, Sample, Source, time};
use crate::series::Series;
use crate::{Found, Line, Quantity, Recogniser};

/// `system.gpu.0.memoryAllocatedBytes`, `run - system/gpu.process.0.memoryAllocated`.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^|[^\w])gpu\.(process\.)?(\d{1,4})\.(memoryAllocatedBytes|memoryAllocated|memory|gpu)$")
        .expect("a valid pattern")
});

/// What a key names: whether of the process alone, the device, the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Time,
    Metric { of_process: bool, device: u32, metric: Metric },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Bytes,
    Share,
    Utilization,
}

fn key(name: &str) -> Option<Key> {
    if matches!(name, "_timestamp" | "timestamp" | "_runtime" | "Runtime" | "Time") || name.starts_with("Relative Time")
    {
        return Some(Key::Time);
    }
    let found = KEY.captures(name)?;
    let metric = match &found[3] {
        "memoryAllocatedBytes" => Metric::Bytes,
        "memoryAllocated" => Metric::Share,
        "gpu" => Metric::Utilization,
        // `gpu.0.memory` is the time in which memory was moved, not how full it is.
        _ => return None,
    };
    Some(Key::Metric { of_process: found.get(1).is_some(), device: found[2].parse().ok()?, metric })
}

/// Reads exported system metrics.
#[derive(Debug)]
pub struct ExportedMetrics {
    log: Log,
    columns: Vec<Option<Key>>,
}

impl Default for ExportedMetrics {
    fn default() -> Self {
        Self { log: Log::new(Source::Wandb), columns: Vec::new() }
    }
}

/// The cells of a CSV line; quotes around a cell, doubled inside of it.
fn cells(text: &str) -> Vec<String> {
    const MAX_CELLS: usize = 4096;
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = cells.len() - 1;
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells[last].push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted && cells.len() < MAX_CELLS => cells.push(String::new()),
            letter => cells[last].push(letter),
        }
    }
    cells
}

impl ExportedMetrics {
    fn enter(&mut self, values: &[(Key, f64)], printed: Option<&str>, line: &Line<'_>) -> bool {
        let seconds = values.iter().find(|(key, _)| *key == Key::Time).map(|(_, value)| *value);
        let seconds = seconds.or_else(|| printed.and_then(time::any).map(|(_, seconds)| seconds));
        let mut samples: Vec<(u32, Sample)> = Vec::new();
        let mut own: Vec<(u32, Quantity)> = Vec::new();
        for (key, value) in values {
            let Key::Metric { of_process, device, metric } = *key else { continue };
            let quantity = (0.0..9.2e18).contains(value).then(|| Quantity { bytes: value.round() as u64, within: 0 });
            let share = (0.0..=1000.0).contains(value).then_some(value / 100.0);
            if of_process {
                if let (Metric::Bytes, Some(quantity)) = (metric, quantity) {
                    own.push((device, quantity));
                }
                continue;
            }
            let index = samples.iter().position(|(index, _)| *index == device).unwrap_or_else(|| {
                samples.push((device, Sample { seconds, ..Sample::default() }));
                samples.len() - 1
            });
            let sample = &mut samples[index].1;
            match metric {
                Metric::Bytes => sample.used = quantity,
                Metric::Share => sample.memory_share = share,
                Metric::Utilization => sample.utilization = share,
            }
        }
        if samples.is_empty() && own.is_empty() {
            return false;
        }
        self.log.begin(line.place, line.rank);
        for (index, sample) in samples {
            let printed = printed.map(str::to_owned);
            self.log.sample(
                &DeviceId { index: Some(index), ..DeviceId::default() },
                None,
                Sample { time: printed, ..sample },
            );
        }
        for (index, bytes) in own {
            let process = Process {
                device: DeviceId { index: Some(index), ..DeviceId::default() },
                pid: None,
                kind: None,
                name: Some("the run's own process".to_owned()),
                user: None,
                bytes: Some(bytes),
                used: Series::new(),
            };
            self.log.process(process, seconds);
        }
        true
    }

    fn object(&mut self, text: &str, line: &Line<'_>) -> bool {
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else { return false };
        let value = |value: &Value| value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        let values: Vec<(Key, f64)> =
            object.iter().filter_map(|(name, found)| Some((key(name)?, value(found)?))).collect();
        let printed = object.get("timestamp").or_else(|| object.get("_timestamp")).and_then(Value::as_str);
        self.enter(&values, printed, line)
    }

    fn row(&mut self, text: &str, line: &Line<'_>) -> bool {
        let cells = cells(text);
        if cells.len() != self.columns.len() {
            return false;
        }
        let filled = self.columns.iter().zip(&cells).filter_map(|(key, cell)| Some(((*key)?, cell.trim())));
        let values: Vec<(Key, f64)> =
            filled.clone().filter_map(|(key, cell)| Some((key, cell.parse().ok()?))).collect();
        let printed =
            filled.clone().find(|(key, cell)| *key == Key::Time && time::any(cell).is_some()).map(|(_, cell)| cell);
        self.enter(&values, printed, line)
    }
}

impl Recogniser for ExportedMetrics {
    fn needles(&self) -> &'static [&'static str] {
        &["memoryallocated"]
    }

    fn is_inside(&self) -> bool {
        !self.columns.is_empty()
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        const MAX_LINE: usize = 1 << 20;
        let text = line.whole.trim();
        if text.len() > MAX_LINE {
            return false;
        }
        // An export as one array has its objects one on a line, a comma or a bracket beside them.
        let object = text.trim_start_matches(['[', ',']).trim_end_matches([']', ',']).trim();
        if object.starts_with('{') && object.contains("memoryAllocated") {
            return self.object(object, line);
        }
        if text.contains("memoryAllocated") && text.contains(',') {
            self.columns = cells(text).iter().map(|name| key(name.trim())).collect();
            return self.columns.iter().any(|key| matches!(key, Some(Key::Metric { .. })));
        }
        !self.columns.is_empty() && self.row(text, line)
    }

    fn end(&mut self, found: &mut Found) {
        std::mem::take(self).log.end(found);
    }
}
