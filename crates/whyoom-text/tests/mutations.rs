//! Texts that were cut, joined and changed at random: the invariants of the fuzz targets, and lines known by their shape
//! read as they are without. `WHYOOM_MUTATION_SECONDS` sets how long, `WHYOOM_MUTATION_SEED` where it begins.

use std::time::{Duration, Instant};

use whyoom_text::profilers::read_kineto;
use whyoom_text::series::{Series, analyse, compare};
use whyoom_text::{Fact, Limits, Text, read, read_with, sniff_likelihood};

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const PREFIXES: &[&str] = &[
    "",
    "",
    "",
    "[rank3]: ",
    "[rank 1] ",
    "[2025-03-04 09:10:00,120] ",
    "2025-03-04 09:10:00,120 - INFO - ",
    "worker 2 | ",
    "3: ",
    "INFO 05-01 10:11:12 a.py:33] ",
    "Mar  4 09:10:00 gpu1 train[77]: ",
    "(Worker pid=123, ip=10.0.0.1) ",
    "gpu 3: ",
    "trainer-1  | ",
];

const LINES: &[&str] = &[
    "step 123 loss 0.12 lr 1e-4 allocated 12.3 GiB",
    "step 100 | memory_allocated 1390411776 | memory_reserved 1887436800",
    "epoch 0 step   50 alloc 2.14 GB # note",
    "epoch 0 step 12, loss: 2.31, mem: 5123 MiB, peak 6,144 MiB",
    "  7%|7   | 2298/31204 [4:12:37<32:57:10,  4.10s/it] mem=61.2GiB max=63.0GiB",
    "{\"step\": 1, \"loss\": 0.5, \"memory_allocated\": 2097152000, \"t\": -1.5e-3}",
    "optimizer=SGD(momentum=0.9) name=run-12 step=0 peak_allocated=9.31GiB",
    "Step 7 mem (alloc/reserved): 1000/2000 bytes on gpu 1",
    "iteration 7/500: 1000 bytes allocated, 2000 bytes reserved, timestamp 1741079400000",
    "--- variant 1 ---",
    "1.13.1+cu117: 5511MiB",
    "loss: 0.25 lr: 3e-4",
    "mem_get_info: (7838, 25447170048)",
    "step,loss,allocated_mib,reserved_mib",
    "10,2.1,100.0,200.0",
    "timestamp, name, index, memory.used [MiB], memory.total [MiB], utilization.gpu [%]",
    "2025/03/04 09:10:00.120, NVIDIA A100-SXM4-80GB, 0, 40960 MiB, 81920 MiB, 98 %",
    "0, 8559 MiB, 2430 MiB, [Not Supported]",
    "0, 8559, 81920",
    "pid, process_name, used_gpu_memory [MiB]",
    "4321, python, 10132 MiB",
    "# gpu    pwr  gtemp     sm    mem     fb   bar1",
    "    0     70     45      98     40   9842      5",
    "[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10135 / 81920 MB | ann:python/12(5M)",
    "| N/A   31C    P0    48W / 400W |     87MiB / 40960MiB |     N/A      Default |",
    "|    0   N/A  N/A     41001      C   python     18432MiB |",
    "GPU 00000000:01:00.0",
    "    FB Memory Usage",
    "        Used                              : 37 MiB",
    "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\"} 10384 1741079400000",
    "{\"_timestamp\": 1741079400.5, \"system.gpu.0.memoryAllocated\": 43.2}",
    "Tue Mar  4 09:10:00 2025",
    "Traceback (most recent call last):",
    "  File \"train.py\", line 118, in main",
    "CUDA error 2: out of memory",
    "OSError: [Errno 12] Cannot allocate memory",
    "error code: 1455, the paging file is too small",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 7.00 GiB reserved in total by PyTorch)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.02 GiB is free.",
    "|  PyTorch CUDA memory summary, device ID 0                 |",
    "| Allocated memory      |   12 GiB |   13 GiB |  1 TiB |  1 TiB |",
    "'allocated_bytes.all.current': 12, 'num_ooms': 1, 'active.all.peak': 3",
    "[{'device': 0, 'total_size': 2097152, 'allocated_size': 5, 'blocks': [{'size': 5, 'state': 'inactive'}]}]",
    "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 python train.py",
    "we remember that the number of layers, in December, was used with 12 batches",
    "",
];

fn changed(line: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut was_digit = false;
    for byte in line.bytes() {
        let is_digit = byte.is_ascii_digit();
        match random.below(if is_digit { 12 } else { 400 }) {
            0..=5 if is_digit => bytes.push(b'0' + random.below(10) as u8),
            6 if is_digit && !was_digit => {
                let length = random.below(18) as u32;
                bytes.extend_from_slice(random.below(10_usize.pow(length)).to_string().as_bytes());
            }
            0 => {
                bytes
                    .push(*random.pick(&[&b',', &b'.', &b'-', &b' ', &b'1', &b'e', &0xc3, &0x1b, &b':', &b'[', &b'"']));
            }
            1 => {}
            _ => bytes.push(byte),
        }
        was_digit = is_digit;
    }
    bytes
}

