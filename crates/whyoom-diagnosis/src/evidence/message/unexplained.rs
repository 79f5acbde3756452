//! What the figures exclude, where they do not decide.

use whyoom_text::messages::{Doing, Impossible, OomMessage, Release};

use super::super::answer::{Answer, finding};
use super::super::{next, offers};
use super::is_asynchronous;
use super::scene::Scene;
use crate::causes::{in_bytes, in_ratio};
use crate::explanation::{Cause, Confidence};
use crate::words;

/// Whether the releases that print the message have no place in it for a cap (2.1 to 2.4).
fn hides_cap(message: &OomMessage) -> bool {
    let within = |release: Release| (Release { major: 2, minor: 1 }..Release { major: 2, minor: 6 }).contains(&release);
    matches!(message.form, "capacty" | "capacity") && message.releases.at_least.is_some_and(within)
}

/// Memory of more than any device has, in bytes.
const NO_DEVICE: u64 = 64 << 40;

/// Figures that no device has: the text is damaged or was edited.
pub(super) fn impossible(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let total = message.total_bytes.map(|q| q.bytes);
    let is_beyond = |q: Option<whyoom_text::Quantity>| {
        q.is_some_and(|q| q.bytes > NO_DEVICE || total.is_some_and(|total| q.bytes / 8 > total))
    };
    let sizes = [message.total_bytes, message.free_bytes, message.allocated_bytes, message.reserved_bytes];
    let is_unlimited = message.impossible.contains(&Impossible::SizeUnlimited);
    if !is_unlimited && total != Some(0) && !sizes.into_iter().any(is_beyond) {
        return None;
    }
    let summary =
        "The message has figures that no device has: it is damaged, or was edited. Nothing is computed from it.";
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, 0, scene.figures());
    Some(Answer::of(unknown).ask(next::whole_text()))
}

/// The driver had more free than was asked.
pub(super) fn free_covers_request(scene: &Scene<'_>) -> Option<Answer> {
    if !scene.is_in_free() {
        return None;
    }
    let message = scene.message;
    let (request, free) = (message.request_bytes?, message.free_bytes?);
    let times = free.bytes as f64 / request.bytes.max(1) as f64;
    let mut reasons = Vec::new();
    if message.other_processes.iter().any(|p| p.bytes.is_some()) {
        reasons.push("another process gave memory back between the failure and the message");
    }
    if hides_cap(message) && !is_asynchronous(message) {
        reasons.push("a cap (set_per_process_memory_fraction), which these releases do not print");
    }
    reasons
        .push("a limit of the system: Windows' commit limit (page file), pinned host memory, the number of mappings");
    let summary = format!(
        "{} while the driver had {} free, {} times as much. So the card was not full when this was printed. What remains: {}.",
        scene.request(),
        words::bytes(free.bytes),
        words::ratio(times),
        reasons.join("; or ")
    );
    let mut evidence = scene.figures();
    evidence.push(in_ratio(format!("free bytes are {} times the request", words::ratio(times)), times, &[]));
    let listed: u64 = message.other_processes.iter().filter_map(|p| p.bytes).map(|b| b.bytes).sum();
    if listed > 0 {
        let sum = listed.saturating_add(free.bytes);
        evidence.push(in_bytes(
            format!("the processes listed and the free bytes are {} together", words::bytes(sum)),
            sum,
            &[],
        ));
    }
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, request.bytes, evidence);
    Some(
        Answer::of(unknown)
            .not(
                Cause::Capacity,
                format!("{} was free, {} times the request", words::bytes(free.bytes), words::ratio(times)),
            )
            .not(
                Cause::Fragmentation,
                "the driver had room for a whole new segment, so gaps in the old ones do not matter",
            )
            .ask(next::hidden_limit()),
    )
}

