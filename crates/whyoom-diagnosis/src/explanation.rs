//! The result of a diagnosis: `whyoom.explain/1` of the JSON contract, field for field.
//!
//! Integers are bytes, counts or indices; times are microseconds. `event` is the 0-based index in the
//! device's trace; `malloc` the ordinal of a request (every `alloc` and `oom` before it counts one).

use serde::Serialize;

/// Everything `whyoom explain` knows, for every presenter.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Always `whyoom.explain/1`.
    pub schema: &'static str,
    /// What was read.
    pub inputs: Vec<Input>,
    /// Losses and oddities, in code order.
    pub warnings: Vec<WarningLine>,
    /// Facts out of text inputs.
    pub readings: Vec<Reading>,
    /// One entry per device of each input, worst first.
    pub devices: Vec<DeviceReport>,
}

/// One input file.
#[derive(Debug, Clone, Serialize)]
pub struct Input {
    /// Path as given, `-` for standard input.
    pub path: String,
    /// `snapshot`, `oom_message`, `memory_summary`, `memory_stats`, `memory_snapshot`, `nvidia_smi`, `step_log`,
    /// `settings`, `profiler_trace`: of a text its most telling part; `unreadable` if it could not be read.
    pub kind: &'static str,
    /// Size on disk.
    pub size_bytes: u64,
    /// Release range inferred from the keys.
    pub torch: Option<Torch>,
    /// Why it could not be read; `null` if it was.
    pub error: Option<String>,
}

/// Release range of an input.
#[derive(Debug, Clone, Serialize)]
pub struct Torch {
    /// First release that writes such a file.
    pub at_least: Option<String>,
    /// First release that no longer does.
    pub below: Option<String>,
    /// Why.
    pub because: String,
}

/// One counted warning.
#[derive(Debug, Clone, Serialize)]
pub struct WarningLine {
    /// Stable code.
    pub code: String,
    /// How often.
    pub count: u64,
    /// A sentence.
    pub message: String,
}

/// Facts read from a text input.
#[derive(Debug, Clone, Serialize)]
pub struct Reading {
    /// Index into [`Explanation::inputs`].
    pub input: usize,
    /// Kind of text: those of [`Input::kind`], and `retry_warning`, `other_failure`, `notice`, `clue`.
    pub kind: &'static str,
    /// First line of it in its text, from 1 on.
    pub line: u64,
    /// The rank that a prefix or the text names.
    pub rank: Option<u32>,
    /// How often the text says it.
    pub occurrences: u64,
    /// The facts, named after their columns.
    pub facts: serde_json::Value,
}

/// One device of one input.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// Index into [`Explanation::inputs`].
    pub input: usize,
    /// Device index.
    pub device: u32,
    /// Rank, where the file name or text tells it.
    pub rank: Option<u32>,
    /// Settings in force.
    pub settings: SettingsReport,
    /// Whether the model reproduces the recording.
    pub replay: ReplayReport,
    /// What the allocator may reserve.
    pub limit: LimitReport,
    /// Steps of the program.
    pub steps: StepsReport,
    /// Maxima over the trace.
    pub peak: PeakReport,
    /// The request that failed (the last one of the trace), if any.
    pub oom: Option<OomReport>,
    /// Where a run that did not fail would have, under a limit that was given: replayed, not recorded.
    pub would_fail: Option<WouldFail>,
    /// What no setting can change.
    pub bound: BoundReport,
    /// Who holds the bytes.
    pub categories: CategoriesReport,
    /// Findings, the verdict first.
    pub findings: Vec<Finding>,
    /// Causes the evidence excludes, the one people would suspect first at the top; it ends the folklore.
    pub ruled_out: Vec<RuledOut>,
    /// Remedies tried, best first.
    pub remedies: Vec<Remedy>,
    /// What to collect next, where text was all there is; `null` where a recording was read.
    pub collect: Option<Collect>,
}

/// The one thing to collect next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collect {
    /// What it would show, as a clause.
    pub why: String,
    /// What to type or to put into the program; may be several lines.
    pub command: String,
}

/// Settings of a device's allocator.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsReport {
    /// The string in force, `null` if the file does not have it.
    pub string: Option<String>,
    /// Values in force.
    pub in_force: serde_json::Value,
}

