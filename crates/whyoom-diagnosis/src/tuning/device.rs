//! The search for one device.

use super::{BatchScale, Bounds, Candidate, DeviceTuning, FirstOom, Peak, incompatible};
use crate::case::Case;
use crate::causes::leak;
use crate::explanation::Confidence;
use crate::groups::{self, GroupName};
use crate::remedies::{effective, start, until};
use crate::tables::ledger::Ledger;
use crate::tables::shared::Shared;
use crate::tables::total;
use crate::{ExplainOptions, bound, device, in_force, words};
use whyoom_allocator::{Backend, Model, Release, Settings, settings::variables};
use whyoom_replay::edits::{Edit, Group, Scale};
use whyoom_replay::{
    Members, Placement, RecordedOptions, Scenario, Start, Trace, TuneQuestion, replay_recorded, simulate,
};
use whyoom_snapshot::Device;

/// Program steps that a search may cost, in candidates times steps.
const STEPS: usize = 78_000_000;
/// Candidates for the shortest and the longest programs.
const CANDIDATES: (usize, usize) = (40, 240);
/// What reserves less by less than one part of so many reserves the same.
const SAME: u64 = 100;
/// Programs of more steps get no estimate of the batch: it needs several replays of programs of their own.
const LONG: usize = 800_000;

pub(super) fn tune(input: usize, shared: &Shared<'_>, device: &Device, options: &ExplainOptions) -> DeviceTuning {
    let snapshot = shared.snapshot;
    let release = in_force::release(options.torch, &snapshot.torch);
    let in_force = in_force::settings(snapshot, device, release);
    let mut report = blank(input, device, release);
    if in_force.settings.backend != Backend::Native {
        report.note = Some("backend:cudaMallocAsync is the driver's allocator, which is not modelled.".to_owned());
        return report;
    }
    if !device::has_blocks(device) {
        report.note = Some("The file holds no trace to replay settings on.".to_owned());
        return report;
    }
    let model = Model::for_torch(release);
    let trace = Trace::new(snapshot, device);
    if let Some(wrong) = &trace.implausible {
        report.note = Some(format!("{}; nothing of it was replayed.", words::capital(&wrong.to_string())));
        return report;
    }
    let recorded = replay_recorded(&trace, RecordedOptions { model, settings: &in_force.settings });
    let is_exact = recorded.is_exact();
    let case = Case::new(Ledger::new(&trace, &recorded, shared), &recorded, &in_force, options.limit, is_exact);
    let program = &recorded.program;
    report.is_exact = is_exact;
    report.steps = case.ledger.completed;
    report.limit = case.limit.report();
    report.scope = if case.failing.is_some() { "failing_request" } else { "whole_run" };
    // Where the model reproduces nothing, what it says of other settings is noise.
    if program.ops.is_empty() || (!is_exact && recorded.matched == 0) {
        report.note = Some("The model cannot follow this trace, so no settings were tried.".to_owned());
        return report;
    }
    let question = TuneQuestion {
        program,
        model,
        reference: in_force.settings.clone(),
        limit: case.limit.low,
        limit_kind: case.limit.kind,
        collects: case.limit.collects(),
        start: start(&case, &Settings::default()),
        until: until(&case),
        oldest: oldest(options, shared, release),
        most: (STEPS / program.ops.len()).clamp(CANDIDATES.0, CANDIDATES.1),
    };
    let tuned = whyoom_replay::tune(&question);
    let row = |c: &whyoom_replay::Candidate| candidate(c, &case, release);
    report.candidates_tried = tuned.tried as u64;
    report.candidates_completed = (tuned.tried - tuned.given_up) as u64;
    report.candidates_failed = tuned.failed as u64;
    report.recorded = Some(row(&tuned.reference));
    report.default = Some(row(&tuned.default));
    report.pareto = tuned.pareto.iter().map(row).collect();
    let best = tuned.best.map(|i| &tuned.pareto[i]);
    report.best = best.map(row);
    let mut best = best;
    if is_exact && case.failing.is_none() && case.limit.source != "argument" && as_recorded(&mut report, &case) {
        best = Some(&tuned.reference);
    }
    report.bounds = bounds(&case, model, &tuned.default, best);
    if let Some(best) = best {
        report.batch = batch(&case, model, &best.settings);
    }
    report.accumulates = is_a_leak(&case);
    report.note = note(&case, is_exact);
    report
}

