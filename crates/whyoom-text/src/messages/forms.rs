//! The table of forms: OOM messages of PyTorch's allocators, by release and backend.
//!
//! Read in `c10/cuda/CUDACachingAllocator.cpp` (`format_size` makes the sizes: two decimals, boundaries inclusive),
//! `c10/cuda/CUDAMallocAsyncAllocator.cpp`, `c10/xpu/XPUCachingAllocator.cpp`, `aten/src/ATen/mps/MPSAllocator.mm`
//! and reports of users. Where two rows have the same beginning, a message that is cut before they part has the
//! releases of both.

use std::sync::LazyLock;

use regex::RegexSet;

use super::form::{Compiled, Form, Match};
use super::oom::{Backend, Hint, OomMessage};
use super::release::Releases;

const TRIED: &str = r"(?:(?<backend>[A-Z]{2,8}) out of memory\. )?Tried to allocate {request}";
const SENTENCE: &str = r"\. (?:GPU|NPU|XPU)\s*(?:(?<device>[0-9]+)|(?<raw>[\x00-\x08\x0e-\x1f]))?\s*has a total";
const HELD: &str = r"and {unallocated} is reserved by PyTorch but unallocated\.";

/// The rows. Earlier rows win where two match as far.
static FORMS: [Form; 16] = [
    // "cached" is what is held and not used.
    Form {
        name: "cached",
        backend: Backend::Cuda,
        releases: Releases::from(1, 0).below(1, 4),
        least: 2,
        pieces: &[
            TRIED,
            r"\(GPU (?<device>[0-9]+);",
            "{total} total capacity;",
            "{allocated} already allocated;",
            "{free} free;",
            r"{cached} cached\)",
        ],
    },
    Form {
        name: "reserved_in_total",
        backend: Backend::Cuda,
        releases: Releases::from(1, 4).below(2, 1),
        least: 2,
        pieces: &[
            TRIED,
            r"\(GPU (?<device>[0-9]+);",
            "{total} total capacity;",
            "{allocated} already allocated;",
            "{free} free;",
            r"(?:{allowed} allowed; )?{reserved} reserved in total by PyTorch\)",
        ],
    },
    // The spelling of "capacty" is theirs.
    Form {
        name: "capacty",
        backend: Backend::Cuda,
        releases: Releases::from(2, 1).below(2, 3),
        least: 3,
        pieces: &[
            TRIED,
            SENTENCE,
            "capacty of {total}",
            r"of which {free} is free\.",
            r"(?<processes>(?:(?:Process [0-9]+ has SIZE memory in use\.|Including non-PyTorch memory, this process has SIZE memory in use\.) )*)(?:{allowed} allowed; )?Of the allocated memory",
            "{allocated} is allocated by PyTorch,",
            HELD,
        ],
    },
    Form {
        name: "capacity",
        backend: Backend::Cuda,
        releases: Releases::from(2, 2),
        least: 2,
        pieces: &[
            TRIED,
            SENTENCE,
            "(?<capacity>capacity) of {total}",
            r"(?:of which {free} is free)?\.",
            r"(?<processes>(?:(?:Process [0-9]+ has SIZE memory in use\.|Including non-PyTorch memory, this process has SIZE memory in use\.) )*)(?:{allowed} allowed; )?Of the allocated memory",
            "{allocated} is allocated by PyTorch,",
            r"(?:with {private} allocated in private pools \(e\.g\., (?:CUDA|HIP) Graphs\), )?and {unallocated} is reserved by PyTorch but unallocated\.",
        ],
    },
    Form {
        name: "preemptively_rejected",
        backend: Backend::Cuda,
        releases: Releases::from(2, 12),
        least: 1,
        pieces: &[
            r"(?:(?<backend>[A-Z]{2,8}) out of memory\. )?Allocation was preemptively rejected",
            r"because it would exceed per_process_memory_fraction limit\.",
            "Requested size: (?<request_raw>[0-9]+)",
        ],
    },
    Form {
        name: "malloc_async",
        backend: Backend::Async,
        releases: Releases::from(2, 0),
        least: 1,
        pieces: &[
            "Allocation on device",
            r"(?<device>[0-9]+) would exceed allowed memory\. \(out of memory\)",
            "Currently allocated : {allocated}",
            "Requested : {request}",
            "Device limit : {total}",
            r"Free \(according to CUDA\) : {free}",
            r"PyTorch limit \(set by user-supplied memory fraction\) : {allowed}",
        ],
    },
    Form {
        name: "xpu_block_limit",
        backend: Backend::Xpu,
        releases: Releases::ANY,
        least: 1,
        pieces: &[
            r"Current platform can NOT allocate memory block with size larger than {block}",
            r"! Tried to allocate {request}",
            r"\((?:GPU|XPU) (?<device>[0-9]+);",
            "{total} total capacity;",
            "{allocated} already allocated;",
            r"{reserved} reserved in total by PyTorch\)",
        ],
    },
    Form {
        name: "xpu_reserved_in_total",
        backend: Backend::Xpu,
        releases: Releases::ANY,
        least: 5,
        pieces: &[
            TRIED,
            r"\((?:GPU|XPU) (?<device>[0-9]+);",
            "{total} total capacity;",
            "{allocated} already allocated;",
            r"{reserved} reserved in total by PyTorch\)",
        ],
    },
    Form {
        name: "current_active",
        backend: Backend::Npu,
        releases: Releases::ANY,
        least: 2,
        pieces: &[
            TRIED,
            r"\((?:[A-Z]{2,8}) (?<device>[0-9]+);",
            "{total} total capacity;",
            "{allocated} already allocated;",
            "{active} current active;",
            "{free} free;",
            r"(?:{allowed} allowed; )?{reserved} reserved in total by PyTorch\)",
        ],
    },
    Form {
        name: "mps",
        backend: Backend::Mps,
        releases: Releases::from(1, 12),
        least: 1,
        pieces: &[
            "MPS backend out of memory",
            r"\((?:MPS|currently) allocated: {allocated},",
            r"(?:other allocations: {other}, )?max allowed: {allowed}\)\.",
            "Tried to allocate {request} on (?:private|shared|managed|[a-z]+) pool",
        ],
    },
    Form {
        name: "mps_buffer_size",
        backend: Backend::Mps,
        releases: Releases::from(1, 12),
        least: 1,
        pieces: &["Invalid buffer size: {request}"],
    },
    Form {
        name: "over_1eb",
        backend: Backend::Cuda,
        releases: Releases::from(1, 5),
        least: 1,
        pieces: &["Tried to allocate more than 1EB memory"],
    },
    Form {
        name: "thc",
        backend: Backend::Cuda,
        releases: Releases { at_least: None, below: Releases::ANY.below(1, 0).below },
        least: 1,
        pieces: &[
            r"(?:cuda runtime error \(2\) : out of memory|THCudaCheck FAIL file=\S+ line=[0-9]+ error=2 : out of memory)",
        ],
    },
    // The request, and nothing behind it that a row above knows; the second piece matches nothing, so it is always cut.
    Form {
        name: "request_only",
        backend: Backend::Cuda,
        releases: Releases::from(1, 0),
        least: 1,
        pieces: &[TRIED, r"[^\s\S]"],
    },
    Form {
        name: "bare",
        backend: Backend::Cuda,
        releases: Releases::ANY,
        least: 1,
        pieces: &[r"\b(?<backend>CUDA|HIP|XPU|NPU|MUSA|MLU) out of memory\b"],
    },
    Form {
        name: "bare",
        backend: Backend::Cuda,
        releases: Releases::from(1, 13),
        least: 1,
        pieces: &[r"^(?:torch\.)?(?:cuda\.)?OutOfMemoryError(?::|$)"],
    },
];

