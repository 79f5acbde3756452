//! Setting remedies: `PYTORCH_CUDA_ALLOC_CONF`.
//!
//! # What it tries
//! Every device setting that changes where blocks lie, alone and in the pairs that people use, as far as the release's
//! own parser accepts the string; the defaults too, where other settings are in force. A string that leaves the
//! recorded values in force is not tried again.
//!
//! # Basis
//! Exact replay. `garbage_collection_threshold` acts only under a memory fraction; elsewhere it is tried as what it
//! is there, nothing.
//!
//! # Incompatibilities
//! Expandable segments: not on Windows; up to 2.4 tensors in them cannot be shared between processes over CUDA IPC.

use super::Proposal;
use crate::case::Case;
use whyoom_allocator::{Release, Settings, settings};
use whyoom_snapshot::FrameId;

/// Id of the defaults, tried where other settings are in force.
pub(super) const DEFAULT_ID: &str = "setting/default";

/// Strings that are always tried, most useful first.
const STRINGS: [&str; 13] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6",
    "garbage_collection_threshold:0.8",
    "max_split_size_mb:20",
    "max_split_size_mb:64",
    "max_split_size_mb:256",
    "roundup_power2_divisions:2",
    "roundup_power2_divisions:16",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
];

/// Pairs, and keys that few know, tried where the program is not too long.
const MORE_STRINGS: [&str; 8] = [
    "max_split_size_mb:128,garbage_collection_threshold:0.8",
    "max_split_size_mb:512,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:8,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:8,max_split_size_mb:256",
    "expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,garbage_collection_threshold:0.8",
    "large_segment_size_mb:64",
    "expandable_segments:True,large_segment_size_mb:64",
];

/// Program steps that the further strings may cost.
const MORE_STEPS: usize = 8_000_000;

pub(super) fn propose(case: &Case<'_>, release: Release) -> Vec<Proposal> {
    let recorded = &case.in_force.settings;
    let mut seen: Vec<Settings> = vec![super::effective(case, recorded)];
    let mut proposals = Vec::new();
    // Where garbage collection cannot act, its strings are the folklore to answer: they are shown as they are.
    let mut push = |id: String, apply: &str, settings: Settings, note: Option<String>| {
        let effective = super::effective(case, &settings);
        let is_inert = effective != settings;
        if seen.contains(&effective) && !(is_inert && apply.starts_with("garbage") && effective == seen[0]) {
            return;
        }
        seen.push(effective);
        let inert = is_inert.then(|| "acts only under a memory fraction, and this run had none".to_owned());
        let note = inert.or(note);
        proposals.push(Proposal {
            id,
            kind: "setting",
            apply: apply.to_owned(),
            settings,
            program: None,
            basis: "exact_replay",
            note,
        });
    };
    if *recorded != Settings::default() {
        // An explicit default is a line that can be pasted; releases before it have none.
        let apply = if release.at_least(2, 1) { "expandable_segments:False" } else { "" };
        push(
            DEFAULT_ID.to_owned(),
            apply,
            Settings::default(),
            Some("PyTorch's defaults, as if the variable were not set".to_owned()),
        );
    }
    let is_short = case.recorded.program.ops.len() * MORE_STRINGS.len() <= MORE_STEPS;
    let more = MORE_STRINGS.iter().filter(|_| is_short);
    for &text in STRINGS.iter().chain(more) {
        if let Ok(parsed) = settings::parse(text, release) {
            let note = parsed.settings.expandable_segments.then(|| incompatibility(case, release)).flatten();
            push(format!("setting/{text}"), text, parsed.settings, note);
        }
    }
    proposals
}

fn incompatibility(case: &Case<'_>, release: Release) -> Option<String> {
    if is_windows(case) {
        return Some("not available on Windows, where this was recorded".to_owned());
    }
    (!release.at_least(2, 5))
        .then(|| "up to torch 2.4 such tensors cannot be shared between processes (CUDA IPC)".to_owned())
}

/// Whether the files of the frames lie on a Windows drive.
fn is_windows(case: &Case<'_>) -> bool {
    let snapshot = case.ledger.trace.snapshot;
    let frames = (0..).map_while(|id| snapshot.stacks.frame(FrameId(id)));
    frames.map(|f| snapshot.strings.get(f.file)).any(|file| file.get(1..3) == Some(":\\"))
}
