//! Who holds the bytes, as far as lifetimes and stacks tell.
//!
//! - `parameters` were made while a module was moved or built; `buffers` here are copies of parameters;
//! - `optimizer_state` was made inside the optimizer's step and kept past it;
//! - `gradients` were made by autograd's threads, have the size of a parameter and were handed to the optimizer;
//! - `activations` were made inside a module's `forward` or between it and the backward pass, of whatever step;
//! - `inputs` were made by the program before the forward pass;
//! - `workspace` is what cuBLAS keeps; `temporary` is dropped within the same backward pass or optimizer step.

use crate::case::Case;
use crate::explanation::{CategoriesReport, CategoryBytes};
use crate::tables::kinds::Kinds;
use std::collections::BTreeMap;

/// Bytes per category at the peak, at the failing request and at the end.
pub(crate) fn of(case: &Case<'_>) -> CategoriesReport {
    let end = case.ledger.trace.device.events.len() as u32;
    let kinds = case.kinds();
    CategoriesReport {
        peak: case.ledger.peak_event.map(|event| at(case, kinds, event + 1)).unwrap_or_default(),
        oom: case.failing.map(|f| at(case, kinds, f.state.event as u32)),
        end: at(case, kinds, end),
    }
}

fn at(case: &Case<'_>, kinds: &Kinds, event: u32) -> Vec<CategoryBytes> {
    let mut bytes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for id in case.ledger.alive_at(event) {
        let sum = bytes.entry(kinds.of(id).category()).or_default();
        *sum = sum.saturating_add(case.ledger.sizes[id as usize]);
    }
    let mut all: Vec<CategoryBytes> =
        bytes.into_iter().filter(|(_, b)| *b > 0).map(|(category, bytes)| CategoryBytes { category, bytes }).collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.category.cmp(b.category)));
    all
}

#[cfg(test)]
mod tests {
    use crate::testing::{MIB, Recording};

    #[test]
    fn every_category_is_told() {
        let mut r = Recording::new(None);
        r.alloc("3@", 2 * MIB);
        r.alloc("4~", 2 * MIB);
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
        assert_eq!(of("buffers"), 2 * MIB, "a copy of a parameter");
        assert_eq!(of("activations"), 16 * MIB);
        assert_eq!(of("gradients"), 2 * MIB, "of a parameter's size, and dropped after the optimizer's step");
        assert_eq!(of("inputs"), MIB);
        assert_eq!(of("optimizer_state"), 0);
        let all: u64 = report.categories.peak.iter().map(|c| c.bytes).sum();
        assert_eq!(all, report.peak.allocated_bytes);
    }
}
