//! Words for a divergence.

use super::run::Run;
use crate::trace::Trace;
use whyoom_snapshot::Action;

impl Run<'_> {
    /// The likely reason of a divergence at `event`, in a sentence, from what the recording leaves open.
    pub(super) fn likely_reason(&self, event: usize) -> String {
        let trace = self.trace;
        let action = trace.device.events.action.get(event);
        let is_release = matches!(action, Some(Action::SegmentFree | Action::SegmentUnmap));
        let text = if matches!(action, Some(Action::Alloc)) && self.lies_in_no_segment(event) {
            "allocations lie in no segment that the file knows: it was edited, or segments of the trace's end are missing"
        } else if self.out.rebuild_conflicts > 0 {
            "events are missing from the trace, or the file was written while other threads allocated"
        } else if !self.out.started_empty
            && self.options.settings.garbage_collection_threshold > 0.0
            && (is_release || self.next_is_release(event))
        {
            "the trace has no beginning, and garbage collection goes by ages of blocks from before it"
        } else if !self.out.started_empty && self.has_private_pools() {
            "the trace has no beginning, and the private pools that held memory in it are gone from the file"
        } else if trace.snapshot.settings.is_none() {
            "the file does not name the allocator settings in force, and the defaults were assumed"
        } else if self.has_mixed_segments() {
            "expandable_segments was switched while the program ran"
        } else if self.has_private_pools() {
            "the request belongs to a CUDA-graph or user pool that the file does not name"
        } else if !trace.has_completions || !trace.has_requests_to_free {
            "one kind of free event was not recorded (skip_actions)"
        } else if !self.out.started_empty {
            "the trace has no beginning, and the slack of a block from before it is not recorded"
        } else if matches!(action, Some(Action::SegmentAlloc | Action::SegmentMap)) {
            "other settings or another PyTorch release than assumed (see --settings and --torch), or a pool of its own"
        } else {
            "another PyTorch release or build than assumed (see --torch), settings changed at run time, or a pool the file does not name"
        };
        text.to_owned()
    }

    fn lies_in_no_segment(&self, event: usize) -> bool {
        let device = self.trace.device;
        let addr = device.events.addr[event];
        let holds = |start: u64, size: u64| addr >= start && addr - start < size;
        let is_made = (0..event).rev().any(|i| {
            matches!(device.events.action[i], Action::SegmentAlloc | Action::SegmentMap)
                && holds(device.events.addr[i], device.events.size[i])
        });
        !is_made && !device.segments.iter().any(|s| holds(s.address, s.total_size))
    }

    fn next_is_release(&self, event: usize) -> bool {
        let actions = &self.trace.device.events.action;
        actions.get(event + 1).is_some_and(|a| matches!(a, Action::SegmentFree | Action::SegmentUnmap))
            || matches!(actions.get(event), Some(Action::SegmentAlloc))
    }

    fn has_private_pools(&self) -> bool {
        self.out.program.private_pools > 0
            || self.trace.device.segments.iter().any(|s| s.pool.index().is_some_and(|i| i > 0))
    }

    fn has_mixed_segments(&self) -> bool {
        let actions = &self.trace.device.events.action;
        actions.contains(&Action::SegmentAlloc) && actions.contains(&Action::SegmentMap)
    }
}

/// What the trace says at `event`.
pub(super) fn describe(trace: &Trace<'_>, event: usize) -> String {
    let events = &trace.device.events;
    let Some(action) = events.action.get(event) else { return "the end of the trace".to_owned() };
    let (addr, size) = (events.addr[event], events.size[event]);
    match action {
        Action::Alloc => format!("{size} bytes placed at {addr:#x}"),
        Action::FreeRequested => format!("free of {size} bytes at {addr:#x}"),
        Action::FreeCompleted => format!("completed free of {size} bytes at {addr:#x}"),
        Action::SegmentAlloc => format!("cudaMalloc of {size} bytes at {addr:#x}"),
        Action::SegmentFree => format!("cudaFree of {size} bytes at {addr:#x}"),
        Action::SegmentMap => format!("a map of {size} bytes at {addr:#x}"),
        Action::SegmentUnmap => format!("an unmap of {size} bytes at {addr:#x}"),
        Action::Oom => format!("out of memory for {size} bytes"),
        Action::Snapshot | Action::Annotate | Action::Other => "no change of state".to_owned(),
    }
}
