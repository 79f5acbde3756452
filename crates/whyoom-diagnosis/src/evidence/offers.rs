//! What can be tried, where no replay can verify it: every remedy here says so.

use whyoom_text::messages::{Backend, OomMessage};

use super::dossier::About;
use crate::explanation::{Remedy, RemedyOutcome};
use crate::words;

/// A remedy that follows from reasoning alone.
fn offer(kind: &'static str, name: &str, apply: impl Into<String>, note: &str) -> Remedy {
    Remedy {
        id: format!("{kind}/{name}"),
        kind,
        apply: apply.into(),
        outcome: RemedyOutcome::NotVerified,
        scope: "failing_request",
        basis: "reasoning",
        peak_reserved_bytes: None,
        peak_reserved_range: None,
        tie_sensitive: false,
        headroom_bytes: None,
        passes_from_limit_bytes: None,
        passes_under_bytes: None,
        first_failure: None,
        retries: 0,
        driver_allocations: 0,
        driver_frees: 0,
        maps: 0,
        unmaps: 0,
        synchronisations: 0,
        note: (!note.is_empty()).then(|| note.to_owned()),
    }
}

/// Settings for a layout in pieces, where the releases have them and the text does not exclude them.
pub(super) fn against_fragmentation(about: &About<'_>, message: &OomMessage) -> Vec<Remedy> {
    let mut list = Vec::new();
    let releases = message.releases;
    let is_native = matches!(message.backend, Backend::Cuda | Backend::Hip | Backend::Other | Backend::Npu);
    let spare = message
        .reserved_unallocated_bytes
        .zip(message.takeable_bytes())
        .zip(message.request_bytes)
        .and_then(|((unused, free), request)| unused.bytes.saturating_add(free.bytes).checked_sub(request.bytes));
    if is_native && !about.has_expandable() && !about.lacks_expandable() {
        let age = if releases.may_be(2, 1) {
            ""
        } else {
            "PyTorch 2.1 or later has it, and this message is of an earlier one."
        };
        let left = spare.map_or(String::new(), |spare| {
            format!(
                "Without gaps the request would have left {}, so later requests may fail all the same.",
                words::bytes(spare)
            )
        });
        let note = format!("{age} {left}");
        let mut remedy = expandable(note.trim());
        remedy.basis = "arithmetic";
        list.push(remedy);
    }
    if is_native && !about.has_expandable() {
        let below = message.request_bytes.map_or(512, |q| (q.bytes >> 21).clamp(21, 512));
        let note = "Blocks above the size are not split, so large ones stay whole for large requests; it can also reserve far \
                    more, so verify it on a recording before it is used. PyTorch 1.8.2 or later.";
        list.push(offer("setting", "max_split_size_mb", format!("max_split_size_mb:{below}"), note));
    }
    list.push(offer(
        "code",
        "large_first",
        "make the largest buffers first, and before small tensors that stay",
        "Small tensors that live long and lie in a large segment keep it from being given back.",
    ));
    list
}

/// Less of everything, and a larger card where this one would be too small even without what is lost.
pub(super) fn against_capacity(needed: u64, outside: Option<u64>, total: Option<u64>) -> Vec<Remedy> {
    let mut list = vec![smaller_batch(), checkpointing()];
    let with_outside = needed.saturating_add(outside.unwrap_or(0));
    if total.is_none_or(|total| with_outside > total) {
        list.push(larger_card(with_outside));
    }
    list
}

/// Where a checkpoint is being made.
pub(super) fn against_saving() -> Vec<Remedy> {
    vec![
        offer(
            "code",
            "save_sharded",
            "save a sharded state dict (torch.distributed.checkpoint)",
            "Then no rank gathers parameters that it does not own.",
        ),
        offer(
            "code",
            "save_offloaded",
            "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)",
            "Gathers on the CPU of one rank.",
        ),
    ]
}

pub(super) fn smaller_batch() -> Remedy {
    let note = "Frees activations, not parameters or optimizer state; gradient accumulation keeps the effective batch.";
    offer("workload", "smaller_batch", "a smaller batch or shorter sequences", note)
}

