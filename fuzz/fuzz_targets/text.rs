//! Any bytes as a text: read to the end, within the limits, and every reading stands inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyoom_text::{Limits, read, sniff_likelihood};

fuzz_target!(|data: &[u8]| {
    assert!((0.0..=1.0).contains(&sniff_likelihood(data)));
    let limits = Limits { line_bytes: 4096, readings: 64 };
    let text = read(data, &limits).expect("memory can be read");
    assert_eq!(text.bytes, data.len() as u64);
    assert!(text.readings.len() <= limits.readings);
    for reading in &text.readings {
        assert!(reading.place.offset <= text.bytes && reading.place.line >= 1 && reading.place.line <= text.lines + 1);
        assert!(reading.occurrences >= 1);
    }
});
