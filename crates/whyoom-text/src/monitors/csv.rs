//! `nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…`, with headings and without.

use super::log::{Log, known, percent, quantity};
use super::property::{Column, Property};
use super::{DeviceId, Process, Sample, Source, infer, time};
use crate::series::Series;
use crate::{Again, Found, Line, Recogniser, Sketch};

/// Rows without headings that are looked at before their columns are named.
const MAX_PENDING: usize = 64;

/// Reads nvidia-smi's CSV.
#[derive(Debug)]
pub struct QueryCsv {
    log: Log,
    columns: Vec<Column>,
    /// Rows before their columns are named, and the first of them.
    pending: Vec<String>,
    width: usize,
    /// Whether a cell of the pending rows says that a monitor printed them.
    is_sure: bool,
    place: Option<(crate::Place, Option<u32>)>,
    /// Commas of the line before: a heading of somebody else's table has as many as its rows.
    commas_before: Option<usize>,
    /// Commas of lines that are no rows, by the index of their shape.
    commas: Vec<usize>,
}

impl Default for QueryCsv {
    fn default() -> Self {
        Self {
            log: Log::new(Source::SmiCsv),
            columns: Vec::new(),
            pending: Vec::new(),
            width: 0,
            is_sure: false,
            place: None,
            commas_before: None,
            commas: Vec::new(),
        }
    }
}

impl QueryCsv {
    /// Enters a row; `false` if it does not fit its columns.
    fn row(&mut self, text: &str, line: Option<(crate::Place, Option<u32>)>) -> bool {
        let Some(cells) = self.cells(text) else { return false };
        let mut id = DeviceId::default();
        let mut sample = Sample::default();
        let (mut name, mut model, mut mig, mut driver) = (None, None, None, None);
        let (mut pid, mut process_name, mut process_bytes) = (None, None, None);
        let (mut has_device, mut has_process) = (false, false);
        for (column, cell) in self.columns.iter().zip(&cells) {
            let cell = cell.as_str();
            let value = known(cell);
            let size = value.and_then(|text| quantity(text, column.unit));
            let is_bad = value.is_some() && size.is_none();
            match column.property {
                Property::Time => {
                    let Some((printed, seconds)) = time::any(cell) else { return false };
                    (sample.time, sample.seconds) = (Some(printed.to_owned()), Some(seconds));
                }
                Property::Index => match cell.trim().parse() {
                    Ok(index) => id.index = Some(index),
                    Err(_) => return false,
                },
                Property::Name => name = value,
                Property::Uuid => id.uuid = value.map(str::to_owned),
                Property::Bus => id.bus = value.map(str::to_ascii_uppercase),
                Property::Used | Property::Free | Property::Total | Property::Reserved => {
                    if is_bad {
                        return false;
                    }
                    has_device = true;
                    match column.property {
                        Property::Used => sample.used = size,
                        Property::Free => sample.free = size,
                        Property::Total => sample.total = size,
                        _ => sample.reserved_by_driver = size,
                    }
                }
                Property::Utilization => {
                    has_device = true;
                    sample.utilization = value.and_then(percent);
                }
                Property::Pid => {
                    has_process = true;
                    pid = value.and_then(|text| text.parse().ok());
                }
                Property::ProcessName => {
                    has_process = true;
                    process_name = value.map(|text| crate::steps::cut(text, 120).to_owned());
                }
                Property::ProcessBytes => {
                    if is_bad {
                        return false;
                    }
                    has_process = true;
                    process_bytes = size;
                }
                Property::DriverModel => model = value.map(str::to_owned),
                Property::MigMode => mig = value,
                Property::Driver => driver = value,
                Property::Other => {}
            }
        }
        if !has_device && !has_process && name.is_none() {
            return false;
        }
        if let Some((place, rank)) = line {
            self.log.begin(place, rank);
        }
        self.log.versions(driver, None);
        if has_process {
            let process = Process {
                device: id,
                pid,
                kind: None,
                name: process_name,
                user: None,
                bytes: process_bytes,
                used: Series::new(),
            };
            self.log.process_row(process, sample.seconds);
            return true;
        }
        self.log.sample(&id, name, sample);
        if mig == Some("Enabled") {
            self.log.divided(id.index);
        }
        if let (Some(model), Some(device)) = (model, self.log.device(&id)) {
            device.driver_model = Some(model);
        }
        true
    }

