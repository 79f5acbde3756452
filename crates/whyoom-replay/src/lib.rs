//! Drives the allocator model with a snapshot's events: the exact check, and what would have happened otherwise.
//!
//! - [`Trace`] resolves a device's events into allocations with lives.
//! - [`replay_recorded`] drives the model with them under the recorded settings and compares every event;
//!   it yields the [`Program`] (requests and frees without addresses) and the [`LimitInterval`].
//! - [`simulate`] runs a program under other settings or another limit; [`try_all`] many of them at once.

mod counterfactual;
mod limit;
mod recorded;
mod steps;
mod trace;

pub use counterfactual::{
    ENSEMBLE_BUDGET, FailedRequest, Growth, HabitDriver, LimitKind, Op, Outcome, Placement, Program, ProgramRequest,
    Scenario, Start, Trial, Tried, Until, simulate, try_all,
};
pub use limit::{LimitInterval, LimitSource};
pub use recorded::{Divergence, Failure, FinalState, Recorded, RecordedOptions, replay_recorded};
pub use steps::{StepSource, Steps, is_module_call, is_outermost_frame, is_python_frame};
pub use trace::{Allocation, NONE, Trace};

/// Address space of one expandable segment where the card's size is not known, in bytes: more than any card has.
pub(crate) const RESERVATION: u64 = 1 << 40;
