//! `undetermined`: the evidence does not decide.
//!
//! # What it finds
//! A failure without a known limit, or a file that shows a state but not how it came to be.
//!
//! # Why it matters
//! A guess in a verdict's clothes costs people days.
//!
//! # How it decides
//! No other cause has its evidence. It says what is known, what that rules out, and what to record.
//!
//! # What to do
//! Record history from before the model is built, and dump the snapshot where the failure is caught.

use super::{finding, in_bytes};
use crate::case::Case;
use crate::explanation::{Cause, Confidence, Finding};
use crate::words;

/// A failure that nothing explains.
pub(crate) fn find(case: &Case<'_>) -> Finding {
    let Some(failing) = &case.failing else {
        return finding(Cause::Undetermined, Confidence::Weak, "The evidence does not decide.".to_owned(), 0);
    };
    let state = &failing.state;
    let summary = format!(
        "A request for {} failed with {} live and {} reserved, under a limit that the file does not show: whether the \
         layout or the amount is at fault depends on it.",
        words::bytes(state.request_bytes),
        words::bytes(state.active),
        words::bytes(state.reserved)
    );
    let event = state.event as u32;
    let evidence = vec![
        in_bytes(
            format!("live bytes and the request need {}", words::bytes(failing.needed())),
            failing.needed(),
            &[event],
        ),
        in_bytes(format!("{} are reserved", words::bytes(state.reserved)), state.reserved, &[event]),
    ];
    Finding { evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
}

/// A state without a trace: reserved and live bytes, and the largest free block.
pub(crate) fn of_state(reserved: u64, live: u64, pending: u64, largest_free: u64) -> Finding {
    let free = reserved.saturating_sub(live + pending);
    let summary = format!(
        "The file shows what was live when it was written, {} in {} reserved, but not how it came to be: it holds no trace. \
         {} lie free, the largest block {}.",
        words::bytes(live),
        words::bytes(reserved),
        words::bytes(free),
        words::bytes(largest_free)
    );
    let evidence = vec![
        in_bytes(format!("{} were live", words::bytes(live)), live, &[]),
        in_bytes(format!("{} were reserved", words::bytes(reserved)), reserved, &[]),
        in_bytes(format!("the largest free block has {}", words::bytes(largest_free)), largest_free, &[]),
    ];
    Finding { evidence, ..finding(Cause::Undetermined, Confidence::Weak, summary, 0) }
}
