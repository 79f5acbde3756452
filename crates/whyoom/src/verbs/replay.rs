//! `whyoom replay`: does the model reproduce this recording; what happens under other settings.

use rayon::prelude::*;
use whyoom_allocator::{
    Model, Release, SizeRules, Stats,
    settings::{Backend, Settings, SettingsError, parse},
};
use whyoom_replay::{
    LimitKind, LimitSource, Recorded, RecordedOptions, Start, Steps, Trace, Trial, Until,
    edits::{self, Edit},
    replay_recorded, try_all,
};
use whyoom_report::{
    replay::{
        DeviceReplay, DivergenceReport, FailedRequest, FinalStateReport, Input, RecordedFailure, ReplayEnd, ReplayMode,
        ReplayPeak, ReplayResult, Torch, WarningLine,
    },
    write_replay,
};
use whyoom_snapshot::{Action, Device, Snapshot, Warnings};

use crate::{
    Exit, Streams,
    cli::{EmptyCache, LimitArg, ReplayArgs},
    pipeline::{self, Loaded, Presentation},
    progress::Progress,
    recording,
};

pub(crate) fn run(args: &ReplayArgs, streams: &mut Streams<'_>) -> Exit {
    let loading = match pipeline::load(&args.input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let mut worlds = Vec::new();
    let mut warnings = warnings(&loading.inputs);
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
    let devices = jobs.into_par_iter().map(|(i, d)| replay(&worlds[i], i, &loading.inputs[i].1, d)).collect();
    drop(progress);

    let exit = loading.exit();
    let presentation = Presentation::new(&args.output, streams);
    presentation.add_failures(&mut warnings, loading.failed);
    let inputs = loading.inputs.iter().map(describe).collect();
    let result = ReplayResult { schema: ReplayResult::SCHEMA, inputs, warnings, devices };
    streams.print(exit, |out| presentation.show(&result, write_replay, out))
}

/// What is asked of one input: the release, and the world to replay it in.
struct World<'a> {
    args: &'a ReplayArgs,
    model: Model,
    release: Release,
    /// Settings to try; `None` = as recorded.
    other: Option<Settings>,
    warnings: Vec<WarningLine>,
}

impl<'a> World<'a> {
    fn new(args: &'a ReplayArgs, snapshot: &Snapshot) -> Result<Self, SettingsError> {
        let release = recording::release(&snapshot.torch, args.input.torch);
        let parsed = args.settings.as_deref().map(|s| parse(s, release)).transpose()?;
        let warnings = parsed.iter().flat_map(|p| &p.warnings);
        let warnings = warnings
            .map(|w| WarningLine { code: "settings".into(), count: 1, message: format!("--settings: {w}") })
            .collect();
        let other = parsed.map(|p| p.settings);
        Ok(Self { args, model: Model::for_torch(release), release, other, warnings })
    }

    fn is_counterfactual(&self) -> bool {
        self.args.settings.is_some() || self.args.input.limit.is_some() || self.args.empty_cache.is_some()
    }
}

fn replay(world: &World<'_>, input: usize, snapshot: &Snapshot, device: &Device) -> DeviceReplay {
    let trace = Trace::new(snapshot, device);
    let steps = Steps::find(&trace);
    let settings = recording::settings(snapshot, device, world.release);
    let recorded = replay_recorded(&trace, RecordedOptions { model: world.model, settings: &settings });
    let check = check(world, input, &trace, &settings, &steps, &recorded);
    if world.is_counterfactual() && check.matched.is_some() {
        otherwise(world, check, settings, &steps, &recorded)
    } else {
        check
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
    let has_trace = is_modelled && device.events.action.iter().any(is_block);
    let sizes = SizeRules::new(&world.model, settings);
    let first = recorded.failures.first();
    let peak = peak(&recorded.stats);
    let note = if !is_modelled {
        Some("The recording is of backend:cudaMallocAsync, whose allocator is the driver's and is not modelled.")
    } else if has_trace && !recorded.started_empty {
        Some("The trace has no beginning; the state before it was rebuilt backwards.")
    } else {
        None
    };
    DeviceReplay {
        input,
        device: device.index,
        mode: ReplayMode::Recorded,
        settings: snapshot.settings.as_ref().and_then(|s| s.conf.clone()),
        empty_cache: None,
        limit_bytes: None,
        limit_is_inferred: false,
        model: world.release.to_string(),
        events: recorded.events,
        matched: has_trace.then_some(recorded.matched),
        first_divergence: recorded.first_divergence.as_ref().map(|d| DivergenceReport {
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
        tie_sensitive: false,
        timing_sensitive: false,
        end: if has_trace { end(&recorded.stats) } else { in_file(device) },
        retries: recorded.stats.retries,
        ooms: recorded.failures.len() as u64,
        driver_allocations: recorded.stats.driver_allocations,
        driver_frees: recorded.stats.driver_frees,
        maps: recorded.stats.maps,
        unmaps: recorded.stats.unmaps,
        synchronisations: recorded.stats.synchronisations,
        steps: steps.completed(),
        hypothetical_from: None,
        note: note.map(str::to_owned),
    }
}

/// The same requests in the other world.
fn otherwise(
    world: &World<'_>,
    check: DeviceReplay,
    settings: Settings,
    steps: &Steps,
    recorded: &Recorded,
) -> DeviceReplay {
    let settings = world.other.clone().unwrap_or(settings);
    let (limit, limit_kind) = match world.args.input.limit {
        Some(LimitArg::Bytes(bytes)) => (Some(bytes), LimitKind::Fraction),
        Some(LimitArg::None) => (None, LimitKind::Fraction),
        None if recorded.limit.source == LimitSource::Card => (recorded.limit.safe(), LimitKind::Card),
        None => (recorded.limit.safe(), LimitKind::Fraction),
    };
    let calls = world.args.empty_cache.map(|EmptyCache(every)| edits::EmptyCache::after_steps(steps, every.get()));
    let calls = calls.unwrap_or_default();
    let is_never_called = calls.count(&recorded.program) == 0;
    let edited = calls.apply(&recorded.program);
    let program = &edited;
    let is_cold = recorded.started_empty || limit.is_some() || settings.expandable_segments;
    let sizes = SizeRules::new(&world.model, &settings);
    let trial = Trial {
        program,
        model: world.model,
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
    if world.args.empty_cache.is_some() && is_never_called {
        notes.push("No step ends in this trace, so empty_cache() was never called.".to_owned());
    }
    DeviceReplay {
        mode: ReplayMode::Counterfactual,
        settings: world.args.settings.clone().or(check.settings),
        empty_cache: world.args.empty_cache.map(|e| match e.0.get() {
            1 => "empty_cache() after every step".to_owned(),
            n => format!("empty_cache() after every {n} steps"),
        }),
        limit_bytes: limit,
        limit_is_inferred: world.args.input.limit.is_none() && limit.is_some(),
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

/// The input as results name it.
fn describe((meta, snapshot): &Loaded) -> Input {
    let torch = &snapshot.torch;
    let torch = Torch { at_least: torch.at_least.clone(), below: torch.below.clone(), because: torch.because.clone() };
    Input { path: meta.path.clone(), kind: "snapshot", size_bytes: meta.size_bytes, torch: Some(torch) }
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
        allocated_bytes: allocated.map(|b| b.size).sum(),
        reserved_bytes: device.segments.iter().map(|s| s.total_size).sum(),
        segments: device.segments.len() as u64,
    }
}
