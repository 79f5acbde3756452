//! What the recorded program would have met under other settings, another limit or with calls added.

mod bounds;
mod habit;
mod program;
mod rooms;
mod simulate;
mod sweep;

pub use bounds::{FitsFrom, Members, smallest_limit};
pub use habit::{Growth, HabitDriver, LimitKind, Placement};
pub use program::{Op, Program, ProgramRequest};
pub use simulate::{FailedRequest, Outcome, Scenario, Start, Until, simulate};
pub use sweep::{ENSEMBLE_BUDGET, Trial, Tried, try_all, with_ensembles};
