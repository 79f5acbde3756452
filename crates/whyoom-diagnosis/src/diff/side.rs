//! One side of a comparison: what a device held at its peak.

use crate::case::Case;
use crate::tables::kinds::Kind;
use crate::tables::ledger::Ledger;
use crate::tables::shared::Shared;
use crate::{ExplainOptions, groups, in_force, words};
use std::collections::BTreeMap;
use whyoom_allocator::{Backend, Model};
use whyoom_replay::{RecordedOptions, Trace, replay_recorded};
use whyoom_snapshot::{Device, StackId};

/// A line of the program, by what is the same in two runs of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineKey {
    pub(super) function: String,
    /// Name without directories.
    pub(super) file: String,
    pub(super) line: u32,
}

/// What a line holds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) count: u64,
}

/// What a device held at its peak.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) device: u32,
    pub(super) peak_live: u64,
    pub(super) peak_reserved: u64,
    pub(super) steps: u64,
    pub(super) settings: Option<String>,
    pub(super) categories: BTreeMap<&'static str, u64>,
    /// By kind and calling line of the program.
    pub(super) lines: BTreeMap<(Kind, LineKey), Held>,
    /// By kind and deepest line of any code: the operation.
    pub(super) operations: BTreeMap<(Kind, LineKey), Held>,
    /// Path of each file's name.
    pub(super) files: BTreeMap<String, String>,
    /// Tensors that the optimizer keeps for each parameter.
    pub(super) state_tensors: usize,
    /// Whether a request failed.
    pub(super) failed: bool,
}

impl Side {
    pub(super) fn new(shared: &Shared<'_>, device: &Device, options: &ExplainOptions) -> Self {
        let snapshot = shared.snapshot;
        let release = in_force::release(options.torch, &snapshot.torch);
        let in_force = in_force::settings(snapshot, device, release);
        let trace = Trace::new(snapshot, device);
        let mut this = Self { device: device.index, settings: in_force.string.clone(), ..Self::default() };
        if trace.implausible.is_some() {
            return this;
        }
        let settings = match in_force.settings.backend {
            Backend::Native => in_force.settings.clone(),
            Backend::CudaMallocAsync => whyoom_allocator::Settings::default(),
        };
        let model = Model::for_torch(release);
        let recorded = replay_recorded(&trace, RecordedOptions { model, settings: &settings });
        let is_exact = recorded.is_exact();
        let case = Case::new(Ledger::new(&trace, &recorded, shared), &recorded, &in_force, None, is_exact);
        let ledger = &case.ledger;
        this.peak_live = ledger.peak_live;
        this.peak_reserved = case.peak_reserved();
        this.steps = ledger.completed;
        this.failed = case.failing.is_some();
        this.state_tensors = groups::state_tensors(&case, case.kinds());
        let alive = ledger.peak_event.map(|event| ledger.alive_at(event.saturating_add(1))).unwrap_or_default();
        for id in alive {
            let (kind, bytes) = (case.kinds().of(id), ledger.sizes[id as usize]);
            let sum = this.categories.entry(kind.category()).or_default();
            *sum = sum.saturating_add(bytes);
            let own = ledger.trace.allocations[id as usize].stack;
            let line = this.line(ledger, ledger.call_line(id));
            let operation = this.line(ledger, own);
            for (table, key) in [(&mut this.lines, line), (&mut this.operations, operation)] {
                let held = table.entry((kind, key)).or_default();
                held.bytes = held.bytes.saturating_add(bytes);
                held.count += 1;
            }
        }
        this
    }

    fn line(&mut self, ledger: &Ledger<'_>, node: StackId) -> LineKey {
        let snapshot = ledger.trace.snapshot;
        let Some((_, frame)) = snapshot.stacks.frames(node).next() else {
            return LineKey { function: String::new(), file: String::new(), line: 0 };
        };
        let path = snapshot.strings.get(frame.file);
        let file = words::file_name(path).to_owned();
        if !self.files.contains_key(&file) {
            self.files.insert(file.clone(), path.to_owned());
        }
        LineKey { function: snapshot.strings.get(frame.function).to_owned(), file, line: frame.line }
    }
}
