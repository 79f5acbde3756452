//! What the program asked for, free of addresses and settings: the input of every counterfactual.

use std::sync::Arc;
use whyoom_allocator::Region;

/// One step of the program as the allocator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Request allocation `n`.
    Malloc(u32),
    /// Drop allocation `n`; no other stream uses it.
    Free(u32),
    /// Drop allocation `n` while other streams use it.
    Drop(u32),
    /// Other streams are done with allocation `n`.
    Complete(u32),
    /// A request that failed when recorded: index into [`Program::failed`]. Its lifetime is not known.
    Failed(u32),
    /// `empty_cache()`.
    EmptyCache,
    /// Private pool `n` is no longer used by anybody.
    PoolFreeable(u16),
    /// Private pool `n` gives back its free memory (its `MemPool` object ended).
    ReleasePool(u16),
}

/// Size, stream and pool of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramRequest {
    /// Unrounded bytes (rounded for a failed one).
    pub bytes: u64,
    /// Index of the stream.
    pub stream: u16,
    /// 0 = default pool, otherwise the private pool of that number.
    pub pool: u16,
}

/// The recorded program of one device.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Steps in recorded order.
    pub ops: Vec<Op>,
    /// Event of each step.
    pub op_event: Vec<u32>,
    /// Request per allocation.
    pub requests: Vec<ProgramRequest>,
    /// Requests that failed when recorded.
    pub failed: Vec<ProgramRequest>,
    /// Event of each request of the recording, ascending; edits leave it as it is, so that a request keeps its ordinal.
    pub request_events: Vec<u32>,
    /// Allocations older than the trace, by address.
    pub initial: Vec<u32>,
    /// The layout at the start of a trace without beginning, for [`crate::Start::Warm`].
    pub initial_regions: Vec<Region>,
    /// Raw stream pointers.
    pub streams: Arc<[u64]>,
    /// Requests made before the first free; `None` without a free.
    pub requests_before_first_free: Option<u64>,
    /// Ordinal of the first request of exactly 32 MiB, PyTorch's cuBLAS workspace on Hopper.
    pub first_workspace_request: Option<u64>,
    /// Number of private pools.
    pub private_pools: u16,
    /// Whether some blocks wait for other streams.
    pub has_pending: bool,
}

impl Program {
    /// PyTorch's default cuBLAS workspace on compute capability 9 (`getChosenWorkspaceSize`, `CUDABlas.cpp`).
    const CUBLAS_WORKSPACE: u64 = 32 << 20;

    pub(crate) fn push(&mut self, op: Op, event: usize) {
        self.ops.push(op);
        self.op_event.push(event as u32);
    }

    /// Ordinal in the recording of the request of `event`; `ordinal` where the program has no recording.
    pub(crate) fn recorded_ordinal(&self, event: u32, ordinal: u64) -> u64 {
        if self.request_events.is_empty() {
            return ordinal;
        }
        self.request_events.partition_point(|&e| e < event) as u64
    }

    /// Notes where the requests of the recording are.
    pub(crate) fn note_requests(&mut self) {
        let steps = self.ops.iter().zip(&self.op_event);
        let requests = steps.filter(|(op, _)| matches!(op, Op::Malloc(_) | Op::Failed(_)));
        self.request_events = requests.map(|(_, event)| *event).collect();
    }

    /// Fills the facts that the driver's address habit depends on.
    pub(crate) fn note_landmarks(&mut self) {
        self.has_pending = self.ops.iter().any(|op| matches!(op, Op::Drop(_)));
        (self.requests_before_first_free, self.first_workspace_request) = (None, None);
        let mut ordinal = 0;
        for op in &self.ops {
            match *op {
                Op::Malloc(id) => {
                    if self.requests[id as usize].bytes == Self::CUBLAS_WORKSPACE {
                        self.first_workspace_request.get_or_insert(ordinal);
                    }
                    ordinal += 1;
                }
                Op::Failed(_) => ordinal += 1,
                Op::Free(_) | Op::Drop(_) => {
                    self.requests_before_first_free.get_or_insert(ordinal);
                }
                Op::Complete(_) | Op::EmptyCache | Op::PoolFreeable(_) | Op::ReleasePool(_) => {}
            }
            if self.first_workspace_request.is_some() && self.requests_before_first_free.is_some() {
                break;
            }
        }
    }

    /// The program with every block completing at once, as if no other stream had used it.
    #[must_use]
    pub fn with_early_completions(&self) -> Self {
        let mut new = self.clone();
        for op in &mut new.ops {
            if let Op::Drop(id) = *op {
                *op = Op::Free(id);
            }
        }
        new
    }

    /// The program with every pending block completing after twice the recorded number of requests.
    #[must_use]
    pub fn with_late_completions(&self) -> Self {
        let mut new = self.clone();
        new.ops.clear();
        new.op_event.clear();
        let mut dropped_at = std::collections::HashMap::new();
        let mut due: std::collections::BTreeMap<(u64, u32), u32> = std::collections::BTreeMap::new();
        let mut ordinal = 0u64;
        for (&op, &event) in self.ops.iter().zip(&self.op_event) {
            match op {
                Op::Malloc(_) | Op::Failed(_) => {
                    while let Some(first) = due.first_entry().filter(|e| e.key().0 <= ordinal) {
                        let ((_, id), _) = first.remove_entry();
                        new.push(Op::Complete(id), event as usize);
                    }
                    ordinal += 1;
                    new.push(op, event as usize);
                }
                Op::Drop(id) => {
                    dropped_at.insert(id, ordinal);
                    new.push(op, event as usize);
                }
                Op::Complete(id) => {
                    let distance = dropped_at.get(&id).map_or(0, |at| ordinal - at);
                    due.insert((ordinal + distance, id), event);
                }
                _ => new.push(op, event as usize),
            }
        }
        for ((_, id), event) in due {
            new.push(Op::Complete(id), event as usize);
        }
        new
    }
}
