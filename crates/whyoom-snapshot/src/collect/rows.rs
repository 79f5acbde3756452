//! Rows as they are read, before it is known where they belong.

use std::ops::Range;

use crate::{BlockState, PoolRef, StackId, StrId, StreamId};

/// A segment.
#[derive(Debug, Clone)]
pub(crate) struct RawSegment {
    pub(crate) device: u32,
    pub(crate) address: u64,
    pub(crate) total_size: Option<u64>,
    pub(crate) allocated_size: Option<u64>,
    pub(crate) active_size: Option<u64>,
    pub(crate) stream: StreamId,
    pub(crate) is_small: bool,
    pub(crate) pool: PoolRef,
    pub(crate) is_expandable: bool,
    pub(crate) stack: Option<StackId>,
    /// Place of the list of its blocks, if it has any.
    pub(crate) blocks: Option<u32>,
}

/// A block.
#[derive(Debug, Clone)]
pub(crate) struct RawBlock {
    pub(crate) address: Option<u64>,
    pub(crate) size: u64,
    pub(crate) requested_size: Option<u64>,
    pub(crate) state: BlockState,
    pub(crate) stack: Option<StackId>,
}

/// An `external_annotations` mark.
#[derive(Debug, Clone)]
pub(crate) struct RawAnnotation {
    pub(crate) name: StrId,
    pub(crate) is_start: bool,
    pub(crate) device: u32,
    pub(crate) time_us: i64,
}

/// An entry of a block's `history`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawHistory {
    pub(crate) real_size: Option<u64>,
    pub(crate) stack: Option<StackId>,
}

/// A list of rows of one kind, as ranges of their table. Rows close in the order in which the file lists them, so
/// this is one range but for lists that repeat a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowList {
    first: Range<u32>,
    more: Vec<Range<u32>>,
    len: usize,
}

impl RowList {
    /// Adds one row at the end.
    #[inline]
    pub(crate) fn push(&mut self, row: u32) {
        self.len += 1;
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.end == row && last.start < row {
            last.end += 1;
        } else if last.start == last.end {
            *last = row..row + 1;
        } else {
            self.more.push(row..row + 1);
        }
    }

    /// The ranges, in list order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        std::iter::once(&self.first).chain(&self.more).filter(|r| r.start < r.end).cloned()
    }

    /// The rows, in list order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flatten()
    }

    /// The first rows, `most` at the most.
    pub(crate) fn up_to(&self, most: usize) -> Self {
        if self.len <= most {
            return self.clone();
        }
        let mut kept = Self::default();
        for row in self.rows().take(most) {
            kept.push(row);
        }
        kept
    }

    /// Number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}
