//! What no setting can change.

use crate::case::Case;
use crate::explanation::BoundReport;

/// Page of small expandable segments, the finest grain in which memory is had (`kSmallBuffer`, all releases).
const PAGE: u64 = 2 << 20;

/// The bound: bytes that any layout needs, and how far they are above the limit.
///
/// `bytes_to_free` is measured against the limit's high end, so that it is certain: no setting helps.
pub(crate) fn of(case: &Case<'_>) -> BoundReport {
    let needed_at_failures = case.recorded.failures.iter().map(|f| f.active.saturating_add(f.request_bytes)).max();
    let needed = case.peak_active().max(needed_at_failures.unwrap_or(0));
    let compact = needed.saturating_add(PAGE - 1) / PAGE * PAGE;
    let decisive = match &case.failing {
        Some(failing) => failing.needed(),
        // Without a failure only a limit that was given can be exceeded.
        None => needed,
    };
    let bytes_to_free = case.limit.high.map_or(0, |high| decisive.saturating_sub(high));
    BoundReport { compact_bytes: compact, bytes_to_free, fits_from_bytes_default: None, fits_from_bytes_best: None }
}
