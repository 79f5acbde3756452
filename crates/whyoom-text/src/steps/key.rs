//! Which quantity a key names.

use serde::Serialize;

use super::amount::Unit;

/// What a figure measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Live in PyTorch's allocator (`torch.cuda.memory_allocated`).
    Allocated,
    /// Its peak (`max_memory_allocated`).
    MaxAllocated,
    /// Held by PyTorch's allocator (`memory_reserved`, `memory_cached` up to 1.3).
    Reserved,
    /// Its peak.
    MaxReserved,
    /// Live or waiting for another stream (`active_bytes`).
    Active,
    /// Its peak.
    MaxActive,
    /// Held by the allocator but unused.
    ReservedUnused,
    /// In use, by whom or by whose count the text does not say.
    Used,
    /// Its peak.
    MaxUsed,
    /// Free on the device.
    Free,
    /// Capacity of the device.
    Total,
    /// Memory, of which kind the text does not say.
    Memory,
    /// A peak of memory, of which kind the text does not say.
    MaxMemory,
}

impl Measure {
    /// The peak of the same quantity.
    pub(crate) fn peak(self) -> Self {
        match self {
            Self::Allocated => Self::MaxAllocated,
            Self::Reserved => Self::MaxReserved,
            Self::Active => Self::MaxActive,
            Self::Used => Self::MaxUsed,
            Self::Memory => Self::MaxMemory,
            other => other,
        }
    }
}

/// What a number counts instead of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Step,
    Batch,
    Epoch,
    Timestamp,
    Elapsed,
    Device,
    Rank,
}

/// A key, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Key {
    pub measure: Option<Measure>,
    /// It says that memory is meant, so a number without a unit is one.
    pub is_strong: bool,
    /// It says no more than that a figure is a peak (`max`, `peak`).
    pub is_bare_peak: bool,
    pub unit: Option<Unit>,
    pub counter: Option<Counter>,
    pub device: Option<u32>,
    /// Words that tell it from other keys of the same quantity (`NVML`).
    pub qualifier: String,
    /// It names something that is no device memory (`cpu`, `params`).
    pub is_other: bool,
}

const PEAK: &[&str] = &["max", "peak", "maximum", "highest", "hwm"];
const ALLOCATED: &[&str] = &["alloc", "allocated", "allocd", "mema"];
const RESERVED: &[&str] = &["reserved", "reserve", "resv", "rsvd", "rsv", "cached", "res"];
const UNUSED: &[&str] = &["unallocated", "unused", "inactive", "nonreleasable", "releasable"];
const USED: &[&str] = &["used", "usage", "use", "usg"];
const FREE: &[&str] = &["free", "available", "avail", "headroom"];
const TOTAL: &[&str] = &["total", "capacity"];
const MEMORY: &[&str] = &["memory", "mem", "vram", "hbm", "gmem", "gpumem"];
const DEVICE: &[&str] = &["gpu", "cuda", "device", "dev", "torch", "gpus"];
/// Words of keys that are numbers of something else, or bytes of something else.
const OTHER: &[&str] = &[
    "allocations",
    "allocs",
    "bandwidth",
    "bank",
    "blocks",
    "checkpoint",
    "clock",
    "count",
    "cpu",
    "dataset",
    "disk",
    "efficient",
    "file",
    "flops",
    "fraction",
    "freed",
    "host",
    "loss",
    "lr",
    "mhz",
    "model",
    "num",
    "ooms",
    "param",
    "parameters",
    "params",
    "pct",
    "percent",
    "percentage",
    "pinned",
    "power",
    "ram",
    "rate",
    "ratio",
    "retries",
    "rss",
    "segments",
    "size",
    "speed",
    "swap",
    "temp",
    "threshold",
    "throughput",
    "tokens",
    "util",
    "utilization",
    "weights",
];
/// Words that do not tell one key from another.
const PLAIN: &[&str] = &[
    "after",
    "all",
    "at",
    "before",
    "begin",
    "bytes",
    "cur",
    "curr",
    "current",
    "currently",
    "end",
    "finished",
    "in",
    "is",
    "max",
    "now",
    "of",
    "on",
    "peak",
    "so",
    "start",
    "stats",
    "the",
    "was",
];

fn counter(word: &str) -> Option<Counter> {
    Some(match word {
        "step" | "steps" | "iter" | "iters" | "iteration" | "it" | "update" | "updates" | "i" | "itr" => Counter::Step,
        "batch" | "minibatch" | "microbatch" => Counter::Batch,
        "epoch" | "epochs" | "ep" => Counter::Epoch,
        "timestamp" => Counter::Timestamp,
        "runtime" | "elapsed" => Counter::Elapsed,
        "gpu" | "cuda" | "device" | "dev" => Counter::Device,
        "rank" => Counter::Rank,
        _ => return None,
    })
}

/// The words of a token, in lower case: `memoryAllocated`, `max_memory_reserved` and `mem/gpu0` fall apart.
pub(crate) fn words(token: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    let mut before = ' ';
    for letter in token.chars() {
        // An apostrophe inside a word is dropped: alloc'd.
        if letter == '\'' && before.is_ascii_alphabetic() {
            continue;
        }
        let is_part = letter.is_ascii_alphanumeric();
        let is_border = before.is_ascii_lowercase() && letter.is_ascii_uppercase();
        if is_part {
            if !open || is_border {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(letter.to_ascii_lowercase());
            }
        }
        open = is_part;
        before = letter;
    }
    words
}

