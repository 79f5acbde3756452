//! Messages that are no OOM and bear on one: the retry warning, settings that are refused or ignored, failures that
//! come after or instead of an OOM, warnings that name a cause.

use std::sync::LazyLock;

use regex::{Regex, RegexSet, RegexSetBuilder};
use serde::Serialize;

/// PyTorch 2.13's warning of a refused driver call. It is printed for requests that a second try serves, two or three
/// times for one request: no failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Retry {
    /// Device index.
    pub device: Option<u32>,
    /// The segment that was asked of the driver.
    pub request_bytes: Option<u64>,
    /// Free by the driver.
    pub free_bytes: Option<u64>,
    /// The card.
    pub total_bytes: Option<u64>,
}

/// Allocator settings that stand in the text: an environment, a Dockerfile, a shell line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SettingsLine {
    /// `PYTORCH_CUDA_ALLOC_CONF`, `PYTORCH_ALLOC_CONF`, `PYTORCH_HIP_ALLOC_CONF`.
    pub variable: String,
    /// The value, without quotes.
    pub value: String,
    /// Quotes stand around it that the program gets too (`ENV X='…'` in some files, `- X="…"` in Compose).
    pub is_quoted: bool,
}

/// What a message bears on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The settings were refused.
    SettingsRefused,
    /// A setting has no effect here.
    SettingIgnored,
    /// The variable has another name.
    SettingsVariable,
    /// Expandable segments and sharing between processes exclude each other.
    ExpandableSegmentsShared,
    /// `volatile` does nothing since 0.4: evaluation records graphs.
    VolatileIgnored,
    /// Activations are kept although they were to be recomputed.
    CheckpointWithoutGrad,
    /// "invalid argument" of a driver call: it follows another failure, or comes of memory that cannot be shared.
    InvalidArgument,
    /// NVML failed while an OOM message was being made: the OOM is hidden.
    NvmlAssert,
    /// An assertion inside PyTorch.
    InternalAssert,
    /// The CUDA context is broken: what follows says nothing.
    BrokenContext,
    /// Triton: more shared memory of an SM than there is; no memory of the card.
    OutOfResource,
}

/// A message that is no OOM and bears on one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Advice {
    /// What on.
    pub about: About,
    /// The line, cut at 400 characters.
    pub text: String,
}

const ROWS: [(About, &str); 17] = [
    (
        About::ExpandableSegmentsShared,
        r"expandable_segments:True cannot be shared between processes|expandable segments .*not (?:supported|compatible).*(?:IPC|shar)",
    ),
    (
        About::SettingIgnored,
        r"expandable_segments not supported on this platform|(?:is |are )?ignored.*cudaMallocAsync|cudaMallocAsync.*ignor",
    ),
    (
        About::SettingsRefused,
        r"Unrecognized (?:CachingAllocator option|key)|[Ee]rror parsing (?:CachingAllocator|CUDA allocator) settings|CachingAllocator option .*(?:too (?:small|big|large)|invalid)",
    ),
    (
        About::SettingsRefused,
        r"max_split_size_mb.*too (?:small|large|big)|garbage_collect(?:ion)?_threshold.*(?:too|invalid|range)|Expected a single True/False argument for",
    ),
    (
        About::SettingsRefused,
        r"Error,? expect(?:ing|ed).*(?:expandable_segments|max_split_size|roundup_power2|garbage_collection|backend|config)",
    ),
    (
        About::SettingsRefused,
        r"Unknown allocator backend|Error parsing PYTORCH_\w*ALLOC_CONF|(?:Invalid|invalid) (?:value for )?PYTORCH_\w*ALLOC_CONF",
    ),
    (About::SettingsVariable, r"PYTORCH_(?:CUDA|HIP)_ALLOC_CONF is deprecated"),
    (About::VolatileIgnored, r"volatile was removed"),
    (About::CheckpointWithoutGrad, r"None of the inputs have requires_grad=True"),
    (About::CheckpointWithoutGrad, r"`?use_cache=True`? is incompatible with gradient checkpointing"),
    (About::NvmlAssert, r"NVML_SUCCESS == \w+ ?INTERNAL ASSERT FAILED|nvml\w* ?(?:== r )?INTERNAL ASSERT FAILED"),
    (About::InvalidArgument, r"CUDA error: invalid argument|[Cc]uda error .*'invalid argument'|cudaErrorInvalidValue"),
    (About::InternalAssert, r"INTERNAL ASSERT FAILED"),
    (
        About::BrokenContext,
        r"device-side assert triggered|an illegal memory access was encountered|unspecified launch failure",
    ),
    (About::OutOfResource, r"out of resource: shared memory"),
    (About::SettingIgnored, r"roundup_power2_divisions.*ignored|max_split_size_mb.*ignored"),
    (About::SettingIgnored, r"expandable_segments.*(?:not supported|no effect|ignored|disabled)"),
];

pub(super) const NEEDLES: [&str; 17] = [
    "alloc_conf",
    "expandable_segments",
    "expandable segments",
    "cudamallocasync",
    "unrecognized",
    "cachingallocator",
    "max_split_size_mb",
    "single true/false",
    "allocator backend",
    "volatile was removed",
    "inputs have requires_grad",
    "incompatible with gradient checkpointing",
    "invalid argument",
    "internal assert",
    "illegal memory",
    "device-side assert",
    "out of resource",
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    // Many rows at once make many states; with the usual room they are made again and again.
    RegexSetBuilder::new(ROWS.iter().map(|row| row.1))
        .dfa_size_limit(32 << 20)
        .build()
        .unwrap_or_else(|e| unreachable!("constant patterns: {e}"))
});
static RETRY: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"memory allocation failed with OOM on device (?<device>[0-9]+)(?: while trying to allocate (?<request>[0-9]+) bytes)?(?: \(free: (?<free>[0-9]+)[^,]*, total: (?<total>[0-9]+))?",
    )
});
static SETTINGS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"\b(?<variable>PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF)(?:['"]\]?)?\s*[=:,]\s*(?<value>"[^"]*"|'[^']*'|[^\s"';&)}]+)"#,
    )
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))
}

/// The message that a line holds.
pub(super) fn read(text: &str) -> Option<Advice> {
    let row = SET.matches(text).iter().next()?;
    Some(Advice { about: ROWS[row].0, text: text.trim().chars().take(400).collect() })
}

/// The retry warning.
pub(super) fn read_retry(text: &str) -> Option<Retry> {
    let found = RETRY.captures(text)?;
    let number = |name: &str| found.name(name).and_then(|g| g.as_str().parse().ok());
    Some(Retry {
        device: found["device"].parse().ok(),
        request_bytes: number("request"),
        free_bytes: number("free"),
        total_bytes: number("total"),
    })
}

/// Allocator settings in a line that is no OOM message's hint.
pub(super) fn read_settings(text: &str) -> Option<SettingsLine> {
    if text.contains("try setting") || text.contains("deprecated") {
        return None;
    }
    let found = SETTINGS.captures(text)?;
    let value = &found["value"];
    let bare = value.trim_matches(['"', '\'']);
    if bare.is_empty() || !bare.contains([':', '=']) {
        return None;
    }
    let value = bare.chars().take(1000).collect();
    Some(SettingsLine { variable: found["variable"].to_owned(), is_quoted: bare.len() < found["value"].len(), value })
}
