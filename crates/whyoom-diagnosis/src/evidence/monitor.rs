//! What nvidia-smi and its kin show: the card from outside.

use whyoom_text::Fact;
use whyoom_text::monitors::{DeviceLog, Monitor, Process, Sample, foreign};
use whyoom_text::series::{Shape, analyse, until};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_number, in_ratio};
use crate::explanation::{Cause, Confidence, Evidence};
use crate::words;

/// Only where nothing but monitors speaks: beside a program's own evidence their figures are the message's own.
pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let mut answer = Answer::default();
    if about.has_program {
        return answer;
    }
    // Several texts of one card know different things: one its capacity, another its processes.
    let capacity = subject.seen.iter().find_map(|seen| match &seen.reading.fact {
        Fact::Monitor(monitor) => here(monitor, subject.device, about.nameless)?.last_known.as_ref()?.capacity(),
        _ => None,
    });
    for seen in &subject.seen {
        if let Fact::Monitor(monitor) = &seen.reading.fact {
            answer.take(of_monitor(monitor, subject.device, about.nameless, capacity));
        }
    }
    answer
}

fn here(monitor: &Monitor, index: u32, nameless: u32) -> Option<&DeviceLog> {
    monitor.devices.iter().find(|d| d.id.index.unwrap_or(nameless) == index)
}

fn of_monitor(monitor: &Monitor, index: u32, nameless: u32, capacity: Option<u64>) -> Answer {
    let device = here(monitor, index, nameless);
    let of_card = |p: &&Process| p.device.index.unwrap_or(nameless) == index;
    let processes: Vec<&Process> = monitor.processes.iter().filter(of_card).collect();
    let mut evidence = device.map(figures).unwrap_or_default();
    evidence.extend(absent(monitor));
    evidence
        .extend(monitor.assumptions.iter().map(|said| in_number(format!("taken to be so: {said}"), 1, "count", &[])));
    if let Some(found) = strangers(monitor, index, &evidence) {
        return found;
    }
    if let Some(found) = unnamed(&processes, device, capacity, &evidence) {
        return found;
    }
    let Some(device) = device else {
        let summary = "The text shows processes of a card and not the card.";
        return Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, 0, evidence)).ask(next::processes());
    };
    if device.driver_model.as_deref() == Some("WDDM") {
        let share = device
            .last_known
            .as_ref()
            .and_then(Sample::share)
            .map_or(String::new(), |s| format!(" ({:.0} % in use)", s * 100.0));
        let summary = format!(
            "Under Windows' display driver model nvidia-smi does not know what each process holds; the card as a whole is \
             known{share}. N/A is not zero."
        );
        return Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, 0, evidence))
            .ask(next::task_manager());
    }
    over_time(device, monitor, evidence)
}

fn figures(device: &DeviceLog) -> Vec<Evidence> {
    let Some(last) = &device.last_known else { return Vec::new() };
    let mut list = Vec::new();
    let mut say = |what: &str, bytes: Option<u64>| {
        if let Some(b) = bytes {
            list.push(in_bytes(format!("{what} {}", words::bytes(b)), b, &[]));
        }
    };
    say("in use", last.used.map(|q| q.bytes));
    say("free", last.free.map(|q| q.bytes));
    say("the card has", last.total.map(|q| q.bytes));
    say("held by the driver itself", last.reserved_by_driver.map(|q| q.bytes));
    if let Some(share) = last.share() {
        list.push(in_ratio(format!("{:.1} % of the card is in use", share * 100.0), share, &[]));
    }
    list
}

fn absent(monitor: &Monitor) -> Option<Evidence> {
    let list: Vec<String> = monitor.absent.iter().map(u32::to_string).collect();
    (!list.is_empty()).then(|| {
        in_number(
            format!("no line speaks of GPU {}: hidden, lost, or not asked for", list.join(", ")),
            list.len() as u64,
            "count",
            &[],
        )
    })
}

/// Processes whose home is another card.
fn strangers(monitor: &Monitor, index: u32, evidence: &[Evidence]) -> Option<Answer> {
    let found = foreign(&monitor.processes).into_iter().find(|f| f.device == index)?;
    let names: Vec<String> =
        found.processes.iter().map(|(pid, bytes)| format!("{pid} with {}", words::bytes(*bytes))).collect();
    let summary = format!(
        "{} on this card hold {} and do their work on other cards: process {}. Each made a context here before it was told \
         its own card.",
        words::plural(found.processes.len() as u64, "process", "processes"),
        words::bytes(found.bytes),
        names.join(", ")
    );
    let mut all = evidence.to_vec();
    all.push(in_bytes(
        format!("{} are contexts of other cards' processes", words::bytes(found.bytes)),
        found.bytes,
        &[],
    ));
    let mut outside = finding(Cause::Outside, Confidence::Strong, summary, found.bytes, all);
    outside.subcause = Some("other_process");
    Some(
        Answer::of(outside)
            .not(Cause::Capacity, "the other cards do the same work with less")
            .offer([offers::own_device_only()]),
    )
}

