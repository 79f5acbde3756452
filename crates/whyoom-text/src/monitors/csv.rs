//! `nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…`, with headings and without.

use std::borrow::Cow;

use super::log::{Log, known, percent, quantity, share, sized};
use super::property::{Column, Property};
use super::{DeviceId, Process, Sample, Source, infer, time};
use crate::series::Series;
use crate::steps::{Number, leading};
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
    /// What lines of a shape are, by the shape's index.
    lessons: Vec<Lesson>,
    /// Changes where the columns do.
    generation: u64,
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
            lessons: Vec::new(),
            generation: 0,
        }
    }
}

/// A row, read.
#[derive(Debug)]
struct Row {
    id: DeviceId,
    sample: Sample,
    name: Option<String>,
    model: Option<String>,
    is_divided: bool,
    driver: Option<String>,
    process: Option<Process>,
}

/// What rows of one shape are: a row, and which numbers of the line stand for which of its own.
#[derive(Debug)]
struct RowLesson {
    generation: u64,
    row: Row,
    numbers: Vec<(Column, usize, Number)>,
    has_time: bool,
}

/// What lines of one shape are.
#[derive(Debug)]
enum Lesson {
    /// No rows; with so many commas.
    Nothing(usize),
    Row(Box<RowLesson>, usize),
}

impl Row {
    /// Reads the cells; `None` if they do not fit the columns.
    fn read(columns: &[Column], cells: &[Cow<'_, str>]) -> Option<Self> {
        let mut id = DeviceId::default();
        let mut sample = Sample::default();
        let (mut name, mut model, mut mig, mut driver) = (None, None, None, None);
        let (mut pid, mut process_name, mut process_bytes) = (None, None, None);
        let (mut has_device, mut has_process) = (false, false);
        for (column, cell) in columns.iter().zip(cells) {
            let value = known(cell);
            let size = || value.map(|text| quantity(text, column.unit));
            match column.property {
                Property::Time => {
                    let (printed, seconds) = time::any(cell)?;
                    (sample.time, sample.seconds) = (Some(printed.to_owned()), Some(seconds));
                }
                Property::Index => id.index = Some(cell.trim().parse().ok()?),
                Property::Name => name = value,
                Property::Uuid => id.uuid = value.map(str::to_owned),
                Property::Bus => id.bus = value.map(str::to_ascii_uppercase),
                Property::Used | Property::Free | Property::Total | Property::Reserved => {
                    has_device = true;
                    // A figure that cannot be read is none of this column's.
                    let size = size().map_or(Some(None), |size| size.map(Some))?;
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
                    has_process = true;
                    process_bytes = size().map_or(Some(None), |size| size.map(Some))?;
                }
                Property::DriverModel => model = value,
                Property::MigMode => mig = value,
                Property::Driver => driver = value,
                Property::Other => {}
            }
        }
        if !has_device && !has_process && name.is_none() {
            return None;
        }
        let process = has_process.then(|| Process {
            device: id.clone(),
            pid,
            kind: None,
            name: process_name,
            user: None,
            bytes: process_bytes,
            used: Series::new(),
        });
        Some(Self {
            id,
            sample,
            name: name.map(str::to_owned),
            model: model.map(str::to_owned),
            is_divided: mig == Some("Enabled"),
            driver: driver.map(str::to_owned),
            process,
        })
    }
}

impl QueryCsv {
    /// Enters a row; `false` if it does not fit its columns.
    fn row(&mut self, text: &str, line: Option<(crate::Place, Option<u32>)>) -> bool {
        let Some(row) = self.cells(text).and_then(|cells| Row::read(&self.columns, &cells)) else { return false };
        if let Some((place, rank)) = line {
            self.log.begin(place, rank);
        }
        self.log.versions(row.driver.as_deref(), None);
        match row.process {
            Some(process) => self.log.process_row(process, row.sample.seconds),
            None => self.enter(&row, row.sample.clone(), row.id.index),
        }
        true
    }

    fn enter(&mut self, row: &Row, sample: Sample, index: Option<u32>) {
        let id = DeviceId { index, ..row.id.clone() };
        self.log.sample(&id, row.name.as_deref(), sample);
        if row.is_divided {
            self.log.divided(index);
        }
        if let Some(model) = &row.model
            && let Some(device) = self.log.device(&id)
        {
            device.driver_model = Some(model.clone());
        }
    }

