//! Messages of releases and backends, and what terminals and launchers make of them.

use whyoom_text::messages::{About, Advice, Backend, Foreign, Hint, Impossible, OomMessage, Source};
use whyoom_text::{Fact, Limits, Reading, read};

const MIB: u64 = 1 << 20;
const LONG: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.02 GiB is free. Process 77 has 300.00 MiB memory in use. Including non-PyTorch memory, this process has 78.10 GiB memory in use. 70.00 GiB allowed; Of the allocated memory 75.20 GiB is allocated by PyTorch, with 512.00 MiB allocated in private pools (e.g., CUDA Graphs), and 1.31 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

fn readings(text: impl AsRef<[u8]>) -> Vec<Reading> {
    read(text.as_ref(), &Limits::default()).expect("memory can be read").readings
}

fn only(text: impl AsRef<[u8]>) -> OomMessage {
    let found = readings(text);
    match found.as_slice() {
        [Reading { fact: Fact::Oom(message), .. }] => (**message).clone(),
        other => panic!("one message expected: {other:#?}"),
    }
}

fn range(message: &OomMessage) -> String {
    let show =
        |r: Option<whyoom_text::messages::Release>| r.map_or("…".to_owned(), |r| format!("{}.{}", r.major, r.minor));
    format!("{} to {}", show(message.releases.at_least), show(message.releases.below))
}

fn foreign(text: &str) -> Option<Foreign> {
    readings(text).into_iter().find_map(|r| if let Fact::Foreign(f) = r.fact { Some(*f) } else { None })
}

#[test]
fn every_figure_of_the_long_form() {
    let m = only(LONG);
    let mib = |q: Option<whyoom_text::Quantity>| q.map(|q| q.bytes.div_ceil(MIB));
    assert_eq!(
        (m.backend, m.device, m.form, m.is_cut, m.hint),
        (Backend::Cuda, Some(3), "capacity", false, Hint::ExpandableSegments)
    );
    assert_eq!(mib(m.request_bytes), Some(1536));
    assert_eq!(mib(m.process_bytes), Some(79975));
    assert_eq!(mib(m.allowed_bytes), Some(71680));
    assert_eq!(mib(m.private_pool_bytes), Some(512));
    assert_eq!(m.other_processes.iter().map(|p| (p.pid, mib(p.bytes))).collect::<Vec<_>>(), [(77, Some(300))]);
    assert_eq!(m.headroom_bytes().map(|q| q.bytes), Some(0));
    assert_eq!((range(&m).as_str(), m.exception.as_deref()), ("2.5 to 2.11", Some("torch.OutOfMemoryError")));
    let json = serde_json::to_value(&m).expect("a message has a JSON form");
    assert_eq!((&json["request_bytes"], &json["releases"]["at_least"]), (&1_610_612_736u64.into(), &"2.5".into()));
    assert_eq!(json["other_processes"][0]["bytes"], 300 * MIB);
}

#[test]
fn releases_are_told_apart() {
    let new = |class: &str, word: &str, index: &str, url: &str, variable: &str| {
        format!(
            "{class}: CUDA out of memory. Tried to allocate 2.00 MiB. GPU {index} has a total {word} of 8.00 GiB of which 1.00 GiB is free. Of the allocated memory 6.00 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting {variable}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  ({url})"
        )
    };
    let old = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables";
    let docs = "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage";
    let cuda = "PYTORCH_CUDA_ALLOC_CONF";
    for (text, expected) in [
        (new("torch.cuda.OutOfMemoryError", "capacty", "0", old, cuda), "2.1 to 2.3"),
        (new("torch.cuda.OutOfMemoryError", "capacity", "0", old, cuda), "2.2 to 2.5"),
        (new("torch.cuda.OutOfMemoryError", "capacity", "\0", old, cuda), "2.2 to 2.4"),
        (new("torch.OutOfMemoryError", "capacity", "0", old, cuda), "2.5 to 2.11"),
        (new("torch.OutOfMemoryError", "capacity", "0", docs, "PYTORCH_ALLOC_CONF"), "2.10 to 2.11"),
        (new("torch.OutOfMemoryError", "capacity", "0", docs, cuda), "2.11 to …"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 1.00 GiB cached)".into(), "1.0 to 1.4"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 7.00 GiB reserved in total by PyTorch)".into(), "1.4 to 1.13"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 7.00 GiB allowed; 7.00 GiB reserved in total by PyTorch)".into(), "1.13 to 2.1"),
    ] {
        let m = only(&text);
        assert_eq!((range(&m).as_str(), m.is_cut), (expected, false), "{text}");
        assert!(m.device == Some(0) && m.reserved_bytes.is_some() && m.free_bytes.is_some(), "{text}");
    }
    assert_eq!(only(new("X", "capacity", "", old, cuda)).device, None, "a raw index that was lost");
}

