//! What a string does that its writer may not expect, though the release accepts it.

use std::fmt;

/// A note on an accepted string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsWarning {
    /// The kind, for programs.
    pub code: WarningCode,
    /// Characters before its place in the string.
    pub position: usize,
    /// What happens, and what to write if that is not meant.
    pub message: String,
}

impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {})", self.message, self.position + 1)
    }
}

/// Kinds of [`SettingsWarning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The item does nothing: no colon, or nothing behind it (1.13).
    ItemIgnored,
    /// Text behind the second colon of an item does nothing (1.13).
    RestIgnored,
    /// Characters behind a number do nothing (`512MB` is 512).
    NumberTail,
    /// A negative number became a huge one.
    NegativeWraps,
    /// Another character stands where `:` or `,` belongs, and is taken for it (2.10 and later).
    SeparatorIgnored,
    /// A list without `]` is accepted (2.0 to 2.9).
    ListUnclosed,
    /// Blanks inside a word were dropped and its parts joined.
    WordsJoined,
    /// The key stands in the string twice; the last one holds.
    KeyRepeated,
    /// `>` also replaces the entry before it (2.0 to 2.9).
    DivisionsOverwritten,
    /// A range of sizes between or above the listed ones is not rounded up.
    DivisionsGap,
    /// One division leaves sizes unrounded (1.13 and 2.0).
    OneDivision,
    /// A reserve value that is not a positive number is ignored (2.15 and later).
    ReserveIgnored,
    /// The threshold acts only under a memory fraction.
    NeedsFraction,
    /// A fraction of 0 refuses every request.
    NothingAllowed,
    /// `backend:cudaMallocAsync` ignores the settings of the native allocator.
    IgnoredByBackend,
    /// With expandable segments, free ranges of `max_split_size_mb` or more serve no smaller request.
    SplitUnderExpandable,
    /// Only pinned host memory is affected.
    HostOnly,
}
