//! Exactness on real recordings: those in `fixtures/`, and a wider corpus where `WHYOOM_CORPUS` names a directory
//! that holds `recordings/`.

#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use whyoom_allocator::{Model, Release, Settings, settings};
use whyoom_replay::edits::{Edit, EmptyCache};
use whyoom_replay::{
    LimitKind, Program, RecordedOptions, Start, StepBasis, Steps, Trace, Trial, Until, replay_recorded, try_all,
};
use whyoom_snapshot::{ReadOptions, Snapshot, read_path};

/// The recordings of this repository, and those of a wider corpus where `WHYOOM_CORPUS` names one.
fn directories() -> Vec<PathBuf> {
    let mut all = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings")];
    match std::env::var_os("WHYOOM_CORPUS") {
        Some(dir) => all.push(Path::new(&dir).join("recordings")),
        None => println!("skipped: the wider corpus, WHYOOM_CORPUS is not set"),
    }
    all
}

fn settings_of(snapshot: &Snapshot) -> Settings {
    let text = snapshot.settings.as_ref().and_then(|s| s.conf.clone()).unwrap_or_default();
    settings::parse(&text, Release::DEFAULT).expect("recorded settings are valid").settings
}

fn recordings(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("recordings are readable")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.to_string_lossy().ends_with(".pickle.xz"))
        .collect();
    all.sort();
    all
}

#[test]
fn every_recording_replays_exactly() {
    for dir in directories() {
        replays_exactly(&dir);
    }
}

fn replays_exactly(dir: &Path) {
    let (mut exact, mut events, mut report) = (0, 0, String::new());
    let all = recordings(dir);
    for path in &all {
        let snapshot = read_path(path, &ReadOptions::default()).expect("readable");
        let settings = settings_of(&snapshot);
        for device in &snapshot.devices {
            let trace = Trace::new(&snapshot, device);
            let done = replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &settings });
            let is_exact = done.is_exact();
            events += done.events;
            if is_exact {
                exact += 1;
            } else {
                let _ = writeln!(
                    report,
                    "{}: {}/{} final {:?} started_empty {} conflicts {} {:?}",
                    path.file_name().unwrap_or_default().display(),
                    done.matched,
                    done.events,
                    done.final_state,
                    done.started_empty,
                    done.rebuild_conflicts,
                    done.first_divergence
                );
            }
        }
    }
    println!("{exact} of {} recordings exact, {events} events\n{report}", all.len());
    assert!(report.is_empty(), "not exact:\n{report}");
}

/// A row of `outcomes.json`: what the same program did under other settings or another limit.
struct Row {
    source: String,
    target: String,
    settings: String,
    limit: Option<u64>,
    empty_cache_every: Option<u64>,
    is_whole_run: bool,
    passes: bool,
    first_failure: Option<u64>,
    source_failure: Option<u64>,
    peak_reserved: Option<u64>,
    is_timing_sensitive: bool,
}

fn rows(dir: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(dir.join("outcomes.json")).expect("outcomes are readable");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("outcomes are JSON");
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    rows.iter()
        .map(|r| Row {
            source: text(&r["source"]),
            target: text(&r["target"]),
            settings: text(&r["settings"]),
            limit: r["limit_bytes"].as_u64(),
            empty_cache_every: r["empty_cache_every"].as_u64(),
            is_whole_run: r["question"] == "whole_run",
            passes: r["expected"] == "passes",
            first_failure: r["first_failure_malloc"].as_u64(),
            source_failure: r["source_failure_malloc"].as_u64(),
            peak_reserved: r["peak_reserved_bytes"].as_u64(),
            is_timing_sensitive: r["timing_sensitive"] == true,
        })
        .collect()
}

#[test]
fn every_outcome_is_predicted() {
    for dir in directories() {
        outcomes_are_predicted(&dir);
    }
}

