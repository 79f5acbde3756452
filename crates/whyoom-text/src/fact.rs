//! Everything that can be read from text.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::Place;

/// A fact and where it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// First line of it.
    pub place: Place,
    /// The rank that a prefix or the text names.
    pub rank: Option<u32>,
    /// How often the text says it: messages are repeated by chained exceptions, launchers and summaries.
    pub occurrences: u64,
    /// What was read.
    #[serde(flatten)]
    pub fact: Fact,
}

impl Reading {
    /// Takes up a reading that says the same again.
    pub(crate) fn merge(&mut self, again: Self) {
        self.occurrences += again.occurrences;
        self.rank = self.rank.or(again.rank);
    }
}

/// One fact. Each family has its own type, in its own module.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {}

impl Fact {
    /// A number that is the same for what says the same thing of one rank; `None` for facts that are never merged,
    /// such as samples of a series.
    pub(crate) fn sameness(&self, rank: Option<u32>) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        rank.hash(&mut hasher);
        std::mem::discriminant(self).hash(&mut hasher);
        Some(hasher.finish())
    }
}
