//! Prints checksums over a snapshot's tables, one line a file, to compare with another reader.
//!
//! `fixtures/dialects/facts.py` prints the same from Python's unpickler.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fmt::Write;

use whyoom_snapshot::{BlockState, ReadOptions, Snapshot, StackId, read_path};

fn mix(sum: &mut u64, value: u64) {
    *sum = (*sum ^ value).wrapping_mul(0x0000_0100_0000_01B3);
}

fn mix_text(sum: &mut u64, text: &str) {
    for byte in text.bytes() {
        mix(sum, u64::from(byte));
    }
}

fn mix_stack(sum: &mut u64, snapshot: &Snapshot, stack: Option<StackId>) {
    let Some(stack) = stack else { return mix(sum, 7) };
    mix(sum, 8);
    for (_, frame) in snapshot.stacks.frames(stack) {
        mix_text(sum, snapshot.strings.get(frame.function));
        mix_text(sum, snapshot.strings.get(frame.file));
        mix(sum, u64::from(frame.line));
    }
}

fn facts(snapshot: &Snapshot) -> String {
    let mut line = String::new();
    for device in &snapshot.devices {
        let mut sum = 0xCBF2_9CE4_8422_2325;
        let events = &device.events;
        for i in 0..events.len() {
            mix(&mut sum, events.action[i] as u64);
            mix(&mut sum, events.addr[i]);
            mix(&mut sum, events.size[i]);
            mix(&mut sum, snapshot.streams[usize::from(events.stream[i].0)]);
            mix(&mut sum, events.time_of(i).unwrap_or(0) as u64);
            mix_stack(&mut sum, snapshot, events.stack_of(i));
        }
        let mut segments = 0xCBF2_9CE4_8422_2325;
        for segment in &device.segments {
            mix(&mut segments, segment.address);
            mix(&mut segments, segment.total_size);
            mix(&mut segments, snapshot.streams[usize::from(segment.stream.0)]);
            mix(&mut segments, u64::from(segment.is_small));
            mix(&mut segments, u64::from(segment.is_expandable));
            let pool = segment.pool.index().map_or((9, 9), |p| snapshot.pools[p]);
            mix(&mut segments, pool.0);
            mix(&mut segments, pool.1);
            for block in &device.blocks[segment.blocks.start as usize..segment.blocks.end as usize] {
                mix(&mut segments, block.address);
                mix(&mut segments, block.size);
                mix(&mut segments, block.requested_size.unwrap_or(1));
                mix(&mut segments, block.state as u64);
                if block.state != BlockState::Free {
                    mix_stack(&mut segments, snapshot, block.stack);
                }
            }
        }
        let _ = write!(line, " device {} events {} {sum:016x}", device.index, events.len());
        let _ = write!(line, " segments {} blocks {} {segments:016x}", device.segments.len(), device.blocks.len());
    }
    let mut marks = 0xCBF2_9CE4_8422_2325;
    for a in &snapshot.annotations {
        mix_text(&mut marks, snapshot.strings.get(a.name));
        mix(&mut marks, u64::from(a.is_start));
        mix(&mut marks, a.time_us as u64);
    }
    let _ = write!(line, " annotations {} {marks:016x}", snapshot.annotations.len());
    line
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let snapshot = read_path(path.as_ref(), &ReadOptions::default())?;
        let name = path.rsplit('/').next().unwrap_or_default();
        println!("{name}{}", facts(&snapshot));
        if std::env::var_os("VERBOSE").is_some() {
            println!("  {:?} {:?}", snapshot.torch, snapshot.settings);
            for (code, warning) in snapshot.warnings.iter() {
                println!("  {code} ×{}: {}", warning.count, warning.message);
            }
        }
    }
    Ok(())
}
