//! Which release wrote a file and which settings were in force.

use whyoom_allocator::settings::RecordedValues;
use whyoom_allocator::{Release, Settings};
use whyoom_snapshot::{Action, Device, Snapshot, TorchRange};

/// The release to model: the one given, else the default if the file allows it, else the nearest that it allows.
pub(crate) fn release(given: Option<Release>, range: &TorchRange) -> Release {
    if let Some(release) = given {
        return release;
    }
    let parse = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<Release>().ok());
    let (at_least, below) = (parse(&range.at_least), parse(&range.below));
    if let Some(first) = at_least.filter(|f| *f > Release::DEFAULT) {
        return first;
    }
    match below.filter(|b| *b <= Release::DEFAULT) {
        // The newest release that still wrote such a file; 1.13 is the oldest that is modelled.
        Some(Release { major, minor: 0, .. }) if major <= 2 => Release::new(1, 13),
        Some(b) => Release::new(b.major, b.minor.saturating_sub(1)),
        None => Release::DEFAULT,
    }
}

/// Settings in force, and what about them is not certain.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    /// The string, if the file has it.
    pub(crate) string: Option<String>,
    pub(crate) settings: Settings,
    /// What the file does not say, in a sentence.
    pub(crate) doubt: Option<String>,
}

/// The settings that `snapshot` was recorded under.
pub(crate) fn settings(snapshot: &Snapshot, device: &Device, release: Release) -> InForce {
    let Some(recorded) = &snapshot.settings else {
        let maps =
            device.events.action.contains(&Action::SegmentMap) || device.segments.iter().any(|s| s.is_expandable);
        let doubt = if maps {
            "The file does not record the settings; expandable segments show in it, everything else is taken to be the default."
        } else {
            "The file does not record the settings; PyTorch's defaults are assumed."
        };
        let settings = Settings { expandable_segments: maps, ..Settings::default() };
        return InForce { string: None, settings, doubt: Some(doubt.to_owned()) };
    };
    let flag = |name: &str| {
        recorded.other.iter().find(|(key, _)| key == name).and_then(|(_, value)| match value.as_str() {
            "True" | "true" | "1" => Some(true),
            "False" | "false" | "0" => Some(false),
            _ => None,
        })
    };
    let settings = Settings::from(RecordedValues {
        release,
        conf: recorded.conf.as_deref(),
        max_split_size: recorded.max_split_size,
        garbage_collection_threshold: recorded.garbage_collection_threshold,
        expandable_segments: recorded.expandable_segments,
        roundup_power2_divisions: recorded.roundup_power2_divisions,
        release_lock_on_cudamalloc: flag("release_lock_on_cudamalloc"),
        graph_capture_record_stream_reuse: flag("graph_capture_record_stream_reuse"),
    });
    InForce { string: recorded.conf.clone(), settings, doubt: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(at_least: Option<&str>, below: Option<&str>) -> TorchRange {
        TorchRange { at_least: at_least.map(str::to_owned), below: below.map(str::to_owned), because: String::new() }
    }

    #[test]
    fn the_release_is_one_that_could_have_written_the_file() {
        for (at_least, below, expected) in [
            (None, None, Release::DEFAULT),
            (Some("2.10"), None, Release::DEFAULT),
            (Some("2.10"), Some("2.12"), Release::DEFAULT),
            (Some("2.12"), Some("2.14"), Release::new(2, 12)),
            (Some("2.3"), Some("2.5"), Release::new(2, 4)),
            (Some("1.13"), Some("2.0"), Release::new(1, 13)),
        ] {
            assert_eq!(release(None, &range(at_least, below)), expected, "{at_least:?} {below:?}");
        }
        assert_eq!(release(Some(Release::new(2, 6)), &range(None, None)), Release::new(2, 6));
    }
}
