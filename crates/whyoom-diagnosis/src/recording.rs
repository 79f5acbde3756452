//! What a recording says of itself: the release to model and the settings in force, as every verb takes them.

use crate::in_force;
use whyoom_allocator::{Release, Settings};
use whyoom_snapshot::{Device, Snapshot, TorchRange};

/// The release to model: the one asked for, else the default if the file may be of it, else the nearest it may be of.
pub fn release(range: &TorchRange, asked: Option<Release>) -> Release {
    in_force::release(asked, range)
}

/// Whether a file of this range can be of `release`.
pub fn may_be(range: &TorchRange, release: Release) -> bool {
    let parse = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<Release>().ok());
    parse(&range.at_least).is_none_or(|first| release >= first)
        && parse(&range.below).is_none_or(|below| release < below)
}

/// The settings in force while recording. Where the file has none, expandable segments show in the record itself.
pub fn settings(snapshot: &Snapshot, device: &Device, release: Release) -> Settings {
    in_force::settings(snapshot, device, release).settings
}