#[test]
fn other_backends() {
    for (text, backend, total, free) in [
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.00 GiB. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
            Backend::Xpu,
            Some(15),
            None,
        ),
        (
            "XPU out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.00 GiB total capacity; 12.00 GiB already allocated; 13.00 GiB reserved in total by PyTorch)",
            Backend::Xpu,
            Some(15),
            None,
        ),
        (
            "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which 1.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, with 2.00 MiB allocated in private pools (e.g., HIP Graphs), and 1.00 GiB is reserved by PyTorch but unallocated.",
            Backend::Hip,
            Some(64),
            Some(1),
        ),
        (
            "MPS backend out of memory (currently allocated: 5.00 GB, max allowed: 6.80 GB). Tried to allocate 2.00 GB on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable",
            Backend::Mps,
            None,
            None,
        ),
        ("RuntimeError: Invalid buffer size: 2.00 GB", Backend::Mps, None, None),
    ] {
        let m = only(text);
        let gib = |q: Option<whyoom_text::Quantity>| q.map(|q| q.bytes >> 30);
        assert_eq!(
            (m.backend, gib(m.request_bytes), gib(m.total_bytes), gib(m.free_bytes), m.is_cut),
            (backend, Some(2), total, free, false),
            "{text}"
        );
    }
}

#[test]
fn wrapped_boxed_coloured_and_prefixed() {
    let whole = only(LONG);
    let words = LONG.split(' ').fold(vec![String::new()], |mut lines, word| {
        let last = lines.last_mut().expect("never empty");
        if last.len() + word.len() > 76 {
            lines.push(word.to_owned());
        } else {
            *last = format!("{last} {word}");
        }
        lines
    });
    let chars: Vec<String> = LONG.as_bytes().chunks(80).map(|c| String::from_utf8_lossy(c).into_owned()).collect();
    let variants = [
        words.join("\n"),
        words.join("\r\n"),
        chars.join("\n"),
        words.iter().map(|l| format!("│ {l:<78} │")).collect::<Vec<_>>().join("\n"),
        words.iter().map(|l| format!("[rank3]: {}", l.trim())).collect::<Vec<_>>().join("\n"),
        words.iter().map(|l| format!("2025-03-04T09:10:00.123Z stderr F {}", l.trim())).collect::<Vec<_>>().join("\n"),
        LONG.replace("1.50 GiB", "\x1b[1;36m1.50\x1b[0m GiB").replace("free", "\x1b[32mfree\x1b[0m"),
    ];
    for text in variants {
        let m = only(format!("before\n{text}\nstep 12 loss 2.3\n"));
        let same = OomMessage { rank: None, exception: whole.exception.clone(), ..m.clone() };
        assert_eq!(same, whole, "{text}");
        assert_eq!(m.rank.is_some(), text.contains("rank3"), "{text}");
    }
    for (little, bytes) in [(true, [0xff, 0xfe]), (false, [0xfe, 0xff])] {
        let units = format!("step 1\r\n{LONG}\r\nstep 2")
            .encode_utf16()
            .flat_map(|u| if little { u.to_le_bytes() } else { u.to_be_bytes() })
            .collect::<Vec<u8>>();
        let found = readings([&bytes[..], &units].concat());
        assert_eq!((found.len(), found[0].place.line, found[0].place.offset), (1, 2, 2 + 16));
        assert_eq!(only(units), whole);
    }
}

