//! How fast logs of several kinds are read: `throughput [MiB] [kind…]` prints megabytes a second for each kind (wall and
//! processor time, the median of three) and the peak of the process's memory. The logs are made from a seed and read from
//! a file, so that the memory is the reader's; `throughput --print MiB kind` writes one out.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::time::Instant;

use whyoom_text::{Limits, read};

/// A xorshift generator: the same log every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn part(&mut self) -> f64 {
        self.below(1_000_000) as f64 / 1e6
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

const KINDS: [&str; 12] =
    ["mix", "plain", "steps", "steps_csv", "python", "ranks", "tqdm", "json", "smi_csv", "smi_bare", "prose", "chrome"];

const WORDS: &[&str] = &[
    "the",
    "a",
    "model",
    "of",
    "and",
    "we",
    "to",
    "is",
    "number",
    "remember",
    "training",
    "data",
    "that",
    "for",
    "with",
    "as",
    "gradient",
    "used",
    "literal",
    "batch",
    "memory",
    "it",
    "on",
    "this",
    "layers,",
    "are",
    "by",
    "be",
    "which",
    "from",
    "an",
    "warning:",
    "was",
    "caused",
    "loaded",
    "config",
    "at",
    "or",
    "have",
    "not",
    "December",
    "criterion",
    "focused",
    "in",
    "its",
    "value,",
    "seen",
    "will",
    "use",
    "all",
];

fn line(text: &mut String, kind: &str, step: u64, random: &mut Random) {
    let (loss, held) = (2.3 * random.part(), 12.0 + random.part() * 8.0);
    let clock = format!("{:02}:{:02}:{:02}", step / 3600 % 24, step / 60 % 60, step % 60);
    let ms = random.below(1000);
    let _ = match kind {
        "plain" => writeln!(
            text,
            "2025-03-04 {clock},{ms:03} - INFO - step {step} | loss {loss:.4} | lr 3.0e-04 | grad_norm {:.2} | tokens/s {:.1}",
            random.part() * 9.0,
            50_000.0 + 2000.0 * random.part()
        ),
        "steps" => {
            writeln!(text, "step {step} loss {loss:.2} lr 1e-4 allocated {held:.1} GiB reserved {:.1} GiB", held + 2.0)
        }
        "steps_csv" if step == 0 => writeln!(text, "step,loss,allocated_mib,reserved_mib"),
        "steps_csv" => writeln!(text, "{step},{loss:.4},{:.1},{:.1}", held * 1024.0, held * 1024.0 + 512.0),
        "python" => writeln!(
            text,
            "2025-03-04 {clock},{ms:03} - trainer - INFO - epoch {} step {step}: loss={loss:.4}, max_memory_allocated={} bytes",
            step / 1000,
            (held * 1e9) as u64
        ),
        "ranks" => writeln!(
            text,
            "[rank{}]: [2025-03-04 {clock}] iter {step}/100000 loss {loss:.3} mem {} MiB",
            random.below(8),
            (held * 1024.0) as u64
        ),
        "tqdm" => write!(
            text,
            "\r{:3}%|{:<10}| {step}/99999 [{clock}<{clock}, {:5.2}s/it, loss={loss:.3}, mem={held:.1}GiB]",
            step * 100 / 99_999,
            "#".repeat((step / 9999 % 10) as usize),
            random.part() * 5.0
        ),
        "json" => writeln!(
            text,
            "{{\"step\": {step}, \"loss\": {loss:.5}, \"lr\": 0.0003, \"memory_allocated\": {}, \"memory_reserved\": {}}}",
            (held * 1e9) as u64,
            (held * 1e9) as u64 + 2_000_000_000
        ),
        "smi_csv" if step == 0 => {
            writeln!(text, "timestamp, index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]")
        }
        "smi_csv" => writeln!(
            text,
            "2025/03/04 {clock}.{ms:03}, {}, NVIDIA A100-SXM4-80GB, {} MiB, 81920 MiB, {} %",
            step % 8,
            (held * 1024.0) as u64,
            random.below(100)
        ),
        "smi_bare" => writeln!(text, "{}, {}, 81920", step % 8, (held * 1024.0) as u64),
        "chrome" => writeln!(
            text,
            "  {{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void gemm_{}\", \"pid\": 0, \"tid\": 7, \"ts\": {}, \"dur\": {}, \"args\": {{\"device\": 0, \"stream\": 7, \"grid\": [{}, 1, 1]}}}},",
            random.below(40),
            1_741_079_400_000 + step * 13,
            random.below(900),
            random.below(512)
        ),
        "prose" => {
            for _ in 0..14 {
                text.push_str(random.pick(WORDS));
                text.push(' ');
            }
            if random.below(4) == 0 {
                let _ = write!(text, "{}", random.below(5000));
            }
            writeln!(text)
        }
        _ => {
            let other = match random.below(100) {
                0..=34 => "plain",
                35..=59 => "steps",
                60..=74 => "python",
                75..=79 => "ranks",
                80..=89 => "tqdm",
                _ => "prose",
            };
            // Lines of one kind come in runs.
            for next in 0..=random.below(20) {
                line(text, other, step + next, random);
            }
            Ok(())
        }
    };
}

