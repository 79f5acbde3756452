//! Text beside a recording of the same device: one answer, and where the two disagree.

use whyoom_text::Fact;
use whyoom_text::monitors::Sample;

use super::{Judged, TextInput};
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence, DeviceReport, LimitReport, WarningLine};
use crate::words;

/// Figures that differ by more than this part are not the same; PyTorch prints three or four digits.
const SAME: f64 = 0.02;

fn differ(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 > SAME * a.max(b) as f64
}

/// Takes the reports on texts into those on recordings of the same device; what has no recording stands for itself.
/// What disagrees comes back as warnings.
pub(crate) fn join(recorded: &mut Vec<DeviceReport>, read: Vec<Judged>, texts: &[TextInput]) -> Vec<WarningLine> {
    let mut said: Vec<String> = between_texts(texts);
    let has_recording = !recorded.is_empty();
    let is_single = recorded.len() == 1;
    let mut apart = Vec::new();
    for judged in read {
        let of = |report: &DeviceReport| {
            report.device == judged.report.device
                && (report.rank.is_none() || judged.report.rank.is_none() || report.rank == judged.report.rank)
        };
        // A text that names no device is of the only one there is.
        let is_lone = is_single && judged.report.device == 0;
        let place = recorded.iter().position(of).or_else(|| is_lone.then_some(0)).filter(|_| has_recording);
        match place {
            Some(place) => {
                said.extend(other_settings(&recorded[place], &judged));
                let differences = disagreements(&recorded[place], &judged);
                // What is not of the same failure is told apart.
                if differences.is_empty() {
                    into(&mut recorded[place], judged);
                } else {
                    apart.push(judged.report);
                }
                said.extend(differences);
            }
            None if !has_recording || judged.has_failed => {
                if has_recording {
                    said.push(format!(
                        "the text speaks of GPU {}, which no recording given is of",
                        judged.report.device
                    ));
                }
                apart.push(judged.report);
            }
            None => {}
        }
    }
    recorded.extend(apart);
    for report in recorded.iter().filter(|r| r.peak.reserved_bytes > 0 && r.replay.events > 0) {
        said.extend(against_monitors(report, texts));
    }
    said.into_iter().map(|message| WarningLine { code: "disagreement".to_owned(), count: 1, message }).collect()
}

/// The cap that a message of the same failure prints, where the recording shows none, or only between what it lies.
pub(crate) fn limit_of(read: &[Judged], recorded: &DeviceReport) -> Option<LimitReport> {
    let judged = read.iter().find(|j| j.report.device == recorded.device && j.is_cap)?;
    if !disagreements(recorded, judged).is_empty() {
        return None;
    }
    let (low, high) = (judged.report.limit.low_bytes?, judged.report.limit.high_bytes?);
    let least = recorded.limit.low_bytes.unwrap_or(0).max(low);
    let most = recorded.limit.high_bytes.unwrap_or(u64::MAX).min(high);
    let is_narrower = Some(least) != recorded.limit.low_bytes || Some(most) != recorded.limit.high_bytes;
    (least <= most && is_narrower).then_some(LimitReport {
        low_bytes: Some(least),
        high_bytes: Some(most),
        source: "oom_message",
    })
}

fn disagreements(recorded: &DeviceReport, judged: &Judged) -> Vec<String> {
    let mut said = Vec::new();
    let live = judged.report.peak.allocated_bytes;
    if !judged.has_failed || live == 0 {
        return said;
    }
    if let (Some(low), Some(high)) = (judged.report.limit.low_bytes, judged.report.limit.high_bytes)
        && judged.is_cap
        && matches!(recorded.limit.source, "fraction" | "oom_event")
        && (recorded.limit.low_bytes.is_some_and(|l| l > high) || recorded.limit.high_bytes.is_some_and(|h| h < low))
    {
        said.push(format!(
            "the message says that {} are allowed, and the recording shows another limit: they are of different runs",
            words::bytes(low)
        ));
    }
    match &recorded.oom {
        Some(oom)
            if judged.request.is_some_and(|r| differ(r, oom.segment_bytes) && differ(r, oom.request_bytes)) =>
        {
            said.push(format!(
                "the message's request is {}, the recording's {}: they are not of the same failure",
                words::bytes(judged.request.unwrap_or(0)),
                words::bytes(oom.request_bytes)
            ));
        }
        Some(oom)
            if oom.device_free_bytes > 0
                && judged.free.is_some_and(|free| free.abs_diff(oom.device_free_bytes) > oom.device_free_bytes / 4) =>
        {
            said.push(format!(
                "the message says {} free on the card, the recording {}: they are of different cards or moments",
                words::bytes(judged.free.unwrap_or(0)),
                words::bytes(oom.device_free_bytes)
            ));
        }
        Some(oom) if differ(oom.live_bytes, live) => {
            let [message, recording] = words::bytes_apart([live, oom.live_bytes]);
            said.push(format!(
                "the message says {message} live when the request failed, the recording {recording}: they are not of the same \
                 failure, or of the same rank"
            ));
        }
        None if recorded.replay.events > 0 && recorded.would_fail.is_none() => said.push(
            "the text shows a failed request and the recording holds none: it was taken in another run, or before the failure"
                .to_owned(),
        ),
        _ => {}
    }
    said
}

