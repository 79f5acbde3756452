use super::*;
use crate::Fact;
use crate::series::{Shape, analyse, imbalance, until};

const MIB: u64 = 1 << 20;

fn read(text: &str) -> Vec<Monitor> {
    let text = crate::read(text.as_bytes(), &crate::Limits::default()).expect("a slice can be read");
    let facts = text.readings.into_iter().filter_map(|reading| match reading.fact {
        Fact::Monitor(monitor) => Some(*monitor),
        _ => None,
    });
    facts.collect()
}

pub(super) fn only(text: &str) -> Monitor {
    let mut all = read(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

pub(super) fn mib(quantity: Option<Quantity>) -> Option<u64> {
    quantity.map(|quantity| quantity.bytes / MIB)
}

/// Index, used and total in MiB of the last sample of each device.
pub(super) fn levels(monitor: &Monitor) -> Vec<(Option<u32>, Option<u64>, Option<u64>)> {
    monitor.devices.iter().map(|device| (device.id.index, mib(device.last.used), mib(device.last.total))).collect()
}

/// Index, process id, name and MiB.
pub(super) type Row<'a> = (Option<u32>, Option<u64>, Option<&'a str>, Option<u64>);

pub(super) fn processes(monitor: &Monitor) -> Vec<Row<'_>> {
    let one = |process: &'_ Process| (process.device.index, process.pid, mib(process.bytes));
    monitor
        .processes
        .iter()
        .map(|process| (one(process).0, one(process).1, process.name.as_deref(), one(process).2))
        .collect()
}

#[test]
fn table_of_driver_418() {
    let found = only(
        "Tue Mar  4 09:10:00 2025       
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   45C    P8    10W /  70W |   1234MiB / 15079MiB |      7%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 1080    Off  | 00000000:0A:00.0  On |                  N/A |
| 27%   36C    P8     9W / 180W |    301MiB /  8118MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     12345      C   python                                      1223MiB |
|    1      1890      G   /usr/lib/xorg/Xorg                           120MiB |
+-----------------------------------------------------------------------------+",
    );
    assert_eq!(
        (found.source, found.driver.as_deref(), found.cuda.as_deref()),
        (Source::SmiTable, Some("418.67"), Some("10.1"))
    );
    assert_eq!(levels(&found), [(Some(0), Some(1234), Some(15079)), (Some(1), Some(301), Some(8118))]);
    assert_eq!(found.devices[0].name.as_deref(), Some("Tesla T4"));
    assert_eq!(found.devices[0].last.utilization, Some(0.07));
    assert_eq!(found.devices[0].last.seconds, Some(1_741_079_400.0));
    assert_eq!(
        processes(&found),
        [
            (Some(0), Some(12345), Some("python"), Some(1223)),
            (Some(1), Some(1890), Some("/usr/lib/xorg/Xorg"), Some(120))
        ]
    );
}

#[test]
fn table_of_driver_580_with_slices() {
    let found = only(
        "+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   31C    P0             48W /  400W |      87MiB /  40960MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:0B:00.0 Off |                    0 |
| N/A   31C    P0            118W /  700W |   70123MiB /  81559MiB |     99%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              37MiB / 19968MiB    | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    2   0   1  |           11000MiB / 19968MiB    | 42      0 |  3   0    2    0    0 |
|                  |               4MiB / 32767MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    2    0            54321      C   python3                               10980MiB |
|    1   N/A  N/A           54400    M+C   python train.py                       70100MiB |
+-----------------------------------------------------------------------------------------+",
    );
    assert_eq!(found.devices.len(), 4);
    assert!(found.devices[0].is_divided && !found.devices[1].is_divided);
    assert_eq!(mib(found.devices[1].last.used), Some(70123));
    let slice = &found.devices[3];
    assert_eq!((slice.id.index, slice.id.mig.and_then(|mig| mig.gpu_instance)), (Some(0), Some(2)));
    assert_eq!(mib(slice.last.used), Some(11000));
    assert_eq!(found.processes[0].device.mig.and_then(|mig| mig.gpu_instance), Some(2));
    assert_eq!(found.processes[1].kind.as_deref(), Some("M+C"));
}

#[test]
fn tables_that_repeat_are_samples() {
    let table = |time: &str, used: u32| {
        format!(
            "Tue Mar  4 09:{time}:00 2025
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|   0  NVIDIA L4                      Off | 00000000:00:03.0 Off |                    0 |
| N/A   43C    P0              27W /  72W |  {used:5}MiB / 23034MiB |      0%      Default |
|  No running processes found                                                           |\n"
        )
    };
    let found = only(&format!("{}{}{}", table("10", 1000), table("11", 1100), table("12", 1200)));
    assert_eq!((found.devices.len(), found.devices[0].samples), (1, 3));
    let per_second = analyse(&found.devices[0].used).per_second.expect("a pace");
    assert!((per_second * 60.0 - (100 * MIB) as f64).abs() < 1.0);
    assert!(found.processes.is_empty());
}

