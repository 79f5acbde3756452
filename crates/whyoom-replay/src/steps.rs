//! Steps of the program: from the optimizer's marks, else from its frames, else from the period of its requests.

use crate::trace::Trace;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;
use whyoom_snapshot::{Action, Annotation, Events, Snapshot, StackId, StrId};

/// Where steps are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepSource {
    /// `Optimizer.step#…` marks that PyTorch records itself.
    Annotations,
    /// The trace repeats itself: an optimizer's frames, or a round of call sites.
    Period,
    /// No steps could be told.
    #[default]
    None,
}

/// Steps of the program on one device.
///
/// A step ends where the optimizer's step ends (or where a round of requests begins anew), so whatever follows the
/// last end is a step in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// Where they are known from.
    pub source: StepSource,
    /// First event of each step in the trace, ascending.
    starts: Vec<u32>,
    /// Number of the first step in the trace: marks older than the trace count.
    first: u64,
    completed: u64,
    /// Event ranges of the optimizer's own steps, ascending; empty unless from annotations.
    optimizer: Vec<Range<u32>>,
}

/// So many rounds make a period.
const ROUNDS: usize = 4;

impl Steps {
    /// Finds the steps of `trace`; `basis` is that of its file. Time is linear in its events and marks.
    pub fn find(trace: &Trace<'_>, basis: &StepBasis) -> Self {
        let mut steps = Self::begun(trace, basis);
        let last_failure = trace.device.events.action.iter().rposition(|a| *a == Action::Oom).map(|i| i as u32);
        // A step that a failure ended is not completed, though the optimizer's mark closes all the same.
        if let Some(step) = last_failure.filter(|&f| !trace.asks_after(f)).and_then(|f| steps.of(f)) {
            steps.completed = steps.completed.min(step.saturating_sub(steps.first));
        }
        steps
    }

    /// The steps, those that a failure ended counted as completed.
    fn begun(trace: &Trace<'_>, basis: &StepBasis) -> Self {
        let shapes = &basis.shapes;
        let events = &trace.device.events;
        let marks = basis.marks(trace.snapshot, trace.device.index);
        if !marks.is_empty() {
            return Self::from_annotations(trace, &marks, shapes);
        }
        let ends = optimizer_runs(events, shapes);
        if ends.len() >= ROUNDS {
            let mut steps = Self::from_ends(events.len() as u32, ends);
            steps.source = StepSource::Period;
            return steps;
        }
        Self::from_period(events, shapes).unwrap_or_default()
    }

    fn from_annotations(trace: &Trace<'_>, marks: &[Range<i64>], shapes: &StackShapes) -> Self {
        let events = &trace.device.events;
        let Some(&oldest) = events.time_us.first() else {
            // Without times nothing says where in the trace a mark stands; that the steps were made is certain.
            return Self { source: StepSource::Annotations, completed: marks.len() as u64, ..Self::default() };
        };
        let at = |time: i64| events.time_us.partition_point(|&t| t <= time) as u32;
        let first = marks.iter().filter(|m| m.end < oldest).count();
        let optimizer: Vec<Range<u32>> =
            marks[first..].iter().map(|m| at(m.start.saturating_sub(1))..at(m.end)).collect();
        let has_backward =
            events.action.iter().zip(&events.stack).any(|(a, s)| *a == Action::Alloc && !shapes.has_python(*s));
        let mut ends: Vec<u32> = Vec::with_capacity(optimizer.len());
        for window in &optimizer {
            // Several optimizers that step one after the other make one step: no backward pass lies between them, nor in
            // the later one's step (which may call a closure).
            if let Some(last) = ends.last_mut()
                && (*last == window.end || (has_backward && !has_backward_in(events, shapes, *last..window.end)))
            {
                *last = window.end;
                continue;
            }
            ends.push(window.end);
        }
        let mut steps = Self::from_ends(events.len() as u32, ends);
        steps.source = StepSource::Annotations;
        steps.first = first as u64;
        steps.optimizer = optimizer;
        steps
    }

    /// Steps that end just before the events `ends`.
    fn from_ends(events: u32, ends: Vec<u32>) -> Self {
        let completed = ends.len() as u64;
        let mut starts = vec![0];
        starts.extend(ends.into_iter().filter(|&e| e < events));
        Self { starts, completed, ..Self::default() }
    }