/// Settings in the text that were not those of the recording.
fn other_settings(recorded: &DeviceReport, judged: &Judged) -> Option<String> {
    let (ours, theirs) = (recorded.settings.string.as_deref()?, judged.report.settings.string.as_deref()?);
    let name = |s: &str| if s.is_empty() { "PyTorch's defaults".to_owned() } else { format!("`{s}`") };
    (ours.trim() != theirs.trim())
        .then(|| format!("the text sets `{}`, and the recording was made under {}", theirs.trim(), name(ours)))
}

/// A recording says more than a text of the same failure, but not who else holds the card or what limits it.
fn into(recorded: &mut DeviceReport, judged: Judged) {
    let Judged { report, has_failed, .. } = judged;
    if let (Some(oom), Some(first)) = (&recorded.oom, recorded.findings.first_mut())
        && has_failed
        && report.peak.allocated_bytes > 0
    {
        let live = report.peak.allocated_bytes;
        let text = format!("the message says the same: {} live when the request failed", words::bytes(live));
        first.evidence.push(in_bytes(text, live, &[oom.event as u32]));
    }
    if recorded.limit.source == "unknown" && report.limit.source == "oom_message" {
        recorded.limit = report.limit;
    }
    recorded.rank = recorded.rank.or(report.rank);
    recorded.settings.string = recorded.settings.string.take().or(report.settings.string);
    let is_open = recorded.findings.first().is_none_or(|f| {
        f.cause == Cause::Undetermined
            || (f.cause == Cause::Healthy && has_failed)
            || (f.confidence == Confidence::Weak && f.cause != Cause::Healthy)
    });
    let mut remedies = report.remedies.into_iter();
    for finding in report.findings {
        let is_of_surroundings = matches!(finding.cause, Cause::Outside | Cause::Limit | Cause::Settings);
        let is_known = recorded.findings.iter().any(|f| f.cause == finding.cause);
        if is_known || finding.cause == Cause::Undetermined || finding.cause == Cause::Healthy {
            continue;
        }
        let is_better = is_open && finding.confidence > Confidence::Weak;
        // What others hold comes before an amount that would have fitted without them.
        let displaces = finding.cause == Cause::Outside
            && finding.confidence > Confidence::Weak
            && recorded.findings.first().is_some_and(|f| matches!(f.cause, Cause::Capacity | Cause::Limit));
        if is_better || displaces {
            recorded.ruled_out.retain(|r| r.cause != finding.cause);
            recorded.findings.retain(|f| !(is_better && matches!(f.cause, Cause::Undetermined | Cause::Healthy)));
            recorded.findings.insert(0, finding);
            let known: Vec<String> = recorded.remedies.iter().map(|r| r.id.clone()).collect();
            recorded.remedies.extend(remedies.by_ref().filter(|r| !known.contains(&r.id) && r.kind != "setting"));
        } else if is_of_surroundings && finding.confidence > Confidence::Weak {
            recorded.ruled_out.retain(|r| r.cause != finding.cause);
            recorded.findings.push(finding);
        }
    }
}

/// Cards of different sizes in texts that are given together.
fn between_texts(texts: &[TextInput]) -> Vec<String> {
    let facts = || texts.iter().flat_map(|text| &text.text.readings).map(|reading| &reading.fact);
    let of_monitor = |fact: &Fact| match fact {
        Fact::Monitor(monitor) => {
            monitor.devices.iter().filter_map(|d| d.last_known.as_ref().and_then(Sample::capacity)).collect()
        }
        _ => Vec::new(),
    };
    let cards: Vec<u64> = facts().flat_map(of_monitor).collect();
    let total = facts().find_map(|fact| match fact {
        Fact::Oom(message) => message.total_bytes,
        _ => None,
    });
    let Some(total) = total.filter(|_| !cards.is_empty()) else { return Vec::new() };
    // The driver keeps up to some per cent of a card for itself, which PyTorch's total leaves out.
    if cards.iter().any(|card| (*card as f64 * 0.93..=*card as f64 * 1.01).contains(&(total.bytes as f64))) {
        return Vec::new();
    }
    let nearest = cards.iter().copied().min_by_key(|card| card.abs_diff(total.bytes)).unwrap_or(0);
    vec![format!(
        "the message is of a card of {}, and the nearest that the monitor shows has {}: they are of different machines, or of \
         cards that the monitor leaves out",
        words::bytes(total.bytes),
        words::bytes(nearest)
    )]
}

/// A monitor that never saw as much in use as the recording reserves.
fn against_monitors(report: &DeviceReport, texts: &[TextInput]) -> Option<String> {
    let facts = texts.iter().flat_map(|text| &text.text.readings).map(|reading| &reading.fact);
    let highest = facts
        .filter_map(|fact| match fact {
            Fact::Monitor(monitor) => monitor
                .devices
                .iter()
                .find(|d| d.id.index.unwrap_or(0) == report.device || monitor.devices.len() == 1)
                .and_then(|d| d.used.max.filter(|_| d.used.count > 1))
                .map(|point| point.bytes),
            _ => None,
        })
        .max()?;
    let reserved = report.peak.reserved_bytes;
    (highest < reserved - reserved / 20).then(|| {
        format!(
            "the monitor shows at most {} in use on GPU {}, and the recording reserves {}: another card (CUDA_VISIBLE_DEVICES \
             renumbers them), another time, or samples too far apart",
            words::bytes(highest),
            report.device,
            words::bytes(reserved)
        )
    })
}
