//! Reads each file a few times and prints the rate by CPU time of this process, and its peak memory (Linux).
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fs;
use std::time::Instant;

use whyoom_snapshot::{ReadOptions, read_path};

/// User and system CPU time of this process in seconds.
fn cpu_seconds() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    (ticks(11), ticks(12))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        for _ in 0..5 {
            let ((user, system), start) = (cpu_seconds(), Instant::now());
            let snapshot = read_path(path.as_ref(), &ReadOptions::default())?;
            let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds());
            let (user, system) = (cpu.0 - user, cpu.1 - system);
            let events: usize = snapshot.devices.iter().map(|d| d.events.len()).sum();
            let rate = snapshot.input_bytes as f64 / 1e6 / (user + system);
            println!(
                "{events} events, wall {wall:.3} s, user {user:.2} s, system {system:.2} s: {rate:.0} MB/s of CPU time"
            );
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("Rss")).for_each(|l| println!("{l}"));
    Ok(())
}
