//! What to do next: the line to paste, the code to mend, or what to record.

use whyoom_diagnosis::explanation::{Cause, Finding, Remedy, ReplayStatus};

use super::{
    choice::is_pair,
    reading::{Reading, is_healthy, reading},
};
use crate::{
    number::count,
    text::{
        doc::{Doc, Tone},
        words::{View, source_line},
    },
};

/// Column at which the labelled lines begin their text.
const COLUMN: usize = 10;

pub(super) fn next(doc: &mut Doc, view: &View<'_>) {
    let device = view.device;
    let Some(verdict) = device.findings.first() else { return };
    match verdict.cause {
        Cause::Healthy => {}
        Cause::Undetermined => record(doc, view),
        // A setting delays a leak; it is never the advice.
        Cause::Leak => mend(doc, view, verdict),
        _ => {
            if !paste_setting(doc, view) && !is_helped(view) {
                advise(doc, verdict);
            }
        }
    }
    fits_from(doc, view);
}

/// The setting to use, ready to paste. `false` if none passes with room.
fn paste_setting(doc: &mut Doc, view: &View<'_>) -> bool {
    let device = view.device;
    let settings = || device.remedies.iter().filter(|r| r.kind == "setting");
    let good = |r: &&Remedy| matches!(reading(device, r), Reading::Passes | Reading::Lowers);
    // One key is understood, kept and removed more easily than two; a pair is advised only where one is not enough.
    if let Some(best) = settings().filter(good).find(|r| !is_pair(&r.apply)).or_else(|| settings().find(good)) {
        doc.blank();
        let line = format!("PYTORCH_CUDA_ALLOC_CONF={}", best.apply);
        doc.verbatim(&[(Tone::Heading, "Use it:".into()), (Tone::Plain, "   ".into()), (Tone::Code, line)]);
        return true;
    }
    let tried = settings().count();
    if tried > 0
        && device.replay.status == ReplayStatus::Exact
        && device.oom.is_some()
        && device.bound.bytes_to_free == 0
    {
        doc.blank();
        let text = if settings().any(|r| reading(device, r) == Reading::Gamble) {
            format!("Of the {} settings tried, none passes with room to spare.", count(tried as u64))
        } else {
            format!("None of the {} settings tried gets past this request.", count(tried as u64))
        };
        doc.paragraph(0, Tone::Plain, &text);
    }
    false
}

/// Whether something that is no setting was shown to help: the list of remedies says it, advice would say it twice.
fn is_helped(view: &View<'_>) -> bool {
    let device = view.device;
    device
        .remedies
        .iter()
        .any(|r| r.kind != "setting" && matches!(reading(device, r), Reading::Passes | Reading::Lowers))
}

fn label(doc: &mut Doc, name: &str, text: &str) {
    doc.entry(0, &[(Tone::Heading, name.into())], COLUMN, &[(Tone::Plain, text.into())]);
}

/// Advice for a leak: which line's results to let go.
fn mend(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    doc.blank();
    let line = finding
        .culprits
        .first()
        .map_or_else(|| "these lines".to_owned(), |c| source_line(view.sources.get(&c.file), c.line));
    let text = match finding.subcause {
        Some("autograd_graph") => {
            format!(
                "what {line} returns keeps its whole graph: call it under torch.no_grad(), or keep only .detach() or .item() of it"
            )
        }
        Some("exception_frames") => {
            format!(
                "a caught exception keeps its frames, and so what {line} made: leave the except block before trying again"
            )
        }
        Some("reference_cycle") => {
            format!("what {line} makes is in a reference cycle: break it, or call gc.collect() between steps")
        }
        Some("state_per_epoch") => {
            format!("what {line} makes outlives its epoch: drop the old state before making the new")
        }
        _ => format!(
            "find what still refers to the results of {line} and drop it; keep .item() or .cpu() of what you log"
        ),
    };
    label(doc, "Do this:", &text);
}

/// Advice where nothing tried passes. It is reasoning, not replay, and claims nothing of the outcome.
fn advise(doc: &mut Doc, finding: &Finding) {
    let text = match finding.cause {
        Cause::Capacity => {
            "less per step (a smaller batch with accumulation, gradient checkpointing) or a larger limit"
        }
        Cause::Spike => {
            "bound the step that stands out: cap or bucket its lengths, split its batch, or give evaluation its own batch size"
        }
        Cause::Outside => "see who holds the rest (nvidia-smi), and free that",
        Cause::Limit => "raise the cap: torch.cuda.set_per_process_memory_fraction, or a larger MIG slice",
        Cause::PendingFree => {
            "wait for the other stream before freeing in bulk, or drop record_stream where an event will do"
        }
        Cause::PrivatePool => "capture fewer graphs, let them share a pool, or drop those no longer replayed",
        Cause::Fragmentation => "make sizes repeat: pad or bucket the lengths that change from step to step",
        Cause::Settings | Cause::Leak | Cause::Healthy | Cause::Undetermined => return,
    };
    doc.blank();
    label(doc, "Do this:", text);
}

/// What to record, for a verdict that needs more.
fn record(doc: &mut Doc, view: &View<'_>) {
    // A failure that the trace holds lacks a limit, which the list of remedies asks for.
    if view.device.oom.is_some() {
        return;
    }
    doc.blank();
    doc.paragraph(0, Tone::Heading, "Record next:");
    for (code, why) in [
        ("torch.cuda.memory._record_memory_history()", "before the model is built"),
        ("torch.cuda.memory._dump_snapshot(\"oom.pickle\")", "where the OOM is caught"),
    ] {
        doc.entry(2, &[(Tone::Code, code.into())], 52, &[(Tone::Dim, format!("# {why}"))]);
    }
}

fn fits_from(doc: &mut Doc, view: &View<'_>) {
    let bound = &view.device.bound;
    let text = match (bound.fits_from_bytes_default, bound.fits_from_bytes_best) {
        (Some(default), Some(best)) if default != best => {
            format!("from {} with default settings, from {} with the best", view.bytes(default), view.bytes(best))
        }
        (Some(default), _) => format!("from {} with default settings", view.bytes(default)),
        (None, Some(best)) => format!("from {} with the best settings", view.bytes(best)),
        (None, None) => return,
    };
    if !is_healthy(view.device) || view.options.verbose {
        label(doc, "Fits:", &text);
    }
}

/// What else can be asked.
pub(super) fn more(doc: &mut Doc, view: &View<'_>) {
    doc.blank();
    let mut parts = Vec::new();
    if !view.options.verbose {
        parts.push("-v for all of it");
    }
    if view.device.replay.events > 0 {
        parts.push("whyoom replay --settings S FILE tries another setting");
    }
    if !parts.is_empty() {
        doc.entry(0, &[(Tone::Dim, "More:".into())], 7, &[(Tone::Dim, parts.join(" · "))]);
    }
}
