//! More is needed than there is.

use whyoom_text::messages::Impossible;
use whyoom_text::messages::{Backend, Doing};

use super::super::answer::{Answer, finding};
use super::super::offers;
use super::scene::Scene;
use crate::causes::{in_bytes, in_ratio};
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

/// The request alone is larger than the card.
pub(super) fn larger_than_card(scene: &Scene<'_>) -> Option<Answer> {
    let (request, total) = (scene.message.request_bytes?, scene.message.total_bytes?);
    if request.bytes.saturating_sub(request.within) <= scene.total_at_most()? || total.bytes == 0 {
        return None;
    }
    let times = request.bytes as f64 / total.bytes as f64;
    let mut evidence = scene.figures();
    evidence.push(in_ratio(format!("the request is {} times the card", words::ratio(times)), times, &[]));
    let holds_nothing = scene.message.allocated_bytes.is_some_and(|a| a.bytes == 0);
    let has_free = scene.message.free_bytes.is_some_and(|f| f.bytes >= total.bytes / 2);
    let shares_memory = scene.message.backend == Backend::Hip || times < 2.0;
    if holds_nothing && has_free && shares_memory {
        let summary = format!(
            "{}, more than the {} that the driver reports as the whole device, and nothing was allocated yet. On a device that \
             shares the host's memory the driver may report a part of it; whether that is so here, the message does not say.",
            scene.request(),
            words::bytes(total.bytes)
        );
        let finding = finding(Cause::Undetermined, Confidence::Weak, summary, request.bytes, evidence);
        return Some(
            Answer::of(finding)
                .not(Cause::Fragmentation, "PyTorch holds nothing yet, so nothing can be in pieces")
                .not(Cause::Leak, "PyTorch holds nothing yet")
                .ask(super::super::next::device_memory()),
        );
    }
    let more = if times < 1.5 {
        format!("{} more than the {}", words::bytes(request.bytes - total.bytes), words::bytes(total.bytes))
    } else {
        format!("{} times the {}", words::ratio(times), words::bytes(total.bytes))
    };
    let summary = format!(
        "{}, {more} of the whole card: no setting, no second card of the same size and no freed memory can serve it. \
         One tensor of the model is too large, as a full attention matrix, a one-hot encoding or an outer product is.",
        scene.request()
    );
    let finding = finding(Cause::Capacity, Confidence::Proven, summary, request.bytes - total.bytes, evidence);
    Some(
        Answer::of(finding)
            .not(Cause::Fragmentation, "the request is larger than the card")
            .not(Cause::Outside, "the request is larger than the card, even with nobody else on it")
            .offer([offers::smaller_tensor(), offers::memory_efficient_attention()]),
    )
}

/// More is live than the card has: the driver pages into the host's memory.
pub(super) fn beyond_card(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let spilled = [Impossible::AllocatedOverTotal, Impossible::ReservedAndFreeOverTotal];
    if !message.impossible.iter().any(|i| spilled.contains(i)) {
        return None;
    }
    let (live, total) = (message.allocated_bytes?, message.total_bytes?);
    let held = message.reserved_bytes.unwrap_or(live).bytes.max(live.bytes);
    let summary = format!(
        "{}{}, on a card of {}: more than it has. The driver was lending the host's memory (Windows' fallback, or unified \
         memory) until that ended too. A set-up that \"worked\" before did so by the same loan.",
        scene.request(),
        scene.state(),
        words::bytes(total.bytes)
    );
    let mut evidence = scene.figures();
    let over = held.saturating_sub(total.bytes);
    evidence.push(in_bytes(format!("{} more is held than the card has", words::bytes(over)), over, &[]));
    let finding = finding(Cause::Capacity, Confidence::Strong, summary, over, evidence);
    Some(
        Answer::of(finding)
            .not(Cause::Fragmentation, "what is live alone exceeds the card")
            .offer([offers::smaller_batch(), offers::larger_card(scene.needed().unwrap_or(held))]),
    )
}

/// What is live and the request do not fit, however they are laid out.
pub(super) fn all_live(scene: &Scene<'_>) -> Option<Answer> {
    let short = scene.short_of_compact()?;
    let message = scene.message;
    let takeable = message.takeable_bytes()?;
    let unused = message.reserved_unallocated_bytes?;
    let mut evidence = scene.figures();
    evidence.push(in_bytes(
        format!("{} would be missing even with no gap between blocks", words::bytes(short)),
        short,
        &[],
    ));
    let summary = format!(
        "{}{}. Unused and free bytes together are {}, {} too little: the amount is at fault, not the layout. Whether each step \
         needs as much or something is kept from step to step, one message cannot say.",
        scene.request(),
        scene.state(),
        words::bytes(unused.bytes.saturating_add(takeable.bytes)),
        words::bytes(short)
    );
    let is_beyond = scene.needed_at_least()? > scene.total_at_most().unwrap_or(u64::MAX);
    let sure = if is_beyond { Confidence::Proven } else { Confidence::Strong };
    let capacity = finding(Cause::Capacity, sure, summary, short, evidence);
    let answer = Answer::of(capacity).not(
        Cause::Fragmentation,
        format!("{} is missing even with no gap between blocks; no allocator setting can help", words::bytes(short)),
    );
    Some(less_of_it(scene, own_share(scene, answer)))
}

