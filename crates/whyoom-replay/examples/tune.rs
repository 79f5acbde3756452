//! Prints what a search of the settings comes to: `tune FILE [LIMIT_BYTES] [MOST]`.
#![allow(clippy::print_stdout)]
use whyoom_allocator::{Model, Release, settings};
use whyoom_replay::{LimitKind, RecordedOptions, Start, Trace, TuneQuestion, Until, replay_recorded, tune};
use whyoom_snapshot::{ReadOptions, read_path};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let snapshot = read_path(std::path::Path::new(&args[1]), &ReadOptions::default()).expect("readable");
    let trace = Trace::new(&snapshot, &snapshot.devices[0]);
    let conf = snapshot.settings.as_ref().and_then(|s| s.conf.clone()).unwrap_or_default();
    let own = settings::parse(&conf, Release::DEFAULT).expect("valid").settings;
    let recorded = replay_recorded(&trace, RecordedOptions { model: Model::default(), settings: &own });
    let limit = args.get(2).and_then(|l| l.parse().ok());
    let now = std::time::Instant::now();
    let tuned = tune(&TuneQuestion {
        program: &recorded.program,
        model: Model::default(),
        reference: own,
        limit,
        limit_kind: LimitKind::Fraction,
        collects: limit.is_some(),
        start: Start::Cold,
        until: Until::FirstFailure,
        oldest: Release::DEFAULT,
        most: args.get(3).and_then(|l| l.parse().ok()).unwrap_or(240),
    });
    println!(
        "{} tried, {} given up, {} failed in {:.2?}, {} ops",
        tuned.tried,
        tuned.given_up,
        tuned.failed,
        now.elapsed(),
        recorded.program.ops.len()
    );
    let gib = |b: u64| b as f64 / (1u64 << 30) as f64;
    for (i, c) in tuned.pareto.iter().chain([&tuned.default, &tuned.reference]).enumerate() {
        println!(
            "{} {:.3} calls {} retries {} fail {:?} {}",
            if Some(i) == tuned.best { "*" } else { " " },
            gib(c.peak_reserved()),
            c.price().driver_calls,
            c.price().retries,
            c.tried.outcome.first_failure.map(|f| f.malloc),
            c.text
        );
    }
}
