//! gpustat: one line for each device, its processes behind the second bar.

use std::sync::LazyLock;

use memchr::memchr;
use regex::Regex;

use super::log::{Log, known, percent, quantity};
use super::{DeviceId, Process, Sample, Source, time};
use crate::series::Series;
use crate::steps::Unit;
use crate::{Again, Found, Line, Recogniser, Sketch};

/// `[0] GeForce RTX 3090 | 52'C,  30 % |  9842 / 24576 MB | user(9000M) user:python/1234(500M)`
static DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?:\S+\s+)?\[(\d{1,4})\]\s*(.*?)\s*\|\s*([^|]*?)\|\s*(\d+|\?\?)\s*/\s*(\d+|\?\?)\s*([MG]i?B)\s*(?:\|\s*(.*))?$",
    )
    .expect("a valid pattern")
});
static PROCESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:([\w.-]+):)?([\w./-]+?)(?:/(\d+))?\((\d+[MG]|\?+M?|N/A)\)").expect("a valid pattern")
});

/// Whether a line may be the head: a date behind two blanks.
fn may_be_head(raw: &[u8]) -> bool {
    let text = raw.trim_ascii();
    memchr::memmem::find(text, b"  ").is_some_and(|at| time::may_be_ctime(&text[at..]))
}

/// Reads gpustat.
#[derive(Debug)]
pub struct Gpustat {
    log: Log,
    time: Option<(String, f64)>,
}

impl Default for Gpustat {
    fn default() -> Self {
        Self { log: Log::new(Source::Gpustat), time: None }
    }
}

impl Recogniser for Gpustat {
    fn needles(&self) -> &'static [&'static str] {
        &["mb", "mib", "mon ", "tue ", "wed ", "thu ", "fri ", "sat ", "sun "]
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        may_be_head(raw) || memchr(b'[', raw).is_some() && memchr(b'|', raw).is_some() || memchr(0x1b, raw).is_some()
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, line: &Line<'_>, _index: usize, _sketch: &mut Sketch) -> Option<bool> {
        let text = line.whole;
        // `[0]`, the index of a device.
        let is_index = |part: &str| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && part[digits..].starts_with(']')
        };
        let may_be_device = text.contains('|') && text.split('[').skip(1).any(is_index);
        (!may_be_head(text.as_bytes()) && !may_be_device).then_some(false)
    }

    fn again(&mut self, _index: usize, _line: &Again<'_>) -> bool {
        true
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        let text = line.whole;
        if text.len() > 8192 {
            return false;
        }
        // The head: host, two blanks or more, date, driver.
        if let Some((_, date)) = text.trim().split_once("  ")
            && let Some((printed, seconds)) = time::ctime(date)
        {
            self.time = Some((printed.to_owned(), seconds));
            return false;
        }
        if !text.contains('[') || !text.contains('|') {
            return false;
        }
        let Some(found) = DEVICE.captures(text) else { return false };
        let part = |group: usize| found.get(group).map_or("", |part| part.as_str());
        self.log.begin(line.place, line.rank);
        let id = DeviceId { index: part(1).parse().ok(), ..DeviceId::default() };
        let size = |group: usize| quantity(&format!("{} {}", part(group), part(6)), Unit::MIB);
        let utilization = part(3).split(',').find(|cell| cell.contains('%')).and_then(percent);
        let sample = Sample {
            time: self.time.as_ref().map(|time| time.0.clone()),
            seconds: self.time.as_ref().map(|time| time.1),
            used: size(4),
            total: size(5),
            utilization,
            ..Sample::default()
        };
        self.log.sample(&id, known(part(2)), sample);
        for found in PROCESS.captures_iter(part(7)).take(256) {
            let part = |group: usize| found.get(group).map(|part| part.as_str());
            let pid = part(3).and_then(|pid| pid.parse().ok());
            // Without a process id the word is the user's name.
            let (user, name) = if part(1).is_some() || pid.is_some() { (part(1), part(2)) } else { (part(2), None) };
            let process = Process {
                device: id.clone(),
                pid,
                kind: None,
                name: name.map(str::to_owned),
                user: user.map(str::to_owned),
                bytes: part(4).and_then(|text| quantity(text, Unit::MIB)),
                used: Series::new(),
            };
            self.log.process(process, None);
        }
        true
    }

    fn end(&mut self, found: &mut Found) {
        std::mem::take(self).log.end(found);
    }
}