#[test]
fn smi_05_windows_processes_are_unknown() {
    let found = only(
        r"|    0   N/A  N/A     11384    C+G   ...\miniconda3\envs\t\python.exe    N/A      |
|    0   N/A  N/A      2044    C+G   C:\Windows\explorer.exe             N/A      |
|   0  NVIDIA GeForce RTX 3080    WDDM  | 00000000:01:00.0  On |                  N/A |
|  0%   43C    P8    18W / 320W |   9711MiB / 10240MiB |      3%      Default |",
    );
    assert_eq!(found.devices[0].driver_model.as_deref(), Some("WDDM"));
    assert_eq!(levels(&found), [(Some(0), Some(9711), Some(10240))]);
    assert!(found.devices[0].last.share().is_some_and(|share| (share - 0.948).abs() < 0.001));
    assert_eq!(found.processes.len(), 2);
    assert!(found.processes.iter().all(|process| process.bytes.is_none() && process.kind.as_deref() == Some("C+G")));
}

#[test]
fn place_01_contexts_on_a_foreign_card() {
    let found = only(
        "|    0   N/A  N/A     41001      C   python                                    18432MiB |
|    0   N/A  N/A     41002      C   python                                      474MiB |
|    0   N/A  N/A     41003      C   python                                      474MiB |
|    0   N/A  N/A     41004      C   python                                      474MiB |
|    1   N/A  N/A     41002      C   python                                    17010MiB |
|    2   N/A  N/A     41003      C   python                                    17010MiB |
|    3   N/A  N/A     41004      C   python                                    17010MiB |",
    );
    let foreign = foreign(&found.processes);
    assert_eq!((foreign.len(), foreign[0].device, foreign[0].bytes), (1, 0, 1422 * MIB));
    assert_eq!(foreign[0].bytes, (18432 - 17010) * MIB);
}

