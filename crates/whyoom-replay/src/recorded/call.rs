//! One call of the program: completions, what the allocator did with the driver, and the request.

use super::Failure;
use super::run::Run;
use crate::counterfactual::{Op, ProgramRequest};
use whyoom_allocator::Request;
use whyoom_snapshot::{Action, StackId};

impl Run<'_> {
    /// A run of completions and driver events, and the request that ends it, if one does.
    pub(super) fn call(&mut self, from: usize) -> usize {
        let events = &self.trace.device.events;
        let mut end = from;
        let (mut completions, mut drives, mut releases) = (0, false, false);
        while let Some(action) = events.action.get(end) {
            match action {
                Action::FreeCompleted => completions += usize::from(!drives),
                Action::SegmentFree | Action::SegmentUnmap => (drives, releases) = (true, true),
                Action::SegmentAlloc | Action::SegmentMap => drives = true,
                _ => break,
            }
            end += 1;
        }
        if self.out.program.private_pools > 0 {
            self.note_freeable(from, end);
        }
        if matches!(events.action.get(end), Some(Action::Alloc | Action::Oom)) {
            self.request(from, end, completions, releases);
            return end + 1;
        }
        self.release_only(from, end, completions);
        end
    }

    /// A private pool becomes freeable, as far as the trace tells, at the first release that names its memory.
    fn note_freeable(&mut self, from: usize, end: usize) {
        for i in from..end {
            if matches!(self.trace.device.events.action[i], Action::SegmentFree | Action::SegmentUnmap) {
                let pool = self.allocator.private_pool_at(self.trace.device.events.addr[i]).unwrap_or(0);
                if pool != 0 && !std::mem::replace(&mut self.freeable[pool as usize], true) {
                    self.allocator.make_pool_freeable(pool);
                    self.out.program.push(Op::PoolFreeable(pool), from);
                }
            }
        }
    }

    fn complete(&mut self, i: usize) {
        let id = self.trace.allocation_of[i];
        match self.block_of.get(id as usize).copied().flatten() {
            Some(block) => {
                self.block_of[id as usize] = None;
                if self.trace.has_requests_to_free {
                    self.allocator.complete(block);
                    self.out.program.push(Op::Complete(id), i);
                } else {
                    self.allocator.free(block);
                    self.out.program.push(Op::Free(id), i);
                }
                self.out.matched += 1;
            }
            None => self.diverge(i, "nothing of the kind is pending in the model".to_owned(), i + 1),
        }
    }

    /// Completions and driver calls without a request: the end of a capture, or `empty_cache()`.
    fn release_only(&mut self, from: usize, end: usize, completions: usize) {
        for i in from..from + completions {
            self.complete(i);
        }
        let mut at = from + completions;
        while at < end {
            // A full release begins with the default pool; the end of a user pool gives back that pool alone.
            at = match self.allocator.private_pool_at(self.trace.device.events.addr[at]) {
                Some(pool) if pool != 0 => self.release_private_pool(at, end, pool),
                _ => {
                    self.empty_cache(at, end, true);
                    return;
                }
            };
        }
    }

    fn release_private_pool(&mut self, from: usize, end: usize, pool: u16) -> usize {
        self.out.program.push(Op::ReleasePool(pool), from);
        self.driver.begin(from, end);
        self.allocator.release_private_pool(&mut self.driver, pool);
        let cursor = self.driver.cursor;
        if let Some(m) = self.driver.mismatch.take() {
            self.diverge(m.event, m.simulated, end);
            return end;
        }
        if cursor == from {
            self.diverge(from, "no such release".to_owned(), end);
            return end;
        }
        cursor
    }

    /// Returns how far the recorded events were consumed.
    fn empty_cache(&mut self, from: usize, end: usize, is_all: bool) -> usize {
        self.out.program.push(Op::EmptyCache, from);
        self.driver.begin(from, end);
        self.allocator.empty_cache(&mut self.driver);
        self.forget_synchronised(from);
        let cursor = self.driver.cursor;
        let mismatch = self.driver.mismatch.take();
        if let Some(m) = mismatch {
            self.diverge(m.event, m.simulated, end);
        } else if is_all && cursor < end {
            self.diverge(cursor, "no further release".to_owned(), end);
        }
        cursor
    }

    fn forget_synchronised(&mut self, event: usize) {
        if self.allocator.has_synchronised() {
            for tag in self.allocator.take_synchronised() {
                self.block_of[tag as usize] = None;
                self.out.program.push(Op::Complete(tag), event);
            }
        }
    }

    fn request(&mut self, from: usize, end: usize, completions: usize, releases: bool) {
        let events = &self.trace.device.events;
        let id = self.trace.allocation_of[end];
        let is_failure = events.action[end] == Action::Oom;
        let request = Request {
            bytes: events.size[end],
            stream: events.stream[end].0,
            pool: self.out.pool_of.get(id as usize).copied().unwrap_or(0),
            tag: id,
        };
        let drives = from + completions < end;
        let polled = if completions > 0 { self.poll(from, completions, drives || is_failure, &request) } else { from };
        let mut at = polled;
        if releases && self.is_empty_cache(at, end, &request) {
            at = self.empty_cache(at, end, false);
            if self.driver.mismatch.is_some() {
                return;
            }
        }
        self.driver.begin(at, end);
        let retries = self.allocator.stats().retries;
        let placed = self.allocator.malloc(&mut self.driver, request);
        if self.allocator.stats().retries != retries {
            self.out.retry_events.push(end as u32);
        }
        self.forget_synchronised(at);
        self.requests_seen += 1;
        let op = if is_failure {
            let bytes = self.unrounded(request.bytes);
            self.out.program.failed.push(ProgramRequest { bytes, stream: request.stream, pool: request.pool });
            Op::Failed((self.out.program.failed.len() - 1) as u32)
        } else {
            Op::Malloc(id)
        };
        self.out.program.push(op, end);
        let simulated = match (&placed, self.driver.mismatch.take()) {
            (_, Some(m)) => Some((m.event, m.simulated)),
            _ if self.driver.cursor < end => Some((self.driver.cursor, "no such call to the driver".to_owned())),
            (Ok(block), None) => {
                let address = self.allocator.block(*block).address;
                (is_failure || address != events.addr[end])
                    .then(|| (end, format!("{} bytes placed at {address:#x}", request.bytes)))
            }
            (Err(oom), None) => (!is_failure || oom.size != request.bytes)
                .then(|| (end, format!("out of memory for {} bytes", oom.size))),
        };
        if let Ok(block) = placed
            && !is_failure
        {
            self.block_of[id as usize] = Some(block);
            if self.rounds_coarsely {
                self.rounds.insert(self.allocator.sizes().round(request.bytes), request.bytes);
            }
            self.out.block_size[id as usize] = self.allocator.block(block).size;
        }
        match simulated {
            None => self.out.matched += 1,
            Some((event, text)) => self.diverge(event, text, end + 1),
        }
        if is_failure {
            self.note_failure(end, &request);
        }
        let stats = self.allocator.stats();
        if stats.allocated.peak > self.out.stats.allocated.peak {
            self.out.stats.allocated.peak = stats.allocated.peak;
            self.out.peak_event = end as u32;
        }
    }

    /// A failed request is recorded as rounded. Where power-of-two rounding is on, other settings would round it
    /// otherwise: the last request of the same rounded size tells what was probably asked for.
    fn unrounded(&self, rounded: u64) -> u64 {
        self.rounds.get(&rounded).copied().unwrap_or(rounded)
    }

    /// Applies the completions seen before the search. Those that belong to the synchronisation of a retry come
    /// after it: the search must have failed, since the driver was asked. Returns where the rest begins.
    fn poll(&mut self, from: usize, completions: usize, search_failed: bool, request: &Request) -> usize {
        if !search_failed {
            for i in from..from + completions {
                self.complete(i);
            }
            return from + completions;
        }
        let mut fits = self.allocator.would_fit(request);
        for i in from..from + completions {
            let id = self.trace.allocation_of[i];
            let Some(block) = self.block_of[id as usize] else { return i };
            if !self.trace.has_requests_to_free {
                fits = self.allocator.would_fit(request);
            } else if fits || self.allocator.may_serve(block, request) {
                let mut trial = self.allocator.clone();
                trial.complete(block);
                fits = trial.would_fit(request);
            }
            if fits {
                return i;
            }
            self.complete(i);
        }
        from + completions
    }

    /// Whether the releases before a request were an `empty_cache()` and not part of serving it.
    fn is_empty_cache(&mut self, at: usize, end: usize, request: &Request) -> bool {
        if self.allocator.would_fit(request) {
            return true;
        }
        let events = &self.trace.device.events;
        let stack_of_request = events.stack[end];
        let other_stack = (at..end)
            .filter(|&i| matches!(events.action[i], Action::SegmentFree | Action::SegmentUnmap))
            .any(|i| events.stack[i] != stack_of_request && events.stack[i] != StackId::MISSING);
        if other_stack && stack_of_request != StackId::MISSING {
            return true;
        }
        if self.options.settings.garbage_collection_threshold > 0.0 {
            return false;
        }
        // Growth to a total that was reached elsewhere is not refused.
        let size = self.allocator.sizes().round(request.bytes);
        let total = self.allocator.stats().reserved.current + self.allocator.sizes().segment(size);
        events.action[end] == Action::Alloc && total <= self.trace.peak_reserved
    }

    fn note_failure(&mut self, event: usize, request: &Request) {
        let stats = *self.allocator.stats();
        self.out.failures.push(Failure {
            event,
            malloc: self.requests_seen - 1,
            request_bytes: request.bytes,
            segment_bytes: self.allocator.sizes().segment(request.bytes),
            device_free: self.trace.device.events.addr[event],
            reserved: stats.reserved.current,
            allocated: stats.allocated.current,
            active: stats.active.current,
            free: self.allocator.free_space(request),
        });
    }
}
