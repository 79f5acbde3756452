//! What each allocation is, as far as its lifetime and stack tell.

use super::frames::Shape;
use super::ledger::Ledger;
use hashbrown::{HashMap, HashSet};
use whyoom_replay::{Allocation, NONE};
use whyoom_snapshot::StackId;

/// What an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Made while a module was moved or built.
    Parameter,
    /// A copy of a parameter (an average, a target network).
    Buffer,
    /// Of a parameter's size, made by autograd's threads and handed to the optimizer; or a bucket of such.
    Gradient,
    /// Made inside an optimizer's step and kept past it.
    OptimizerState,
    /// Made inside a module's `forward`, or between it and the backward pass: kept for the backward pass.
    Activation,
    /// Made by the program before the forward pass that uses it.
    Input,
    /// Kept by a library for its own use.
    Workspace,
    /// Asked for and dropped within one operation of a `forward`: as large as its inputs have it.
    Scratch,
    /// Made and dropped inside an optimizer's step.
    OptimizerTemporary,
    /// Made and dropped inside a backward pass.
    Temporary,
    /// Anything else.
    Other,
}

impl Kind {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All, in the order of their numbers.
    pub(crate) const ALL: [Self; 11] = [
        Self::Parameter,
        Self::Buffer,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::Input,
        Self::Workspace,
        Self::Scratch,
        Self::OptimizerTemporary,
        Self::Temporary,
        Self::Other,
    ];

    /// The name in the contract.
    pub(crate) const fn category(self) -> &'static str {
        match self {
            Self::Parameter => "parameters",
            Self::Buffer => "buffers",
            Self::Gradient => "gradients",
            Self::OptimizerState => "optimizer_state",
            Self::Activation => "activations",
            Self::Input => "inputs",
            Self::Workspace | Self::Scratch => "workspace",
            Self::OptimizerTemporary | Self::Temporary => "temporary",
            Self::Other => "other",
        }
    }
}

/// PyTorch's cuBLAS workspaces: compute capability 9, and the others (`parseChosenWorkspaceSize`, `CUDABlas.cpp`).
const CUBLAS_WORKSPACES: [u64; 2] = [4096 * 8 * 1024, 4096 * 2 * 1024 + 16 * 8 * 1024];

/// Kind per allocation.
#[derive(Debug)]
pub(crate) struct Kinds {
    of: Vec<Kind>,
    /// Requested bytes of parameters and buffers: gradients and half-precision copies mirror them.
    parameter_sizes: HashSet<u64>,
}

impl Kinds {
    /// Linear in the events.
    pub(crate) fn new(ledger: &Ledger<'_>) -> Self {
        let allocations = &ledger.trace.allocations;
        let has_stacks = allocations.iter().any(|a| ledger.shapes.of(a.stack).has_python());
        let parameter_sizes = if has_stacks { sizes_by_stack(ledger) } else { sizes_by_lifetime(ledger) };
        let mut of = if has_stacks {
            by_stack(ledger, &parameter_sizes)
        } else {
            allocations.iter().map(|a| by_lifetime(ledger, &parameter_sizes, a)).collect()
        };
        for (kind, a) in of.iter_mut().zip(allocations) {
            if CUBLAS_WORKSPACES.contains(&a.bytes) && a.free_event == NONE && *kind != Kind::Parameter {
                *kind = Kind::Workspace;
            }
        }
        Self { of, parameter_sizes }
    }

    /// The kind of allocation `id`.
    pub(crate) fn of(&self, id: u32) -> Kind {
        self.of.get(id as usize).copied().unwrap_or(Kind::Other)
    }

    /// Whether a parameter has this size.
    pub(crate) fn is_of_a_parameter(&self, bytes: u64) -> bool {
        self.parameter_sizes.contains(&bytes)
    }

    /// How many sizes parameters have.
    pub(crate) fn parameter_sizes(&self) -> usize {
        self.parameter_sizes.len()
    }

    /// Whether the half-precision copy of a parameter has this size.
    pub(crate) fn is_of_a_half_copy(&self, bytes: u64) -> bool {
        bytes.checked_mul(2).is_some_and(|b| self.parameter_sizes.contains(&b))
    }
}

fn is_setup(shape: &Shape) -> bool {
    shape.in_module_setup && !shape.in_module && !shape.in_buckets
}

fn sizes_by_stack(ledger: &Ledger<'_>) -> HashSet<u64> {
    let allocations = ledger.trace.allocations.iter();
    allocations.filter(|a| is_setup(ledger.shapes.of(a.stack))).map(|a| a.bytes).collect()
}

/// Where the program is, as far as who allocates tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before a forward pass.
    Before,
    /// In or after one.
    Forward,
    /// In a backward pass.
    Backward,
}

fn by_stack(ledger: &Ledger<'_>, parameter_sizes: &HashSet<u64>) -> Vec<Kind> {
    let allocations = &ledger.trace.allocations;
    // What a program without a model makes are just its tensors.
    let has_model = allocations.iter().any(|a| {
        let shape = ledger.shapes.of(a.stack);
        shape.in_module || shape.in_module_setup || (a.alloc_event != NONE && !shape.has_python())
    });
    let mut phase = Phase::Before;
    let mut of: Vec<Option<Kind>> = Vec::with_capacity(allocations.len());
    for a in allocations {
        let shape = ledger.shapes.of(a.stack);
        let is_backward = !shape.has_python() || shape.in_autograd;
        phase = match () {
            () if a.alloc_event == NONE => phase,
            () if is_backward => Phase::Backward,
            () if shape.in_optimizer => Phase::Before,
            () if shape.in_module => Phase::Forward,
            () if phase == Phase::Backward => Phase::Before,
            () => phase,
        };
        of.push(certain(ledger, parameter_sizes, a, phase));
    }
    // The program's own lines make the same kind of thing each time they run.
    let mut lines: HashMap<StackId, HashMap<Kind, u64>> = HashMap::new();
    for (kind, a) in of.iter().zip(allocations) {
        if let Some(kind) = kind {
            *lines.entry(a.stack).or_default().entry(*kind).or_default() += 1;
        }
    }
    let usual = |stack: StackId| {
        let kinds = lines.get(&stack)?;
        kinds.iter().max_by_key(|(kind, n)| (**n, std::cmp::Reverse(**kind))).map(|(kind, _)| *kind)
    };
    let is_input = |kind: Kind| kind == Kind::Input && !has_model;
    of.into_iter()
        .zip(allocations)
        .map(|(kind, a)| kind.or_else(|| usual(a.stack)).filter(|k| !is_input(*k)).unwrap_or(Kind::Other))
        .collect()
}