fn outcomes_are_predicted(dir: &Path) {
    let mut sources: std::collections::BTreeMap<String, Vec<Row>> = std::collections::BTreeMap::new();
    let mut total = 0;
    for row in rows(dir) {
        total += 1;
        sources.entry(row.source.clone()).or_default().push(row);
    }
    let (mut verdicts, mut exact, mut passes, mut report) = (0, 0, 0, String::new());
    for (source, rows) in sources {
        let snapshot = read_path(&dir.join(format!("{source}.pickle.xz")), &ReadOptions::default()).expect("readable");
        let recorded_settings = settings_of(&snapshot);
        let trace = Trace::new(&snapshot, &snapshot.devices[0]);
        let recorded =
            replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &recorded_settings });
        let programs: Vec<Program> = rows
            .iter()
            .map(|row| match row.empty_cache_every {
                Some(every) => EmptyCache::after_steps(&Steps::find(&trace, &StepBasis::new(&snapshot)), every)
                    .apply(&recorded.program),
                None => recorded.program.clone(),
            })
            .collect();
        let trials: Vec<Trial<'_>> = rows
            .iter()
            .zip(&programs)
            .map(|(row, program)| {
                let failure =
                    row.source_failure.map(|m| recorded.failures.iter().find(|f| f.malloc == m).map(|f| f.event));
                Trial {
                    program,
                    model: Model::default(),
                    settings: settings::parse(&row.settings, Release::DEFAULT).expect("valid").settings,
                    limit: row.limit,
                    limit_kind: LimitKind::Fraction,
                    start: Start::Cold,
                    until: match failure {
                        Some(event) => {
                            Until::FirstFailureOrEvent(event.expect("the source's failure is in its trace") as u32)
                        }
                        None => Until::FirstFailure,
                    },
                }
            })
            .collect();
        for (row, tried) in rows.iter().zip(try_all(&trials)) {
            let outcome = tried.outcome;
            let failure = outcome.first_failure.map(|f| f.malloc);
            let right = if row.is_whole_run { failure == row.first_failure } else { failure.is_none() == row.passes };
            verdicts += usize::from(right);
            let peak = outcome.stats.reserved.peak;
            let is_firm_pass = row.is_whole_run && row.passes && !row.is_timing_sensitive;
            passes += usize::from(is_firm_pass);
            let same_peak = row.peak_reserved.is_none_or(|p| p == peak);
            exact += usize::from(is_firm_pass && same_peak);
            if !right || (row.is_whole_run && !same_peak) {
                let _ = writeln!(
                    report,
                    "{} -> {}: expected {:?} peak {:?}; got {failure:?} peak {peak} range {:?} ties {} timing {} failing {}/{}",
                    row.source,
                    row.target,
                    row.first_failure,
                    row.peak_reserved,
                    tried.peak_reserved_range,
                    tried.tie_sensitive,
                    tried.timing_sensitive,
                    tried.failing_members,
                    tried.members
                );
            }
            if row.settings.contains("expandable") && is_firm_pass {
                assert!(same_peak, "expandable target differs:\n{report}");
            }
            if row.is_timing_sensitive {
                let (low, high) = tried.peak_reserved_range;
                assert!(row.peak_reserved.is_some_and(|p| (low..=high).contains(&p)), "outside the bracket:\n{report}");
            }
        }
    }
    println!("{verdicts}/{total} verdicts, {exact}/{passes} peaks of whole-run passes exact\n{report}");
    assert_eq!(verdicts, total, "{report}");
    assert!(exact * 100 >= passes * 95, "{report}");
}

/// The snapshot as a ring that kept only the events from `from` on would have it.
fn without_beginning(snapshot: &Snapshot, from: usize) -> Snapshot {
    let mut cut = snapshot.clone();
    let events = &mut cut.devices[0].events;
    events.action.drain(..from);
    events.addr.drain(..from);
    events.size.drain(..from);
    events.stream.drain(..from);
    events.stack.drain(..from);
    if !events.time_us.is_empty() {
        events.time_us.drain(..from);
    }
    if !events.pool.is_empty() {
        events.pool.drain(..from);
    }
    events.notes.clear();
    cut
}

#[test]
fn traces_without_beginning_replay_from_a_rebuilt_state() {
    for dir in directories() {
        replays_without_beginning(&dir);
    }
}

fn replays_without_beginning(dir: &Path) {
    let (mut exact, mut total, mut report) = (0, 0, String::new());
    for path in recordings(dir) {
        let snapshot = read_path(&path, &ReadOptions::default()).expect("readable");
        let settings = settings_of(&snapshot);
        for percent in [3, 25, 50, 80, 97] {
            let from = snapshot.devices[0].events.len() * percent / 100;
            let cut = without_beginning(&snapshot, from);
            let trace = Trace::new(&cut, &cut.devices[0]);
            let done = replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &settings });
            total += 1;
            if done.is_exact() {
                exact += 1;
            } else {
                let _ = writeln!(
                    report,
                    "{} cut at {percent} %: {}/{} final {:?} conflicts {} {:?}",
                    path.file_name().unwrap_or_default().display(),
                    done.matched,
                    done.events,
                    done.final_state,
                    done.rebuild_conflicts,
                    done.first_divergence
                );
            }
        }
    }
    println!("{exact} of {total} cut traces exact\n{report}");
    assert!(exact * 100 >= total * 90, "{report}");
}
