//! The boxes that nvidia-smi draws, drivers 418 to 580, and nvitop's.
//!
//! Each line is read by itself, since people paste single lines. A device is two lines: its name and its figures.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::{Captures, Regex};

use super::log::{Log, known, percent, quantity};
use super::time;
use super::{DeviceId, Mig, Process, Sample, Source};
use crate::series::Series;
use crate::steps::Unit;
use crate::{Again, Found, Line, Recogniser, Sketch};

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static VERSIONS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Driver Version:\s*([\w.]+)(?:.*?CUDA (?:Driver |UMD )?Version:\s*([\w./]+))?"));
/// `|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |`
static DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\|\s*(\d{1,4})\s+(\S.*?)\s+(?:(On|Off|N/A|WDDM|TCC|MCDM)\s*)?\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s+(?:On|Off|N/A)?",
    )
});
/// `| N/A   45C    P8    10W /  70W |      0MiB / 15109MiB |      0%      Default |`
static FIGURES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\|\s*(?:\d+%|N/A|ERR!|MAX|[-–])?\s*(?:\d+C|N/A|ERR!|-?\d+)\s.*?\|\s*((?:\d[\d.]*\s?[MGK]i?B)|N/A|Unknown|Not Supported)\s*/\s*((?:\d[\d.]*\s?[MGK]i?B)|N/A|Unknown|Not Supported)\s*\|\s*(\d+%|N/A|ERR!|MAX|-)?",
    )
});
/// `|  0    1   0   0  |     11MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |`
static MIG_DEVICE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\|\s*(\d{1,4})\s+(\d{1,4}|N/A)\s+(\d{1,4}|N/A)\s+(\d{1,4})\s*\|\s*(\d+\s?MiB|N/A)\s*/\s*(\d+\s?MiB|N/A)\s*\|",
    )
});
/// `|    0   N/A  N/A     12345      C   python                    1234MiB |`, without the instances up to 440.
static PROCESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\|\s*(\d{1,4})\s+(?:(N/A|\d{1,4})\s+(N/A|\d{1,4})\s+)?(\d{1,10}|-)\s+((?:M\+)?C\+G|M\+C|C|G|-)\s+(.*?)\s*(\d+\s?MiB|N/A|Insufficient Permissions|Not Supported)\s*\|\s*$",
    )
});
/// nvitop: `│   0   12345 C  user  9842MiB  45  30.1%  1.2%  1:02:03  python train.py │`
static NVITOP_PROCESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\|\s*(\d{1,4})\s+(\d{1,10})\s+(C\+G|C|G|X)\s+(\S+)\s+(\d[\d.]*\s?[MGK]i?B|N/A)\s+(.*?)\s*\|\s*$")
});

static VERSION: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"Driver Version:"));

/// Whether a line outside of a table may matter: the line of a box, one with versions, a date.
fn may_matter(raw: &[u8]) -> bool {
    // Bars may stand for a bar; escapes may stand anywhere.
    let text = raw.trim_ascii_start();
    text.first().is_none_or(|first| !matches!(first, b' '..=b'~') || *first == b'|')
        || memchr::memchr(0x1b, raw).is_some()
        || time::may_be_ctime(text)
        || VERSION.find(raw).is_some()
}

/// Reads the tables of nvidia-smi and nvitop.
#[derive(Debug)]
pub struct Table {
    log: Log,
    /// The device whose figures come in the next line.
    device: Option<(DeviceId, String)>,
    last_index: Option<u32>,
    time: Option<(String, f64)>,
    /// Whether a table has begun and its foot was not seen.
    is_inside: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self { log: Log::new(Source::SmiTable), device: None, last_index: None, time: None, is_inside: false }
    }
}

fn text<'a>(captures: &'a Captures<'_>, group: usize) -> &'a str {
    captures.get(group).map_or("", |found| found.as_str())
}

impl Table {
    fn device(&mut self, found: &Captures<'_>, line: &Line<'_>) {
        let Ok(index) = text(found, 1).parse::<u32>() else { return };
        self.last_index = Some(index);
        let (mut name, mut model) = (text(found, 2).trim(), text(found, 3));
        // A long name leaves no blank before the mode: `NVIDIA GeForce RTX 3080 ...  WDDM`.
        if model.is_empty()
            && let Some((front, mode)) = name.rsplit_once(' ')
            && matches!(mode, "On" | "Off" | "WDDM" | "TCC")
        {
            (name, model) = (front.trim_end(), mode);
        }
        let id = DeviceId { index: Some(index), bus: Some(text(found, 4).to_ascii_uppercase()), ..DeviceId::default() };
        self.log.begin(line.place, line.rank);
        if let Some(device) = self.log.device(&id)
            && matches!(model, "WDDM" | "TCC" | "MCDM")
        {
            device.driver_model = Some(model.to_owned());
        }
        self.device = Some((id, name.to_owned()));
    }

    fn sample(&self, used: &str, total: &str, utilization: &str) -> Sample {
        Sample {
            time: self.time.as_ref().map(|time| time.0.clone()),
            seconds: self.time.as_ref().map(|time| time.1),
            used: known(used).and_then(|text| quantity(text, Unit::MIB)),
            total: known(total).and_then(|text| quantity(text, Unit::MIB)),
            utilization: known(utilization).and_then(percent),
            ..Sample::default()
        }
    }

    fn figures(&mut self, found: &Captures<'_>, line: &Line<'_>) {
        self.log.begin(line.place, line.rank);
        let sample = self.sample(text(found, 1), text(found, 2), text(found, 3));
        // Without the line above, the device is not known by any name.
        let (id, name) = self.device.take().map_or((DeviceId::default(), None), |(id, name)| (id, Some(name)));
        self.log.sample(&id, name.as_deref(), sample);
    }

