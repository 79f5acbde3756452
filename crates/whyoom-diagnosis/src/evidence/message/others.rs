//! Others hold what is missing.

use super::super::answer::{Answer, finding};
use super::super::{next, offers};
use super::scene::{OWN_OUTSIDE, Scene};
use crate::causes::{in_bytes, in_number};
use crate::explanation::{Cause, Confidence};
use crate::words;

/// Without what is held elsewhere on the card the request would fit, and that is more than what lies unused here.
pub(super) fn hold_it(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (request, free, total) = (message.request_bytes?, message.free_bytes?, message.total_bytes?);
    let unused = message.reserved_unallocated_bytes?.bytes;
    let others = scene.held_by_others()?;
    // What one process takes beside its allocator is its own, also where it is more than usual.
    let own = message.own_outside_bytes.map_or(OWN_OUTSIDE, |q| q.bytes);
    let would_fit = scene.needed()? <= total.bytes.saturating_sub(own);
    let own_is_large = message.own_outside_bytes.is_some_and(|q| q.bytes > 4 * OWN_OUTSIDE && q.bytes > unused);
    if own_is_large && scene.needed()? <= total.bytes.saturating_sub(OWN_OUTSIDE) {
        return Some(same_process(scene, message.own_outside_bytes?.bytes));
    }
    let is_enough = others.saturating_add(free.bytes).saturating_add(unused) >= request.bytes;
    if others <= unused || others < OWN_OUTSIDE / 4 || !would_fit || !is_enough {
        return None;
    }
    let listed: Vec<String> = message
        .other_processes
        .iter()
        .take(4)
        .map(|p| {
            let bytes = p.bytes.map_or("an unknown amount".to_owned(), |b| words::bytes(b.bytes));
            format!("process {} with {bytes}", p.pid)
        })
        .collect();
    let by = if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) };
    let about = if message.process_bytes.is_some() { "" } else { "about " };
    // Where the message lists who it is, this process is not suspected.
    let told = message.other_processes.iter().filter_map(|p| p.bytes).fold(0u64, |sum, b| sum.saturating_add(b.bytes));
    let or_own = if told >= others / 10 * 8 { "" } else { ", or by this process beside PyTorch's allocator" };
    let summary = format!(
        "{}{} of the card's {}. {about}{} is held by others{by}{or_own}; without that the request would fit.",
        scene.request(),
        scene.state(),
        words::bytes(total.bytes),
        words::bytes(others)
    );
    let summary = words::capital(&summary).replace(". about", ". About");
    let mut evidence = scene.figures();
    evidence.push(in_bytes(format!("{} is neither free nor this program's", words::bytes(others)), others, &[]));
    for process in &message.other_processes {
        if let Some(bytes) = process.bytes {
            let text = format!("process {} holds {}", process.pid, words::bytes(bytes.bytes));
            evidence.push(in_bytes(text, bytes.bytes, &[]));
        } else {
            evidence.push(in_number(
                format!("process {}: the driver does not say how much", process.pid),
                1,
                "count",
                &[],
            ));
        }
    }
    let outside = finding(Cause::Outside, Confidence::Strong, summary, others, evidence);
    let mut answer = Answer::of(outside).offer([offers::free_others(), offers::choose_card()]).ask(next::processes());
    if scene.short_of_compact().is_some() {
        answer = answer
            .not(Cause::Fragmentation, "even with no gap between blocks the request would not fit beside the others");
    } else if unused > 0 {
        answer = answer.not(
            Cause::Fragmentation,
            format!("{} unused is little beside {} held elsewhere", words::bytes(unused), words::bytes(others)),
        );
    }
    Some(answer)
}

/// This process itself holds much that is not PyTorch's.
fn same_process(scene: &Scene<'_>, own: u64) -> Answer {
    let summary = format!(
        "{}{}. This process holds {} beside PyTorch's allocator: far more than a context takes. Another library in it \
         (CuPy, TensorFlow, RAPIDS, an extension's own cudaMalloc) or buffers of NCCL hold the rest.",
        scene.request(),
        scene.state(),
        words::bytes(own)
    );
    let mut outside = finding(Cause::Outside, Confidence::Strong, summary, own, scene.figures());
    outside.subcause = Some("same_process");
    Answer::of(outside)
        .not(Cause::Fragmentation, "what is missing is not PyTorch's to arrange")
        .offer([offers::other_libraries()])
        .ask(next::processes())
}
