//! A text, and what it is called.

use whyoom_text::messages::Releases;
use whyoom_text::{Fact, Reading, Text};

use crate::InputMeta;
use crate::explanation::{Input, Torch};

/// A text that was read, with what is known of it besides.
#[derive(Debug)]
pub struct TextInput {
    /// Name and size.
    pub meta: InputMeta,
    /// The facts in it.
    pub text: Text,
    /// The text itself where it is short (64 KiB at most): a settings string stands alone in it and has no mark of
    /// its own.
    pub short: Option<String>,
    /// Why it ends early, in the words of its decoder.
    pub damage: Option<String>,
}

impl TextInput {
    /// The entry in the list of inputs.
    pub(super) fn describe(&self) -> Input {
        Input {
            path: self.meta.path.clone(),
            kind: self.kind(),
            size_bytes: self.meta.size_bytes,
            torch: torch(&self.text.readings),
            error: None,
        }
    }

    /// The kind of its most telling fact.
    fn kind(&self) -> &'static str {
        let facts = || self.text.readings.iter().map(|reading| &reading.fact);
        facts().min_by_key(|fact| weight(fact)).map_or("settings", |fact| match fact {
            Fact::Oom(_) | Fact::Foreign(_) | Fact::Retry(_) | Fact::Advice(_) | Fact::Clue(_) => "oom_message",
            fact => kind(fact),
        })
    }
}

fn weight(fact: &Fact) -> u8 {
    match fact {
        Fact::Oom(_) => 0,
        Fact::Summary(_) => 1,
        Fact::ProfilerTrace(_) => 2,
        Fact::Foreign(_) => 3,
        Fact::Stats(_) => 4,
        Fact::SnapshotList(_) => 5,
        Fact::Monitor(_) => 6,
        Fact::StepLog(_) => 7,
        Fact::Settings(_) => 8,
        _ => 9,
    }
}

/// Name of a fact's kind in the contract.
pub(super) fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Oom(_) => "oom_message",
        Fact::Retry(_) => "retry_warning",
        Fact::Foreign(_) => "other_failure",
        Fact::Advice(_) => "notice",
        Fact::Clue(_) => "clue",
        Fact::Settings(_) => "settings",
        Fact::Summary(_) => "memory_summary",
        Fact::Stats(_) => "memory_stats",
        Fact::SnapshotList(_) => "memory_snapshot",
        Fact::ProfilerTrace(_) => "profiler_trace",
        Fact::Monitor(_) => "nvidia_smi",
        Fact::StepLog(_) => "step_log",
        _ => "other",
    }
}

/// The releases that print all the forms in a text.
pub(super) fn releases(readings: &[Reading]) -> Releases {
    let each = readings.iter().filter_map(|reading| match &reading.fact {
        Fact::Oom(message) => Some(message.releases),
        Fact::Summary(summary) => Some(summary.releases),
        Fact::Retry(_) => Some(Releases::from(2, 13)),
        _ => None,
    });
    each.fold(Releases::ANY, Releases::and)
}

fn torch(readings: &[Reading]) -> Option<Torch> {
    let releases = releases(readings);
    if releases == Releases::ANY {
        return None;
    }
    let text = |release: whyoom_text::messages::Release| format!("{}.{}", release.major, release.minor);
    Some(Torch {
        at_least: releases.at_least.map(text),
        below: releases.below.map(text),
        because: "of the words of its messages and tables".to_owned(),
    })
}
