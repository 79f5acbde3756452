//! What to do next: the line to paste, the code to mend, or what to record.

use whyoom_diagnosis::explanation::{Cause, DeviceReport, Finding, Remedy, ReplayStatus};

use super::{
    choice::{mildest_workload, recommended},
    reading::{Reading, is_healthy, reading},
};
use crate::{
    number::count,
    text::{
        doc::{Doc, Tone, WIDTH},
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
            if !paste_setting(doc, view) {
                advise(doc, view, verdict);
            }
        }
    }
    fits_from(doc, view);
}

/// The setting to use, ready to paste. `false` if none passes with room.
fn paste_setting(doc: &mut Doc, view: &View<'_>) -> bool {
    let device = view.device;
    let settings = || device.remedies.iter().filter(|r| r.kind == "setting");
    if let Some(best) = recommended(device).map(|i| &device.remedies[i]) {
        doc.blank();
        let line = assignment(&best.apply);
        if COLUMN + line.chars().count() <= WIDTH {
            doc.verbatim(&[(Tone::Heading, "Use it:".into()), (Tone::Plain, "   ".into()), (Tone::Code, line)]);
        } else {
            doc.paragraph(0, Tone::Heading, "Use it:");
            doc.verbatim(&[(Tone::Plain, "  ".into()), (Tone::Code, line)]);
        }
        return true;
    }
    let tried = settings().count();
    if tried > 0
        && device.replay.status == ReplayStatus::Exact
        && device.oom.is_some()
        && device.bound.bytes_to_free == 0
    {
        doc.blank();
        let is_open = |r: &Remedy| matches!(reading(device, r), Reading::Gamble | Reading::Depends);
        let text = if settings().any(is_open) {
            format!("Of the {} settings tried, none passes with room to spare.", count(tried as u64))
        } else {
            format!("None of the {} settings tried gets past this request.", count(tried as u64))
        };
        doc.paragraph(0, Tone::Plain, &text);
    }
    false
}

/// The assignment, quoted where a shell would read more into it.
fn assignment(settings: &str) -> String {
    let is_plain = settings.chars().all(|c| c.is_ascii_alphanumeric() || "_:.,".contains(c));
    let quote = if is_plain { "" } else { "'" };
    format!("PYTORCH_CUDA_ALLOC_CONF={quote}{settings}{quote}")
}

/// What was shown to help and is no setting, as `half the batch passes`: the change that is mildest of those tried.
fn shown_to_help(device: &DeviceReport) -> Option<String> {
    let helps = |r: &&Remedy| {
        matches!(r.kind, "code" | "workload" | "call")
            && matches!(reading(device, r), Reading::Passes | Reading::Lowers)
    };
    let mildest = mildest_workload(device).map(|i| &device.remedies[i]).filter(|r| helps(r));
    let best = mildest.or_else(|| device.remedies.iter().find(helps))?;
    let what = if reading(device, best) == Reading::Lowers { "reserves less" } else { "passes" };
    Some(format!("{} {what}, as tried", best.apply))
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
        Some("autograd_graph") => match finding.growth.as_ref().and_then(|g| g.graphs_of) {
            Some("training") => format!(
                "a graph made at {line} stays alive after its backward pass: .detach() what is carried from step to \
                 step (hidden state, running loss), and drop retain_graph=True"
            ),
            Some("broken_off") => format!(
                "calls at {line} that no backward() followed keep their graphs: look for a caught exception that is \
                 kept, or a branch that skips backward() and keeps the loss"
            ),
            Some(_) => format!(
                "what {line} returns keeps its whole graph: call it under torch.no_grad(), or keep only .detach() or \
                 .item() of it"
            ),
            None => format!(
                "no backward pass frees the graphs made at {line}: call backward() in each step and keep .item() of \
                 the loss, or use torch.no_grad() if no gradient is wanted"
            ),
        },
        Some("exception_frames") => {
            format!(
                "a caught exception keeps its frames, and so what {line} made: leave the except block before trying again"
            )
        }
        Some("reference_cycle") => {
            format!(
                "what {line} makes goes in bursts, as reference cycles do when Python collects garbage: break the \
                 cycle, or drop or collect (gc.collect()) more often"
            )
        }
        Some("state_per_epoch") => {
            format!("what {line} makes outlives its epoch: drop the old state before making the new")
        }
        _ if finding.growth.as_ref().is_some_and(|g| g.queue == Some("backlog")) => format!(
            "bound the queue that {line} fills, as queue.Queue(maxsize=2) does, so that its producer waits for its consumer"
        ),
        _ => {
            let kept = kept_inside(view, finding).unwrap_or_else(|| format!("the results of {line}"));
            format!("find what still refers to {kept} and drop it; keep .item() or .cpu() of what you log")
        }
    };
    label(doc, "Do this:", &text);
}

/// The line inside the model that made nearly all of it, where it is no `forward`: a hook or a method that stores.
fn kept_inside(view: &View<'_>, finding: &Finding) -> Option<String> {
    let inside = finding.culprits.iter().find(|c| c.in_module_forward)?;
    let is_nearly_all = u128::from(inside.bytes) * 10 >= u128::from(finding.bytes_explained) * 9;
    let at = source_line(view.sources.get(&inside.file), inside.line);
    (is_nearly_all && inside.function != "forward").then(|| format!("what {}() makes at {at}", inside.function))
}

