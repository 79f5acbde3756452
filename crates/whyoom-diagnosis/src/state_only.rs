//! What a file without a trace still tells: a state, not how it came to be.

use crate::causes::undetermined;
use crate::device::settings_report;
use crate::explanation::{
    BoundReport, CategoriesReport, Culprit, DeviceReport, Finding, PeakReport, ReplayReport, ReplayStatus, StepsReport,
};
use crate::in_force::InForce;
use crate::limit::Limit;
use crate::tables::culprits::MAX_STACK;
use crate::tables::shared::Shared;
use crate::tables::total;
use crate::{ExplainOptions, LimitChoice, words};
use hashbrown::HashMap;
use whyoom_allocator::{Backend, Release};
use whyoom_replay::Implausible;
use whyoom_snapshot::{BlockState, Device, FrameId, StackId};

/// Lines named as holders.
const HOLDERS: usize = 4;

/// The report on a device with a size or address that none has: no figure of it means anything.
pub(crate) fn impossible(
    device: &Device,
    options: &ExplainOptions,
    release: Release,
    in_force: &InForce,
    wrong: &Implausible,
) -> DeviceReport {
    let note = format!("{}; nothing of it was replayed.", words::capital(&wrong.to_string()));
    let finding = undetermined::of_impossible(wrong);
    DeviceReport {
        limit: Limit::new(None, options.limit).report(),
        ..without_replay(device, release, in_force, note, finding)
    }
}

/// A report in which nothing but the settings is known.
fn without_replay(
    device: &Device,
    release: Release,
    in_force: &InForce,
    note: String,
    finding: Finding,
) -> DeviceReport {
    DeviceReport {
        input: 0,
        device: device.index,
        rank: None,
        settings: settings_report(in_force),
        replay: ReplayReport {
            status: ReplayStatus::NotPossible,
            events: device.events.len() as u64,
            matched: 0,
            first_divergence: None,
            final_state: None,
            model: release.to_string(),
            retries: 0,
            note: Some(note),
        },
        limit: Limit::new(None, None).report(),
        steps: StepsReport { count: 0, source: "none", is_partial: false },
        peak: PeakReport::default(),
        oom: None,
        would_fail: None,
        bound: BoundReport::default(),
        categories: CategoriesReport::default(),
        findings: vec![finding],
        ruled_out: Vec::new(),
        remedies: Vec::new(),
        collect: None,
    }
}

/// Explains the state of `device`.
pub(crate) fn explain(
    shared: &Shared<'_>,
    device: &Device,
    options: &ExplainOptions,
    release: Release,
    in_force: &InForce,
) -> DeviceReport {
    let sum = |state: BlockState| total(device.blocks.iter().filter(|b| b.state == state).map(|b| b.size));
    let reserved = total(device.segments.iter().map(|s| s.total_size));
    let (live, pending) = (sum(BlockState::Allocated), sum(BlockState::PendingFree));
    let live_blocks = device.blocks.iter().filter(|b| b.state == BlockState::Allocated);
    let requested = total(live_blocks.map(|b| b.requested_size.unwrap_or(b.size)));
    let largest_free = device.blocks.iter().filter(|b| b.state == BlockState::Free).map(|b| b.size).max().unwrap_or(0);
    let mut finding = undetermined::of_state(reserved, live, pending, largest_free);
    finding.culprits = holders(shared, device);
    let note = if in_force.settings.backend == Backend::CudaMallocAsync {
        "backend:cudaMallocAsync leaves memory to the driver's own pool, which keeps no record and is not modelled."
    } else {
        "There is no trace to replay: history was not being recorded."
    };
    let limit = Limit::new(None, options.limit);
    let bytes_to_free = match options.limit {
        Some(LimitChoice::Bytes(limit) | LimitChoice::Card(limit)) => {
            (live.saturating_add(pending)).saturating_sub(limit)
        }
        _ => 0,
    };
    DeviceReport {
        limit: limit.report(),
        peak: PeakReport {
            requested_bytes: requested,
            allocated_bytes: live,
            active_bytes: live.saturating_add(pending),
            reserved_bytes: reserved,
            event: None,
        },
        bound: BoundReport {
            compact_bytes: live.saturating_add(pending),
            bytes_to_free,
            fits_from_bytes_default: None,
            fits_from_bytes_best: None,
        },
        ..without_replay(device, release, in_force, note.to_owned(), finding)
    }
}

/// The user's lines that hold most of the live bytes, by the stacks of the blocks.
fn holders(shared: &Shared<'_>, device: &Device) -> Vec<Culprit> {
    let (snapshot, shapes) = (shared.snapshot, shared.shapes());
    let mut by_line: HashMap<FrameId, (u64, u64, StackId, bool)> = HashMap::new();
    for block in device.blocks.iter().filter(|b| b.state == BlockState::Allocated) {
        let Some(stack) = block.stack else { continue };
        let shape = shapes.of(stack);
        let (node, in_module) =
            if shape.user == StackId::EMPTY { (shape.nearest, shape.in_module) } else { (shape.user, false) };
        let Some((frame, _)) = snapshot.stacks.frames(node).next() else { continue };
        let line = by_line.entry(frame).or_insert((0, 0, stack, in_module));
        line.0 = line.0.saturating_add(block.size);
        line.1 += 1;
    }
    let mut lines: Vec<_> = by_line.into_iter().collect();
    lines.sort_unstable_by_key(|(frame, line)| (u64::MAX - line.0, frame.0));
    let text = |id| snapshot.strings.get(id).to_owned();
    lines
        .into_iter()
        .take(HOLDERS)
        .filter_map(|(frame, (bytes, count, stack, in_module_forward))| {
            let frame = snapshot.stacks.frame(frame)?;
            let stack = snapshot
                .stacks
                .frames(stack)
                .take(MAX_STACK)
                .map(|(_, f)| {
                    format!("{} ({}:{})", snapshot.strings.get(f.function), snapshot.strings.get(f.file), f.line)
                })
                .collect();
            let (function, file, line) = (text(frame.function), text(frame.file), frame.line);
            Some(Culprit { function, file, line, bytes, count, in_module_forward, stack, ..Culprit::default() })
        })
        .collect()
}
