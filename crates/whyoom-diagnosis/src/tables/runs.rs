//! Calls of the program: which execution of which line an allocation belongs to.
//!
//! The trace does not say when a line of the program begins anew. A *run* is what happens between leaving a line
//! and coming back to it: consecutive events of one thread whose stacks pass through the same call site.

use super::frames::Shapes;
use hashbrown::HashMap;
use whyoom_replay::{NONE, Trace};
use whyoom_snapshot::{Action, StackId};

/// One execution of a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The call site: node of its deepest frame.
    pub(crate) site: StackId,
    /// First event.
    pub(crate) event: u32,
}

/// Runs in order, and the run per allocation.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) runs: Vec<Run>,
    /// Run per allocation; [`NONE`] for those older than the trace or before the first run. An allocation
    /// without frames (autograd's threads) belongs to the run of the program that was last seen.
    pub(crate) of: Vec<u32>,
}

/// The run that a thread is in.
struct Thread {
    run: u32,
    site: StackId,
    /// First stack of the run that lies outside any module and walks no structure: when it comes again after others,
    /// the line runs again.
    head: StackId,
    has_left_head: bool,
}

impl Runs {
    pub(crate) fn new(trace: &Trace<'_>, shapes: &Shapes) -> Self {
        let events = &trace.device.events;
        let mut this = Self { runs: Vec::new(), of: vec![NONE; trace.allocations.len()] };
        // By root: traces whose stacks are cut may have as many as stacks.
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        let mut current = NONE;
        for i in 0..events.len() {
            let action = events.action[i];
            if !matches!(action, Action::Alloc | Action::FreeRequested | Action::Oom) {
                continue;
            }
            let stack = events.stack[i];
            let shape = shapes.of(stack);
            if shape.call != StackId::EMPTY {
                current = Self::advance(
                    &mut this.runs,
                    &mut threads,
                    shape.root,
                    shape.call,
                    stack,
                    !shape.in_module && !shape.is_walk,
                    action,
                    i as u32,
                );
            }
            if action == Action::Alloc {
                this.of[trace.allocation_of[i] as usize] = current;
            }
        }
        this.split_loop_of_one_line(trace);
        this
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of one event")]
    fn advance(
        runs: &mut Vec<Run>,
        threads: &mut HashMap<u32, Thread>,
        root: u32,
        site: StackId,
        stack: StackId,
        can_be_head: bool,
        action: Action,
        event: u32,
    ) -> u32 {
        let is_alloc = action == Action::Alloc;
        let head = if is_alloc && can_be_head { stack } else { StackId::EMPTY };
        let new = runs.len() as u32;
        let begun = || Thread { run: NONE, site: StackId::EMPTY, head, has_left_head: false };
        let thread = threads.entry(root).or_insert_with(begun);
        if thread.site != site {
            (thread.run, thread.site, thread.head, thread.has_left_head) = (new, site, head, false);
            runs.push(Run { site, event });
        } else if is_alloc {
            if thread.head == StackId::EMPTY {
                // The run began inside a module, as the first one of a trace without beginning does.
                (thread.head, thread.has_left_head) = (head, false);
            } else if stack != thread.head {
                thread.has_left_head = true;
            } else if thread.has_left_head {
                (thread.run, thread.has_left_head) = (new, false);
                runs.push(Run { site, event });
            }
        }
        thread.run
    }

    /// A single run that holds most allocations is a loop whose body is one line. Where its stacks repeat with a
    /// period, each period is an execution.
    fn split_loop_of_one_line(&mut self, trace: &Trace<'_>) {
        let mut sizes = vec![0u32; self.runs.len()];
        for &run in self.of.iter().filter(|r| **r != NONE) {
            sizes[run as usize] += 1;
        }
        let total: u32 = sizes.iter().sum();
        let Some(run) = sizes.iter().position(|&n| u64::from(n) * 2 > u64::from(total)) else { return };
        let of_run = |id: &usize| {
            self.of[*id] == run as u32 && !matches!(trace.allocations[*id].stack, StackId::EMPTY | StackId::MISSING)
        };
        let members: Vec<usize> = (0..self.of.len()).filter(of_run).collect();
        let stacks: Vec<StackId> = members.iter().map(|&id| trace.allocations[id].stack).collect();
        let period = period(&stacks);
        if period < 2 || period * 3 > stacks.len() {
            return;
        }
        // Later parts of the run become runs of their own, numbered after it: order among runs must hold.
        let parts = stacks.len().div_ceil(period);
        let extra = parts as u32 - 1;
        let site = self.runs[run].site;
        let events: Vec<u32> = members.iter().step_by(period).map(|&id| trace.allocations[id].alloc_event).collect();
        // Another thread's runs may lie between; order by events would not hold then.
        let last = events.last().copied().unwrap_or(0);
        if self.runs.get(run + 1).is_some_and(|next| next.event <= last) {
            return;
        }
        for of in self.of.iter_mut().filter(|of| **of != NONE && **of > run as u32) {
            *of += extra;
        }
        let ends: Vec<u32> = events[1..].to_vec();
        for (id, of) in self.of.iter_mut().enumerate().filter(|(_, of)| **of == run as u32) {
            *of += ends.partition_point(|&e| e <= trace.allocations[id].alloc_event) as u32;
        }
        let after = run + 1;
        self.runs.splice(after..after, ends.iter().map(|&event| Run { site, event }));
    }

    /// The run that `event` lies in, by the order of runs; `None` before the first.
    pub(crate) fn at(&self, event: u32) -> Option<u32> {
        self.runs.partition_point(|r| r.event <= event).checked_sub(1).map(|r| r as u32)
    }
}

/// Smallest period of `symbols` (Knuth, Morris, Pratt); its length where there is none.
fn period(symbols: &[StackId]) -> usize {
    let mut border = vec![0u32; symbols.len()];
    let mut matched = 0usize;
    for i in 1..symbols.len() {
        while matched > 0 && symbols[i] != symbols[matched] {
            matched = border[matched - 1] as usize;
        }
        matched += usize::from(symbols[i] == symbols[matched]);
        border[i] = matched as u32;
    }
    symbols.len() - border.last().map_or(0, |b| *b as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        let of = |symbols: &[u32]| period(&symbols.iter().map(|&s| StackId(s)).collect::<Vec<_>>());
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[1, 2, 3]), 3);
        assert_eq!(of(&[1, 2, 1, 2, 1]), 2);
        assert_eq!(of(&[1, 1, 1]), 1);
        assert_eq!(of(&[1, 1, 2, 1, 1, 2]), 3);
    }
}
