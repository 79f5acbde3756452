//! What an OOM message of an allocator says, and the arithmetic on it.

use std::hash::{Hash, Hasher};

use serde::Serialize;

use super::release::Releases;
use super::traceback::Frame;
use crate::Quantity;

/// Whose allocator speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// PyTorch's caching allocator on NVIDIA.
    Cuda,
    /// The same on AMD.
    Hip,
    /// Intel GPUs.
    Xpu,
    /// Apple GPUs.
    Mps,
    /// Ascend.
    Npu,
    /// `backend:cudaMallocAsync`.
    Async,
    /// Another one that prints PyTorch's form.
    Other,
}

/// The setting that the message itself advises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// None, or it was cut off.
    #[default]
    None,
    /// "try setting max_split_size_mb".
    MaxSplitSizeMb,
    /// "try setting …=expandable_segments:True".
    ExpandableSegments,
}

/// Numbers that contradict each other or cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Impossible {
    /// More is allocated than the card has: memory of the host stands in (Windows), or figures of different cards.
    AllocatedOverTotal,
    /// More is free than the card has.
    FreeOverTotal,
    /// Reserved and free together are more than the card has.
    ReservedAndFreeOverTotal,
    /// More is allocated than reserved.
    AllocatedOverReserved,
    /// A process is said to hold 2^64 bytes: the driver does not tell.
    ProcessUnlimited,
    /// A size other than a limit is 2^64 bytes.
    SizeUnlimited,
}

/// A process that the message lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Process {
    /// As the driver counts; in a container the own process may be among them.
    pub pid: u64,
    /// What it holds on the card; `None` where the driver does not tell.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub bytes: Option<Quantity>,
}

/// An OOM message of PyTorch's allocator for a device. Figures are `None` where the text lacks them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OomMessage {
    /// Whose allocator.
    pub backend: Backend,
    /// Device index.
    pub device: Option<u32>,
    /// The rank that a prefix names.
    pub rank: Option<u32>,
    /// "Tried to allocate": what the allocator asked the driver for, not the tensor's size (2 MiB stands for anything
    /// up to 1 MiB, 20 MiB for 1 to 10 MiB). With cudaMallocAsync the true request.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub request_bytes: Option<Quantity>,
    /// The card, or MIG instance.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub total_bytes: Option<Quantity>,
    /// Free by the driver.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub free_bytes: Option<Quantity>,
    /// The limit by `set_per_process_memory_fraction` or the MPS watermark; `None` also where it is unlimited.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub allowed_bytes: Option<Quantity>,
    /// "Including non-PyTorch memory, this process has".
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub process_bytes: Option<Quantity>,
    /// As printed; from 2.4 on it includes [`Self::private_pool_bytes`].
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub allocated_bytes: Option<Quantity>,
    /// "allocated in private pools": free blocks of CUDA graphs' pools, despite the words.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub private_pool_bytes: Option<Quantity>,
    /// Allocated or waiting for a stream (NPU prints it).
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub active_bytes: Option<Quantity>,
    /// Printed up to 2.0; else allocated + unallocated. Releases before 1.4 print what is held and unused ("cached").
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub reserved_bytes: Option<Quantity>,
    /// Held and unused: printed from 2.1 on, else reserved − allocated.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub reserved_unallocated_bytes: Option<Quantity>,
    /// total − free − reserved: contexts, libraries and other processes. `None` if negative. MPS prints its own.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub outside_bytes: Option<Quantity>,
    /// Process − reserved: what this process holds outside PyTorch's allocator.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub own_outside_bytes: Option<Quantity>,
    /// The largest block that the platform gives at once (XPU).
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub block_limit_bytes: Option<Quantity>,
    /// The other processes on the card.
    pub other_processes: Vec<Process>,
    /// Whether what may still be taken (free, or the headroom under a limit) and what is held unused cover the
    /// request: without this no setting helps.
    pub compact_would_fit: Option<bool>,
    /// The row of the table of forms.
    pub form: &'static str,
    /// The releases that print this form.
    pub releases: Releases,
    /// The setting that the text advises.
    pub hint: Hint,
    /// Numbers that contradict each other.
    pub impossible: Vec<Impossible>,
    /// The text ends before the message does.
    pub is_cut: bool,
    /// The type before the message: `torch.cuda.OutOfMemoryError`, `RuntimeError`, a warning that quotes it.
    pub exception: Option<String>,
    /// The deepest frame of the traceback above that is no library's.
    pub user_frame: Option<Frame>,
}