    fn mig(&mut self, found: &Captures<'_>, line: &Line<'_>) {
        self.log.begin(line.place, line.rank);
        let number = |group| text(found, group).parse().ok();
        let index = number(1);
        let mig = Mig { gpu_instance: number(2), compute_instance: number(3), device: number(4) };
        let sample = self.sample(text(found, 5), text(found, 6), "");
        self.log.sample(&DeviceId { index, mig: Some(mig), ..DeviceId::default() }, None, sample);
        self.log.divided(index);
    }

    fn process(&mut self, found: &Captures<'_>, line: &Line<'_>) {
        self.log.begin(line.place, line.rank);
        let number = |group| text(found, group).parse().ok();
        let mig = number(2).map(|gpu_instance| Mig {
            gpu_instance: Some(gpu_instance),
            compute_instance: number(3),
            device: None,
        });
        let process = Process {
            device: DeviceId { index: number(1), mig, ..DeviceId::default() },
            pid: text(found, 4).parse().ok(),
            kind: known(text(found, 5)).map(str::to_owned),
            name: known(text(found, 6)).map(str::to_owned),
            user: None,
            bytes: known(text(found, 7)).and_then(|text| quantity(text, Unit::MIB)),
            used: Series::new(),
        };
        let seconds = self.time.as_ref().map(|time| time.1);
        self.log.process(process, seconds);
    }

    fn nvitop_process(&mut self, found: &Captures<'_>, line: &Line<'_>) {
        self.log.begin(line.place, line.rank);
        let process = Process {
            device: DeviceId { index: text(found, 1).parse().ok(), ..DeviceId::default() },
            pid: text(found, 2).parse().ok(),
            kind: known(text(found, 3)).map(str::to_owned),
            name: known(text(found, 6)).map(|text| crate::steps::cut(text, 120).to_owned()),
            user: known(text(found, 4)).map(str::to_owned),
            bytes: known(text(found, 5)).and_then(|text| quantity(text, Unit::MIB)),
            used: Series::new(),
        };
        let seconds = self.time.as_ref().map(|time| time.1);
        self.log.process(process, seconds);
    }
}

impl Recogniser for Table {
    fn needles(&self) -> &'static [&'static str] {
        &[
            "nvidia-smi",
            "mib",
            "gib",
            "driver version",
            "wddm",
            "  n/a",
            ".0 o",
            "mon ",
            "tue ",
            "wed ",
            "thu ",
            "fri ",
            "sat ",
            "sun ",
        ]
    }

    fn is_inside(&self) -> bool {
        self.is_inside
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        self.is_inside || may_matter(raw)
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, line: &Line<'_>, _index: usize, _sketch: &mut Sketch) -> Option<bool> {
        (!self.is_inside && !may_matter(line.whole.as_bytes())).then_some(false)
    }

    fn again(&mut self, _index: usize, _line: &Again<'_>) -> bool {
        !self.is_inside
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        if line.whole.len() > 4096 {
            return false;
        }
        let boxed;
        let mut plain = line.whole.trim();
        if plain.contains(['│', '┃', '║', '╎']) {
            boxed = plain.replace(['│', '┃', '║', '╎'], "|");
            plain = boxed.as_str();
        }
        if !plain.starts_with('|') {
            if let Some(found) = VERSIONS.captures(plain)
                && plain.to_ascii_lowercase().contains("smi")
            {
                self.log.versions(Some(text(&found, 1)), found.get(2).map(|cuda| cuda.as_str()));
            }
            if let Some((printed, seconds)) = time::ctime(plain) {
                self.time = Some((printed.to_owned(), seconds));
                // A date alone is no claim on the line, and not yet a table.
                return false;
            }
            let is_border =
                plain.starts_with("+-") || plain.starts_with("+=") || plain.starts_with(['╒', '├', '╞', '╘']);
            return self.is_inside && is_border;
        }
        if plain.contains("NVIDIA-SMI") || (plain.contains("Driver Version") && plain.contains("NVITOP")) {
            if let Some(found) = VERSIONS.captures(plain) {
                self.log.versions(Some(text(&found, 1)), found.get(2).map(|cuda| cuda.as_str()));
            }
            self.is_inside = true;
            self.log.begin(line.place, line.rank);
            return true;
        }
        if let Some(found) = MIG_DEVICE.captures(plain) {
            self.mig(&found, line);
        } else if let Some(found) = DEVICE.captures(plain) {
            self.device(&found, line);
        } else if let Some(found) = FIGURES.captures(plain) {
            self.figures(&found, line);
        } else if let Some(found) = PROCESS.captures(plain) {
            self.process(&found, line);
        } else if let Some(found) = NVITOP_PROCESS.captures(plain) {
            self.nvitop_process(&found, line);
        } else {
            if self.is_inside && plain.contains("Enabled") && !plain.contains('%') {
                let index = self.last_index;
                self.log.divided(index);
            }
            let is_head = ["Memory-Usage", "GPU Memory", "Bus-Id", "Processes:", "MIG devices", "No running processes"];
            let is_tail = plain.contains("No running processes");
            let is_own = self.is_inside || is_head.iter().any(|word| plain.contains(word));
            // A table of another kind that follows is not this one's.
            let is_other = plain.contains("memory summary") || plain.contains("Cur Usage");
            self.is_inside = self.is_inside && !is_tail && !is_other;
            return is_own && !is_other;
        }
        true
    }

    fn end(&mut self, found: &mut Found) {
        std::mem::take(self).log.end(found);
    }
}
