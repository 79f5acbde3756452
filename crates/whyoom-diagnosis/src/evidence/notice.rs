//! Messages that are no OOM and name a cause.

use whyoom_text::Fact;
use whyoom_text::messages::{About as Bearing, Doing};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::explanation::{Cause, Confidence};
use crate::words;

pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let mut answer = Answer::default();
    if let Some(notice) = about.notice(Bearing::VolatileIgnored) {
        let summary = format!(
            "The warning names the cause: \"{}\" Evaluation written for PyTorch before 0.4 now records a graph at each batch, \
             and what keeps its outputs keeps the graphs.",
            cut(&notice.text)
        );
        let leak = finding(Cause::Leak, Confidence::Strong, summary, 0, Vec::new());
        answer.take(
            Answer::of(leak)
                .not(Cause::Capacity, "the same evaluation needed no graphs before")
                .offer([offers::no_grad()])
                .ask(next::record()),
        );
    }
    if about.notice(Bearing::CheckpointWithoutGrad).is_some() || about.says(Doing::CheckpointInEval).is_some() {
        let summary = "Gradient checkpointing was asked for and does not act: in evaluation mode, or where no input needs a \
                       gradient, activations are kept in full. The amount is what the model needs without it.";
        let capacity = finding(Cause::Capacity, Confidence::Weak, summary, 0, Vec::new());
        answer.take(Answer::of(capacity).offer([offers::train_mode()]).ask(next::record()));
    }
    answer.take(retries(subject));
    answer.take(sharing(about).unwrap_or_else(|| secondary(about)));
    answer
}

fn cut(text: &str) -> String {
    text.chars().take(160).collect()
}

/// Expandable segments and sharing between processes.
fn sharing(about: &About<'_>) -> Option<Answer> {
    let shared = about.notice(Bearing::ExpandableSegmentsShared);
    let invalid = about.notice(Bearing::InvalidArgument).filter(|_| about.has_expandable());
    let unsupported = about.notice(Bearing::SettingIgnored).filter(|notice| notice.text.contains("expandable"));
    let (summary, remedies) = if let Some(notice) = shared.or(invalid) {
        (
            format!(
                "\"{}\" comes of expandable_segments:True: its memory cannot be handed to other processes by the calls used \
                 here. It is no lack of memory.",
                cut(&notice.text)
            ),
            vec![offers::no_expandable()],
        )
    } else {
        let notice = unsupported?;
        (
            format!(
                "\"{}\": the setting is accepted and does nothing on this platform. Advice to set it, the message's own \
                 among it, is void here.",
                cut(&notice.text)
            ),
            Vec::new(),
        )
    };
    let settings = finding(Cause::Settings, Confidence::Strong, summary, 0, Vec::new());
    Some(Answer::of(settings).not(Cause::Capacity, "nothing in the text says that memory ran out").offer(remedies))
}

/// The warning of 2.13 for a request that was served at the second try.
fn retries(subject: &Subject<'_>) -> Answer {
    let mut times = 0;
    let mut first = None;
    for seen in &subject.seen {
        if let Fact::Retry(retry) = &seen.reading.fact {
            times += seen.reading.occurrences;
            first.get_or_insert(retry);
        }
    }
    let Some(retry) = first else { return Answer::default() };
    let bytes = retry.request_bytes.unwrap_or(0);
    let summary = format!(
        "The warning is no failure: the driver refused {} at first, PyTorch gave back what it cached and tried again ({}). It \
         costs time, and says that the card is near its end.",
        words::bytes(bytes),
        words::plural(times, "time", "times")
    );
    let healthy = finding(Cause::Healthy, Confidence::Strong, summary, 0, Vec::new());
    Answer::of(healthy).ask(next::record())
}

/// Failures that follow another one, or that are none of memory.
fn secondary(about: &About<'_>) -> Answer {
    let notices = [
        (
            Bearing::NvmlAssert,
            "NVML failed while PyTorch was making the text of an OOM message: the OOM behind it has no figures",
        ),
        (
            Bearing::OutOfResource,
            "a kernel asks for more shared memory than a multiprocessor has; the card's memory is not meant",
        ),
        (
            Bearing::BrokenContext,
            "the CUDA context was broken by an earlier error; what fails after it says nothing of memory",
        ),
        (
            Bearing::InternalAssert,
            "an assertion inside PyTorch failed; whether memory is behind it, the text does not say",
        ),
        (
            Bearing::InvalidArgument,
            "a driver call got an invalid argument, which follows another failure more often than not",
        ),
    ];
    let Some((_, says)) = notices.iter().find(|(bearing, _)| about.notice(*bearing).is_some()) else {
        return Answer::default();
    };
    let unknown = finding(Cause::Undetermined, Confidence::Weak, format!("{}.", words::capital(says)), 0, Vec::new());
    Answer::of(unknown).ask(next::blocking())
}
