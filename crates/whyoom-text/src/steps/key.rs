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

/// What a word says, as bits.
mod says {
    pub(super) const PEAK: u32 = 1;
    pub(super) const ALLOCATED: u32 = 1 << 1;
    pub(super) const RESERVED: u32 = 1 << 2;
    pub(super) const UNUSED: u32 = 1 << 3;
    pub(super) const USED: u32 = 1 << 4;
    pub(super) const FREE: u32 = 1 << 5;
    pub(super) const TOTAL: u32 = 1 << 6;
    pub(super) const MEMORY: u32 = 1 << 7;
    pub(super) const DEVICE: u32 = 1 << 8;
    /// Numbers of something else, or bytes of something else.
    pub(super) const OTHER: u32 = 1 << 9;
    /// Does not tell one key from another.
    pub(super) const PLAIN: u32 = 1 << 10;
    pub(super) const UNALLOCATED: u32 = 1 << 11;
    /// `res`, which is short for more than one thing.
    pub(super) const RES: u32 = 1 << 12;
    pub(super) const ACTIVE: u32 = 1 << 13;
    pub(super) const BYTES: u32 = 1 << 14;
    /// `gpu` and `cuda`: memory if nothing else is named.
    pub(super) const GPU: u32 = 1 << 15;
    /// Those that tell nothing beyond the measure.
    pub(super) const KNOWN: u32 = PEAK | ALLOCATED | RESERVED | UNUSED | USED | FREE | TOTAL | MEMORY | DEVICE | PLAIN;
}

/// What a word in lower case says.
fn meaning(word: &str) -> u32 {
    match word {
        "max" | "peak" => says::PEAK | says::PLAIN,
        "maximum" | "highest" | "hwm" => says::PEAK,
        "alloc" | "allocated" | "allocd" | "mema" => says::ALLOCATED,
        "reserved" | "reserve" | "resv" | "rsvd" | "rsv" | "cached" => says::RESERVED,
        "res" => says::RESERVED | says::RES,
        "unallocated" => says::UNUSED | says::UNALLOCATED,
        "unused" | "inactive" | "nonreleasable" | "releasable" => says::UNUSED,
        "used" | "usage" | "use" | "usg" => says::USED,
        "free" | "available" | "avail" | "headroom" => says::FREE,
        "total" | "capacity" => says::TOTAL,
        "memory" | "mem" | "vram" | "hbm" | "gmem" | "gpumem" => says::MEMORY,
        "gpu" | "cuda" => says::DEVICE | says::GPU,
        "device" | "dev" | "torch" | "gpus" => says::DEVICE,
        "allocations" | "allocs" | "bandwidth" | "bank" | "blocks" | "checkpoint" | "clock" | "count" | "cpu"
        | "dataset" | "disk" | "efficient" | "file" | "flops" | "fraction" | "freed" | "host" | "loss" | "lr"
        | "mhz" | "model" | "num" | "ooms" | "param" | "parameters" | "params" | "pct" | "percent" | "percentage"
        | "pinned" | "power" | "ram" | "rate" | "ratio" | "retries" | "rss" | "segments" | "size" | "speed"
        | "swap" | "temp" | "threshold" | "throughput" | "tokens" | "util" | "utilization" | "weights" => says::OTHER,
        "after" | "all" | "at" | "before" | "begin" | "cur" | "curr" | "current" | "currently" | "end" | "finished"
        | "in" | "is" | "now" | "of" | "on" | "so" | "start" | "stats" | "the" | "was" => says::PLAIN,
        "bytes" => says::PLAIN | says::BYTES,
        "active" => says::ACTIVE,
        _ => 0,
    }
}

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

/// Hands out the words of a token, in lower case: `memoryAllocated`, `max_memory_reserved` and `mem/gpu0` fall apart.
fn each_word(token: &str, word: &mut String, mut found: impl FnMut(&str)) {
    word.clear();
    let mut open = false;
    let mut before = ' ';
    for letter in token.chars() {
        // An apostrophe inside a word is dropped: alloc'd.
        if letter == '\'' && before.is_ascii_alphabetic() {
            continue;
        }
        let is_part = letter.is_ascii_alphanumeric();
        let is_border = before.is_ascii_lowercase() && letter.is_ascii_uppercase();
        if (!is_part || !open || is_border) && !word.is_empty() {
            found(word);
            word.clear();
        }
        if is_part {
            word.push(letter.to_ascii_lowercase());
        }
        open = is_part;
        before = letter;
    }
    if !word.is_empty() {
        found(word);
    }
}

