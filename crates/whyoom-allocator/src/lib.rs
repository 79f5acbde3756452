//! PyTorch's CUDA caching allocator as an exact, host-only model, and the grammar of its settings.
//!
//! Knows nothing of files or stacks: requests in, placements and driver calls out.

mod release;
pub mod settings;

pub use release::{Release, ReleaseError};
pub use settings::{Backend, Settings};
