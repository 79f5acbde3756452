//! `outside`: memory that this process's allocator does not own is what is missing.
//!
//! # What it finds
//! A card that had room for this allocator once and has less now.
//!
//! # Why it matters
//! Nothing in the program mends it: another process, a context, a library holds the memory.
//!
//! # How it decides
//! A snapshot shows only the driver's free bytes at a failure. Reserved plus free is what the card leaves to this
//! allocator; where it was allowed to reserve more earlier, the difference went to somebody else in between. Who holds
//! it is in the OOM message and in nvidia-smi, which are read with the text inputs.
//!
//! # False positives
//! Memory that was held elsewhere from the start does not show in a snapshot.
//!
//! # What to do
//! See who holds the rest (nvidia-smi), and free that.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;
use whyoom_replay::LimitSource;

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    let failing = case.failing.as_ref()?;
    let limit = &case.recorded.limit;
    let now = failing.state.reserved.saturating_add(failing.state.device_free);
    let gone = limit.low.checked_sub(now).filter(|&g| g > 0)?;
    let would_have_fitted = failing.needed() <= limit.low && failing.needed() > now;
    if limit.source != LimitSource::Card || !would_have_fitted {
        return None;
    }
    let event = failing.state.event as u32;
    let summary = format!(
        "The card left {} to this allocator when the request failed, and {} earlier: {} went to somebody else in between.",
        words::bytes(now),
        words::bytes(limit.low),
        words::bytes(gone)
    );
    let evidence = vec![
        in_bytes(format!("reserved and free bytes of the card were {}", words::bytes(now)), now, &[event]),
        in_bytes(format!("{} were reserved earlier", words::bytes(limit.low)), limit.low, &[]),
    ];
    Some(Finding { evidence, ..finding(Cause::Outside, Confidence::Strong, summary, gone) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, Recording};

    #[test]
    fn a_card_that_shrinks_is_told() {
        let mut r = Recording::new(Some(200 * MIB));
        let x = r.alloc("10", 180 * MIB);
        r.free("11", x);
        // The block is too large to be of use; it is given back, and then somebody else takes the room.
        r.set_limit(100 * MIB);
        r.device_free = 100 * MIB;
        assert!(r.try_alloc("12", 190 * MIB).is_none());
        let report = r.explain();
        // 190 MiB never fitted into the 180 that were once allowed: this is no proof of anybody else.
        assert_ne!(report.findings[0].cause, Cause::Outside);

        let mut r = Recording::new(Some(200 * MIB));
        let kept = r.alloc("9", 60 * MIB);
        let x = r.alloc("10", 120 * MIB);
        r.free("11", x);
        r.set_limit(100 * MIB);
        r.device_free = 40 * MIB;
        assert!(r.try_alloc("12", 119 * MIB).is_some(), "served from the cache");
        let _ = kept;

        let mut r = Recording::new(Some(200 * MIB));
        let kept = r.alloc("9", 60 * MIB);
        for _ in 0..2 {
            let x = r.alloc("10", 60 * MIB);
            let y = r.alloc("10", 60 * MIB);
            r.free_all("11", [x, y]);
        }
        r.set_limit(120 * MIB);
        r.device_free = 40 * MIB;
        assert!(r.try_alloc("12", 110 * MIB).is_none());
        let _ = kept;
        let report = r.explain();
        assert_eq!(report.findings[0].cause, Cause::Outside, "{:?}", report.findings[0]);
    }
}
