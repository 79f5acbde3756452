//! Text for a person at a terminal: what they need, in the order they need it.

mod diff;
mod doc;
mod explain;
mod replay;
mod settings;
mod summary;
mod tune;
mod words;

pub use diff::write_diff;
pub(crate) use doc::is_unsafe;
pub use doc::{WIDTH, printable};
pub use explain::write_explanation;
pub use replay::write_replay;
pub use settings::write_settings;
pub use summary::write_summary;
pub use tune::write_tuning;

use crate::number::Numbers;

/// How text is written. The default suits a pipe: no colour, rounded bytes, the short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Everything, instead of about 40 lines.
    pub verbose: bool,
    /// How byte quantities are written.
    pub numbers: Numbers,
    /// Whether to write ANSI colours. They add nothing that the words do not say.
    pub colour: bool,
    /// ASCII in place of `✓ ✗ · ≥ ×`.
    pub ascii: bool,
}