/// A process that the monitor cannot name.
fn unnamed(
    processes: &[&Process],
    device: Option<&DeviceLog>,
    total: Option<u64>,
    evidence: &[Evidence],
) -> Option<Answer> {
    let is_windows = device.is_some_and(|d| d.driver_model.is_some());
    let hidden = processes
        .iter()
        .find(|p| p.name.is_none() && p.user.is_none() && p.bytes.is_some_and(|b| b.bytes > 0))
        .filter(|_| !is_windows)?;
    let bytes = hidden.bytes?.bytes;
    let share = total.map(|total| bytes as f64 / total.max(1) as f64);
    let of_card = share.map_or(String::new(), |s| format!(", {:.1} % of the card", s * 100.0));
    let pid = hidden.pid.map_or(String::new(), |pid| format!(" {pid}"));
    let summary = format!(
        "Process{pid} holds {}{of_card} and cannot be named from here: it lives in another container or on the host, or has \
         ended without giving its memory back.",
        words::bytes(bytes)
    );
    let mut all = evidence.to_vec();
    all.extend(share.map(|s| in_ratio(format!("{:.1} % of the card", s * 100.0), s, &[])));
    let mut outside = finding(Cause::Outside, Confidence::Strong, summary, bytes, all);
    outside.subcause = Some("other_process");
    Some(Answer::of(outside).offer([offers::free_others()]).ask(next::processes()))
}

/// The card over the samples.
fn over_time(device: &DeviceLog, monitor: &Monitor, mut evidence: Vec<Evidence>) -> Answer {
    let capacity = device.last_known.as_ref().and_then(Sample::capacity);
    let analysis = analyse(&device.used);
    match analysis.shape {
        Shape::Growth { .. } | Shape::Staircase { .. } => {
            let pace = analysis.per_second.map(|p| p * 60.0).filter(|p| *p > 0.0);
            let (first, last) = (device.used.first, device.used.last);
            let rise = last.zip(first).map_or(0, |(l, f)| l.bytes.saturating_sub(f.bytes));
            let per = match (pace, analysis.per_sample) {
                (Some(pace), _) => format!("{} a minute", words::bytes(pace as u64)),
                (None, Some(pace)) => format!("{} from sample to sample", words::bytes(pace.max(0.0) as u64)),
                _ => words::bytes(rise),
            };
            let full = capacity.and_then(|c| until(&device.used, &analysis, c));
            let when = full.map_or(String::new(), |u| match (u.seconds, u.samples) {
                (Some(s), _) => format!(", full in about {}", words::duration((s * 1e6) as u64)),
                (None, Some(n)) => format!(", full in about {} samples", words::count(n.round() as u64)),
                _ => String::new(),
            });
            let stairs = if matches!(analysis.shape, Shape::Staircase { .. }) {
                " It rises in steps: what happens at those moments (a failure that is caught, an evaluation, a new shape) keeps it."
            } else {
                ""
            };
            evidence.push(in_bytes(
                format!("{} more at the last sample than at the first", words::bytes(rise)),
                rise,
                &[],
            ));
            let summary = format!(
                "Memory in use on the card grows by {per}{when}.{stairs} From outside, a cache that grows and tensors that are kept \
                 look the same."
            );
            let leak = finding(Cause::Leak, Confidence::Weak, summary, rise, evidence);
            Answer::of(leak).ask(next::allocator_figures())
        }
        Shape::Jump { by, .. } if by > 0 => {
            let summary =
                format!("Memory in use on the card jumps by {} once and is level otherwise.", words::bytes(by as u64));
            evidence.push(in_bytes(format!("{} in one rise", words::bytes(by as u64)), by as u64, &[]));
            Answer::of(finding(Cause::Spike, Confidence::Weak, summary, by as u64, evidence))
                .ask(next::allocator_figures())
        }
        Shape::TooFew => one_moment(device, monitor, evidence),
        _ => {
            let level = device.used.last.map_or(0, |p| p.bytes);
            let of = capacity.map_or(String::new(), |c| format!(" of {}", words::bytes(c)));
            let gaps = if device.unknown_samples > 0 {
                format!(" {} of {} samples have no figure.", device.unknown_samples, device.samples)
            } else {
                String::new()
            };
            let summary = format!(
                "Memory in use is level at {}{of}: PyTorch keeps what it has cached, so a high level alone is no fault.{gaps}",
                words::bytes(level)
            );
            let healthy = finding(Cause::Healthy, Confidence::Weak, summary, 0, evidence);
            Answer::of(healthy).not(Cause::Leak, "no growth over the samples").ask(next::allocator_figures())
        }
    }
}

/// One sample.
fn one_moment(device: &DeviceLog, monitor: &Monitor, evidence: Vec<Evidence>) -> Answer {
    let share = device.last_known.as_ref().and_then(Sample::share);
    let used = device.used.last.map_or(0, |p| p.bytes);
    let others: Vec<f64> = monitor.devices.iter().filter_map(|d| d.last_known.as_ref()?.share()).collect();
    match share {
        Some(share) if share >= 0.95 && others.len() > 1 => {
            let is_alone = others.iter().filter(|o| **o >= 0.95).count() == 1 && others.len() > 1;
            let beside = if is_alone {
                " The other cards are not: the work is uneven, or somebody else works here."
            } else {
                ""
            };
            let summary = format!("The card is full: {:.1} % is in use.{beside}", share * 100.0);
            let capacity = finding(Cause::Capacity, Confidence::Weak, summary, used, evidence);
            Answer::of(capacity).ask(next::processes())
        }
        Some(share) => {
            let summary = format!(
                "{:.1} % of the card is in use at this moment. What is cached and what is live look the same from outside.",
                share * 100.0
            );
            Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, 0, evidence))
                .ask(next::allocator_figures())
        }
        None => {
            let summary = "The text has no figure of memory in use.";
            Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, 0, evidence)).ask(next::processes())
        }
    }
}
