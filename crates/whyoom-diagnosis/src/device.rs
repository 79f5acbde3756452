//! One device: replay, evidence, remedies, causes.

use crate::case::{Case, Failing, WouldFail};
use crate::explanation::{
    self, DeviceReport, DivergenceReport, FinalStateReport, OomReport, PeakReport, ReplayReport, ReplayStatus,
    SettingsReport, StepsReport,
};
use crate::in_force::{self, InForce};
use crate::tables::ledger::Ledger;
use crate::tables::place;
use crate::tables::shared::Shared;
use crate::{ExplainOptions, bound, categories, causes, remedies, state_only};
use whyoom_allocator::{Backend, Model, Release};
use whyoom_replay::{Implausible, Recorded, RecordedOptions, StepSource, Trace, replay_recorded};
use whyoom_snapshot::{Action, Device};

/// Code of the snapshot's warning that the file is cut.
const TRUNCATED: &str = "truncated";

/// Explains one device of a file. Input and rank are left for the caller.
pub(crate) fn explain(shared: &Shared<'_>, device: &Device, options: &ExplainOptions) -> DeviceReport {
    let snapshot = shared.snapshot;
    let release = in_force::release(options.torch, &snapshot.torch);
    let in_force = in_force::settings(snapshot, device, release);
    if !has_blocks(device) || in_force.settings.backend != Backend::Native {
        return match Implausible::find(device) {
            Some(wrong) => state_only::impossible(device, options, release, &in_force, &wrong),
            None => state_only::explain(shared, device, options, release, &in_force),
        };
    }
    let model = Model::for_torch(release);
    let trace = Trace::new(snapshot, device);
    if let Some(wrong) = trace.implausible {
        return state_only::impossible(device, options, release, &in_force, &wrong);
    }
    let recorded = replay_recorded(&trace, RecordedOptions { model, settings: &in_force.settings });
    let is_cut = snapshot.warnings.iter().any(|(code, _)| code == TRUNCATED);
    let replay = replay_report(&trace, &recorded, &in_force, release, is_cut);
    let ledger = Ledger::new(&trace, &recorded, shared);
    let mut case = Case::new(ledger, &recorded, &in_force, options.limit, replay.status == ReplayStatus::Exact);
    // Where a file is cut behind its trace, the trace replays all the same.
    case.is_cut = is_cut && !case.is_exact;
    case.would_fail = remedies::would_fail(&case, model);
    case.tried = remedies::try_them(&case, model);
    let verdict = causes::judge(&case);
    DeviceReport {
        input: 0,
        device: device.index,
        rank: None,
        settings: settings_report(&in_force),
        replay,
        limit: case.limit.report(),
        steps: steps_report(&case),
        peak: peak_report(&case),
        oom: case.failing.as_ref().map(|f| oom_report(&case, f)),
        would_fail: case.would_fail.as_ref().map(|f| would_fail(&case, f)),
        bound: bound::of(&case),
        categories: categories::of(&case),
        findings: verdict.findings,
        ruled_out: verdict.ruled_out,
        remedies: std::mem::take(&mut case.tried.remedies),
        collect: None,
    }
}

/// Whether the trace says anything of blocks.
pub(crate) fn has_blocks(device: &Device) -> bool {
    let is_block =
        |a: &Action| matches!(a, Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Oom);
    device.events.action.iter().any(is_block)
}

pub(crate) fn settings_report(in_force: &InForce) -> SettingsReport {
    let values = serde_json::to_value(&in_force.settings).unwrap_or_default();
    SettingsReport { string: in_force.string.clone(), in_force: values }
}

