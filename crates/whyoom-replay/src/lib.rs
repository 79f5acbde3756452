//! Drives the allocator model with a snapshot's events: the exact check, and what would have happened otherwise.
//!
//! - [`Trace`] resolves a device's events into allocations with lives.
//! - [`replay_recorded`] drives the model with them under the recorded settings and compares every event;
//!   it yields the [`Program`] (requests and frees without addresses) and the [`LimitInterval`].
//! - [`memory_stats`] counts PyTorch's own statistics up to any event.
//! - [`simulate`] runs a program under other settings or another limit; [`try_all`] many of them at once.
//! - [`edits`] change the program: calls added, allocations dropped or scaled, another optimizer.
//! - [`smallest_limit`] finds from how many bytes a program passes; [`tune`] searches the settings.

mod counterfactual;
pub mod edits;
mod limit;
mod recorded;
mod statistics;
mod steps;
mod trace;
mod tune;

pub use counterfactual::{
    ENSEMBLE_BUDGET, FailedRequest, FitsFrom, Growth, HabitDriver, LimitKind, Members, Op, Outcome, Placement, Program,
    ProgramRequest, Scenario, Start, Trial, Tried, Until, simulate, smallest_limit, try_all, with_ensembles,
};
pub use limit::{LimitInterval, LimitSource};
pub use recorded::{Divergence, Failure, FinalState, Recorded, RecordedOptions, replay_recorded};
pub use statistics::{MemoryStats, PoolStat, Stat, memory_stats, peak_event};
pub use steps::{StepBasis, StepSource, Steps, is_module_call, is_outermost_frame, is_python_frame};
pub use trace::{Allocation, Implausible, NONE, Trace};
pub use tune::{Candidate, Price, TuneQuestion, Tuned, tune};

/// Address space of one expandable segment where the card's size is not known, in bytes: more than any card has.
pub(crate) const RESERVATION: u64 = 1 << 40;
