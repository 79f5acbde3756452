//! Everything known of one device when its causes are judged.

use crate::LimitChoice;
use crate::in_force::InForce;
use crate::limit::Limit;
use crate::remedies::Tried;
use crate::tables::growth::{self, Growth};
use crate::tables::kinds::Kinds;
use crate::tables::ledger::{Ledger, Level};
use std::sync::OnceLock;
use whyoom_replay::{Failure, Recorded};

/// All sizes of segments and pages are multiples of this (`kSmallBuffer` and `kRoundLarge`, all releases).
const GRAIN: u64 = 2 << 20;

/// The failing request that the verdict is about: the last `oom` of the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failing {
    /// State at the event.
    pub(crate) state: Failure,
    /// Step it happened in.
    pub(crate) step: Option<u64>,
    /// `oom` entries in the trace.
    pub(crate) count: u64,
    /// The program, or a library that it calls, caught it and asked for memory again.
    pub(crate) went_on: bool,
}

impl Failing {
    /// Bytes that a compact layout would need for this request.
    pub(crate) fn needed(&self) -> u64 {
        self.state.active.saturating_add(self.state.request_bytes)
    }

    /// As [`Self::needed`], in whole segments, which is how memory is had.
    pub(crate) fn needed_in_segments(&self) -> u64 {
        self.needed().div_ceil(GRAIN).saturating_mul(GRAIN)
    }
}

/// The request that would have failed, by replay, under a limit that was given to a run that did not fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WouldFail {
    /// The limit given.
    pub(crate) limit: u64,
    /// The recorded request.
    pub(crate) event: u32,
    pub(crate) malloc: u64,
    /// Rounded request.
    pub(crate) request_bytes: u64,
    /// Allocated or pending in the replay.
    pub(crate) live: u64,
    /// Reserved in the replay.
    pub(crate) reserved: u64,
}

impl WouldFail {
    /// Bytes that a compact layout would need for this request.
    pub(crate) fn needed(&self) -> u64 {
        self.live.saturating_add(self.request_bytes)
    }
}

/// The evidence of one device.
pub(crate) struct Case<'a> {
    pub(crate) ledger: Ledger<'a>,
    pub(crate) recorded: &'a Recorded,
    pub(crate) in_force: &'a InForce,
    /// The limit that remedies are tried under: the one given, else the inferred one.
    pub(crate) limit: Limit,
    /// The limit that was in effect when the recording was made: the one given where the recording allows it.
    pub(crate) in_effect: Limit,
    /// The model reproduces the recording.
    pub(crate) is_exact: bool,
    /// The file is cut within the trace: how it went on is lost.
    pub(crate) is_cut: bool,
    pub(crate) failing: Option<Failing>,
    /// Where it would fail, if it did not but a limit was given.
    pub(crate) would_fail: Option<WouldFail>,
    /// What accumulated, if anything.
    pub(crate) growth: Option<Growth>,
    kinds: OnceLock<Kinds>,
    /// What was tried. Empty until the remedies have run.
    pub(crate) tried: Tried,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        ledger: Ledger<'a>,
        recorded: &'a Recorded,
        in_force: &'a InForce,
        given: Option<LimitChoice>,
        is_exact: bool,
    ) -> Self {
        let failing = recorded.failures.last().map(|&state| {
            let event = state.event as u32;
            Failing {
                state,
                step: ledger.steps.of(event),
                count: recorded.failures.len() as u64,
                went_on: ledger.trace.asks_after(event),
            }
        });
        let growth = match &failing {
            Some(f) => growth::find_at_failure(&ledger, f.state.event as u32),
            None => Self::growth_without_failure(&ledger),
        };
        let mut inferred = recorded.limit;
        // What is reserved at some time was allowed, whether or not the trace shows how it was obtained.
        inferred.low = inferred.low.max(ledger.trace.peak_reserved);
        let (limit, in_effect) = (Limit::new(Some(inferred), given), Limit::in_effect(inferred, given));
        Self {
            ledger,
            recorded,
            in_force,
            limit,
            in_effect,
            is_exact,
            is_cut: false,
            failing,
            would_fail: None,
            growth,
            kinds: OnceLock::new(),
            tried: Tried::default(),
        }
    }

    /// What each allocation is; told when it is first asked for.
    pub(crate) fn kinds(&self) -> &Kinds {
        self.kinds.get_or_init(|| Kinds::new(&self.ledger))
    }

    /// At the last request of the program (what follows is its end, where lists go out of scope), or at the end of
    /// its last step if more had accumulated by then.
    fn growth_without_failure(ledger: &Ledger<'_>) -> Option<Growth> {
        let last = ledger.last_alloc?;
        let at_last = growth::find(ledger, last);
        let boundary = ledger.levels.iter().rev().find(|l| l.start < last && l.start > 0).map(|l| l.start);
        let at_boundary = boundary.and_then(|event| growth::find(ledger, event));
        [at_last, at_boundary].into_iter().flatten().max_by_key(|g| g.bytes)
    }

    /// Highest bytes that were allocated or pending.
    pub(crate) fn peak_active(&self) -> u64 {
        if self.is_exact { self.recorded.stats.active.peak } else { self.ledger.peak_live }
    }

    /// Highest bytes that were allocated: frees that wait are waited for before a request fails.
    pub(crate) fn peak_allocated(&self) -> u64 {
        if self.is_exact { self.recorded.stats.allocated.peak } else { self.ledger.peak_live }
    }

    /// Highest reserved bytes.
    pub(crate) fn peak_reserved(&self) -> u64 {
        if self.is_exact { self.recorded.stats.reserved.peak } else { self.ledger.trace.peak_reserved }
    }

    /// Completed steps before `event`, the first of them (warm-up) left out.
    pub(crate) fn typical_levels(&self, event: u32) -> Vec<Level> {
        let completed = self.ledger.levels.iter().filter(|l| l.is_complete && l.start <= event);
        let in_progress = self.ledger.level_at(event).map(|l| l.step);
        completed.filter(|l| Some(l.step) != in_progress && l.step > 0).copied().collect()
    }
}
