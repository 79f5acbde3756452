//! Who holds the bytes, as far as lifetimes and stacks tell.
//!
//! - `parameters` were made while a module was moved or built; `buffers` here are copies of parameters;
//! - `optimizer_state` was made inside the optimizer's step and kept past it;
//! - `gradients` were made by autograd's threads, have the size of a parameter and were handed to the optimizer;
//! - `activations` were made inside a module's `forward` or between it and the backward pass, of whatever step;
//! - `inputs` were made by the program before the forward pass;
//! - `workspace` is what cuBLAS keeps; `temporary` is dropped within the same backward pass or optimizer step.

use crate::case::Case;
use crate::explanation::{CategoriesReport, CategoryBytes, NamedBytes, StepCategories};
use crate::tables::kinds::{Kind, Kinds};
use crate::tables::total;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use whyoom_snapshot::Action;

/// Steps whose categories are told.
const STEPS: usize = 64;
/// Parameters smaller than this share their sizes with many things.
const LEAST_COPY: u64 = 4096;

/// Bytes per category at the peak, at the failing request, at the end and step by step.
pub(crate) fn of(case: &Case<'_>) -> CategoriesReport {
    let end = case.ledger.trace.device.events.len() as u32;
    let kinds = case.kinds();
    let peak = case.ledger.peak_event.map(|event| event + 1);
    let failed = case.failing.map(|f| f.state.event as u32);
    CategoriesReport {
        peak: peak.map(|event| at(case, kinds, event)).unwrap_or_default(),
        oom: failed.map(|event| at(case, kinds, event)),
        end: at(case, kinds, end),
        named: failed.or(peak).map(|event| named(case, kinds, event)).unwrap_or_default(),
        steps: by_step(case, kinds),
    }
}

fn at(case: &Case<'_>, kinds: &Kinds, event: u32) -> Vec<CategoryBytes> {
    let mut bytes = [0u64; Kind::COUNT];
    for id in case.ledger.alive_at(event) {
        let sum = &mut bytes[kinds.of(id) as usize];
        *sum = sum.saturating_add(case.ledger.sizes[id as usize]);
    }
    in_categories(&bytes)
}

/// Sums per kind as categories, largest first.
fn in_categories(bytes: &[u64; Kind::COUNT]) -> Vec<CategoryBytes> {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (kind, bytes) in Kind::ALL.iter().zip(bytes) {
        let sum = sums.entry(kind.category()).or_default();
        *sum = sum.saturating_add(*bytes);
    }
    let mut all: Vec<CategoryBytes> =
        sums.into_iter().filter(|(_, b)| *b > 0).map(|(category, bytes)| CategoryBytes { category, bytes }).collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.category.cmp(b.category)));
    all
}

/// Activations that people know by a name.
fn named(case: &Case<'_>, kinds: &Kinds, event: u32) -> Vec<NamedBytes> {
    let ledger = &case.ledger;
    let allocation = |id: u32| &ledger.trace.allocations[id as usize];
    let shape = |id: u32| ledger.shapes.of(allocation(id).stack);
    let mut alive = ledger.alive_at(event);
    alive.retain(|&id| kinds.of(id) == Kind::Activation);
    let logits: Vec<u32> = alive.iter().copied().filter(|&id| shape(id).in_loss).collect();
    let mut copies = alive;
    copies.retain(|&id| {
        let bytes = allocation(id).bytes;
        bytes >= LEAST_COPY && kinds.is_of_a_half_copy(bytes) && shape(id).in_module && !shape(id).in_loss
    });
    // Autocast copies what the forward pass uses: one such size may be chance.
    let sizes: HashSet<u64> = copies.iter().map(|&id| allocation(id).bytes).collect();
    if sizes.len() < 2 || sizes.len() * 4 < kinds.parameter_sizes() {
        copies.clear();
    }
    let named = [("half_copies", copies), ("float32_logits", logits)];
    let named = named.into_iter().map(|(name, ids)| NamedBytes {
        name,
        category: Kind::Activation.category(),
        bytes: total(ids.iter().map(|&id| ledger.sizes[id as usize])),
    });
    named.filter(|n| n.bytes > 0).collect()
}