/// Whether a leak is what the run dies of, or most of what it holds.
fn is_a_leak(case: &Case<'_>) -> bool {
    let Some(found) = leak::find(case).filter(|found| found.confidence > Confidence::Weak) else { return false };
    match case.failing {
        Some(_) => leak::decides(case),
        None => found.bytes_explained.saturating_mul(2) >= case.ledger.peak_live,
    }
}

/// The oldest release that the file can be of, unless one was asked for.
fn oldest(options: &ExplainOptions, shared: &Shared<'_>, release: Release) -> Release {
    let at_least = shared.snapshot.torch.at_least.as_deref().and_then(|t| t.parse::<Release>().ok());
    at_least.filter(|first| options.torch.is_none() && *first < release).unwrap_or(release)
}

fn blank(input: usize, device: &Device, release: Release) -> DeviceTuning {
    DeviceTuning {
        input,
        device: device.index,
        model: release.to_string(),
        is_exact: false,
        scope: "whole_run",
        steps: 0,
        limit: crate::explanation::LimitReport { low_bytes: None, high_bytes: None, source: "unknown" },
        recorded: None,
        default: None,
        best: None,
        candidates_tried: 0,
        candidates_completed: 0,
        candidates_failed: 0,
        pareto: Vec::new(),
        accumulates: false,
        bounds: Bounds::default(),
        batch: None,
        note: None,
    }
}

