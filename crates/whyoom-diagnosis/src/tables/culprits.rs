//! Which lines of the user's code made some bytes.
//!
//! The first is the deepest user frame outside any module's `forward` that at least nine tenths of the bytes share:
//! the call to mend. Where that is only a caller of several lines and one of them made most of the bytes, that line
//! comes first: what else is held is held by it (a graph keeps its inputs). Where it is a caller of several lines of one
//! function that made them together, the largest of those does. Then the largest single lines outside, then those
//! inside the model.

use super::below;
use super::ledger::Ledger;
use crate::explanation::Culprit;
use hashbrown::HashMap;
use whyoom_replay::NONE;
use whyoom_snapshot::{FrameId, StackId, StackTable, StrId};

/// Lines named after the first one, outside a `forward` and inside.
const MORE_LINES: usize = 3;
/// Frames in an example stack.
pub(crate) const MAX_STACK: usize = 60;

/// Bytes and allocations under a frame.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    bytes: u64,
    count: u64,
    /// Bytes and number of those that failed: they count for the choice of a line, and not for what it holds.
    failed: (u64, u64),
    /// Depth in the example, and the stack with the most bytes.
    depth: u32,
    example: (u64, u32),
    /// When those that are held were made.
    made: Extent,
}

/// First and last event at which something was made; nothing, if the first is after the last.
#[derive(Debug, Clone, Copy)]
struct Extent {
    first: u32,
    last: u32,
}

impl Default for Extent {
    fn default() -> Self {
        Self { first: NONE, last: 0 }
    }
}

impl Extent {
    fn join(&mut self, other: Self) {
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
    }
}

impl Share {
    /// Bytes that are held: without those that were only asked for.
    fn held(&self) -> u64 {
        self.bytes.saturating_sub(self.failed.0)
    }

    fn add(&mut self, Sum { bytes, count, failed, made }: Sum, depth: u32, stack: StackId) {
        self.made.join(made);
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += count;
        self.failed = (self.failed.0.saturating_add(failed.0), self.failed.1 + failed.1);
        if self.example.0 <= bytes {
            self.example = (bytes, stack.0);
            self.depth = depth;
        }
    }
}

/// Bytes and allocations of one stack.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    count: u64,
    failed: (u64, u64),
    made: Extent,
}

/// Bytes and count per stack.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_stack: HashMap<StackId, Sum>,
}

impl Tally {
    /// Adds `bytes` in one allocation under `stack`.
    pub(crate) fn add(&mut self, stack: StackId, bytes: u64) {
        self.count_in(stack, bytes);
    }

    fn count_in(&mut self, stack: StackId, bytes: u64) -> &mut Sum {
        let entry = self.by_stack.entry(stack).or_default();
        entry.bytes = entry.bytes.saturating_add(bytes);
        entry.count += 1;
        entry
    }

    /// Adds `bytes` that were asked for under `stack` and not had.
    pub(crate) fn add_failed(&mut self, stack: StackId, bytes: u64) {
        let failed = &mut self.count_in(stack, bytes).failed;
        *failed = (failed.0.saturating_add(bytes), failed.1 + 1);
    }

    /// The bytes of `allocations`. One without frames counts for the line of the program that ran before it.
    pub(crate) fn of(ledger: &Ledger<'_>, allocations: &[u32]) -> Self {
        let mut this = Self::default();
        for &id in allocations {
            let sum = this.count_in(stack_of(ledger, id), ledger.sizes[id as usize]);
            let made = ledger.trace.allocations[id as usize].alloc_event;
            if made != NONE {
                sum.made.join(Extent { first: made, last: made });
            }
        }
        this
    }

