//! `settings`: the allocator settings make this run worse.
//!
//! # What it finds
//! Settings under which the run fails where PyTorch's defaults pass, or reserves several times what the defaults would.
//!
//! # Why it matters
//! Settings are copied from other people's runs. What helped there can kill here, and nobody suspects the cure.
//!
//! # How it decides
//! By replay of the recorded program under the defaults: the failing request passes with room in every placement
//! tried, or the peak reserved is at most half of the recorded one. Strings that PyTorch refuses or ignores are told
//! by the grammar; a file whose string was refused cannot exist, since the process dies of it.
//!
//! # False positives
//! A leak dies under any settings: where one decides, this is silent.
//!
//! # What to do
//! Unset the variable, or take a setting that the replay shows to be better than the defaults.

use super::{finding, in_bytes, leak, request_in_words};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding, Remedy, RemedyOutcome};
use crate::words;

/// So many times the default's peak is "worse".
const SEVERAL: u64 = 2;

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    // From an empty allocator a program without its beginning passes under almost anything.
    if !case.is_exact || !case.recorded.started_empty || leak::decides(case) {
        return None;
    }
    let default = case.tried.default_settings()?;
    let string = case.in_force.string.as_deref().filter(|s| !s.is_empty()).unwrap_or("the settings in force");
    if case.failing.is_some() { at_failure(case, default, string) } else { without_failure(case, default, string) }
}

fn at_failure(case: &Case<'_>, default: &Remedy, string: &str) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    let room = default.headroom_bytes.filter(|&h| h > 0 && default.outcome == RemedyOutcome::Passes)?;
    let peak = default.peak_reserved_bytes?;
    let summary = format!(
        "{}. {string} makes this run worse: under PyTorch's defaults the same requests pass this one, with a peak of {} reserved \
         and {} to spare.",
        request_in_words(case, failing),
        words::bytes(peak),
        words::bytes(room)
    );
    let event = failing.state.event as u32;
    let evidence = vec![in_bytes(format!("the defaults pass with {} to spare", words::bytes(room)), room, &[event])];
    let bytes = failing.state.request_bytes;
    Some(Finding { evidence, ..finding(Cause::Settings, confidence(default), summary, bytes) })
}

fn without_failure(case: &Case<'_>, default: &Remedy, string: &str) -> Option<Finding> {
    let (worst, recorded) = (default.peak_reserved_range?.1, case.peak_reserved());
    if default.first_failure.is_some() || recorded < worst.saturating_mul(SEVERAL) {
        return None;
    }
    let summary = format!(
        "{string} makes this run reserve {}, {} times the {} that PyTorch's defaults would have reserved for the same requests.",
        words::bytes(recorded),
        words::ratio(recorded as f64 / worst.max(1) as f64),
        words::bytes(worst)
    );
    let evidence = vec![
        in_bytes(format!("{} were reserved", words::bytes(recorded)), recorded, &[]),
        in_bytes(format!("the defaults reserve {}", words::bytes(worst)), worst, &[]),
    ];
    Some(Finding { evidence, ..finding(Cause::Settings, confidence(default), summary, recorded - worst) })
}

fn confidence(default: &Remedy) -> Confidence {
    if default.tie_sensitive { Confidence::Strong } else { Confidence::Proven }
}

/// Why it is not the settings, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    let default = case.tried.default_settings().filter(|_| case.is_exact)?;
    match (&case.failing, default.outcome) {
        (Some(_), RemedyOutcome::Worse) => Some("the defaults fail earlier".to_owned()),
        (Some(_), RemedyOutcome::Fails | RemedyOutcome::NoChange) => Some("the defaults fail too".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording};

    #[test]
    fn a_setting_that_multiplies_what_is_reserved_is_named() {
        // Blocks above 20 MiB serve only requests of nearly their size, so every size gets a segment of its own.
        let mut r = Recording::with_settings(None, "max_split_size_mb:20");
        for i in 0..8u64 {
            let x = r.alloc("10", (200 - 24 * i) * MIB);
            r.free("11", x);
        }
        let report = r.explain();
        let first = &report.findings[0];
        assert_eq!((first.cause, first.confidence), (Cause::Settings, Confidence::Proven), "{first:?}");
        assert!(first.summary.starts_with("max_split_size_mb:20"));
    }
}
