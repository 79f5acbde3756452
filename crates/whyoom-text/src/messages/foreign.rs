//! Memory ran out, and something else than PyTorch's GPU allocator says so: the driver, a library that disguises it,
//! the host, another framework.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use regex::{Regex, RegexSet, RegexSetBuilder};
use serde::Serialize;

use super::traceback::Frame;
use crate::{Quantity, Units};

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The CUDA or HIP driver, through a library, a context being made or a copy; no figures.
    Driver,
    /// cuBLAS, cuSOLVER, cuSPARSE, cuFFT: the workspace or handle could not be had.
    MathLibrary,
    /// cuDNN: no algorithm fits, or its own allocation failed.
    Cudnn,
    /// NCCL.
    Nccl,
    /// Triton.
    Triton,
    /// bitsandbytes.
    Bitsandbytes,
    /// llama.cpp's ggml.
    Ggml,
    /// vLLM, SGLang and their like: no room for the key-value cache.
    KvCache,
    /// A server finds less free memory at its start than it was told to take.
    Startup,
    /// PyTorch's CPU allocator, numpy, Python.
    Host,
    /// Page-locked memory of the host; CUDA words it as its own error.
    Pinned,
    /// `/dev/shm`.
    SharedMemory,
    /// Windows: the commit limit (RAM and paging file).
    CommitLimit,
    /// The kernel, Slurm or Kubernetes killed a process for memory of the host.
    Killed,
    /// TensorFlow.
    Tensorflow,
    /// JAX, XLA.
    Jax,
}

/// A failure for lack of memory that is not PyTorch's GPU allocator's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Foreign {
    /// Who says it.
    pub source: Source,
    /// Whether the memory meant is the GPU's; `None` where the text does not decide.
    pub is_device_memory: Option<bool>,
    /// Another framework's allocator: named, and no more is said about it.
    pub is_declined: bool,
    /// What was asked for.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub request_bytes: Option<Quantity>,
    /// What was free.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub free_bytes: Option<Quantity>,
    /// What there is.
    #[serde(serialize_with = "Quantity::as_bytes")]
    pub total_bytes: Option<Quantity>,
    /// The process that it is about.
    pub pid: Option<u64>,
    /// The line, cut at 400 characters.
    pub text: String,
    /// The deepest frame of the traceback above that is no library's.
    pub user_frame: Option<Frame>,
}

impl Foreign {
    pub(crate) fn hash_identity(&self, to: &mut impl Hasher) {
        (self.source, self.request_bytes, self.free_bytes, self.pid, &self.text).hash(to);
    }
}

