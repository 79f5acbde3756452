//! `whyoom replay`: does the model reproduce this recording; what happens under other settings.

use std::sync::OnceLock;

use rayon::prelude::*;
use whyoom_allocator::{
    Model, Release, SizeRules, Stats,
    settings::{Backend, Settings, SettingsError, parse},
};
use whyoom_diagnosis::{Change, Changed, NothingToChange, change, impossible_sizes, recording};
use whyoom_replay::{
    LimitKind, LimitSource, Recorded, RecordedOptions, Start, StepBasis, Steps, Trace, Trial, Until, replay_recorded,
    try_all,
};
use whyoom_report::{
    replay::{
        Costs, DeviceReplay, DivergenceReport, FailedRequest, FinalStateReport, Input, RecordedFailure, ReplayEnd,
        ReplayMode, ReplayPeak, ReplayResult, ReplayState, Torch, WarningLine,
    },
    write_replay,
};
use whyoom_snapshot::{Action, Device, Snapshot, Warnings};

use crate::{
    Exit, Streams,
    cli::{LimitArg, ReplayArgs, TorchArg},
    pipeline::{self, Loaded, Presentation},
    progress::Progress,
};

pub(crate) fn run(args: &ReplayArgs, streams: &mut Streams<'_>) -> Exit {
    let loading = match pipeline::load(&args.input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let mut worlds = Vec::new();
    let mut warnings = warnings(&loading.inputs);
    warnings.extend(pipeline::torch_warning(&args.input));
    for (meta, snapshot) in &loading.inputs {
        match World::new(args, snapshot) {
            Ok(world) => {
                warnings.extend(world.warnings.iter().cloned());
                worlds.push(world);
            }
            Err(error) => {
                streams.complain(&format!("these settings are refused: {error}"), &[], Some(&meta.path));
                return Exit::Usage;
            }
        }
    }
    let progress = Progress::new(streams);
    progress.say("replaying");
    let jobs: Vec<(usize, &Device)> = loading
        .inputs
        .iter()
        .enumerate()
        .flat_map(|(i, (_, snapshot))| snapshot.devices.iter().map(move |d| (i, d)))
        .filter(|(_, d)| args.input.device.is_empty() || args.input.device.contains(&d.index))
        .collect();
    let bases: Vec<OnceLock<StepBasis>> = loading.inputs.iter().map(|_| OnceLock::new()).collect();
    let replayed: Vec<(usize, u32, Result<DeviceReplay, NothingToChange>)> = jobs
        .into_par_iter()
        .map(|(i, d)| {
            let snapshot = &loading.inputs[i].1;
            let basis = bases[i].get_or_init(|| StepBasis::new(snapshot));
            (i, d.index, replay(&worlds[i], i, basis, snapshot, d))
        })
        .collect();
    drop(progress);

    let (mut devices, mut refused): (Vec<DeviceReplay>, Vec<(usize, u32, NothingToChange)>) = Default::default();
    for (i, device, replayed) in replayed {
        match replayed {
            Ok(replay) => devices.push(replay),
            Err(nothing) => refused.push((i, device, nothing)),
        }
    }
    // A change that concerns nothing anywhere is a slip; one that concerns nothing on some device is said.
    if let (true, Some((input, _, nothing))) = (devices.is_empty(), refused.first()) {
        let hints = [nothing.hint.as_str()];
        let hints = if nothing.hint.is_empty() { &[][..] } else { &hints[..] };
        streams.complain(&nothing.what, hints, loading.inputs.get(*input).map(|(meta, _)| meta.path.as_str()));
        return Exit::Usage;
    }
    warnings.extend(refused.into_iter().map(|(_, device, nothing)| WarningLine {
        code: "nothing_to_change".into(),
        count: 1,
        message: format!("GPU {device} was not replayed: {nothing}"),
    }));
    let not_replayed = devices.iter().filter(|d| d.matched.is_none());
    warnings.extend(impossible_sizes(&loading.inputs, not_replayed.map(|d| (d.input, d.device))));
    warnings.sort_by(|a, b| a.code.cmp(&b.code));
    let exit = loading.exit();
    let presentation = Presentation::new(&args.output, streams);
    presentation.add_failures(&mut warnings, loading.failed);
    let inputs = loading.inputs.iter().map(describe).chain(loading.unreadable.iter().cloned()).collect();
    let result = ReplayResult { schema: ReplayResult::SCHEMA, inputs, warnings, devices };
    streams.print(exit, |out| presentation.show(&result, write_replay, out))
}

/// What is asked of one input: the world it was recorded in, and the one to replay it in.
struct World<'a> {
    args: &'a ReplayArgs,
    /// The release that the recording is checked with.
    recorded: Release,
    /// The release to replay it in: another one only where the file cannot be of the one asked for.
    release: Release,
    /// Settings to try; `None` = as recorded.
    other: Option<Settings>,
    changes: Vec<Change>,
    warnings: Vec<WarningLine>,
}

