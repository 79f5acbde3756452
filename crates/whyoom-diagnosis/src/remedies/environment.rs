//! Environment remedies: a larger card, or a higher cap.
//!
//! # What it tries
//! The limit that was asked about, all else as it was. The smallest limit under which the recorded settings pass, found by bisection, where the limit of the recording
//! is too small. Freeing what other processes hold comes to the same.
//!
//! # Basis
//! Exact replay at that limit. Where larger limits fail again, the note says so.

use super::Proposal;
use crate::case::Case;
use crate::explanation::{Remedy, RemedyOutcome};
use crate::words;
use whyoom_replay::FitsFrom;

/// The grain of limits that are tried (`kSmallBuffer`, all releases).
const PAGE: u64 = 2 << 20;

/// The recorded program and settings under a limit that was asked about and was not that of the recording.
pub(super) fn propose(case: &Case<'_>) -> Option<Proposal> {
    let asked = case.limit.low.filter(|_| case.limit.source == "argument")?;
    if case.in_effect.source == "argument" && case.failing.is_some() {
        return None;
    }
    Some(Proposal {
        id: "environment/unchanged".to_owned(),
        kind: "environment",
        apply: format!("nothing else than a limit of {}", words::bytes(asked)),
        settings: case.in_force.settings.clone(),
        program: None,
        basis: "exact_replay",
        note: None,
    })
}

/// The remedy that `fits` of the recorded settings comes to.
pub(super) fn remedy(case: &Case<'_>, fits: &FitsFrom) -> Option<Remedy> {
    // Up to a page above what the limit can have been says no more than that it was too small.
    let high = case.limit.high.filter(|high| fits.bytes > high.saturating_add(PAGE))?;
    let gap = (fits.reliable_bytes > fits.bytes).then(|| {
        format!("larger limits fail again; all that were tried from {} pass", words::bytes(fits.reliable_bytes))
    });
    let more = format!("{} more than the limit can have been", words::bytes(fits.bytes - high));
    Some(Remedy {
        id: "environment/limit".to_owned(),
        kind: "environment",
        apply: format!("a limit of {}", words::bytes(fits.bytes)),
        outcome: RemedyOutcome::Passes,
        scope: if case.failing.is_some() { "failing_request" } else { "whole_run" },
        basis: "exact_replay",
        peak_reserved_bytes: Some(fits.peak_reserved),
        peak_reserved_range: None,
        tie_sensitive: false,
        headroom_bytes: None,
        passes_from_limit_bytes: Some(fits.bytes),
        passes_under_bytes: None,
        first_failure: None,
        retries: fits.stats.retries,
        driver_allocations: fits.stats.driver_allocations,
        driver_frees: fits.stats.driver_frees,
        maps: fits.stats.maps,
        unmaps: fits.stats.unmaps,
        synchronisations: fits.stats.synchronisations,
        note: Some(gap.map_or_else(|| more.clone(), |gap| format!("{more}; {gap}"))),
    })
}
