//! Groups of allocations that an edit of the program concerns, by name.

use crate::case::Case;
use crate::causes::leak;
use crate::tables::frames::Shape;
use crate::tables::kinds::{Kind, Kinds};
use crate::tables::ledger::Ledger;
use hashbrown::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use whyoom_replay::edits::{Group, OptimizerSwap, StateTensors};
use whyoom_replay::{NONE, Op, Program, ProgramRequest};
use whyoom_snapshot::{FrameId, Snapshot, StackId};

/// The name of a group of allocations.
///
/// `parameters`, `optimizer_state`, `gradients` and `activations` are told by lifetimes and stacks; `batch` is all that
/// grows with the batch (neither of these, nor a copy of a parameter, nor made once for good in the first step);
/// `leak` is what the diagnosis found to accumulate. Anything else is a place in the program: `file.py:12`, `file.py`
/// or a function's name, of any frame of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupName {
    /// Parameters and buffers.
    Parameters,
    /// What an optimizer keeps.
    OptimizerState,
    /// Gradients handed to an optimizer.
    Gradients,
    /// Made inside a module's `forward`.
    Activations,
    /// All that grows with the batch.
    Batch,
    /// What accumulates.
    Leak,
    /// Made at a place in the program.
    Place(Place),
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A file's name or the end of its path, or a function's name.
    pub name: String,
    /// The line in the file.
    pub line: Option<u32>,
}

impl GroupName {
    /// The names that are no places.
    pub const NAMES: [(&str, Self); 6] = [
        ("parameters", Self::Parameters),
        ("optimizer_state", Self::OptimizerState),
        ("gradients", Self::Gradients),
        ("activations", Self::Activations),
        ("batch", Self::Batch),
        ("leak", Self::Leak),
    ];
}

impl FromStr for GroupName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            let names: Vec<&str> = Self::NAMES.iter().map(|n| n.0).collect();
            return Err(format!("name a group ({}) or a place such as train.py:12", names.join(", ")));
        }
        if let Some((_, known)) = Self::NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(known.clone());
        }
        let (name, line) = match text.rsplit_once(':') {
            Some((file, line)) => match line.parse() {
                Ok(line) => (file, Some(line)),
                // A Windows path has a colon of its own.
                Err(_) => (text, None),
            },
            None => (text, None),
        };
        Ok(Self::Place(Place { name: name.to_owned(), line }))
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(Place { name, line: Some(line) }) => write!(f, "{name}:{line}"),
            Self::Place(Place { name, line: None }) => f.write_str(name),
            other => f.write_str(Self::NAMES.iter().find(|(_, n)| n == other).map_or("", |n| n.0)),
        }
    }
}

/// The allocations of `case` that `name` names.
pub(crate) fn select(case: &Case<'_>, kinds: &Kinds, name: &GroupName) -> Group {
    let (ledger, program) = (&case.ledger, &case.recorded.program);
    let of_kind = |kind: Kind| Group::of(program, |id| kinds.of(id) == kind, |_| false);
    match name {
        GroupName::Parameters => of_kind(Kind::Parameter),
        GroupName::OptimizerState => of_kind(Kind::OptimizerState),
        GroupName::Gradients => of_kind(Kind::Gradient),
        GroupName::Activations => {
            let events = events_of_failed(program);
            let in_module = |i: u32| failed_shape(ledger, &events, i).is_some_and(|s| s.in_module);
            Group::of(program, |id| matches!(kinds.of(id), Kind::Activation | Kind::Scratch), in_module)
        }
        GroupName::Batch => batch(ledger, program, kinds),
        GroupName::Leak => match case.growth.as_ref().filter(|g| leak::is_material(case, g)) {
            Some(growth) => Group::of_allocations(program, &growth.allocations),
            None => Group::default(),
        },
        GroupName::Place(place) => {
            let nodes = nodes_at(ledger.trace.snapshot, place);
            let is_at = |stack: StackId| nodes.get(stack.0 as usize).copied().unwrap_or(false);
            let events = events_of_failed(program);
            let stacks = &ledger.trace.device.events.stack;
            Group::of(
                program,
                |id| ledger.trace.allocations.get(id as usize).is_some_and(|a| is_at(a.stack)),
                |i| events.get(i as usize).and_then(|&e| stacks.get(e as usize)).is_some_and(|&s| is_at(s)),
            )
        }
    }
}

