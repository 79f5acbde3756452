//! The driver as the recording shows it: every answer is the recorded one, every call is compared.

use crate::limit::LimitInterval;
use whyoom_allocator::Driver;
use whyoom_snapshot::{Action, Events};

/// A call of the model that the recording does not have at this place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) event: usize,
    pub(crate) simulated: String,
}

pub(crate) struct RecordedDriver<'a> {
    events: &'a Events,
    /// Next recorded event of this call, and the event that ends it.
    pub(crate) cursor: usize,
    pub(crate) end: usize,
    pub(crate) matched: u64,
    pub(crate) mismatch: Option<Mismatch>,
    pub(crate) limit: LimitInterval,
    /// Collection ran at totals from here on, and did not at totals up to here.
    collected_from: u64,
    not_collected_to: u64,
    reservation_length: u64,
}

impl<'a> RecordedDriver<'a> {
    pub(crate) fn new(events: &'a Events, reservation_length: u64) -> Self {
        Self {
            events,
            cursor: 0,
            end: 0,
            matched: 0,
            mismatch: None,
            limit: LimitInterval::new(),
            collected_from: u64::MAX,
            not_collected_to: 0,
            reservation_length,
        }
    }

    /// Starts a call whose driver events are `from..end`.
    pub(crate) fn begin(&mut self, from: usize, end: usize) {
        self.cursor = from;
        self.end = end;
        self.mismatch = None;
    }

    fn next(&self) -> Option<(Action, u64, u64)> {
        (self.cursor < self.end)
            .then(|| (self.events.action[self.cursor], self.events.addr[self.cursor], self.events.size[self.cursor]))
    }

    fn expect(&mut self, action: Action, address: Option<u64>, bytes: u64, what: &str) -> Option<u64> {
        match self.next() {
            Some((a, addr, size)) if a == action && size == bytes && address.is_none_or(|w| w == addr) => {
                self.cursor += 1;
                self.matched += u64::from(self.mismatch.is_none());
                Some(addr)
            }
            _ => {
                if self.mismatch.is_none() {
                    let place = address.map(|a| format!(" at {a:#x}")).unwrap_or_default();
                    self.mismatch =
                        Some(Mismatch { event: self.cursor, simulated: format!("{what} of {bytes} bytes{place}") });
                }
                None
            }
        }
    }
}

impl Driver for RecordedDriver<'_> {
    fn allows(&mut self, total: u64, maps: bool) -> bool {
        let allowed = match self.next() {
            Some((Action::SegmentAlloc, ..)) => !maps,
            Some((Action::SegmentMap, ..)) => maps,
            Some(_) => false,
            None => maps && self.events.action.get(self.end) == Some(&Action::Alloc),
        };
        if allowed {
            self.limit.allowed(total);
        } else if self.mismatch.is_none() {
            self.limit.refused(total);
        }
        allowed
    }

    fn must_collect(&mut self, total: u64, _threshold: f64, next: u64) -> bool {
        if total <= self.not_collected_to {
            return false;
        }
        if total >= self.collected_from {
            return true;
        }
        let collects = matches!(self.next(), Some((Action::SegmentFree, addr, _)) if addr == next);
        if collects {
            self.collected_from = total;
        } else {
            self.not_collected_to = total;
        }
        collects
    }

    fn may_collect(&mut self, total: u64, _threshold: f64) -> bool {
        if total <= self.not_collected_to {
            return false;
        }
        let may = total >= self.collected_from || matches!(self.next(), Some((Action::SegmentFree, ..)));
        if !may {
            self.not_collected_to = total;
        }
        may
    }

    fn segment_alloc(&mut self, bytes: u64, _stream: u64) -> Option<u64> {
        self.expect(Action::SegmentAlloc, None, bytes, "cudaMalloc")
    }

    fn segment_free(&mut self, address: u64, bytes: u64) {
        self.expect(Action::SegmentFree, Some(address), bytes, "cudaFree");
    }

    fn reserve(&mut self, _page: u64, _stream: u64) -> (u64, u64) {
        match self.next() {
            Some((Action::SegmentMap, addr, _)) => (addr, self.reservation_length),
            _ => (0, 0),
        }
    }

    fn map(&mut self, address: u64, bytes: u64, _total_after: u64) -> bool {
        if !matches!(self.next(), Some((Action::SegmentMap, ..))) {
            return false;
        }
        self.expect(Action::SegmentMap, Some(address), bytes, "a map").is_some()
    }

    fn unmap(&mut self, address: u64, bytes: u64) {
        self.expect(Action::SegmentUnmap, Some(address), bytes, "an unmap");
    }

    fn synchronise(&mut self) {
        while matches!(self.next(), Some((Action::FreeCompleted, ..))) {
            self.cursor += 1;
            self.matched += 1;
        }
    }
}