    /// The cells of a row; commas in the name of a process are its own.
    fn cells(&self, text: &str) -> Option<Vec<String>> {
        if text.len() > 8192 {
            return None;
        }
        let parts: Vec<&str> = text.split(',').collect();
        let extra = parts.len().checked_sub(self.columns.len())?;
        let name_at = self.columns.iter().position(|column| column.property == Property::ProcessName);
        let name_at = if extra == 0 { parts.len() } else { name_at? };
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut index = 0;
        while index < parts.len() {
            let length = if index == name_at { extra + 1 } else { 1 };
            cells.push(parts[index..index + length].join(",").trim().to_owned());
            index += length;
        }
        Some(cells)
    }

    /// Names the columns of what is pending and enters it.
    fn settle(&mut self) {
        let rows = std::mem::take(&mut self.pending);
        let place = self.place.take();
        // Numbers alone need company: one row of them may be anything.
        if rows.is_empty() || !self.is_sure && rows.len() < 2 {
            return;
        }
        let Some((columns, notes)) = infer::columns(&rows) else { return };
        let has_total = columns.iter().any(|column| column.property == Property::Total);
        if !self.is_sure && !has_total {
            return;
        }
        self.columns = columns;
        let mut any = false;
        for row in &rows {
            any |= self.row(row, place);
        }
        if any {
            for note in &notes {
                self.log.assume(note);
            }
        }
    }
}

impl Recogniser for QueryCsv {
    fn needles(&self) -> &'static [&'static str] {
        &[", ", "mib", "memory.", "used_memory", "used_gpu_memory"]
    }

    fn is_inside(&self) -> bool {
        !self.columns.is_empty() || !self.pending.is_empty()
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        if self.is_inside() || infer::may_be_row(raw) {
            return true;
        }
        self.commas_before = Some(memchr::memchr_iter(b',', raw).count());
        false
    }

    fn learn(&mut self, line: &Line<'_>, index: usize, sketch: &mut Sketch) -> Option<bool> {
        let text = line.whole.trim();
        if self.is_inside() || Column::headings(text).is_some() || !infer::is_surely_no_row(line.whole, sketch) {
            return None;
        }
        if self.commas.len() <= index {
            self.commas.resize(index + 1, 0);
        }
        self.commas[index] = text.bytes().filter(|byte| *byte == b',').count();
        Some(false)
    }

    fn again(&mut self, index: usize, _line: &Again<'_>) -> bool {
        if self.is_inside() {
            return false;
        }
        self.commas_before = self.commas.get(index).copied();
        true
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        // A timestamp at the beginning is a column here.
        let text = line.whole.trim();
        let commas = text.bytes().filter(|byte| *byte == b',').count();
        let before = self.commas_before.replace(commas);
        if let Some(columns) = Column::headings(text) {
            self.settle();
            self.columns = columns;
            self.log.begin(line.place, line.rank);
            return true;
        }
        if !self.columns.is_empty() {
            if self.row(text, Some((line.place, line.rank))) {
                return true;
            }
            if text.is_empty() {
                return false;
            }
        }
        let Some(is_sure) = infer::row(text) else {
            self.settle();
            return false;
        };
        if !self.pending.is_empty() && self.width != commas {
            self.settle();
        }
        if self.pending.is_empty() {
            if !is_sure && before == Some(commas) {
                return false;
            }
            self.columns.clear();
            (self.width, self.is_sure, self.place) = (commas, false, Some((line.place, line.rank)));
        }
        self.is_sure |= is_sure;
        self.pending.push(text.to_owned());
        let is_own = self.is_sure;
        if self.pending.len() >= MAX_PENDING {
            self.settle();
        }
        is_own
    }

    fn end(&mut self, found: &mut Found) {
        self.settle();
        std::mem::take(self).log.end(found);
    }
}
