//! What a parse yields.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::{Key, Settings, SettingsError, SettingsWarning, grammar, notes};
use crate::Release;

/// An accepted string: the values that it leaves in force, and what to know about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parsed {
    /// Values of the device allocator.
    pub settings: Settings,
    /// Values of the pinned host allocator.
    pub host: HostSettings,
    /// `expandable_segments_reserve` (2.15 and later): address space reserved per expandable segment; `None` = 9/8 of
    /// the card.
    pub reserve: Option<Reserve>,
    /// `expandable_segments_reserve_by_class` (2.15 and later).
    pub reserve_by_class: BTreeMap<String, Reserve>,
    /// The keys in the string, in the order of their first places.
    pub mentioned: Vec<Mention>,
    /// What the string does that its writer may not expect, in the order of places.
    pub warnings: Vec<SettingsWarning>,
}

impl Parsed {
    /// Whether the string has the key `name`.
    pub fn mentions(&self, name: &str) -> bool {
        self.mentioned.iter().any(|mention| mention.key.name == name)
    }
}

/// A key, and where it first stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    /// The key.
    pub key: &'static Key,
    /// Characters before it in the string.
    pub position: usize,
}

/// Address space reserved for one expandable segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reserve {
    /// Of the card's memory.
    Fraction(f64),
    /// In GiB.
    Gibibytes(f64),
}

/// Values of the pinned host allocator; device memory does not depend on them. Sizes in bytes where not named otherwise.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HostSettings {
    /// `pinned_use_cuda_host_register`; default off.
    pub use_host_register: bool,
    /// `pinned_num_register_threads`; default 1.
    pub register_threads: u64,
    /// `pinned_use_background_threads`; default off.
    pub use_background_threads: bool,
    /// `pinned_reserve_segment_size_mb`, in MiB; 0 = off (default).
    pub reserve_segment_mebibytes: u64,
    /// `pinned_free_catch_all`; default off.
    pub free_catch_all: bool,
    /// `pinned_max_round_threshold_mb`; `None` = unlimited (default).
    pub max_round_threshold: Option<u64>,
    /// `pinned_max_cached_size_mb`; `None` = unlimited (default).
    pub max_cached_size: Option<u64>,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            use_host_register: false,
            register_threads: 1,
            use_background_threads: false,
            reserve_segment_mebibytes: 0,
            free_catch_all: false,
            max_round_threshold: None,
            max_cached_size: None,
        }
    }
}

/// Reads `text` as the parser of `release` reads `PYTORCH_CUDA_ALLOC_CONF` in a fresh process on a CUDA build.
///
/// # Errors
/// Where that parser throws; also where it would read past its tokens ([`SettingsErrorKind::Undefined`]).
///
/// [`SettingsErrorKind::Undefined`]: super::SettingsErrorKind::Undefined
pub fn parse(text: &str, release: Release) -> Result<Parsed, SettingsError> {
    let mut draft = Draft::new(release);
    if release.at_least(2, 10) {
        grammar::two_layers(text, &mut draft)?;
    } else if release.at_least(2, 0) {
        grammar::lex(text, &mut draft)?;
    } else {
        grammar::split(text, &mut draft)?;
    }
    notes::add(&mut draft);
    let mut parsed = draft.parsed;
    parsed.warnings.sort_by_key(|warning| warning.position);
    Ok(parsed)
}
