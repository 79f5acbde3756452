//! From snapshots to one explanation.

use crate::device;
use crate::evidence::{self, TextInput};
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
    explain_together(inputs, &[], options)
}

/// Explains recordings and texts together: a text of the same device says who else holds the card, what limits it, and
/// where the two disagree; a text without a recording is judged by arithmetic. Inputs are listed recordings first.
pub fn explain_together(
    inputs: &[(InputMeta, Snapshot)],
    texts: &[TextInput],
    options: &ExplainOptions,
) -> Explanation {
    let read =
        if texts.is_empty() { Vec::new() } else { evidence::judge(texts, inputs.len(), options.devices.as_deref()) };
    let jobs = wanted_devices(inputs, options);
    let shared: Vec<Shared<'_>> = inputs.iter().map(|(_, snapshot)| Shared::new(snapshot)).collect();
    let mut devices: Vec<DeviceReport> = jobs
        .into_par_iter()
        .map(|(i, d)| {
            let (meta, snapshot) = &inputs[i];
            let device = &snapshot.devices[d];
            let mut report = device::explain(&shared[i], device, options);
            if options.limit.is_none()
                && let Some(told) = evidence::limit_of(&read, &report)
            {
                // The message knows the limit better than what was allowed and refused in the trace.
                let low = told.low_bytes.map(LimitChoice::Bytes);
                report = device::explain(&shared[i], device, &ExplainOptions { limit: low, ..options.clone() });
                report.limit = told;
            }
            report.input = i;
            report.rank = rank(&meta.path);
            report
        })
        .collect();
    let not_replayed = devices.iter().filter(|r| r.replay.status == ReplayStatus::NotPossible);
    let impossible = impossible_sizes(inputs, not_replayed.map(|r| (r.input, r.device)));
    let failed: Vec<(usize, u32, Option<u32>)> =
        read.iter().filter(|j| j.has_failed).map(|j| (j.report.input, j.report.device, j.report.rank)).collect();
    let disagreements = if texts.is_empty() { Vec::new() } else { evidence::join(&mut devices, read, texts) };
    devices.sort_by_key(|d| {
        let has_failed = d.oom.is_some() || failed.contains(&(d.input, d.device, d.rank));
        (severity(d, has_failed), u64::MAX - d.peak.reserved_bytes, d.input, d.device, d.rank)
    });
    let mut warnings = warnings(inputs, impossible);
    warnings.extend(disagreements);
    warnings.extend(evidence::warnings(texts, inputs.len()));
    warnings.sort_by(|a, b| a.code.cmp(&b.code));
    Explanation {
        schema: "whyoom.explain/1",
        inputs: inputs.iter().map(input).chain(evidence::inputs(texts)).collect(),
        warnings,
        readings: evidence::readings(texts, inputs.len()),
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
fn severity(device: &DeviceReport, has_failed: bool) -> u8 {
    let Some(verdict) = device.findings.first() else { return 9 };
    match (has_failed, verdict.cause, verdict.confidence) {
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
