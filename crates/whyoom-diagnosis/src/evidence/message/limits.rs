//! A limit refuses while the card has room.

use whyoom_text::messages::{Backend, Doing};

use super::super::answer::{Answer, finding};
use super::super::offers;
use super::scene::Scene;
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence};
use crate::words;

/// Refused before the driver was asked.
pub(super) fn rejected(scene: &Scene<'_>) -> Option<Answer> {
    if scene.message.form != "preemptively_rejected" {
        return None;
    }
    let summary = format!(
        "{}: it would have passed the fraction of the card that the program may take, and PyTorch refused it without asking \
         the driver. Two settings together do that: per_process_memory_fraction and throw_on_cudamalloc_oom.",
        scene.request()
    );
    let bytes = scene.message.request_bytes.map_or(0, |q| q.bytes);
    let finding = finding(Cause::Limit, Confidence::Proven, summary, bytes, scene.figures());
    Some(
        Answer::of(finding)
            .not(Cause::Outside, "the driver was not asked, so nobody else's memory refused the request")
            .offer([offers::raise_fraction(), offers::drop_throw()]),
    )
}

/// One allocation may not be larger than the platform gives at once.
pub(super) fn block(scene: &Scene<'_>) -> Option<Answer> {
    let (request, block) = (scene.message.request_bytes?, scene.message.block_limit_bytes?);
    let summary = format!(
        "{}: this platform gives no single block of more than {}. How much is free does not matter.",
        scene.request(),
        words::bytes(block.bytes)
    );
    let finding = finding(Cause::Limit, Confidence::Proven, summary, request.bytes, scene.figures());
    Some(
        Answer::of(finding)
            .not(Cause::Capacity, "the limit is on one block, not on the sum")
            .offer([offers::split_tensor()]),
    )
}

/// Metal gives no single buffer of more than a limit of its own.
pub(super) fn buffer(scene: &Scene<'_>) -> Option<Answer> {
    if scene.message.form != "mps_buffer_size" {
        return None;
    }
    let summary = format!(
        "{}: Metal gives no single buffer that large, however much is free. One tensor is too large for it.",
        scene.request()
    );
    let bytes = scene.message.request_bytes.map_or(0, |q| q.bytes);
    let finding = finding(Cause::Limit, Confidence::Strong, summary, bytes, scene.figures());
    Some(Answer::of(finding).offer([offers::split_tensor(), offers::memory_efficient_attention()]))
}

/// Apple's GPUs: the high watermark.
pub(super) fn mps(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    if message.backend != Backend::Mps {
        return None;
    }
    let (allocated, allowed, request) = (message.allocated_bytes?, message.allowed_bytes?, message.request_bytes?);
    let other = message.outside_bytes.map_or(0, |q| q.bytes);
    let sum = allocated.bytes.saturating_add(other).saturating_add(request.bytes);
    let [sum_text, allowed_text] = words::bytes_apart([sum, allowed.bytes]);
    let mut evidence = scene.figures();
    evidence.push(in_bytes(format!("live, other and requested bytes are {sum_text} together"), sum, &[]));
    if sum <= allowed.bytes.saturating_sub(allowed.within) {
        let summary = format!(
            "{}{}: together with other allocations {sum_text}, and {allowed_text} are allowed, so it is not the watermark that \
             refused but the system itself.",
            scene.request(),
            scene.state()
        );
        let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, request.bytes, evidence);
        return Some(
            Answer::of(unknown).not(Cause::Limit, "the sum is below what is allowed").offer([offers::smaller_batch()]),
        );
    }
    let arithmetic = format!(
        "{}: {} by PyTorch, {} otherwise and the request are {sum_text}, and {allowed_text} are allowed",
        scene.request(),
        words::bytes(allocated.bytes),
        words::bytes(other)
    );
    if let Some(clue) = scene.about.says(Doing::MpsWatermark) {
        let summary = format!(
            "{arithmetic}. The limit is in force, so `{}` did not reach PyTorch: it is read from the environment, once, when \
             torch is first imported; an argument or a later assignment sets nothing.",
            clue.text
        );
        let ignored = finding(Cause::Settings, Confidence::Strong, summary, request.bytes, evidence.clone());
        let limit = finding(Cause::Limit, Confidence::Proven, format!("{arithmetic}."), request.bytes, evidence);
        return Some(Answer::of(ignored).and(Some(limit)).offer([offers::mps_watermark()]));
    }
    let summary = format!("{arithmetic}: the high watermark refuses, which is a share of what the system recommends.");
    let finding = finding(Cause::Limit, Confidence::Proven, summary, request.bytes, evidence);
    Some(Answer::of(finding).offer([offers::mps_watermark(), offers::smaller_batch()]))
}

/// cudaMallocAsync asks whether live and requested bytes pass the fraction, and nothing else.
pub(super) fn asynchronous_cap(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (allowed, needed) = (message.allowed_bytes?, scene.needed()?);
    if message.backend != Backend::Async || needed <= allowed.bytes {
        return None;
    }
    let [needed_text, allowed_text] = words::bytes_apart([needed, allowed.bytes]);
    let summary = format!(
        "{}{}: together {needed_text}, and {allowed_text} are allowed by the memory fraction.",
        scene.request(),
        scene.state()
    );
    let cap = finding(Cause::Limit, Confidence::Proven, summary, needed - allowed.bytes, scene.figures());
    Some(Answer::of(cap).offer([offers::raise_fraction()]))
}

/// A fraction of the card, while the card has room.
pub(super) fn cap(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (request, allowed, headroom) = (message.request_bytes?, message.allowed_bytes?, message.headroom_bytes()?);
    if request.bytes <= headroom.bytes {
        return None;
    }
    if message.free_bytes.is_some_and(|free| free.bytes < request.bytes) {
        return None;
    }
    let fraction = message.total_bytes.filter(|t| t.bytes > 0).map(|t| allowed.bytes as f64 / t.bytes as f64);
    let of_card = fraction.map_or(String::new(), |f| format!(", {f:.2} of the card"));
    let free =
        message.free_bytes.map_or(String::new(), |f| format!(" while {} is free on the card", words::bytes(f.bytes)));
    let summary = format!(
        "{}: this program may reserve {}{of_card}, {} of that is left{free}. The cap refuses, not the card.",
        scene.request(),
        words::bytes(allowed.bytes),
        words::bytes(headroom.bytes)
    );
    let mut evidence = scene.figures();
    evidence.push(in_bytes(format!("{} is left under the cap", words::bytes(headroom.bytes)), headroom.bytes, &[]));
    let cap = finding(Cause::Limit, Confidence::Proven, summary, request.bytes - headroom.bytes, evidence);
    let answer = Answer::of(cap)
        .not(Cause::Outside, "what others hold does not matter: the card has enough free for the request")
        .offer([offers::raise_fraction()]);
    // Under the cap the layout may be at fault all the same.
    Some(answer.and(super::layout::under_limit(scene)))
}