/// Advice where no setting is enough. It is reasoning, not replay, and claims nothing of the outcome; what was shown by
/// replay is added as such.
fn advise(doc: &mut Doc, view: &View<'_>, finding: &Finding) {
    let device = view.device;
    let text = match finding.cause {
        Cause::Capacity => smaller(device),
        Cause::Spike if finding.subcause == Some("workspace") => {
            "nothing, if it is fast enough: torch.backends.cudnn.benchmark = False spares the search"
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
        Cause::Fragmentation if finding.evidence.iter().any(|e| e.unit == "ratio") => {
            "make sizes repeat: pad or bucket the lengths that change from step to step"
        }
        Cause::Fragmentation => {
            "allocate what is large and long-lived first, before what comes and goes, or need a little less at this moment"
        }
        Cause::Settings => "unset PYTORCH_CUDA_ALLOC_CONF",
        Cause::Leak | Cause::Healthy | Cause::Undetermined => return,
    };
    doc.blank();
    let shown = shown_to_help(device).map(|s| format!("; {s}")).unwrap_or_default();
    label(doc, "Do this:", &format!("{text}{shown}"));
}

/// What to make smaller, by what holds most of the bytes.
fn smaller(device: &DeviceReport) -> &'static str {
    let at = device.categories.oom.as_ref().unwrap_or(&device.categories.peak);
    let total: u64 = at.iter().map(|c| c.bytes).fold(0, u64::saturating_add);
    let is_most = |names: &[&str]| {
        let part = at.iter().filter(|c| names.contains(&c.category)).map(|c| c.bytes).fold(0, u64::saturating_add);
        total > 0 && part > total / 2
    };
    if is_most(&["parameters", "buffers"]) {
        "a smaller, sharded or quantised model, or a larger limit: a smaller batch leaves the parameters"
    } else if is_most(&["parameters", "buffers", "gradients", "optimizer_state"]) {
        "less for each parameter (an optimizer with less state, sharding, lower precision), or a larger limit"
    } else if is_most(&["inputs"]) {
        "keep less data on the GPU (move it there batch by batch), or a larger limit"
    } else {
        "less per step (a smaller batch with accumulation, gradient checkpointing) or a larger limit"
    }
}

/// What to record, for a verdict that needs more.
fn record(doc: &mut Doc, view: &View<'_>) {
    // A failure that the trace holds lacks a limit, which the list of remedies asks for.
    if view.device.oom.is_some() {
        return;
    }
    doc.blank();
    if view.device.findings.first().is_some_and(|f| f.subcause == Some("cut_file")) {
        label(doc, "Do this:", "get the whole file: this one ends early, as a copy that was broken off does");
        return;
    }
    doc.paragraph(0, Tone::Heading, "Record next:");
    let torch = view.explanation.inputs.get(view.device.input).and_then(|i| i.torch.as_ref());
    let below = torch.and_then(|t| t.below.as_deref());
    // The arguments of `_record_memory_history` changed with 2.1; 1.13 has no trace of events.
    if below == Some("2.1") {
        for (code, why) in [
            ("torch.cuda.memory._record_memory_history(", "before the model is built"),
            ("    True, trace_alloc_max_entries=1_000_000,", ""),
            ("    trace_alloc_record_context=True)", ""),
            ("torch.cuda.memory._dump_snapshot(\"oom.pickle\")", "where the OOM is caught"),
        ] {
            let why = if why.is_empty() { String::new() } else { format!("# {why}") };
            doc.entry(2, &[(Tone::Code, code.into())], 52, &[(Tone::Dim, why)]);
        }
        return;
    }
    if below == Some("2.0") {
        doc.paragraph(2, Tone::Plain, "with torch 2.0 or later: torch 1.13 keeps no trace of allocations over time.");
    }
    for (code, why) in [
        ("torch.cuda.memory._record_memory_history()", "before the model is built"),
        ("torch.cuda.memory._dump_snapshot(\"oom.pickle\")", "where the OOM is caught"),
    ] {
        doc.entry(2, &[(Tone::Code, code.into())], 52, &[(Tone::Dim, format!("# {why}"))]);
    }
}

fn fits_from(doc: &mut Doc, view: &View<'_>) {
    // A larger card puts a leak off.
    if view.device.oom.is_some() && view.device.findings.first().is_some_and(|f| f.cause == Cause::Leak) {
        return;
    }
    let bound = &view.device.bound;
    let text = match (bound.fits_from_bytes_default, bound.fits_from_bytes_best) {
        // What reads the same is said once.
        (Some(default), Some(best)) if view.bytes(default) != view.bytes(best) => {
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
        parts.extend(["whyoom tune FILE", "whyoom replay --settings S FILE"]);
    }
    if !parts.is_empty() {
        doc.entry(0, &[(Tone::Dim, "More:".into())], 7, &[(Tone::Dim, parts.join(" · "))]);
    }
}
