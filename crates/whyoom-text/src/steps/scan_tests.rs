use super::*;

/// Step, measure and bytes of each figure.
fn figures(line: &str) -> Vec<(Option<u64>, Measure, u64)> {
    let scan = scan(line);
    let figures = scan.groups.iter().flat_map(|group| {
        let step = group.step.or(group.batch);
        group.figures.iter().map(move |figure| {
            let bytes = figure.number.bytes(figure.unit.unwrap_or(Unit::BYTES)).map_or(u64::MAX, |bytes| bytes.0);
            (step, figure.measure, bytes)
        })
    });
    figures.collect()
}

#[test]
fn pairs_bars_dicts_and_json() {
    let expected = vec![(Some(7), Measure::Allocated, 1000), (Some(7), Measure::Reserved, 2000)];
    for line in [
        "step 7 | loss 2.1 | memory_allocated 1000 | memory_reserved 2000",
        "step=7 loss=2.1 memory_allocated=1000 memory_reserved=2000",
        "{'step': 7, 'loss': 2.1, 'memory_allocated': 1000, 'memory_reserved': 2000}",
        r#"{"step":7,"loss":2.1e-3,"memory_allocated":1000,"memory_reserved":2000}"#,
        "[2025-03-04 10:00:00] iter: 7, allocated: 1000 bytes, reserved: 2000 bytes",
        "iteration 7/500: 1000 bytes allocated, 2000 bytes reserved",
        "Step 7 mem (alloc/reserved): 1000/2000 bytes",
    ] {
        assert_eq!(figures(line), expected, "{line}");
    }
}

#[test]
fn units_beside_numbers_and_in_keys() {
    assert_eq!(figures("epoch 0 step   50 alloc 2.14 GB"), [(Some(50), Measure::Allocated, 2_140_000_000)]);
    assert_eq!(figures("iter 10 memory_allocated=  352.50 MiB"), [(Some(10), Measure::Allocated, 369_623_040)]);
    assert_eq!(figures("it 3 reserved_gib: 1.5"), [(Some(3), Measure::Reserved, 3 << 29)]);
    assert_eq!(
        figures("it 3 VRAM: 12/24 GiB"),
        [(Some(3), Measure::Memory, 12 << 30), (Some(3), Measure::Total, 24 << 30)]
    );
    assert_eq!(figures("step 3 max_mem: 5123M"), [(Some(3), Measure::MaxMemory, 5_123_000_000)]);
}

#[test]
fn progress_bars() {
    let line = "  7%|7         | 2298/31204 [4:12:37<32:57:10,  4.10s/it] mem=61GiB max=63GiB";
    assert_eq!(figures(line), [(Some(2298), Measure::Memory, 61 << 30), (Some(2298), Measure::MaxMemory, 63 << 30)]);
    assert!(figures("model.bin: 45%|####  | 2.1G/4.9G [00:10<00:12, 210MB/s]").is_empty());
}

#[test]
fn several_steps_on_one_line() {
    let line = "autocast=on  no_grad generate: step 0 used 28MB, step 1 used 44MB";
    assert_eq!(figures(line), [(Some(0), Measure::Used, 28_000_000), (Some(1), Measure::Used, 44_000_000)]);
    assert_eq!(scan(line).label, "no_grad generate autocast=on");
    let line = "validation batch 40/1000: GPU memory 9842 MiB -> validation batch 60/1000: out of memory";
    assert_eq!(figures(line), [(Some(40), Measure::Memory, 9842 << 20)]);
}

#[test]
fn code_and_other_numbers_are_no_figures() {
    for line in [
        "    print(torch.cuda.memory_allocated(0))",
        "    mem = torch.cuda.memory_allocated() / 1024**2",
        "params=138357544 optimizer=Adam",
        "it=1 shape=(16,1,80,812)",
        "cpu memory: 12.5 GB",
        "step 5 loss 2.3 lr 1e-4 grad_norm 1.2 tokens 8192",
        "Downloading model 4.9 GB",
        "gpu utilization 98%",
    ] {
        assert!(figures(line).is_empty(), "{line}: {:?}", figures(line));
    }
}

#[test]
fn comments_and_ranks_are_kept() {
    let found = scan("iter 10 memory_allocated= 352.50 MiB   # metric.update(preds)");
    assert_eq!(found.comment, Some("metric.update(preds)"));
    let found = scan("[rank 1] after gc max memory: 4000000, curr memory: 1000000");
    assert_eq!(found.rank, Some(1));
    let measures: Vec<Measure> = found.groups[0].figures.iter().map(|figure| figure.measure).collect();
    assert_eq!(measures, [Measure::MaxMemory, Measure::Memory]);
}

#[test]
fn letters_of_several_bytes_are_whole() {
    assert!(figures("é 1.13.1+cu117: 5511MiB").len() <= 1);
    assert_eq!(figures("étape step 3 mémoire mem 5 MiB"), [(Some(3), Measure::Memory, 5 << 20)]);
}