impl<'a> World<'a> {
    fn new(args: &'a ReplayArgs, snapshot: &Snapshot) -> Result<Self, SettingsError> {
        let own = recording::release(&snapshot.torch, None);
        let release = args.input.torch.map_or(own, TorchArg::modelled);
        let recorded = if recording::may_be(&snapshot.torch, release) { release } else { own };
        let parsed = args.settings.as_deref().map(|s| parse(s, release)).transpose()?;
        let warnings = parsed.iter().flat_map(|p| &p.warnings);
        let warnings = warnings
            .map(|w| WarningLine { code: "settings".into(), count: 1, message: format!("--settings: {w}") })
            .collect();
        let other = parsed.map(|p| p.settings);
        Ok(Self { args, recorded, release, other, changes: args.changes(), warnings })
    }

    fn is_counterfactual(&self) -> bool {
        self.args.settings.is_some()
            || self.args.input.limit().is_some()
            || !self.changes.is_empty()
            || self.recorded != self.release
    }
}

fn replay(
    world: &World<'_>,
    input: usize,
    basis: &StepBasis,
    snapshot: &Snapshot,
    device: &Device,
) -> Result<DeviceReplay, NothingToChange> {
    let trace = Trace::new(snapshot, device);
    let steps = Steps::find(&trace, basis);
    let settings = recording::settings(snapshot, device, world.recorded);
    let options = RecordedOptions { model: Model::for_torch(world.recorded), settings: &settings };
    let recorded = replay_recorded(&trace, options);
    let check = check(world, input, &trace, &settings, &steps, &recorded);
    if world.is_counterfactual() && check.matched.is_some() {
        let changed = change(&trace, &recorded, &world.changes)?;
        Ok(otherwise(world, check, settings, &steps, &recorded, &changed))
    } else {
        Ok(check)
    }
}

/// The recorded replay, compared with the file.
fn check(
    world: &World<'_>,
    input: usize,
    trace: &Trace<'_>,
    settings: &Settings,
    steps: &Steps,
    recorded: &Recorded,
) -> DeviceReplay {
    let (snapshot, device) = (trace.snapshot, trace.device);
    let is_modelled = settings.backend == Backend::Native;
    let is_block =
        |a: &Action| matches!(a, Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Oom);
    // The mark of the dump alone is no trace.
    let has_trace = is_modelled && trace.implausible.is_none() && device.events.action.iter().any(is_block);
    let sizes = SizeRules::new(&Model::for_torch(world.recorded), settings);
    let first = recorded.failures.first();
    let peak = peak(&recorded.stats);
    let note = if !is_modelled {
        Some(
            "The recording is of backend:cudaMallocAsync, whose allocator is the driver's and is not modelled."
                .to_owned(),
        )
    } else if let Some(wrong) = trace.implausible {
        Some(format!("Of this device nothing is replayed: {wrong}. The file is damaged or was edited."))
    } else if has_trace && !recorded.started_empty {
        Some("The trace has no beginning; the state before it was rebuilt backwards.".to_owned())
    } else {
        None
    };
    DeviceReplay {
        input,
        device: device.index,
        mode: ReplayMode::Recorded,
        status: state(has_trace, recorded),
        settings: snapshot.settings.as_ref().and_then(|s| s.conf.clone()),
        changes: Vec::new(),
        basis: "exact_replay",
        recorded: None,
        limit_bytes: None,
        limit_is_inferred: false,
        model: world.recorded.to_string(),
        events: recorded.events,
        matched: has_trace.then_some(recorded.matched),
        first_divergence: recorded.first_divergence.as_ref().filter(|_| has_trace).map(|d| DivergenceReport {
            event: d.event as u64,
            recorded: d.recorded.clone(),
            simulated: d.simulated.clone(),
            likely_reason: d.likely_reason.clone(),
        }),
        final_state: recorded
            .final_state
            .filter(|_| has_trace)
            .map(|f| FinalStateReport { equal: f.differing_blocks == 0, differing_blocks: f.differing_blocks }),
        oom: first.is_some(),
        first_oom: first.map(|f| FailedRequest {
            event: f.event as u64,
            malloc: f.malloc,
            step: steps.of(f.event as u32),
            request_bytes: sizes.round(f.request_bytes),
        }),
        recorded_first_oom: first.map(|f| RecordedFailure { event: f.event as u64, malloc: f.malloc }),
        peak,
        peak_reserved_range: (peak.reserved_bytes, peak.reserved_bytes),
        exceeds_limit: false,
        tie_sensitive: false,
        timing_sensitive: false,
        end: match () {
            () if has_trace => end(&recorded.stats),
            () if trace.implausible.is_some() => ReplayEnd::default(),
            () => in_file(device),
        },
        retries: recorded.stats.retries,
        ooms: recorded.failures.len() as u64,
        driver_allocations: recorded.stats.driver_allocations,
        driver_frees: recorded.stats.driver_frees,
        maps: recorded.stats.maps,
        unmaps: recorded.stats.unmaps,
        synchronisations: recorded.stats.synchronisations,
        steps: steps.completed(),
        hypothetical_from: None,
        note,
    }
}

