//! Memory events of a profiler's trace: live and reserved bytes over time, without stacks.

use whyoom_text::Fact;
use whyoom_text::profilers::ProfiledDevice;
use whyoom_text::series::{Shape, analyse};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_number};
use crate::explanation::{Cause, Confidence, PeakReport};
use crate::words;

pub(super) fn judge(subject: &Subject<'_>, _: &About<'_>) -> Answer {
    let found = subject.seen.iter().find_map(|seen| match &seen.reading.fact {
        Fact::ProfilerTrace(trace) => {
            trace.devices.iter().find(|d| d.device == subject.device).map(|d| (d, trace.steps))
        }
        _ => None,
    });
    let Some((device, steps)) = found else { return Answer::default() };
    let max = |series: &whyoom_text::series::Series| series.max.map_or(0, |point| point.bytes);
    let peak = PeakReport {
        requested_bytes: 0,
        allocated_bytes: max(&device.allocated),
        active_bytes: max(&device.allocated),
        reserved_bytes: max(&device.reserved),
        event: None,
    };
    Answer { peak, steps, ..of_device(device, steps) }
}

fn of_device(device: &ProfiledDevice, steps: u64) -> Answer {
    let mut evidence = vec![
        in_number(format!("{} allocations", words::count(device.allocations)), device.allocations, "count", &[]),
        in_bytes(
            format!("{} of what was allocated in the trace was not freed in it", words::bytes(device.unfreed_bytes)),
            device.unfreed_bytes,
            &[],
        ),
    ];
    if let Some(largest) = device.largest.first() {
        evidence.push(in_bytes(
            format!("the largest allocation is {}", words::bytes(largest.bytes)),
            largest.bytes,
            &[],
        ));
    }
    if let Some(failed) = device.out_of_memory.first() {
        return failure(device, failed, evidence);
    }
    let peak = device.allocated.max.map_or(0, |p| p.bytes);
    let last = device.allocated.last.map_or(0, |p| p.bytes);
    let analysis = analyse(&device.allocated);
    if let (Shape::Growth { .. } | Shape::Staircase { .. }, true, Some(pace)) =
        (analysis.shape, steps > 2, analysis.per_step)
        && pace > 0.0
    {
        let summary = format!(
            "Live memory grows by {} a step over {}: something is kept from step to step.",
            words::bytes(pace as u64),
            words::plural(steps, "step", "steps")
        );
        let leak = finding(Cause::Leak, Confidence::Weak, summary, (pace * steps as f64) as u64, evidence);
        return Answer::of(leak).offer(offers::no_graph_kept()).ask(next::record());
    }
    let summary = format!(
        "No request fails in the trace. Live memory peaks at {} and ends at {}, in {} reserved.",
        words::bytes(peak),
        words::bytes(last),
        words::bytes(device.reserved.max.map_or(0, |p| p.bytes))
    );
    let healthy = finding(Cause::Healthy, Confidence::Weak, summary, 0, evidence);
    Answer::of(healthy).ask(next::record())
}

fn failure(
    device: &ProfiledDevice,
    failed: &whyoom_text::profilers::FailedRequest,
    mut evidence: Vec<crate::explanation::Evidence>,
) -> Answer {
    let (live, reserved) = (failed.allocated.unwrap_or(0), failed.reserved.unwrap_or(0));
    let unused = reserved.saturating_sub(live);
    evidence.push(in_bytes(format!("asked for {}", words::bytes(failed.bytes)), failed.bytes, &[]));
    let times = words::plural(device.out_of_memory.len() as u64, "request fails", "requests fail");
    let summary = format!(
        "{times} in the trace, the first of {} with {} live and {} reserved.",
        words::bytes(failed.bytes),
        words::bytes(live),
        words::bytes(reserved)
    );
    let answer = if unused >= failed.bytes && unused >= reserved / 10 {
        let text = format!("{summary} {} lie unused, enough for it, but in pieces.", words::bytes(unused));
        Answer::of(finding(Cause::Fragmentation, Confidence::Strong, text, unused, evidence))
    } else if unused < reserved / 10 {
        let text = format!("{summary} Little is unused: the amount is at fault.");
        Answer::of(finding(Cause::Capacity, Confidence::Weak, text, failed.bytes, evidence))
    } else {
        Answer::of(finding(Cause::Undetermined, Confidence::Weak, summary, failed.bytes, evidence))
    };
    answer.ask(next::record())
}
