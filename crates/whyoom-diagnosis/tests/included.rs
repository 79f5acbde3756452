//! Verdicts on the recordings that come with the program.

mod labels;

use std::path::Path;

#[test]
fn every_label_of_the_included_recordings_is_met() {
    labels::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings"));
}
