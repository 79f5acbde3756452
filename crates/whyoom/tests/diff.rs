//! `whyoom diff` on small recordings.

mod support;

use serde_json::Value;
use support::{Scratch, run, snapshot};
use whyoom::Exit;

#[test]
fn two_recordings_are_compared() {
    let scratch = Scratch::new("diff");
    let (a, b) = (scratch.file("a.pickle", &snapshot(true)), scratch.file("b.pickle", &snapshot(false)));
    let ran = run(["diff".into(), a.clone().into_os_string(), b.clone().into_os_string()]);
    assert_eq!((ran.exit, ran.err.as_str()), (Exit::Fine, ""));
    assert!(ran.out.contains("A  a.pickle") && ran.out.contains("B  b.pickle"), "{}", ran.out);
    assert!(ran.out.contains("A ran out of memory, B did not"), "{}", ran.out);
    let ran = run(["diff".into(), "--json".into(), a.into_os_string(), b.into_os_string()]);
    let object: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!(object["schema"], "whyoom.diff/1");
    for field in ["peak", "categories", "stacks", "settings", "findings"] {
        assert!(!object["devices"][0][field].is_null(), "{field}");
    }
}

#[test]
fn half_of_a_comparison_is_none() {
    let scratch = Scratch::new("diff-half");
    let good = scratch.file("a.pickle", &snapshot(true));
    let bad = scratch.file("b.pickle", b"not a snapshot");
    let ran = run(["diff".into(), good.clone().into_os_string(), bad.into_os_string()]);
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Unreadable, ""));
    assert!(ran.err.contains("b.pickle"), "{}", ran.err);
    let ran = run(["diff".into(), good.into_os_string()]);
    assert_eq!(ran.exit, Exit::Usage);
}
