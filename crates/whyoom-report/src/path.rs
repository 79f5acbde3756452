//! Short names for the files that frames and inputs name.

use std::collections::{BTreeMap, BTreeSet};

/// Shortens paths to the fewest trailing components that tell them apart, at least the basename.
#[derive(Debug, Clone, Default)]
pub struct ShortPaths(BTreeMap<String, String>);

impl ShortPaths {
    /// Learns all the paths that will be shown together.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let all: BTreeSet<&str> = paths.into_iter().collect();
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for &path in &all {
            by_name.entry(tail(path, 1)).or_default().push(path);
        }
        let mut short = BTreeMap::new();
        for group in by_name.values() {
            let longest = group.iter().map(|p| components(p)).max().unwrap_or(1).max(1);
            let enough = (1..=longest)
                .find(|&n| group.iter().map(|p| tail(p, n)).collect::<BTreeSet<_>>().len() == group.len())
                .unwrap_or(longest);
            for path in group {
                short.insert((*path).to_owned(), tail(path, enough).to_owned());
            }
        }
        Self(short)
    }

    /// The short form of `path`; its basename if it was not among those learnt.
    pub fn get<'a>(&'a self, path: &'a str) -> &'a str {
        self.0.get(path).map_or_else(|| tail(path, 1), String::as_str)
    }
}

fn is_separator(c: char) -> bool {
    c == '/' || c == '\\'
}

fn components(path: &str) -> usize {
    path.split(is_separator).filter(|c| !c.is_empty()).count()
}

/// The last `n` components of `path`; all of it if it has fewer, or ends in a separator.
fn tail(path: &str, n: usize) -> &str {
    if path.ends_with(is_separator) {
        return path;
    }
    path.rmatch_indices(is_separator).nth(n - 1).map_or(path, |(at, _)| &path[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_name_is_its_basename() {
        let short = ShortPaths::new(["/workspace/train/scenarios.py", "<string>", "-"]);
        assert_eq!(short.get("/workspace/train/scenarios.py"), "scenarios.py");
        assert_eq!(short.get("<string>"), "<string>");
        assert_eq!(short.get("-"), "-");
        assert_eq!(short.get("C:\\run\\other.py"), "other.py");
    }

    #[test]
    fn ambiguous_names_get_as_many_components_as_they_need() {
        let short = ShortPaths::new(["/a/x/model.py", "/a/y/model.py", "/b/train.py"]);
        assert_eq!(short.get("/a/x/model.py"), "x/model.py");
        assert_eq!(short.get("/a/y/model.py"), "y/model.py");
        assert_eq!(short.get("/b/train.py"), "train.py");
        let short = ShortPaths::new(["/a/x/m.py", "/b/x/m.py", "m.py"]);
        assert_eq!(short.get("/a/x/m.py"), "a/x/m.py");
        assert_eq!(short.get("/b/x/m.py"), "b/x/m.py");
        assert_eq!(short.get("m.py"), "m.py");
    }

    #[test]
    fn odd_paths_survive() {
        let short = ShortPaths::new(["", "/", "//", "dir/"]);
        for path in ["", "/", "//", "dir/"] {
            assert_eq!(short.get(path), path);
        }
    }
}
