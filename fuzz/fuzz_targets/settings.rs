//! Any settings string, at every release: no panic, and what is accepted survives its canonical form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyoom_allocator::Release;
use whyoom_allocator::settings::{canonical, parse};

fuzz_target!(|text: &str| {
    let releases = std::iter::once(Release::new(1, 13)).chain((0..=16).map(|minor| Release::new(2, minor)));
    for release in releases {
        let Ok(parsed) = parse(text, release) else { continue };
        let written = canonical(&parsed.settings, release).expect("accepted settings can be written");
        let again = parse(&written, release).expect("a canonical string is accepted");
        assert_eq!(again.settings, parsed.settings, "{text:?} -> {written:?} at {release}");
    }
});
