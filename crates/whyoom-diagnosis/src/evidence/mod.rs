//! Answers from text: messages, tables, monitors, logs, settings. No recording, and so no replay: arithmetic on what
//! was printed, and what follows from it.
//!
//! One file for each kind of evidence, each of which judges its own facts and knows nothing of the others:
//!
//! | file | judges |
//! |---|---|
//! | [`message`] | OOM messages of allocators: request, free, unused, limit |
//! | [`failure`] | failures that something else words: the driver, libraries, the host, other frameworks |
//! | [`notice`] | messages that are no OOM and name a cause |
//! | [`conf`] | allocator settings found in the text |
//! | [`table`] | `memory_summary()`, `memory_stats()`, `memory_snapshot()` |
//! | [`log`] | figures that a program printed as it went |
//! | [`trace`] | memory events of a profiler's trace |
//! | [`monitor`] | nvidia-smi and its kin |
//!
//! [`dossier`] sorts facts by device, [`answer`] holds what was found and puts it in order, [`next`] names the one
//! thing to collect next, and [`join`] sets text beside a recording of the same device.
//!
//! `proven` is only what arithmetic on the printed figures shows; a figure that was rounded counts with its rounding.

mod answer;
mod conf;
mod dossier;
mod failure;
mod input;
mod join;
mod log;
mod message;
mod monitor;
mod next;
mod notice;
mod offers;
mod readings;
mod table;
mod trace;

pub use input::TextInput;

pub(crate) use join::{join, limit_of};
pub(crate) use readings::{readings, warnings};

use crate::explanation::{DeviceReport, Input};
use answer::Answer;
use dossier::{Dossier, Subject};

/// A report and whether something failed in it.
pub(crate) struct Judged {
    pub(crate) report: DeviceReport,
    pub(crate) has_failed: bool,
    /// The limit is a cap that a message prints, and not the card.
    pub(crate) is_cap: bool,
    /// What the message says was asked for, and free on the card.
    pub(crate) request: Option<u64>,
    pub(crate) free: Option<u64>,
}

/// Judges each device that the texts speak of. `first` is the index of the first of them among all inputs.
pub(crate) fn judge(texts: &[TextInput], first: usize, devices: Option<&[u32]>) -> Vec<Judged> {
    let dossier = Dossier::of(texts, first);
    let wanted = |subject: &&Subject<'_>| devices.is_none_or(|wanted| wanted.contains(&subject.device));
    dossier.subjects.iter().filter(wanted).map(|subject| of_subject(subject, &dossier)).collect()
}

/// Everything that the kinds of evidence find of one device, in the order of the verdict.
fn of_subject(subject: &Subject<'_>, dossier: &Dossier<'_>) -> Judged {
    let about = dossier.about(subject);
    let mut all = Answer::default();
    for judge in [notice::judge, conf::judge, message::judge, failure::judge, table::judge, log::judge, trace::judge] {
        all.take(judge(subject, &about));
    }
    all.take(monitor::judge(subject, &about));
    let has_failed = message::has_failed(subject) || failure::has_failed(subject);
    let is_cap = message::has_cap(subject);
    let (request, free) = message::request_and_free(subject);
    Judged { report: all.report(subject, has_failed), has_failed, is_cap, request, free }
}

/// The text inputs, for the list of inputs.
pub(crate) fn inputs(texts: &[TextInput]) -> Vec<Input> {
    texts.iter().map(TextInput::describe).collect()
}
