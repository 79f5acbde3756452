//! Who holds the bytes, as far as lifetimes and stacks tell for certain.
//!
//! Told apart: parameters and buffers (made while a module was moved or built), optimizer state (made inside the
//! optimizer's step and kept past it), gradients (made by autograd's threads, of the size of a parameter, and handed to
//! the optimizer), activations (made inside a module's `forward` since the step began). Everything else is `other`; inputs, workspaces and
//! temporaries are not told apart yet.

use crate::case::Case;
use crate::explanation::{CategoriesReport, CategoryBytes};
use crate::tables::frames::Shape;
use hashbrown::HashSet;
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
    let parameters = parameter_sizes(case);
    CategoriesReport {
        peak: case.ledger.peak_event.map(|event| at(case, &parameters, event + 1)).unwrap_or_default(),
        oom: case.failing.map(|f| at(case, &parameters, f.state.event as u32)),
        end: at(case, &parameters, end),
    }
}

/// Requested bytes of what was made while a module was moved or built: gradients mirror parameters.
fn parameter_sizes(case: &Case<'_>) -> HashSet<u64> {
    let ledger = &case.ledger;
    ledger.trace.allocations.iter().filter(|a| is_setup(ledger.shapes.of(a.stack))).map(|a| a.bytes).collect()
}

fn is_setup(shape: &Shape) -> bool {
    shape.in_module_setup && !shape.in_module
}

fn at(case: &Case<'_>, parameters: &HashSet<u64>, event: u32) -> Vec<CategoryBytes> {
    let mut bytes = [0u64; NAMES.len()];
    for id in case.ledger.alive_at(event) {
        let sum = &mut bytes[category(case, parameters, id, event)];
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

fn category(case: &Case<'_>, parameters: &HashSet<u64>, id: u32, event: u32) -> usize {
    let ledger = &case.ledger;
    let a = &ledger.trace.allocations[id as usize];
    let shape = ledger.shapes.of(a.stack);
    if is_setup(shape) {
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
        return if is_handed_over && parameters.contains(&a.bytes) { GRADIENTS } else { OTHER };
    }
    let is_of_this_step = made != NONE && ledger.level_at(event).is_some_and(|l| l.start <= made);
    if shape.in_module && is_of_this_step { ACTIVATIONS } else { OTHER }
}

#[cfg(test)]
mod tests {
    use crate::testing::{MIB, Recording};

    #[test]
    fn what_is_known_is_told_and_the_rest_is_other() {
        let mut r = Recording::new(None);
        r.alloc("3@", 2 * MIB);
        for i in 0..6 {
            if i == 1 {
                // The first step made the state; this is what a later one keeps of it.
                r.alloc("20", 3 * MIB);
            }
            r.train_step(16 * MIB);
        }
        let report = r.explain();
        let of = |name: &str| report.categories.peak.iter().find(|c| c.category == name).map_or(0, |c| c.bytes);
        assert_eq!(of("parameters"), 2 * MIB);
        assert_eq!(of("activations"), 16 * MIB);
        assert_eq!(of("optimizer_state"), 0);
        let all: u64 = report.categories.peak.iter().map(|c| c.bytes).sum();
        assert_eq!(all, report.peak.allocated_bytes);
    }
}
