//! OOM messages of allocators: arithmetic on one line.
//!
//! Each rule looks at the figures and says what they show, or nothing. The first that says something gives the
//! verdict; the others stay out of it, since each is written for what those before it left.

mod amount;
mod layout;
mod limits;
mod others;
mod scene;
mod unexplained;

use whyoom_text::Fact;
use whyoom_text::messages::{Backend, Doing, Hint, OomMessage};

use super::answer::{Answer, finding};
use super::dossier::{About, Seen, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_number};
use crate::explanation::{BoundReport, Cause, Confidence, Finding, LimitReport, PeakReport};
use crate::words;
use scene::Scene;

/// Failures that are compared with each other.
const FAILURES: usize = 256;

/// In the order in which they are asked.
const RULES: [fn(&Scene<'_>) -> Option<Answer>; 17] = [
    unexplained::impossible,
    limits::rejected,
    limits::block,
    limits::buffer,
    limits::mps,
    amount::larger_than_card,
    limits::cap,
    limits::asynchronous_cap,
    unexplained::free_covers_request,
    amount::beyond_card,
    unexplained::asynchronous,
    others::hold_it,
    layout::pending,
    layout::of_unused,
    amount::all_live,
    amount::beyond_total,
    unexplained::partial,
];

/// Whether an allocator says that it failed.
pub(super) fn has_failed(subject: &Subject<'_>) -> bool {
    messages(subject).next().is_some()
}

/// Whether an allocator prints a cap.
pub(super) fn has_cap(subject: &Subject<'_>) -> bool {
    messages(subject).any(|(_, message)| message.allowed_bytes.is_some())
}

fn messages<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = (Seen<'a>, &'a OomMessage)> {
    subject.seen.iter().filter_map(|seen| match &seen.reading.fact {
        Fact::Oom(message) => Some((*seen, &**message)),
        _ => None,
    })
}

/// What was asked for and what was free, by the message that is judged.
pub(super) fn request_and_free(subject: &Subject<'_>) -> (Option<u64>, Option<u64>) {
    let all: Vec<(Seen<'_>, &OomMessage)> = messages(subject).collect();
    let bytes = |q: Option<whyoom_text::Quantity>| q.map(|q| q.bytes);
    chosen(&all).map_or((None, None), |(_, m)| (bytes(m.request_bytes), bytes(m.free_bytes)))
}

/// The first message that has figures, else the first that has a request, else the first.
fn chosen<'a>(all: &[(Seen<'a>, &'a OomMessage)]) -> Option<(Seen<'a>, &'a OomMessage)> {
    let has_figures = |m: &OomMessage| m.request_bytes.is_some() && m.allocated_bytes.is_some();
    let with_request = || all.iter().find(|(_, m)| m.request_bytes.is_some());
    all.iter().find(|(_, m)| has_figures(m)).or_else(with_request).or(all.first()).copied()
}

/// Judges the first message that has figures; later ones follow from it more often than not.
pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let mut all: Vec<(Seen<'_>, &OomMessage)> = messages(subject).collect();
    // The same message in several inputs is one failure.
    let mut known: Vec<&OomMessage> = Vec::new();
    all.retain(|(_, message)| {
        let is_new = known.len() >= FAILURES || !known.contains(message);
        known.extend(is_new.then_some(*message));
        is_new
    });
    let Some((seen, message)) = chosen(&all) else { return Answer::default() };
    let scene = Scene { message, seen, about };
    let mut answer = RULES.iter().find_map(|rule| rule(&scene)).unwrap_or_else(|| unexplained::no_figures(&scene));
    hint(&scene, &mut answer);
    for finding in &mut answer.findings {
        finding.culprits = super::answer::culprit(message.user_frame.as_ref());
    }
    if let Some(first) = answer.findings.first_mut() {
        first.evidence.extend(repeated(&all));
    }
    let answer = answer.and(rising(&all));
    let collect = next::after_message(&scene_facts(&scene));
    Answer { limit: limit(message), peak: peak(message), bound: bound(message), ..answer.ask(collect) }
}

/// What the choice of the next thing to collect needs to know of a message.
fn scene_facts(scene: &Scene<'_>) -> next::After {
    next::After { releases: scene.about.releases, backend: scene.message.backend }
}

/// The setting that the message itself advises, where arithmetic or the text refutes it.
fn hint(scene: &Scene<'_>, answer: &mut Answer) {
    let setting = match scene.message.hint {
        Hint::None => return,
        Hint::MaxSplitSizeMb => "max_split_size_mb",
        Hint::ExpandableSegments => "expandable_segments:True",
    };
    let is_found = answer.findings.iter().any(|f| f.cause == Cause::Fragmentation && f.confidence > Confidence::Weak);
    let why = if scene.message.hint == Hint::ExpandableSegments && scene.about.has_expandable() {
        "the setting that the message advises is in force already".to_owned()
    } else if let Some(short) = scene.short_of_compact() {
        format!("even with no gap between blocks {} would be missing, so {setting} cannot help", words::bytes(short))
    } else if scene.is_in_free() && scene.message.allowed_bytes.is_none() {
        format!("the driver had more free than was asked: {setting} only arranges what PyTorch holds already")
    } else {
        return;
    };
    if !is_found {
        answer.ruled_out.insert(
            0,
            crate::explanation::RuledOut { cause: Cause::Fragmentation, statement: format!("the printed hint: {why}") },
        );
    }
}

fn repeated(all: &[(Seen<'_>, &OomMessage)]) -> Option<crate::explanation::Evidence> {
    let times: u64 = all.iter().map(|(seen, _)| seen.reading.occurrences).sum();
    let different = all.len() as u64;
    let text = match (times, different) {
        (0 | 1, _) => return None,
        (times, 1) => format!("the text says the same failure {times} times"),
        (times, different) => {
            format!("the text has {times} failures, {different} of them different; this is the first")
        }
    };
    Some(in_number(text, times, "count", &[]))
}

/// Whether more is live at each failure than at the one before: what a failed attempt leaves behind, or a leak.
fn rising(all: &[(Seen<'_>, &OomMessage)]) -> Option<Finding> {
    let live: Vec<u64> = all.iter().filter_map(|(_, m)| m.allocated_bytes.map(|a| a.bytes)).collect();
    let (first, last) = (*live.first()?, *live.last()?);
    if live.len() < 3 || !live.windows(2).all(|w| w[0] < w[1]) || last - first < first / 20 {
        return None;
    }
    let summary = format!(
        "More is live at each of {} failures than at the one before: {} at the first, {} at the last. Something is kept \
         across attempts.",
        live.len(),
        words::bytes(first),
        words::bytes(last)
    );
    let evidence =
        vec![in_bytes(format!("{} more is live at the last failure", words::bytes(last - first)), last - first, &[])];
    Some(finding(Cause::Leak, Confidence::Weak, summary, last - first, evidence))
}

fn limit(message: &OomMessage) -> Option<LimitReport> {
    let held = message.reserved_bytes.or(message.allocated_bytes)?;
    let takeable = message.takeable_bytes();
    let (bytes, within) = match (message.allowed_bytes, takeable) {
        (Some(allowed), _)
            if message.free_bytes.is_none_or(|f| held.bytes.saturating_add(f.bytes) >= allowed.bytes) =>
        {
            (allowed.bytes, allowed.within)
        }
        (_, Some(free)) => (held.bytes.saturating_add(free.bytes), held.within.saturating_add(free.within)),
        _ => return None,
    };
    Some(LimitReport {
        low_bytes: Some(bytes.saturating_sub(within)),
        high_bytes: Some(bytes.saturating_add(within)),
        source: "oom_message",
    })
}

fn peak(message: &OomMessage) -> PeakReport {
    let bytes = |q: Option<whyoom_text::Quantity>| q.map_or(0, |q| q.bytes);
    PeakReport {
        requested_bytes: 0,
        allocated_bytes: bytes(message.allocated_bytes),
        active_bytes: bytes(message.active_bytes.or(message.allocated_bytes)),
        reserved_bytes: bytes(message.reserved_bytes),
        event: None,
    }
}

fn bound(message: &OomMessage) -> BoundReport {
    let (Some(live), Some(request)) = (message.allocated_bytes, message.request_bytes) else {
        return BoundReport::default();
    };
    let compact = live.bytes.saturating_add(request.bytes);
    let high = limit(message).and_then(|l| l.high_bytes);
    BoundReport {
        compact_bytes: compact,
        bytes_to_free: high.map_or(0, |high| compact.saturating_sub(high)),
        fits_from_bytes_default: None,
        fits_from_bytes_best: None,
    }
}

/// Whether the message comes of CUDA graphs' pools, by its figures or by the words around it.
fn has_graphs(scene: &Scene<'_>) -> bool {
    scene.about.says(Doing::CudaGraphs).is_some()
}

/// Whether figures of what is reserved are missing by design.
fn is_asynchronous(message: &OomMessage) -> bool {
    message.backend == Backend::Async
}

/// Settings, calls and code that fragmentation is met with, where they exist in the releases that print the message.
fn against_fragmentation(scene: &Scene<'_>) -> Vec<crate::explanation::Remedy> {
    offers::against_fragmentation(scene.about, scene.message)
}
