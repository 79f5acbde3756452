//! Small recordings made by hand: a program is written down line by line, and the real allocator model places it, so
//! that its trace replays exactly.

use crate::explanation::DeviceReport;
use crate::tables::shared::Shared;
use crate::{ExplainOptions, device};
use std::collections::BTreeMap;
use whyoom_allocator::{AscendingDriver, BlockId, Driver, Model, PlacedState, Request, Settings};
use whyoom_snapshot::{
    Action, Annotation, Block, BlockState, Device, Events, Frame, PoolRef, RecordedSettings, Segment, Snapshot,
    StackId, StackTableBuilder, StreamId, StringTableBuilder,
};

pub(crate) const MIB: u64 = 1 << 20;
const MODULE: &str = "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py";
const COPY: &str = "/usr/lib/python3.12/copy.py";
const OPTIMIZER: &str = "/venv/lib/python3.12/site-packages/torch/optim/adam.py";
const FUNCTIONAL: &str = "/venv/lib/python3.12/site-packages/torch/nn/functional.py";

/// The default stream and a side stream.
const STREAMS: [u64; 2] = [0, 0x55aa];

/// A driver that writes down its calls.
struct Log {
    inner: AscendingDriver,
    calls: Vec<(Action, u64, u64)>,
}

impl Driver for Log {
    fn allows(&mut self, total: u64, maps: bool) -> bool {
        self.inner.allows(total, maps)
    }
    fn must_collect(&mut self, total: u64, threshold: f64, next: u64) -> bool {
        self.inner.must_collect(total, threshold, next)
    }
    fn segment_alloc(&mut self, bytes: u64, stream: u64) -> Option<u64> {
        let address = self.inner.segment_alloc(bytes, stream)?;
        self.calls.push((Action::SegmentAlloc, address, bytes));
        Some(address)
    }
    fn segment_free(&mut self, address: u64, bytes: u64) {
        self.calls.push((Action::SegmentFree, address, bytes));
    }
    fn reserve(&mut self, page: u64, stream: u64) -> (u64, u64) {
        self.inner.reserve(page, stream)
    }
    fn map(&mut self, address: u64, bytes: u64, _total_after: u64) -> bool {
        self.calls.push((Action::SegmentMap, address, bytes));
        true
    }
    fn unmap(&mut self, address: u64, bytes: u64) {
        self.calls.push((Action::SegmentUnmap, address, bytes));
    }
}

/// A program being recorded.
pub(crate) struct Recording {
    allocator: whyoom_allocator::Allocator,
    log: Log,
    events: Events,
    strings: StringTableBuilder,
    stacks: StackTableBuilder,
    annotations: Vec<Annotation>,
    live: BTreeMap<u32, (BlockId, u64, u64)>,
    next: u32,
    conf: String,
    settings: Settings,
    /// Stream by the address of each segment of another than the default one.
    segment_streams: BTreeMap<u64, StreamId>,
    /// Stream that requests are made on: 0, or 1 for a side stream.
    pub(crate) stream: u16,
    /// What the driver says is free at a failure; a card's limit is this small.
    pub(crate) device_free: u64,
}

