//! Why a file could not be read.

use std::io;
use std::path::PathBuf;

/// A file that yields no snapshot: what is wrong, where, the likely reason and what to try.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or mapped.
    #[error("cannot open the snapshot: {source}: {}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The input broke off with an error of the system.
    #[error("cannot read the snapshot: {0}")]
    Read(#[from] io::Error),
    /// The compressed input is damaged, or no part of it could be decompressed.
    #[error(
        "the {format} data is damaged after {decompressed_bytes} decompressed bytes: {reason}. Copy the file again, or decompress it with `{tool}` to see whether the rest can be saved"
    )]
    Decompress {
        /// `gzip`, `zstd` or `xz`.
        format: &'static str,
        /// The program that decompresses it.
        tool: &'static str,
        /// Bytes that could be decompressed.
        decompressed_bytes: u64,
        /// What the decoder said.
        reason: String,
    },
    /// More decompressed bytes than allowed.
    #[error(
        "the {format} data holds more than {limit_bytes} bytes once decompressed, which is the limit. If it really is a snapshot, decompress it to a file first and read that"
    )]
    TooLarge {
        /// `gzip`, `zstd` or `xz`.
        format: &'static str,
        /// [`ReadOptions::max_decompressed_bytes`](crate::ReadOptions::max_decompressed_bytes).
        limit_bytes: u64,
    },
    /// Something else than a memory snapshot.
    #[error("this is no PyTorch memory snapshot: it looks like {looks_like}. {hint}")]
    NotASnapshot {
        /// What it looks like, as a noun.
        looks_like: String,
        /// What to try, as sentences.
        hint: String,
    },
    /// The pickle wants to run code. Nothing in a snapshot is ever executed.
    #[error(
        "{what} at byte {offset}. Snapshots by `torch.cuda.memory._dump_snapshot` have none of that; if the file is your own wrapper, dump only the snapshot, with plain dicts, lists and numbers"
    )]
    RunsCode {
        /// What the pickle asks for.
        what: String,
        /// Byte offset in the (decompressed) input.
        offset: u64,
    },
    /// A damaged or cut file of which nothing could be saved.
    #[error(
        "{what} at byte {offset} of {input_bytes}, before any segment or trace entry was complete. The file is cut short or damaged: check that the program had finished writing it and that the disk was not full, and copy it again"
    )]
    Damaged {
        /// What is wrong.
        what: String,
        /// Byte offset in the (decompressed) input.
        offset: u64,
        /// Size of the (decompressed) input in bytes.
        input_bytes: u64,
    },
}
