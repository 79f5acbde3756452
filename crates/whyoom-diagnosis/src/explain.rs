//! From snapshots to one explanation.

use crate::device;
use crate::explanation::{Cause, Confidence, DeviceReport, Explanation, Input, ReplayStatus, Torch, WarningLine};
use crate::tables::shared::Shared;
use rayon::prelude::*;
use std::collections::BTreeMap;
use whyoom_allocator::Release;
use whyoom_replay::Implausible;
use whyoom_snapshot::{Snapshot, Warning};

/// What the allocator may reserve, where the caller says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitChoice {
    /// This many bytes, as a memory fraction caps them.
    Bytes(u64),
    /// This many bytes, as a card has them: no fraction is set, and every page counts.
    Card(u64),
    /// Unlimited.
    None,
}

/// How to explain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// The limit; `None` = inferred from the recording.
    pub limit: Option<LimitChoice>,
    /// Release whose allocator is modelled; `None` = inferred from the keys of each file.
    pub torch: Option<Release>,
    /// Device indices to explain; `None` = all.
    pub devices: Option<Vec<u32>>,
}

/// What is known of an input besides its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputMeta {
    /// Path as given, `-` for standard input.
    pub path: String,
    /// Size on disk in bytes.
    pub size_bytes: u64,
}

/// Explains every device of every input, the worst first.
///
/// Devices are worked on in parallel; the same inputs give the same explanation. Time is linear in the events, about
/// as many passes as settings are tried.
///
/// # Example
/// ```no_run
/// use std::path::Path;
/// use whyoom_diagnosis::{ExplainOptions, InputMeta, explain};
/// use whyoom_snapshot::{ReadOptions, read_path};
///
/// let snapshot = read_path(Path::new("oom.pickle"), &ReadOptions::default())?;
/// let meta = InputMeta { path: "oom.pickle".into(), size_bytes: 0 };
/// let explanation = explain(&[(meta, snapshot)], &ExplainOptions::default());
/// for device in &explanation.devices {
///     assert!(!device.findings.is_empty(), "every device has a verdict");
/// }
/// # Ok::<(), whyoom_snapshot::ReadError>(())
/// ```
pub fn explain(inputs: &[(InputMeta, Snapshot)], options: &ExplainOptions) -> Explanation {
    let jobs = wanted_devices(inputs, options);
    let shared: Vec<Shared<'_>> = inputs.iter().map(|(_, snapshot)| Shared::new(snapshot)).collect();
    let mut devices: Vec<DeviceReport> = jobs
        .into_par_iter()
        .map(|(i, d)| {
            let (meta, snapshot) = &inputs[i];
            let mut report = device::explain(&shared[i], &snapshot.devices[d], options);
            report.input = i;
            report.rank = rank(&meta.path);
            report
        })
        .collect();
    devices.sort_by_key(|d| (severity(d), u64::MAX - d.peak.reserved_bytes, d.input, d.device));
    let not_replayed = devices.iter().filter(|r| r.replay.status == ReplayStatus::NotPossible);
    let impossible = impossible_sizes(inputs, not_replayed.map(|r| (r.input, r.device)));
    Explanation {
        schema: "whyoom.explain/1",
        inputs: inputs.iter().map(input).collect(),
        warnings: warnings(inputs, impossible),
        readings: Vec::new(),
        devices,
    }
}

/// The devices to look at: index of the input, and of the device in it.
pub(crate) fn wanted_devices(inputs: &[(InputMeta, Snapshot)], options: &ExplainOptions) -> Vec<(usize, usize)> {
    let is_wanted = |index: u32| options.devices.as_ref().is_none_or(|wanted| wanted.contains(&index));
    inputs
        .iter()
        .enumerate()
        .flat_map(|(i, (_, snapshot))| (0..snapshot.devices.len()).map(move |d| (i, d)))
        .filter(|&(i, d)| is_wanted(inputs[i].1.devices[d].index))
        .collect()
}

pub(crate) fn input((meta, snapshot): &(InputMeta, Snapshot)) -> Input {
    let torch = &snapshot.torch;
    let torch = Torch { at_least: torch.at_least.clone(), below: torch.below.clone(), because: torch.because.clone() };
    Input { path: meta.path.clone(), kind: "snapshot", size_bytes: meta.size_bytes, torch: Some(torch), error: None }
}

/// The warning about devices that were not replayed because of a size or address that none has, code
/// `impossible_size`; `not_replayed` names them by input and device index.
pub fn impossible_sizes(
    inputs: &[(InputMeta, Snapshot)],
    not_replayed: impl Iterator<Item = (usize, u32)>,
) -> Option<WarningLine> {
    let mut found = not_replayed.filter_map(|(input, index)| {
        let device = inputs[input].1.devices.iter().find(|d| d.index == index)?;
        Some((index, Implausible::find(device)?))
    });
    let (index, first) = found.next()?;
    let message = format!("on GPU {index} {first}; nothing of that device was replayed");
    Some(WarningLine { code: "impossible_size".to_owned(), count: 1 + found.count() as u64, message })
}

pub(crate) fn warnings(inputs: &[(InputMeta, Snapshot)], impossible: Option<WarningLine>) -> Vec<WarningLine> {
    let mut all: BTreeMap<&str, Warning> = BTreeMap::new();
    for (code, warning) in inputs.iter().flat_map(|(_, s)| s.warnings.iter()) {
        all.entry(code).or_insert_with(|| Warning { count: 0, message: warning.message.clone() }).count +=
            warning.count;
    }
    let counted = all.into_iter();
    let lines = counted.map(|(code, w)| WarningLine { code: code.to_owned(), count: w.count, message: w.message });
    let mut lines: Vec<WarningLine> = lines.chain(impossible).collect();
    lines.sort_by(|a, b| a.code.cmp(&b.code));
    lines
}

/// Lower is worse.
fn severity(device: &DeviceReport) -> u8 {
    let Some(verdict) = device.findings.first() else { return 9 };
    match (device.oom.is_some(), verdict.cause, verdict.confidence) {
        (true, cause, _) if cause != Cause::Healthy => 0,
        (true, ..) => 1,
        (false, Cause::Healthy, _) => 8,
        (false, Cause::Undetermined, _) => 7,
        (false, _, Confidence::Weak) => 6,
        (false, ..) => 2,
    }
}

/// The rank that a file name tells: `rank1`, `rank_1`, `rank-01`.
fn rank(path: &str) -> Option<u32> {
    let name = path.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    name.match_indices("rank").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['_', '-', '.', '=']);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_file_names() {
        for (path, expected) in [
            ("runs/ddp.free.rank1.pickle.xz", Some(1)),
            ("snapshot_rank-007.pickle", Some(7)),
            ("rank2/oom.pickle", None),
            ("ranked.pickle", None),
        ] {
            assert_eq!(rank(path), expected, "{path}");
        }
    }
}
