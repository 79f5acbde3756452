//! The settings page: every key, what it takes, and the releases that know it, from the table that the parser uses.

use std::fmt::Write as _;

use whyoom_allocator::Release;
use whyoom_allocator::settings::{KEYS, Target, ValueKind, variables};

use crate::Files;

/// Adds it.
pub(crate) fn add(files: &mut Files) {
    let mut page = String::from(
        "# Allocator settings\n\n\
         This page is generated from the table that `whyoom` parses settings with.\n\n\
         | key | takes | acts on | PyTorch |\n|---|---|---|---|\n",
    );
    for key in KEYS {
        let target = match key.target {
            Target::Device => "GPU memory",
            Target::PinnedHost => "pinned host memory",
        };
        let _ = writeln!(page, "| `{key}` | {} | {target} | {} |", takes(key.value), key.availability());
    }
    page.push_str("\n1.13 stands for 1.13 and earlier.\n\n## Variables\n\n| PyTorch | read, the first that is set wins |\n|---|---|\n");
    for (name, release) in [("up to 2.8", (2, 8)), ("2.9", (2, 9)), ("2.10 and later", (2, 10))] {
        let variables = variables(Release::new(release.0, release.1));
        let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", then ");
        let mut read = quoted(variables.read);
        if !variables.without_effect.is_empty() {
            let _ = write!(read, "; {} is known and has no effect", quoted(variables.without_effect));
        }
        let _ = writeln!(page, "| {name} | {read} |");
    }
    files.insert("docs/settings.md".into(), page.into_bytes());
}

fn takes(value: ValueKind) -> &'static str {
    match value {
        ValueKind::Mebibytes => "a whole number of MiB",
        ValueKind::Threshold => "a number between 0 and 1, both excluded",
        ValueKind::Fraction => "a number from 0 to 1",
        ValueKind::Boolean => "`True` or `False`",
        ValueKind::Divisions => "a power of two, or a list such as `[256:1,512:2,>:8]` (2.0 and later)",
        ValueKind::Backend => "`native` or `cudaMallocAsync`",
        ValueKind::Threads => "a power of two up to 128",
        ValueKind::Reserve => "a fraction of the card such as 0.5, or a size such as `40G`",
        ValueKind::ReserveByClass => "a list such as `[class:0.5]`",
    }
}
