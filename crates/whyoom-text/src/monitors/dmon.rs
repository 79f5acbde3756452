//! `nvidia-smi dmon` and `pmon`: columns under a line that begins with `#`.

use super::log::{Log, known, percent, quantity};
use super::{DeviceId, Process, Sample, Source, time};
use crate::series::Series;
use crate::steps::Unit;
use crate::{Again, Found, Line, Recogniser, Sketch};

/// Reads `dmon` and `pmon`. `fb` is the frame buffer in use, in MiB (their headings say MB).
#[derive(Debug)]
pub struct Dmon {
    devices: Log,
    processes: Log,
    columns: Vec<String>,
}

impl Default for Dmon {
    fn default() -> Self {
        Self { devices: Log::new(Source::SmiDmon), processes: Log::new(Source::SmiPmon), columns: Vec::new() }
    }
}

/// The columns of `# gpu   pwr gtemp …` or `#Date       Time        gpu …`; CSV (`--format csv`) too.
fn headings(text: &str) -> Option<Vec<String>> {
    let names = text.strip_prefix('#')?;
    let columns: Vec<String> =
        names.split([' ', '\t', ',']).filter(|name| !name.is_empty()).take(64).map(str::to_ascii_lowercase).collect();
    columns.iter().take(3).any(|name| name == "gpu").then_some(columns)
}

impl Dmon {
    fn row(&mut self, line: &Line<'_>) -> bool {
        let text = line.whole.trim();
        let words: Vec<&str> = text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
        let is_process = self.columns.iter().any(|name| name == "pid");
        // The command of a process is last and may have blanks.
        if words.len() < self.columns.len() || (words.len() > self.columns.len() && !is_process) {
            return false;
        }
        let cell = |name: &str| {
            let index = self.columns.iter().position(|column| column == name)?;
            known(words[index])
        };
        let Some(index) = cell("gpu").and_then(|text| text.parse().ok()) else { return false };
        let id = DeviceId { index: Some(index), ..DeviceId::default() };
        let printed = match (cell("date"), cell("time")) {
            (Some(date), Some(clock)) => Some(format!("{date} {clock}")),
            (None, Some(clock)) => Some(clock.to_owned()),
            _ => None,
        };
        let seconds = printed.as_deref().and_then(time::leading).map(|(_, seconds)| seconds);
        let bytes = cell("fb").and_then(|text| quantity(text, Unit::MIB));
        if is_process {
            let command = self.columns.iter().position(|column| matches!(column.as_str(), "command" | "name"));
            let name = command.map(|index| words[index..].join(" "));
            let process = Process {
                device: id,
                pid: cell("pid").and_then(|text| text.parse().ok()),
                kind: cell("type").map(str::to_owned),
                name: name.as_deref().and_then(known).map(|name| crate::steps::cut(name, 120).to_owned()),
                user: None,
                bytes,
                used: Series::new(),
            };
            // A device without a process has a line of dashes.
            if process.pid.is_none() {
                return true;
            }
            self.processes.begin(line.place, line.rank);
            self.processes.process_row(process, seconds);
        } else {
            let utilization = cell("sm").and_then(percent);
            let sample = Sample { time: printed, seconds, used: bytes, utilization, ..Sample::default() };
            self.devices.begin(line.place, line.rank);
            self.devices.sample(&id, None, sample);
        }
        true
    }
}

impl Recogniser for Dmon {
    fn needles(&self) -> &'static [&'static str] {
        &["gpu"]
    }

    fn is_inside(&self) -> bool {
        !self.columns.is_empty()
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        // Escapes and blanks of other kinds may stand before the mark.
        !self.columns.is_empty()
            || raw.trim_ascii_start().first().is_none_or(|first| !matches!(first, b' '..=b'~') || *first == b'#')
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, line: &Line<'_>, _index: usize, _sketch: &mut Sketch) -> Option<bool> {
        (self.columns.is_empty() && !line.whole.trim().starts_with('#')).then_some(false)
    }

    fn again(&mut self, _index: usize, _line: &Again<'_>) -> bool {
        self.columns.is_empty()
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        let text = line.whole.trim();
        if text.len() > 1024 {
            return false;
        }
        if let Some(columns) = headings(text) {
            self.columns = columns;
            return true;
        }
        if self.columns.is_empty() {
            return false;
        }
        // The second line of the heading has the units.
        text.starts_with('#') || self.row(line)
    }

    fn end(&mut self, found: &mut Found) {
        let state = std::mem::take(self);
        state.devices.end(found);
        state.processes.end(found);
    }
}
