//! PyTorch's own tables: `memory_summary()`, `memory_stats()`, `memory_snapshot()`.

use whyoom_text::Fact;
use whyoom_text::tables::{DeviceSegments, Metric, Pool, Stats, Summary};

use super::answer::{Answer, finding};
use super::dossier::{About, Subject};
use super::{next, offers};
use crate::causes::{in_bytes, in_number, in_ratio};
use crate::explanation::{Cause, Confidence, Evidence, PeakReport};
use crate::words;

/// What a table says of a device, in bytes; printed figures are rounded down.
#[derive(Debug, Default, Clone)]
struct Table {
    live: Option<u64>,
    live_peak: Option<u64>,
    active: Option<u64>,
    reserved: Option<u64>,
    reserved_peak: Option<u64>,
    /// Free parts of split segments.
    split: Option<u64>,
    /// In pools of CUDA graphs.
    private: u64,
    ooms: Option<u64>,
    retries: Option<u64>,
}

impl Table {
    fn of_summary(summary: &Summary) -> Self {
        let cells = |metric| summary.row(metric, Pool::All).map(|row| (row.current, row.peak));
        let now = |metric| cells(metric).and_then(|(current, _)| current).map(|cell| cell.least);
        let peak = |metric| cells(metric).and_then(|(_, peak)| peak).map(|cell| cell.least);
        Self {
            live: now(Metric::AllocatedBytes),
            live_peak: peak(Metric::AllocatedBytes),
            active: now(Metric::ActiveBytes),
            reserved: now(Metric::ReservedBytes),
            reserved_peak: peak(Metric::ReservedBytes),
            split: now(Metric::InactiveSplitBytes),
            private: 0,
            ooms: summary.num_ooms,
            retries: summary.num_alloc_retries,
        }
    }

    fn of_stats(stats: &Stats) -> Self {
        let get = |key: &str| stats.get(key).and_then(|value| u64::try_from(value).ok());
        let pools = stats.values.iter().filter(|(key, _)| key.starts_with("reserved_bytes_by_private_pools"));
        Self {
            live: get("allocated_bytes.all.current"),
            live_peak: get("allocated_bytes.all.peak"),
            active: get("active_bytes.all.current"),
            reserved: get("reserved_bytes.all.current"),
            reserved_peak: get("reserved_bytes.all.peak"),
            split: get("inactive_split_bytes.all.current"),
            private: pools.filter_map(|(_, value)| u64::try_from(*value).ok()).fold(0, u64::saturating_add),
            ooms: get("num_ooms"),
            retries: get("num_alloc_retries"),
        }
    }

    fn of_segments(segments: &DeviceSegments) -> Self {
        Self {
            live: Some(segments.allocated_bytes),
            active: Some(segments.active_bytes),
            reserved: Some(segments.reserved_bytes),
            ..Self::default()
        }
    }

    fn unused(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active.max(self.live)?))
    }

    fn figures(&self) -> Vec<Evidence> {
        let rows = [
            ("live", self.live),
            ("live at the peak", self.live_peak),
            ("reserved", self.reserved),
            ("reserved at the peak", self.reserved_peak),
            ("free in segments that hold live blocks", self.split),
        ];
        let mut list: Vec<Evidence> = rows
            .into_iter()
            .filter_map(|(what, bytes)| bytes.map(|b| in_bytes(format!("{what} {}", words::bytes(b)), b, &[])))
            .collect();
        let counts = [("failures counted", self.ooms), ("retries counted", self.retries)];
        list.extend(
            counts.into_iter().filter_map(|(what, n)| n.map(|n| in_number(format!("{what}: {n}"), n, "count", &[]))),
        );
        list
    }
}

pub(super) fn judge(subject: &Subject<'_>, about: &About<'_>) -> Answer {
    let of_fact = |fact: &Fact| match fact {
        Fact::Summary(summary) => Some(Table::of_summary(summary)),
        Fact::Stats(stats) => Some(Table::of_stats(stats)),
        Fact::SnapshotList(list) => list.devices.get(&subject.device).map(Table::of_segments),
        _ => None,
    };
    // The last one is the nearest to the failure.
    let Some(table) = subject.seen.iter().rev().find_map(|seen| of_fact(&seen.reading.fact)) else {
        return Answer::default();
    };
    let answer = of_table(&table, about);
    let peak = PeakReport {
        requested_bytes: 0,
        allocated_bytes: table.live_peak.or(table.live).unwrap_or(0),
        active_bytes: table.active.or(table.live_peak).unwrap_or(0),
        reserved_bytes: table.reserved_peak.or(table.reserved).unwrap_or(0),
        event: None,
    };
    Answer { peak, ..answer }
}

/// A tenth of what is reserved is the usual loss.
fn is_much(part: u64, whole: u64) -> bool {
    part >= whole / 10 && part > 0
}

