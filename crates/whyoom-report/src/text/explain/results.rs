//! What came of one remedy, in words.

use std::fmt::Write;

use whyoom_diagnosis::explanation::{FailurePoint, Remedy, RemedyOutcome};

use super::reading::{Reading, is_limit_asked, spare};
use crate::{
    number::plural,
    text::words::{View, in_words},
};

/// The price in time: calls to the driver; what did not happen is left out.
pub(super) fn driver_calls(remedy: &Remedy) -> String {
    let mut allocations = plural(remedy.driver_allocations, "driver allocation", "driver allocations");
    if remedy.maps > 0 {
        let _ = write!(allocations, " ({})", plural(remedy.maps, "map", "maps"));
    }
    let mut frees = plural(remedy.driver_frees, "free", "frees");
    if remedy.unmaps > 0 {
        let _ = write!(frees, " ({})", plural(remedy.unmaps, "unmap", "unmaps"));
    }
    let mut parts = vec![allocations, frees];
    for (n, one, many) in
        [(remedy.retries, "retry", "retries"), (remedy.synchronisations, "synchronisation", "synchronisations")]
    {
        if n > 0 {
            parts.push(plural(n, one, many));
        }
    }
    parts.join(", ")
}

/// The result, with its peak and what it leaves under the limit.
pub(super) fn result(view: &View<'_>, remedy: &Remedy, reading: Reading) -> String {
    let device = view.device;
    match reading {
        Reading::Unverified => "not verified".into(),
        Reading::Passes => format!("passes{}", peak_and_spare(view, remedy)),
        Reading::Gamble => format!("a gamble{}", peak_and_spare(view, remedy)),
        Reading::Delays => format!("a delay{}", peak_and_spare(view, remedy)),
        Reading::Open => {
            let range = peak(view, remedy).unwrap_or_default();
            format!("reserves {range}: more or less than the {} recorded", view.bytes(device.peak.reserved_bytes))
        }
        Reading::Depends => {
            let from = remedy.passes_from_limit_bytes.map(|b| view.bytes(b)).unwrap_or_default();
            let is_low = device.limit.low_bytes.is_some_and(|low| view.bytes(low) == from);
            if is_low {
                format!("passes if the limit is a little above {from}")
            } else {
                format!("passes if the limit is {from} or more")
            }
        }
        Reading::Same => "changes nothing".into(),
        Reading::Lowers => {
            let less = device.peak.reserved_bytes - remedy.peak_reserved_bytes.unwrap_or(device.peak.reserved_bytes);
            format!("reserves {}, {} less", peak(view, remedy).unwrap_or_default(), view.bytes(less))
        }
        Reading::Fails => failure(view, remedy),
    }
}

fn failure(view: &View<'_>, remedy: &Remedy) -> String {
    let device = view.device;
    // That it fails at the same request is not the better known for where else it may fail.
    let ties = remedy.tie_sensitive && (view.options.verbose || remedy.outcome != RemedyOutcome::NoChange);
    let worse = match (remedy.outcome == RemedyOutcome::Worse, ties) {
        (true, true) => ": worse (placement decides)",
        (true, false) => ": worse",
        (false, true) => " (placement decides)",
        (false, false) => "",
    };
    match (&remedy.first_failure, &device.oom) {
        // Where the program caught earlier failures, the first of them is what a remedy is measured by.
        (Some(_), Some(oom)) if oom.oom_count > 1 => match remedy.outcome {
            RemedyOutcome::NoChange => "fails where the run first failed".into(),
            RemedyOutcome::Worse => format!("fails before the run first failed{worse}"),
            _ => format!("fails after the run first failed{worse}"),
        },
        (Some(point), Some(oom)) => {
            let at = FailurePoint { event: oom.event, malloc: oom.malloc, step: oom.step };
            let when = when(point, &at);
            format!("fails {when}{worse}")
        }
        (Some(point), None) if is_limit_asked(device) => {
            if let Some(w) = &device.would_fail {
                let at = FailurePoint { event: w.event, malloc: w.malloc, step: w.step };
                return format!("fails {}{worse}", when(point, &at));
            }
            let same = if remedy.outcome == RemedyOutcome::NoChange { "fails at the same request" } else { "fails" };
            same.to_owned() + if ties { " (placement decides)" } else { "" }
        }
        (Some(_), None) => format!("fails, where the recorded run did not{worse}"),
        (None, _) if remedy.outcome == RemedyOutcome::NoChange => "changes nothing".into(),
        (None, _) => {
            let recorded = device.peak.reserved_bytes;
            match remedy.peak_reserved_bytes {
                Some(p) if p > recorded => {
                    // Without a limit nothing says that the card has as much.
                    let is_open = device.limit.high_bytes.is_none() && p / 2 > recorded;
                    let condition = if is_open { ", if the card has it" } else { "" };
                    format!(
                        "reserves {}, {} more{condition}{worse}",
                        peak(view, remedy).unwrap_or_default(),
                        view.bytes(p - recorded)
                    )
                }
                _ => format!("fails{worse}"),
            }
        }
    }
}

/// When a replay fails, seen from where the recording failed.
fn when(point: &FailurePoint, recorded: &FailurePoint) -> String {
    if point.malloc == recorded.malloc {
        return "at the same request".into();
    }
    let is_earlier = point.malloc < recorded.malloc;
    let side = if is_earlier { "earlier" } else { "later" };
    match (point.step, recorded.step) {
        (Some(a), Some(b)) if a != b => format!("{} {side}", in_words(a.abs_diff(b), "step", "steps")),
        (Some(_), Some(_)) => format!("{side} in the same step"),
        _ => format!("{} {side}", in_words(point.malloc.abs_diff(recorded.malloc), "request", "requests")),
    }
}

/// The peak, as a range where the placement decides it.
fn peak(view: &View<'_>, remedy: &Remedy) -> Option<String> {
    match (remedy.peak_reserved_range, remedy.peak_reserved_bytes) {
        (Some((low, high)), _) => Some(view.options.numbers.bytes_range(low, high)),
        (None, peak) => peak.map(|p| view.bytes(p)),
    }
}

fn peak_and_spare(view: &View<'_>, remedy: &Remedy) -> String {
    let mut text = peak(view, remedy).map(|p| format!(", peak {p}")).unwrap_or_default();
    if let Some(limit) = remedy.passes_under_bytes {
        return format!("{text}, and under {} too", view.bytes(limit));
    }
    match (spare(view.device, remedy), remedy.peak_reserved_range, view.device.limit.low_bytes) {
        (_, Some((_, high)), Some(limit)) if high > limit => text.push_str(", not in every placement tried"),
        // Without room in some placement only; the note says in how many.
        (Some(0), _, Some(limit)) if remedy.peak_reserved_bytes.is_some_and(|p| p < limit) => {}
        (Some(0), _, _) => text.push_str(", nothing to spare"),
        (Some(spare), _, _) => {
            text.push_str(", ");
            text.push_str(&view.bytes(spare));
            text.push_str(" to spare");
        }
        (None, _, _) => {}
    }
    text
}