/// What is live and the request are more than the card has, whatever was free.
pub(super) fn beyond_total(scene: &Scene<'_>) -> Option<Answer> {
    let (needed, total) = (scene.needed()?, scene.message.total_bytes?);
    if scene.needed_at_least()? <= scene.total_at_most()? {
        return None;
    }
    let [needed_text, total_text] = words::bytes_apart([needed, total.bytes]);
    let summary =
        format!("{}{}: together {needed_text}, and the card has {total_text}.", scene.request(), scene.state());
    let capacity =
        finding(Cause::Capacity, Confidence::Proven, summary, needed.saturating_sub(total.bytes), scene.figures());
    Some(less_of_it(scene, Answer::of(capacity)))
}

/// What is live fills the card, though the unused bytes would have served this request.
pub(super) fn nearly_full(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (live, unused) = (message.allocated_bytes?, message.reserved_unallocated_bytes?);
    let reserved = message.reserved_bytes?;
    let spare = scene.spare_if_compact()?;
    let limit = reserved.bytes.saturating_add(message.takeable_bytes()?.bytes);
    let share = live.bytes as f64 / limit.max(1) as f64;
    let mut evidence = scene.figures();
    evidence.push(in_ratio(format!("{:.0} % of what PyTorch can have is live", share * 100.0), share, &[]));
    let summary = format!(
        "{}{}: {:.0} % of the {} that PyTorch can have is live. Whether each step needs as much or something is kept from step \
         to step, one message cannot say.",
        scene.request(),
        scene.state(),
        share * 100.0,
        words::bytes(limit)
    );
    let capacity = finding(Cause::Capacity, Confidence::Strong, summary, live.bytes, evidence);
    let second = format!(
        "A layout without gaps would have passed this one request with {} to spare: {} lie unused in {} reserved. That is \
         little; the amount comes first.",
        words::bytes(spare),
        words::bytes(unused.bytes),
        words::bytes(reserved.bytes)
    );
    let layout = finding(
        Cause::Fragmentation,
        Confidence::Weak,
        second,
        unused.bytes,
        vec![in_bytes(format!("{} to spare in a compact layout", words::bytes(spare)), spare, &[])],
    );
    let answer = Answer::of(capacity).and(Some(layout));
    Some(less_of_it(scene, own_share(scene, answer)))
}

/// What could be done with less, by what the program does at that moment.
fn less_of_it(scene: &Scene<'_>, answer: Answer) -> Answer {
    let place = scene.seen.reading.place;
    if scene.about.says_near(Doing::Saving, scene.seen.input, place).is_some() {
        let summary = "The failure lies in the making of a checkpoint, which gathers or copies parameters on the card beside the \
                       training's own: a moment's need, and not the training's.";
        let bytes = scene.message.request_bytes.map_or(0, |q| q.bytes);
        let mut spike = finding(Cause::Spike, Confidence::Weak, summary, bytes, Vec::new());
        spike.subcause = Some("checkpoint_save");
        return answer.and(Some(spike)).offer(offers::against_saving());
    }
    let needed = scene.needed().unwrap_or(0);
    let bytes = |q: Option<whyoom_text::Quantity>| q.map(|q| q.bytes);
    let (outside, total) = (bytes(scene.message.outside_bytes), bytes(scene.message.total_bytes));
    if scene.about.says_near(Doing::OptimizerStep, scene.seen.input, place).is_some() {
        return answer.and(optimizer(scene)).offer(offers::smaller_optimizer());
    }
    let kept = if scene.lead().is_empty() { Vec::new() } else { offers::no_graph_kept() };
    let mut answer = answer.offer(kept).offer(offers::against_capacity(needed, outside, total));
    if let Some(first) = answer.findings.first_mut() {
        first.evidence.extend(scene.lead());
    }
    answer
}

/// What contexts and others take of a small card is worth knowing where every byte counts.
fn own_share(scene: &Scene<'_>, mut answer: Answer) -> Answer {
    let (Some(outside), Some(total)) = (scene.message.outside_bytes, scene.message.total_bytes) else { return answer };
    if total.bytes > 0
        && outside.bytes >= total.bytes / 10
        && let Some(first) = answer.findings.first_mut()
    {
        let share = outside.bytes as f64 / total.bytes as f64;
        first.evidence.push(in_ratio(
            format!(
                "{} ({:.0} % of the card) is outside PyTorch's allocator",
                words::bytes(outside.bytes),
                share * 100.0
            ),
            share,
            &[],
        ));
        first.summary += " ";
        first.summary += &words::bytes(outside.bytes);
        first.summary += " of the card is not PyTorch's: contexts, a display, other programs; look there first.";
        answer.remedies.insert(0, offers::see_processes());
    }
    answer
}

/// The failing line is the optimizer's: its state comes into being at the first step.
fn optimizer(scene: &Scene<'_>) -> Option<Finding> {
    let place = scene.seen.reading.place;
    scene.about.says_near(Doing::OptimizerStep, scene.seen.input, place)?;
    let summary = "The traceback ends in the optimizer's step. Its state (one copy of the parameters for momentum, two for \
                   Adam, and a temporary one where it works on all of them at once) is made at the first call: that a run \
                   dies there and not in the forward pass is no leak.";
    let bytes = scene.message.request_bytes.map_or(0, |q| q.bytes);
    Some(finding(Cause::Spike, Confidence::Weak, summary, bytes, Vec::new()))
}
