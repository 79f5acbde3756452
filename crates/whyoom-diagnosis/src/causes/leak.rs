//! `leak`: memory that accumulates.
//!
//! # What it finds
//! Allocations that are kept alive execution after execution of the same line, so that what is live at the same point
//! of successive steps keeps growing.
//!
//! # Why it matters
//! A run that leaks dies sooner or later under every setting and on every card; settings only move the step.
//!
//! # How it decides
//! Survivors of at least three executions of one line, early ones and recent ones alike, at the failing request (not
//! at the end: a dying run frees everything on its way out) or, without a failure, at the last request of the
//! program. At a failure also the graphs that the calls of a validation in progress keep, if no backward pass ever
//! follows that line: earlier validations may have let theirs go at their end. It is the verdict if the request would have fitted without the survivors, and what they hold is more than
//! what the layout lost. Growth that would take a hundred thousand executions to add what the run needs anyhow is
//! told as negligible.
//! `autograd_graph`: most of what forward passes made survives together. `tensors_kept`: single tensors are kept.
//! `state_per_epoch`: an optimizer's state is made anew, and the old one stays. `exception_frames`: executions in which
//! a request failed left it, as a caught exception does that is kept, where others of that line leave nothing. `reference_cycle`: what many steps made is freed
//! in bursts only, as a garbage collection does, and more has gathered than any burst has freed. A queue that fills faster
//! than it is emptied is `tensors_kept` too.
//!
//! # False positives
//! Rejected: warm-up (optimizer state, lazily made workspaces), saw-teeth, queues and caches of fixed length, buffers
//! that have filled, peaks that climb with their inputs, the activations of the step in progress. Not told apart: a
//! list that is still filling and would be dropped later, and a first step that calls one line many times and has
//! made no backward pass yet; where nothing shows that a step was completed, and where three or four executions left
//! little, the finding is weak.
//!
//! # What to do
//! Evaluate under `torch.no_grad()`. In training, detach what is carried over from step to step (a hidden state, a
//! running loss) and do without `retain_graph=True`. Keep `.item()` or `.detach().cpu()` instead of the tensor; drop
//! references held in lists, closures and caught exceptions.

use super::{finding, in_bytes, in_number, request_in_words};
use crate::case::Case;
use crate::explanation::{self, Cause, Confidence, Finding};
use crate::tables::culprits::Tally;
use crate::tables::graph::GraphsOf;
use crate::tables::growth::Growth;
use crate::tables::queue::Queue;
use crate::tables::total;
use crate::words;
use whyoom_replay::StepSource;
use whyoom_snapshot::StackId;

/// Growth that needs more executions than this to matter does not matter: days of training.
const NEGLIGIBLE_CALLS: u64 = 100_000;

/// Whether growth at this rate can matter: measured against what the run needs anyhow, or what is left to the limit.
pub(crate) fn is_material(case: &Case<'_>, growth: &Growth) -> bool {
    let rest = case.ledger.peak_live.saturating_sub(growth.bytes);
    let room = match (case.in_effect.high, &case.failing) {
        (Some(high), Some(failing)) => high.saturating_sub(failing.needed()).max(growth.bytes),
        (Some(high), None) => high.saturating_sub(case.ledger.peak_live).max(1),
        _ => rest.max(1),
    };
    growth.bytes_per_call.saturating_mul(NEGLIGIBLE_CALLS) >= room && !is_a_trifle(case, growth)
}

/// At a failure only bytes count that could have made a difference: more than a thousandth of what was live.
fn is_a_trifle(case: &Case<'_>, growth: &Growth) -> bool {
    case.failing.is_some_and(|f| growth.bytes.saturating_mul(1000) < f.state.active)
}

/// Whether the leak is what the failing request died of.
pub(crate) fn decides(case: &Case<'_>) -> bool {
    let (Some(growth), Some(failing)) = (case.growth.as_ref().filter(|g| is_material(case, g)), &case.failing) else {
        return false;
    };
    let Some(high) = case.in_effect.high else { return true };
    let needed = failing.needed();
    let fits_without = needed.saturating_sub(growth.bytes) <= high;
    let lost_by_layout = high.saturating_sub(needed);
    fits_without && growth.bytes >= lost_by_layout
}