/// What grows with the batch.
fn batch(ledger: &Ledger<'_>, program: &Program, kinds: &Kinds) -> Group {
    let allocations = &ledger.trace.allocations;
    let first_end = ledger.levels.get(1).map_or(0, |l| l.start);
    let first_forward = allocations
        .iter()
        .filter(|a| a.alloc_event != NONE && ledger.shapes.of(a.stack).in_module)
        .map(|a| a.alloc_event)
        .min()
        .unwrap_or(0);
    let scales = |id: u32| {
        let Some(a) = allocations.get(id as usize) else { return false };
        let is_made_for_good = a.alloc_event < first_end && a.free_event == NONE;
        // Data that was put on the device before the first forward and outlives the step is no batch.
        let is_prepared = a.alloc_event < first_forward && (a.free_event == NONE || a.free_event > first_end);
        let is_old = a.alloc_event == NONE;
        let grows = matches!(kinds.of(id), Kind::Activation | Kind::Scratch | Kind::Input | Kind::Temporary);
        grows
            && !(is_old || is_made_for_good || is_prepared)
            && !is_of_weights(kinds, ledger.shapes.of(a.stack), a.bytes)
    };
    let events = events_of_failed(program);
    let failed_scales = |i: u32| {
        let bytes = program.failed.get(i as usize).map_or(0, |r| r.bytes);
        failed_shape(ledger, &events, i)
            .is_some_and(|s| !s.in_optimizer && !s.in_module_setup && !is_of_weights(kinds, s, bytes))
    };
    Group::of(program, scales, failed_scales)
}

/// Whether an allocation of the forward or backward pass is likely one of weights: autocast copies them in half
/// precision in the forward pass, and the backward pass makes their gradients in both.
fn is_of_weights(kinds: &Kinds, shape: &Shape, bytes: u64) -> bool {
    let is_backward = !shape.has_python() || shape.in_autograd;
    let may_be_copy = is_backward || shape.in_module;
    (is_backward && kinds.is_of_a_parameter(bytes)) || (may_be_copy && kinds.is_of_a_half_copy(bytes))
}

/// The event of each failed request.
fn events_of_failed(program: &Program) -> Vec<u32> {
    let mut events = vec![0; program.failed.len()];
    for (op, &event) in program.ops.iter().zip(&program.op_event) {
        if let Op::Failed(index) = *op
            && let Some(slot) = events.get_mut(index as usize)
        {
            *slot = event;
        }
    }
    events
}

fn failed_shape<'l>(ledger: &'l Ledger<'_>, events: &[u32], index: u32) -> Option<&'l Shape> {
    let event = *events.get(index as usize)?;
    let stack = *ledger.trace.device.events.stack.get(event as usize)?;
    Some(ledger.shapes.of(stack))
}

/// Per node of the stack table, whether it or a caller is at `place`.
fn nodes_at(snapshot: &Snapshot, place: &Place) -> Vec<bool> {
    let stacks = &snapshot.stacks;
    let is_file = |file: &str| {
        let before = file.strip_suffix(place.name.as_str());
        before.is_some_and(|b| b.is_empty() || b.ends_with(['/', '\\']) || place.name.starts_with(['/', '\\']))
    };
    let frames = (0..).map_while(|id| stacks.frame(FrameId(id)));
    let frame_is_at: Vec<bool> = frames
        .map(|f| {
            let (file, function) = (snapshot.strings.get(f.file), snapshot.strings.get(f.function));
            match place.line {
                Some(line) => f.line == line && is_file(file),
                None => is_file(file) || function == place.name,
            }
        })
        .collect();
    let mut is_at = vec![false; stacks.len().max(1)];
    for id in 1..stacks.len() {
        let node = StackId(id as u32);
        let Some((frame, _)) = stacks.frames(node).next() else { continue };
        // A caller's node is made before its callees'.
        let parent = stacks.parent(node).map_or(0, |p| p.0 as usize).min(id - 1);
        is_at[id] = is_at[parent] || frame_is_at.get(frame.0 as usize).copied().unwrap_or(false);
    }
    is_at
}

