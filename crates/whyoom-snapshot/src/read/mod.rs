//! From bytes to a [`Snapshot`].

mod error;
mod html;
mod json;
mod pickle;
mod sniff;
mod source;
mod stream;

use std::io::Read;
use std::path::Path;

pub use error::ReadError;
pub(crate) use sniff::not_a_snapshot;
pub use stream::decompressed;

use crate::Snapshot;

/// Bounds on what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Bytes that compressed input may hold, and that a pipe may deliver. Default 8 GiB.
    ///
    /// Compressed input is besides read no further than to 256 times its size, or 64 MiB if that is more.
    pub max_decompressed_bytes: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_decompressed_bytes: 8 << 30 }
    }
}

/// Reads the snapshot at `path`: a pickle or JSON text, plain or compressed with gzip, zstd or xz,
/// or the page of the memory viewer with a pickle in it.
///
/// Plain files are mapped and read in place. What the file is shows from its content, never from its name.
///
/// # Errors
/// [`ReadError`] if no segment and no trace entry could be read. A file that is damaged or cut after some could still
/// yields a [`Snapshot`], with a warning that says where it ends.
///
/// # Example
/// ```no_run
/// use std::path::Path;
/// use whyoom_snapshot::{ReadOptions, read_path};
///
/// let snapshot = read_path(Path::new("oom.pickle"), &ReadOptions::default())?;
/// for device in &snapshot.devices {
///     let events = device.events.len();
///     let reserved_bytes: u64 = device.segments.iter().map(|s| s.total_size).sum();
///     assert!(events > 0 || reserved_bytes > 0);
/// }
/// # Ok::<(), whyoom_snapshot::ReadError>(())
/// ```
pub fn read_path(path: &Path, options: &ReadOptions) -> Result<Snapshot, ReadError> {
    read_bytes(&source::open(path, options)?, options)
}

/// Reads a snapshot from a pipe, such as standard input.
///
/// # Errors
/// As [`read_path`], and [`ReadError::TooLarge`] past [`ReadOptions::max_decompressed_bytes`].
pub fn read_reader(reader: impl Read, options: &ReadOptions) -> Result<Snapshot, ReadError> {
    read_bytes(&source::read_all(reader, options)?, options)
}

/// Reads a snapshot from bytes in memory: a pickle or JSON text, plain or compressed with gzip, zstd or xz.
///
/// # Errors
/// As [`read_path`].
pub fn read_bytes(bytes: &[u8], options: &ReadOptions) -> Result<Snapshot, ReadError> {
    match source::decompress(bytes, options)? {
        Some(decompressed) => read_plain(&decompressed.bytes, decompressed.damage),
        None => read_plain(bytes, None),
    }
}

/// Reads bytes that are not compressed. `damage` says why they end early, if they do.
fn read_plain(bytes: &[u8], damage: Option<String>) -> Result<Snapshot, ReadError> {
    match sniff::encoding(bytes)? {
        sniff::Encoding::Pickle => pickle::read(bytes, damage),
        sniff::Encoding::Json(start) => json::read(bytes, start, damage),
        sniff::Encoding::Page => match html::payload(bytes) {
            Some(inner) if matches!(sniff::encoding(&inner), Ok(sniff::Encoding::Pickle)) => {
                pickle::read(&inner, damage)
            }
            _ => Err(sniff::unknown(bytes)),
        },
    }
}