/// `a - b`, if not negative.
fn minus(a: Quantity, b: Quantity) -> Option<Quantity> {
    Some(Quantity { bytes: a.bytes.checked_sub(b.bytes)?, within: a.within.saturating_add(b.within) })
}

fn plus(a: Quantity, b: Quantity) -> Quantity {
    Quantity { bytes: a.bytes.saturating_add(b.bytes), within: a.within.saturating_add(b.within) }
}

/// Whether `a > b` for all values that the roundings leave.
fn surely_over(a: Quantity, b: Quantity) -> bool {
    a.bytes.saturating_sub(a.within) > b.bytes.saturating_add(b.within)
}

impl OomMessage {
    pub(super) fn new(backend: Backend, form: &'static str, releases: Releases) -> Self {
        Self {
            backend,
            device: None,
            rank: None,
            request_bytes: None,
            total_bytes: None,
            free_bytes: None,
            allowed_bytes: None,
            process_bytes: None,
            allocated_bytes: None,
            private_pool_bytes: None,
            active_bytes: None,
            reserved_bytes: None,
            reserved_unallocated_bytes: None,
            outside_bytes: None,
            own_outside_bytes: None,
            block_limit_bytes: None,
            other_processes: Vec::new(),
            compact_would_fit: None,
            form,
            releases,
            hint: Hint::None,
            impossible: Vec::new(),
            is_cut: false,
            exception: None,
            user_frame: None,
        }
    }

    /// Fills what follows from the printed figures.
    pub(super) fn compute(&mut self) {
        if self.allowed_bytes.is_some_and(Quantity::is_unlimited) {
            self.allowed_bytes = None;
        }
        self.find_unlimited();
        let (allocated, unused) = (self.allocated_bytes, self.reserved_unallocated_bytes);
        if self.reserved_bytes.is_none() {
            self.reserved_bytes = allocated.zip(unused).map(|(a, u)| plus(a, u));
        }
        if unused.is_none() {
            self.reserved_unallocated_bytes = self.reserved_bytes.zip(allocated).and_then(|(r, a)| minus(r, a));
        }
        self.find_impossible();
        if let (Some(total), Some(free), Some(reserved)) = (self.total_bytes, self.free_bytes, self.reserved_bytes) {
            self.outside_bytes = self.outside_bytes.or_else(|| minus(minus(total, free)?, reserved));
        }
        self.own_outside_bytes = self.process_bytes.zip(self.reserved_bytes).and_then(|(p, r)| minus(p, r));
        self.compact_would_fit = self
            .request_bytes
            .zip(self.reserved_unallocated_bytes)
            .zip(self.takeable_bytes())
            .map(|((request, unused), takeable)| plus(takeable, unused).bytes >= request.bytes);
    }

    fn find_unlimited(&mut self) {
        for process in &mut self.other_processes {
            if process.bytes.is_some_and(Quantity::is_unlimited) {
                process.bytes = None;
                self.impossible.push(Impossible::ProcessUnlimited);
            }
        }
        if self.process_bytes.is_some_and(Quantity::is_unlimited) {
            self.process_bytes = None;
            self.impossible.push(Impossible::ProcessUnlimited);
        }
        let sizes = [
            &mut self.request_bytes,
            &mut self.total_bytes,
            &mut self.free_bytes,
            &mut self.allocated_bytes,
            &mut self.private_pool_bytes,
            &mut self.reserved_bytes,
            &mut self.reserved_unallocated_bytes,
        ];
        let mut any = false;
        for size in sizes {
            if size.is_some_and(Quantity::is_unlimited) {
                *size = None;
                any = true;
            }
        }
        if any {
            self.impossible.push(Impossible::SizeUnlimited);
        }
        self.impossible.dedup();
    }

