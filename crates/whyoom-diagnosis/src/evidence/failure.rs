//! Memory ran out, and something else than PyTorch's GPU allocator says so.

use whyoom_text::Fact;
use whyoom_text::messages::{Doing, Foreign, Source};

use super::answer::{Answer, culprit, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_ratio};
use crate::explanation::{Cause, Confidence, Evidence, Finding};
use crate::words;

/// Whether one of them fails for lack of memory.
pub(super) fn has_failed(subject: &Subject<'_>) -> bool {
    failures(subject).next().is_some()
}

fn failures<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = &'a Foreign> {
    subject.seen.iter().filter_map(|seen| match &seen.reading.fact {
        Fact::Foreign(foreign) => Some(&**foreign),
        _ => None,
    })
}

/// Host failures explain what the driver says after them, and a library's word says more than the driver's.
fn weight(source: Source) -> u8 {
    match source {
        Source::Pinned | Source::CommitLimit | Source::SharedMemory => 0,
        Source::Startup | Source::KvCache => 1,
        Source::Tensorflow | Source::Jax => 2,
        Source::Host | Source::Killed => 3,
        Source::Driver => 5,
        _ => 4,
    }
}

pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let Some(first) = failures(subject).min_by_key(|foreign| weight(foreign.source)) else { return Answer::default() };
    let mut answer = of_source(first, subject, about);
    for finding in &mut answer.findings {
        finding.culprits = culprit(first.user_frame.as_ref());
    }
    answer
}

fn unknown(summary: impl Into<String>, evidence: Vec<Evidence>) -> Finding {
    finding(Cause::Undetermined, Confidence::Weak, summary, 0, evidence)
}

fn outside(summary: impl Into<String>, evidence: Vec<Evidence>) -> Finding {
    finding(Cause::Outside, Confidence::Weak, summary, 0, evidence)
}

