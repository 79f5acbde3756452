//! Losses and oddities, counted.

use std::collections::BTreeMap;

/// Counted warnings by code, in code order.
///
/// | code | what it says |
/// |---|---|
/// | `truncated` | the input is cut or damaged; with the byte offset |
/// | `damaged_archive` | the compressed file is damaged, but all of the snapshot could be read |
/// | `trailing_bytes` | something follows the end of the snapshot |
/// | `wrapped` | the snapshot lies inside other data |
/// | `several_snapshots` | only the first of several was read |
/// | `data_dropped` | data beside the snapshot was too large to keep |
/// | `unknown_key`, `unknown_action`, `unknown_state`, `unknown_stage` | words that no known release writes |
/// | `host_memory` | pinned host memory is in the file and passed over |
/// | `from_profile` | the trace was converted from a profile |
/// | `ring_overflowed` | the file itself says that the trace lost its start |
/// | `reordered`, `time_jitter`, `times_missing` | a trace whose times run backwards or are missing |
/// | `segment_sums`, `blocks_not_contiguous` | segments whose blocks do not add up |
/// | `devices_left_out` | more devices than a PyTorch process can have |
/// | `streams_merged`, `pools_merged` | more distinct streams or pools than an index can tell apart |
/// | `odd_blocks`, `odd_frames`, `odd_item`, `odd_segments`, `odd_trace` | a value of an unexpected kind was left out |
/// | `late_items`, `repeated_rows`, `text_repaired` | signs of another writer, or of damage |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warnings(BTreeMap<&'static str, Warning>);

/// One kind of warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// How often.
    pub count: u64,
    /// A sentence with the first occurrence as example.
    pub message: String,
}

impl Warnings {
    /// Counts `code`; `message` is built only the first time.
    pub fn add(&mut self, code: &'static str, message: impl FnOnce() -> String) {
        self.0.entry(code).or_insert_with(|| Warning { count: 0, message: message() }).count += 1;
    }
    /// Counts `code` as having occurred `count` times; `message` is built only the first time.
    pub fn add_many(&mut self, code: &'static str, count: u64, message: impl FnOnce() -> String) {
        if count > 0 {
            self.0.entry(code).or_insert_with(|| Warning { count: 0, message: message() }).count += count;
        }
    }
    /// Warnings in code order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Warning)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }
    /// Whether nothing was worth a warning.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (code, w) in other.iter() {
            self.0.entry(code).or_insert_with(|| Warning { count: 0, message: w.message.clone() }).count += w.count;
        }
    }
}
