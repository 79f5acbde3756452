//! Edits of a recorded program as people name them: calls, groups of allocations, optimizers.

use crate::case::Case;
use crate::groups::{self, GroupName};
use crate::in_force;
use crate::tables::evaluation;
use crate::tables::kinds::Kinds;
use crate::tables::ledger::Ledger;
use crate::tables::shared::Shared;
use crate::words;
use whyoom_replay::edits::{Drop, Edit, EmptyCache, Group, Scale, StateTensors};
use whyoom_replay::{Program, Recorded, Trace};

/// When `torch.cuda.empty_cache()` is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// After every so many steps.
    Steps(u64),
    /// After every `zero_grad()` that the trace has a mark of.
    ZeroGrad,
    /// After every evaluation, where forward passes without backward show it.
    Evaluation,
}

/// One change to the program.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Calls `empty_cache()`.
    EmptyCache(When),
    /// Leaves out a group of allocations.
    Drop(GroupName),
    /// Makes a group of allocations larger or smaller.
    Scale(GroupName, f64),
    /// Uses another optimizer.
    Optimizer(StateTensors),
}

/// A changed program.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The program after all changes.
    pub program: Program,
    /// What was changed, a phrase for each change.
    pub changes: Vec<String>,
    /// What a person should know, a sentence each.
    pub notes: Vec<String>,
    /// Whether the result is an estimate: a changed program may ask for other things than the recorded one did.
    pub is_estimate: bool,
}

/// A change that the recording gives no hold for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NothingToChange {
    /// What was not found.
    pub what: String,
    /// What could be named instead; empty if nothing.
    pub hint: String,
}

/// The program of `recorded` after `changes`, in their order.
///
/// # Errors
/// Where a change concerns nothing in the recording: no allocation was made at a place, no step ends, no optimizer's
/// state was recorded.
pub fn change(trace: &Trace<'_>, recorded: &Recorded, changes: &[Change]) -> Result<Changed, NothingToChange> {
    let mut changed =
        Changed { program: recorded.program.clone(), changes: Vec::new(), notes: Vec::new(), is_estimate: false };
    if changes.is_empty() {
        return Ok(changed);
    }
    let release = in_force::release(None, &trace.snapshot.torch);
    let in_force = in_force::settings(trace.snapshot, trace.device, release);
    let shared = Shared::new(trace.snapshot);
    let case = Case::new(Ledger::new(trace, recorded, &shared), recorded, &in_force, None, true);
    let kinds = case.kinds();
    for change in changes {
        if let Change::Drop(name) | Change::Scale(name, _) = change {
            still_there(&case, kinds, name, &changed.program)?;
        }
        let (edit, what, note) = edit(&case, kinds, change)?;
        changed.notes.extend(note);
        changed.program = edit.apply(&changed.program);
        changed.is_estimate |= !matches!(change, Change::EmptyCache(_));
        changed.changes.push(what);
    }
    Ok(changed)
}

/// An edit, what it is in words, and what a person should know.
type Worded = (Box<dyn Edit>, String, Option<String>);