fn text(random: &mut Random) -> Vec<u8> {
    let pool: Vec<String> =
        (0..=random.below(7)).map(|_| format!("{}{}", random.pick(PREFIXES), random.pick(LINES))).collect();
    let ending = random.pick(&["\n", "\n", "\n", "\r\n", "\r"]);
    let mut text = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(60) {
            0 => text.extend(changed(random.pick(LINES), random)),
            1 => text.extend_from_slice(random.pick(LINES).as_bytes()),
            _ => text.extend(changed(&pool[random.below(pool.len())], random)),
        }
        text.extend_from_slice(ending.as_bytes());
    }
    match random.below(12) {
        0 => text.truncate(random.below(text.len())),
        1 => {
            let at = random.below(text.len());
            let piece: Vec<u8> = text[at..].iter().take(random.below(300)).copied().collect();
            let to = random.below(text.len());
            text.splice(to..to, piece.repeat(1 + random.below(4)));
        }
        2 if !text.is_empty() => {
            let at = random.below(text.len());
            text[at] = random.below(256) as u8;
        }
        _ => {}
    }
    text
}

fn check(series: &Series) {
    let form = analyse(series);
    assert_eq!(form.points, series.count);
    assert!([form.per_step, form.per_second, form.per_sample].iter().flatten().all(|pace| pace.is_finite()));
    let _ = compare(series, series);
}

fn check_all(text: &Text) {
    for reading in &text.readings {
        match &reading.fact {
            Fact::Monitor(monitor) => {
                monitor.devices.iter().for_each(|device| check(&device.used));
                monitor.processes.iter().for_each(|process| check(&process.used));
            }
            Fact::StepLog(log) => log.series.iter().for_each(|one| check(&one.figures)),
            _ => {}
        }
    }
}

fn one(bytes: &[u8]) {
    assert!((0.0..=1.0).contains(&sniff_likelihood(bytes)));
    let _ = read_kineto(bytes);
    let whole = read(bytes, &Limits::default()).expect("a slice can be read");
    check_all(&whole);
    assert_eq!(whole.bytes, bytes.len() as u64);
    for reading in &whole.readings {
        assert!(
            reading.place.offset <= whole.bytes && reading.place.line >= 1 && reading.place.line <= whole.lines + 1
        );
        assert!(reading.occurrences >= 1);
    }
    // Where a line may be cut before it can have a shape, none has one.
    let limits = Limits { line_bytes: 4095, ..Limits::default() };
    if bytes.split(|byte| matches!(byte, b'\n' | b'\r')).all(|line| line.len() < 4000) {
        let without = read(bytes, &limits).expect("a slice can be read");
        assert_eq!(format!("{:?}", whole.readings), format!("{:?}", without.readings));
        assert_eq!((whole.lines, whole.cut_lines), (without.lines, without.cut_lines));
    }
    let small = read(bytes, &Limits { line_bytes: 64, readings: 4 }).expect("a slice can be read");
    assert!(small.readings.len() <= 4);
    let mut recognisers = whyoom_text::monitors::recognisers();
    recognisers.push(whyoom_text::steps::recognisers().1);
    check_all(&read_with(bytes, &Limits::default(), &mut recognisers).expect("a slice can be read"));
}

#[test]
fn changed_texts() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("WHYOOM_MUTATION_SECONDS");
    let begin = Instant::now();
    let mut random = Random(number("WHYOOM_MUTATION_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15));
    for count in 0_u64.. {
        let is_over = seconds.map_or(count >= 150, |seconds| begin.elapsed() >= Duration::from_secs(seconds));
        if is_over {
            break;
        }
        let bytes = text(&mut random);
        let result = std::panic::catch_unwind(|| one(&bytes));
        assert!(result.is_ok(), "text {count}: {}", bytes.escape_ascii());
    }
}

#[test]
fn repeated_failures_are_bounded() {
    use std::fmt::Write as _;
    let limits = Limits { readings: 1000, ..Limits::default() };
    let mut text = String::new();
    for step in 0..20_000 {
        let _ = writeln!(
            text,
            "RuntimeError: CUDA out of memory. Tried to allocate {step}.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 MiB free; 7.00 GiB reserved in total by PyTorch)"
        );
    }
    let found = read(text.as_bytes(), &limits).expect("a slice can be read");
    assert_eq!((found.readings.len(), found.dropped_readings), (1000, 19_000));
}
