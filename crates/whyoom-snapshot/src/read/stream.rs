//! Decompression of a stream, for texts that come with snapshots.

use std::io::{self, BufRead, BufReader, Read};

use super::source::{DECODER_MEMORY_BYTES, ZSTD_WINDOW_LOG, is_compressed};

/// The bytes of `reader`, decompressed if they are gzip, zstd or xz; memory is bounded whatever they grow to.
///
/// # Errors
/// What `reader` returns, and decoders that cannot be made.
pub fn decompressed<'a>(reader: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let head = reader.fill_buf()?;
    if !is_compressed(head) {
        return Ok(Box::new(reader));
    }
    Ok(match head[0] {
        0x1F => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        0x28 => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(DECODER_MEMORY_BYTES, liblzma::stream::CONCATENATED)
                    .map_err(io::Error::from)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(reader, stream))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        decompressed(bytes).and_then(|mut r| r.read_to_end(&mut all)).expect("bytes in memory");
        all
    }

    #[test]
    fn each_compression_is_known_by_its_mark() {
        let text = b"CUDA out of memory\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).expect("memory");
        assert_eq!(read(&gzip.finish().expect("memory")), text);
        assert_eq!(read(&zstd::encode_all(&text[..], 1).expect("memory")), text);
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&text).expect("memory");
        assert_eq!(read(&xz.finish().expect("memory")), text);
        assert_eq!(read(&text), text);
        assert_eq!(read(b""), b"");
    }
}
