//! PyTorch releases as values that can be compared.

use std::{fmt, str::FromStr};

/// A PyTorch release line, for example 2.11. Patch level is kept where a text names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Patch version; 0 where not named.
    pub patch: u16,
}

impl Release {
    /// The release whose allocator is modelled when nothing else is known.
    pub const DEFAULT: Self = Self::new(2, 11);
    /// The oldest release that is modelled: its allocator is the first that can write a snapshot with a trace.
    pub const OLDEST: Self = Self::new(1, 13);
    /// The newest release that is modelled.
    pub const NEWEST: Self = Self::new(2, 15);
    /// `major.minor.0`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: 0 }
    }
    /// Whether this is `major.minor` or later.
    pub const fn at_least(self, major: u16, minor: u16) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }
}

impl Default for Release {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// The text is not a release such as `2.11` or `2.9.1+cu130`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PyTorch release; write it like 2.11 or 2.9.1")]
pub struct ReleaseError(pub String);

impl FromStr for Release {
    type Err = ReleaseError;
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let bad = || ReleaseError(text.to_owned());
        let core = text.trim().trim_start_matches('v').split(['+', 'a', 'b', 'r']).next().unwrap_or("");
        let mut parts = core.trim_end_matches('.').split('.');
        let mut number = |default: Option<u16>| match parts.next() {
            Some(p) => p.parse::<u16>().map_err(|_| bad()),
            None => default.ok_or_else(bad),
        };
        let (major, minor, patch) = (number(None)?, number(None)?, number(Some(0))?);
        Ok(Self { major, minor, patch })
    }
}
