//! What changed between two recordings: `whyoom.diff/1` of the JSON contract, field for field.
//!
//! Both sides are measured at their own peak of live bytes: two runs of one program reach it at other events.

mod sentence;
mod side;

use crate::explanation::{Culprit, Input, WarningLine};
use crate::tables::shared::Shared;
use crate::{ExplainOptions, InputMeta, explain};
use serde::Serialize;
use side::Side;
use std::collections::{BTreeMap, BTreeSet};
use whyoom_snapshot::Snapshot;

/// Lines of the program that are told, at most.
const LINES: usize = 12;

/// Everything `whyoom diff` says.
#[derive(Debug, Clone, Serialize)]
pub struct Diff {
    /// Always `whyoom.diff/1`.
    pub schema: &'static str,
    /// The two inputs, A first.
    pub inputs: Vec<Input>,
    /// Losses and oddities, in code order.
    pub warnings: Vec<WarningLine>,
    /// The answer in a sentence: that of the pair of devices that differ most.
    pub summary: String,
    /// Pairs of devices, in their order; the pair that differs most first.
    pub devices: Vec<DeviceDiff>,
}

/// A device of A beside one of B.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceDiff {
    /// The answer in a sentence.
    pub summary: String,
    /// Device index in A.
    pub device_a: u32,
    /// Device index in B.
    pub device_b: u32,
    /// Peak of live bytes.
    pub peak: Pair,
    /// Peak of reserved bytes.
    pub reserved: Pair,
    /// Completed steps.
    pub steps: Pair,
    /// Live bytes at the peak by category, the largest change first.
    pub categories: Vec<CategoryPair>,
    /// Lines of the program that held them, the largest change first.
    pub stacks: Vec<StackPair>,
    /// Settings strings; `null` where the file has none.
    pub settings: SettingsPair,
    /// What else differs, a sentence each.
    pub findings: Vec<String>,
}

/// A figure of A beside that of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// In A.
    pub a: u64,
    /// In B.
    pub b: u64,
    /// B less A.
    pub delta: i64,
}

impl Pair {
    /// `a` beside `b`; a difference beyond 63 bits is cut.
    pub fn new(a: u64, b: u64) -> Self {
        let delta = i128::from(b) - i128::from(a);
        Self { a, b, delta: i64::try_from(delta).unwrap_or(if delta < 0 { i64::MIN } else { i64::MAX }) }
    }
}

/// A category in A and B.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CategoryPair {
    /// Its name.
    pub category: &'static str,
    /// Bytes in A.
    pub a_bytes: u64,
    /// Bytes in B.
    pub b_bytes: u64,
}

/// A line of the program in A and B.
#[derive(Debug, Clone, Serialize)]
pub struct StackPair {
    /// The line, with the bytes and the example of the side that holds more.
    pub culprit: Culprit,
    /// Bytes in A.
    pub a_bytes: u64,
    /// Bytes in B.
    pub b_bytes: u64,
}

/// Settings strings of A and B.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingsPair {
    /// In A.
    pub a: Option<String>,
    /// In B.
    pub b: Option<String>,
}

/// Compares `b` with `a`, device by device in their order. Time is linear in the events of both.
pub fn diff(a: &(InputMeta, Snapshot), b: &(InputMeta, Snapshot), options: &ExplainOptions) -> Diff {
    let sides = |input: &(InputMeta, Snapshot)| -> Vec<Side> {
        let shared = Shared::new(&input.1);
        let is_wanted = |index: u32| options.devices.as_ref().is_none_or(|wanted| wanted.contains(&index));
        let devices = input.1.devices.iter().filter(|d| is_wanted(d.index));
        devices.map(|device| Side::new(&shared, device, options)).collect()
    };
    let (of_a, of_b) = rayon::join(|| sides(a), || sides(b));
    let mut devices: Vec<DeviceDiff> = of_a.iter().zip(&of_b).map(|(a, b)| compare(a, b)).collect();
    devices.sort_by_key(|d| std::cmp::Reverse(d.peak.delta.unsigned_abs()));
    let summary = devices
        .first()
        .map_or_else(|| "One of the two has no device to compare.".to_owned(), |first| first.summary.clone());
    let mut warnings = explain::warnings(std::slice::from_ref(a), None);
    for line in explain::warnings(std::slice::from_ref(b), None) {
        match warnings.iter_mut().find(|w| w.code == line.code) {
            Some(known) => known.count += line.count,
            None => warnings.push(line),
        }
    }
    if of_a.len() != of_b.len() {
        let message =
            format!("A has {} devices and B {}; those beyond the shorter list are left out", of_a.len(), of_b.len());
        warnings.push(WarningLine { code: "devices_left_out".to_owned(), count: 1, message });
    }
    warnings.sort_by(|x, y| x.code.cmp(&y.code));
    Diff { schema: "whyoom.diff/1", inputs: vec![explain::input(a), explain::input(b)], warnings, summary, devices }
}