/// A log that is made as it is read, with 50 failures and their tracebacks evenly in it.
struct Log<'a> {
    kind: &'a str,
    random: Random,
    step: u64,
    made: usize,
    size: usize,
    failures: usize,
    ready: String,
    given: usize,
}

impl<'a> Log<'a> {
    fn new(kind: &'a str, size: usize) -> Self {
        Self {
            kind,
            random: Random(88_172_645_463_325_252),
            step: 0,
            made: 0,
            size,
            failures: 0,
            ready: String::new(),
            given: 0,
        }
    }

    fn make(&mut self) {
        self.ready.clear();
        self.given = 0;
        while self.ready.len() < 1 << 16 && self.made + self.ready.len() < self.size {
            line(&mut self.ready, self.kind, self.step, &mut self.random);
            self.step += 1;
            if (self.made + self.ready.len()) / (self.size / 50) > self.failures {
                self.failures += 1;
                let _ = write!(
                    self.ready,
                    "\nTraceback (most recent call last):\n  File \"train.py\", line 118, in main\n    loss.backward()\n\
                     torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.50 GiB. GPU 0 has a total capacity of \
                     79.15 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. \
                     Of the allocated memory 75.20 GiB is allocated by PyTorch, and 1.31 GiB is reserved by PyTorch but \
                     unallocated. If reserved but unallocated memory is large try setting \
                     PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
                     Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)\n",
                    self.failures
                );
            }
        }
        self.made += self.ready.len();
    }
}

impl Read for Log<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            self.make();
        }
        let len = to.len().min(self.ready.len() - self.given);
        to[..len].copy_from_slice(&self.ready.as_bytes()[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

/// Seconds that the process has run on a processor, as Linux tells.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// The peak of resident memory, as Linux tells it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn main() -> io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_print = arguments.first().is_some_and(|first| first == "--print");
    if is_print {
        arguments.remove(0);
    }
    let size = arguments.first().and_then(|size| size.parse().ok()).unwrap_or(64) << 20;
    let asked: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let kinds = if asked.is_empty() { KINDS.to_vec() } else { asked };
    if is_print {
        return io::copy(&mut Log::new(kinds[0], size), &mut io::stdout().lock()).map(|_| ());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{:10} {:>10} {:>10}", "kind", "wall MB/s", "cpu MB/s")?;
    for kind in kinds {
        let mut rates = Vec::new();
        let path = std::env::temp_dir().join(format!("whyoom-throughput-{}", std::process::id()));
        let bytes = io::copy(&mut Log::new(kind, size), &mut File::create(&path)?)?;
        for _ in 0..3 {
            let (wall, cpu) = (Instant::now(), processor_seconds());
            let text = read(File::open(&path)?, &Limits::default())?;
            assert!(text.bytes == bytes);
            let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
            rates.push((rate(wall.elapsed().as_secs_f64()), rate(processor_seconds() - cpu)));
        }
        std::fs::remove_file(&path)?;
        rates.sort_by(|a, b| a.1.total_cmp(&b.1));
        writeln!(out, "{kind:10} {:10.0} {:10.0}", rates[1].0, rates[1].1)?;
        out.flush()?;
    }
    writeln!(out, "peak of resident memory: {}", peak())
}