/// Categories at the highest event of each step, of at most [`STEPS`] steps. One pass over the events.
fn by_step(case: &Case<'_>, kinds: &Kinds) -> Vec<StepCategories> {
    let ledger = &case.ledger;
    // What follows the last step's end allocates nothing.
    let count = ledger.levels.partition_point(|l| ledger.last_alloc.is_some_and(|last| l.start <= last));
    let shown = count.min(STEPS);
    // The first and the last are among them.
    let chosen: Vec<usize> = (0..shown).map(|i| if shown == 1 { 0 } else { i * (count - 1) / (shown - 1) }).collect();
    let mut highest: Vec<(u64, u32, [u64; Kind::COUNT])> = vec![(0, 0, [0; Kind::COUNT]); shown];
    let mut bytes = [0u64; Kind::COUNT];
    for id in ledger.alive_at(0) {
        let sum = &mut bytes[kinds.of(id) as usize];
        *sum = sum.saturating_add(ledger.sizes[id as usize]);
    }
    let events = &ledger.trace.device.events;
    let (mut level, mut next) = (0, 0);
    for i in 0..events.len() {
        while ledger.levels.get(level + 1).is_some_and(|l| l.start as usize <= i) {
            level += 1;
        }
        while chosen.get(next).is_some_and(|c| *c < level) {
            next += 1;
        }
        let id = ledger.trace.allocation_of[i];
        match events.action[i] {
            Action::Alloc => {
                let sum = &mut bytes[kinds.of(id) as usize];
                *sum = sum.saturating_add(ledger.sizes[id as usize]);
                let is_chosen = chosen.get(next) == Some(&level) && ledger.levels[level].start as usize <= i;
                let live = bytes.iter().copied().fold(0, u64::saturating_add);
                if is_chosen && live > highest[next].0 {
                    highest[next] = (live, i as u32, bytes);
                }
            }
            Action::FreeRequested | Action::FreeCompleted if ledger.is_drop(i) => {
                let sum = &mut bytes[kinds.of(id) as usize];
                *sum = sum.saturating_sub(ledger.sizes[id as usize]);
            }
            _ => {}
        }
    }
    let steps = chosen.iter().zip(highest).filter(|(_, (live, ..))| *live > 0);
    steps
        .map(|(&level, (_, event, bytes))| StepCategories {
            step: ledger.levels[level].step,
            event: u64::from(event),
            categories: in_categories(&bytes),
        })
        .collect()
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

    /// Bytes of what has a name.
    fn named(report: &crate::explanation::DeviceReport, name: &str) -> u64 {
        report.categories.named.iter().find(|n| n.name == name).map_or(0, |n| n.bytes)
    }

    #[test]
    fn half_copies_and_logits_in_float32_have_names() {
        let run = |half: [u64; 2]| {
            let mut r = Recording::new(None);
            for bytes in [4 * MIB, 2 * MIB] {
                r.alloc("3@", bytes);
            }
            for _ in 0..6 {
                let kept = [r.alloc("11>5", half[0]), r.alloc("11>6", half[1])];
                let logits = r.alloc("12%", 24 * MIB);
                r.free("12", logits);
                r.free_all("12", kept);
                r.train_step(8 * MIB);
            }
            r.explain()
        };
        let report = run([2 * MIB, MIB]);
        assert_eq!(named(&report, "half_copies"), 3 * MIB);
        assert_eq!(named(&report, "float32_logits"), 24 * MIB);
        assert!(report.categories.named.iter().all(|n| n.category == "activations"));
        assert_eq!(named(&run([2 * MIB, 3 * MIB]), "half_copies"), 0, "one size of a half may be chance");
    }

    #[test]
    fn what_an_operation_asks_for_and_drops_at_once_is_workspace_and_grows_with_the_batch() {
        let run = || {
            let mut r = Recording::new(None);
            for _ in 0..6 {
                let output = r.alloc("11>5", 4 * MIB);
                let workspace = r.alloc("11>5", 64 * MIB);
                r.free("11>5", workspace);
                let gradient = r.alloc("", MIB);
                r.free("", output);
                r.step();
                r.free("14", gradient);
            }
            r
        };
        let report = run().explain();
        let of = |name: &str| report.categories.peak.iter().find(|c| c.category == name).map_or(0, |c| c.bytes);
        assert_eq!((of("workspace"), of("activations")), (64 * MIB, 4 * MIB));
        let under = run().explain_under(64 * MIB);
        let half = under.remedies.iter().find(|x| x.apply.contains("half the batch")).expect("half the batch is tried");
        assert_eq!(half.outcome, crate::explanation::RemedyOutcome::Passes, "{half:?}");
    }

    #[test]
    fn categories_of_steps_are_those_of_their_peaks() {
        let mut r = Recording::new(None);
        r.alloc("3@", 2 * MIB);
        for i in 1..=6 {
            r.train_step(4 * i * MIB);
        }
        let steps = r.explain().categories.steps;
        let activations = |i: usize| steps[i].categories.iter().find(|c| c.category == "activations").map(|c| c.bytes);
        assert_eq!(steps.iter().map(|s| s.step).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!((0..6).all(|i| activations(i) == Some(4 * (i as u64 + 1) * MIB)));
        assert!(steps.windows(2).all(|w| w[0].event < w[1].event));
    }

    #[test]
    fn of_many_steps_some_are_told_the_first_and_the_last_among_them() {
        let mut r = Recording::new(None);
        for _ in 0..200 {
            r.train_step(4 * MIB);
        }
        let steps = r.explain().categories.steps;
        assert_eq!((steps.len(), steps[0].step, steps[63].step), (64, 0, 199));
        let gaps: Vec<u64> = steps.windows(2).map(|w| w[1].step - w[0].step).collect();
        assert!(gaps.iter().all(|gap| (3..=4).contains(gap)), "{gaps:?}");
    }
}
