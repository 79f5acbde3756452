//! Verdicts on real recordings: set `WHYOOM_CORPUS` to a directory that holds `recordings/` with a `labels.json`.

#![allow(clippy::print_stdout, reason = "the score is what these tests are for")]

mod labels;

use std::path::{Path, PathBuf};

fn corpus() -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("WHYOOM_CORPUS") else {
        println!("skipped: WHYOOM_CORPUS is not set");
        return None;
    };
    Some(Path::new(&dir).to_path_buf())
}

#[test]
fn every_label_is_met() {
    let Some(dir) = corpus() else { return };
    labels::check(&dir.join("recordings"));
}

#[test]
fn public_snapshots_have_a_verdict() {
    let Some(dir) = corpus() else { return };
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir.join("public-snapshots"))
        .expect("snapshots are readable")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.to_string_lossy().ends_with(".pickle.xz"))
        .collect();
    all.sort();
    for path in all {
        let device = labels::report(&path);
        let first = &device.findings[0];
        println!(
            "{:30} {:?} {:?} {:?} {}/{} steps {} {}: {}",
            path.file_name().unwrap_or_default().display().to_string(),
            first.cause,
            first.confidence,
            device.replay.status,
            device.replay.matched,
            device.replay.events,
            device.steps.count,
            device.steps.source,
            first.summary
        );
    }
}
