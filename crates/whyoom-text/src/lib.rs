//! Facts out of text: OOM messages, `memory_summary()`, `memory_stats()`, nvidia-smi in its forms, step logs.
//!
//! Any text goes in, facts come out, each with the place that it came from. Nothing here judges: what the facts
//! mean is for `whyoom-diagnosis`.
//!
//! ```text
//! bytes ─▶ decode (UTF-8, UTF-16, CR, CRLF) ─▶ Line (no colours, no prefixes) ─▶ recognisers ─▶ Reading
//! ```

mod decode;
mod fact;
mod filter;
mod line;
mod prefix;
mod quantity;
mod read;
mod recogniser;
mod shape;
mod sniff;

pub mod messages;
pub mod monitors;
pub mod profilers;
pub mod series;
pub mod steps;
pub mod tables;

pub use decode::Encoding;
pub use fact::{Fact, Reading};
pub use line::{Line, Place};
pub use quantity::{Quantity, Units};
pub use read::{Limits, Text, read, read_with, recognisers};
pub use recogniser::{Found, Recogniser};
pub use shape::{Again, Sketch};
pub use sniff::{sniff, sniff_likelihood};
