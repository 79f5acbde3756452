//! What each allocation is, as far as its lifetime and stack tell.

use super::ledger::Ledger;
use hashbrown::HashSet;
use whyoom_replay::NONE;

/// What an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Made while a module was moved or built: a parameter or a buffer.
    Parameter,
    /// Made inside an optimizer's step and kept past it.
    OptimizerState,
    /// Made and dropped inside an optimizer's step.
    OptimizerTemporary,
    /// Of a parameter's size, made by autograd's threads and handed to the optimizer.
    Gradient,
    /// Made inside a module's `forward`.
    Activation,
    /// Anything else.
    Other,
}

/// Kind per allocation.
#[derive(Debug)]
pub(crate) struct Kinds {
    of: Vec<Kind>,
    /// Requested bytes of parameters and buffers: gradients and half-precision copies mirror them.
    parameter_sizes: HashSet<u64>,
}

impl Kinds {
    /// Linear in the allocations.
    pub(crate) fn new(ledger: &Ledger<'_>) -> Self {
        let is_setup = |id: usize| {
            let shape = ledger.shapes.of(ledger.trace.allocations[id].stack);
            shape.in_module_setup && !shape.in_module
        };
        let all = 0..ledger.trace.allocations.len();
        let parameter_sizes: HashSet<u64> =
            all.clone().filter(|&id| is_setup(id)).map(|id| ledger.trace.allocations[id].bytes).collect();
        let of =
            all.map(|id| if is_setup(id) { Kind::Parameter } else { kind(ledger, &parameter_sizes, id) }).collect();
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

    /// Whether the half-precision copy of a parameter has this size.
    pub(crate) fn is_of_a_half_copy(&self, bytes: u64) -> bool {
        bytes.checked_mul(2).is_some_and(|b| self.parameter_sizes.contains(&b))
    }
}

fn kind(ledger: &Ledger<'_>, parameter_sizes: &HashSet<u64>, id: usize) -> Kind {
    let a = &ledger.trace.allocations[id];
    let shape = ledger.shapes.of(a.stack);
    let made = a.alloc_event;
    let windows = ledger.steps.optimizer();
    if shape.in_optimizer {
        // What outlives the optimizer's step is state; what does not is a temporary of it.
        let window = windows.get(windows.partition_point(|w| w.end <= made)).filter(|w| w.contains(&made));
        let is_kept = match window {
            Some(window) => a.free_event >= window.end,
            // Without marks of the optimizer its step ends where the trace leaves its frames; what is never dropped stays.
            None => a.free_event == NONE,
        };
        return if is_kept { Kind::OptimizerState } else { Kind::OptimizerTemporary };
    }
    if !shape.has_python() && made != NONE {
        let next = windows.partition_point(|w| w.start <= made);
        let is_handed_over = windows.get(next).is_some_and(|w| a.free_event >= w.end);
        return if is_handed_over && parameter_sizes.contains(&a.bytes) { Kind::Gradient } else { Kind::Other };
    }
    if shape.in_module { Kind::Activation } else { Kind::Other }
}
