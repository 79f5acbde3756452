//! PyTorch's own tables: memory_summary(), memory_stats(), memory_snapshot().

mod snapshot_list;
mod stats;
mod summary;
mod tokens;

pub use snapshot_list::{DeviceSegments, SnapshotList};
pub use stats::Stats;
pub use summary::{Cell, Metric, Pool, Row, Summary};

use crate::Recogniser;

/// The recognisers of this family.
pub fn recognisers() -> Vec<Box<dyn Recogniser>> {
    vec![
        Box::new(summary::SummaryTable::default()),
        Box::new(stats::StatsMapping::default()),
        Box::new(snapshot_list::SegmentList::default()),
    ]
}