pub(crate) fn find(case: &Case<'_>) -> Option<Finding> {
    let growth = case.growth.as_ref().filter(|g| is_material(case, g))?;
    let ledger = &case.ledger;
    let culprits = Tally::of(ledger, &growth.allocations).culprits(ledger);
    let line = line_of(case, growth);
    let live = ledger.sum(&ledger.alive_at(growth.event));
    let (per_call, total) = (words::bytes(growth.bytes_per_call), words::bytes(growth.bytes));
    let calls = words::plural(growth.calls, "call", "calls");
    let subcause = subcause(case, growth);
    let what = match growth.is_graph {
        _ if subcause == Some("exception_frames") => {
            "what failed attempts had made, as an exception keeps it that is caught and not let go"
        }
        _ if growth.queue == Some(Queue::Backlog) => "a queue that fills faster than it is emptied",
        _ if growth.queue.is_some() => "they are let go in bursts only",
        Some(true) => "graphs of forward passes, with their activations",
        Some(false) => "tensors that something still refers to",
        None => "allocations that something still refers to",
    };
    let request = case.failing.as_ref().map(|f| format!("{}. ", request_in_words(case, f))).unwrap_or_default();
    let mut summary = format!(
        "{request}{calls} at {line} have left about {per_call} each alive, {total} of the {} live: {what}.",
        words::bytes(live)
    );
    if let Some(Queue::Bursts { bursts, largest, waiting }) = growth.queue {
        let bursts = words::capital(&words::plural(bursts, "burst", "bursts"));
        let (largest, waiting) = (words::count(largest), words::count(waiting));
        summary.extend([" ", &bursts, " so far freed up to ", &largest, " of these at one moment; "]);
        summary.extend([&waiting, " wait for the next."]);
    }
    if growth.graphs_of == Some(GraphsOf::BrokenOff) {
        summary.push_str(" No backward pass follows those calls, as one does the others of that line.");
    }
    if !growth.is_going_on {
        summary.push_str(" That line does not run any more, and they are still there.");
    }
    if case
        .failing
        .is_some_and(|f| decides(case) && case.in_effect.high.is_some_and(|high| f.needed_in_segments() <= high))
    {
        summary.push_str(" It would fit in a compact layout, but not for long.");
    }
    let may_be_one_step =
        growth.is_graph == Some(true) && growth.steps <= 1 && !ledger.has_backward_before(growth.event);
    if may_be_one_step {
        summary.push_str(
            " No backward pass has run: if all these calls are one step, it is that step which is too large.",
        );
    }
    let mut evidence = vec![
        in_bytes(format!("{total} are alive that {calls} at {line} and beside it made"), growth.bytes, &[growth.event]),
        in_number(
            format!(
                "{} of {} there have survivors{}",
                words::count(growth.calls),
                words::plural(growth.calls_made, "call", "calls"),
                if growth.steps > 1 {
                    format!(", in {} different steps", words::count(growth.steps))
                } else {
                    String::new()
                }
            ),
            growth.calls,
            "count",
            &[growth.first_event, growth.last_event],
        ),
        in_bytes(format!("one call keeps about {per_call}"), growth.bytes_per_call, &[growth.last_event]),
    ];
    evidence.extend(rise(case));
    if ledger.completed == 0 {
        evidence.push(in_number(
            "nothing shows that a step was completed in between".to_owned(),
            0,
            "steps",
            &[growth.event],
        ));
    }
    Some(Finding {
        subcause,
        evidence,
        growth: Some(explanation::Growth {
            bytes_per_step: growth.bytes_per_call,
            calls: growth.calls,
            per: if steps_per_call(case, growth).is_some() { "step" } else { "call" },
            graphs_of: growth.graphs_of.map(|of| match of {
                GraphsOf::Training => "training",
                GraphsOf::Evaluation => "evaluation",
                GraphsOf::BrokenOff => "broken_off",
            }),
            queue: growth.queue.map(|q| if q == Queue::Backlog { "backlog" } else { "bursts" }),
            first_step: ledger.steps.of(growth.first_event).unwrap_or(0),
            last_step: ledger.steps.of(growth.last_event).unwrap_or(growth.calls_made.saturating_sub(1)),
            dies_again_in_steps: dies_again(case, growth),
        }),
        culprits,
        ..finding(Cause::Leak, confidence(case, growth), summary, growth.bytes)
    })
}

/// The line that left most, by the user's frame of its call.
fn line_of(case: &Case<'_>, growth: &Growth) -> String {
    let snapshot = case.ledger.trace.snapshot;
    let user = case.ledger.shapes.of(growth.site).user;
    let node = if user == StackId::EMPTY { growth.site } else { user };
    snapshot.stacks.frames(node).next().map_or_else(
        || "one line".to_owned(),
        |(_, f)| words::line(snapshot.strings.get(f.function), snapshot.strings.get(f.file), f.line),
    )
}

