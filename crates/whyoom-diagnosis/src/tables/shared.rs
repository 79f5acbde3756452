//! Tables over a whole file, made once when a device first needs them: a file may have many devices and many stacks.

use super::frames::Shapes;
use std::sync::OnceLock;
use whyoom_replay::StepBasis;
use whyoom_snapshot::Snapshot;

/// What the devices of one snapshot share.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) snapshot: &'a Snapshot,
    shapes: OnceLock<Shapes>,
    step_basis: OnceLock<StepBasis>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, shapes: OnceLock::new(), step_basis: OnceLock::new() }
    }

    pub(crate) fn shapes(&self) -> &Shapes {
        self.shapes.get_or_init(|| Shapes::new(self.snapshot))
    }

    pub(crate) fn step_basis(&self) -> &StepBasis {
        self.step_basis.get_or_init(|| StepBasis::new(self.snapshot))
    }
}
