//! What is unused would have served the request: the layout, private pools, workspaces.

use whyoom_text::messages::Doing;

use super::super::answer::{Answer, finding};
use super::super::{next, offers};
use super::scene::Scene;
use super::{against_fragmentation, amount, has_graphs, is_asynchronous};
use crate::causes::{in_bytes, in_ratio};
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

/// Unused bytes below this share of what is reserved are the usual loss; the amount comes first then.
const USUAL_LOSS: f64 = 0.10;

/// Freed blocks wait for other streams.
pub(super) fn pending(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (live, active, reserved) = (message.allocated_bytes?, message.active_bytes?, message.reserved_bytes?);
    let waiting = active.bytes.saturating_sub(live.bytes);
    if waiting < reserved.bytes / 10 {
        return None;
    }
    let summary = format!(
        "{} with {} live and {} active: {} are freed and still wait for another stream (record_stream), so they serve nobody.",
        scene.request(),
        words::bytes(live.bytes),
        words::bytes(active.bytes),
        words::bytes(waiting)
    );
    let mut evidence = scene.figures();
    evidence.push(in_bytes(format!("{} wait for other streams", words::bytes(waiting)), waiting, &[]));
    let pending = finding(Cause::PendingFree, Confidence::Strong, summary, waiting, evidence);
    Some(
        Answer::of(pending)
            .not(Cause::Fragmentation, "what is neither live nor waiting is little")
            .offer([offers::fewer_streams()]),
    )
}

/// The request would fit if what PyTorch holds unused lay in one piece.
pub(super) fn of_unused(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    if is_asynchronous(message) || scene.short_of_compact().is_some() {
        return None;
    }
    message.takeable_bytes()?;
    let share = message.unused_share()?;
    if let Some(answer) = graphs(scene) {
        return Some(answer);
    }
    if share < USUAL_LOSS {
        let is_open = share >= USUAL_LOSS / 2.0 && scene.spare_if_compact()? >= message.request_bytes?.bytes;
        return if is_open { either(scene) } else { amount::nearly_full(scene) };
    }
    if let Some(answer) = workspace(scene) {
        return Some(answer);
    }
    let layout = fragmentation(scene, Confidence::Strong)?;
    Some(
        Answer::of(layout)
            .not(Cause::Capacity, "what is live and the request fit together in what PyTorch can have")
            .offer(against_fragmentation(scene)),
    )
}

/// Live memory is most of what there is, and yet the gaps would have held the request more than twice.
fn either(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (unused, live) = (message.reserved_unallocated_bytes?, message.allocated_bytes?);
    let spare = scene.spare_if_compact()?;
    let can_have = message.reserved_bytes?.bytes.saturating_add(message.takeable_bytes()?.bytes);
    let share = live.bytes as f64 / can_have.max(1) as f64;
    let summary = format!(
        "{}{}. {:.0} % of the {} that PyTorch can have is live, so it is nearly full; and without gaps the request would have \
         left {}, so the layout failed it. Whether live memory still grows decides which of the two to mend: one message does \
         not say.",
        scene.request(),
        scene.state(),
        share * 100.0,
        words::bytes(can_have),
        words::bytes(spare)
    );
    let open = finding(Cause::Undetermined, Confidence::Weak, summary, unused.bytes, scene.figures());
    let mut list = offers::against_capacity(scene.needed()?, message.outside_bytes.map(|q| q.bytes), None);
    list.truncate(1);
    if !scene.about.has_expandable() && !scene.about.lacks_expandable() {
        list.push(offers::expandable("PyTorch 2.1 or later; passes this request, and not for long if memory grows."));
    }
    Some(Answer::of(open).offer(list))
}

/// The same under a cap.
pub(super) fn under_limit(scene: &Scene<'_>) -> Option<Finding> {
    let is_much = scene.message.unused_share()? >= USUAL_LOSS;
    (is_much && scene.short_of_compact().is_none()).then(|| fragmentation(scene, Confidence::Strong)).flatten()
}