/// The answer to a question about the driver's own allocator: none.
fn not_modelled(world: &World<'_>, check: DeviceReplay) -> DeviceReplay {
    let note = "backend:cudaMallocAsync leaves memory to the driver's own pool, which is not modelled: whether the run \
                would pass under it cannot be told.";
    DeviceReplay {
        settings: world.args.settings.clone().or(check.settings),
        status: ReplayState::NotPossible,
        matched: None,
        first_divergence: None,
        final_state: None,
        oom: false,
        first_oom: None,
        peak: ReplayPeak::default(),
        peak_reserved_range: (0, 0),
        retries: 0,
        ooms: 0,
        driver_allocations: 0,
        driver_frees: 0,
        maps: 0,
        unmaps: 0,
        synchronisations: 0,
        note: Some(note.to_owned()),
        ..check
    }
}

/// The same requests in the other world.
fn otherwise(
    world: &World<'_>,
    check: DeviceReplay,
    settings: Settings,
    steps: &Steps,
    recorded: &Recorded,
    changed: &Changed,
) -> DeviceReplay {
    let settings = world.other.clone().unwrap_or(settings);
    let model = Model::for_torch(world.release);
    if settings.backend != Backend::Native {
        return not_modelled(world, check);
    }
    let fraction = settings.per_process_memory_fraction;
    let (limit, limit_kind) = match world.args.input.limit() {
        Some(LimitArg::Bytes(bytes)) => (Some(bytes), LimitKind::Fraction),
        Some(LimitArg::Card(bytes)) => (Some(bytes), LimitKind::Card),
        Some(LimitArg::None) => (None, LimitKind::Fraction),
        None if recorded.limit.source == LimitSource::Card => (recorded.limit.safe(), LimitKind::Card),
        None => (recorded.limit.safe(), LimitKind::Fraction),
    };
    // A share of nothing is nothing, whatever the card has.
    let limit = if fraction.is_some_and(|f| f <= 0.0) { Some(0) } else { limit };
    let program = &changed.program;
    let is_cold = recorded.started_empty || limit.is_some() || settings.expandable_segments;
    let sizes = SizeRules::new(&model, &settings);
    let trial = Trial {
        program,
        model,
        settings,
        limit,
        limit_kind,
        start: if is_cold { Start::Cold } else { Start::Warm },
        until: Until::End,
    };
    let Some(tried) = try_all(&[trial]).pop() else { return check };
    let outcome = tried.outcome;
    let peak = peak(&outcome.stats);
    let is_exact = check.matched == Some(check.events) && check.final_state.as_ref().is_none_or(|f| f.equal);
    let mut notes = Vec::new();
    if !is_exact {
        notes.push("The model does not reproduce this recording, so nothing here is verified.".to_owned());
    }
    if tried.failing_members > 0 && tried.failing_members < tried.members {
        notes.push(format!(
            "Of {} placements and timings tried, {} fail: ties or timing decide.",
            tried.members, tried.failing_members
        ));
    }
    notes.extend(changed.notes.iter().cloned());
    let exceeds_limit = outcome.first_failure.is_none() && limit.is_some_and(|l| tried.peak_reserved_range.1 > l);
    if exceeds_limit {
        notes.push("It reserves more than the limit, which a cap lets pass and a card does not.".to_owned());
    }
    if changed.is_estimate {
        notes.push("An estimate: a program so changed may ask for other things too.".to_owned());
    }
    if let Some(fraction) = fraction.filter(|f| *f > 0.0 && *f < 1.0)
        && world.args.input.limit().is_none()
    {
        notes.push(format!(
            "per_process_memory_fraction:{fraction} is a share of the card's memory, whose size the file does not hold: \
             give what it comes to as --limit."
        ));
    }
    let recorded_costs = Costs::of(&check);
    DeviceReplay {
        mode: ReplayMode::Counterfactual,
        status: if is_exact { ReplayState::Simulated } else { ReplayState::NotVerified },
        settings: world.args.settings.clone().or(check.settings),
        changes: changed.changes.clone(),
        basis: if changed.is_estimate || !recorded.started_empty { "replay_estimate" } else { "exact_replay" },
        recorded: Some(recorded_costs),
        model: world.release.to_string(),
        limit_bytes: limit,
        limit_is_inferred: world.args.input.limit().is_none() && fraction.is_none_or(|f| f > 0.0) && limit.is_some(),
        matched: None,
        first_divergence: None,
        final_state: None,
        oom: outcome.first_failure.is_some(),
        first_oom: outcome.first_failure.map(|f| FailedRequest {
            event: u64::from(f.event),
            malloc: f.malloc,
            step: steps.of(f.event),
            request_bytes: sizes.round(f.request_bytes),
        }),
        peak,
        peak_reserved_range: tried.peak_reserved_range,
        exceeds_limit,
        tie_sensitive: tried.tie_sensitive,
        timing_sensitive: tried.timing_sensitive,
        end: end(&outcome.at_end),
        retries: outcome.stats.retries,
        ooms: outcome.failures,
        driver_allocations: outcome.stats.driver_allocations,
        driver_frees: outcome.stats.driver_frees,
        maps: outcome.stats.maps,
        unmaps: outcome.stats.unmaps,
        synchronisations: outcome.stats.synchronisations,
        hypothetical_from: outcome.hypothetical_from.map(u64::from),
        note: (!notes.is_empty()).then(|| notes.join(" ")),
        ..check
    }
}

