//! Causes and remedies of GPU out-of-memory, as plain data.

pub mod explanation;