/// A word, taken apart.
#[derive(Debug, Clone, Copy)]
struct Word {
    says: u32,
    unit: Option<Unit>,
    counter: Option<Counter>,
    device: Option<u32>,
    /// The word as a number.
    number: Option<u32>,
}

impl Word {
    fn of(word: &str) -> Self {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        Self {
            says: meaning(word),
            unit: Unit::named(word).filter(|_| word.len() > 1),
            counter: counter(word),
            device: device(word),
            number: if is_number { word.parse().ok() } else { None },
        }
    }

    /// Whether it tells nothing but what is known of it.
    fn is_known(&self, word: &str) -> bool {
        self.says & says::KNOWN != 0
            || self.counter.is_some()
            || self.device.is_some()
            || self.unit.is_some()
            || word.bytes().all(|byte| byte.is_ascii_digit())
    }
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
    let is_between = |letter: char| letter.is_whitespace() || ":=(),{}[]\"|".contains(letter);
    let mut tokens = [""; MOST_TOKENS];
    let mut first = MOST_TOKENS;
    for token in text.rsplit(is_between).filter(|token| !token.is_empty()).take(MOST_TOKENS) {
        first -= 1;
        tokens[first] = token;
    }
    let mut key = Key::default();
    let mut all: Vec<Word> = Vec::new();
    let mut word = String::new();
    for token in &tokens[first..] {
        let mut is_known = true;
        each_word(token, &mut word, |word| {
            let found = Word::of(word);
            is_known &= found.is_known(word);
            all.push(found);
        });
        if !is_known && key.qualifier.len() + token.len() < 64 {
            if !key.qualifier.is_empty() {
                key.qualifier.push(' ');
            }
            key.qualifier.push_str(token.trim_matches(['\'', '.', '-', '>', '<']));
        }
    }
    for (index, word) in all.iter().enumerate() {
        let after = all.get(index + 1).and_then(|next| next.number);
        key.device = key.device.or(word.device).or(after.filter(|_| word.says & says::DEVICE != 0));
    }
    let said = all.iter().fold(0, |said, word| said | word.says);
    let has = |what: u32| said & what != 0;
    key.unit = all.iter().rev().take(3).find_map(|word| word.unit);
    key.counter = all.last().and_then(|word| word.counter);
    // Of "total params 5, memory 3" only the words next to the number count: other words far before it do not.
    let near = &all[all.len().saturating_sub(4)..];
    key.is_other = near.iter().any(|word| word.says & says::OTHER != 0);
    let is_peak = has(says::PEAK);
    // `res` alone is no word for it, beside others it is.
    let is_res = has(says::RES);
    let base = if has(says::UNUSED) && has(says::RESERVED | says::ALLOCATED) || has(says::UNALLOCATED) {
        Some(Measure::ReservedUnused)
    } else if has(says::ALLOCATED) {
        Some(Measure::Allocated)
    } else if has(says::RESERVED) && (has(says::MEMORY) || !is_res) {
        Some(Measure::Reserved)
    } else if has(says::ACTIVE) && has(says::MEMORY | says::BYTES) {
        Some(Measure::Active)
    } else if has(says::USED) {
        Some(Measure::Used)
    } else if has(says::FREE) {
        Some(Measure::Free)
    } else if has(says::TOTAL) {
        Some(Measure::Total)
    } else if has(says::MEMORY | says::GPU) {
        Some(Measure::Memory)
    } else {
        None
    };
    key.is_strong = has(says::MEMORY | says::ALLOCATED) || (has(says::RESERVED) && !is_res);
    key.is_bare_peak = is_peak && base.is_none();
    key.measure = match base {
        Some(base) if is_peak => Some(base.peak()),
        None if is_peak => Some(Measure::MaxMemory),
        base => base,
    };
    key
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
