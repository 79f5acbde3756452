//! Everything that can be read from text.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::Place;
use crate::messages::{Advice, Clue, Foreign, OomMessage, Retry, SettingsLine};
use crate::monitors::Monitor;
use crate::profilers::ProfilerTrace;
use crate::steps::StepLog;
use crate::tables::{SnapshotList, Stats, Summary};

/// A fact and where it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// First line of it.
    pub place: Place,
    /// The rank that a prefix or the text names.
    pub rank: Option<u32>,
    /// How often the text says it: messages are repeated by chained exceptions, launchers and summaries.
    pub occurrences: u64,
    /// What was read.
    #[serde(flatten)]
    pub fact: Fact,
}

impl Reading {
    /// Takes up a reading that says the same again.
    pub(crate) fn merge(&mut self, again: Self) {
        self.occurrences += again.occurrences;
        self.rank = self.rank.or(again.rank);
        if let (Fact::Oom(ours), Fact::Oom(theirs)) = (&mut self.fact, again.fact) {
            ours.merge(*theirs);
        }
    }
}

/// One fact. Each family has its own type, in its own module.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {
    /// A framework's allocator says that memory ran out.
    #[serde(rename = "oom_message")]
    Oom(Box<OomMessage>),
    /// PyTorch 2.13's warning of a driver call that failed and is tried again: no failure in itself.
    Retry(Retry),
    /// Memory ran out, and something else than PyTorch's GPU allocator says so.
    Foreign(Box<Foreign>),
    /// A message that is no OOM and bears on one.
    Advice(Advice),
    /// A sign of what the program does.
    Clue(Clue),
    /// Allocator settings named in the text.
    Settings(SettingsLine),
    /// A `memory_summary()` table.
    #[serde(rename = "memory_summary")]
    Summary(Box<Summary>),
    /// The mapping that `memory_stats()` returns.
    #[serde(rename = "memory_stats")]
    Stats(Box<Stats>),
    /// The list that `memory_snapshot()` returns, summed up.
    #[serde(rename = "memory_snapshot")]
    SnapshotList(Box<SnapshotList>),
    /// Memory in a profiler's trace.
    ProfilerTrace(Box<ProfilerTrace>),
    /// What a monitor of devices printed: nvidia-smi and its like; the source is in it.
    #[serde(rename = "nvidia_smi")]
    Monitor(Box<Monitor>),
    /// Memory figures that a program printed as it went.
    StepLog(Box<StepLog>),
}

impl Fact {
    /// A number that is the same for what says the same thing of one rank; `None` for facts that are never merged,
    /// such as samples of a series.
    pub(crate) fn sameness(&self, rank: Option<u32>) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        rank.hash(&mut hasher);
        std::mem::discriminant(self).hash(&mut hasher);
        match self {
            Self::Oom(message) => message.hash_identity(&mut hasher),
            Self::Retry(retry) => retry.hash(&mut hasher),
            Self::Foreign(foreign) => foreign.hash_identity(&mut hasher),
            Self::Advice(advice) => advice.hash(&mut hasher),
            Self::Settings(settings) => settings.hash(&mut hasher),
            _ => return None,
        }
        Some(hasher.finish())
    }
}