fn fragmentation(scene: &Scene<'_>, confidence: Confidence) -> Option<Finding> {
    let message = scene.message;
    let (request, unused) = (message.request_bytes?, message.reserved_unallocated_bytes?);
    let takeable = message.takeable_bytes()?;
    let share = message.unused_share()?;
    let both = unused.bytes.saturating_add(takeable.bytes);
    let mut evidence = scene.figures();
    evidence.push(in_ratio(format!("{:.0} % of what is reserved is unused", share * 100.0), share, &[]));
    evidence.push(in_bytes(format!("unused and free bytes are {} together", words::bytes(both)), both, &[]));
    let alone = if unused.bytes >= request.bytes {
        format!("{} lie unused in what PyTorch holds, enough for the request", words::bytes(unused.bytes))
    } else {
        format!(
            "{} lie unused in what PyTorch holds and {} can still be had, {} together, enough for the request",
            words::bytes(unused.bytes),
            words::bytes(takeable.bytes),
            words::bytes(both)
        )
    };
    let live = message.allocated_bytes.map_or(String::new(), |q| format!(" with {} live", words::bytes(q.bytes)));
    let summary = format!(
        "{}{live}. {alone}, but in pieces: no free block was large enough, and PyTorch had given back every \
         segment that was wholly free before it gave up.",
        scene.request()
    );
    Some(finding(Cause::Fragmentation, confidence, summary, unused.bytes, evidence))
}

/// What is unused lies in pools of CUDA graphs.
fn graphs(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (request, unused) = (message.request_bytes?, message.reserved_unallocated_bytes?);
    let private = message.private_pool_bytes.map_or(0, |q| q.bytes);
    let is_printed = private >= request.bytes.min(unused.bytes / 2).max(1) && private > 0;
    if !is_printed && (!has_graphs(scene) || unused.bytes < request.bytes) {
        return None;
    }
    let (confidence, where_) = if is_printed {
        (Confidence::Strong, format!("{} of it in private pools by the message itself", words::bytes(private)))
    } else {
        (Confidence::Weak, "and the program captures CUDA graphs, whose pools nothing else may use".to_owned())
    };
    let summary = format!(
        "{}{}; {where_}. Memory in such a pool serves its graphs alone; ask how much of the unused \
         bytes is theirs before calling it fragmentation.",
        scene.request(),
        scene.state(),
    );
    let bytes = if is_printed { private } else { unused.bytes };
    let pool = finding(Cause::PrivatePool, confidence, summary, bytes, scene.figures());
    Some(
        Answer::of(pool)
            .not(Cause::Capacity, "what is live and the request fit together in what PyTorch can have")
            .offer([offers::fewer_graphs(), offers::without_graphs()])
            .ask(next::pools()),
    )
}

/// A convolution asks for a workspace as large as a good part of the card.
fn workspace(scene: &Scene<'_>) -> Option<Answer> {
    let message = scene.message;
    let (request, total) = (message.request_bytes?, message.total_bytes?);
    scene.about.says_near(Doing::Convolution, scene.seen.input, scene.seen.reading.place)?;
    if request.bytes < total.bytes / 10 {
        return None;
    }
    let summary = format!(
        "{} inside a convolution: one block of {:.0} % of the card. A block that large in a forward convolution is the \
         workspace of the algorithm that the library chose, or the unfolded input; other algorithms need less.",
        scene.request(),
        request.bytes as f64 / total.bytes as f64 * 100.0
    );
    let mut spike = finding(Cause::Spike, Confidence::Weak, summary, request.bytes, scene.figures());
    spike.subcause = Some("workspace");
    Some(
        Answer::of(spike)
            .and(fragmentation(scene, Confidence::Weak))
            .not(Cause::Capacity, "what is live and the request fit together in what PyTorch can have")
            .offer(offers::against_workspace())
            .offer(against_fragmentation(scene)),
    )
}