fn checkpointing() -> Remedy {
    offer("code", "checkpointing", "activation checkpointing", "Helps where activations are most of what is live.")
}

pub(super) fn larger_card(needed: u64) -> Remedy {
    let mut remedy = offer("environment", "larger_card", format!("a card with more than {}", words::bytes(needed)), "");
    remedy.basis = "arithmetic";
    remedy
}

pub(super) fn smaller_tensor() -> Remedy {
    let note = "The line that asks for it says which tensor; look at the shapes that go in.";
    offer("code", "smaller_tensor", "make the tensor in parts, or not at all", note)
}

pub(super) fn memory_efficient_attention() -> Remedy {
    let apply = "scaled_dot_product_attention with a memory-efficient kernel";
    offer("code", "attention", apply, "If the tensor is an attention matrix: it is then never made whole.")
}

pub(super) fn split_tensor() -> Remedy {
    offer("code", "split_tensor", "make the tensor in parts below the block limit", "")
}

pub(super) fn raise_fraction() -> Remedy {
    let apply = "torch.cuda.set_per_process_memory_fraction(1.0)";
    offer("environment", "raise_fraction", apply, "Or take out the call or setting that set the cap.")
}

pub(super) fn drop_throw() -> Remedy {
    let note = "Then PyTorch first gives back what it caches and tries again, before it fails.";
    offer("setting", "throw_on_cudamalloc_oom:False", "throw_on_cudamalloc_oom:False", note)
}

pub(super) fn mps_watermark() -> Remedy {
    let apply = "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 in the environment, before python starts";
    offer("setting", "mps_watermark", apply, "Takes the limit away; the whole system may then freeze or swap.")
}

pub(super) fn see_processes() -> Remedy {
    offer("environment", "see_processes", "close what else uses the card (nvidia-smi shows it)", "")
}

pub(super) fn free_others() -> Remedy {
    let note = "A process that nvidia-smi does not name lives in another container or on the host; see there.";
    offer("environment", "free_others", "end the other processes on the card, or wait for them", note)
}

pub(super) fn choose_card() -> Remedy {
    offer("environment", "choose_card", "another card: CUDA_VISIBLE_DEVICES=N", "")
}

pub(super) fn other_libraries() -> Remedy {
    let apply = "give the other library in this process a limit, or a process of its own";
    offer("environment", "other_libraries", apply, "")
}

pub(super) fn own_device_only() -> Remedy {
    let apply = "torch.cuda.set_device(local_rank) first, and torch.load(…, map_location='cpu')";
    offer("code", "own_device_only", apply, "So that each process keeps to its own card.")
}

pub(super) fn native_backend() -> Remedy {
    let note = "The native allocator prints what it holds, and its layout can be recorded. PyTorch 2.14 and later trim the \
                driver's pool before they fail.";
    offer("setting", "backend:native", "backend:native", note)
}

pub(super) fn fewer_graphs() -> Remedy {
    let note = "Each captured shape keeps a pool; graphs that share one (graph_pool_handle) keep one for all.";
    offer("code", "fewer_graphs", "capture fewer shapes, or let graphs share a pool", note)
}

pub(super) fn without_graphs() -> Remedy {
    let apply = "torch.compile(mode=\"default\")";
    offer("code", "without_graphs", apply, "Without CUDA graphs, as a test: what then is missing was in their pools.")
}

pub(super) fn against_workspace() -> Vec<Remedy> {
    vec![
        offer(
            "code",
            "cudnn_benchmark_off",
            "torch.backends.cudnn.benchmark = False",
            "Then no algorithm is chosen by trying them all, each with its own workspace.",
        ),
        offer("workload", "fixed_shapes", "pad inputs to few different shapes", "Each new shape is a new search."),
    ]
}