/// One row: a source, whether it is the GPU's memory, and a regex whose groups `request`, `free`, `total` catch sizes,
/// `bytes` and `kib` bare numbers.
type Row = (Source, Option<bool>, &'static str);

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

/// Earlier rows win.
const ROWS: [Row; 35] = [
    (
        Source::Pinned,
        NO,
        r"(?:could not|cannot|failed to) (?:page-lock|pin(?:ned)?\b)|THCCachingHostAllocator|CachingHostAllocator.*out of memory|cuda(?:HostAlloc|HostRegister|MallocHost)\b.*(?:fail|out of memory)|in pin memory thread",
    ),
    (
        Source::Tensorflow,
        YES,
        r"OOM when allocating tensor with shape|ResourceExhaustedError|cuda_driver.*failed to allocate (?<total>[0-9.]+[KMG]i?B?) \((?<bytes>[0-9]+) bytes\)",
    ),
    (
        Source::Jax,
        YES,
        r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate request for)(?:.*?(?:allocate|for) (?:(?<bytes>[0-9]+) bytes|(?<request>[0-9.]+ ?[KMGT]?i?B)))?",
    ),
    (Source::Jax, YES, r"XlaRuntimeError.*(?:out of memory|RESOURCE_EXHAUSTED)"),
    (
        Source::MathLibrary,
        YES,
        r"CU(?:BLAS|SOLVER|SPARSE)_STATUS_ALLOC_FAILED|HIPBLAS_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED|CUSPARSE_STATUS_INSUFFICIENT_RESOURCES|rocblas_status_memory_error",
    ),
    // A handle that cannot be made is most often memory, and not surely.
    (Source::MathLibrary, None, r"CUBLAS_STATUS_NOT_INITIALIZED|CUSOLVER_STATUS_NOT_INITIALIZED"),
    (
        Source::Cudnn,
        YES,
        r"CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED|miopenStatusAllocFailed",
    ),
    (
        Source::Cudnn,
        None,
        r"Unable to find a valid cuDNN algorithm|(?:FIND|GET) was unable to find an engine|CUDNN_STATUS_NOT_INITIALIZED",
    ),
    (
        Source::Nccl,
        YES,
        r"NCCL.*out of memory|Failed to CUDA (?:calloc|malloc|host alloc)|Cuda failure (?:2 )?'out of memory'|ncclSystemError.*(?:out of memory|Cannot allocate)",
    ),
    (
        Source::SharedMemory,
        NO,
        r"insufficient shared memory \(shm\)|unable to (?:open|mmap|write).*shared memory|/dev/shm.*[Nn]o space left",
    ),
    (Source::Nccl, None, r"ncclUnhandledCudaError|NCCL error.*unhandled cuda error"),
    (Source::Triton, YES, r"Triton Error \[(?:CUDA|HIP)\]: out of memory"),
    (Source::Bitsandbytes, YES, r"Error out of memory at line [0-9]+ in file"),
    (Source::Ggml, YES, r"ggml.*allocating (?<request>[0-9.]+ MiB) on device [0-9]+: (?:cuda|hip)Malloc failed"),
    (
        Source::KvCache,
        YES,
        r"No available memory for the cache blocks|Not enough memory\. Please try to increase --mem-fraction-static",
    ),
    (
        Source::KvCache,
        YES,
        r"\((?<request>[0-9.]+ GiB) KV cache is needed, which is larger than the available KV cache memory \((?<free>[0-9.]+ GiB)\)",
    ),
    (
        Source::KvCache,
        YES,
        r"max seq len \([0-9]+\) is larger than the maximum number of tokens that can be stored in KV cache",
    ),
    (
        Source::Startup,
        YES,
        r"Free memory on device.*?\((?<free_number>[0-9.]+)/(?<total>[0-9.]+ GiB)\) on startup is less than desired GPU memory utilization \([0-9.]+, (?<request>[0-9.]+ GiB)\)",
    ),
    (Source::CommitLimit, NO, r"[Pp]aging file is too small|WinError 1455|error code:? <?1455"),
    (
        Source::Host,
        NO,
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory(?:: you tried to allocate (?:(?<bytes>[0-9]+) bytes|(?<request>[0-9.]+ ?[KMGT]i?B)))?",
    ),
    (Source::Host, NO, r"not enough memory: you tried to allocate (?<request>[0-9.]+ ?(?:bytes|[KMGT]i?B))"),
    (Source::Host, NO, r"Unable to allocate (?<request>[0-9.]+ (?:bytes|[KMGT]iB)) for an array"),
    (
        Source::Host,
        NO,
        r"std::bad_alloc|^MemoryError\b|\[Errno 12\]|OSError.*Cannot allocate memory|mmap.*Cannot allocate memory",
    ),
    (Source::Killed, NO, r"Out of memory: Killed process (?<pid>[0-9]+)(?:.*anon-rss:(?<kib>[0-9]+)kB)?"),
    (
        Source::Killed,
        NO,
        r"Memory cgroup out of memory: Kill(?:ed)? process (?<pid>[0-9]+)(?:.*anon-rss:(?<kib>[0-9]+)kB)?",
    ),
    (Source::Killed, NO, r"oom[-_]kill|\bOOMKilled\b"),
    (Source::Killed, NO, r"DataLoader worker \(pid\(?s?\)? (?<pid>[0-9]+)\) is killed by signal: Killed"),
    (Source::Driver, YES, r"mem(?:Get|_get_)[Ii]nfo.*out of memory"),
    (Source::Driver, YES, r"(?:CUDA|HIP|SYCL|cuda|hip)(?: driver| runtime)? error:? ?(?:\(?2\)?:? ?)?out of memory"),
    (
        Source::Driver,
        YES,
        r"cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY|UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY|PI_ERROR_OUT_OF_RESOURCES",
    ),
    (Source::Driver, YES, r"(?:cuda|hip)Malloc(?:Async|Managed)? (?:failed|error)[:,]? ?\(?out of memory"),
    (Source::Driver, YES, r"[Ff]ailed to allocate.*(?:CUDA|GPU|device).*(?:out of memory)"),
    (Source::Driver, None, r"[Ff]ailed to allocate memory|Failed to allocate device memory"),
    (Source::Driver, None, r"(?:cuda|hip)[A-Za-z]+\(.*\).*out of memory|CUDA error 2\b|out of memory \(2\)"),
    (Source::Driver, None, r": out of memory\s*$"),
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    // Many rows at once make many states; with the usual room they are made again and again.
    RegexSetBuilder::new(ROWS.iter().map(|row| row.2))
        .dfa_size_limit(32 << 20)
        .build()
        .unwrap_or_else(|e| unreachable!("constant patterns: {e}"))
});
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    ROWS.iter().map(|row| Regex::new(row.2).unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))).collect()
});

/// Words of which a line of one of the rows holds one.
pub(super) const NEEDLES: [&str; 35] = [
    "page-lock",
    "hostallocator",
    "cudahost",
    "cudamallochost",
    "pin memory thread",
    "failed to pin",
    "oom when allocating",
    "resourceexhausted",
    "resource_exhausted",
    "alloc_failed",
    "allocfailed",
    "allocation_failed",
    "insufficient_resources",
    "memory_error",
    "status_not_initialized",
    "cudnn algorithm",
    "unable to find an engine",
    "ncclunhandledcudaerror",
    "unhandled cuda error",
    "shared memory",
    "/dev/shm",
    "cache blocks",
    "mem-fraction-static",
    "kv cache",
    "on startup is less",
    "paging file",
    "1455",
    "cpuallocator",
    "not enough memory",
    "unable to allocate",
    "bad_alloc",
    "oom-kill",
    "oom_kill",
    "oomkilled",
    "failed to allocate",
];

/// The failure that a line tells.
pub(super) fn read(text: &str) -> Option<Foreign> {
    let row = SET.matches(text).iter().next()?;
    let (source, is_device_memory, _) = ROWS[row];
    let found = EACH[row].captures(text)?;
    let size = |name: &str| found.name(name).and_then(|g| Quantity::parse(g.as_str(), Units::Binary));
    let scaled = |name: &str, unit: u64| found.name(name).and_then(|g| Quantity::scaled(g.as_str(), unit));
    let is_declined = matches!(source, Source::Tensorflow | Source::Jax);
    Some(Foreign {
        source,
        is_device_memory,
        is_declined,
        request_bytes: scaled("bytes", 1).or_else(|| size("request")),
        free_bytes: scaled("free_number", 1 << 30).or_else(|| size("free")),
        total_bytes: size("total").or_else(|| scaled("kib", 1 << 10)),
        pid: found.name("pid").and_then(|g| g.as_str().parse().ok()),
        text: text.trim().chars().take(400).collect(),
        user_frame: None,
    })
}
