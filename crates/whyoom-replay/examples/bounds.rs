//! Prints from how many bytes a recording passes: `bounds FILE [SETTINGS]`.
#![allow(clippy::print_stdout)]
use whyoom_allocator::{Model, Release, settings};
use whyoom_replay::{LimitKind, Members, RecordedOptions, Start, Trace, Trial, Until, replay_recorded, smallest_limit};
use whyoom_snapshot::{ReadOptions, read_path};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let snapshot = read_path(std::path::Path::new(&args[1]), &ReadOptions::default()).expect("readable");
    let trace = Trace::new(&snapshot, &snapshot.devices[0]);
    let conf = snapshot.settings.as_ref().and_then(|s| s.conf.clone()).unwrap_or_default();
    let own = settings::parse(&conf, Release::DEFAULT).expect("valid").settings;
    let recorded = replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &own });
    let other = settings::parse(args.get(2).map_or("", |s| s), Release::DEFAULT).expect("valid").settings;
    let now = std::time::Instant::now();
    let trial = Trial {
        program: &recorded.program,
        model: Model::default(),
        settings: other,
        limit: None,
        limit_kind: LimitKind::Fraction,
        start: Start::Cold,
        until: Until::FirstFailure,
    };
    let f = smallest_limit(&trial, Members::All).expect("passes");
    let gib = |b: u64| b as f64 / (1u64 << 30) as f64;
    println!(
        "fits from {:.3} reliable {:.3} peak {:.3} limits {} in {:.2?}; live peak {:.3}",
        gib(f.bytes),
        gib(f.reliable_bytes),
        gib(f.peak_reserved),
        f.limits_tried,
        now.elapsed(),
        gib(recorded.stats.active.peak)
    );
}