fn replay_report(
    trace: &Trace<'_>,
    recorded: &Recorded,
    in_force: &InForce,
    release: Release,
    is_cut: bool,
) -> ReplayReport {
    let differing = recorded.final_state.map_or(0, |f| f.differing_blocks);
    let is_exact = recorded.matched == recorded.events && recorded.first_divergence.is_none() && differing == 0;
    let mut notes: Vec<String> = Vec::new();
    let is_cut = is_cut && !is_exact;
    if is_cut {
        notes.push("The file is cut: the end of its trace is lost, and perhaps the failure with it.".to_owned());
    } else if !trace.starts_empty {
        let what = if trace.device.has_segments {
            "The trace has no beginning: the state before its first event was rebuilt backwards from the end."
        } else {
            "The trace has no beginning and the file no segments: what was allocated before is not known."
        };
        notes.push(what.to_owned());
    }
    notes.extend(in_force.doubt.clone());
    if trace.contradictions > 0 {
        let places = crate::words::plural(trace.contradictions, "event contradicts", "events contradict");
        notes.push(format!("{places} the events before: some are missing from the trace."));
    }
    if is_exact && recorded.final_state.is_none() {
        notes.push("The file holds no segments to compare the end with.".to_owned());
    }
    ReplayReport {
        status: if is_exact { ReplayStatus::Exact } else { ReplayStatus::Diverged },
        events: recorded.events,
        matched: recorded.matched,
        first_divergence: recorded.first_divergence.as_ref().map(|d| DivergenceReport {
            event: d.event as u64,
            recorded: d.recorded.clone(),
            simulated: d.simulated.clone(),
            likely_reason: if is_cut {
                "the end of the trace is lost, from which its beginning is told".to_owned()
            } else {
                d.likely_reason.clone()
            },
        }),
        final_state: recorded
            .final_state
            .map(|f| FinalStateReport { equal: f.differing_blocks == 0, differing_blocks: f.differing_blocks }),
        model: release.to_string(),
        retries: if is_exact { recorded.stats.retries } else { 0 },
        note: (!notes.is_empty()).then(|| notes.join(" ")),
    }
}

/// Maxima of the replay; where it parts from the recording, those that the recording itself shows.
fn peak_report(case: &Case<'_>) -> PeakReport {
    let event = case.ledger.peak_event.map(u64::from);
    if !case.is_exact {
        return PeakReport {
            requested_bytes: case.ledger.peak_requested,
            allocated_bytes: case.ledger.peak_live,
            active_bytes: case.ledger.peak_live,
            reserved_bytes: case.ledger.trace.peak_reserved,
            event,
        };
    }
    let stats = &case.recorded.stats;
    PeakReport {
        requested_bytes: stats.requested.peak,
        allocated_bytes: stats.allocated.peak,
        active_bytes: stats.active.peak,
        reserved_bytes: stats.reserved.peak,
        event,
    }
}

fn steps_report(case: &Case<'_>) -> StepsReport {
    let steps = &case.ledger.steps;
    let source = match steps.source {
        StepSource::Annotations => "annotations",
        StepSource::Period => "period",
        StepSource::None => "none",
    };
    let is_partial = !case.ledger.trace.starts_empty && steps.first() == 0;
    StepsReport { count: case.ledger.completed, source, is_partial }
}

fn oom_report(case: &Case<'_>, failing: &Failing) -> OomReport {
    let state = &failing.state;
    OomReport {
        event: state.event as u64,
        malloc: state.malloc,
        step: failing.step,
        request_bytes: state.request_bytes,
        segment_bytes: state.segment_bytes,
        device_free_bytes: state.device_free,
        reserved_bytes: state.reserved,
        live_bytes: state.allocated,
        largest_free_block_bytes: state.free.largest,
        free_in_pool_bytes: state.free.bytes,
        free_blocks: state.free.blocks,
        oom_count: failing.count,
        went_on: failing.went_on,
        place: place::of_request(&case.ledger, state.event as u32),
    }
}

fn would_fail(case: &Case<'_>, failure: &WouldFail) -> explanation::WouldFail {
    explanation::WouldFail {
        limit_bytes: failure.limit,
        event: u64::from(failure.event),
        malloc: failure.malloc,
        step: case.ledger.steps.of(failure.event),
        request_bytes: failure.request_bytes,
        live_bytes: failure.live,
        reserved_bytes: failure.reserved,
        place: place::of_request(&case.ledger, failure.event),
    }
}