fn edit(case: &Case<'_>, kinds: &Kinds, change: &Change) -> Result<Worded, NothingToChange> {
    match change {
        Change::EmptyCache(when) => {
            let (edit, what, missing) = empty_cache(case, *when);
            let calls = edit.count(&case.recorded.program) as u64;
            let note = (calls == 0).then(|| format!("empty_cache() was never called: {missing}."));
            Ok((Box::new(edit), format!("{what} ({})", words::plural(calls, "call", "calls")), note))
        }
        Change::Drop(name) => {
            let group = group(case, kinds, name)?;
            let what = format!(
                "without {} ({})",
                name_in_words(name),
                words::plural(group.len() as u64, "allocation", "allocations")
            );
            Ok((Box::new(Drop(group)), what, None))
        }
        Change::Scale(name, factor) => {
            let group = group(case, kinds, name)?;
            let count = words::plural(group.len() as u64, "allocation", "allocations");
            let what = format!("{} x{factor} ({count})", name_in_words(name));
            Ok((Box::new(Scale { group, factor: *factor }), what, None))
        }
        Change::Optimizer(state) if groups::state_tensors(case, kinds) == state.count() && state.count() > 0 => {
            Err(NothingToChange {
                what: format!(
                    "the recorded optimizer keeps {} for each parameter already",
                    words::plural(state.count() as u64, "tensor", "tensors")
                ),
                hint: String::new(),
            })
        }
        Change::Optimizer(state) => {
            let swap = groups::optimizer_swap(case, kinds, *state).ok_or_else(|| NothingToChange {
                what: "no optimizer's state was made in this trace, so none can be swapped".to_owned(),
                hint: "Its first step must be in the recording, with Python stacks.".to_owned(),
            })?;
            let name = match state {
                StateTensors::None => "SGD",
                StateTensors::One => "SGD with momentum",
                StateTensors::Two => "AdamW",
            };
            let count = words::plural(swap.parameters.len() as u64, "parameter", "parameters");
            Ok((Box::new(swap), format!("{name} as the optimizer, of {count}"), None))
        }
    }
}

fn empty_cache(case: &Case<'_>, when: When) -> (EmptyCache, String, &'static str) {
    match when {
        When::Steps(every) => {
            let what = match every {
                0 | 1 => "empty_cache() after every step".to_owned(),
                n => format!("empty_cache() after every {n} steps"),
            };
            let missing = match case.ledger.completed {
                0 => "no step ends in this trace",
                _ => "fewer steps end in this trace, or nothing is requested after them",
            };
            (EmptyCache::after_steps(&case.ledger.steps, every), what, missing)
        }
        When::ZeroGrad => (
            EmptyCache::after_zero_grad(case.ledger.trace),
            "empty_cache() after every zero_grad()".to_owned(),
            "the trace has no mark of Optimizer.zero_grad",
        ),
        When::Evaluation => (
            EmptyCache { before: evaluation::ends(&case.ledger) },
            "empty_cache() after every evaluation".to_owned(),
            "the trace shows no evaluation between training steps",
        ),
    }
}

fn group(case: &Case<'_>, kinds: &Kinds, name: &GroupName) -> Result<Group, NothingToChange> {
    let group = groups::select(case, kinds, name);
    if !group.is_empty() {
        return Ok(group);
    }
    let what = match name {
        GroupName::Place(_) => format!("no allocation in this trace was made at `{name}`"),
        GroupName::Leak => "nothing accumulates in this trace, so there is no leak to drop".to_owned(),
        other => format!("no {other} can be told in this trace"),
    };
    let places = groups::places(case, 4);
    let has_stacks = case.ledger.trace.allocations.iter().any(|a| case.ledger.shapes.of(a.stack).has_python());
    let hint = if !has_stacks {
        "The trace has no Python stacks to tell places by.".to_owned()
    } else if places.is_empty() {
        String::new()
    } else {
        format!("Most bytes at the peak were made at {}.", places.join(", "))
    };
    Err(NothingToChange { what, hint })
}

/// Changes are made one after the other: what one left out another cannot change.
fn still_there(case: &Case<'_>, kinds: &Kinds, name: &GroupName, program: &Program) -> Result<(), NothingToChange> {
    let group = groups::select(case, kinds, name);
    if group.is_empty() || program.ops.iter().any(|op| group.concerns(*op)) {
        return Ok(());
    }
    Err(NothingToChange {
        what: format!("{} is left out by another change already", name_in_words(name)),
        hint: "Ask for one of the two.".to_owned(),
    })
}

fn name_in_words(name: &GroupName) -> String {
    match name {
        GroupName::Leak => "what accumulates".to_owned(),
        GroupName::Batch => "what grows with the batch".to_owned(),
        GroupName::Place(_) => format!("what {name} makes"),
        other => other.to_string().replace('_', " "),
    }
}