    fn find_impossible(&mut self) {
        let over = |a: Option<Quantity>, b: Option<Quantity>| a.zip(b).is_some_and(|(a, b)| surely_over(a, b));
        let held = self.reserved_bytes.zip(self.free_bytes).map(|(r, f)| plus(r, f));
        let found = [
            (over(self.allocated_bytes, self.total_bytes), Impossible::AllocatedOverTotal),
            (over(self.free_bytes, self.total_bytes), Impossible::FreeOverTotal),
            (over(held, self.total_bytes), Impossible::ReservedAndFreeOverTotal),
            (over(self.allocated_bytes, self.reserved_bytes), Impossible::AllocatedOverReserved),
        ];
        self.impossible.extend(found.into_iter().filter_map(|(is, what)| is.then_some(what)));
    }

    /// What remains under the limit by fraction; 0 if it is exceeded.
    pub fn headroom_bytes(&self) -> Option<Quantity> {
        let (allowed, reserved) = self.allowed_bytes.zip(self.reserved_bytes)?;
        Some(minus(allowed, reserved).unwrap_or(Quantity { bytes: 0, within: allowed.within + reserved.within }))
    }

    /// What the process may still take from the driver: free, or the headroom under a limit if that is less.
    pub fn takeable_bytes(&self) -> Option<Quantity> {
        match (self.free_bytes, self.headroom_bytes()) {
            (Some(free), Some(headroom)) => Some(if headroom.bytes < free.bytes { headroom } else { free }),
            (free, headroom) => free.or(headroom),
        }
    }

    /// Whether the request is larger than the card.
    pub fn request_exceeds_capacity(&self) -> Option<bool> {
        Some(self.request_bytes?.bytes > self.total_bytes?.bytes)
    }

    /// Whether the driver has as much free as was asked: then a limit, not capacity, refused it.
    pub fn request_fits_in_free(&self) -> Option<bool> {
        Some(self.request_bytes?.bytes <= self.free_bytes?.bytes)
    }

    /// Whether what is held unused is as large as the request.
    pub fn unused_covers_request(&self) -> Option<bool> {
        Some(self.request_bytes?.bytes <= self.reserved_unallocated_bytes?.bytes)
    }

    /// What is free falls short of the request by so much.
    pub fn shortfall_bytes(&self) -> Option<Quantity> {
        let (request, free) = self.request_bytes.zip(self.free_bytes)?;
        Some(minus(request, free).unwrap_or(Quantity { bytes: 0, within: request.within + free.within }))
    }

    /// The part of what is reserved that is unused.
    pub fn unused_share(&self) -> Option<f64> {
        let (unused, reserved) = self.reserved_unallocated_bytes.zip(self.reserved_bytes)?;
        (reserved.bytes > 0).then(|| unused.bytes as f64 / reserved.bytes as f64)
    }

    /// What makes two messages one failure told twice.
    pub(crate) fn hash_identity(&self, to: &mut impl Hasher) {
        (self.backend, self.form, self.device, self.is_cut, &self.other_processes).hash(to);
        let sizes = [self.request_bytes, self.total_bytes, self.free_bytes, self.allocated_bytes, self.allowed_bytes];
        (sizes, self.reserved_bytes, self.process_bytes, self.private_pool_bytes).hash(to);
    }

    /// Takes over from a repetition what the first one lacks.
    pub(crate) fn merge(&mut self, again: Self) {
        self.rank = self.rank.or(again.rank);
        self.exception = self.exception.take().or(again.exception);
        self.user_frame = self.user_frame.take().or(again.user_frame);
        if self.hint == Hint::None {
            self.hint = again.hint;
            self.releases = self.releases.and(again.releases);
        }
    }
}