/// The first pieces: one pass tells which rows are worth trying.
static BEGINNINGS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(FORMS.iter().map(Form::beginning)).unwrap_or_else(|e| unreachable!("constant patterns: {e}"))
});
static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| FORMS.iter().map(Compiled::new).collect());

/// The form that a text follows farthest, and what it says. A text without spaces at line breaks is fine.
pub(super) fn read(text: &str) -> Option<(OomMessage, std::ops::Range<usize>)> {
    let begun = BEGINNINGS.matches(text);
    let found: Vec<Match<'_>> = begun.iter().filter_map(|row| COMPILED[row].find(text)).collect();
    let reach = found.iter().map(|m| (m.is_whole() && m.form.name != "bare", m.range.end)).max()?;
    let as_far = || found.iter().filter(|m| (m.is_whole() && m.form.name != "bare", m.range.end) == reach);
    let best = as_far().next()?;
    let mut message = best.message();
    if !best.is_whole() {
        message.releases = as_far().map(|m| m.form.releases).reduce(Releases::or).unwrap_or_default();
    }
    if best.form.name == "bare" {
        let behind: String = text[best.range.end..].split_whitespace().take(4).collect();
        let next = "CUDAoutofmemory.Triedtoallocate";
        let (from, after) = (next, &next["CUDAoutofmemory".len()..]);
        message.is_cut = from.starts_with(&behind) || after.starts_with(&behind) || behind.starts_with(after);
    }
    date(&mut message, best, text);
    message.compute();
    Some((message, best.range.clone()))
}