impl Recording {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self::with_settings(limit, "")
    }

    pub(crate) fn with_settings(limit: Option<u64>, conf: &str) -> Self {
        let release = Model::default().release;
        let settings = whyoom_allocator::settings::parse(conf, release).expect("valid settings").settings;
        Self {
            allocator: whyoom_allocator::Allocator::new(Model::default(), settings.clone(), &STREAMS),
            log: Log { inner: AscendingDriver::new(limit), calls: Vec::new() },
            events: Events::default(),
            strings: StringTableBuilder::default(),
            stacks: StackTableBuilder::default(),
            annotations: Vec::new(),
            live: BTreeMap::new(),
            next: 0,
            conf: conf.to_owned(),
            settings,
            segment_streams: BTreeMap::new(),
            stream: 0,
            device_free: 1 << 37,
        }
    }

    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.log.inner.limit = Some(limit);
    }

    /// The stack of `place`: `12` is line 12 of the program, `12>5` line 5 of a model called there, `12>5:relu` an
    /// operation of PyTorch that it calls, `12>5.keep` a method of its own, `12%` the loss over classes called there,
    /// `12!` the optimizer called there, `12!30>5` a closure at line 30 that it calls, which calls the model, `12@` a module moved to the device there, `12~` a structure copied there by `copy.deepcopy` (a deeper
    /// part of it with more of `~`), and the empty text autograd's own thread.
    fn stack(&mut self, place: &str) -> StackId {
        if place.is_empty() {
            return StackId::EMPTY;
        }
        let number = |text: &str| text.parse::<u32>().expect("a line number");
        let (line, inner) = place.split_once('>').map_or((place, None), |(l, i)| (l, Some(i)));
        let (line, closure) = line.split_once('!').map_or((line, None), |(l, c)| (l, Some(c)));
        let mut frames = vec![
            ("/job/train.py", "<module>", 1),
            ("/job/train.py", "main", number(line.trim_end_matches(['@', '~', '%']))),
        ];
        for _ in 0..line.matches('~').count() {
            frames.extend([(COPY, "deepcopy", 162), (COPY, "_reconstruct", 259), (COPY, "deepcopy", 136)]);
        }
        if line.ends_with('%') {
            frames.push((FUNCTIONAL, "cross_entropy", 3458));
        }
        if line.ends_with('@') {
            frames.push((MODULE, "_apply", 965));
        }
        if let Some(closure) = closure {
            frames.push((OPTIMIZER, "step", 200));
            if !closure.is_empty() {
                frames.push(("/job/train.py", "closure", number(closure)));
            }
        }
        if let Some(inner) = inner {
            let (forward, method) = inner.split_once('.').map_or((inner, None), |(l, m)| (l, Some(m)));
            let (forward, operation) = forward.split_once(':').map_or((forward, None), |(l, o)| (l, Some(o)));
            frames.extend([(MODULE, "_call_impl", 1790), ("/job/net.py", "forward", number(forward))]);
            frames.extend(operation.map(|name| (FUNCTIONAL, name, 1700)));
            frames.extend(method.map(|name| ("/job/net.py", name, 90)));
        }
        frames.iter().fold(StackId::EMPTY, |parent, &(file, function, line)| {
            let frame = Frame { function: self.strings.intern(function), file: self.strings.intern(file), line };
            let frame = self.stacks.frame(frame);
            self.stacks.push(parent, frame)
        })
    }

    fn push(&mut self, action: Action, addr: u64, size: u64, stack: StackId) {
        self.events.action.push(action);
        self.events.addr.push(addr);
        self.events.size.push(size);
        self.events.stream.push(StreamId(self.stream));
        self.events.stack.push(stack);
        self.events.time_us.push(1_000 + 10 * self.events.time_us.len() as i64);
    }

    /// Requests `bytes` at `place`; `None` if that fails.
    pub(crate) fn try_alloc(&mut self, place: &str, bytes: u64) -> Option<u32> {
        let stack = self.stack(place);
        let tag = self.next;
        self.next += 1;
        let placed = self.allocator.malloc(&mut self.log, Request { bytes, stream: self.stream, pool: 0, tag });
        for (action, addr, size) in std::mem::take(&mut self.log.calls) {
            self.push(action, addr, size, stack);
            if self.stream > 0 && action == Action::SegmentAlloc {
                self.segment_streams.insert(addr, StreamId(self.stream));
            }
        }
        match placed {
            Ok(block) => {
                let address = self.allocator.block(block).address;
                self.push(Action::Alloc, address, bytes, stack);
                self.live.insert(tag, (block, address, bytes));
                Some(tag)
            }
            Err(failure) => {
                self.push(Action::Oom, self.device_free, failure.size, stack);
                None
            }
        }
    }

    pub(crate) fn alloc(&mut self, place: &str, bytes: u64) -> u32 {
        self.try_alloc(place, bytes).expect("room for the request")
    }

    pub(crate) fn free(&mut self, place: &str, tag: u32) {
        let stack = self.stack(place);
        let (block, address, bytes) = self.live.remove(&tag).expect("a live allocation");
        self.allocator.free(block);
        self.push(Action::FreeRequested, address, bytes, stack);
        self.push(Action::FreeCompleted, address, bytes, stack);
    }

    pub(crate) fn free_all(&mut self, place: &str, tags: impl IntoIterator<Item = u32>) {
        for tag in tags {
            self.free(place, tag);
        }
    }

    /// Frees what was allocated last.
    pub(crate) fn drop_last(&mut self, place: &str) {
        let last = *self.live.keys().last().expect("a live allocation");
        self.free(place, last);
    }

    /// The program drops `tag` while another stream uses it.
    pub(crate) fn drop_while_used(&mut self, place: &str, tag: u32) {
        let stack = self.stack(place);
        let (block, address, bytes) = self.live[&tag];
        self.allocator.free_pending(block);
        self.push(Action::FreeRequested, address, bytes, stack);
    }

    pub(crate) fn complete(&mut self, tag: u32) {
        let (block, address, bytes) = self.live.remove(&tag).expect("a pending allocation");
        self.allocator.complete(block);
        self.push(Action::FreeCompleted, address, bytes, StackId::EMPTY);
    }

    /// The optimizer's step ends here.
    pub(crate) fn step(&mut self) {
        let name = self.strings.intern("Optimizer.step#Adam.step");
        let now = 1_000 + 10 * self.events.time_us.len() as i64;
        for (is_start, time_us) in [(true, now - 9), (false, now - 5)] {
            self.annotations.push(Annotation { name, is_start, device: 0, time_us });
        }
    }

    /// A usual training step: a batch at line 10, activations in the model called at line 11, a backward pass, and the
    /// optimizer. `bytes` are the activations.
    pub(crate) fn train_step(&mut self, bytes: u64) {
        let batch = self.alloc("10", MIB);
        let activations = [self.alloc("11>5", bytes / 2), self.alloc("11>6", bytes / 2)];
        let gradient = self.alloc("", 2 * MIB);
        self.free_all("", activations);
        let scratch = self.alloc("13!", 2 * MIB);
        self.free("13!", scratch);
        self.step();
        self.free_all("14", [gradient, batch]);
    }

    pub(crate) fn finish(self) -> Snapshot {
        let mut device = Device { index: 0, events: self.events, has_segments: true, ..Device::default() };
        for block in self.allocator.layout() {
            let state = match block.state {
                PlacedState::Allocated => BlockState::Allocated,
                PlacedState::Pending => BlockState::PendingFree,
                PlacedState::Free => BlockState::Free,
            };
            let at = device.blocks.len() as u32;
            if block.starts_segment {
                device.segments.push(Segment {
                    address: block.address,
                    total_size: 0,
                    stream: self.segment_streams.get(&block.address).copied().unwrap_or(StreamId(0)),
                    is_small: false,
                    pool: PoolRef::DEFAULT,
                    is_expandable: block.is_expandable,
                    stack: None,
                    blocks: at..at,
                });
            }
            if let Some(segment) = device.segments.last_mut() {
                segment.total_size += block.size;
                segment.blocks.end = at + 1;
            }
            let requested_size = (state != BlockState::Free).then_some(block.requested);
            device.blocks.push(Block { address: block.address, size: block.size, requested_size, state, stack: None });
        }
        Snapshot {
            devices: vec![device],
            streams: STREAMS.into(),
            pools: vec![(0, 0)],
            strings: self.strings.finish(),
            stacks: self.stacks.finish(),
            annotations: self.annotations,
            settings: Some(RecordedSettings {
                conf: Some(self.conf),
                max_split_size: self.settings.max_split_size,
                garbage_collection_threshold: self.settings.garbage_collection_threshold,
                expandable_segments: self.settings.expandable_segments,
                roundup_power2_divisions: Some(self.settings.roundup_power2_divisions),
                other: Vec::new(),
            }),
            ..Snapshot::default()
        }
    }

    /// What the diagnosis makes of it under a limit that is asked for.
    pub(crate) fn explain_under(self, limit: u64) -> DeviceReport {
        let snapshot = self.finish();
        let options = ExplainOptions { limit: Some(crate::LimitChoice::Bytes(limit)), ..ExplainOptions::default() };
        device::explain(&Shared::new(&snapshot), &snapshot.devices[0], &options)
    }

    /// What the diagnosis makes of it.
    pub(crate) fn explain(self) -> DeviceReport {
        explain(&self.finish())
    }
}

/// The diagnosis of the first device.
pub(crate) fn explain(snapshot: &Snapshot) -> DeviceReport {
    device::explain(&Shared::new(snapshot), &snapshot.devices[0], &ExplainOptions::default())
}

/// The line of the first culprit of the verdict, 0 without one.
pub(crate) fn first_line(report: &DeviceReport) -> u32 {
    report.findings.first().and_then(|f| f.culprits.first()).map_or(0, |c| c.line)
}
