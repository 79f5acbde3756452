//! The allocator's statistics at any event: `whyoom.summary/1` of the JSON contract, field for field.

mod gaps;
mod keys;

use crate::explain::{self, wanted_devices};
use crate::explanation::{Input, LimitReport, WarningLine};
use crate::in_force;
use crate::limit::Limit;
use crate::words;
use crate::{ExplainOptions, InputMeta};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use whyoom_allocator::{Backend, Model};
use whyoom_replay::{Implausible, Recorded, RecordedOptions, Trace, memory_stats, peak_event, replay_recorded};
use whyoom_snapshot::{Device, Snapshot};

/// A moment of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Moment {
    /// After the last event.
    #[default]
    End,
    /// After the first event at which allocated bytes are at their peak.
    Peak,
    /// After the last request that failed.
    Oom,
    /// After this event, a 0-based index in the trace.
    Event(u64),
}

impl FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "end" => Ok(Self::End),
            "peak" => Ok(Self::Peak),
            "oom" => Ok(Self::Oom),
            other => {
                let event = other.parse().map(Self::Event);
                event.map_err(|_| format!("`{other}` is no moment; write end, peak, oom, or the index of an event"))
            }
        }
    }
}

/// Everything `whyoom summary` says.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Always `whyoom.summary/1`.
    pub schema: &'static str,
    /// What was read.
    pub inputs: Vec<Input>,
    /// Losses and oddities, in code order.
    pub warnings: Vec<WarningLine>,
    /// In the order of inputs, then of device indices.
    pub devices: Vec<DeviceSummary>,
}

/// The statistics of one device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceSummary {
    /// Index into [`Summary::inputs`].
    pub input: usize,
    /// Device index.
    pub device: u32,
    /// The event after which they are; `null` where the trace has none.
    pub at: Option<u64>,
    /// Release whose keys, layout and allocator these are.
    pub model: String,
    /// Layout of `memory_summary()`.
    pub layout: SummaryLayout,
    /// `memory_stats()`: its keys in ascending order, bytes and counts; `max_split_size` is -1 where unlimited.
    pub stats: BTreeMap<String, i64>,
    /// What lies between requested, allocated, active, reserved and the limit.
    pub gaps: Vec<Gap>,
    /// What the allocator may reserve.
    pub limit: LimitReport,
    /// What the figures cannot show; `null` where they are whole.
    pub note: Option<String>,
}

/// Layouts of `memory_summary()` (`torch/cuda/memory.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SummaryLayout {
    /// Up to 1.13: `KB`, `MB` for binary units, no requested memory.
    #[serde(rename = "1.13")]
    UpTo113,
    /// From 2.0 on.
    #[serde(rename = "2.0")]
    From20,
}

/// What lies between two figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The smaller figure.
    pub from: &'static str,
    /// The larger one.
    pub to: &'static str,
    /// Their distance; `null` where the larger is not known.
    pub bytes: Option<u64>,
    /// What it means here, in a sentence.
    pub statement: String,
}

/// The statistics of every device at `moment`. Devices that have no such moment are left out, with a warning of code
/// `no_such_moment` each.
///
/// Time is linear in the events: a replay and a count.
pub fn summary(inputs: &[(InputMeta, Snapshot)], moment: Moment, options: &ExplainOptions) -> Summary {
    let jobs = wanted_devices(inputs, options);
    let counted: Vec<Result<DeviceSummary, String>> = jobs
        .into_par_iter()
        .map(|(i, d)| {
            let snapshot = &inputs[i].1;
            let device = &snapshot.devices[d];
            summarise(snapshot, device, moment, options).map(|summary| DeviceSummary { input: i, ..summary })
        })
        .collect();
    let mut warnings = explain::warnings(inputs, None);
    let mut devices = Vec::new();
    for counted in counted {
        match counted {
            Ok(device) => devices.push(device),
            Err(message) => warnings.push(WarningLine { code: "no_such_moment".to_owned(), count: 1, message }),
        }
    }
    warnings.sort_by(|a, b| a.code.cmp(&b.code));
    Summary { schema: "whyoom.summary/1", inputs: inputs.iter().map(explain::input).collect(), warnings, devices }
}

/// Input is left for the caller.
///
/// # Errors
/// Why the device has no such moment.
fn summarise(
    snapshot: &Snapshot,
    device: &Device,
    moment: Moment,
    options: &ExplainOptions,
) -> Result<DeviceSummary, String> {
    let release = in_force::release(options.torch, &snapshot.torch);
    let in_force = in_force::settings(snapshot, device, release);
    let trace = Trace::new(snapshot, device);
    let replay = RecordedOptions { model: Model::for_torch(release), settings: &in_force.settings };
    let recorded = replay_recorded(&trace, replay);
    let at = event_of(moment, &trace, &recorded, replay).map_err(|why| format!("GPU {}: {why}", device.index))?;
    let stats = memory_stats(&trace, &recorded, replay, at.map(|at| at as usize));
    let mut inferred = recorded.limit;
    inferred.low = inferred.low.max(trace.peak_reserved);
    let limit = Limit::new(Some(inferred), options.limit);
    Ok(DeviceSummary {
        input: 0,
        device: device.index,
        at,
        model: release.to_string(),
        layout: if release.at_least(2, 0) { SummaryLayout::From20 } else { SummaryLayout::UpTo113 },
        stats: keys::flat(&stats, in_force.settings.max_split_size, release),
        gaps: gaps::find(&stats, &in_force.settings, &limit),
        limit: limit.report(),
        note: note(&trace, &recorded, in_force.doubt, in_force.settings.backend),
    })
}

/// The event of `moment`; `None` = before any event.
///
/// # Errors
/// Why there is none.
fn event_of(
    moment: Moment,
    trace: &Trace<'_>,
    recorded: &Recorded,
    options: RecordedOptions<'_>,
) -> Result<Option<u64>, String> {
    let last = (trace.device.events.len() as u64).checked_sub(1);
    match moment {
        Moment::End => Ok(last),
        Moment::Peak => Ok(peak_event(trace, recorded, options).map(|event| event as u64)),
        Moment::Oom => {
            let event = recorded.failures.last().map(|failure| failure.event as u64);
            event.map(Some).ok_or_else(|| "no request failed in this trace".to_owned())
        }
        Moment::Event(event) => match last {
            Some(last) if event <= last => Ok(Some(event)),
            Some(last) => Err(format!("there is no event {event}; the last one is {last}")),
            None => Err(format!("there is no event {event}: the trace is empty")),
        },
    }
}

fn note(trace: &Trace<'_>, recorded: &Recorded, doubt: Option<String>, backend: Backend) -> Option<String> {
    let mut notes = Vec::new();
    if let Some(wrong) = Implausible::find(trace.device) {
        notes.push(format!("Nothing was counted: {wrong}."));
    }
    if backend != Backend::Native {
        notes
            .push("The run used another allocator than PyTorch's own; the figures are not those of its driver.".into());
    }
    if trace.device.events.is_empty() {
        notes.push("The file has no trace: totals and peaks are those of its last state.".to_owned());
    } else if !trace.starts_empty {
        notes.push(
            "The trace has no beginning: totals and peaks count from its first event, with what was alive then.".into(),
        );
    }
    if let Some(divergence) = &recorded.first_divergence {
        let event = words::count(divergence.event as u64);
        notes.push(format!(
            "The replay parts from the recording at event {event}: retries and unsplit rests of blocks may be off from there."
        ));
    }
    notes.extend(doubt);
    (!notes.is_empty()).then(|| notes.join(" "))
}
