//! Causes and remedies of GPU out-of-memory, as plain data.
//!
//! [`explain`] takes snapshots and gives an [`Explanation`](explanation::Explanation): per device the replay, the limit,
//! the steps, the findings with the verdict first, and the remedies that were tried. Presenters take it from there.

mod bound;
mod case;
mod categories;
mod causes;
mod device;
pub mod diff;
mod evidence;
mod explain;
pub mod explanation;
mod groups;
mod in_force;
mod limit;
pub mod number;
pub mod recording;
mod remedies;
pub mod settings_check;
mod state_only;
pub mod summary;
mod tables;
#[cfg(test)]
mod testing;
pub mod tuning;
mod what_if;
mod words;

pub use diff::diff;
pub use evidence::TextInput;
pub use explain::{ExplainOptions, InputMeta, LimitChoice, explain, explain_together, impossible_sizes};
pub use groups::{GroupName, Place};
pub use summary::{Moment, summary};
pub use tuning::tune;
pub use what_if::{Change, Changed, NothingToChange, When, change};
pub use whyoom_replay::edits::StateTensors;
