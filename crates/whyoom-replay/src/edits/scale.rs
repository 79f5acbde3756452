//! Makes a group of allocations larger or smaller.

use super::{Edit, Group};
use crate::Program;

/// The program with every request of a group scaled by a factor: another batch size, another precision.
///
/// An estimate: real programs choose other kernels and workspaces at other sizes.
#[derive(Debug, Clone)]
pub struct Scale {
    /// What is scaled.
    pub group: Group,
    /// By how much; 0.5 halves. Negative or no numbers count as 0.
    pub factor: f64,
}

impl Scale {
    fn bytes(&self, bytes: u64) -> u64 {
        // The conversion saturates, and no request of the program becomes none.
        ((bytes as f64 * self.factor).ceil() as u64).max(bytes.min(1))
    }
}

impl Edit for Scale {
    fn apply(&self, program: &Program) -> Program {
        let mut new = program.clone();
        for (id, request) in new.requests.iter_mut().enumerate() {
            if self.group.has_allocation(id as u32) {
                request.bytes = self.bytes(request.bytes);
            }
        }
        for (index, request) in new.failed.iter_mut().enumerate() {
            if self.group.has_failed(index as u32) {
                request.bytes = self.bytes(request.bytes);
            }
        }
        if new.initial.iter().any(|&id| self.group.has_allocation(id)) {
            new.initial_regions.clear();
        }
        new.note_landmarks();
        new
    }
}