fn of_source(foreign: &Foreign, subject: &Subject<'_>, about: &About<'_>) -> Answer {
    match foreign.source {
        Source::Startup => startup(foreign),
        Source::KvCache => Answer::of(finding(
            Cause::Capacity,
            Confidence::Weak,
            "The server has too little room for its key-value cache beside the weights: the share of the card that it may take, or \
             the longest sequence, does not fit.",
            0,
            figures(foreign),
        ))
        .ask(next::processes()),
        Source::Tensorflow | Source::Jax => declined(foreign),
        Source::MathLibrary | Source::Cudnn => library(foreign, subject),
        Source::Nccl if foreign.is_device_memory == Some(true) => Answer::of(outside(
            "NCCL found no room for its buffers. They are outside PyTorch's allocator, and need room on the card that PyTorch and \
             others have left free.",
            figures(foreign),
        ))
        .offer([offers::leave_room()])
        .ask(next::processes()),
        Source::Nccl => Answer::of(unknown(
            "NCCL failed; lack of memory is one of its reasons. Its buffers are outside PyTorch's allocator: they need room on \
             the card that PyTorch has left free.",
            figures(foreign),
        ))
        .ask(next::processes()),
        Source::Pinned => Answer::of(outside(
            "Page-locked memory of the host could not be had. CUDA words this as its own out-of-memory, also at a later call: \
             the card need not be full.",
            with_free(figures(foreign), subject),
        ))
        .not(Cause::Capacity, "what failed is the host's memory, not the card's")
        .not(Cause::Fragmentation, "what failed is the host's memory, not the card's")
        .offer([offers::pageable()])
        .ask(next::host()),
        Source::SharedMemory => Answer::of(outside(
            "Shared memory of the host (/dev/shm) ran out, as DataLoader workers fill it. The card is not meant.",
            figures(foreign),
        ))
        .not(Cause::Capacity, "what ran out is the host's shared memory")
        .offer([offers::shared_memory()])
        .ask(next::host()),
        Source::CommitLimit => Answer::of(outside(
            "Windows' commit limit (RAM and page file) was met, which counts GPU memory too. The card need not be full.",
            figures(foreign),
        ))
        .not(Cause::Capacity, "the limit is the system's, not the card's")
        .offer([offers::page_file()])
        .ask(next::hidden_limit()),
        Source::Host | Source::Killed => Answer::of(outside(
            "Memory of the host ran out, not the card's: nothing that is said of GPU memory mends it.",
            figures(foreign),
        ))
        .not(Cause::Capacity, "what ran out is the host's memory, not the card's")
        .offer([offers::host_memory()])
        .ask(next::host()),
        Source::Driver if foreign.is_device_memory.is_none() => Answer::of(unknown(
            format!("The text says that memory ran out, without figures: \"{}\"", cut(&foreign.text)),
            figures(foreign),
        ))
        .ask(next::after_bare(about.releases)),
        Source::Driver if about.says(Doing::Pinning).is_some() => Answer::of(outside(
            "The driver says out of memory where memory of the host is pinned: what could not be had is most likely the host's.",
            with_free(figures(foreign), subject),
        ))
        .not(Cause::Fragmentation, "PyTorch's GPU allocator did not refuse")
        .offer([offers::pageable()])
        .ask(next::host()),
        _ => driver(foreign, subject),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(160).collect()
}

fn figures(foreign: &Foreign) -> Vec<Evidence> {
    let all = [("asked for", foreign.request_bytes), ("free", foreign.free_bytes), ("there are", foreign.total_bytes)];
    let say = |(what, q): (&str, Option<whyoom_text::Quantity>)| {
        q.map(|q| in_bytes(format!("{what} {}", words::bytes(q.bytes)), q.bytes, &[]))
    };
    all.into_iter().filter_map(say).collect()
}

/// `mem_get_info` printed nearby.
fn with_free(mut evidence: Vec<Evidence>, subject: &Subject<'_>) -> Vec<Evidence> {
    if let Some((free, total)) = super::log::free_of_total(subject) {
        let text = format!("{} of {} were free on the card", words::bytes(free), words::bytes(total));
        evidence.push(in_bytes(text, free, &[]));
    }
    evidence
}

/// A server finds less free than it was told to take.
fn startup(foreign: &Foreign) -> Answer {
    let (Some(free), Some(total)) = (foreign.free_bytes, foreign.total_bytes) else {
        return Answer::of(outside(
            "At its start the server found less free memory than it was told to take.",
            figures(foreign),
        ))
        .offer([offers::free_others()])
        .ask(next::processes());
    };
    let used = total.bytes.saturating_sub(free.bytes);
    let share = free.bytes as f64 / total.bytes.max(1) as f64;
    let mut evidence = figures(foreign);
    evidence.push(in_bytes(format!("{} were taken before the server began", words::bytes(used)), used, &[]));
    evidence.push(in_ratio(format!("{share:.3} of the card is free"), share, &[]));
    let summary = format!(
        "Before the server began {} of the card's {} were taken by others; it was told to take more than the {} that were left.",
        words::bytes(used),
        words::bytes(total.bytes),
        words::bytes(free.bytes)
    );
    let outside = finding(Cause::Outside, Confidence::Proven, summary, used, evidence);
    Answer::of(outside)
        .not(Cause::Capacity, "the server failed before it loaded anything")
        .offer([offers::free_others(), offers::lower_utilization(share)])
        .ask(next::processes())
}

fn declined(foreign: &Foreign) -> Answer {
    let name = if foreign.source == Source::Tensorflow { "TensorFlow" } else { "JAX" };
    let summary = format!(
        "This is {name}'s message. Its allocator is another one and is not modelled here, so no more is said about it than it \
         says itself. If PyTorch runs in the same process, both share the card: {name} takes most of it at its start unless told \
         not to."
    );
    Answer::of(unknown(summary, figures(foreign))).ask(next::processes())
}

/// cuBLAS, cuDNN: a handle or workspace could not be had, most often for lack of memory.
fn library(foreign: &Foreign, subject: &Subject<'_>) -> Answer {
    let sure = if foreign.is_device_memory == Some(true) { "" } else { "most likely " };
    let summary = format!(
        "\"{}\" is {sure}lack of memory in disguise: the library asks the driver itself, beside PyTorch's allocator, and needs \
         room that PyTorch has left free. The message has no figures.",
        cut(&foreign.text)
    );
    Answer::of(unknown(summary, with_free(figures(foreign), subject))).ask(next::processes())
}

/// The driver, with no figures.
fn driver(foreign: &Foreign, subject: &Subject<'_>) -> Answer {
    let free = super::log::free_of_total(subject);
    if let Some((free, total)) = free.filter(|(free, total)| free.saturating_mul(2) > *total) {
        let summary = format!(
            "The driver says out of memory while {} of {} are free: the error is of an earlier call, or of memory of the host.",
            words::bytes(free),
            words::bytes(total)
        );
        let unknown = unknown(summary, with_free(figures(foreign), subject));
        return Answer::of(unknown).not(Cause::Capacity, "more than half of the card is free").ask(next::blocking());
    }
    let summary = "The driver itself says out of memory, and not PyTorch's allocator: a context, a kernel or a copy found no room, \
                   before or beside anything that PyTorch holds. Errors of this kind are reported late: the line named may be \
                   a later one. Most often somebody else has the card.";
    Answer::of(outside(summary, figures(foreign)))
        .not(Cause::Fragmentation, "PyTorch's allocator did not refuse")
        .offer([offers::free_others(), offers::choose_card()])
        .ask(next::processes())
}
