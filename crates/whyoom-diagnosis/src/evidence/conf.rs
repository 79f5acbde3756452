//! Allocator settings found in the text: each is asked of every release.

use whyoom_allocator::settings::{KEYS, SettingsErrorKind, parse};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{message, next, offers};
use crate::causes::in_number;
use crate::explanation::{Cause, Confidence, Finding};
use crate::settings_check::releases::modelled;
use crate::settings_check::{self, CheckedString, Pasted};
use crate::words;

pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let pasted = pasted(about);
    if pasted.is_empty() {
        return Answer::default();
    }
    let checked = settings_check::check(&pasted, &[]);
    let mut answer = Answer { settings: Some(checked.first.string.clone()), ..Answer::default() };
    // Where an allocator fails with figures, the program has started: what is refused would have ended it before.
    let has_run = message::has_failed(subject);
    let several = pasted.len() > 1;
    let mut all = Vec::new();
    let mut accepted = Vec::new();
    for one in checked.strings() {
        match of_string(one, has_run, several) {
            Some(finding) => all.push(finding),
            None => accepted.push(format!("`{}` is accepted as it stands.", one.string.trim())),
        }
        if let Some(corrected) = &one.corrected {
            answer.remedies.push(offers::settings_line(&corrected.line));
        }
    }
    // Two strings of one text can differ; what is said of each stands in one finding.
    if let Some(mut first) = all.first().cloned() {
        for other in all.iter().skip(1) {
            first.summary = format!("{} {}", first.summary, other.summary);
            first.evidence.extend(other.evidence.iter().cloned());
            first.confidence = first.confidence.max(other.confidence);
        }
        if !accepted.is_empty() && several {
            first.summary = format!("{} {}", first.summary, accepted.join(" "));
        }
        answer.findings.push(first);
    } else if !has_run && !about.has_program {
        let summary = format!(
            "\"{}\" is accepted by every release that is modelled, and each part of it has its effect. Whether it helps a run, \
             a recording of the run can tell.",
            checked.first.string
        );
        answer.findings.push(finding(Cause::Healthy, Confidence::Weak, summary, 0, Vec::new()));
    }
    answer.collect = (!has_run).then(|| next::settings(&checked.first.string));
    answer
}

/// Whether a text is a settings string and nothing else.
pub(super) fn is_one(text: &super::TextInput) -> bool {
    let alone = |short: &str| Pasted::alone(short).is_some_and(|one| is_settings(&one.value));
    text.short.as_deref().is_some_and(|short| !settings_check::find(short).is_empty() || alone(short))
}

/// Strings behind the variables' names, or the one that stands alone.
fn pasted(about: &About<'_>) -> Vec<Pasted> {
    let mut found = Vec::new();
    for (_, text) in &about.bare {
        let assigned = settings_check::find(text);
        if !assigned.is_empty() {
            found.extend(assigned);
        } else if let Some(value) = Pasted::alone(text).filter(|one| is_settings(&one.value)) {
            found.push(value);
        }
    }
    if found.is_empty() {
        for (_, line) in &about.settings {
            let assigned = settings_check::find(&format!("{}={}", line.variable, quoted(line)));
            found.extend(assigned);
        }
    }
    found.truncate(16);
    found
}

fn quoted(line: &whyoom_text::messages::SettingsLine) -> String {
    // A shell takes the quotes away, and a text does not tell whether one read the line.
    line.value.clone()
}

/// Whether a line alone is meant as a settings string: a key that exists, or one that is nearly so.
fn is_settings(value: &str) -> bool {
    // Items are `key:value`, parted by commas; words between them are prose.
    let is_item = |item: &str| {
        let key = item.split([':', '=']).next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
        let rest = item.get(key.len()..).unwrap_or_default();
        !key.contains(char::is_whitespace) && rest.split_whitespace().count() <= 2
    };
    let items = value.split(',').filter(|item| !item.contains(['[', ']', '>']) && !item.trim().is_empty());
    value.len() <= 2000
        && value.contains([':', '='])
        && items.take(64).all(is_item)
        && KEYS.iter().any(|key| value.to_ascii_lowercase().contains(&key.name.to_ascii_lowercase()))
}

/// Whether what is said of a string is only a remark: how the line is written, a default that is repeated, a key that
/// older releases did not have yet.
fn is_remark(one: &CheckedString, code: &str) -> bool {
    match code {
        "platform" | "sharing" | "rocm_only" | "equals_default" | "deprecation_warning" => true,
        "refused" => is_refused_for_age_only(&one.string),
        _ => false,
    }
}

fn is_refused_for_age_only(string: &str) -> bool {
    let all: Vec<_> = modelled().into_iter().map(|release| parse(string, release)).collect();
    all.last().is_some_and(Result::is_ok)
        && all.iter().filter_map(|parsed| parsed.as_ref().err()).all(|e| e.kind == SettingsErrorKind::UnknownKey)
}

/// Codes of what makes a string wrong, as far as it is not only a remark.
fn weight(code: &str) -> u8 {
    match code {
        "refused" | "not_read" => 0,
        "incompatible" | "no_effect" => 1,
        _ => 2,
    }
}

fn of_string(one: &CheckedString, has_run: bool, several: bool) -> Option<Finding> {
    let refused: Vec<&str> = one.versions.iter().filter(|v| !v.accepted).map(|v| v.torch.as_str()).collect();
    let faults = || one.findings.iter().filter(|f| !is_remark(one, &f.code));
    let worst = faults().min_by_key(|f| weight(&f.code))?;
    if has_run && weight(&worst.code) == 0 && refused.len() < one.versions.len() {
        return None;
    }
    let name = if several { format!("`{}`: ", one.string.trim().trim_matches(['"', '\''])) } else { String::new() };
    let mut said: Vec<String> = faults()
        .take(3)
        .map(|f| {
            let releases = f.torch.as_ref().map_or(String::new(), |t| format!(" (torch {t})"));
            let fix = f.fix.as_ref().filter(|fix| !f.message.contains(fix.as_str()));
            let fix = fix.map_or(String::new(), |fix| format!(": {fix}"));
            format!("{}{releases}{fix}", f.message.trim_end_matches('.'))
        })
        .collect();
    let more = faults().count().saturating_sub(3);
    if more > 0 {
        said.push(format!("And {more} more: whyoom settings says all"));
    }
    let accepted = one.versions.len() - refused.len();
    let evidence = vec![in_number(
        format!(
            "{accepted} of {} accept \"{}\"",
            words::plural(one.versions.len() as u64, "release", "releases"),
            one.string.trim()
        ),
        accepted as u64,
        "count",
        &[],
    )];
    // The parser of each release was asked: nothing in that is a guess.
    let confidence = if weight(&worst.code) == 0 { Confidence::Proven } else { Confidence::Strong };
    let summary = format!("{name}{}.", said.join(". "));
    Some(finding(Cause::Settings, confidence, words::capital(&summary), 0, evidence))
}