/// Narrows the releases by what is printed besides the figures.
fn date(message: &mut OomMessage, found: &Match<'_>, text: &str) {
    let dense: String = text[found.range.end..].split_whitespace().collect();
    let mut narrow = |releases: Releases| message.releases = message.releases.and(releases);
    if found.has("capacity") {
        if found.has("private") {
            narrow(Releases::from(2, 4));
        }
        if found.has("allowed") {
            narrow(Releases::from(2, 5));
        }
        if found.has("raw") {
            narrow(Releases::from(2, 2).below(2, 4));
        }
        if dense.contains("PYTORCH_ALLOC_CONF") {
            narrow(Releases::from(2, 10).below(2, 11));
        } else if dense.contains("https://docs.pytorch.org") {
            narrow(Releases::from(2, 11));
        } else if dense.contains("https://pytorch.org") {
            narrow(Releases::ANY.below(2, 11));
        }
    }
    if found.form.name == "reserved_in_total" {
        if found.has("allowed") {
            narrow(Releases::from(1, 8));
        }
        if dense.contains("max_split_size_mb") {
            narrow(Releases::from(1, 10));
        }
    }
    let before = &text[..found.range.start];
    // The class by its name alone: 1.13 made it, 2.5 renamed it.
    if before.contains("torch.cuda.OutOfMemoryError") {
        narrow(Releases::from(1, 13).below(2, 5));
    } else if before.contains("torch.OutOfMemoryError") {
        narrow(Releases::from(2, 5));
    } else if before.contains("RuntimeError:") && found.has("backend") && found.form.name == "reserved_in_total" {
        narrow(Releases::ANY.below(1, 13));
    }
    message.hint = if dense.contains("expandable_segments") {
        Hint::ExpandableSegments
    } else if dense.contains("max_split_size_mb") {
        Hint::MaxSplitSizeMb
    } else {
        Hint::None
    };
}

/// Whether a text is the hint behind a message, or its beginning.
pub(super) fn is_hint(text: &str) -> bool {
    let dense: String = text.split_whitespace().collect();
    !dense.is_empty() && "Ifreserved".starts_with(dense.get(..10).unwrap_or(&dense))
}

/// Whether the text behind a whole message is a hint that has not ended.
pub(super) fn is_hint_open(behind: &str) -> bool {
    let ends = ["PYTORCH_CUDA_ALLOC_CONF", "variables)", "memory-usage)"];
    is_hint(behind) && !ends.iter().any(|end| behind.trim_end().ends_with(end))
}