/// Recorded replay in brief.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// `exact`, `diverged` or `not_possible`.
    pub status: ReplayStatus,
    /// Events in the trace.
    pub events: u64,
    /// Events reproduced.
    pub matched: u64,
    /// Where the model and the recording part.
    pub first_divergence: Option<DivergenceReport>,
    /// Final blocks compared with the file's segments; `null` if the file has none.
    pub final_state: Option<FinalStateReport>,
    /// Release whose allocator was modelled.
    pub model: String,
    /// Times that all cached memory was given back for one request, and the request tried again.
    pub retries: u64,
    /// Why it is not possible or not complete, in a sentence.
    pub note: Option<String>,
}

/// Status of the recorded replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayStatus {
    /// Every event and the final state are reproduced.
    Exact,
    /// They are not.
    Diverged,
    /// There is nothing to replay.
    NotPossible,
}

/// The first place where the model and the recording part.
#[derive(Debug, Clone, Serialize)]
pub struct DivergenceReport {
    /// Event index.
    pub event: u64,
    /// What the trace says.
    pub recorded: String,
    /// What the model did.
    pub simulated: String,
    /// The likely reason, in a sentence.
    pub likely_reason: String,
}

/// Final blocks against the file's.
#[derive(Debug, Clone, Serialize)]
pub struct FinalStateReport {
    /// Whether all blocks agree in address, size and state.
    pub equal: bool,
    /// How many do not.
    pub differing_blocks: u64,
}

/// The limit as an interval.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// The limit is at least this; `null` = unknown.
    pub low_bytes: Option<u64>,
    /// The limit is at most this; `null` = unknown.
    pub high_bytes: Option<u64>,
    /// `card`, `fraction`, `oom_event`, `oom_message`, `argument`, `unknown`.
    pub source: &'static str,
}

/// Steps of the program.
#[derive(Debug, Clone, Serialize)]
pub struct StepsReport {
    /// Completed steps.
    pub count: u64,
    /// `annotations`, `period` or `none`.
    pub source: &'static str,
    /// Steps are numbered from the first one that the trace keeps: what came before is lost.
    pub is_partial: bool,
}

/// Maxima over the trace (after rounding rules of each quantity).
#[derive(Debug, Clone, Default, Serialize)]
pub struct PeakReport {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Allocated (rounded) bytes.
    pub allocated_bytes: u64,
    /// Allocated or waiting for other streams.
    pub active_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
    /// Event at which allocated bytes peak; `null` without a trace.
    pub event: Option<u64>,
}

/// The failing request.
#[derive(Debug, Clone, Serialize)]
pub struct OomReport {
    /// Event index of the `oom` entry.
    pub event: u64,
    /// Ordinal of the request.
    pub malloc: u64,
    /// 0-based step it happened in, if steps are known.
    pub step: Option<u64>,
    /// Rounded request.
    pub request_bytes: u64,
    /// The segment that was wanted for it, which is what PyTorch's message says.
    pub segment_bytes: u64,
    /// Free on the device, as the driver said.
    pub device_free_bytes: u64,
    /// Reserved at that moment.
    pub reserved_bytes: u64,
    /// Live (allocated) bytes at that moment.
    pub live_bytes: u64,
    /// Largest free block of the request's pool and stream.
    pub largest_free_block_bytes: u64,
    /// Free bytes of the request's pool and stream.
    pub free_in_pool_bytes: u64,
    /// Free blocks of the request's pool and stream.
    pub free_blocks: u64,
    /// `oom` entries in the trace, this one included (convolution libraries catch some).
    pub oom_count: u64,
    /// Whether the program, or a library that it calls, caught the failure and asked for memory again.
    pub went_on: bool,
    /// Where the request was made, for people: phase, function, file, line.
    pub place: Option<Place>,
}

/// A request that fails in a replay under a limit that was given.
#[derive(Debug, Clone, Serialize)]
pub struct WouldFail {
    /// The limit.
    pub limit_bytes: u64,
    /// Event index of the recorded request.
    pub event: u64,
    /// Ordinal of the request.
    pub malloc: u64,
    /// 0-based step it lies in, if steps are known.
    pub step: Option<u64>,
    /// Rounded request.
    pub request_bytes: u64,
    /// Live bytes at that moment of the replay, those that wait for other streams included.
    pub live_bytes: u64,
    /// Reserved at that moment of the replay.
    pub reserved_bytes: u64,
    /// Where the request was made.
    pub place: Option<Place>,
}

/// A position in the user's program.
#[derive(Debug, Clone, Serialize)]
pub struct Place {
    /// `forward`, `backward`, `optimizer`, or `other`: the part of a step, where it can be told.
    pub phase: &'static str,
    /// Function of the nearest user frame.
    pub function: String,
    /// File as recorded.
    pub file: String,
    /// Line.
    pub line: u32,
    /// `true` if the request itself has no frames and the position is that of the last user frame before it.
    pub is_inferred: bool,
}

