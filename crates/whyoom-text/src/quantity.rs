//! A size as it is printed, and how precisely.

use serde::Serialize;

/// A number of bytes read from text that was rounded when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quantity {
    /// The value, to the nearest byte.
    pub bytes: u64,
    /// The true value lies within this many bytes on either side (half of the last digit printed); 0 if exact.
    pub within: u64,
}
