//! Causes and remedies of GPU out-of-memory, as plain data.
//!
//! [`explain`] takes snapshots and gives an [`Explanation`](explanation::Explanation): per device the replay, the limit,
//! the steps, the findings with the verdict first, and the remedies that were tried. Presenters take it from there.

mod bound;
mod case;
mod categories;
mod causes;
mod device;
mod explain;
pub mod explanation;
mod in_force;
mod limit;
mod remedies;
mod state_only;
mod tables;
#[cfg(test)]
mod testing;
mod words;

pub use explain::{ExplainOptions, InputMeta, LimitChoice, explain};