/// Bounds no setting can beat.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BoundReport {
    /// Largest sum of live bytes plus pending request: what a perfectly compact layout reserves (page granularity).
    pub compact_bytes: u64,
    /// Bytes that must go for the recorded requests to fit under the limit, whatever the setting; 0 if none.
    pub bytes_to_free: u64,
    /// Smallest limit at which the default settings pass, if searched.
    pub fits_from_bytes_default: Option<u64>,
    /// Smallest limit at which the best settings pass, if searched.
    pub fits_from_bytes_best: Option<u64>,
}

/// Bytes per category.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CategoriesReport {
    /// At the peak of allocated bytes.
    pub peak: Vec<CategoryBytes>,
    /// At the failing request.
    pub oom: Option<Vec<CategoryBytes>>,
    /// At the end.
    pub end: Vec<CategoryBytes>,
    /// Parts of the activations that have a name, at the failing request, else at the peak.
    pub named: Vec<NamedBytes>,
    /// At the highest event of each step; of many steps, some that lie evenly apart.
    pub steps: Vec<StepCategories>,
}

/// Bytes of one category that people know by a name.
#[derive(Debug, Clone, Serialize)]
pub struct NamedBytes {
    /// `half_copies`: the parameters in half precision, as autocast keeps them; `float32_logits`: what the loss over
    /// classes keeps.
    pub name: &'static str,
    /// The category that they are part of.
    pub category: &'static str,
    /// Bytes (allocated).
    pub bytes: u64,
}

/// Categories at the peak of one step.
#[derive(Debug, Clone, Serialize)]
pub struct StepCategories {
    /// 0-based step.
    pub step: u64,
    /// Event of its highest live bytes.
    pub event: u64,
    /// Bytes per category, largest first.
    pub categories: Vec<CategoryBytes>,
}

/// One category.
#[derive(Debug, Clone, Serialize)]
pub struct CategoryBytes {
    /// `parameters`, `buffers`, `gradients`, `optimizer_state`, `activations`, `inputs`, `workspace`, `temporary`, `other`.
    pub category: &'static str,
    /// Bytes (allocated).
    pub bytes: u64,
}

/// One cause found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Stable name of the cause.
    pub cause: Cause,
    /// Stable name of the sub-cause.
    pub subcause: Option<&'static str>,
    /// How sure.
    pub confidence: Confidence,
    /// One to three sentences with the numbers that matter.
    pub summary: String,
    /// Bytes this finding explains.
    pub bytes_explained: u64,
    /// The statements behind it.
    pub evidence: Vec<Evidence>,
    /// Growth, for leaks.
    pub growth: Option<Growth>,
    /// Lines of the user's code, the first being the one to mend.
    pub culprits: Vec<Culprit>,
}

/// Causes, by their stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Live bytes grow from step to step and survivors explain it.
    Leak,
    /// The request fits beside what is live, the layout does not.
    Fragmentation,
    /// Live plus request exceeds the limit.
    Capacity,
    /// One step asks for far more than the others.
    Spike,
    /// Memory not owned by this allocator is missing.
    Outside,
    /// A cap binds while the card has room.
    Limit,
    /// Settings invalid, ignored or harmful.
    Settings,
    /// Freed blocks wait for another stream.
    PendingFree,
    /// Graph or user pools hold it.
    PrivatePool,
    /// Nothing is wrong.
    Healthy,
    /// The evidence does not decide.
    Undetermined,
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Indications only.
    Weak,
    /// Consistent evidence.
    Strong,
    /// By replay or arithmetic.
    Proven,
}

/// One statement with its value.
#[derive(Debug, Clone, Serialize)]
pub struct Evidence {
    /// A sentence.
    pub statement: String,
    /// The number in it.
    pub value: Value,
    /// `bytes`, `count`, `ratio`, `steps`, `us`.
    pub unit: &'static str,
    /// Events it can be seen at.
    pub events: Vec<u64>,
}

/// A number: an integer for bytes, counts and steps, a fraction for ratios.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Bytes, a count, an index.
    Integer(u64),
    /// A ratio.
    Fraction(f64),
}

/// A cause that the evidence excludes.
#[derive(Debug, Clone, Serialize)]
pub struct RuledOut {
    /// The cause.
    pub cause: Cause,
    /// Why it is not this, as a clause: `no growth over 10 steps`.
    pub statement: String,
}

