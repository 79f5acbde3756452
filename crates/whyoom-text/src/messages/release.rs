//! Releases that print a text.

use serde::{Serialize, Serializer};

/// A minor release of PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// 2 of 2.10.
    pub major: u16,
    /// 10 of 2.10.
    pub minor: u16,
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}.{}", self.major, self.minor))
    }
}

/// The releases that print a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Releases {
    /// The first of them.
    pub at_least: Option<Release>,
    /// The first later one that does not.
    pub below: Option<Release>,
}

impl Releases {
    /// Any release.
    pub const ANY: Self = Self { at_least: None, below: None };

    /// From a release, given as (major, minor).
    pub const fn from(major: u16, minor: u16) -> Self {
        Self { at_least: Some(Release { major, minor }), below: None }
    }

    /// Up to a release, which is excluded.
    #[must_use]
    pub const fn below(self, major: u16, minor: u16) -> Self {
        Self { at_least: self.at_least, below: Some(Release { major, minor }) }
    }

    /// Whether a release as late as this one, or later, may print the text.
    pub fn may_be(self, major: u16, minor: u16) -> bool {
        self.below.is_none_or(|below| below > Release { major, minor })
    }

    /// What both allow. `self` where they exclude each other: hints are copied between versions by hand.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let at_least = self.at_least.max(other.at_least);
        let below = match (self.below, other.below) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match (at_least, below) {
            (Some(first), Some(end)) if first >= end => self,
            _ => Self { at_least, below },
        }
    }

    /// What either allows, and all between.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            at_least: self.at_least.zip(other.at_least).map(|(a, b)| a.min(b)),
            below: self.below.zip(other.below).map(|(a, b)| a.max(b)),
        }
    }
}
