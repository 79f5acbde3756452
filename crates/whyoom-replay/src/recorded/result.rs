//! What a finished replay says.

use super::run::Run;
use super::{Divergence, FinalState, Recorded};
use crate::counterfactual::Program;
use crate::limit::{LimitInterval, LimitSource};
use crate::trace::{Implausible, Trace};
use std::sync::Arc;
use whyoom_allocator::{PlacedState, Stats};
use whyoom_snapshot::BlockState;

impl Run<'_> {
    pub(super) fn finish(mut self) -> Recorded {
        self.out.matched += self.driver.matched;
        let stats = *self.allocator.stats();
        self.out.segments_at_end = stats.segments.current;
        self.out.stats = stats;
        self.out.limit = self.limit();
        if self.trace.device.has_segments {
            self.out.final_state = Some(self.compare_final_state());
        }
        self.out.program.note_landmarks();
        self.out.program.note_requests();
        self.out
    }

    fn limit(&self) -> LimitInterval {
        let mut limit = self.driver.limit;
        for f in &self.out.failures {
            limit.source = if f.device_free >= f.segment_bytes { LimitSource::Fraction } else { LimitSource::Card };
            if limit.source == LimitSource::Card {
                let capacity = f.reserved.saturating_add(f.device_free);
                limit.high = Some(limit.high.map_or(capacity, |h| h.min(capacity)));
            }
        }
        // What was reserved was allowed: behind a divergence refusals are read into what was none.
        let is_exact = self.out.first_divergence.is_none() && self.out.matched == self.out.events;
        if !is_exact && limit.high.is_some_and(|high| high < self.trace.peak_reserved) {
            limit = LimitInterval::new();
            limit.low = self.trace.peak_reserved;
        }
        limit
    }

    fn compare_final_state(&self) -> FinalState {
        let simulated = self.allocator.layout();
        let mut recorded: Vec<_> = self.trace.device.blocks.iter().collect();
        recorded.sort_unstable_by_key(|b| b.address);
        let (mut i, mut j, mut differing) = (0, 0, 0);
        while i < simulated.len() || j < recorded.len() {
            match (simulated.get(i), recorded.get(j)) {
                (Some(s), Some(r)) if s.address == r.address => {
                    let state = match r.state {
                        BlockState::Allocated => PlacedState::Allocated,
                        BlockState::PendingFree => PlacedState::Pending,
                        BlockState::Free => PlacedState::Free,
                    };
                    differing += u64::from(s.size != r.size || s.state != state);
                    i += 1;
                    j += 1;
                }
                (Some(s), Some(r)) => {
                    differing += 1;
                    if s.address < r.address {
                        i += 1;
                    } else {
                        j += 1;
                    }
                }
                _ => {
                    differing += 1;
                    i += 1;
                    j += 1;
                }
            }
        }
        FinalState { differing_blocks: differing }
    }
}

/// The result for a trace with sizes or addresses that no device has.
pub(super) fn not_replayed(trace: &Trace<'_>, wrong: &Implausible) -> Recorded {
    let last = trace.device.events.len().saturating_sub(1);
    Recorded {
        events: trace.device.events.len() as u64,
        matched: 0,
        first_divergence: Some(Divergence {
            event: wrong.event.unwrap_or(last),
            recorded: wrong.to_string(),
            simulated: "nothing: such a trace is not replayed".to_owned(),
            likely_reason: "the file is damaged or was edited".to_owned(),
        }),
        final_state: None,
        stats: Stats::default(),
        segments_at_end: 0,
        peak_event: 0,
        limit: LimitInterval::new(),
        failures: Vec::new(),
        retry_events: Vec::new(),
        block_size: vec![0; trace.allocations.len()],
        pool_of: Vec::new(),
        program: Program { streams: Arc::clone(&trace.snapshot.streams), ..Program::default() },
        started_empty: false,
        rebuild_conflicts: 0,
    }
}
