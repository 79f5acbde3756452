//! Monitors beside nvidia-smi's tables and CSV.

use super::tests::{levels, mib, only, processes};
use super::*;
use crate::series::analyse;

#[test]
fn dmon_and_pmon() {
    let found = only(
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb   bar1
# Idx      W      C      C      %      %      %      %     MB     MB
    0     70     45      -     98     40      0      0   9842      5
    1      9     30      -      -      -      -      -      -      -
    0     71     45      -     97     40      0      0   9900      5
    1      9     30      -      0      0      0      0      3      5",
    );
    assert_eq!(
        (found.source, levels(&found)),
        (Source::SmiDmon, vec![(Some(0), Some(9900), None), (Some(1), Some(3), None)])
    );
    assert_eq!((found.devices[1].first.used, found.devices[1].unknown_samples), (None, 1));
    let found = only(
        "#Date       Time         gpu        pid   type     sm    mem    enc    dec     fb   command
#YYYYMMDD   HH:MM:SS     Idx          #    C/G      %      %      %      %     MB   name
 20250304   09:10:00       0      12345     C     98     40      -      -   9842   python train.py
 20250304   09:10:00       1          -     -      -      -      -      -      -   -",
    );
    assert_eq!(processes(&found), [(Some(0), Some(12345), Some("python train.py"), Some(9842))]);
}

#[test]
fn long_query() {
    let found = only(
        "==============NVSMI LOG==============

Timestamp                                 : Tue Mar  4 09:10:00 2025
Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 19968 MiB
            Reserved                      : 0 MiB
            Used                          : 37 MiB
            Free                          : 19930 MiB
        BAR1 Memory Usage
            Total                         : 32767 MiB
            Used                          : 0 MiB
    GPU UUID                              : GPU-1234
    FB Memory Usage
        Total                             : 40960 MiB
        Reserved                          : 571 MiB
        Used                              : 30000 MiB
        Free                              : 10388 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 5 MiB
        Free                              : 251 MiB
    Utilization
        Gpu                               : 37 %
        Memory                            : 12 %
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 4321
            Type                          : C
            Name                          : python
            Used GPU Memory               : 29990 MiB
        Process ID                        : 4322
            Type                          : C+G
            Name                          : x
            Used GPU Memory               : Not available in WDDM driver model",
    );
    assert_eq!(found.driver.as_deref(), Some("550.54.15"));
    let whole = found.devices.iter().find(|device| device.id.mig.is_none()).expect("the device");
    assert_eq!((mib(whole.last.used), mib(whole.last.reserved_by_driver)), (Some(30000), Some(571)));
    assert_eq!((whole.last.utilization, whole.is_divided), (Some(0.37), true));
    assert_eq!(whole.id.uuid.as_deref(), Some("GPU-1234"));
    let slice = found.devices.iter().find(|device| device.id.mig.is_some()).expect("the slice");
    assert_eq!((mib(slice.last.used), mib(slice.last.total)), (Some(37), Some(19968)));
    assert_eq!(
        processes(&found),
        [(None, Some(4321), Some("python"), Some(29990)), (None, Some(4322), Some("x"), None)]
    );
}

#[test]
fn gpustat_and_nvitop() {
    let found = only(
        "box  Tue Mar  4 09:10:00 2025  535.104.05
[0] NVIDIA GeForce RTX 3090 | 52°C,  30 % |  9842 / 24576 MB | ann:python/1234(9000M) bob(500M)
[1] NVIDIA GeForce RTX 3090 | 30'C,   0 %,  5 / 350 W |    ?? / 24576 MB |",
    );
    assert_eq!(levels(&found), [(Some(0), Some(9842), Some(24576)), (Some(1), None, Some(24576))]);
    assert_eq!(
        processes(&found),
        [(Some(0), Some(1234), Some("python"), Some(9000)), (Some(0), None, None, Some(500))]
    );
    assert_eq!(found.processes[1].user.as_deref(), Some("bob"));
    assert_eq!(found.devices[0].last.time.as_deref(), Some("Tue Mar  4 09:10:00 2025"));

    let found = only(
        "│   0  GeForce RTX 3090      Off  │ 00000000:01:00.0 Off │                  N/A │
│ 30%   52C    P2   105W / 350W │   9842MiB / 24.00GiB │     45%      Default │
│   0   12345 C     ann   9000MiB  45   30.1   1.2    1:02:03  python train.py │",
    );
    assert_eq!(levels(&found), [(Some(0), Some(9842), Some(24576))]);
    assert_eq!(found.processes[0].user.as_deref(), Some("ann"));
}

#[test]
fn prometheus_rocm_and_nvtop() {
    let found = only(
        r#"# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in MiB).
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} 30000
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} 20000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} 10384
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} NaN
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} 50
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n1"} 29000"#,
    );
    assert_eq!(found.devices.len(), 2);
    assert_eq!((found.devices[0].samples, mib(found.devices[0].first.used)), (2, Some(10384)));
    assert_eq!((found.devices[0].first.utilization, found.devices[1].last.used), (Some(0.5), None));

    let found =
        only("GPU[0]\t\t: VRAM Total Memory (B): 17163091968\nGPU[0]\t\t: VRAM Total Used Memory (B): 11186176");
    assert_eq!(found.source, Source::RocmSmi);
    assert_eq!(found.devices[0].last.used.map(|used| used.bytes), Some(11_186_176));

    let found = only(
        "[\n {\n  \"device_name\": \"NVIDIA RTX A4000\",\n  \"gpu_util\": \"12%\",\n  \"mem_util\": \"40%\",\n  \"mem_total\": \"17171480576\",\n  \"mem_used\": \"6868592230\"\n }\n]",
    );
    assert_eq!((found.source, found.devices[0].last.memory_share), (Source::Nvtop, Some(0.4)));
    assert_eq!(found.devices[0].last.used.map(|used| used.bytes), Some(6_868_592_230));
}

#[test]
fn exported_metrics() {
    let found = only(
        "\"Relative Time (Process)\",\"run - system/gpu.0.memoryAllocatedBytes\",\"run - system/gpu.process.0.memoryAllocatedBytes\"
15,1073741824,1000000000
30,2147483648,2000000000",
    );
    assert_eq!(found.devices[0].used.count, 2);
    assert_eq!(analyse(&found.devices[0].used).per_second.map(f64::round), Some(71_582_788.0));
    assert_eq!(found.processes[0].bytes.map(|bytes| bytes.bytes), Some(2_000_000_000));
    let found = only(
        r#"{"_timestamp": 1741079400.5, "_runtime": 15, "system.gpu.0.memoryAllocated": 43.2, "system.gpu.1.memoryAllocatedBytes": 5}
{"_timestamp": 1741079415.5, "system.gpu.0.memoryAllocated": 44.0}"#,
    );
    assert!(found.devices[0].last.share().is_some_and(|share| (share - 0.44).abs() < 1e-9));
    assert_eq!(found.devices[0].last.used, None);
}