fn note(case: &Case<'_>, is_exact: bool) -> Option<String> {
    let mut notes = Vec::new();
    if !is_exact {
        notes.push("The model does not reproduce this recording, so nothing here is verified.");
    }
    if !case.recorded.started_empty {
        notes.push("The trace has no beginning, so the figures are estimates.");
    }
    if case.failing.is_some_and(|f| f.count > 1) {
        notes.push("The program caught failures and went on otherwise than it would have done without them.");
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

fn candidate(c: &whyoom_replay::Candidate, case: &Case<'_>, release: Release) -> Candidate {
    let (steps, completed) = (&case.ledger.steps, case.ledger.completed);
    let (outcome, stats) = (&c.tried.outcome, &c.tried.outcome.stats);
    let calls = stats.driver_allocations + stats.driver_frees;
    Candidate {
        settings: c.text.clone(),
        variable: variables(release).preferred(),
        limit_bytes: case.limit.low,
        model: release.to_string(),
        ooms: outcome.failures,
        hypothetical_from: outcome.hypothetical_from.map(u64::from),
        oom: outcome.first_failure.is_some(),
        first_oom: outcome.first_failure.map(|f| FirstOom {
            event: u64::from(f.event),
            malloc: f.malloc,
            step: steps.of(f.event),
            request_bytes: f.request_bytes,
        }),
        peak: Peak {
            requested_bytes: stats.requested.peak,
            allocated_bytes: stats.allocated.peak,
            active_bytes: stats.active.peak,
            reserved_bytes: stats.reserved.peak,
        },
        peak_reserved_range: c.tried.peak_reserved_range,
        tie_sensitive: c.tried.tie_sensitive,
        timing_sensitive: c.tried.timing_sensitive,
        retries: stats.retries,
        driver_allocations: stats.driver_allocations,
        driver_frees: stats.driver_frees,
        maps: stats.maps,
        unmaps: stats.unmaps,
        synchronisations: stats.synchronisations,
        driver_calls_per_step: (completed > 0).then(|| calls as f64 / completed as f64),
        incompatible_with: incompatible(&c.settings, release, case.ledger.trace.snapshot),
    }
}

fn bounds(
    case: &Case<'_>,
    model: Model,
    default: &whyoom_replay::Candidate,
    best: Option<&whyoom_replay::Candidate>,
) -> Bounds {
    let fits = |settings: &Settings| bound::fits(case, model, settings, Members::All);
    let (of_default, of_best) = rayon::join(
        || fits(&default.settings),
        || best.filter(|b| b.settings != default.settings).map(|b| fits(&b.settings)),
    );
    let of_best = of_best.unwrap_or(of_default).filter(|_| best.is_some());
    Bounds {
        requested_bytes: case.recorded.stats.requested.peak.max(case.ledger.peak_requested),
        allocated_bytes: case.ledger.peak_live,
        compact_bytes: bound::in_pages(least(case)),
        active_at_best_peak_bytes: best.map(|b| b.tried.outcome.active_at_peak_reserved),
        fits_from_bytes_default: of_default.map(|f| f.bytes),
        fits_reliably_from_bytes_default: of_default.map(|f| f.reliable_bytes),
        fits_from_bytes_best: of_best.map(|f| f.bytes),
        fits_reliably_from_bytes_best: of_best.map(|f| f.reliable_bytes),
        peak_reserved_bytes_best_under_smallest_limit: of_best.map(|f| f.peak_reserved),
    }
}

/// The peak of the recorded settings is known, and no matter of placements. Where nothing reserves less, they are best;
/// whether that is so.
fn as_recorded(report: &mut DeviceTuning, case: &Case<'_>) -> bool {
    let peak = case.peak_reserved();
    let Some(recorded) = &mut report.recorded else { return false };
    recorded.peak.reserved_bytes = peak;
    recorded.peak_reserved_range = (peak, peak);
    (recorded.tie_sensitive, recorded.timing_sensitive) = (false, false);
    let recorded = recorded.clone();
    let is_as_recorded = |c: &Candidate| c.settings == recorded.settings;
    for c in report.pareto.iter_mut().chain(&mut report.default).filter(|c| is_as_recorded(c)) {
        *c = recorded.clone();
    }
    report.pareto.sort_by_key(|c| c.peak_reserved_range.1);
    let is_best = report.best.as_ref().is_none_or(|best| best.peak_reserved_range.1 + peak / SAME > peak);
    if is_best {
        report.best = Some(recorded.clone());
        if !report.pareto.iter().any(is_as_recorded) {
            report.pareto.push(recorded);
            report.pareto.sort_by_key(|c| c.peak_reserved_range.1);
        }
    }
    is_best
}

/// Bytes that the program held at its peak, or would have with the request that failed: as asked for, not as rounded.
fn least(case: &Case<'_>) -> u64 {
    let Some(failing) = &case.failing else { return case.ledger.peak_requested };
    let allocations = &case.ledger.trace.allocations;
    let live = case.ledger.alive_at(failing.state.event as u32);
    total(live.into_iter().map(|id| allocations[id as usize].bytes)).saturating_add(failing.state.request_bytes)
}

/// The largest factor for what grows with the batch, under the limit and the best settings.
fn batch(case: &Case<'_>, model: Model, settings: &Settings) -> Option<BatchScale> {
    const SIXTEENTHS: u64 = 16;
    const MOST: u64 = 8 * SIXTEENTHS;
    let limit = case.limit.low?;
    let program = &case.recorded.program;
    if program.ops.len() > LONG {
        return None;
    }
    let group = groups::select(case, case.kinds(), &GroupName::Batch);
    if group.is_empty() {
        return None;
    }
    let passes = |factor: u64| passes_scaled(case, model, settings, limit, &group, factor as f64 / SIXTEENTHS as f64);
    if !passes(1) {
        return None;
    }
    let (mut low, mut high) = (1, MOST);
    if passes(MOST) {
        return Some(BatchScale { factor: (MOST / SIXTEENTHS) as f64, is_at_least: true });
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if passes(middle) { low = middle } else { high = middle }
    }
    Some(BatchScale { factor: low as f64 / SIXTEENTHS as f64, is_at_least: false })
}

fn passes_scaled(case: &Case<'_>, model: Model, settings: &Settings, limit: u64, group: &Group, factor: f64) -> bool {
    let program = Scale { group: group.clone(), factor }.apply(&case.recorded.program);
    let settings = effective(case, settings);
    let scenario = Scenario {
        model,
        settings: &settings,
        limit: Some(limit),
        limit_kind: case.limit.kind,
        start: Start::Cold,
        placement: Placement::USUAL,
        until: until(case),
    };
    simulate(&program, &scenario).first_failure.is_none()
}

#[cfg(test)]
mod tests {
    use crate::testing::{MIB, Recording};
    use crate::{ExplainOptions, InputMeta};

    #[test]
    fn the_best_settings_are_the_least_that_is_reserved() {
        let mut r = Recording::new(None);
        for i in 0..30u64 {
            let x = r.alloc("10", (200 + 10 * i) * MIB);
            let pin = r.alloc("11", 2 * MIB);
            r.free("12", x);
            r.free("13", pin);
        }
        let inputs = [(InputMeta::default(), r.finish())];
        let tuning = crate::tune(&inputs, &ExplainOptions::default());
        let device = &tuning.devices[0];
        let (default, best) = (device.default.clone().expect("tried"), device.best.clone().expect("passes"));
        assert!(best.peak.reserved_bytes * 3 < default.peak.reserved_bytes, "{best:?}");
        assert!(best.peak.reserved_bytes >= device.bounds.compact_bytes);
        let fits = device.bounds.fits_from_bytes_best.expect("passes");
        assert!(fits >= device.bounds.requested_bytes / (2 * MIB) * (2 * MIB));
        assert!(device.candidates_tried >= 100, "{}", device.candidates_tried);
    }
}
