//! `torch.cuda.memory_stats()` as text: a dict's repr, an OrderedDict's, pprint, JSON, a line for each key.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use crate::{Fact, Found, Line, Place, Recogniser};

/// The mapping that `memory_stats()` returns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// PyTorch's own flat keys, such as `allocated_bytes.all.current`; bytes or counts.
    pub values: BTreeMap<String, i64>,
    /// Keys that every release has are missing.
    pub is_cut: bool,
}

impl Stats {
    /// A value by its flat key.
    pub fn get(&self, key: &str) -> Option<i64> {
        self.values.get(key).copied()
    }
}

static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"["']?\b((?:allocation|segment|active|inactive_split|allocated_bytes|reserved_bytes|active_bytes|inactive_split_bytes|requested_bytes)\.(?:all|small_pool|large_pool)\.(?:current|peak|allocated|freed)|oversize_(?:allocations|segments)\.(?:current|peak|allocated|freed)|reserved_bytes_by_private_pools\.[\w.]{1,80}|num_alloc_retries|num_ooms|num_oom_rejections|max_split_size|num_sync_all_streams|num_device_(?:alloc|free))["']?\s*[:,=]\s*(-?[0-9]+)"#,
    )
    .unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))
});

/// Keys of all releases, of which a mapping that is whole has these.
const ALWAYS: [&str; 3] = ["allocated_bytes.all.current", "reserved_bytes.all.peak", "num_ooms"];
/// Pools of a long run; more keys than this are none.
const KEYS: usize = 4096;

/// Finds the mappings.
#[derive(Debug, Default)]
pub(super) struct StatsMapping {
    open: Option<(Place, Option<u32>, BTreeMap<String, i64>)>,
}

impl Recogniser for StatsMapping {
    fn needles(&self) -> &'static [&'static str] {
        &[".all.", ".small_pool.", ".large_pool.", "num_alloc_retries"]
    }

    fn is_inside(&self) -> bool {
        self.open.is_some()
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        let mut any = false;
        for pair in PAIR.captures_iter(line.text) {
            let Ok(value) = pair[2].parse() else { continue };
            any = true;
            // A key again, or another rank: another mapping.
            if self.open.as_ref().is_some_and(|o| o.2.contains_key(&pair[1]) || o.1 != line.rank) {
                self.end(found);
            }
            let open = self.open.get_or_insert_with(|| (line.place, line.rank, BTreeMap::new()));
            if open.2.len() < KEYS {
                open.2.insert(pair[1].to_owned(), value);
            }
        }
        if !any {
            self.end(found);
        }
        any
    }

    fn end(&mut self, found: &mut Found) {
        if let Some((place, rank, values)) = self.open.take() {
            // One or two keys are a program's own line, and no mapping.
            if values.len() > 2 {
                let is_cut = ALWAYS.iter().any(|key| !values.contains_key(*key));
                found.add(place, rank, Fact::Stats(Box::new(Stats { values, is_cut })));
            }
        }
    }
}