/// What is known of `a` by itself; `None` where its line has to tell.
fn certain(ledger: &Ledger<'_>, parameter_sizes: &HashSet<u64>, a: &Allocation, phase: Phase) -> Option<Kind> {
    let shape = ledger.shapes.of(a.stack);
    if shape.in_buckets {
        return Some(Kind::Gradient);
    }
    if is_setup(shape) {
        return Some(Kind::Parameter);
    }
    if shape.is_copy && parameter_sizes.contains(&a.bytes) {
        return Some(Kind::Buffer);
    }
    if shape.in_optimizer {
        return Some(of_optimizer(ledger, a));
    }
    if !shape.has_python() || shape.in_autograd {
        return (a.alloc_event != NONE).then(|| of_backward(ledger, parameter_sizes, a));
    }
    // What is gone before anything else happens was never a tensor that an operation returned.
    if shape.in_module && a.alloc_event != NONE && a.free_event == a.alloc_event + 1 {
        return Some(Kind::Scratch);
    }
    if shape.in_module || phase == Phase::Forward || is_dropped_by_autograd(ledger, a) {
        return Some(Kind::Activation);
    }
    // What is never dropped tells nothing of itself.
    (a.free_event != NONE && phase == Phase::Before).then_some(Kind::Input)
}

/// What outlives the optimizer's step is state; what does not is a temporary of it.
fn of_optimizer(ledger: &Ledger<'_>, a: &Allocation) -> Kind {
    let (windows, made) = (ledger.steps.optimizer(), a.alloc_event);
    let window = windows.get(windows.partition_point(|w| w.end <= made)).filter(|w| w.contains(&made));
    let is_kept = match window {
        Some(window) => a.free_event >= window.end,
        // Without marks of the optimizer its step ends where the trace leaves its frames; what is never dropped stays.
        None => a.free_event == NONE,
    };
    if is_kept { Kind::OptimizerState } else { Kind::OptimizerTemporary }
}

fn of_backward(ledger: &Ledger<'_>, parameter_sizes: &HashSet<u64>, a: &Allocation) -> Kind {
    let windows = ledger.steps.optimizer();
    // A closure runs the backward pass inside the optimizer's own step.
    let next = windows.partition_point(|w| w.start <= a.alloc_event);
    let around = next.checked_sub(1).filter(|&i| windows[i].contains(&a.alloc_event));
    let is_handed_over = match windows.get(around.unwrap_or(next)) {
        Some(window) => a.free_event >= window.end,
        // The step that would have handed it over is not in the trace, or no optimizer marks its steps.
        None => a.free_event == NONE || !is_dropped_by_autograd(ledger, a),
    };
    match (is_handed_over, parameter_sizes.contains(&a.bytes)) {
        (true, true) => Kind::Gradient,
        // A graph of gradients (`create_graph`), or what hooks keep.
        (true, false) => Kind::Activation,
        (false, _) => Kind::Temporary,
    }
}

/// Whether autograd's thread dropped it: it was saved for a backward pass.
fn is_dropped_by_autograd(ledger: &Ledger<'_>, a: &Allocation) -> bool {
    let stacks = &ledger.trace.device.events.stack;
    let dropped_at = (a.free_event != NONE).then(|| stacks.get(a.free_event as usize)).flatten();
    dropped_at.is_some_and(|&stack| !ledger.shapes.of(stack).has_python())
}

/// Sizes of what the optimizer makes in its first marked step and keeps: those of the parameters.
fn sizes_by_lifetime(ledger: &Ledger<'_>) -> HashSet<u64> {
    let Some(first) = ledger.steps.optimizer().first() else { return HashSet::new() };
    let allocations = ledger.trace.allocations.iter();
    allocations.filter(|a| first.contains(&a.alloc_event) && a.free_event >= first.end).map(|a| a.bytes).collect()
}

/// Without stacks: windows of the optimizer, lifetimes and sizes.
fn by_lifetime(ledger: &Ledger<'_>, parameter_sizes: &HashSet<u64>, a: &Allocation) -> Kind {
    let windows = ledger.steps.optimizer();
    let Some(first) = windows.first() else { return Kind::Other };
    let made = a.alloc_event;
    if windows.get(windows.partition_point(|w| w.end <= made)).is_some_and(|w| w.contains(&made)) {
        return of_optimizer(ledger, a);
    }
    let has_size = parameter_sizes.contains(&a.bytes);
    if (made == NONE || made < first.start) && a.free_event >= windows.last().map_or(0, |w| w.end) {
        return if has_size { Kind::Parameter } else { Kind::Other };
    }
    let next = windows.get(windows.partition_point(|w| w.start <= made));
    match (next.is_some_and(|w| a.free_event >= w.end), has_size) {
        (true, true) => Kind::Gradient,
        (true, false) => Kind::Other,
        (false, _) => Kind::Activation,
    }
}