fn subcause(case: &Case<'_>, growth: &Growth) -> Option<&'static str> {
    let ledger = &case.ledger;
    let in_optimizer = |id: &&u32| ledger.shapes.of(ledger.trace.allocations[**id as usize].stack).in_optimizer;
    let state = total(growth.allocations.iter().filter(in_optimizer).map(|&id| ledger.sizes[id as usize]));
    if state.saturating_mul(2) > growth.bytes {
        // Optimizers make their state once; one that makes it again and again is a new one each time.
        return Some("state_per_epoch");
    }
    if let Some(Queue::Bursts { .. }) = growth.queue {
        return Some("reference_cycle");
    }
    if is_of_failed_calls(case, growth) {
        return Some("exception_frames");
    }
    growth.is_graph.map(|graph| if graph { "autograd_graph" } else { "tensors_kept" })
}

/// Whether nearly all of what is kept was made by executions in which a request failed: an exception that is kept keeps
/// its frames, and they what the failed attempt had made.
fn is_of_failed_calls(case: &Case<'_>, growth: &Growth) -> bool {
    let ledger = &case.ledger;
    let mut failed: Vec<u32> = case.recorded.failures.iter().filter_map(|f| ledger.runs.at(f.event as u32)).collect();
    failed.sort_unstable();
    failed.dedup();
    if failed.is_empty() {
        return false;
    }
    let of_failed = |id: &&u32| failed.binary_search(&ledger.runs.of[**id as usize]).is_ok();
    let bytes = total(growth.allocations.iter().filter(of_failed).map(|&id| ledger.sizes[id as usize]));
    u128::from(bytes) * 10 >= u128::from(growth.bytes) * 9
}

/// So many executions make growth whatever they leave; fewer only if they left a quarter of what is live.
const MANY_CALLS: u64 = 5;

fn confidence(case: &Case<'_>, growth: &Growth) -> Confidence {
    let ledger = &case.ledger;
    let has_steps = match ledger.steps.source {
        StepSource::None => false,
        StepSource::Annotations => ledger.completed > 0,
        StepSource::Period => true,
    };
    let is_much = || growth.bytes.saturating_mul(4) >= ledger.sum(&ledger.alive_at(growth.event));
    if has_steps && (growth.calls >= MANY_CALLS || is_much()) { Confidence::Strong } else { Confidence::Weak }
}

/// Steps from one execution to the next, as a fraction; `None` where steps cannot tell.
fn steps_per_call(case: &Case<'_>, growth: &Growth) -> Option<(u64, u64)> {
    let step = |event| case.ledger.steps.of(event);
    let steps = step(growth.last_event)?.checked_sub(step(growth.first_event)?).filter(|&s| s > 0)?;
    Some((steps, growth.calls.checked_sub(1).filter(|&c| c > 0)?))
}

/// Steps until it would fail again if this request had passed; executions where steps cannot tell.
fn dies_again(case: &Case<'_>, growth: &Growth) -> Option<u64> {
    let high = case.in_effect.high?;
    let room = high.saturating_sub(case.failing?.needed());
    // Calls may come in bursts: what does not hold one more fails at the next.
    let more = room / growth.bytes_per_call.max(1);
    let (steps, calls) = steps_per_call(case, growth).unwrap_or((1, 1));
    growth.is_going_on.then(|| more.saturating_mul(steps) / calls)
}

/// Live bytes between steps, early and late.
fn rise(case: &Case<'_>) -> Option<explanation::Evidence> {
    let event = case.growth.as_ref()?.event;
    let levels: Vec<_> = case.ledger.levels.iter().filter(|l| l.start <= event && l.start > 0).collect();
    let (first, last) = (levels.get(1)?, levels.last()?);
    let rise = last.floor.checked_sub(first.floor).filter(|&r| r > 0)?;
    Some(in_bytes(
        format!(
            "live bytes between steps rose from {} before the {} step to {} before the {}",
            words::bytes(first.floor),
            words::ordinal(first.step + 1),
            words::bytes(last.floor),
            words::ordinal(last.step + 1)
        ),
        rise,
        &[first.start, last.start],
    ))
}

/// Why it is not a leak, if that can be said.
pub(crate) fn rule_out(case: &Case<'_>) -> Option<String> {
    if let Some(growth) = &case.growth {
        // Growth that matters and is not a finding is not decided, and so not excluded.
        let (each, calls) = (words::bytes(growth.bytes_per_call), words::plural(growth.calls, "call", "calls"));
        return (!is_material(case, growth)).then(|| format!("growth of {each} a call over {calls} is negligible"));
    }
    let steps = words::plural(case.ledger.completed, "step", "steps");
    match (case.ledger.completed, drift(case)) {
        (0 | 1, _) => None,
        (_, Some(drift @ 1..)) => Some(format!(
            "no line keeps adding over {steps}; what is live between them drifts by {} a step, with what they hold",
            words::bytes(drift)
        )),
        _ => Some(format!("nothing accumulates over {steps}")),
    }
}

/// A rise over the run by less than this part of what is live between steps is no drift.
const DRIFTS: u64 = 4;

/// By how much live bytes between steps rise from one step to the next, early steps against late ones; `None` where
/// there are too few. Steps differ in what they hold over their end, so that the median of a third of them is compared.
fn drift(case: &Case<'_>) -> Option<u64> {
    let floors: Vec<u64> = case.ledger.levels.iter().filter(|l| l.start > 0).skip(1).map(|l| l.floor).collect();
    let third = floors.len() / 3;
    let middle = |part: &[u64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let (early, late) = (middle(floors.get(..third)?)?, middle(floors.get(floors.len() - third..)?)?);
    // What steps hold over their end differs by more than a little.
    if late.saturating_sub(early) < early / DRIFTS {
        return Some(0);
    }
    Some(late.saturating_sub(early) / (floors.len() - third).max(1) as u64)
}

#[cfg(test)]
mod tests;