/// Index at the end of a device's name: `gpu0`, `cuda1`.
fn device(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("gpu").or_else(|| word.strip_prefix("cuda")).or_else(|| word.strip_prefix("dev"))?;
    if digits.is_empty() || digits.len() > 4 { None } else { digits.parse().ok() }
}

/// Takes the text before (or after) a number apart.
pub(crate) fn read(text: &str) -> Key {
    const MOST_TOKENS: usize = 8;
    // `4.10s/it] mem`: what a bracket closes belongs to what came before.
    let behind = text.rsplit(']').next().unwrap_or(text);
    let text = if behind.contains(|letter: char| letter.is_ascii_alphabetic()) { behind } else { text };
    let tokens: Vec<&str> =
        text.split(|letter: char| letter.is_whitespace() || ":=(),{}[]\"|".contains(letter)).collect();
    let tokens: Vec<&str> = tokens.into_iter().filter(|token| !token.is_empty()).collect();
    let tokens = &tokens[tokens.len().saturating_sub(MOST_TOKENS)..];
    let mut key = Key::default();
    let mut all: Vec<String> = Vec::new();
    for token in tokens {
        let parts = words(token);
        let is_known = parts.iter().all(|part| is_known(part));
        if !is_known && key.qualifier.len() + token.len() < 64 {
            if !key.qualifier.is_empty() {
                key.qualifier.push(' ');
            }
            key.qualifier.push_str(token.trim_matches(['\'', '.', '-', '>', '<']));
        }
        all.extend(parts);
    }
    for (index, word) in all.iter().enumerate() {
        let after = all.get(index + 1).and_then(|next| next.parse().ok());
        key.device = key.device.or(device(word)).or(after.filter(|_| DEVICE.contains(&word.as_str())));
    }
    let has = |list: &[&str]| all.iter().any(|word| list.contains(&word.as_str()));
    key.unit = all.iter().rev().take(3).find_map(|word| if word.len() > 1 { Unit::named(word) } else { None });
    key.counter = all.last().and_then(|word| counter(word));
    // Of "total params 5, memory 3" only the words next to the number count: other words far before it do not.
    let near = &all[all.len().saturating_sub(4)..];
    key.is_other = near.iter().any(|word| OTHER.contains(&word.as_str()));
    let is_peak = has(PEAK);
    let base = if has(UNUSED) && (has(RESERVED) || has(ALLOCATED)) || has(&["unallocated"]) {
        Some(Measure::ReservedUnused)
    } else if has(ALLOCATED) {
        Some(Measure::Allocated)
    } else if has(RESERVED) && (has(MEMORY) || !has(&["res"])) {
        Some(Measure::Reserved)
    } else if has(&["active"]) && (has(MEMORY) || has(&["bytes"])) {
        Some(Measure::Active)
    } else if has(USED) {
        Some(Measure::Used)
    } else if has(FREE) {
        Some(Measure::Free)
    } else if has(TOTAL) {
        Some(Measure::Total)
    } else if has(MEMORY) || all.iter().any(|word| word == "gpu" || word == "cuda") {
        Some(Measure::Memory)
    } else {
        None
    };
    key.is_strong = has(MEMORY) || has(ALLOCATED) || (has(RESERVED) && !has(&["res"]));
    key.is_bare_peak = is_peak && base.is_none();
    key.measure = match base {
        Some(base) if is_peak => Some(base.peak()),
        None if is_peak => Some(Measure::MaxMemory),
        base => base,
    };
    key
}

fn is_known(word: &str) -> bool {
    let lists = [PEAK, ALLOCATED, RESERVED, UNUSED, USED, FREE, TOTAL, MEMORY, DEVICE, PLAIN];
    lists.iter().any(|list| list.contains(&word))
        || counter(word).is_some()
        || device(word).is_some()
        || Unit::named(word).is_some()
        || word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_their_spellings() {
        for (text, measure) in [
            ("memory_allocated", Measure::Allocated),
            ("max_memory_allocated", Measure::MaxAllocated),
            ("torch.cuda.memory_reserved", Measure::Reserved),
            ("'gpu/maxMemReserved'", Measure::MaxReserved),
            ("peak_allocated", Measure::MaxAllocated),
            ("GPU memory", Measure::Memory),
            ("after gc max memory:", Measure::MaxMemory),
            ("memory cached (MB):", Measure::Reserved),
            ("NVML free=", Measure::Free),
            ("VRAM used", Measure::Used),
            ("reserved but unallocated", Measure::ReservedUnused),
            ("max", Measure::MaxMemory),
        ] {
            assert_eq!(read(text).measure, Some(measure), "{text}");
        }
        assert_eq!(read("loss").measure, None);
        assert!(read("cpu memory").is_other && read("num_params").is_other && !read("gpu mem").is_other);
    }

    #[test]
    fn units_devices_and_counters() {
        assert_eq!(read("alloc (GB):").unit.map(|unit| unit.name), Some("GB"));
        assert_eq!(read("mem_mib=").unit.map(|unit| unit.name), Some("MiB"));
        assert_eq!(read("gpu_1_alloc").device, Some(1));
        assert_eq!(read("cuda:0 allocated").device, Some(0));
        assert_eq!(read("gpu3/mem").device, Some(3));
        assert_eq!(read("global_step").counter, Some(Counter::Step));
        assert_eq!(read("memory_allocated").counter, None);
        assert_eq!(read("cudaMemGetInfo free").qualifier, "cudaMemGetInfo");
        assert_eq!(read("end   alloc").qualifier, "");
    }
}
