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
        // The traceback that was pasted may have the line itself.
        culprit.source = line_of(culprit, roots).or_else(|| culprit.source.take());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, line: u32, root: &Path) -> Option<String> {
        line_of(&Culprit { file: file.to_owned(), line, ..Culprit::default() }, &[root.to_owned()])
    }

    #[test]
    fn only_python_files_are_opened_and_lines_that_are_there_told() {
        let root = std::env::temp_dir().join(format!("whyoom-{}-lines", std::process::id()));
        fs::create_dir_all(root.join("pkg")).expect("a folder");
        fs::write(root.join("pkg/net.py"), b"first\n  # caf\xe9\n\n").expect("a file");
        fs::write(root.join("pkg/secret.txt"), "first\n").expect("a file");
        fs::write(root.join("wide.py"), "x".repeat(1000)).expect("a file");
        assert_eq!(line("/a/pkg/net.py", 1, &root).as_deref(), Some("first"));
        assert_eq!(line("C:\\me\\pkg\\net.py", 1, &root).as_deref(), Some("first"));
        assert_eq!(line("/a/pkg/net.py", 2, &root).as_deref(), Some("# caf\u{fffd}"), "a stray byte");
        for missing in [0, 3, 4, u32::MAX] {
            assert_eq!(line("/a/pkg/net.py", missing, &root), None, "line {missing}");
        }
        assert_eq!(line("/a/pkg/secret.txt", 1, &root), None);
        assert_eq!(line("/a/pkg", 1, &root), None);
        assert_eq!(line("../../pkg/net.py", 1, &root).as_deref(), Some("first"), "it cannot leave the folder");
        assert_eq!(line("/a/wide.py", 1, &root).map(|l| l.len()), Some(MOST_CHARS));
        fs::remove_dir_all(root).expect("the folder goes");
    }

    #[test]
    fn paths_of_other_machines_are_not_opened() {
        // As on Windows; here two slashes are one, and the file would be found.
        let file = std::env::temp_dir().join(format!("whyoom-{}-share.py", std::process::id()));
        fs::write(&file, "first\n").expect("a file");
        let none = Path::new("/nonexistent");
        let path = file.to_str().expect("a name in UTF-8").to_owned();
        assert_eq!(line(&path, 1, none).as_deref(), Some("first"));
        assert_eq!(line(&format!("/{path}"), 1, none), None);
        fs::remove_file(file).expect("the file goes");
    }
}
