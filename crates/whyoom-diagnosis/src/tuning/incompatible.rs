//! Where settings cannot be used, or do nothing.

use whyoom_allocator::{Release, Settings};

/// What `settings` do not go together with in `release`, a phrase each.
pub(crate) fn incompatible(settings: &Settings, release: Release) -> Vec<String> {
    let mut all: Vec<&str> = Vec::new();
    if settings.expandable_segments {
        all.push("Windows, and systems without the driver's virtual-memory calls (some of WSL and Jetson)");
        if !release.at_least(2, 5) {
            all.push("sharing tensors between processes (CUDA IPC, up to torch 2.4)");
        }
        all.push("libraries that register GPU memory themselves (RDMA): try them first");
    }
    if settings.garbage_collection_threshold > 0.0 {
        all.push("runs without a memory fraction: the threshold acts under one only");
    }
    if *settings != Settings::default() {
        all.push("backend:cudaMallocAsync, which reads none of this");
    }
    all.into_iter().map(str::to_owned).collect()
}
