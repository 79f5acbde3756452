//! Prints how long each stage takes on one snapshot: `cargo run --release --example timings -- FILE`.
#![allow(clippy::print_stdout)]

use std::time::Instant;
use whyoom_allocator::{Model, Release, settings};
use whyoom_replay::{LimitKind, Placement, RecordedOptions, Scenario, Start, Trace, Until, replay_recorded, simulate};
use whyoom_snapshot::{ReadOptions, read_path};

fn main() {
    let Some(path) = std::env::args_os().nth(1) else {
        println!("usage: timings FILE");
        return;
    };
    let clock = Instant::now();
    let snapshot = match read_path(path.as_ref(), &ReadOptions::default()) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            println!("{error}");
            return;
        }
    };
    let seconds = clock.elapsed().as_secs_f64();
    println!("read      {seconds:.3} s  {:.0} MB/s", snapshot.input_bytes as f64 / 1e6 / seconds);
    for device in &snapshot.devices {
        let events = device.events.len() as f64 / 1e6;
        let clock = Instant::now();
        let trace = Trace::new(&snapshot, device);
        println!(
            "resolve   {:.3} s  {:.1} M events/s",
            clock.elapsed().as_secs_f64(),
            events / clock.elapsed().as_secs_f64()
        );
        let conf = snapshot.settings.as_ref().and_then(|s| s.conf.clone()).unwrap_or_default();
        let in_force = settings::parse(&conf, Release::DEFAULT).unwrap_or_default().settings;
        let clock = Instant::now();
        let recorded = replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &in_force });
        println!(
            "replay    {:.3} s  {:.1} M events/s  {}/{} events",
            clock.elapsed().as_secs_f64(),
            events / clock.elapsed().as_secs_f64(),
            recorded.matched,
            recorded.events
        );
        for text in ["", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:8"] {
            let Ok(parsed) = settings::parse(text, Release::DEFAULT) else { continue };
            let clock = Instant::now();
            let outcome = simulate(
                &recorded.program,
                &Scenario {
                    model: Model::default(),
                    settings: &parsed.settings,
                    limit: None,
                    limit_kind: LimitKind::Fraction,
                    start: Start::Cold,
                    placement: Placement::USUAL,
                    until: Until::FirstFailure,
                },
            );
            println!(
                "simulate  {:.3} s  {:.1} M events/s  {text:?} peak {:.3} GiB",
                clock.elapsed().as_secs_f64(),
                events / clock.elapsed().as_secs_f64(),
                outcome.stats.reserved.peak as f64 / f64::from(1 << 30)
            );
        }
    }
}