#[test]
fn one_failure_told_often() {
    let head = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in step\n    y = model(x)\n        ^^^^^^^^\n  File \"/usr/lib/python3.11/site-packages/torch/nn/modules/module.py\", line 1736, in _call_impl\n    return forward_call(*args)\n";
    let text = format!(
        "{head}{LONG}\n\nDuring handling of the above exception, another exception occurred:\n\n{head}{LONG}\n[rank0]: {LONG}\n[rank0]: {LONG}\n"
    );
    let found = readings(&text);
    assert_eq!((found.len(), found[0].occurrences, found[0].rank), (1, 4, Some(0)));
    let Fact::Oom(m) = &found[0].fact else { panic!("a message") };
    let frame = m.user_frame.as_ref().expect("a frame");
    assert_eq!(
        (frame.file.as_str(), frame.line, frame.function.as_deref(), frame.code.as_deref()),
        ("/home/u/train.py", 12, Some("step"), Some("y = model(x)"))
    );

    let ranks: String = (0..4)
        .map(|r| format!("[rank{r}]: {}", LONG.replace("GPU 3", &format!("GPU {r}"))))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(readings(ranks).iter().map(|r| r.rank).collect::<Vec<_>>(), [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn ranks_that_are_mixed_are_kept_apart() {
    let lines = |rank: u32, line: u32| {
        [
            format!("[rank{rank}]: Traceback (most recent call last):"),
            format!("[rank{rank}]:   File \"train.py\", line {line}, in main"),
            format!("[rank{rank}]:     loss.backward()"),
            format!("[rank{rank}]: {}", LONG.replace("GPU 3", &format!("GPU {rank}"))),
        ]
    };
    let text: String =
        lines(0, 10).iter().zip(&lines(1, 20)).map(|(a, b)| format!("{a}\n{b}\n")).collect::<Vec<_>>().concat();
    let found = readings(text);
    let places: Vec<_> = found
        .iter()
        .map(
            |r| if let Fact::Oom(m) = &r.fact { (r.rank, m.user_frame.as_ref().map(|f| f.line)) } else { (None, None) },
        )
        .collect();
    assert_eq!(places, [(Some(0), Some(10)), (Some(1), Some(20))]);
}

#[test]
fn tracebacks_of_rich_and_ipython() {
    let rich = format!(
        "╭───────── Traceback (most recent call last) ─────────╮\n│ /home/u/train.py:118 in <module>                    │\n│                                                     │\n│   117 │   x = f()                                   │\n│ ❱ 118 │   loss = model(x)                           │\n╰─────────────────────────────────────────────────────╯\n{LONG}\n"
    );
    let frame = only(rich).user_frame.expect("a frame");
    assert_eq!((frame.line, frame.code.as_deref()), (118, Some("loss = model(x)")));
    let ipython = format!(
        "OutOfMemoryError                          Traceback (most recent call last)\nCell In[3], line 5\n      4 x = 1\n----> 5 model(x)\n\nFile ~/site-packages/torch/nn/modules/module.py:1736, in Module._call_impl(self)\n   1734 else:\n-> 1736     return f()\n\n{}\n",
        LONG.replace("torch.Out", "Out")
    );
    let frame = only(ipython).user_frame.expect("a frame");
    assert_eq!((frame.file.as_str(), frame.line, frame.code.as_deref()), ("In[3]", 5, Some("model(x)")));
}

#[test]
fn cut_anywhere_is_read_as_far_as_it_goes() {
    for end in 40..LONG.find(" If reserved").expect("the hint") {
        let found = readings(format!("{}\n\nstep 3 loss 2.3", &LONG[..end]));
        let Some(Reading { fact: Fact::Oom(m), .. }) = found.first() else { panic!("{end}: {found:?}") };
        let is_whole = LONG[..end].trim_end().ends_with("unallocated.");
        assert_eq!(m.is_cut, !is_whole, "{end}: {m:?}");
        assert_eq!(m.request_bytes.is_some(), end >= LONG.find("GiB").map_or(0, |n| n + 3), "{end}");
    }
}

#[test]
fn numbers_that_cannot_be() {
    let m = only(LONG.replace("300.00 MiB", "17179869184.00 GiB"));
    assert_eq!((m.other_processes[0].bytes, m.impossible.as_slice()), (None, &[Impossible::ProcessUnlimited][..]));
    let m = only(LONG.replace("1.02 GiB is free", "99.00 GiB is free"));
    assert!(m.impossible.contains(&Impossible::FreeOverTotal) && m.outside_bytes.is_none());
}

#[test]
fn a_retry_is_no_failure() {
    let line = "[W501 10:11:12.1 CUDACachingAllocator.cpp:123] memory allocation failed with OOM on device 0 while trying to allocate 20971520 bytes (free: 1048576, total: 85899345920).\n";
    let found = readings(line.repeat(3));
    assert_eq!((found.len(), found[0].occurrences), (1, 3));
    let Fact::Retry(retry) = &found[0].fact else { panic!("{found:?}") };
    assert_eq!(
        (retry.request_bytes, retry.free_bytes, retry.total_bytes),
        (Some(20_971_520), Some(MIB), Some(85_899_345_920))
    );
}

#[test]
fn failures_of_others() {
    for (text, source, request) in [
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1048576 bytes. Error code 12 (Cannot allocate memory)",
            Source::Host,
            Some(MIB),
        ),
        (
            "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 1048576 bytes.",
            Source::Host,
            Some(MIB),
        ),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.00 MiB for an array with shape (3, 1048576)",
            Source::Host,
            Some(3 * MIB),
        ),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", Source::Cudnn, None),
        ("RuntimeError: FIND was unable to find an engine to execute this computation", Source::Cudnn, None),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", Source::Nccl, None),
        ("NCCL WARN Cuda failure 2 'out of memory'", Source::Nccl, None),
        ("RuntimeError: Triton Error [CUDA]: out of memory", Source::Triton, None),
        ("Error out of memory at line 463 in file /src/csrc/pythonInterface.c", Source::Bitsandbytes, None),
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            Source::KvCache,
            None,
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1048576 bytes.",
            Source::Jax,
            Some(MIB),
        ),
        (
            "OOM when allocating tensor with shape[8,512] and type float on /job:localhost/device:GPU:0",
            Source::Tensorflow,
            None,
        ),
        (
            "OSError: [WinError 1455] The paging file is too small for this operation to complete.",
            Source::CommitLimit,
            None,
        ),
        (
            "Out of memory: Killed process 4242 (python) total-vm:90kB, anon-rss:80kB, file-rss:0kB",
            Source::Killed,
            None,
        ),
        ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.", Source::Killed, None),
        (
            "RuntimeError: DataLoader worker (pid(s) 7) exited: insufficient shared memory (shm)",
            Source::SharedMemory,
            None,
        ),
        ("RuntimeError: CUDA driver error: out of memory", Source::Driver, None),
        ("torch.OutOfMemoryError: CUDA error: out of memory", Source::Driver, None),
        ("RuntimeError: HIP error: out of memory", Source::Driver, None),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3.00 MiB on device 0: cudaMalloc failed: out of memory",
            Source::Ggml,
            Some(3 * MIB),
        ),
    ] {
        let found = foreign(text).unwrap_or_else(|| panic!("{text}: {:?}", readings(text)));
        assert_eq!((found.source, found.request_bytes.map(|q| q.bytes)), (source, request), "{text}");
    }
}

