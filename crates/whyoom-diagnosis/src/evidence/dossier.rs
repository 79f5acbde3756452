//! Facts of several texts, sorted by the device that they speak of.

use whyoom_text::messages::{About as Bearing, Advice, Clue, Doing, Releases, SettingsLine};
use whyoom_text::monitors::Monitor;
use whyoom_text::{Fact, Place, Reading};

use super::TextInput;

/// More devices than a host has.
const SUBJECTS: usize = 256;
/// Lines between words of a traceback and the failure that they belong to.
const NEAR: u64 = 60;

/// One fact with its input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) input: usize,
    pub(super) reading: &'a Reading,
}

/// What the texts say of one device.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// Index of the input that names it first.
    pub(super) input: usize,
    /// The device; 0 where no text names one.
    pub(super) device: u32,
    pub(super) rank: Option<u32>,
    /// In the order of the texts.
    pub(super) seen: Vec<Seen<'a>>,
}

/// All that the texts say.
#[derive(Debug)]
pub(super) struct Dossier<'a> {
    pub(super) subjects: Vec<Subject<'a>>,
    /// Facts that bear on every device.
    common: Vec<Seen<'a>>,
    /// Short texts that no recogniser made anything of.
    bare: Vec<(usize, &'a str)>,
    /// Whether anything but a monitor speaks.
    has_program: bool,
    /// The device of monitors' lines that name none: the only one that any names, else 0.
    nameless: u32,
}

/// What else is known beside the facts of one device.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) settings: Vec<(Seen<'a>, &'a SettingsLine)>,
    pub(super) notices: Vec<(Seen<'a>, &'a Advice)>,
    pub(super) monitors: Vec<(Seen<'a>, &'a Monitor)>,
    clues: Vec<(Seen<'a>, &'a Clue)>,
    /// The short texts, for settings that stand alone.
    pub(super) bare: Vec<(usize, &'a str)>,
    /// Whether anything but a monitor speaks.
    pub(super) has_program: bool,
    /// The device of monitors' lines that name none.
    pub(super) nameless: u32,
    /// The releases that the forms leave.
    pub(super) releases: Releases,
    /// An allocator fails in the texts of this device.
    pub(super) has_failed: bool,
}

impl<'a> Dossier<'a> {
    pub(super) fn of(texts: &'a [TextInput], first: usize) -> Self {
        let mut dossier =
            Self { subjects: Vec::new(), common: Vec::new(), bare: Vec::new(), has_program: false, nameless: 0 };
        let mut nameless: Vec<(Option<u32>, Seen<'a>)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let input = first + index;
            if let Some(short) = text.short.as_deref().filter(|_| is_bare(text)) {
                dossier.bare.push((input, short));
            }
            for reading in &text.text.readings {
                let seen = Seen { input, reading };
                match devices(&reading.fact) {
                    Of::Everything => dossier.common.push(seen),
                    Of::Program(named) => {
                        dossier.has_program = true;
                        if named.is_empty() {
                            nameless.push((reading.rank, seen));
                        }
                        for device in named {
                            dossier.add(device, reading.rank, seen);
                        }
                    }
                }
            }
        }
        for (rank, seen) in nameless {
            // What names no device is of the one that the same rank names, or of the only one there is.
            let known = dossier.subjects.iter().find(|s| s.rank == rank).or(dossier.subjects.first());
            let (device, rank) = known.map_or((0, rank), |s| (s.device, s.rank));
            dossier.add(device, rank, seen);
        }
        let mut named = dossier.common.iter().flat_map(|seen| indices(&seen.reading.fact)).flatten();
        let lone = named.next();
        dossier.nameless = lone.filter(|lone| named.all(|other| other == *lone)).unwrap_or(0);
        if dossier.subjects.is_empty() {
            dossier.of_monitors(first);
        }
        dossier
    }

    fn add(&mut self, device: u32, rank: Option<u32>, seen: Seen<'a>) {
        if let Some(subject) = self.subjects.iter_mut().find(|s| s.device == device && s.rank == rank) {
            subject.seen.push(seen);
        } else if self.subjects.len() < SUBJECTS {
            self.subjects.push(Subject { input: seen.input, device, rank, seen: vec![seen] });
        }
    }

    /// Where only monitors speak, their devices are the subjects.
    fn of_monitors(&mut self, first: usize) {
        for seen in self.common.clone() {
            let mut devices: Vec<u32> =
                indices(&seen.reading.fact).into_iter().map(|index| index.unwrap_or(self.nameless)).collect();
            devices.sort_unstable();
            devices.dedup();
            for device in devices {
                self.add(device, None, seen);
            }
        }
        if self.subjects.is_empty() {
            let input = self.common.first().map_or(first, |seen| seen.input);
            self.subjects.push(Subject { input, device: 0, rank: None, seen: Vec::new() });
        }
    }

