//! Writes the generated files under `docs/`, or with `--check` fails if one differs.
// A chore talks to whoever runs it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod accuracy;
mod cli;
mod pages;
mod readme;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// Files by path under the root of the checkout.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Folders that hold nothing but generated files: a file too many in them is a difference.
const WHOLE_FOLDERS: &[&str] = &["docs/man", "docs/completions", "docs/causes"];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("generate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => false,
        ["--check"] => true,
        _ => bail!("usage: cargo xtask generate [--check]"),
    };
    let root = root()?;
    let files = generated(&root)?;
    let differences = differences(&root, &files)?;
    if check {
        for path in &differences {
            println!("{} is not what would be generated: run `cargo xtask generate`", path.display());
        }
        if differences.is_empty() {
            println!("{} generated files are up to date", files.len());
        }
        return Ok(differences.is_empty());
    }
    for path in &differences {
        let full = root.join(path);
        if let Some(content) = files.get(path) {
            fs::create_dir_all(full.parent().context("a file in a folder")?)?;
            fs::write(&full, content)?;
            println!("wrote {}", path.display());
        } else {
            fs::remove_file(&full)?;
            println!("removed {}", path.display());
        }
    }
    println!("{} generated files, {} changed", files.len(), differences.len());
    Ok(true)
}

/// The root of the checkout.
fn root() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?)
}

/// Every generated file, as it should be.
fn generated(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    cli::add(&mut files)?;
    pages::add(root, &mut files)?;
    settings::add(&mut files);
    accuracy::add(root, &mut files)?;
    readme::add(root, &mut files)?;
    Ok(files)
}

/// Files that are missing, different, or too many.
fn differences(root: &Path, files: &Files) -> Result<Vec<PathBuf>> {
    let differs = |(path, content): &(&PathBuf, &Vec<u8>)| fs::read(root.join(path)).ok().as_ref() != Some(*content);
    let mut found: Vec<PathBuf> = files.iter().filter(differs).map(|(path, _)| path.clone()).collect();
    for folder in WHOLE_FOLDERS {
        let Ok(entries) = fs::read_dir(root.join(folder)) else { continue };
        for entry in entries {
            let path = Path::new(folder).join(entry?.file_name());
            if !files.contains_key(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() -> Result<()> {
        let root = root()?;
        let stale = differences(&root, &generated(&root)?)?;
        assert!(stale.is_empty(), "run `cargo xtask generate`: {stale:?}");
        Ok(())
    }
}
