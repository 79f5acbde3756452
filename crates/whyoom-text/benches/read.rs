//! Bytes read in a second: a training log with 50 failures in it, and one whose every line has a figure of memory.

use std::fmt::Write as _;

use divan::Bencher;
use divan::counter::BytesCount;
use whyoom_text::{Found, Limits, Line, Recogniser, read, read_with, recognisers};

const BYTES: usize = 64 << 20;

fn main() {
    divan::main();
}

/// Lines made by `line` and, evenly among them, 50 failures with their tracebacks.
fn log(line: impl Fn(&mut String, usize)) -> String {
    let mut text = String::with_capacity(BYTES + 4096);
    let mut failures = 0;
    for step in 0.. {
        if text.len() >= BYTES {
            break;
        }
        line(&mut text, step);
        if text.len() / (BYTES / 50) > failures {
            failures += 1;
            let _ = write!(
                text,
                "Traceback (most recent call last):\n  File \"train.py\", line 118, in main\n    loss.backward()\n\
                 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {failures}.50 GiB. GPU 0 has a total capacity of \
                 79.15 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. \
                 Of the allocated memory 75.20 GiB is allocated by PyTorch, and 1.31 GiB is reserved by PyTorch but \
                 unallocated. If reserved but unallocated memory is large try setting \
                 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
                 Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)\n"
            );
        }
    }
    text
}

fn bench(bencher: Bencher<'_, '_>, text: &str) {
    bencher
        .counter(BytesCount::new(text.len()))
        .bench(|| read(divan::black_box(text.as_bytes()), &Limits::default()).map(|t| t.readings.len()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn training_log(bencher: Bencher<'_, '_>) {
    let text = log(|text, step| {
        let loss = 2.3 + (step % 97) as f64 / 1000.0;
        let _ = writeln!(
            text,
            "2025-03-04 09:10:00,123 - INFO - step {step} | loss {loss:.4} | lr 3.0e-04 | grad_norm 1.23 | tokens/s 51234.1"
        );
    });
    bench(bencher, &text);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn memory_on_every_line(bencher: Bencher<'_, '_>) {
    let text = log(|text, step| {
        let _ = writeln!(text, "  7%|7         | {step}/31204 [4:12:37<32:57:10,  4.10s/it] mem=61.2GiB max=63.0GiB");
    });
    bench(bencher, &text);
}

/// Every line asks a recogniser, and none knows it.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn needle_on_every_line(bencher: Bencher<'_, '_>) {
    let text = log(|text, step| {
        let _ =
            writeln!(text, "2025-03-04 09:10:00,123 - INFO - step {step} | may run out of memory, as ever | loss 2.1");
    });
    bench(bencher, &text);
}

/// Asks for every line with a figure, and does nothing with it: what a line costs before any recogniser works on it.
struct Idle;

impl Recogniser for Idle {
    fn needles(&self) -> &'static [&'static str] {
        &["mem="]
    }

    fn line(&mut self, _: &Line<'_>, _: &mut Found) -> bool {
        true
    }

    fn end(&mut self, _: &mut Found) {}
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn memory_on_every_line_asked_for(bencher: Bencher<'_, '_>) {
    let text = log(|text, step| {
        let _ = writeln!(text, "  7%|7         | {step}/31204 [4:12:37<32:57:10,  4.10s/it] mem=61.2GiB max=63.0GiB");
    });
    bencher.counter(BytesCount::new(text.len())).bench(|| {
        let mut all = recognisers();
        all.insert(0, Box::new(Idle));
        read_with(divan::black_box(text.as_bytes()), &Limits::default(), &mut all).map(|t| t.readings.len())
    });
}
