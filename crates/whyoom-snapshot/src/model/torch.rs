//! Which release wrote a file.

/// Release range inferred from the keys of a file; nothing in the file states it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TorchRange {
    /// First release that writes these keys, for example `2.10`.
    pub at_least: Option<String>,
    /// First release that no longer would.
    pub below: Option<String>,
    /// The keys that decided, in a sentence.
    pub because: String,
}