    /// The lines behind these bytes.
    pub(crate) fn culprits(&self, ledger: &Ledger<'_>) -> Vec<Culprit> {
        let stacks = &ledger.trace.snapshot.stacks;
        let mut outside: HashMap<FrameId, Share> = HashMap::new();
        let mut leaves: HashMap<FrameId, Share> = HashMap::new();
        let mut inside: HashMap<FrameId, Share> = HashMap::new();
        let mut total = 0u64;
        let mut ordered: Vec<(StackId, Sum)> = self.by_stack.iter().map(|(s, v)| (*s, *v)).collect();
        ordered.sort_unstable_by_key(|(s, _)| s.0);
        let mut functions: HashMap<Function, Share> = HashMap::new();
        for &(stack, sum) in &ordered {
            total = total.saturating_add(sum.bytes);
            let shape = ledger.shapes.of(stack);
            if shape.user != StackId::EMPTY {
                let frames: Vec<FrameId> = user_frames(ledger, shape.user);
                for (depth, frame) in frames.iter().rev().enumerate() {
                    // A recursive function is counted once, at its outermost.
                    let callers = &frames[frames.len() - depth..];
                    if !callers.contains(frame) {
                        outside.entry(*frame).or_default().add(sum, depth as u32, stack);
                    }
                    if let Some(function) = function_of(stacks, *frame)
                        && callers.iter().all(|c| function_of(stacks, *c) != Some(function))
                    {
                        functions.entry(function).or_default().add(sum, depth as u32, stack);
                    }
                }
                if let Some(leaf) = frames.first() {
                    leaves.entry(*leaf).or_default().add(sum, frames.len() as u32, stack);
                }
            }
            if shape.in_module
                && shape.nearest != shape.user
                && let Some((frame, _)) = stacks.frames(shape.nearest).next()
            {
                inside.entry(frame).or_default().add(sum, 0, stack);
            }
        }
        let mut culprits: Vec<Culprit> = Vec::new();
        let is_nearly_all = |s: &Share| u128::from(s.bytes) * 10 >= u128::from(total) * 9 && s.bytes > 0;
        let shared = outside.iter().filter(|(_, s)| is_nearly_all(s));
        let shared = shared.max_by_key(|(frame, s)| (s.depth, s.bytes, u32::MAX - frame.0)).map(|(f, s)| (*f, *s));
        let function = functions.iter().filter(|(_, s)| is_nearly_all(s));
        let function = function.max_by_key(|(f, s)| (s.depth, s.bytes, f.0.0, f.1.0)).map(|(f, s)| (*f, s.depth));
        let of_function = || {
            // What one function made by several of its lines: the largest, of equals the last.
            let (function, _) = function.filter(|(_, depth)| shared.is_none_or(|(_, s)| *depth > s.depth))?;
            let lines = outside.iter().filter(|(f, _)| function_of(stacks, **f) == Some(function));
            let line = |f: FrameId| stacks.frame(f).map_or(0, |f| f.line);
            lines.max_by_key(|(f, s)| (s.held(), line(**f))).map(|(f, s)| (*f, *s))
        };
        let most =
            leaves.iter().filter(|(_, s)| u128::from(s.bytes) * 2 > u128::from(total)).map(|(f, s)| (*f, *s)).next();
        let is_caller = shared.is_some_and(|(frame, _)| !leaves.contains_key(&frame));
        let first = if is_caller { most.or_else(of_function).or(shared) } else { shared.or(most).or_else(of_function) };
        if let Some((frame, share)) = first {
            let held: Vec<(StackId, u64, u64)> = ordered
                .iter()
                .map(|(stack, sum)| (*stack, sum.bytes - sum.failed.0.min(sum.bytes), sum.count))
                .collect();
            let below = below::tree(ledger, frame, &held);
            culprits.push(Culprit { below, ..culprit(ledger, frame, &share, false) });
        }
        for (table, in_module) in [(&leaves, false), (&inside, true)] {
            let mut lines: Vec<(FrameId, Share)> = table
                .iter()
                .filter(|(frame, share)| {
                    first.is_none_or(|f| f.0 != **frame) && share.held().saturating_mul(20) >= total && share.held() > 0
                })
                .map(|(f, s)| (*f, *s))
                .collect();
            lines.sort_unstable_by_key(|(frame, s)| (u64::MAX - s.held(), frame.0));
            culprits
                .extend(lines.iter().take(MORE_LINES).map(|(frame, share)| culprit(ledger, *frame, share, in_module)));
        }
        culprits
    }
}

impl Ledger<'_> {
    /// The deepest line of the user outside any module's `forward` that allocation `id` was made under; that of the
    /// run it belongs to where it has no frames of Python.
    pub(crate) fn call_line(&self, id: u32) -> StackId {
        let user = self.shapes.of(stack_of(self, id)).user;
        if user == StackId::EMPTY { self.trace.allocations[id as usize].stack } else { user }
    }
}

/// A function by name and file.
type Function = (StrId, StrId);

fn function_of(stacks: &StackTable, frame: FrameId) -> Option<Function> {
    stacks.frame(frame).map(|f| (f.function, f.file))
}

/// The stack of an allocation; that of the run it belongs to where it has no frames of Python.
fn stack_of(ledger: &Ledger<'_>, id: u32) -> StackId {
    let stack = ledger.trace.allocations[id as usize].stack;
    if ledger.shapes.of(stack).user != StackId::EMPTY {
        return stack;
    }
    ledger.runs.of.get(id as usize).and_then(|&r| ledger.runs.runs.get(r as usize)).map_or(stack, |run| run.site)
}

/// User frames of the stack `node`, innermost first.
fn user_frames(ledger: &Ledger<'_>, node: StackId) -> Vec<FrameId> {
    let stacks: &StackTable = &ledger.trace.snapshot.stacks;
    let mut frames = Vec::new();
    let mut at = node;
    // Nodes whose deepest user frame is themselves are the user's; libraries lie between them.
    while at != StackId::EMPTY {
        if ledger.shapes.of(at).user == at
            && let Some((frame, _)) = stacks.frames(at).next()
        {
            frames.push(frame);
        }
        at = match stacks.parent(at) {
            Some(parent) if parent.0 < at.0 => parent,
            _ => break,
        };
    }
    frames
}