    /// Steps from the round in which call sites follow one another.
    ///
    /// A call site is a stack of the program down to where it enters a module's `forward` or PyTorch's own code. Sites that occur equally often, each once
    /// between two occurrences of the first of them, make a round; rounds must be about equally long and cover half
    /// of the trace, or there are no steps.
    fn from_period(events: &Events, shapes: &StackShapes) -> Option<Self> {
        let mut visits: Vec<Visit> = Vec::new();
        let mut requests = 0;
        for i in 0..events.len() {
            if !matches!(events.action[i], Action::Alloc | Action::Oom) || !shapes.has_site(events.stack[i]) {
                continue;
            }
            let site = shapes.call_site(events.stack[i]);
            if visits.last().is_none_or(|v| v.site != site) {
                visits.push(Visit { event: i as u32, site, requests });
            }
            requests += 1;
        }
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for visit in &visits {
            *counts.entry(visit.site).or_default() += 1;
        }
        let mut weights: HashMap<u32, u64> = HashMap::new();
        for &count in counts.values() {
            *weights.entry(count).or_default() += u64::from(count);
        }
        let mut candidates: Vec<(u64, u32)> = weights
            .iter()
            .filter(|(n, _)| **n as usize >= ROUNDS)
            // A round in progress has visited its first sites once more than the others.
            .map(|(&n, &w)| (w + weights.get(&(n + 1)).copied().unwrap_or(0), n))
            .collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.iter().take(8).find_map(|&(_, n)| rounds(events, &visits, &counts, n))
    }

    /// Completed steps in the trace; one that the last failing request ended is none.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// 0-based step that `event` lies in; `None` where steps are not known, or before the first of them.
    pub fn of(&self, event: u32) -> Option<u64> {
        let k = self.starts.partition_point(|&s| s <= event);
        (k > 0).then(|| self.first + k as u64 - 1)
    }

    /// Event ranges of the steps in a trace of `events` events, the one in progress at its end included.
    pub fn ranges(&self, events: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let ends = self.starts.iter().skip(1).copied().chain([events]);
        self.starts.iter().copied().zip(ends).map(|(a, b)| a..b)
    }

    /// Number of the first step of [`Steps::ranges`].
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Event ranges inside the optimizer's own step, ascending; empty where no annotation says.
    pub fn optimizer(&self) -> &[Range<u32>] {
        &self.optimizer
    }
}

/// What steps need of a whole file: the shape of its stacks and the optimizer's marks. Made once, shared by its devices.
#[derive(Debug)]
pub struct StepBasis {
    shapes: StackShapes,
    /// Indices of the optimizer's marks, per device that they carry.
    of_device: HashMap<u32, Vec<u32>>,
    /// The steps by the marks of all devices, for devices without marks of their own.
    of_all: OnceLock<Vec<Range<i64>>>,
}

impl StepBasis {
    /// The basis for every device of `snapshot`. Time is linear in its stacks and marks.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut of_device: HashMap<u32, Vec<u32>> = HashMap::new();
        for (i, a) in snapshot.annotations.iter().enumerate().filter(|(_, a)| is_optimizer_mark(snapshot, a)) {
            of_device.entry(a.device).or_default().push(i as u32);
        }
        Self { shapes: StackShapes::new(snapshot), of_device, of_all: OnceLock::new() }
    }

    /// Marks carry the current device of the thread that made them, which need not be the device of the memory.
    fn marks(&self, snapshot: &Snapshot, device: u32) -> Cow<'_, [Range<i64>]> {
        let marks = &snapshot.annotations;
        if let Some(own) = self.of_device.get(&device) {
            return Cow::Owned(optimizer_steps(own.iter().filter_map(|&i| marks.get(i as usize))));
        }
        let of_all = || optimizer_steps(marks.iter().filter(|a| is_optimizer_mark(snapshot, a)));
        Cow::Borrowed(self.of_all.get_or_init(of_all))
    }
}

fn is_optimizer_mark(snapshot: &Snapshot, mark: &Annotation) -> bool {
    snapshot.strings.get(mark.name).starts_with("Optimizer.step#")
}