#[test]
fn proc_04_a_process_that_is_not_seen() {
    let all = read(
        "pid, process_name, used_gpu_memory [MiB]
3090117, [Not Found], 10132 MiB

[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10135 / 81920 MB | (null)",
    );
    let csv = all.iter().find(|one| one.source == Source::SmiCsv).expect("csv");
    assert_eq!(processes(csv), [(None, Some(3_090_117), None, Some(10132))]);
    let stat = all.iter().find(|one| one.source == Source::Gpustat).expect("gpustat");
    assert_eq!(levels(stat), [(Some(6), Some(10135), Some(81920))]);
    assert_eq!((stat.devices[0].last.utilization, stat.processes.len()), (Some(1.0), 0));
}

#[test]
fn smi_01_growth_per_minute_and_time_to_full() {
    let found = only(
        "timestamp, name, index, memory.used [MiB], memory.total [MiB], utilization.gpu [%]
2025/03/04 09:10:00.120, NVIDIA A10G, 0, 2210 MiB, 23028 MiB, 90 %
2025/03/04 09:11:00.121, NVIDIA A10G, 0, 2397 MiB, 23028 MiB, 91 %
2025/03/04 09:12:00.122, NVIDIA A10G, 0, 2584 MiB, 23028 MiB, 92 %
2025/03/04 09:13:00.123, NVIDIA A10G, 0, 2771 MiB, 23028 MiB, 93 %
2025/03/04 09:14:00.124, NVIDIA A10G, 0, 2958 MiB, 23028 MiB, 94 %
2025/03/04 09:15:00.125, NVIDIA A10G, 0, 3145 MiB, 23028 MiB, 95 %",
    );
    let device = &found.devices[0];
    let form = analyse(&device.used);
    assert!(matches!(form.shape, Shape::Growth { constant: Some(true), .. }), "{form:?}");
    let per_minute = form.per_second.expect("a pace") * 60.0 / MIB as f64;
    assert!((per_minute - 187.0).abs() < 0.01, "{per_minute}");
    let until = until(&device.used, &form, device.last.capacity().expect("a total")).expect("it grows");
    assert!(until.seconds.is_some_and(|seconds| (seconds / 60.0 - 106.3).abs() < 0.1));
    assert!(found.assumptions.is_empty() && found.absent.is_empty());
}

#[test]
fn smi_02_columns_are_inferred_and_it_is_said() {
    let found = only(
        "2025/03/04 09:10:00.120, 40960, 39011, 1423
2025/03/04 09:10:01.121, 40960, 39011, 1423
2025/03/04 09:10:02.122, 40960, [N/A], [N/A]",
    );
    let device = &found.devices[0];
    assert_eq!((mib(device.first.used), mib(device.first.free)), (Some(39011), Some(1423)));
    assert_eq!(mib(device.first.reserved_by_driver), Some(526));
    assert_eq!((device.samples, device.unknown_samples, device.last.used), (3, 1, None));
    assert_eq!(device.last_known.as_ref().map(|known| mib(known.used)), Some(Some(39011)));
    assert!(found.assumptions[0].contains("column 2 is read as memory.total"), "{:?}", found.assumptions);
}

#[test]
fn smi_07_a_missing_index_and_an_unsupported_column() {
    let found = only(
        "index, memory.used [MiB], memory.free [MiB], utilization.gpu [%]
0, 8559 MiB, 2430 MiB, [Not Supported]
1, 7384 MiB, 3605 MiB, [Not Supported]
3, 10712 MiB, 277 MiB, [Not Supported]",
    );
    assert_eq!(found.absent, [2]);
    assert!(found.devices.iter().all(|device| device.last.utilization.is_none() && device.last.total.is_none()));
    assert!(found.devices[2].last.share().is_some_and(|share| (share - 0.975).abs() < 0.0005));
    let levels: Vec<(u32, u64)> =
        found.devices.iter().filter_map(|device| Some((device.id.index?, device.last.used?.bytes))).collect();
    assert_eq!(imbalance(&levels).map(|found| (found.fullest.0, found.emptiest.0)), Some((3, 1)));
}

#[test]
fn exc_02_no_headings_but_units() {
    let found = only(
        "2026/08/19 10:02:11.004, 0, NVIDIA H20, 24158 MiB, 97871 MiB
2026/08/19 10:05:40.011, 0, NVIDIA H20, 26919 MiB, 97871 MiB
2026/08/19 10:09:12.007, 0, NVIDIA H20, 29670 MiB, 97871 MiB",
    );
    assert_eq!(levels(&found), [(Some(0), Some(29670), Some(97871))]);
    let points: Vec<u64> = found.devices[0].used.points().iter().map(|point| point.bytes / MIB).collect();
    assert_eq!([points[1] - points[0], points[2] - points[1]], [2761, 2751]);
    assert!(!found.assumptions.is_empty());
}

#[test]
fn csv_in_other_columns() {
    let found = only("name, pci.bus_id, driver_version, memory.total [MiB], memory.reserved [MiB], memory.used [MiB], memory.free [MiB], pstate
Tesla V100-SXM2-16GB, 00000000:00:1E.0, 525.85.12, 16384, 223, 8000, 8160, P0");
    assert_eq!(found.driver.as_deref(), Some("525.85.12"));
    let last = &found.devices[0].last;
    assert_eq!((mib(last.used), mib(last.free), mib(last.reserved_by_driver)), (Some(8000), Some(8160), Some(223)));

    let found = only(
        "gpu_uuid, pid, process_name, used_memory [MiB]\nGPU-5c, 12, python a,b.py, 300 MiB\nGPU-5c, 13, python, [N/A]",
    );
    assert_eq!(
        processes(&found),
        [(None, Some(12), Some("python a,b.py"), Some(300)), (None, Some(13), Some("python"), None)]
    );

    let found = only("memory.used [MiB]\n8559 MiB\n8600 MiB");
    assert_eq!((found.devices.len(), found.devices[0].samples), (1, 2));
}

#[test]
fn csv_without_headings() {
    let found = only("0, 8559 MiB, 24576 MiB, 12 %\n1, 300 MiB, 24576 MiB, 0 %");
    assert_eq!(levels(&found), [(Some(0), Some(8559), Some(24576)), (Some(1), Some(300), Some(24576))]);
    assert_eq!(found.devices[0].last.utilization, Some(0.12));
    let found = only("0, 24576, 8559, 15600\n1, 24576, 300, 23860");
    assert_eq!(levels(&found)[1], (Some(1), Some(300), Some(24576)));
    let found = only("3090117, python, 10132 MiB");
    assert_eq!(processes(&found), [(None, Some(3_090_117), Some("python"), Some(10132))]);
}

#[test]
fn numbers_of_others_are_not_read() {
    for text in [
        "step, allocated, reserved\n0, 1000, 2000\n1, 1100, 2000",
        "1, 2, 3",
        "a, b\n1, 2",
        "loss, 0.5, 1e-3",
        "[1, 2]",
    ] {
        assert_eq!(read(text), [], "{text}");
    }
}
