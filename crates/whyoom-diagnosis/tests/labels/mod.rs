//! Verdicts on labelled recordings.
#![allow(dead_code, unreachable_pub, clippy::print_stdout, reason = "the score is what these tests are for")]

use std::fmt::Write as _;
use std::path::Path;
use whyoom_diagnosis::explanation::{Cause, Confidence, DeviceReport};
use whyoom_diagnosis::{ExplainOptions, InputMeta, explain};
use whyoom_snapshot::{ReadOptions, read_path};

pub fn report(path: &Path) -> DeviceReport {
    let snapshot = read_path(path, &ReadOptions::default()).expect("readable");
    let meta = InputMeta { path: path.display().to_string(), size_bytes: 0 };
    let mut explanation = explain(&[(meta, snapshot)], &ExplainOptions::default());
    assert!(!explanation.devices.is_empty(), "{} has a device", path.display());
    explanation.devices.remove(0)
}

/// The stable name of a cause, as the contract writes it.
pub fn name(cause: Cause) -> String {
    serde_json::to_value(cause).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn texts(value: &serde_json::Value) -> Vec<String> {
    value.as_array().map(|a| a.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()).unwrap_or_default()
}

/// Explains each recording in `dir` that its `labels.json` names.
///
/// # Panics
/// Where a verdict is not the one labelled.
pub fn check(dir: &Path) {
    let text = std::fs::read_to_string(dir.join("labels.json")).expect("labels are readable");
    let labels: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).expect("labels are JSON");
    let (mut right, mut total, mut misses) = (0, 0, String::new());
    for (recording, label) in &labels {
        let mut accepted = texts(&label["also_acceptable"]);
        accepted.insert(0, label["cause"].as_str().unwrap_or_default().to_owned());
        for kind in ["oom.pickle.xz", "pickle.xz"] {
            let path = dir.join(format!("{recording}.{kind}"));
            if !path.exists() {
                continue;
            }
            total += 1;
            let device = report(&path);
            let first = &device.findings[0];
            let cause = name(first.cause);
            let mut wrong = Vec::new();
            if !accepted.contains(&cause) {
                wrong.push(format!("expected {accepted:?}"));
            }
            if accepted[0] == "healthy"
                && cause == "healthy"
                && device.findings.iter().any(|f| f.cause != Cause::Healthy && f.confidence > Confidence::Weak)
            {
                wrong.push("another finding above weak".to_owned());
            }
            if let Some(culprit) = label.get("culprit").filter(|_| cause == accepted[0]) {
                let mut lines: Vec<u64> = culprit["also_lines"]
                    .as_array()
                    .map(|a| a.iter().filter_map(serde_json::Value::as_u64).collect())
                    .unwrap_or_default();
                lines.extend(culprit["line"].as_u64());
                let file = culprit["file"].as_str().unwrap_or_default();
                let named = first
                    .culprits
                    .first()
                    .is_some_and(|c| c.file.ends_with(file) && lines.contains(&u64::from(c.line)));
                if !named {
                    wrong.push(format!("culprit not {file}:{lines:?}"));
                }
            }
            let subcause = label["subcause"].as_str();
            let others: Vec<String> = device.findings[1..].iter().map(|f| name(f.cause)).collect();
            let culprit = first
                .culprits
                .first()
                .map(|c| format!("{}:{}", c.file.rsplit('/').next().unwrap_or(""), c.line))
                .unwrap_or_default();
            println!(
                "{} {recording:32} {kind:13} {cause:14} {:?} {:?}{} {culprit} others {others:?} steps {} {}",
                if wrong.is_empty() { "ok  " } else { "MISS" },
                first.confidence,
                first.subcause,
                if cause == accepted[0] && subcause.is_some() && subcause != first.subcause { " (SUB!)" } else { "" },
                device.steps.count,
                device.steps.source,
            );
            if wrong.is_empty() {
                right += 1;
            } else {
                let _ = writeln!(
                    misses,
                    "{recording}.{kind}: {cause} ({:?}); {}\n   {}",
                    first.confidence,
                    wrong.join("; "),
                    first.summary
                );
            }
        }
    }
    println!("{right} of {total} files right\n{misses}");
    assert!(misses.is_empty(), "{misses}");
}
