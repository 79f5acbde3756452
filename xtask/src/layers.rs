//! Which crate may depend on which: the picture of `ARCHITECTURE.md` as a table.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// Every crate of the workspace, and the crates of the workspace that it may depend on. Dependencies point left:
///
/// ```text
/// pickle -> snapshot ---+
///                       +-> replay -> diagnosis -> report -> whyoom
/// settings, allocator --+              |
/// text --------------------------------+
/// ```
const PICTURE: &[(&str, &[&str])] = &[
    ("whyoom-pickle", &[]),
    ("whyoom-snapshot", &["whyoom-pickle"]),
    ("whyoom-allocator", &[]),
    ("whyoom-replay", &["whyoom-snapshot", "whyoom-allocator"]),
    ("whyoom-text", &[]),
    ("whyoom-diagnosis", &["whyoom-snapshot", "whyoom-allocator", "whyoom-replay", "whyoom-text"]),
    ("whyoom-report", &["whyoom-diagnosis"]),
    (
        "whyoom",
        &["whyoom-text", "whyoom-snapshot", "whyoom-allocator", "whyoom-replay", "whyoom-diagnosis", "whyoom-report"],
    ),
    // Chores, outside of the flow.
    ("xtask", &[]),
    ("xtask-generate", &["whyoom", "whyoom-allocator"]),
];

/// Dependencies of the terminal, and the only crates that may have them.
const TERMINAL: &[&str] = &["clap", "indicatif", "anstream"];
const TERMINAL_CRATES: &[&str] = &["whyoom", "xtask-generate"];

/// Prints every dependency that the picture does not have; whether there is none.
pub(crate) fn run() -> Result<bool> {
    let mut command = shell::cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    println!("\n==> {} (dependencies against the picture)", shell::line(&command));
    let output = command.output().context("cannot start cargo metadata")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let found = violations(&metadata);
    for violation in &found {
        println!("{violation}");
    }
    if found.is_empty() {
        println!("{} crates keep to the picture", PICTURE.len());
    }
    Ok(found.is_empty())
}

/// What `cargo metadata --no-deps` has and the picture has not.
fn violations(metadata: &Value) -> Vec<String> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let members: Vec<String> = packages.iter().map(name).collect();
    let mut found = Vec::new();
    for package in packages {
        let from = name(package);
        let Some((_, allowed)) = PICTURE.iter().find(|(crate_name, _)| *crate_name == from) else {
            found.push(format!("{from} is not in the picture: add it to xtask/src/layers.rs and ARCHITECTURE.md"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let to = name(dependency);
            let is_for_tests = dependency["kind"] == "dev";
            if members.contains(&to) {
                // Tests may look further down the same flow, never up.
                let is_allowed = allowed.contains(&to.as_str()) || (is_for_tests && reaches(&from, &to));
                if !is_allowed {
                    found.push(format!("{from} -> {to} is not in the picture"));
                }
            } else if TERMINAL.contains(&to.as_str()) && !is_for_tests && !TERMINAL_CRATES.contains(&from.as_str()) {
                found.push(format!("{from} -> {to}: only {} talk to a terminal", TERMINAL_CRATES.join(", ")));
            }
        }
    }
    found
}

/// Whether the picture leads from one crate to another over any number of edges.
fn reaches(from: &str, to: &str) -> bool {
    let next = PICTURE.iter().find(|(name, _)| *name == from).map_or(&[] as &[&str], |(_, next)| next);
    next.iter().any(|name| *name == to || reaches(name, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata(from: &str, to: &str, kind: &Value) -> Value {
        json!({ "packages": [
            { "name": from, "dependencies": [{ "name": to, "kind": kind }] },
            { "name": to, "dependencies": [] },
        ] })
    }

    #[test]
    fn an_edge_of_the_picture_is_fine() {
        assert!(violations(&metadata("whyoom-replay", "whyoom-allocator", &Value::Null)).is_empty());
    }

    #[test]
    fn an_edge_against_the_flow_is_named() {
        let found = violations(&metadata("whyoom-snapshot", "whyoom-replay", &Value::Null));
        assert_eq!(found, ["whyoom-snapshot -> whyoom-replay is not in the picture"]);
        assert_eq!(violations(&metadata("whyoom-pickle", "whyoom-report", &json!("dev"))).len(), 1);
    }

    #[test]
    fn tests_may_look_further_down() {
        assert_eq!(violations(&metadata("whyoom-report", "whyoom-pickle", &Value::Null)).len(), 1);
        assert!(violations(&metadata("whyoom-report", "whyoom-pickle", &json!("dev"))).is_empty());
    }

    #[test]
    fn a_crate_outside_of_the_picture_is_named() {
        let found = violations(&json!({ "packages": [{ "name": "whyoom-telepathy", "dependencies": [] }] }));
        assert!(found[0].starts_with("whyoom-telepathy is not in the picture"));
    }

    #[test]
    fn libraries_do_not_talk_to_terminals() {
        let package = json!({ "name": "whyoom-replay", "dependencies": [{ "name": "clap", "kind": null }] });
        assert_eq!(violations(&json!({ "packages": [package] })).len(), 1);
    }
}
