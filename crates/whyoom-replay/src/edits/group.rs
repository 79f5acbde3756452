//! A group of allocations that an edit concerns.

use crate::{Op, Program};

/// Allocations of a program, and requests that failed when recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    allocations: Vec<bool>,
    failed: Vec<bool>,
}

impl Group {
    /// The allocations that `has_allocation` names by number and the failed requests that `has_failed` names by
    /// their index in [`Program::failed`].
    pub fn of(program: &Program, has_allocation: impl Fn(u32) -> bool, has_failed: impl Fn(u32) -> bool) -> Self {
        Self {
            allocations: (0..program.requests.len() as u32).map(has_allocation).collect(),
            failed: (0..program.failed.len() as u32).map(has_failed).collect(),
        }
    }

    /// The allocations with the numbers `ids`, and no failed request.
    pub fn of_allocations(program: &Program, ids: &[u32]) -> Self {
        let mut allocations = vec![false; program.requests.len()];
        for &id in ids {
            if let Some(slot) = allocations.get_mut(id as usize) {
                *slot = true;
            }
        }
        Self { allocations, failed: vec![false; program.failed.len()] }
    }

    /// Whether allocation `id` is in the group.
    pub fn has_allocation(&self, id: u32) -> bool {
        self.allocations.get(id as usize).copied().unwrap_or(false)
    }

    /// Whether failed request `index` is in the group.
    pub fn has_failed(&self, index: u32) -> bool {
        self.failed.get(index as usize).copied().unwrap_or(false)
    }

    /// Whether `op` concerns the group.
    pub fn concerns(&self, op: Op) -> bool {
        match op {
            Op::Malloc(id) | Op::Free(id) | Op::Drop(id) | Op::Complete(id) => self.has_allocation(id),
            Op::Failed(index) => self.has_failed(index),
            Op::EmptyCache | Op::PoolFreeable(_) | Op::ReleasePool(_) => false,
        }
    }

    /// Allocations in the group.
    pub fn len(&self) -> usize {
        self.allocations.iter().filter(|a| **a).count()
    }

    /// Whether nothing is in the group.
    pub fn is_empty(&self) -> bool {
        !self.allocations.iter().chain(&self.failed).any(|a| *a)
    }
}
