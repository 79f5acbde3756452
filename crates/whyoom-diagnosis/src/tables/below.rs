//! What a line calls: the operations below it, as a tree.
//!
//! A chain of calls without a branch shows only the user's frames and its end: what lies between is machinery.

use super::frames::{Owner, owner};
use super::ledger::Ledger;
use crate::explanation::Operation;
use hashbrown::HashMap;
use whyoom_snapshot::{FrameId, StackId};

/// Nodes with less than this part of the tree's bytes are left out.
const PARTS: u64 = 20;
/// Nodes shown below one another.
const DEEPEST: usize = 6;
/// Frames of one stack that are looked at.
const FRAMES: usize = 200;

#[derive(Debug, Default)]
struct Node {
    bytes: u64,
    count: u64,
    below: HashMap<FrameId, Node>,
}

/// The tree of what `stacks` (with bytes and allocations each) call below `frame`; empty if they end there.
pub(super) fn tree(ledger: &Ledger<'_>, frame: FrameId, stacks: &[(StackId, u64, u64)]) -> Vec<Operation> {
    let table = &ledger.trace.snapshot.stacks;
    let mut root = Node::default();
    for &(stack, bytes, count) in stacks {
        let frames: Vec<FrameId> = table.frames(stack).map(|(id, _)| id).take(FRAMES).collect();
        // Innermost first: the outermost occurrence is the call.
        let Some(at) = frames.iter().rposition(|f| *f == frame) else { continue };
        let mut node = &mut root;
        node.bytes = node.bytes.saturating_add(bytes);
        for &called in frames[..at].iter().rev() {
            if !is_worth_showing(ledger, called) {
                continue;
            }
            node = node.below.entry(called).or_default();
            node.bytes = node.bytes.saturating_add(bytes);
            node.count += count;
        }
    }
    let least = (root.bytes / PARTS).max(1);
    shown(ledger, &root, least, DEEPEST)
}

fn is_worth_showing(ledger: &Ledger<'_>, frame: FrameId) -> bool {
    owner_of(ledger, frame).is_some_and(|o| !matches!(o, Owner::ModuleCall | Owner::Native))
}

fn owner_of(ledger: &Ledger<'_>, frame: FrameId) -> Option<Owner> {
    let snapshot = ledger.trace.snapshot;
    let frame = snapshot.stacks.frame(frame)?;
    Some(owner(snapshot.strings.get(frame.file), snapshot.strings.get(frame.function)))
}

fn shown(ledger: &Ledger<'_>, node: &Node, least: u64, depth: usize) -> Vec<Operation> {
    if depth == 0 {
        return Vec::new();
    }
    let mut children: Vec<(FrameId, &Node)> =
        node.below.iter().filter(|(_, n)| n.bytes >= least).map(|(f, n)| (*f, n)).collect();
    children.sort_unstable_by_key(|(frame, n)| (u64::MAX - n.bytes, frame.0));
    children.into_iter().flat_map(|(frame, child)| operation(ledger, frame, child, least, depth)).collect()
}

fn operation(ledger: &Ledger<'_>, frame: FrameId, node: &Node, least: u64, depth: usize) -> Vec<Operation> {
    let only = node.below.len() == 1 && node.below.values().all(|n| n.bytes == node.bytes);
    let is_machinery = only && owner_of(ledger, frame) != Some(Owner::User);
    if is_machinery {
        return shown(ledger, node, least, depth);
    }
    let snapshot = ledger.trace.snapshot;
    let Some(found) = snapshot.stacks.frame(frame) else { return Vec::new() };
    vec![Operation {
        function: snapshot.strings.get(found.function).to_owned(),
        file: snapshot.strings.get(found.file).to_owned(),
        line: found.line,
        bytes: node.bytes,
        count: node.count,
        below: shown(ledger, node, least, depth - 1),
    }]
}
