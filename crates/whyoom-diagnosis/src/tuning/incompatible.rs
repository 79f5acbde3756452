//! Where settings cannot be used, or do nothing.

use whyoom_allocator::{Release, Settings, settings::canonical};
use whyoom_snapshot::Snapshot;

/// What `settings` do not go together with in `release`, a phrase each.
pub(crate) fn incompatible(settings: &Settings, release: Release, snapshot: &Snapshot) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut push = |text: &str| all.push(text.to_owned());
    if settings.expandable_segments {
        push("Windows, and systems without the driver's virtual-memory calls (some of WSL and Jetson)");
        if !release.at_least(2, 5) {
            push("sharing tensors between processes (CUDA IPC, up to torch 2.4)");
        }
        push("libraries that register GPU memory themselves (RDMA): try them first");
    }
    if settings.garbage_collection_threshold > 0.0 {
        push("runs without a memory fraction: the threshold acts under one only");
    }
    if *settings != Settings::default() {
        push("backend:cudaMallocAsync, which reads none of this");
    }
    let first = snapshot.torch.at_least.as_deref().and_then(|t| t.parse::<Release>().ok());
    if let Some(first) = first.filter(|f| *f < release && canonical(settings, *f).is_err()) {
        all.push(format!("torch {first}, which this file can be of and which refuses it"));
    }
    all
}
