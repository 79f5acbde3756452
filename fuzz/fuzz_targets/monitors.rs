//! Any text as what monitors and training loops print, and any bytes as a trace: no panic, and series that add up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyoom_text::profilers::read_kineto;
use whyoom_text::series::{Series, analyse, compare};
use whyoom_text::{Fact, Limits, read_with};

fn check(series: &Series) {
    let form = analyse(series);
    assert_eq!(form.points, series.count);
    assert!([form.per_step, form.per_second, form.per_sample].iter().flatten().all(|pace| pace.is_finite()));
    let _ = compare(series, series);
}

fuzz_target!(|bytes: &[u8]| {
    let _ = read_kineto(bytes);
    let mut recognisers = whyoom_text::monitors::recognisers();
    recognisers.push(whyoom_text::steps::recognisers().1);
    let text = read_with(bytes, &Limits::default(), &mut recognisers).expect("a slice can be read");
    for reading in &text.readings {
        match &reading.fact {
            Fact::Monitor(monitor) => {
                monitor.devices.iter().for_each(|device| check(&device.used));
                monitor.processes.iter().for_each(|process| check(&process.used));
            }
            Fact::StepLog(log) => log.series.iter().for_each(|one| check(&one.figures)),
            _ => {}
        }
    }
});