/// The program with another optimizer; `None` where no optimizer state was recorded from its first step on.
pub(crate) fn optimizer_swap(case: &Case<'_>, kinds: &Kinds, state: StateTensors) -> Option<OptimizerSwap> {
    let (ledger, program) = (&case.ledger, &case.recorded.program);
    let is_state = |id: &u32| kinds.of(*id) == Kind::OptimizerState;
    let states: Vec<u32> = (0..program.requests.len() as u32).filter(is_state).collect();
    let parameters = parameters_with_state(ledger, program, &states)?;
    let is_optimizers = |id: u32| matches!(kinds.of(id), Kind::OptimizerState | Kind::OptimizerTemporary);
    Some(OptimizerSwap { recorded: Group::of(program, is_optimizers, |_| false), parameters, state })
}

/// Requests of the size of each parameter that the optimizer keeps state for: one tensor for each was made at one line.
fn parameters_with_state(ledger: &Ledger<'_>, program: &Program, states: &[u32]) -> Option<Vec<ProgramRequest>> {
    let mut by_line: HashMap<StackId, (u64, Vec<u32>)> = HashMap::new();
    for &id in states {
        let entry = by_line.entry(ledger.trace.allocations[id as usize].stack).or_default();
        entry.0 = entry.0.saturating_add(ledger.sizes[id as usize]);
        entry.1.push(id);
    }
    let (_, (_, ids)) = by_line.into_iter().max_by_key(|(stack, (bytes, _))| (*bytes, u32::MAX - stack.0))?;
    Some(ids.iter().map(|&id| program.requests[id as usize]).collect())
}

/// How many tensors the recorded optimizer keeps a parameter: lines that made about as much as the largest.
pub(crate) fn state_tensors(case: &Case<'_>, kinds: &Kinds) -> usize {
    let ledger = &case.ledger;
    let mut by_line: HashMap<StackId, u64> = HashMap::new();
    for id in (0..ledger.trace.allocations.len() as u32).filter(|&id| kinds.of(id) == Kind::OptimizerState) {
        let bytes = by_line.entry(ledger.trace.allocations[id as usize].stack).or_default();
        *bytes = bytes.saturating_add(ledger.sizes[id as usize]);
    }
    let most = by_line.values().copied().max().unwrap_or(0);
    by_line.values().filter(|&&b| b > 0 && b.saturating_mul(10) >= most.saturating_mul(9)).count()
}

/// Files and lines that most bytes of the program were requested at, to name where a place matched nothing.
pub(crate) fn places(case: &Case<'_>, most: usize) -> Vec<String> {
    let everything: Vec<u32> = match case.ledger.peak_event {
        Some(event) => case.ledger.alive_at(event.saturating_add(1)),
        None => Vec::new(),
    };
    let tally = crate::tables::culprits::Tally::of(&case.ledger, &everything);
    let mut seen = HashSet::new();
    let lines = tally.culprits(&case.ledger).into_iter();
    let names = lines.map(|c| format!("{}:{}", crate::words::file_name(&c.file), c.line));
    names.filter(|n| seen.insert(n.clone())).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_groups_or_places() {
        let place = |name: &str, line| GroupName::Place(Place { name: name.to_owned(), line });
        for (text, expected) in [
            ("activations", GroupName::Activations),
            ("train.py:12", place("train.py", Some(12))),
            ("C:\\me\\train.py", place("C:\\me\\train.py", None)),
            ("validate", place("validate", None)),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        assert!("".parse::<GroupName>().is_err());
    }
}