    /// What bears on `subject` besides its own facts.
    pub(super) fn about(&self, subject: &Subject<'a>) -> About<'a> {
        let readings = subject.seen.iter().chain(&self.common).map(|seen| seen.reading.clone());
        let mut about = About {
            settings: Vec::new(),
            notices: Vec::new(),
            monitors: Vec::new(),
            clues: Vec::new(),
            bare: self.bare.clone(),
            has_failed: subject.seen.iter().any(|seen| matches!(seen.reading.fact, Fact::Oom(_))),
            has_program: self.has_program,
            nameless: self.nameless,
            releases: super::input::releases(&readings.collect::<Vec<_>>()),
        };
        for &seen in &self.common {
            match &seen.reading.fact {
                Fact::Settings(line) => about.settings.push((seen, line)),
                Fact::Advice(advice) => about.notices.push((seen, advice)),
                Fact::Clue(clue) => about.clues.push((seen, clue)),
                Fact::Monitor(monitor) => about.monitors.push((seen, monitor)),
                _ => {}
            }
        }
        about
    }
}

/// The device indices of a monitor's lines, with repetitions.
fn indices(fact: &Fact) -> Vec<Option<u32>> {
    let Fact::Monitor(monitor) = fact else { return Vec::new() };
    let of_devices = monitor.devices.iter().map(|device| device.id.index);
    of_devices.chain(monitor.processes.iter().map(|process| process.device.index)).collect()
}

/// Which devices a fact speaks of.
enum Of {
    /// It bears on all.
    Everything,
    /// The program's own, on these devices; none named = any.
    Program(Vec<u32>),
}

fn devices(fact: &Fact) -> Of {
    let one = |device: Option<u32>| Of::Program(device.into_iter().collect());
    match fact {
        Fact::Oom(message) => one(message.device),
        Fact::Retry(retry) => one(retry.device),
        Fact::Summary(summary) => one(summary.device),
        Fact::SnapshotList(list) => Of::Program(list.devices.keys().copied().collect()),
        Fact::ProfilerTrace(trace) => Of::Program(trace.devices.iter().map(|device| device.device).collect()),
        Fact::StepLog(log) => {
            let first = log.series.first().and_then(|series| series.device);
            one(first.filter(|_| log.series.iter().all(|series| series.device == first)))
        }
        Fact::Foreign(_) | Fact::Stats(_) => one(None),
        _ => Of::Everything,
    }
}

/// Whether nothing but clues was made of a text.
fn is_bare(text: &TextInput) -> bool {
    text.text.readings.iter().all(|reading| matches!(reading.fact, Fact::Clue(_) | Fact::Settings(_)))
}

impl About<'_> {
    /// A sign of `doing` anywhere in the texts.
    pub(super) fn says(&self, doing: Doing) -> Option<&Clue> {
        self.clues.iter().find(|(_, clue)| clue.doing == doing).map(|(_, clue)| *clue)
    }

    /// A sign of `doing` around a place.
    pub(super) fn says_near(&self, doing: Doing, input: usize, place: Place) -> Option<&Clue> {
        let is_near = |seen: &Seen<'_>| seen.input == input && seen.reading.place.line.abs_diff(place.line) <= NEAR;
        self.clues.iter().find(|(seen, clue)| clue.doing == doing && is_near(seen)).map(|(_, clue)| *clue)
    }

    /// How many different signs of `doing` there are.
    pub(super) fn count(&self, doing: Doing) -> usize {
        let mut texts: Vec<&str> =
            self.clues.iter().filter(|(_, clue)| clue.doing == doing).map(|(_, c)| c.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.len()
    }

    /// A message that bears on `on`.
    pub(super) fn notice(&self, on: Bearing) -> Option<&Advice> {
        self.notices.iter().find(|(_, advice)| advice.about == on).map(|(_, advice)| *advice)
    }

    /// Whether the text shows expandable segments switched on.
    pub(super) fn has_expandable(&self) -> bool {
        self.settings.iter().any(|(_, line)| line.value.contains("expandable_segments:True"))
    }

    /// Whether the text shows that expandable segments cannot work here.
    pub(super) fn lacks_expandable(&self) -> bool {
        let is_ignored = self.notices.iter().any(|(_, advice)| {
            matches!(advice.about, Bearing::SettingIgnored | Bearing::ExpandableSegmentsShared)
                && advice.text.contains("expandable")
        });
        let windows = self.monitors.iter().flat_map(|(_, m)| &m.devices).any(|d| d.driver_model.is_some());
        is_ignored || windows || self.says(Doing::Sharing).is_some()
    }
}
