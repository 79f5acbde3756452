//! Who holds the bytes, as far as lifetimes and stacks tell for certain.
//!
//! Told apart: parameters and buffers (made while a module was moved or built), optimizer state (made inside the
//! optimizer's step and kept past it), gradients (made by autograd's threads and handed to the optimizer), activations
//! (made inside a module's `forward` since the step began). Everything else is `other`; inputs, workspaces and
//! temporaries are not told apart yet.

use crate::case::Case;
use crate::explanation::{CategoriesReport, CategoryBytes};
use whyoom_replay::NONE;

const NAMES: [&str; 5] = ["parameters", "optimizer_state", "gradients", "activations", "other"];
const PARAMETERS: usize = 0;
const OPTIMIZER_STATE: usize = 1;
const GRADIENTS: usize = 2;
const ACTIVATIONS: usize = 3;
const OTHER: usize = 4;

/// Bytes per category at the peak, at the failing request and at the end.
pub(crate) fn of(case: &Case<'_>) -> CategoriesReport {
    let end = case.ledger.trace.device.events.len() as u32;
    CategoriesReport {
        peak: case.ledger.peak_event.map(|event| at(case, event + 1)).unwrap_or_default(),
        oom: case.failing.map(|f| at(case, f.state.event as u32)),
        end: at(case, end),
    }
}

fn at(case: &Case<'_>, event: u32) -> Vec<CategoryBytes> {
    let mut bytes = [0u64; NAMES.len()];
    for id in case.ledger.alive_at(event) {
        let sum = &mut bytes[category(case, id, event)];
        *sum = sum.saturating_add(case.ledger.sizes[id as usize]);
    }
    let mut all: Vec<CategoryBytes> = NAMES
        .iter()
        .zip(bytes)
        .filter(|(_, b)| *b > 0)
        .map(|(&category, bytes)| CategoryBytes { category, bytes })
        .collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.category.cmp(b.category)));
    all
}

fn category(case: &Case<'_>, id: u32, event: u32) -> usize {
    let ledger = &case.ledger;
    let a = &ledger.trace.allocations[id as usize];
    let shape = ledger.shapes.of(a.stack);
    if shape.in_module_setup && !shape.in_module {
        return PARAMETERS;
    }
    let made = a.alloc_event;
    if shape.in_optimizer {
        // What outlives the optimizer's step is state; what does not is a temporary of it.
        let windows = ledger.steps.optimizer();
        let window = windows.get(windows.partition_point(|w| w.end <= made)).filter(|w| w.contains(&made));
        return if window.is_some_and(|w| a.free_event >= w.end) { OPTIMIZER_STATE } else { OTHER };
    }
    if !shape.has_python() && made != NONE {
        let next = ledger.steps.optimizer().partition_point(|w| w.start <= made);
        let is_handed_over =
            ledger.steps.optimizer().get(next).is_some_and(|w| a.free_event >= w.end && event >= w.start);
        return if is_handed_over { GRADIENTS } else { OTHER };
    }
    let is_of_this_step = made != NONE && ledger.level_at(event).is_some_and(|l| l.start <= made);
    if shape.in_module && is_of_this_step { ACTIVATIONS } else { OTHER }
}
