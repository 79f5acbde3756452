//! What bytes look like.

use super::ReadError;

/// How a snapshot is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Pickle,
    /// JSON text that begins at this offset.
    Json(usize),
    /// HTML, which may hold a pickle as base64.
    Page,
}

const RECORD: &str = "A snapshot is what `torch.cuda.memory._dump_snapshot(\"oom.pickle\")` writes after `torch.cuda.memory._record_memory_history()`";

/// How `bytes` are written, or what they are instead.
pub(super) fn encoding(bytes: &[u8]) -> Result<Encoding, ReadError> {
    if bytes.is_empty() {
        return Err(not(
            "an empty file",
            "The program that should have written it may have been killed first, or the disk was full".to_owned(),
        ));
    }
    if let Some(found) = other_format(bytes) {
        return Err(found);
    }
    let bom = if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let start = bom + bytes[bom..].iter().take_while(|b| b.is_ascii_whitespace()).count();
    if matches!(bytes.get(start), Some(b'{' | b'[')) {
        return Ok(Encoding::Json(start));
    }
    if bytes.get(start) == Some(&b'<') {
        return Ok(Encoding::Page);
    }
    match bytes[0] {
        0x80 | b'(' | b'}' | b']' | b'c' => Ok(Encoding::Pickle),
        _ => Err(unknown(bytes)),
    }
}

/// Formats that people pass by mistake.
fn other_format(bytes: &[u8]) -> Option<ReadError> {
    let head = &bytes[..bytes.len().min(512)];
    if head.starts_with(b"PK\x03\x04") {
        return Some(not(
            "a zip archive, which is how `torch.save` writes checkpoints",
            format!("{RECORD}. If it is an archive with a snapshot in it, unpack it first"),
        ));
    }
    if head.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.") {
        return Some(not("a checkpoint written by an old `torch.save`", format!("{RECORD}.")));
    }
    if head.starts_with(b"SQLite format 3\0") {
        return Some(not("an SQLite database (Nsight Systems exports those)", format!("{RECORD}.")));
    }
    if head.starts_with(b"BZh") || head.starts_with(b"\x04\x22\x4d\x18") || head.starts_with(b"7z\xBC\xAF") {
        return Some(not(
            "bzip2, lz4 or 7z data",
            "gzip, zstd and xz are read; decompress anything else first.".to_owned(),
        ));
    }
    if head.starts_with(b"\x93NUMPY") || head.starts_with(b"\x89HDF") || head.starts_with(b"PAR1") {
        return Some(not("an array or table file (NumPy, HDF5 or Parquet)", format!("{RECORD}.")));
    }
    None
}

/// Bytes that are neither a pickle nor JSON.
pub(super) fn unknown(bytes: &[u8]) -> ReadError {
    let head = &bytes[..bytes.len().min(4096)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    let is_text = valid.len() + 4 >= head.len() && !valid.contains(|c: char| c.is_control() && !c.is_whitespace());
    if !is_text {
        return not("binary data of a kind unknown here", format!("{RECORD}."));
    }
    if valid.contains("out of memory") {
        return not(
            "a log with an out-of-memory message",
            "Pass the snapshot itself; the message can be given beside it.".to_owned(),
        );
    }
    if valid.trim_start().starts_with("version https://git-lfs") {
        return not("a Git LFS pointer", "Run `git lfs pull` to get the file it stands for.".to_owned());
    }
    if valid.trim_start().starts_with('<') {
        return not(
            "HTML or XML",
            format!("{RECORD}. A page of the memory viewer is read too, but there is no snapshot in this one"),
        );
    }
    let line: String = valid.lines().next().unwrap_or_default().chars().take(60).collect();
    not(&format!("text that begins with `{line}`"), format!("{RECORD}."))
}

/// A refusal that says what `looks_like` and what to do.
pub(super) fn not(looks_like: &str, hint: String) -> ReadError {
    ReadError::NotASnapshot { looks_like: looks_like.to_owned(), hint }
}

/// As [`not`], with the advice how a snapshot is made.
pub(crate) fn not_a_snapshot(looks_like: &str) -> ReadError {
    not(looks_like, format!("{RECORD}."))
}
