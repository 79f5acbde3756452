//! What a recording says of itself: the release to model and the settings in force, as `explain` takes them.

use whyoom_allocator::{
    Release,
    settings::{RecordedValues, Settings},
};
use whyoom_snapshot::{Action, Device, Snapshot, TorchRange};

/// The release to model: the one asked for, else the default if the file may be of it, else the nearest it may be of.
pub(crate) fn release(range: &TorchRange, asked: Option<Release>) -> Release {
    let parse = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<Release>().ok());
    match (asked, parse(&range.at_least), parse(&range.below)) {
        (Some(asked), _, _) => asked,
        (None, Some(first), _) if first > Release::DEFAULT => first,
        (None, first, Some(below)) if below <= Release::DEFAULT => match below.minor.checked_sub(1) {
            Some(minor) => Release::new(below.major, minor),
            None => first.unwrap_or(Release::DEFAULT),
        },
        _ => Release::DEFAULT,
    }
}

/// Whether a file of this range can be of `release`.
pub(crate) fn may_be(range: &TorchRange, release: Release) -> bool {
    let parse = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<Release>().ok());
    parse(&range.at_least).is_none_or(|first| release >= first)
        && parse(&range.below).is_none_or(|below| release < below)
}

/// The settings in force while recording. Where the file has none, expandable segments show in the record itself.
pub(crate) fn settings(snapshot: &Snapshot, device: &Device, release: Release) -> Settings {
    let Some(recorded) = &snapshot.settings else {
        let expandable_segments =
            device.events.action.contains(&Action::SegmentMap) || device.segments.iter().any(|s| s.is_expandable);
        return Settings { expandable_segments, ..Settings::default() };
    };
    let flag = |name: &str| {
        recorded.other.iter().find(|(key, _)| key == name).and_then(|(_, value)| match value.as_str() {
            "True" | "true" | "1" => Some(true),
            "False" | "false" | "0" => Some(false),
            _ => None,
        })
    };
    RecordedValues {
        release,
        conf: recorded.conf.as_deref(),
        max_split_size: recorded.max_split_size,
        garbage_collection_threshold: recorded.garbage_collection_threshold,
        expandable_segments: recorded.expandable_segments,
        roundup_power2_divisions: recorded.roundup_power2_divisions,
        release_lock_on_cudamalloc: flag("release_lock_on_cudamalloc"),
        graph_capture_record_stream_reuse: flag("graph_capture_record_stream_reuse"),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_release_is_modelled_where_it_may_be_right() {
        let range = |at_least: &str, below: &str| TorchRange {
            at_least: (!at_least.is_empty()).then(|| at_least.to_owned()),
            below: (!below.is_empty()).then(|| below.to_owned()),
            because: String::new(),
        };
        for (at_least, below, expected) in [
            ("2.10", "2.12", Release::DEFAULT),
            ("2.10", "", Release::DEFAULT),
            ("", "", Release::DEFAULT),
            ("2.7", "2.10", Release::new(2, 9)),
            ("1.13", "2.0", Release::new(1, 13)),
            ("2.12", "2.14", Release::new(2, 12)),
        ] {
            assert_eq!(release(&range(at_least, below), None), expected, "{at_least} {below}");
        }
        assert_eq!(release(&range("2.10", "2.12"), Some(Release::new(2, 6))), Release::new(2, 6));
    }
}
