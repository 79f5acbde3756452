//! The text of source lines, where their files can be read on this machine.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use whyoom_diagnosis::explanation::{Culprit, Explanation};

/// Larger files are no source code that anybody wrote.
const MOST_BYTES: u64 = 4 << 20;
/// Characters of a line that are shown.
const MOST_CHARS: usize = 200;

/// Fills in [`Culprit::source`]. A file is looked for where it was recorded, then under each of `roots` by ever shorter
/// ends of its path. Only Python's source files are opened: what names them is the snapshot, which is not trusted.
pub(crate) fn fill(explanation: &mut Explanation, roots: &[PathBuf]) {
    let findings = explanation.devices.iter_mut().flat_map(|d| &mut d.findings);
    for culprit in findings.flat_map(|f| &mut f.culprits) {
        culprit.source = line_of(culprit, roots);
    }
}

fn line_of(culprit: &Culprit, roots: &[PathBuf]) -> Option<String> {
    let recorded = culprit.file.replace('\\', "/");
    // Two slashes name another machine on Windows, which a snapshot must not make this one ask.
    let is_elsewhere = recorded.starts_with("//");
    let recorded = Path::new(&recorded);
    if recorded.extension().is_none_or(|e| e != "py") {
        return None;
    }
    let here = (recorded.is_absolute() && !is_elsewhere).then(|| recorded.to_owned());
    let moved = roots.iter().flat_map(|root| ends(recorded).map(move |end| root.join(end)));
    let text = here.into_iter().chain(moved).find_map(|path| read(&path))?;
    let line = text.lines().nth(culprit.line.checked_sub(1)? as usize)?.trim();
    (!line.is_empty()).then(|| line.chars().take(MOST_CHARS).collect())
}

/// `a/b/c.py`, `b/c.py`, `c.py`.
fn ends(path: &Path) -> impl Iterator<Item = PathBuf> {
    let parts: Vec<Component<'_>> = path.components().filter(|c| matches!(c, Component::Normal(_))).collect();
    let ends: Vec<PathBuf> = (0..parts.len()).map(|from| parts[from..].iter().collect()).collect();
    ends.into_iter()
}

fn read(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= MOST_BYTES).then(|| fs::read(path).ok()).flatten().map(|bytes| {
        // A stray byte in a comment must not lose the line.
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