/// Times of the optimizer's steps: START to END, by END, of the optimizer that steps most often.
fn optimizer_steps<'a>(marks: impl Iterator<Item = &'a Annotation>) -> Vec<Range<i64>> {
    let mut place: HashMap<StrId, usize> = HashMap::new();
    let mut by_name: Vec<(i64, Vec<Range<i64>>)> = Vec::new();
    for a in marks {
        let at = *place.entry(a.name).or_insert_with(|| {
            by_name.push((i64::MIN, Vec::new()));
            by_name.len() - 1
        });
        let (start, steps) = &mut by_name[at];
        if a.is_start {
            *start = a.time_us;
        } else {
            steps.push(if *start == i64::MIN { a.time_us } else { *start }..a.time_us);
            *start = i64::MIN;
        }
    }
    // Of optimizers that step equally often the one that steps last ends the step.
    by_name
        .into_iter()
        .map(|x| x.1)
        .max_by_key(|steps| (steps.len(), steps.last().map_or(i64::MIN, |s| s.end)))
        .unwrap_or_default()
}

fn has_backward_in(events: &Events, shapes: &StackShapes, range: Range<u32>) -> bool {
    let range = range.start as usize..(range.end.max(range.start) as usize).min(events.len());
    range.into_iter().any(|i| events.action[i] == Action::Alloc && !shapes.has_python(events.stack[i]))
}

/// Ends of the runs of events inside an optimizer's `step`.
fn optimizer_runs(events: &Events, shapes: &StackShapes) -> Vec<u32> {
    let mut ends = Vec::new();
    let mut last_inside = None;
    for i in 0..events.len() {
        let is_block = matches!(events.action[i], Action::Alloc | Action::FreeRequested | Action::FreeCompleted);
        if !is_block || !shapes.has_python(events.stack[i]) {
            continue;
        }
        if shapes.in_optimizer(events.stack[i]) {
            last_inside = Some(i as u32);
        } else if let Some(last) = last_inside.take() {
            ends.push(last + 1);
        }
    }
    ends.extend(last_inside.map(|l| l + 1));
    ends
}

/// A call site that is come to from another.
#[derive(Debug, Clone, Copy)]
struct Visit {
    event: u32,
    site: u64,
    /// Requests of the program before it, those of autograd's threads left out: backward passes differ in length.
    requests: u32,
}

/// The rounds of the sites that occur `n` times (or once more, in a round that is in progress).
fn rounds(events: &Events, visits: &[Visit], counts: &HashMap<u64, u32>, n: u32) -> Option<Steps> {
    let is_member = |site: u64| counts.get(&site).is_some_and(|&c| c == n || c == n + 1);
    let marker = visits.iter().map(|v| v.site).find(|&s| is_member(s))?;
    let members = counts.values().filter(|&&c| c == n || c == n + 1).count();
    let mut starts: Vec<u32> = Vec::new();
    let mut begins: Vec<u32> = Vec::new();
    let mut seen: Vec<usize> = Vec::new();
    for &Visit { event, site, requests } in visits {
        if site == marker {
            starts.push(event);
            begins.push(requests);
            seen.push(0);
        }
        if is_member(site)
            && let Some(count) = seen.last_mut()
        {
            *count += 1;
        }
    }
    let full = starts.len().checked_sub(1)?;
    if full + 1 < ROUNDS {
        return None;
    }
    let regular = seen[..full].iter().filter(|&&c| c == members).count();
    let mut lengths: Vec<u32> = begins.windows(2).map(|w| w[1] - w[0]).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let alike = lengths.iter().filter(|&&l| l.abs_diff(usual) <= usual / 4).count();
    let covered = (starts[full] - starts[0]) / full as u32 * (full as u32 + 1);
    let is_period = regular * 10 >= full * 9 && alike * 10 >= lengths.len() * 7 && covered as usize * 2 >= events.len();
    if !is_period {
        return None;
    }
    let completed = full as u64 + u64::from(seen[full] == members);
    Some(Steps { source: StepSource::Period, starts, completed, ..Steps::default() })
}

/// Whether a frame is the machinery through which PyTorch calls a module's `forward`
/// (`Module._call_impl` and its wrapper in `torch/nn/modules/module.py`, all releases).
pub fn is_module_call(file: &str, function: &str) -> bool {
    matches!(function, "_call_impl" | "_wrapped_call_impl" | "__call__" | "_slow_forward")
        && (file.ends_with("torch/nn/modules/module.py") || file.ends_with("torch\\nn\\modules\\module.py"))
}

