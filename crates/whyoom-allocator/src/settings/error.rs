//! Why a string is refused: what, where, why, and what to write instead.

use super::keys::{KEYS, Key, Target};
use super::tokens::Token;
use crate::Release;

/// A settings string that the release refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at character {}: {why}; {next}", .position + 1)]
pub struct SettingsError {
    /// The kind, for programs.
    pub kind: SettingsErrorKind,
    /// What is wrong, with the words of the string.
    pub what: String,
    /// Characters before it in the string.
    pub position: usize,
    /// Why the release refuses it.
    pub why: String,
    /// What to write instead.
    pub next: String,
}

/// Kinds of [`SettingsError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsErrorKind {
    /// No key of this release.
    UnknownKey,
    /// The string ends where a value belongs.
    MissingValue,
    /// `:` or `,` belongs here.
    WrongSeparator,
    /// A list without its `]`.
    UnclosedList,
    /// The parser reads past the end of its tokens here: most builds crash.
    Undefined,
    /// Not a number.
    NotANumber,
    /// A number that the parser's type cannot hold.
    NumberOverflow,
    /// A number outside of the key's range.
    OutOfRange,
    /// Not a power of two.
    NotPowerOfTwo,
    /// Neither `True` nor `False`.
    NotBoolean,
    /// Neither `native` nor `cudaMallocAsync`.
    UnknownBackend,
    /// The backend read here is not the one that was chosen when the library was loaded.
    BackendMismatch,
}

impl SettingsError {
    pub(super) fn new(
        kind: SettingsErrorKind,
        position: usize,
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { kind, what: what.into(), position, why: why.into(), next: next.into() }
    }

    /// A key that `release` does not know, with the likeliest mend.
    pub(super) fn unknown_key(token: &Token, release: Release) -> Self {
        let shown = shown(&token.text);
        Self::new(
            SettingsErrorKind::UnknownKey,
            token.at,
            format!("unknown key `{shown}`"),
            format!("PyTorch {release} stops at a key that it does not know"),
            mend(&token.text, release),
        )
    }

    /// The string ends after `key`, or after its colon.
    pub(super) fn missing_value(key: &Token, end: usize) -> Self {
        Self::new(
            SettingsErrorKind::MissingValue,
            end,
            format!("`{}` has no value", shown(&key.text)),
            "the string ends where the value belongs",
            format!("write `{}:VALUE`", shown(&key.text)),
        )
    }
}

/// At most 40 characters of `text`, control characters escaped: an error stays one line.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

/// What to write instead of the unknown key `text`.
fn mend(text: &str, release: Release) -> String {
    if let Some(key) = Key::named(text) {
        return format!("`{key}` is known to PyTorch {}: leave it out here", key.availability());
    }
    if matches!(text, "," | ":" | "[" | "]") {
        return "remove the extra separator: items are `key:value`, one comma between two".to_owned();
    }
    let bare = text.trim_matches(['"', '\'']);
    if bare != text {
        return "remove the quotes: a shell needs them, the value must not contain them".to_owned();
    }
    if let Some((before, after)) = text.split_once('=') {
        return if before.ends_with("_CONF") || before.starts_with("export") {
            format!("give the value only, from `{}` on", shown(after))
        } else {
            format!("use a colon, not an equals sign: `{}:{}`", shown(before), shown(after))
        };
    }
    if text.contains(';') {
        return "separate items by commas, not semicolons".to_owned();
    }
    match nearest_key(text, release) {
        Some(key) if key.name.eq_ignore_ascii_case(text) => format!("keys are lower-case: write `{key}`"),
        Some(key) if key.is_known(release) => format!("did you mean `{key}`?"),
        Some(key) => format!("the nearest key, `{key}`, is known to PyTorch {} only", key.availability()),
        None => {
            let known = |key: &&Key| key.target == Target::Device && key.is_known(release);
            let names: Vec<_> = KEYS.iter().filter(known).map(|key| key.name).collect();
            format!("its keys are {}", names.join(", "))
        }
    }
}

/// The key nearest to `text` by edit distance, if near enough to be a slip; a key of this release wins a draw.
pub fn nearest_key(text: &str, release: Release) -> Option<&'static Key> {
    let lower = text.to_ascii_lowercase();
    // Longer than any key with slips: not worth the quadratic comparison.
    if lower.len() > 64 {
        return None;
    }
    KEYS.iter()
        .map(|key| (distance(lower.as_bytes(), key.name.as_bytes()), !key.is_known(release), key))
        .filter(|(distance, _, key)| *distance <= (key.name.len() / 4).max(2))
        .min_by_key(|(distance, unknown, _)| (*distance, *unknown))
        .map(|(_, _, key)| key)
}

/// Levenshtein distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mends_name_the_slip() {
        let release = Release::new(2, 11);
        assert_eq!(mend("max_split_size", release), "did you mean `max_split_size_mb`?");
        assert_eq!(mend("Expandable_Segments", release), "keys are lower-case: write `expandable_segments`");
        assert_eq!(
            mend("expandable_segments=True", release),
            "use a colon, not an equals sign: `expandable_segments:True`"
        );
        assert_eq!(
            mend("exportPYTORCH_CUDA_ALLOC_CONF=expandable_segments", release),
            "give the value only, from `expandable_segments` on"
        );
        assert!(mend("\"max_split_size_mb", release).starts_with("remove the quotes"));
        assert_eq!(
            mend("throw_on_cudamalloc_oom", release),
            "`throw_on_cudamalloc_oom` is known to PyTorch 2.12 and later: leave it out here"
        );
        assert!(mend("frobnicate", release).starts_with("its keys are backend, "));
    }
}
