//! Where in the program an event happened.

use super::ledger::Ledger;
use crate::explanation::Place;
use whyoom_snapshot::{Action, StackId};

/// The place of the request of `event`; of the program's last line before it where the request has no frames.
pub(crate) fn of_request(ledger: &Ledger<'_>, event: u32) -> Option<Place> {
    let events = &ledger.trace.device.events;
    let shape = ledger.shapes.of(events.stack_of(event as usize)?);
    let phase = match () {
        () if !shape.has_python() || shape.in_autograd => "backward",
        () if shape.in_optimizer => "optimizer",
        () if shape.in_module => "forward",
        () => "other",
    };
    if shape.nearest != StackId::EMPTY && !shape.in_autograd {
        return place(ledger, shape.nearest, phase, false);
    }
    let before = (0..event as usize).rev().find_map(|i| {
        let is_block = matches!(events.action[i], Action::Alloc | Action::FreeRequested | Action::Oom);
        let shape = ledger.shapes.of(events.stack[i]);
        (is_block && shape.user != StackId::EMPTY && !shape.in_autograd).then_some(shape.user)
    })?;
    place(ledger, before, phase, true)
}

fn place(ledger: &Ledger<'_>, node: StackId, phase: &'static str, is_inferred: bool) -> Option<Place> {
    let snapshot = ledger.trace.snapshot;
    let (_, frame) = snapshot.stacks.frames(node).next()?;
    let text = |id| snapshot.strings.get(id).to_owned();
    Some(Place { phase, function: text(frame.function), file: text(frame.file), line: frame.line, is_inferred })
}
