//! Which lines of the user's code made some bytes.
//!
//! The first is the deepest user frame outside any module's `forward` that at least nine tenths of the bytes share:
//! the call to mend. Where that is only a caller of several lines and one of them made most of the bytes, that line
//! comes first: what else is held is held by it (a graph keeps its inputs). Then the largest single lines outside, then
//! those inside the model.

use super::ledger::Ledger;
use crate::explanation::Culprit;
use hashbrown::HashMap;
use whyoom_snapshot::{FrameId, StackId, StackTable};

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
}

impl Share {
    /// Bytes that are held: without those that were only asked for.
    fn held(&self) -> u64 {
        self.bytes.saturating_sub(self.failed.0)
    }

    fn add(&mut self, Sum { bytes, count, failed }: Sum, depth: u32, stack: StackId) {
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
}

/// Bytes and count per stack.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_stack: HashMap<StackId, Sum>,
}

impl Tally {
    /// Adds `bytes` in one allocation under `stack`.
    pub(crate) fn add(&mut self, stack: StackId, bytes: u64) {
        let entry = self.by_stack.entry(stack).or_default();
        entry.bytes = entry.bytes.saturating_add(bytes);
        entry.count += 1;
    }

    /// Adds `bytes` that were asked for under `stack` and not had.
    pub(crate) fn add_failed(&mut self, stack: StackId, bytes: u64) {
        self.add(stack, bytes);
        let failed = &mut self.by_stack.entry(stack).or_default().failed;
        *failed = (failed.0.saturating_add(bytes), failed.1 + 1);
    }

    /// The bytes of `allocations`. One without frames counts for the line of the program that ran before it.
    pub(crate) fn of(ledger: &Ledger<'_>, allocations: &[u32]) -> Self {
        let mut this = Self::default();
        for &id in allocations {
            this.add(stack_of(ledger, id), ledger.sizes[id as usize]);
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
        for (stack, sum) in ordered {
            total = total.saturating_add(sum.bytes);
            let shape = ledger.shapes.of(stack);
            if shape.user != StackId::EMPTY {
                let frames: Vec<FrameId> = user_frames(ledger, shape.user);
                for (depth, frame) in frames.iter().rev().enumerate() {
                    // A recursive function is counted once, at its outermost.
                    if !frames[frames.len() - depth..].contains(frame) {
                        outside.entry(*frame).or_default().add(sum, depth as u32, stack);
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
        let shared = outside.iter().filter(|(_, s)| u128::from(s.bytes) * 10 >= u128::from(total) * 9 && s.bytes > 0);
        let shared = shared.max_by_key(|(frame, s)| (s.depth, s.bytes, u32::MAX - frame.0)).map(|(f, s)| (*f, *s));
        let most =
            leaves.iter().filter(|(_, s)| u128::from(s.bytes) * 2 > u128::from(total)).map(|(f, s)| (*f, *s)).next();
        let is_caller = shared.is_some_and(|(frame, _)| !leaves.contains_key(&frame));
        let first = if is_caller { most.or(shared) } else { shared.or(most) };
        if let Some((frame, share)) = first {
            culprits.push(culprit(ledger, frame, &share, false));
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
    Culprit { function, file, line, bytes: share.held(), count: share.count - share.failed.1, in_module_forward, stack }
}
