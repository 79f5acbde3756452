//! The sessions in `README.md`: each block that begins with `$ whyoom …` is followed by what the command prints.
//!
//! The words around them are written by hand; files are those of `fixtures/recordings` and `fixtures/evidence`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::Files;

const PAGE: &str = "README.md";
const PROMPT: &str = "$ whyoom ";

/// Adds it.
pub(crate) fn add(root: &Path, files: &mut Files) -> Result<()> {
    let text = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut page = String::new();
    let mut lines = text.lines();
    let mut is_in_block = false;
    while let Some(line) = lines.next() {
        page.push_str(line);
        page.push('\n');
        if line.starts_with("```") {
            is_in_block = !is_in_block;
        }
        let Some(command) = line.strip_prefix(PROMPT).filter(|_| is_in_block) else { continue };
        page.push_str(session(root, command)?.trim_end());
        page.push('\n');
        // What was there goes up to the end of the block.
        if !lines.by_ref().any(|line| line == "```") {
            bail!("{PAGE}: the block of `{line}` does not end");
        }
        page.push_str("```\n");
        is_in_block = false;
    }
    files.insert(PAGE.into(), page.into_bytes());
    Ok(())
}

/// What `whyoom` prints for `command`, whose words are parted by blanks.
pub(crate) fn session(root: &Path, command: &str) -> Result<String> {
    let places = ["fixtures/recordings", "fixtures/evidence"].map(|place| root.join(place));
    let words = command.split_whitespace().map(|word| {
        let file = places.iter().map(|place| place.join(word)).find(|file| file.is_file());
        file.map_or_else(|| word.into(), std::path::PathBuf::into_os_string)
    });
    let arguments = std::iter::once("whyoom".into()).chain(words);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = whyoom::run(arguments, &mut whyoom::Streams::captured(&[], &mut out, &mut err));
    if exit != whyoom::Exit::Fine {
        bail!("`{PROMPT}{command}`: {}", String::from_utf8_lossy(&err));
    }
    Ok(String::from_utf8(out)?)
}