    /// The cells of a row; commas in the name of a process are its own.
    fn cells<'a>(&self, text: &'a str) -> Option<Vec<Cow<'a, str>>> {
        if text.len() > 8192 {
            return None;
        }
        let parts: Vec<&str> = text.split(',').collect();
        let extra = parts.len().checked_sub(self.columns.len())?;
        if extra == 0 {
            return Some(parts.into_iter().map(|part| part.trim().into()).collect());
        }
        let name_at = self.columns.iter().position(|column| column.property == Property::ProcessName)?;
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut index = 0;
        while index < parts.len() {
            let length = if index == name_at { extra + 1 } else { 1 };
            cells.push(parts[index..index + length].join(",").trim().to_owned().into());
            index += length;
        }
        Some(cells)
    }

    /// What rows of this shape are; `None` if it takes more than their numbers to tell.
    fn row_lesson(&self, line: &Line<'_>, sketch: &mut Sketch) -> Option<RowLesson> {
        let text = line.whole.trim();
        let cells = self.cells(text)?;
        let row = Row::read(&self.columns, &cells)?;
        if row.process.is_some() || cells.len() != text.split(',').count() {
            return None;
        }
        let (mut numbers, mut has_time) = (Vec::new(), false);
        for (at, (column, cell)) in self.columns.iter().zip(&cells).enumerate() {
            let Cow::Borrowed(cell) = cell else { return None };
            let begin = cell.as_ptr() as usize - line.whole.as_ptr() as usize;
            match column.property {
                Property::Other => {}
                Property::Time => {
                    has_time = at == 0 && time::leading(cell).is_some();
                    if !has_time {
                        return None;
                    }
                    sketch.fix_lengths(begin, begin + cell.len());
                }
                Property::Name
                | Property::Uuid
                | Property::Bus
                | Property::DriverModel
                | Property::MigMode
                | Property::Driver
                | Property::ProcessName => sketch.freeze_whole(line, begin, begin + cell.len()),
                _ if known(cell).is_none() => {}
                _ => {
                    let number = leading(cell)?;
                    let (slot, digits) = sketch.slot_of_whole(begin)?;
                    if digits.commas > 0 || column.property == Property::Index && digits.end != begin + cell.len() {
                        return None;
                    }
                    numbers.push((*column, slot, number));
                }
            }
        }
        Some(RowLesson { generation: self.generation, row, numbers, has_time })
    }

    fn row_again(&mut self, lesson: &RowLesson, line: &Again<'_>) -> Option<()> {
        let mut sample = lesson.row.sample.clone();
        let mut index = lesson.row.id.index;
        if lesson.has_time {
            let cell = &line.bytes[..memchr::memchr(b',', line.bytes)?];
            let (printed, seconds) = time::leading(str::from_utf8(cell).ok()?)?;
            (sample.time, sample.seconds) = (Some(printed.to_owned()), Some(seconds));
        }
        for (column, slot, number) in &lesson.numbers {
            let slot = line.slots.get(*slot)?;
            let (digits, value) = slot.read(line.bytes)?;
            let number = Number { value, decimals: digits.decimals, ..*number };
            match column.property {
                Property::Index => index = Some(u32::try_from(digits.mantissa).ok()?),
                Property::Utilization => sample.utilization = share(number.value),
                Property::Used => sample.used = Some(sized(&number, column.unit)?),
                Property::Free => sample.free = Some(sized(&number, column.unit)?),
                Property::Total => sample.total = Some(sized(&number, column.unit)?),
                Property::Reserved => sample.reserved_by_driver = Some(sized(&number, column.unit)?),
                _ => return None,
            }
        }
        self.enter(&lesson.row, sample, index);
        Some(())
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
        self.generation += 1;
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

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, line: &Line<'_>, index: usize, sketch: &mut Sketch) -> Option<bool> {
        let text = line.whole.trim();
        if !self.pending.is_empty() || Column::headings(text).is_some() {
            return None;
        }
        let commas = text.bytes().filter(|byte| *byte == b',').count();
        let lesson = if !self.columns.is_empty() {
            Lesson::Row(Box::new(self.row_lesson(line, sketch)?), commas)
        } else if infer::is_surely_no_row(line.whole, sketch) {
            Lesson::Nothing(commas)
        } else {
            return None;
        };
        if self.lessons.len() <= index {
            self.lessons.resize_with(index + 1, || Lesson::Nothing(0));
        }
        let is_row = matches!(lesson, Lesson::Row(..));
        self.lessons[index] = lesson;
        Some(is_row)
    }

    fn again(&mut self, index: usize, line: &Again<'_>) -> bool {
        let lessons = std::mem::take(&mut self.lessons);
        let commas = match lessons.get(index) {
            Some(Lesson::Nothing(commas)) if !self.is_inside() => Some(*commas),
            Some(Lesson::Row(row, commas)) if row.generation == self.generation && self.pending.is_empty() => {
                self.row_again(row, line).map(|()| *commas)
            }
            _ => None,
        };
        self.lessons = lessons;
        self.commas_before = commas.or(self.commas_before);
        commas.is_some()
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        // A timestamp at the beginning is a column here.
        let text = line.whole.trim();
        let commas = text.bytes().filter(|byte| *byte == b',').count();
        let before = self.commas_before.replace(commas);
        if let Some(columns) = Column::headings(text) {
            self.settle();
            self.columns = columns;
            self.generation += 1;
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
            self.generation += 1;
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