/// cudaMallocAsync prints no reserved bytes: what is neither live nor free may be its pool's or others'.
pub(super) fn asynchronous(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    if !is_asynchronous(message) {
        return None;
    }
    let (live, free, total) = (message.allocated_bytes?, message.free_bytes?, message.total_bytes?);
    let needed = scene.needed()?;
    let missing = total.bytes.checked_sub(live.bytes)?.checked_sub(free.bytes)?;
    let share = missing as f64 / total.bytes.max(1) as f64;
    let mut evidence = scene.figures();
    evidence.push(in_bytes(format!("{} is neither live nor free", words::bytes(missing)), missing, &[]));
    if scene.needed_at_least()? > scene.total_at_most()? {
        let summary = format!(
            "{}{}: together {}, more than the card's {}.",
            scene.request(),
            scene.state(),
            words::bytes(needed),
            words::bytes(total.bytes)
        );
        let capacity =
            finding(Cause::Capacity, Confidence::Proven, summary, needed - total.bytes.min(needed), evidence);
        return Some(Answer::of(capacity).offer(offers::against_capacity(needed, None, Some(total.bytes))));
    }
    // Up to a seventh of a card is what contexts and displays take; an allocator that loses more has it in pieces.
    if share <= 0.15 {
        let summary = format!(
            "{}{} on a card of {}: live and requested bytes would fit. {} is neither live nor free: contexts, a display, other \
             programs, or the driver's pool (cudaMallocAsync prints no more).",
            scene.request(),
            scene.state(),
            words::bytes(total.bytes),
            words::bytes(missing)
        );
        let outside = finding(Cause::Outside, Confidence::Strong, summary, missing, evidence);
        return Some(
            Answer::of(outside)
                .not(Cause::Capacity, "live and requested bytes are less than the card has")
                .offer([offers::free_others()])
                .ask(next::processes()),
        );
    }
    let summary = format!(
        "{}{} on a card of {}: live and requested bytes would fit. {} ({:.0} % of the card) is neither live nor free. \
         cudaMallocAsync does not print what its pool holds: it may be the pool in pieces, or other programs.",
        scene.request(),
        scene.state(),
        words::bytes(total.bytes),
        words::bytes(missing),
        share * 100.0
    );
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, missing, evidence);
    Some(
        Answer::of(unknown)
            .not(Cause::Capacity, "live and requested bytes are less than the card has")
            .not(Cause::Limit, "what is live and asked for is below any limit printed")
            .offer([offers::native_backend()])
            .ask(next::processes()),
    )
}

/// Some figures are there, too few for any of the rules.
pub(super) fn partial(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    message.request_bytes?;
    let cut = if message.is_cut { ", and the message is cut" } else { "" };
    let known: Vec<String> = scene.figures().into_iter().map(|e| e.statement).collect();
    let summary = format!("Too few figures to decide{cut}: {}.", known.join(", "));
    let bytes = message.request_bytes.map_or(0, |q| q.bytes);
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, bytes, scene.figures());
    Some(Answer::of(unknown).ask(if message.is_cut { next::whole_text() } else { next::processes() }))
}

/// No figure at all.
pub(super) fn no_figures(scene: &Scene<'_>) -> Answer {
    let message = scene.message;
    let place = scene.seen.reading.place;
    if scene.about.says_near(Doing::OptimizerStep, scene.seen.input, place).is_some() {
        return optimizer_state(scene);
    }
    let whose = if is_asynchronous(message) { " It is the form of backend:cudaMallocAsync." } else { "" };
    let cut = if message.is_cut { "the message is cut before its figures" } else { "the message has no figures" };
    let summary = format!("Memory of the device ran out, and {cut}: nothing can be computed from it.{whose}");
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, 0, scene.lead());
    let offers = if scene.lead().is_empty() { Vec::new() } else { offers::no_graph_kept() };
    let ask = if message.is_cut { next::whole_text() } else { next::after_bare(scene.about.releases) };
    Answer::of(unknown).offer(offers).ask(ask)
}

/// The optimizer's state by the number of parameters.
fn optimizer_state(scene: &Scene<'_>) -> Answer {
    let copy = scene.about.says(Doing::Parameters).and_then(|clue| clue.number).map(|n| n.saturating_mul(4));
    let mut evidence = Vec::new();
    let arithmetic = copy.map_or(String::new(), |copy| {
        evidence.push(in_bytes(format!("a copy of the parameters in 32 bits is {}", words::bytes(copy)), copy, &[]));
        format!(
            " A copy of the parameters in 32 bits is {}: momentum keeps one, Adam two ({}).",
            words::bytes(copy),
            words::bytes(copy.saturating_mul(2))
        )
    });
    let summary = format!(
        "Memory ran out in the optimizer's step, where its state comes into being at the first call.{arithmetic} It stays from \
         then on, at every step: an amount, no leak."
    );
    let capacity = finding(Cause::Capacity, Confidence::Weak, summary, copy.unwrap_or(0), evidence);
    Answer::of(capacity)
        .not(Cause::Leak, "state that is made once and kept does not grow")
        .offer(offers::smaller_optimizer())
        .ask(next::record())
}
