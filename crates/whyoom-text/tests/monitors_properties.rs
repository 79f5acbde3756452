//! Monitors, step logs, traces and series take any input without a panic, and say only what is possible.

use std::fmt::Write as _;

use proptest::prelude::*;
use whyoom_text::profilers::read_kineto;
use whyoom_text::series::{MAX_POINTS, Point, Series, Shape, analyse, compare, share, until};
use whyoom_text::{Fact, Limits, Text, read};

/// Pieces of every form, for lines that nearly are one.
const PIECES: &[&str] = &[
    "|   0  NVIDIA A100-SXM4-40GB    On  | 00000000:07:00.0 Off |                   On |",
    "| N/A   31C    P0    48W / 400W |     87MiB / 40960MiB |     N/A      Default |",
    "|  0    1   0   0  |     11MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |",
    "|    0   N/A  N/A     41001      C   python     18432MiB |",
    "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |",
    "timestamp, name, index, memory.used [MiB], memory.total [MiB]",
    "2025/03/04 09:10:00.120, 40960, 39011, 1423",
    "0, 8559 MiB, 2430 MiB, [Not Supported]",
    "pid, process_name, used_gpu_memory [MiB]",
    "# gpu    pwr  gtemp     sm    mem     fb   bar1",
    "    0     70     45      98     40   9842      5",
    "GPU 00000000:01:00.0",
    "    MIG Device",
    "    FB Memory Usage",
    "        Used                              : 37 MiB",
    "        Process ID                        : 4321",
    "[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10135 / 81920 MB | ann:python/12(5M)",
    "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\"} 10384 1741079400000",
    "GPU[0]\t\t: VRAM Total Used Memory (B): 11186176",
    "\"device_name\": \"NVIDIA RTX A4000\",",
    "\"mem_used\": \"6868592230\"",
    "\"Relative Time (Process)\",\"run - system/gpu.0.memoryAllocatedBytes\"",
    "{\"_timestamp\": 1741079400.5, \"system.gpu.0.memoryAllocated\": 43.2}",
    "Tue Mar  4 09:10:00 2025",
    "step 100 | memory_allocated 1390411776 | memory_reserved 1887436800",
    "epoch 0 step   50 alloc 2.14 GB # note",
    "--- variant ---",
    "step,allocated_mib,reserved_mib",
    "  7%|7   | 2298/31204 [4:12:37<32:57:10,  4.10s/it] mem=61.2GiB max=63.0GiB",
    "mem_get_info: (7838, 25447170048)",
    "1.13.1+cu117: 5511MiB",
    "NaN",
    "-1",
    "99999999999999999999999999",
    "1e999",
    "é",
    "\u{2502}",
    "\u{0}",
    "/",
    ",",
    "|",
    ":",
    " ",
    "GiB",
    "%",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => "\\PC{0,40}",
        1 => "[0-9.,:/|\\[\\] MGiB%-]{0,40}",
    ];
    let end = proptest::sample::select(vec!["\n", "\r", "", " "]);
    proptest::collection::vec((piece, 0..200_usize, end), 0..24).prop_map(|pieces| {
        let mut text = String::new();
        for (piece, keep, end) in pieces {
            // Half of the pieces are cut somewhere.
            text.extend(piece.chars().take(if keep < 100 { keep } else { usize::MAX }));
            text.push_str(end);
        }
        text
    })
}

fn facts(text: &str) -> Text {
    read(text.as_bytes(), &Limits::default()).expect("a slice can be read")
}

