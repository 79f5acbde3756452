//! The columnar model of a PyTorch memory snapshot, and every dialect it is written in.
//!
//! Past this crate nobody sees a pickle key: [`Snapshot`] is plain tables (segments, blocks, events)
//! with strings and stacks interned once and referred to by `u32` handles.
//!
//! Entry points: [`read_path`], [`read_bytes`], [`read_reader`].

mod assemble;
mod collect;
mod model;
mod read;

pub use model::*;
pub use read::{ReadError, ReadOptions, decompressed, read_bytes, read_path, read_reader};