fn compare(a: &Side, b: &Side) -> DeviceDiff {
    let names: BTreeSet<&'static str> = a.categories.keys().chain(b.categories.keys()).copied().collect();
    let of = |side: &Side, name: &str| side.categories.get(name).copied().unwrap_or(0);
    let mut categories: Vec<CategoryPair> = names
        .into_iter()
        .map(|category| CategoryPair { category, a_bytes: of(a, category), b_bytes: of(b, category) })
        .collect();
    categories.sort_by_key(|c| (std::cmp::Reverse(c.a_bytes.abs_diff(c.b_bytes)), c.category));
    DeviceDiff {
        summary: sentence::summary(a, b, &categories),
        device_a: a.device,
        device_b: b.device,
        peak: Pair::new(a.peak_live, b.peak_live),
        reserved: Pair::new(a.peak_reserved, b.peak_reserved),
        steps: Pair::new(a.steps, b.steps),
        categories,
        stacks: stacks(a, b),
        settings: SettingsPair { a: a.settings.clone(), b: b.settings.clone() },
        findings: sentence::findings(a, b),
    }
}

/// Lines by the size of their change.
fn stacks(a: &Side, b: &Side) -> Vec<StackPair> {
    let sum = |side: &Side| {
        let mut lines: BTreeMap<side::LineKey, (u64, u64)> = BTreeMap::new();
        for ((_, key), held) in &side.lines {
            let entry = lines.entry(key.clone()).or_default();
            entry.0 = entry.0.saturating_add(held.bytes);
            entry.1 += held.count;
        }
        lines
    };
    let (of_a, of_b) = (sum(a), sum(b));
    let keys: BTreeSet<&side::LineKey> = of_a.keys().chain(of_b.keys()).collect();
    let mut pairs: Vec<StackPair> = keys
        .into_iter()
        .map(|key| {
            let (in_a, in_b) = (of_a.get(key).copied().unwrap_or_default(), of_b.get(key).copied().unwrap_or_default());
            let (more, side) = if in_a.0 > in_b.0 { (in_a, a) } else { (in_b, b) };
            let culprit = Culprit {
                function: key.function.clone(),
                file: side.files.get(&key.file).cloned().unwrap_or_else(|| key.file.clone()),
                line: key.line,
                bytes: more.0,
                count: more.1,
                ..Culprit::default()
            };
            StackPair { culprit, a_bytes: in_a.0, b_bytes: in_b.0 }
        })
        .filter(|p| p.a_bytes != p.b_bytes)
        .collect();
    pairs.sort_by_key(|p| (std::cmp::Reverse(p.a_bytes.abs_diff(p.b_bytes)), p.culprit.line));
    pairs.truncate(LINES);
    pairs
}

#[cfg(test)]
mod tests {
    use crate::testing::{MIB, Recording};
    use crate::{ExplainOptions, InputMeta, diff};

    fn run(activations: u64) -> (InputMeta, whyoom_snapshot::Snapshot) {
        let mut r = Recording::new(None);
        r.alloc("3@", 2 * MIB);
        for _ in 0..6 {
            r.train_step(activations * MIB);
        }
        (InputMeta::default(), r.finish())
    }

    #[test]
    fn what_grew_is_said_in_a_sentence() {
        let found = diff(&run(16), &run(64), &ExplainOptions::default());
        let device = &found.devices[0];
        assert_eq!(device.peak.delta, 48 << 20);
        assert_eq!(device.categories[0].category, "activations");
        assert!(found.summary.starts_with("B holds 48.0 MiB more at its peak, all activations"), "{}", found.summary);
        assert!(found.summary.contains("4.0 times as large"), "{}", found.summary);
        assert_eq!(device.stacks[0].culprit.line, 11);
        let same = diff(&run(16), &run(16), &ExplainOptions::default());
        assert!(same.summary.starts_with("Both hold"), "{}", same.summary);
    }
}