fn check(series: &Series) {
    let form = analyse(series);
    assert!(series.points().len() <= MAX_POINTS + 1);
    assert_eq!(form.points, series.count);
    assert_eq!(series.count < 2, form.shape == Shape::TooFew);
    for pace in [form.per_step, form.per_second, form.per_sample].into_iter().flatten() {
        assert!(pace.is_finite(), "{form:?}");
    }
    if let (Some(min), Some(max)) = (series.min, series.max) {
        assert!(min.bytes <= max.bytes);
        let _ = until(series, &form, max.bytes.saturating_mul(2));
    }
    serde_json::to_string(&form).expect("an analysis can be written");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_can_be_read(text in text()) {
        let found = facts(&text);
        serde_json::to_string(&found).expect("facts can be written");
        for reading in &found.readings {
            match &reading.fact {
                Fact::Monitor(monitor) => {
                    for device in &monitor.devices {
                        prop_assert!(device.samples >= device.used.count && device.samples >= device.unknown_samples);
                        check(&device.used);
                    }
                    monitor.processes.iter().for_each(|process| check(&process.used));
                }
                Fact::StepLog(log) => {
                    prop_assert!(!log.series.is_empty());
                    log.series.iter().for_each(|one| check(&one.figures));
                }
                _ => {}
            }
        }
        // The same text gives the same facts.
        let again = facts(&text);
        prop_assert_eq!(format!("{:?}", found.readings), format!("{:?}", again.readings));
    }

    #[test]
    fn any_series_has_a_shape(
        figures in proptest::collection::vec((any::<u64>(), proptest::option::of(any::<u64>()), proptest::option::of(any::<f64>())), 0..80),
        within in any::<u64>(),
    ) {
        let mut series = Series::new();
        for (at, (bytes, step, seconds)) in (0..).zip(&figures) {
            let seconds = seconds.filter(|seconds| seconds.is_finite() && seconds.abs() < 1e12);
            let step = step.map(|step| step % 1_000_000_000_000);
            series.push(Point { at, step, epoch: None, seconds, bytes: bytes >> 1 }, within >> 1);
        }
        check(&series);
        if let Some(relation) = compare(&series, &series) {
            prop_assert_eq!(relation.gap.max.map(|gap| gap.bytes), Some(0));
        }
        let _ = share(&series, &series);
    }

    #[test]
    fn growth_of_one_size_is_found_whatever_its_scale(
        base in 0..1_u64 << 36, pace in 1..1_u64 << 30, count in 3..200_u64, stride in 1..500_u64,
    ) {
        let mut series = Series::new();
        for at in 0..count {
            let step = at * stride;
            series.push(Point { at, step: Some(step), epoch: None, seconds: None, bytes: base + pace * step }, 0);
        }
        let form = analyse(&series);
        let is_growth = matches!(form.shape, Shape::Growth { constant: Some(true), slowing: false, .. });
        prop_assert!(is_growth, "{form:?}");
        let found = form.per_step.expect("steps are printed");
        prop_assert!((found - pace as f64).abs() <= 1e-6 * pace as f64 + 1e-3, "{found} {pace}");
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_kineto(&bytes[..]);
    }
}

#[test]
fn huge_lines_are_bounded() {
    for piece in
        ["memory_allocated 5000000 ", "1,", "|", "step 1 used 5MB, ", "{\"system.gpu.0.memoryAllocated\":", "é", "(9M)"]
    {
        let text = piece.repeat((3 << 20) / piece.len());
        facts(&text);
        facts(&format!("[0] x | 1 % | 1 / 2 MB | {text}"));
    }
}

#[test]
fn many_devices_and_series_are_bounded() {
    let mut text = String::from("index, memory.used [MiB]\n");
    for index in 0..3000 {
        writeln!(text, "{index}, 5 MiB").expect("a string takes any text");
    }
    for index in 0..3000 {
        let line = format!("step {index} name=x{index}y memory_allocated_gpu{index} 5000000");
        writeln!(text, "{line}").expect("a string takes any text");
    }
    for reading in &facts(&text).readings {
        match &reading.fact {
            Fact::Monitor(monitor) => assert!(monitor.devices.len() <= 1024 && monitor.left_out > 0),
            Fact::StepLog(log) => assert!(log.series.len() <= 128),
            other => panic!("{other:?}"),
        }
    }
}