/// Growth per step.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    /// Bytes kept per step, or per call that keeps them where calls are rarer or more frequent than steps: on average.
    pub bytes_per_step: u64,
    /// Calls that have survivors.
    pub calls: u64,
    /// Unit of `dies_again_in_steps`: `step`, or `call` where steps cannot be told apart.
    pub per: &'static str,
    /// What made the graphs that are kept: `training` if a backward pass follows those calls, `evaluation` if it does
    /// not, `broken_off` if it does not though it follows other calls of that line; `null` for other growth, and where
    /// no backward pass was seen.
    pub graphs_of: Option<&'static str>,
    /// `backlog`: a queue that fills faster than it is emptied; `bursts`: let go in bursts only; `null` = never let go.
    pub queue: Option<&'static str>,
    /// First step with a survivor.
    pub first_step: u64,
    /// Last step with a survivor.
    pub last_step: u64,
    /// Steps until it would die again if this request passed; `null` if unknown.
    pub dies_again_in_steps: Option<u64>,
}

/// One line of the user's code behind a finding.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Culprit {
    /// Function name.
    pub function: String,
    /// File as recorded.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Bytes of the finding under this frame.
    pub bytes: u64,
    /// Allocations under this frame.
    pub count: u64,
    /// Whether the frame is inside a module's `forward`.
    pub in_module_forward: bool,
    /// Bytes over the steps from the first to the last that made some of them; `null` unless there are several.
    pub bytes_per_step: Option<u64>,
    /// First and last step in which some of them were made; `null` where steps are not known.
    pub first_step: Option<u64>,
    /// See [`Self::first_step`].
    pub last_step: Option<u64>,
    /// Microseconds from the first of them to the last request of the trace; `null` without times.
    pub age_us: Option<u64>,
    /// Text of the line, where the file could be read and it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// An example stack, innermost first, as `function (file:line)`.
    pub stack: Vec<String>,
    /// What the line calls, largest first; of the first culprit only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Operation>,
}

/// A call below a culprit.
#[derive(Debug, Clone, Serialize)]
pub struct Operation {
    /// Function name.
    pub function: String,
    /// File as recorded.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Bytes made under it.
    pub bytes: u64,
    /// Allocations made under it.
    pub count: u64,
    /// What it calls in turn, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Operation>,
}

/// One remedy, tried.
#[derive(Debug, Clone, Serialize)]
pub struct Remedy {
    /// Stable id, for example `setting/expandable_segments:True`.
    pub id: String,
    /// `setting`, `call`, `code`, `workload`, `environment`.
    pub kind: &'static str,
    /// What to write.
    pub apply: String,
    /// What came of it.
    pub outcome: RemedyOutcome,
    /// `whole_run` or `failing_request`.
    pub scope: &'static str,
    /// `exact_replay`, `replay_estimate`, `arithmetic`, `reasoning`.
    pub basis: &'static str,
    /// Peak reserved (up to the failing request's success where that is the scope).
    pub peak_reserved_bytes: Option<u64>,
    /// Range over the ensemble of placements.
    pub peak_reserved_range: Option<(u64, u64)>,
    /// Whether ties among equal free blocks change a figure.
    pub tie_sensitive: bool,
    /// Limit (low end) less peak reserved; `null` without a limit or if it fails.
    pub headroom_bytes: Option<u64>,
    /// Where it fails at the limit's low end and passes at its high end: the limit from which it passes.
    pub passes_from_limit_bytes: Option<u64>,
    /// A smaller limit under which a changed program passes too, in the usual placement, where its peak leaves little
    /// of the limit: what is reserved may be cache that it would give back.
    pub passes_under_bytes: Option<u64>,
    /// First failing request under this remedy.
    pub first_failure: Option<FailurePoint>,
    /// Full releases followed by another try.
    pub retries: u64,
    /// `cudaMalloc` and map calls.
    pub driver_allocations: u64,
    /// `cudaFree` and unmap calls.
    pub driver_frees: u64,
    /// Map calls.
    pub maps: u64,
    /// Unmap calls.
    pub unmaps: u64,
    /// Forced synchronisations.
    pub synchronisations: u64,
    /// What a person should know about this result.
    pub note: Option<String>,
}

/// Outcome of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyOutcome {
    /// Gets past the failing request (or the whole run).
    Passes,
    /// Fails.
    Fails,
    /// Nothing changes.
    NoChange,
    /// Fails earlier, or reserves much more.
    Worse,
    /// Could not be verified.
    NotVerified,
}

/// A request that failed in a replay.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FailurePoint {
    /// Event index of the recorded request.
    pub event: u64,
    /// Its ordinal.
    pub malloc: u64,
    /// 0-based step, if known.
    pub step: Option<u64>,
}
