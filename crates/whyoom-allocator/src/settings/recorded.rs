//! Settings from the values that a snapshot records.

use super::{Settings, parse};
use crate::Release;

/// Values as `allocator_settings` of a snapshot has them (2.3 and later), and the release to read the string as.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedValues<'a> {
    /// Release that wrote the file, or the best guess.
    pub release: Release,
    /// The last settings string that was parsed.
    pub conf: Option<&'a str>,
    /// Bytes; `None` = unlimited or not recorded.
    pub max_split_size: Option<u64>,
    /// 0 = off.
    pub garbage_collection_threshold: f64,
    /// Value when the file was written.
    pub expandable_segments: bool,
    /// Divisions per octave; `None` = not recorded.
    pub roundup_power2_divisions: Option<[u32; 16]>,
    /// `release_lock_on_cudamalloc`; `None` = not recorded.
    pub release_lock_on_cudamalloc: Option<bool>,
    /// `graph_capture_record_stream_reuse`; `None` = not recorded.
    pub graph_capture_record_stream_reuse: Option<bool>,
}

impl From<RecordedValues<'_>> for Settings {
    /// What is recorded as a value holds; the rest comes from the string, or is the default where the string is refused.
    fn from(recorded: RecordedValues<'_>) -> Self {
        let parsed = recorded.conf.and_then(|conf| parse(conf, recorded.release).ok());
        let from_string = parsed.unwrap_or_default().settings;
        Self {
            max_split_size: recorded.max_split_size,
            garbage_collection_threshold: recorded.garbage_collection_threshold,
            expandable_segments: recorded.expandable_segments,
            roundup_power2_divisions: recorded.roundup_power2_divisions.unwrap_or(from_string.roundup_power2_divisions),
            release_lock_on_cudamalloc: recorded
                .release_lock_on_cudamalloc
                .unwrap_or(from_string.release_lock_on_cudamalloc),
            graph_capture_record_stream_reuse: recorded
                .graph_capture_record_stream_reuse
                .unwrap_or(from_string.graph_capture_record_stream_reuse),
            ..from_string
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::MIB;

    #[test]
    fn recorded_values_hold_over_the_string() {
        let settings = Settings::from(RecordedValues {
            release: Release::new(2, 11),
            conf: Some("large_segment_size_mb:32,expandable_segments:True"),
            ..RecordedValues::default()
        });
        assert_eq!((settings.large_segment_size, settings.expandable_segments), (32 * MIB, false));
    }

    #[test]
    fn a_refused_string_leaves_defaults() {
        let refused = RecordedValues { conf: Some("max_split_size_mb:1"), ..RecordedValues::default() };
        assert_eq!(Settings::from(refused), Settings::default());
    }
}