fn of_table(table: &Table, about: &About<'_>) -> Answer {
    let has_failed = table.ooms.is_some_and(|n| n > 0);
    let (Some(live), Some(reserved)) = (table.live, table.reserved) else { return cut(table, has_failed) };
    let unused = table.unused().unwrap_or(0);
    let pending = table.active.unwrap_or(live).saturating_sub(live);
    if is_much(pending, reserved) && pending > live / 10 {
        let summary = format!(
            "{} are freed and still wait for another stream ({} active, {} allocated): record_stream keeps a block until that \
             stream has passed it.",
            words::bytes(pending),
            words::bytes(table.active.unwrap_or(live)),
            words::bytes(live)
        );
        return Answer::of(finding(Cause::PendingFree, Confidence::Strong, summary, pending, table.figures()))
            .ask(next::record());
    }
    if is_much(table.private, reserved) && table.private >= unused / 2 {
        let summary = format!(
            "{} of the {} reserved are pools of CUDA graphs, which nothing else may use.",
            words::bytes(table.private),
            words::bytes(reserved)
        );
        let pool = finding(Cause::PrivatePool, Confidence::Strong, summary, table.private, table.figures());
        return Answer::of(pool).offer([offers::fewer_graphs(), offers::without_graphs()]).ask(next::pools());
    }
    if has_failed && is_much(unused, reserved) {
        return pieces(table, about, reserved, unused);
    }
    if has_failed || !is_mostly_cache(table) {
        return full(table, live, has_failed);
    }
    if let Some(retries) = table.retries.filter(|n| *n > 0) {
        let summary = format!(
            "{} has run out of room: PyTorch gave back what it had cached and asked again, which costs time. {} are live in {} \
             reserved, so what is cached is in pieces that later requests cannot use.",
            words::capital(&format!("{} times the driver", words::count(retries))),
            words::bytes(live),
            words::bytes(reserved)
        );
        let layout = finding(Cause::Fragmentation, Confidence::Weak, summary, unused, table.figures());
        return Answer::of(layout).ask(next::record());
    }
    let summary = format!(
        "{} are live in {} reserved, and no request has failed by this table: the rest is cache, which is reused and is no leak.",
        words::bytes(live),
        words::bytes(reserved)
    );
    let healthy = finding(Cause::Healthy, Confidence::Weak, summary, 0, table.figures());
    Answer::of(healthy)
        .not(Cause::Fragmentation, "no request has failed; unused bytes alone are no fault")
        .ask(next::record())
}

/// Whether what was reserved at the peak is well above what was live at its peak.
fn is_mostly_cache(table: &Table) -> bool {
    let live = table.live_peak.or(table.live).unwrap_or(0);
    let reserved = table.reserved_peak.or(table.reserved).unwrap_or(0);
    is_much(reserved.saturating_sub(live), reserved)
}

/// A failure with much unused.
fn pieces(table: &Table, about: &About<'_>, reserved: u64, unused: u64) -> Answer {
    let share = unused as f64 / reserved.max(1) as f64;
    let pinned = table.split.filter(|split| *split >= unused / 2);
    let (sure, why) = match pinned {
        Some(split) => (
            Confidence::Strong,
            format!(
                " {} of it is free in segments that still hold live blocks, so it cannot be given back.",
                words::bytes(split)
            ),
        ),
        None => (Confidence::Weak, String::new()),
    };
    let summary = format!(
        "A request has failed, and {} of {} reserved are unused ({:.0} %).{why}",
        words::bytes(unused),
        words::bytes(reserved),
        share * 100.0
    );
    let mut evidence = table.figures();
    evidence.push(in_ratio(format!("{:.0} % of what is reserved is unused", share * 100.0), share, &[]));
    let mut layout = finding(Cause::Fragmentation, sure, summary, unused, evidence);
    if pinned.is_some() {
        layout.summary += " empty_cache() gives back only segments that are wholly free, and so nothing of that.";
    }
    let mut answer = Answer::of(layout).ask(next::record());
    if !about.has_expandable() && !about.lacks_expandable() {
        answer = answer.offer([offers::expandable("PyTorch 2.1 or later.")]);
    }
    answer
}

/// Little is unused: the amount.
fn full(table: &Table, live: u64, has_failed: bool) -> Answer {
    let peak = table.live_peak.unwrap_or(live);
    let said = if has_failed { "A request has failed" } else { "No request has failed by this table" };
    let summary = format!(
        "{said}. Live memory peaked at {} in {} reserved, so little is unused: a card must have more than that, whatever the \
         settings. Whether it grows from step to step, one table cannot say.",
        words::bytes(peak),
        words::bytes(table.reserved_peak.or(table.reserved).unwrap_or(peak))
    );
    let sure = if has_failed { Confidence::Strong } else { Confidence::Weak };
    let capacity = finding(Cause::Capacity, sure, summary, peak, table.figures());
    Answer::of(capacity)
        .not(Cause::Fragmentation, "little of what is reserved is unused")
        .offer([offers::smaller_batch(), offers::larger_card(peak)])
        .ask(next::record())
}

/// Rows are missing.
fn cut(table: &Table, has_failed: bool) -> Answer {
    let missing = "the row of reserved memory is missing, so what is unused is not known";
    let (Some(live), Some(peak)) = (table.live, table.live_peak) else {
        let summary = "The table is cut before its first rows; nothing can be said.";
        let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, 0, table.figures());
        return Answer::of(unknown).ask(next::whole_table());
    };
    let summary = format!(
        "The table is cut: {missing}. {} is live, and {} was at the peak{}.",
        words::bytes(live),
        words::bytes(peak),
        if has_failed { "; a request has failed" } else { "" }
    );
    // A failure while far less is live than before is the mark of a layout in pieces, and no proof.
    let cause = if has_failed && live <= peak / 2 { Cause::Fragmentation } else { Cause::Undetermined };
    Answer::of(finding(cause, Confidence::Weak, summary, 0, table.figures())).ask(next::whole_table())
}
