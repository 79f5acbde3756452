use super::*;
use crate::series::{GapTrend, Shape, analyse, compare};
use crate::steps::StepSeries;

fn log(text: &str) -> Option<StepLog> {
    let text = crate::read(text.as_bytes(), &crate::Limits::default()).expect("a slice can be read");
    text.readings.into_iter().find_map(|reading| match reading.fact {
        Fact::StepLog(log) => Some(*log),
        _ => None,
    })
}

fn one(log: &StepLog, measure: Measure) -> &StepSeries {
    log.series.iter().find(|series| series.measure == measure).expect("a series of this quantity")
}

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() <= expected.abs() * 1e-3 + 0.5)
}

#[test]
fn graph_01_growth_and_a_level_gap() {
    let log = log("step     0 | loss 2.3015 | memory_allocated 1264582656 | max_memory_allocated 1476395008 | memory_reserved 1761607680
step   100 | loss 1.9712 | memory_allocated 1390411776 | max_memory_allocated 1602224128 | memory_reserved 1887436800
step   200 | loss 1.8031 | memory_allocated 1516240896 | max_memory_allocated 1728053248 | memory_reserved 2013265920
step   300 | loss 1.7120 | memory_allocated 1642070016 | max_memory_allocated 1853882368 | memory_reserved 2139095040
step   400 | loss 1.6544 | memory_allocated 1767899136 | max_memory_allocated 1979711488 | memory_reserved 2264924160").expect("a log");
    assert_eq!((log.samples, log.series.len(), log.assumptions.len()), (5, 3, 0));
    let allocated = one(&log, Measure::Allocated);
    let found = analyse(&allocated.figures);
    assert!(matches!(found.shape, Shape::Growth { constant: Some(true), slowing: false, .. }), "{found:?}");
    assert_eq!(found.per_step.map(f64::round), Some(1_258_291.0));
    let reserved = log.beside(allocated, Measure::Reserved).expect("reserved");
    let gap = compare(&allocated.figures, &reserved.figures).expect("pairs");
    assert_eq!((gap.trend, gap.gap.first.map(|gap| gap.bytes)), (GapTrend::Flat, Some(474 << 20)));
}

#[test]
fn graph_04_two_variants() {
    let log = log("iter    0 memory_allocated=  312.50 MiB
iter   10 memory_allocated=  352.50 MiB   # metric.update(preds.detach(), target)
--- preds passed without detach ---
iter    0 memory_allocated=  312.50 MiB
iter   10 memory_allocated= 1089.06 MiB")
    .expect("a log");
    assert_eq!(log.series.len(), 2);
    assert_eq!(log.series[1].variant.as_deref(), Some("preds passed without detach"));
    assert_eq!(log.comments, ["metric.update(preds.detach(), target)"]);
    assert!(near(analyse(&log.series[0].figures).per_step, 4.0 * 1_048_576.0));
    assert!(near(analyse(&log.series[1].figures).per_step, 77.656 * 1_048_576.0));
}

#[test]
fn collect_04_a_saw_per_epoch() {
    let log = log("epoch 0 step   50 alloc 2.14 GB
epoch 0 step  100 alloc 3.09 GB
epoch 0 step  150 alloc 4.04 GB
epoch 0 end       alloc 4.99 GB
epoch 1 step    0 alloc 1.19 GB
epoch 1 step   50 alloc 2.14 GB")
    .expect("a log");
    assert_eq!(log.series.len(), 1);
    assert_eq!(log.series[0].unit.or_bytes, Some(1 << 30));
    let found = analyse(&log.series[0].figures);
    assert!(near(found.per_step, 19e6), "{found:?}");
    let Shape::SawTooth { resets: 1, period: Some(period), drift: Some(0), .. } = found.shape else {
        panic!("{found:?}")
    };
    assert!((period - 200.0).abs() < 1e-9);
}

#[test]
fn amp_01_two_labels_on_two_lines() {
    let log = log(
        "autocast=on  no_grad generate: step 0 used 2871MB, step 1 used 4402MB, step 2 used 5933MB, step 3 used 7464MB
autocast=off no_grad generate: step 0 used 2866MB, step 1 used 2866MB, step 2 used 2866MB",
    )
    .expect("a log");
    assert_eq!(log.series.len(), 2, "{log:?}");
    let found = analyse(&log.series[0].figures);
    assert_eq!(found.per_step, Some(1531e6));
    assert!(matches!(found.shape, Shape::Growth { constant: Some(true), .. }));
    assert!(matches!(analyse(&log.series[1].figures).shape, Shape::Flat { .. }));
}

#[test]
fn seq_02_a_jump_in_a_progress_bar() {
    let log = log("  7%|7         | 2298/31204 [4:12:37<32:57:10,  4.10s/it] mem=61.2GiB max=63.0GiB\r  7%|7         | 2299/31204 [4:12:41<32:57:04,  4.10s/it] mem=79.0GiB max=79.0GiB").expect("a log");
    let found = analyse(&one(&log, Measure::Memory).figures);
    assert!(log.series.iter().all(|series| series.label.is_none()), "{log:?}");
    let Shape::Jump { by, over, .. } = found.shape else { panic!("{found:?}") };
    assert!(near(Some(by as f64), 17.8 * 1_073_741_824.0) && (over - 1.0).abs() < 1e-9);
    assert!(log.series.iter().any(|series| series.measure == Measure::MaxMemory));
}

#[test]
fn cudnn_03_shapes_are_no_labels() {
    let log = log("it=1   shape=(16,1,80,812)  reserved=6.1GiB
it=2   shape=(16,1,80,1190) reserved=9.8GiB
it=3   shape=(16,1,80,944)  reserved=13.2GiB
it=4   shape=(16,1,80,1033) reserved=16.9GiB")
    .expect("a log");
    assert_eq!((log.series.len(), log.series[0].measure), (1, Measure::Reserved));
    let per_step = analyse(&log.series[0].figures).per_step.expect("a pace");
    assert!((per_step / 1_073_741_824.0 - 3.6).abs() < 0.05, "{per_step}");
}

#[test]
fn opt_01_one_series_for_each_optimizer() {
    let log = log("params=138357544 optimizer=SGD(momentum=0.9) step=0 peak_allocated=9.31GiB
params=138357544 optimizer=Adam step=0 peak_allocated=9.82GiB CUDA out of memory in optimizer.step()")
    .expect("a log");
    let labels: Vec<_> = log.series.iter().filter_map(|series| series.label.as_deref()).collect();
    assert_eq!(labels, ["optimizer=SGD(momentum=0.9)", "optimizer=Adam"]);
    assert!(log.series.iter().all(|series| series.measure == Measure::MaxAllocated));
}

#[test]
fn opt_02_sizes_with_names() {
    let log = log("1.13.1+cu117: 5511MiB\n2.0.0+cu118: 6799MiB").expect("a log");
    let figures: Vec<_> =
        log.series.iter().filter_map(|one| Some((one.label.as_deref()?, one.figures.last?.bytes))).collect();
    assert_eq!(figures, [("1.13.1+cu117", 5511 << 20), ("2.0.0+cu118", 6799 << 20)]);
}

#[test]
fn comp_01_ranks_and_bytes() {
    let log = log("[rank 1] after gc max memory: 44072368640, curr memory: 17666395648
[rank 1] after gc max memory: 44273055744, curr memory: 67108864")
    .expect("a log");
    assert!(log.series.iter().all(|series| series.rank == Some(1)));
    assert_eq!(one(&log, Measure::Memory).figures.first.map(|point| point.bytes), Some(17_666_395_648));
    assert_eq!(one(&log, Measure::MaxMemory).figures.last.map(|point| point.bytes), Some(44_273_055_744));
}

#[test]
fn win_05_two_sources_disagree() {
    let log = log("cudaMemGetInfo free=6912 MiB  NVML free=3104 MiB  total=8192 MiB").expect("a log");
    let figures: Vec<_> = log
        .series
        .iter()
        .filter_map(|one| Some((one.label.as_deref(), one.measure, one.figures.last?.bytes >> 20)))
        .collect();
    assert_eq!(
        figures,
        [
            (Some("cudaMemGetInfo"), Measure::Free, 6912),
            (Some("NVML"), Measure::Free, 3104),
            (None, Measure::Total, 8192)
        ]
    );
}

#[test]
fn nograd_03_a_figure_in_prose() {
    let log =
        log("validation batch 40/1000: GPU memory 9842 MiB -> validation batch 60/1000: out of memory").expect("a log");
    let point = log.series[0].figures.first.expect("a figure");
    assert_eq!((point.step, point.bytes), (Some(40), 9842 << 20));
}

#[test]
fn tables_json_and_carried_counters() {
    let text = "step,allocated_mib,reserved_mib\n0,100,200\n10,110,200\n20,120,200";
    let table = log(text).expect("a log");
    assert_eq!(analyse(&one(&table, Measure::Allocated).figures).per_step, Some(1_048_576.0));
    let text = "Epoch 0\nmemory allocated: 1.5 GiB\nEpoch 1\nmemory allocated: 2.5 GiB";
    let carried = log(text).expect("a log");
    assert_eq!(carried.series[0].figures.last.and_then(|point| point.epoch), Some(1.0));
    let text = "{\"step\": 1, \"mem\": {\"gpu_0\": {\"allocated\": 2097152000}}}\n{\"step\": 2, \"mem\": {\"gpu_0\": {\"allocated\": 4097152000}}}";
    let json = log(text).expect("a log");
    assert_eq!((json.series.len(), json.series[0].figures.count), (1, 2));
}

#[test]
fn units_that_are_not_printed_are_stated() {
    let mib = log("Epoch(train) [1][50/300] lr: 1.0e-02 eta: 1:00:00 time: 0.5 memory: 5123 loss: 0.7").expect("a log");
    assert_eq!((mib.series[0].unit.name, mib.series[0].unit.assumed), ("MiB", true));
    assert_eq!(mib.assumptions.len(), 1);
    let gib = log("step 1 mem 3.52\nstep 2 mem 3.61").expect("a log");
    assert_eq!(gib.series[0].unit.name, "GiB");
    let bytes = log("step 1 memory_allocated 0\nstep 2 memory_allocated 734003200").expect("a log");
    assert_eq!(
        (bytes.series[0].unit.name, bytes.series[0].figures.last.map(|point| point.bytes)),
        ("bytes", Some(734_003_200))
    );
    assert!(bytes.assumptions.is_empty());
}

#[test]
fn labels_that_never_repeat_are_one_series() {
    let names = "abcdefghijklmnop";
    let lines: Vec<String> = names.chars().map(|name| format!("file=x{name} step 1 mem 300 MiB")).collect();
    assert_eq!(log(&lines.join("\n")).expect("a log").series.len(), 1);
}

#[test]
fn other_texts_are_left_alone() {
    for text in [
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 10.00 GiB total capacity; 9.00 GiB already allocated; 1.00 MiB free; 9.50 GiB reserved in total by PyTorch)",
        "|    0   N/A  N/A     41001      C   python                                    18432MiB |",
        "|  0%   43C    P8    18W / 320W |   9711MiB / 10240MiB |      3%      Default |",
        "index, memory.used [MiB], memory.free [MiB]\n0, 8559 MiB, 2430 MiB",
        "Downloading: 4.9GB\nloss: 2.3",
        "model.safetensors: 4.98GB\nmodel-2.safetensors: 1.2GB",
    ] {
        assert_eq!(log(text), None, "{text}");
    }
}

#[test]
fn counts_beside_sizes_are_no_sizes() {
    let log = log("segments=234 reserved=24012.0MiB allocated=6556.0MiB; trace: alloc=7591 oom=0").expect("a log");
    assert_eq!(log.series.len(), 2);
}
