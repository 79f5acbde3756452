//! What each release makes of a settings string: `whyoom.settings/1` of the JSON contract, field for field.
//!
//! The grammar itself is `whyoom_allocator::settings`; here releases are asked one by one, and what follows from their
//! answers is said: what is refused or ignored, what it does, what it fights with, and the line to write instead.

mod findings;
mod meaning;
mod mend;
mod pasted;
pub(crate) mod releases;
mod version;

use serde::Serialize;
use whyoom_allocator::Release;
use whyoom_allocator::settings::parse;

pub use findings::SettingsFinding;
pub use meaning::KeyMeaning;
pub use pasted::{Form, Pasted, VARIABLES, find};
pub use version::VersionCheck;

/// Everything `whyoom settings` says.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsCheck {
    /// Always `whyoom.settings/1`.
    pub schema: &'static str,
    /// The first string; its fields stand beside `schema`.
    #[serde(flatten)]
    pub first: CheckedString,
    /// The other strings of the text, each with the same fields.
    pub others: Vec<CheckedString>,
}

impl SettingsCheck {
    /// All strings, in their order.
    pub fn strings(&self) -> impl Iterator<Item = &CheckedString> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Whether every release asked accepts every string, reads its variable, and ignores no part of it.
    pub fn is_whole(&self) -> bool {
        self.strings().flat_map(|s| &s.versions).all(VersionCheck::is_whole)
    }
}

/// One settings string.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedString {
    /// The value, as PyTorch gets it.
    pub string: String,
    /// The variable that it is given to; `null` where none is named.
    pub variable: Option<&'static str>,
    /// How it was written.
    pub form: Form,
    /// Its line in the text, from 1 on.
    pub line: u64,
    /// The answer of each release, the oldest first.
    pub versions: Vec<VersionCheck>,
    /// What follows, the most serious first.
    pub findings: Vec<SettingsFinding>,
    /// The keys in it, and what each does in the newest release that accepts it.
    pub keys: Vec<KeyMeaning>,
    /// What to write instead; `null` where it can stay, or nothing like it exists.
    pub corrected: Option<Corrected>,
}

/// A string to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Corrected {
    /// The value.
    pub string: String,
    /// The line to paste, in the form that it was found in.
    pub line: String,
    /// The releases asked that accept it, in words; the newest first to last.
    pub accepted_by: String,
}

/// Asks each of `asked` (none: every release that is modelled) about `pasted`; an empty list is the empty string.
///
/// # Example
/// ```
/// use whyoom_diagnosis::settings_check::{Pasted, check};
///
/// let answer = check(&[Pasted::value("max_split_size_mb:20")], &[]);
/// let torch = |version| answer.first.versions.iter().find(|v| v.torch == version).map(|v| v.accepted);
/// assert_eq!((torch("2.9"), torch("2.10")), (Some(false), Some(true)));
/// assert_eq!(answer.first.corrected.map(|c| c.string).as_deref(), Some("max_split_size_mb:21"));
/// ```
pub fn check(pasted: &[Pasted], asked: &[Release]) -> SettingsCheck {
    let asked = if asked.is_empty() { releases::modelled() } else { releases::in_order(asked) };
    let mut all: Vec<CheckedString> = pasted.iter().map(|one| checked(one, &asked, pasted)).collect();
    if all.is_empty() {
        all.push(checked(&Pasted::value(""), &asked, pasted));
    }
    let first = all.remove(0);
    SettingsCheck { schema: "whyoom.settings/1", first, others: all }
}

fn checked(pasted: &Pasted, asked: &[Release], all: &[Pasted]) -> CheckedString {
    let ask = if findings::is_shadowed(pasted, all) { version::ask_in_vain } else { version::ask };
    let versions: Vec<VersionCheck> = asked.iter().map(|r| ask(&pasted.value, pasted.variable, *r)).collect();
    let newest = asked.iter().rev().find_map(|r| Some((*r, parse(&pasted.value, *r).ok()?)));
    let corrected = mend::correct(pasted, asked);
    let findings = findings::find(pasted, asked, newest.as_ref(), all);
    CheckedString {
        string: pasted.value.clone(),
        variable: pasted.variable,
        form: pasted.form,
        line: pasted.line,
        versions,
        findings,
        keys: newest.map(|(_, parsed)| meaning::of(&parsed)).unwrap_or_default(),
        corrected,
    }
}
