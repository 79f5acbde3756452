//! What no setting can change.

use crate::case::Case;
use crate::explanation::BoundReport;
use crate::remedies::{effective, until};
use whyoom_allocator::{Model, Settings};
use whyoom_replay::{FitsFrom, LimitKind, Members, Start, Trial, smallest_limit};

/// Page of small expandable segments, the finest grain in which memory is had (`kSmallBuffer`, all releases).
const PAGE: u64 = 2 << 20;

/// The bound: bytes that any layout needs, and how far they are above the limit.
///
/// `bytes_to_free` is measured against the limit's high end, so that it is certain: no setting helps.
pub(crate) fn of(case: &Case<'_>) -> BoundReport {
    let needed_at_failures = case.recorded.failures.iter().map(|f| f.active.saturating_add(f.request_bytes)).max();
    // Frees that wait for other streams are no need: a request that fails waits for them.
    let needed = case.peak_allocated().max(needed_at_failures.unwrap_or(0));
    let compact = in_pages(needed);
    let decisive = match &case.failing {
        Some(failing) => failing.needed(),
        // Without a failure only a limit that was given can be exceeded.
        None => needed,
    };
    let bytes_to_free = case.limit.high.map_or(0, |high| decisive.saturating_sub(high));
    let fits = &case.tried.fits;
    BoundReport {
        compact_bytes: compact,
        bytes_to_free,
        fits_from_bytes_default: fits.default.map(|f| f.bytes),
        fits_from_bytes_best: fits.best.map(|f| f.bytes),
    }
}

/// `bytes` in whole pages.
pub(crate) fn in_pages(bytes: u64) -> u64 {
    bytes.saturating_add(PAGE - 1) / PAGE * PAGE
}

/// From how many bytes the program passes under `settings`.
pub(crate) fn fits(case: &Case<'_>, model: Model, settings: &Settings, members: Members) -> Option<FitsFrom> {
    let mut fits = smallest_limit(&trial(case, model, settings), members)?;
    // The run itself fitted in what it reserved, wherever its segments lay.
    let is_as_it_ran = *settings == case.in_force.settings && case.is_exact && case.failing.is_none();
    if is_as_it_ran && case.recorded.failures.is_empty() {
        fits.bytes = fits.bytes.min(in_pages(case.peak_reserved()));
    }
    Some(fits)
}

/// The replay of `settings` whose smallest limit is sought. The limit is that of a card,
/// where every page counts; a cap of the same size lets the same pass.
fn trial<'c>(case: &Case<'c>, model: Model, settings: &Settings) -> Trial<'c> {
    Trial {
        program: &case.recorded.program,
        model,
        settings: effective(case, settings),
        limit: None,
        limit_kind: LimitKind::Card,
        // Under a limit an empty allocator is nearest the truth.
        start: Start::Cold,
        until: until(case),
    }
}