/// Whether a file is PyTorch's own, by its place in an installation or a source tree.
fn is_torch_file(file: &str) -> bool {
    const PARTS: [&str; 5] = ["-packages/torch/", "/torch/nn/", "/torch/optim/", "/torch/utils/", "/torch/autograd/"];
    if file.contains('\\') {
        return is_torch_file(&file.replace('\\', "/"));
    }
    PARTS.iter().any(|part| file.contains(part))
}

/// Whether a frame can be the outermost of a Python thread: a module's own code, the interpreter's start, a thread's start,
/// or PyTorch calling back from a thread of its own. Deep stacks are recorded without their outer end, and then begin with
/// something else.
pub fn is_outermost_frame(file: &str, function: &str) -> bool {
    const STARTS: [&str; 6] =
        ["<module>", "_bootstrap", "_bootstrap_inner", "_run_module_as_main", "_run_code", "__bootstrap_inner"];
    STARTS.contains(&function) || file.starts_with("<frozen") || is_torch_file(file)
}

/// Whether a frame is of Python, and not of C++ (`stacks="all"` records both).
pub fn is_python_frame(file: &str, function: &str) -> bool {
    const NATIVE: [&str; 11] = ["so", "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "pyx", "pxd", "S"];
    let extension = file.rsplit_once('.').map_or("", |x| x.1);
    if extension == "py" || file.starts_with('<') {
        return true;
    }
    let is_native = file.is_empty() || file == "??" || NATIVE.contains(&extension) || file.contains(".so.");
    !is_native && !function.contains("::")
}

/// What steps need of every stack, computed once per node of the stack table.
#[derive(Debug)]
struct StackShapes {
    /// Node of the call site, its lowest bit telling whether the stack goes on into a module; 0 = none.
    site: Vec<u64>,
    has_python: Vec<bool>,
    /// Not of the program's own threads, or without its outer end, so that call sites are not known.
    is_cut: Vec<bool>,
    in_optimizer: Vec<bool>,
}

impl StackShapes {
    fn new(snapshot: &Snapshot) -> Self {
        let stacks = &snapshot.stacks;
        let count = stacks.len();
        let mut this = Self {
            site: vec![0; count],
            has_python: vec![false; count],
            is_cut: vec![false; count],
            in_optimizer: vec![false; count],
        };
        let mut has_start = false;
        let mut kinds: HashMap<u32, (bool, bool, bool, bool, bool)> = HashMap::new();
        for id in 1..count {
            let stack = StackId(id as u32);
            let Some((frame_id, frame)) = stacks.frames(stack).next() else { continue };
            let (is_python, is_call, is_step, is_torch, is_outermost) = *kinds.entry(frame_id.0).or_insert_with(|| {
                let (file, function) = (snapshot.strings.get(frame.file), snapshot.strings.get(frame.function));
                let is_installed = file.contains("-packages") || is_torch_file(file);
                let is_step = function == "step" && is_installed && file.contains("optim");
                (
                    is_python_frame(file, function),
                    is_module_call(file, function) || function == "forward",
                    is_step,
                    is_torch_file(file),
                    is_outermost_frame(file, function),
                )
            });
            // A caller's node is made before its callees', so its row is complete.
            let parent = stacks.parent(stack).map_or(0, |p| p.0 as usize).min(id - 1);
            this.is_cut[id] =
                this.is_cut[parent] || (is_python && (!is_outermost || is_torch) && !this.has_python[parent]);
            has_start |= is_python && is_outermost && !is_torch && !this.has_python[parent];
            this.has_python[id] = this.has_python[parent] || is_python;
            this.in_optimizer[id] = this.in_optimizer[parent] || is_step;
            let above = this.site[parent];
            this.site[id] = match () {
                () if above & 1 == 1 => above,
                () if is_call => above | 1,
                () if is_python && !is_torch => (id as u64) << 1,
                () => above,
            };
        }
        if !has_start {
            this.is_cut.fill(false);
        }
        this
    }

    fn has_python(&self, stack: StackId) -> bool {
        self.has_python.get(stack.0 as usize).copied().unwrap_or(false)
    }
    /// Whether the program's own frames show where the stack belongs.
    fn has_site(&self, stack: StackId) -> bool {
        self.has_python(stack) && !self.is_cut[stack.0 as usize]
    }
    fn in_optimizer(&self, stack: StackId) -> bool {
        self.in_optimizer.get(stack.0 as usize).copied().unwrap_or(false)
    }
    fn call_site(&self, stack: StackId) -> u64 {
        self.site.get(stack.0 as usize).copied().unwrap_or(0)
    }
}
