//! Bytes of a file: mapped, read, or decompressed.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use super::{ReadError, ReadOptions, sniff};

/// Dictionary and window memory that a decoder may ask for: `xz -9` needs 65 MiB, the largest zstd window 128.
pub(super) const DECODER_MEMORY_BYTES: u64 = 160 << 20;
/// Data that grows to more times its size than this is no snapshot; those that were seen grow up to 135 times.
const LARGEST_GROWTH: u64 = 256;
/// What small data may grow to, however much more that is, in bytes.
const FREE_GROWTH_BYTES: u64 = 64 << 20;
/// Largest window of zstd data, as a power of two: what `zstd -d` accepts by default.
pub(super) const ZSTD_WINDOW_LOG: u32 = 27;

/// The bytes of an input.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// The bytes of the file at `path`, still compressed if it is.
pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Bytes, ReadError> {
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
    }
    // Pipes and devices cannot be mapped, and an empty file must not be.
    if !metadata.is_file() || metadata.len() == 0 {
        return read_all(file, options).map(Bytes::Owned);
    }
    map(&file).map(Bytes::Mapped).map_err(failed)
}

#[allow(unsafe_code, reason = "a snapshot of gigabytes is read in place instead of being copied first")]
fn map(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the map is read-only and private to this process; it is sound as long as nobody shortens the file or
    // writes to it meanwhile. PyTorch writes a snapshot in one go and never again. A file that shrinks all the same
    // ends the process with SIGBUS, as it does for every reader that maps its input; one that changes is still read
    // with every index checked, since no length or offset taken from the bytes is trusted twice.
    let map = unsafe { memmap2::Mmap::map(file)? };
    #[cfg(unix)]
    map.advise(memmap2::Advice::Sequential)?;
    Ok(map)
}

/// So much of a stream is looked at before the rest is read: an endless one that is no snapshot ends here.
const HEAD_BYTES: u64 = 64 << 10;

pub(super) fn is_compressed(data: &[u8]) -> bool {
    matches!(data, [0x1F, 0x8B, ..] | [0x28, 0xB5, 0x2F, 0xFD, ..] | [0xFD, b'7', b'z', b'X', b'Z', 0, ..])
}

/// All bytes of a pipe.
pub(super) fn read_all(reader: impl Read, options: &ReadOptions) -> Result<Vec<u8>, ReadError> {
    let limit_bytes = options.max_decompressed_bytes;
    let mut reader = reader.take(limit_bytes.saturating_add(1));
    let mut bytes = Vec::new();
    reader.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes)?;
    if !is_compressed(&bytes) {
        sniff::encoding(&bytes)?;
    }
    reader.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(ReadError::TooLarge { format: "input", limit_bytes });
    }
    Ok(bytes)
}

/// Decompressed input.
#[derive(Debug)]
pub(super) struct Decompressed {
    pub(super) bytes: Vec<u8>,
    /// What the decoder said where it had to give up.
    pub(super) damage: Option<String>,
}

/// The decompressed bytes, if `data` is compressed.
pub(super) fn decompress(data: &[u8], options: &ReadOptions) -> Result<Option<Decompressed>, ReadError> {
    let decompressed = match data {
        [0x1F, 0x8B, ..] => drain(flate2::read::MultiGzDecoder::new(data), data.len(), "gzip", "gzip -dc", options)?,
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(data)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            drain(decoder, data.len(), "zstd", "zstd -dc", options)?
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(DECODER_MEMORY_BYTES, liblzma::stream::CONCATENATED)
                    .map_err(io::Error::from)?;
            drain(liblzma::read::XzDecoder::new_stream(data, stream), data.len(), "xz", "xz -dc", options)?
        }
        _ => return Ok(None),
    };
    Ok(Some(decompressed))
}

fn drain(
    decoder: impl Read,
    compressed_bytes: usize,
    format: &'static str,
    tool: &'static str,
    options: &ReadOptions,
) -> Result<Decompressed, ReadError> {
    let limit_bytes = options.max_decompressed_bytes;
    let growth_bytes = (compressed_bytes as u64).saturating_mul(LARGEST_GROWTH).max(FREE_GROWTH_BYTES);
    let mut decoder = decoder.take(limit_bytes.saturating_add(1).min(growth_bytes));
    let mut bytes = Vec::new();
    let mut outcome = decoder.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes);
    if outcome.is_ok() && bytes.len() as u64 == HEAD_BYTES {
        sniff::encoding(&bytes)?;
        outcome = decoder.read_to_end(&mut bytes);
    }
    if bytes.len() as u64 > limit_bytes {
        return Err(ReadError::TooLarge { format, limit_bytes });
    }
    match outcome {
        Ok(_) if bytes.len() as u64 == growth_bytes => {
            let damage = format!(
                "the {format} data grows to {LARGEST_GROWTH} times its size and more, and was read up to {growth_bytes} \
                 decompressed bytes; if it really is a snapshot, decompress it with `{tool}` to a file and read that"
            );
            Ok(Decompressed { bytes, damage: Some(damage) })
        }
        Ok(_) => Ok(Decompressed { bytes, damage: None }),
        Err(error) if bytes.is_empty() => {
            Err(ReadError::Decompress { format, tool, decompressed_bytes: 0, reason: error.to_string() })
        }
        Err(error) => {
            let damage = format!("the {format} data is damaged after {} decompressed bytes: {error}", bytes.len());
            Ok(Decompressed { bytes, damage: Some(damage) })
        }
    }
}
