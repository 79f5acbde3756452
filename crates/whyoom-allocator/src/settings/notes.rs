//! Warnings about values that are read well and yet do nothing, or fight each other.

use super::draft::Draft;
use super::keys::{Target, ValueKind};
use super::{Backend, WarningCode};

/// Adds them.
pub(super) fn add(draft: &mut Draft) {
    let place = |draft: &Draft, name: &str| {
        draft.parsed.mentioned.iter().find(|mention| mention.key.name == name).map(|mention| mention.position)
    };
    let settings = draft.parsed.settings.clone();
    if settings.backend == Backend::CudaMallocAsync {
        // `parseArgs` warns of some of them, `c10/cuda/CUDAAllocatorConfig.cpp`, 2.0.
        let ignored: Vec<_> = draft
            .parsed
            .mentioned
            .iter()
            .filter(|mention| mention.key.target == Target::Device)
            .filter(|mention| !matches!(mention.key.value, ValueKind::Backend | ValueKind::Fraction))
            .map(|mention| mention.key.name)
            .collect();
        if let (false, Some(at)) = (ignored.is_empty(), place(draft, "backend")) {
            let message = format!("`backend:cudaMallocAsync` ignores {}", ignored.join(", "));
            draft.warn(WarningCode::IgnoredByBackend, at, message);
        }
        return;
    }
    let fraction = settings.per_process_memory_fraction;
    // `garbage_collect_cached_blocks` runs only where a fraction is set, `c10/cuda/CUDACachingAllocator.cpp`, 1.12; from
    // 2.10 a fraction of 1 is none.
    let is_limited = fraction.is_some_and(|fraction| fraction < 1.0);
    if let (false, Some(at)) = (is_limited, place(draft, "garbage_collection_threshold")) {
        let how = if draft.release.at_least(2, 10) {
            "set `per_process_memory_fraction` below 1, or call `torch.cuda.set_per_process_memory_fraction`"
        } else {
            "call `torch.cuda.set_per_process_memory_fraction`"
        };
        let message = format!("the threshold acts only under a memory fraction: {how}");
        draft.warn(WarningCode::NeedsFraction, at, message);
    }
    if let (Some(true), Some(at)) =
        (fraction.map(|fraction| fraction <= 0.0), place(draft, "per_process_memory_fraction"))
    {
        draft.warn(WarningCode::NothingAllowed, at, "a memory fraction of 0 refuses every request");
    }
    if let (true, Some(split), Some(at)) =
        (settings.expandable_segments, settings.max_split_size, place(draft, "max_split_size_mb"))
    {
        let message = format!(
            "with expandable segments, a free range of {} MiB or more serves no smaller request, though it could be \
             split: leave `max_split_size_mb` out",
            split >> 20
        );
        draft.warn(WarningCode::SplitUnderExpandable, at, message);
    }
    let host: Vec<_> =
        draft.parsed.mentioned.iter().filter(|mention| mention.key.target == Target::PinnedHost).copied().collect();
    for mention in host {
        let message = format!("`{}` concerns pinned host memory only, not the GPU's", mention.key);
        draft.warn(WarningCode::HostOnly, mention.position, message);
    }
}
