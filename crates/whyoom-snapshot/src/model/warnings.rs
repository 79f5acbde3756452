//! Losses and oddities, counted.

use std::collections::BTreeMap;

/// Counted warnings by code, in code order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warnings(BTreeMap<&'static str, Warning>);

/// One kind of warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// How often.
    pub count: u64,
    /// A sentence with the first occurrence as example.
    pub message: String,
}

impl Warnings {
    /// Counts `code`; `message` is built only the first time.
    pub fn add(&mut self, code: &'static str, message: impl FnOnce() -> String) {
        self.0.entry(code).or_insert_with(|| Warning { count: 0, message: message() }).count += 1;
    }
    /// Counts `code` as having occurred `count` times; `message` is built only the first time.
    pub fn add_many(&mut self, code: &'static str, count: u64, message: impl FnOnce() -> String) {
        if count > 0 {
            self.0.entry(code).or_insert_with(|| Warning { count: 0, message: message() }).count += count;
        }
    }
    /// Warnings in code order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Warning)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }
    /// Whether nothing was worth a warning.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (code, w) in other.iter() {
            self.0.entry(code).or_insert_with(|| Warning { count: 0, message: w.message.clone() }).count += w.count;
        }
    }
}
