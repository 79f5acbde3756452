//! PyTorch's CUDA caching allocator as an exact, host-only model, and the grammar of its settings.
//!
//! Knows nothing of files or stacks: requests in, placements and driver calls out.

mod allocator;
mod block;
mod driver;
mod expandable;
mod free_set;
mod model;
mod reclaim;
mod release;
mod restore;
mod search;
pub mod settings;
mod size;
mod stats;

pub use allocator::{Allocator, FreeSpace, OutOfMemory, PlacedBlock, PlacedState, PoolOptions, Request};
pub use block::BlockId;
pub use driver::{AscendingDriver, Driver};
pub use model::Model;
pub use release::{Release, ReleaseError};
pub use restore::{Region, RegionBlock};
pub use settings::{Backend, Settings};
pub use size::{MIN_BLOCK, OWN_SEGMENT, ROUND_LARGE, SMALL_REQUEST, SMALL_SEGMENT, SizeRules};
pub use stats::{Level, Stats};
