//! Everything that can be read from text.

use serde::Serialize;

use crate::Place;

/// A fact and where it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// First line of it.
    pub place: Place,
    /// The rank that a prefix or the text names.
    pub rank: Option<u32>,
    /// What was read.
    #[serde(flatten)]
    pub fact: Fact,
}

/// One fact. Each family has its own type, in its own module.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {}