pub(super) fn smaller_optimizer() -> Vec<Remedy> {
    vec![
        offer(
            "code",
            "no_foreach",
            "optimizer with foreach=False",
            "Works on one parameter after the other, without a temporary copy of all; slower.",
        ),
        offer("code", "smaller_optimizer", "an optimizer with less state (8 bits, factored, sharded)", ""),
    ]
}

pub(super) fn no_graph_kept() -> Vec<Remedy> {
    vec![
        offer(
            "code",
            "detach",
            ".item() or .detach() on what is summed or stored across steps",
            "A loss that is added up as a tensor keeps the graph of each step alive.",
        ),
        offer(
            "code",
            "no_grad",
            "torch.no_grad() around evaluation",
            "And outputs to the CPU where they are collected.",
        ),
    ]
}

pub(super) fn no_grad() -> Remedy {
    offer("code", "no_grad", "with torch.no_grad(): around the evaluation", "")
}

pub(super) fn collect_less() -> Remedy {
    let note = "What is collected over an epoch lives until its end, on the card unless it is moved.";
    offer("code", "collect_less", "keep .item() or .cpu() of what is collected over an epoch", note)
}

pub(super) fn bound_inputs() -> Remedy {
    let note = "One long input sets the peak; sort by length or cap it.";
    offer("workload", "bound_inputs", "a bound on the length or the number of tokens of a batch", note)
}

pub(super) fn autocast_cache() -> Remedy {
    let apply = "torch.autocast(…, cache_enabled=False), or leave the autocast block after each call";
    offer("code", "autocast_cache", apply, "Autocast keeps half copies of parameters until its outermost block ends.")
}

pub(super) fn fewer_streams() -> Remedy {
    let apply = "wait for the side stream (wait_stream) before tensors are dropped, instead of record_stream";
    offer("code", "fewer_streams", apply, "Then their blocks are free at once.")
}

pub(super) fn leave_room() -> Remedy {
    let apply = "torch.cuda.set_per_process_memory_fraction(0.95)";
    offer("environment", "leave_room", apply, "Leaves room for what is outside PyTorch's allocator.")
}

pub(super) fn no_cycles() -> Remedy {
    let apply = "break the cycle (weakref, no lambda that holds self), or gc.collect() where it is due";
    offer("code", "no_cycles", apply, "")
}

pub(super) fn train_mode() -> Remedy {
    offer(
        "code",
        "train_mode",
        "model.train() where checkpointing is to act",
        "Most models check that they are in training.",
    )
}

pub(super) fn lower_utilization(fraction: f64) -> Remedy {
    let fraction = (fraction * 100.0).floor() / 100.0;
    let apply = format!("a GPU memory utilization of {fraction:.2} or lower");
    let mut remedy = offer("environment", "lower_utilization", apply, "");
    remedy.basis = "arithmetic";
    remedy
}

pub(super) fn pageable() -> Remedy {
    offer(
        "code",
        "pageable",
        "pin_memory=False, or less pinned memory",
        "Pinned memory is the host's, and cannot be paged out.",
    )
}

pub(super) fn shared_memory() -> Remedy {
    let apply = "a larger /dev/shm (docker run --shm-size=8g), or fewer DataLoader workers";
    offer("environment", "shared_memory", apply, "")
}

pub(super) fn host_memory() -> Remedy {
    offer("environment", "host_memory", "fewer workers, smaller prefetch, or more memory of the host", "")
}

pub(super) fn page_file() -> Remedy {
    let note = "Windows counts GPU memory against RAM plus page file.";
    offer("environment", "page_file", "a larger page file", note)
}

pub(super) fn settings_line(line: &str) -> Remedy {
    let mut remedy = offer("setting", "corrected", line, "");
    remedy.scope = "whole_run";
    remedy
}

pub(super) fn expandable(note: &str) -> Remedy {
    offer("setting", "expandable_segments:True", "expandable_segments:True", note)
}

pub(super) fn no_expandable() -> Remedy {
    let note = "Memory of expandable segments cannot be handed to other processes by the older calls.";
    offer("setting", "expandable_segments:False", "expandable_segments:False", note)
}
