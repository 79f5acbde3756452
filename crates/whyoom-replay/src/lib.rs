//! Drives the allocator model with a snapshot's events: the exact check, and what would have happened otherwise.

mod counterfactual;
mod habit;
mod layout;
mod limit;
mod pools;
mod program;
mod recorded;
mod recorded_driver;
mod reservations;
mod sweep;
mod trace;

pub use counterfactual::{FailedRequest, Outcome, Scenario, Start, Until, simulate};
pub use habit::{Growth, HabitDriver, LimitKind, Placement};
pub use limit::{LimitInterval, LimitSource};
pub use program::{Op, Program, ProgramRequest};
pub use recorded::{Divergence, Failure, FinalState, Recorded, RecordedOptions};
pub use sweep::{ENSEMBLE_BUDGET, Trial, Tried, try_all};
pub use trace::{Allocation, NONE, Trace};

/// Replays a trace under its own settings.
pub fn replay_recorded<'a>(trace: &'a Trace<'a>, options: RecordedOptions<'a>) -> Recorded {
    pools::replay(trace, options)
}
