//! Evaluations between training steps: forward passes that no backward pass follows.

use super::ledger::Ledger;
use hashbrown::HashSet;
use whyoom_replay::NONE;
use whyoom_snapshot::StackId;

/// Forward passes in a row, without backward, that make an evaluation.
const FEWEST: usize = 2;

/// The event after each evaluation at which training goes on, ascending; empty where the trace shows none.
///
/// A call site that enters a module and that autograd's threads never follow is one of evaluation. Where forward passes
/// at such sites are part of every step (a frozen teacher, a target network), there is no boundary to speak of.
pub(crate) fn ends(ledger: &Ledger<'_>) -> Vec<u32> {
    let passes = passes(ledger);
    let trained: HashSet<StackId> = passes.iter().filter(|p| p.is_trained).map(|p| p.site).collect();
    let mut ends = Vec::new();
    let mut in_a_row = 0;
    for pass in &passes {
        if trained.contains(&pass.site) {
            if in_a_row >= FEWEST {
                ends.push(pass.event);
            }
            in_a_row = 0;
        } else {
            in_a_row += 1;
        }
    }
    let training = passes.iter().filter(|p| p.is_trained).count();
    if ends.len() * 2 > training { Vec::new() } else { ends }
}

/// A forward pass.
struct Pass {
    site: StackId,
    event: u32,
    /// A backward pass follows before the next forward pass.
    is_trained: bool,
}

fn passes(ledger: &Ledger<'_>) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    let mut last = NONE;
    for (id, a) in ledger.trace.allocations.iter().enumerate().filter(|(_, a)| a.alloc_event != NONE) {
        let shape = ledger.shapes.of(a.stack);
        if !shape.has_python() || shape.in_autograd {
            if let Some(pass) = passes.last_mut() {
                pass.is_trained = true;
            }
            continue;
        }
        let Some(&run) = ledger.runs.of.get(id).filter(|r| **r != NONE && **r != last) else { continue };
        if shape.in_module && !shape.in_optimizer {
            last = run;
            passes.push(Pass { site: ledger.runs.runs[run as usize].site, event: a.alloc_event, is_trained: false });
        }
    }
    passes
}
