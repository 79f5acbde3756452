//! One page per cause, from the comment at the head of its file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Files;
use crate::readme::session;

/// An included recording whose verdict is the cause.
const EXAMPLES: [(&str, &str); 6] = [
    ("capacity", "lm_fixed.cap4.pickle.xz"),
    ("fragmentation", "frag.cap1.default.pickle.xz"),
    ("healthy", "unet_clean.b4.pickle.xz"),
    ("leak", "ema_copies.cap.oom.pickle.xz"),
    ("pending_free", "streams_record.exp.pickle.xz"),
    ("spike", "various.vae_outlier.oom.pickle.xz"),
];

const CAUSES: &str = "crates/whyoom-diagnosis/src/causes";

/// Adds them, and an index.
pub(crate) fn add(root: &Path, files: &mut Files) -> Result<()> {
    let mut index = String::from(
        "# Causes\n\nThese pages are generated from the program. `whyoom` names one of these causes, and lists the others that hold.\n\n",
    );
    let folder = root.join(CAUSES);
    let mut names: Vec<String> = fs::read_dir(&folder)
        .with_context(|| format!("{CAUSES} cannot be listed"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .filter(|name| name != "mod")
        .collect();
    names.sort();
    for name in names {
        let source = fs::read_to_string(folder.join(format!("{name}.rs")))?;
        // Files of helpers have no sections, and so no page.
        let Some((summary, mut page)) = page(&name, &source) else { continue };
        if let Some((_, file)) = EXAMPLES.iter().find(|(cause, _)| *cause == name) {
            let session = session(root, file)?;
            let _ = write!(page, "\n## An example\n\n```\n$ whyoom {file}\n{}\n```\n", session.trim_end());
        }
        let _ = writeln!(index, "- [`{name}`]({name}.md): {summary}");
        files.insert(format!("docs/causes/{name}.md").into(), page.into_bytes());
    }
    files.insert("docs/causes/README.md".into(), index.into_bytes());
    Ok(())
}

/// The summary and the page of the comment `//! NAME: summary.` with its sections.
fn page(name: &str, source: &str) -> Option<(String, String)> {
    let comment =
        source.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.strip_prefix(' ').unwrap_or(line));
    let text = comment.collect::<Vec<_>>().join("\n");
    let (head, sections) = text.split_once("\n# ")?;
    let summary = head.trim().trim_start_matches(&format!("`{name}`")).trim_start_matches(':').trim();
    let sections = format!("# {sections}").lines().map(section).collect::<Vec<_>>().join("\n");
    Some((summary.to_owned(), format!("# `{name}`\n\n{}\n\n{}\n", capitalised(summary), sections.trim_end())))
}

/// Headings one level down, with the blank line that Markdown wants behind them.
fn section(line: &str) -> String {
    if line.starts_with('#') { format!("#{line}\n") } else { line.to_owned() }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_becomes_a_page() {
        let source = "//! `leak`: memory that accumulates.\n//!\n//! # What it finds\n//! Growth.\n\nuse std::fmt;\n";
        let (summary, page) = page("leak", source).unwrap_or_default();
        assert_eq!(summary, "memory that accumulates.");
        assert_eq!(page, "# `leak`\n\nMemory that accumulates.\n\n## What it finds\n\nGrowth.\n");
    }

    #[test]
    fn a_file_without_sections_has_no_page() {
        assert_eq!(page("shared", "//! Helpers.\n\nuse std::fmt;\n"), None);
    }
}