fn culprit(ledger: &Ledger<'_>, frame: FrameId, share: &Share, in_module_forward: bool) -> Culprit {
    let snapshot = ledger.trace.snapshot;
    let text = |id| snapshot.strings.get(id).to_owned();
    let (function, file, line) =
        snapshot.stacks.frame(frame).map_or_else(Default::default, |f| (text(f.function), text(f.file), f.line));
    let stack = snapshot
        .stacks
        .frames(StackId(share.example.1))
        .take(MAX_STACK)
        .map(|(_, f)| format!("{} ({}:{})", snapshot.strings.get(f.function), snapshot.strings.get(f.file), f.line))
        .collect();
    let bytes = share.held();
    let is_known = share.made.first <= share.made.last;
    let step = |event| ledger.steps.of(event).filter(|_| is_known);
    let (first_step, last_step) = (step(share.made.first), step(share.made.last));
    let spanned = first_step.zip(last_step).map(|(first, last)| last.saturating_sub(first).saturating_add(1));
    Culprit {
        function,
        file,
        line,
        bytes,
        count: share.count - share.failed.1,
        in_module_forward,
        bytes_per_step: spanned.filter(|n| *n > 1).map(|n| bytes / n),
        first_step,
        last_step,
        age_us: is_known.then(|| age(ledger, share.made.first)).flatten(),
        source: None,
        stack,
        below: Vec::new(),
    }
}

/// Time from `event` to the last request of the trace.
fn age(ledger: &Ledger<'_>, event: u32) -> Option<u64> {
    let events = &ledger.trace.device.events;
    let (made, now) = (events.time_of(event as usize)?, events.time_of(ledger.last_alloc? as usize)?);
    now.checked_sub(made).and_then(|age| u64::try_from(age).ok())
}

#[cfg(test)]
mod tests {
    use crate::explanation::Operation;
    use crate::testing::{MIB, Recording};

    /// Ten steps that each keep what two layers of a model called at line 20 make.
    fn kept_at_line_20() -> Recording {
        let mut r = Recording::new(None);
        for _ in 0..2 {
            r.train_step(8 * MIB);
        }
        for _ in 0..10 {
            for (at, bytes) in [("20>5:relu", 6 * MIB), ("20>6:relu", MIB), ("20>6", MIB)] {
                r.alloc(at, bytes);
            }
            r.train_step(8 * MIB);
        }
        r
    }

    #[test]
    fn a_line_has_its_first_and_last_step_its_rate_and_its_age() {
        let report = kept_at_line_20().explain();
        let first = &report.findings[0].culprits[0];
        assert_eq!((first.line, first.bytes, first.count), (20, 80 * MIB, 30));
        assert_eq!((first.first_step, first.last_step), (Some(2), Some(11)));
        assert_eq!(first.bytes_per_step, Some(8 * MIB));
        // 10 us an event, from the first of them to the last request.
        let age = first.age_us.expect("times are recorded");
        assert!(age.is_multiple_of(10) && (1_000..3_000).contains(&age), "{age}");
    }

    #[test]
    fn what_was_made_in_one_step_has_no_rate() {
        let mut r = Recording::new(Some(100 * MIB));
        for _ in 0..3 {
            r.train_step(8 * MIB);
        }
        r.alloc("20", 80 * MIB);
        assert!(r.try_alloc("20", 80 * MIB).is_none());
        let report = r.explain();
        let first = &report.findings[0].culprits[0];
        assert_eq!((first.line, first.bytes_per_step), (20, None));
        assert_eq!((first.first_step, first.last_step), (Some(3), Some(3)));
    }

    #[test]
    fn below_a_line_stand_the_operations_it_calls() {
        let report = kept_at_line_20().explain();
        let below = &report.findings[0].culprits[0].below;
        let tell = |all: &[Operation]| -> Vec<(String, u32, u64, u64)> {
            all.iter().map(|o| (o.function.clone(), o.line, o.bytes / MIB, o.count)).collect()
        };
        // The machinery that calls modules is left out; a branch shows both of its sides.
        assert_eq!(tell(below), [("forward".to_owned(), 5, 60, 10), ("forward".to_owned(), 6, 20, 20)]);
        assert_eq!(tell(&below[0].below), [("relu".to_owned(), 1700, 60, 10)]);
        assert_eq!(tell(&below[1].below), [("relu".to_owned(), 1700, 10, 10)]);
        assert!(report.findings[0].culprits.iter().skip(1).all(|c| c.below.is_empty()), "of the first only");
    }
}