fn state(has_trace: bool, recorded: &Recorded) -> ReplayState {
    match () {
        () if !has_trace => ReplayState::NotPossible,
        () if recorded.is_exact() => ReplayState::Exact,
        () => ReplayState::Diverged,
    }
}

/// The input as results name it.
fn describe((meta, snapshot): &Loaded) -> Input {
    let torch = &snapshot.torch;
    let torch = Torch { at_least: torch.at_least.clone(), below: torch.below.clone(), because: torch.because.clone() };
    Input { path: meta.path.clone(), kind: "snapshot", size_bytes: meta.size_bytes, torch: Some(torch), error: None }
}

/// Losses and oddities of everything loaded, in code order.
fn warnings(inputs: &[Loaded]) -> Vec<WarningLine> {
    let mut all = Warnings::default();
    for (_, snapshot) in inputs {
        all.merge(&snapshot.warnings);
    }
    all.iter()
        .map(|(code, w)| WarningLine { code: code.to_owned(), count: w.count, message: w.message.clone() })
        .collect()
}

fn peak(stats: &Stats) -> ReplayPeak {
    ReplayPeak {
        requested_bytes: stats.requested.peak,
        allocated_bytes: stats.allocated.peak,
        active_bytes: stats.active.peak,
        reserved_bytes: stats.reserved.peak,
    }
}

fn end(stats: &Stats) -> ReplayEnd {
    ReplayEnd {
        allocated_bytes: stats.allocated.current,
        reserved_bytes: stats.reserved.current,
        segments: stats.segments.current,
    }
}

/// What the file shows where there is no trace to lead there.
fn in_file(device: &Device) -> ReplayEnd {
    let allocated = device.blocks.iter().filter(|b| b.state == whyoom_snapshot::BlockState::Allocated);
    ReplayEnd {
        allocated_bytes: allocated.map(|b| b.size).fold(0, u64::saturating_add),
        reserved_bytes: device.segments.iter().map(|s| s.total_size).fold(0, u64::saturating_add),
        segments: device.segments.len() as u64,
    }
}