#[test]
fn advice() {
    for (text, about) in [
        ("RuntimeError: Unrecognized CachingAllocator option: foo", About::SettingsRefused),
        ("ValueError: CachingAllocator option max_split_size_mb too small, must be > 20", About::SettingsRefused),
        ("RuntimeError: Expected a single True/False argument for expandable_segments", About::SettingsRefused),
        (
            "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"c10/cuda/CUDACachingAllocator.cpp\":1016",
            About::NvmlAssert,
        ),
        ("RuntimeError: CUDA error: device-side assert triggered", About::BrokenContext),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376.",
            About::OutOfResource,
        ),
    ] {
        let found = readings(text);
        assert!(
            found.iter().any(|r| matches!(&r.fact, Fact::Advice(Advice { about: a, .. }) if *a == about)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn what_is_no_failure() {
    for text in [
        "If you run out of memory, use a smaller batch.",
        "    except torch.cuda.OutOfMemoryError:",
        "pip install memory-profiler",
        "step 3 | GPU memory 61.2GiB | out of 79.1GiB",
    ] {
        let failures =
            readings(text).into_iter().filter(|reading| !matches!(reading.fact, Fact::StepLog(_) | Fact::Clue(_)));
        assert_eq!(failures.collect::<Vec<_>>(), [], "{text}");
    }
}
