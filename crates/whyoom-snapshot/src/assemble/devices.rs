//! Rows, sorted to their devices.

use std::collections::BTreeMap;
use std::ops::Range;

use whyoom_pickle::{Ref, Value};

use crate::collect::{Collector, RawSegment, RowList, kind};
use crate::{Block, Device, Events, NoteKind, Segment, StrId};

/// Devices of one file at most: `c10::DeviceIndex` (`c10/core/Device.h`) has 7 bits for them in every release.
const MAX_DEVICES: usize = 128;

fn left_out(collector: &mut Collector, devices: u64) {
    if devices > 0 {
        collector.warnings.add_many("devices_left_out", devices, || {
            format!("more than {MAX_DEVICES} devices, which no PyTorch process has: the later ones were left out")
        });
    }
}

/// Hands each device the trace that the list `traces` has at its index.
pub(super) fn traces(collector: &mut Collector, traces: Option<Value>, devices: &mut BTreeMap<u32, Device>) {
    let Some(r) = traces.and_then(Value::as_ref) else { return };
    let lists: Vec<Value> = match r.kind {
        kind::LIST => collector.list_items(r).to_vec(),
        // One list of entries instead of one for each device.
        kind::ROWS => vec![Value::of(r)],
        _ => return,
    };
    let mut wanted: Vec<(u32, RowList)> = Vec::new();
    let mut budget = Budget::of(collector.events.len());
    let mut too_many = 0;
    for (device, list) in lists.iter().enumerate() {
        match list.as_ref() {
            Some(Ref { kind: kind::ROWS, .. }) if wanted.len() == MAX_DEVICES => too_many += 1,
            Some(Ref { kind: kind::ROWS, index }) => match collector.row_lists.get(index as usize) {
                Some((kind::EVENT, rows)) => wanted.extend(budget.take(rows).map(|rows| (device as u32, rows))),
                _ => odd_trace(collector, device),
            },
            Some(Ref::EMPTY_LIST) => {}
            _ => odd_trace(collector, device),
        }
    }
    budget.report(collector);
    left_out(collector, too_many);
    collector.even_out();
    let events = std::mem::take(&mut collector.events);
    let whole = 0..events.len() as u32;
    if let [(device, rows)] = wanted.as_slice()
        && rows.ranges().eq([whole])
    {
        devices.entry(*device).or_default().events = events;
        return;
    }
    let parts = split(events, &wanted);
    for ((device, _), events) in wanted.into_iter().zip(parts) {
        devices.entry(device).or_default().events = events;
    }
}

/// Rows that lists may name altogether. Lists may name a row more than once, and a hostile file would make them do so
/// without end.
struct Budget {
    left: usize,
    is_exceeded: bool,
}

impl Budget {
    /// Twice the rows that there are.
    fn of(rows: usize) -> Self {
        Self { left: 2 * rows, is_exceeded: false }
    }

    /// The part of `list` that is within the budget, if there is any.
    fn take(&mut self, list: &RowList) -> Option<RowList> {
        let kept = list.len().min(self.left);
        self.is_exceeded |= kept < list.len();
        self.left -= kept;
        (kept > 0).then(|| list.up_to(kept))
    }

    fn report(&self, collector: &mut Collector) {
        if self.is_exceeded {
            collector
                .warnings
                .add("repeated_rows", || "lists name the same rows over and over; they were cut off".to_owned());
        }
    }
}

fn odd_trace(collector: &mut Collector, device: usize) {
    collector
        .warnings
        .add("odd_trace", || format!("the trace of device {device} is no list of entries and was left out"));
}

/// Copies rows out of the common table, column by column so that only one column is held twice.
fn split(events: Events, wanted: &[(u32, RowList)]) -> Vec<Events> {
    let Events { action, addr, size, stream, stack, time_us, pool, notes } = events;
    let mut parts: Vec<Events> = wanted.iter().map(|_| Events::default()).collect();
    deal(action, wanted, |i, column| parts[i].action = column);
    deal(addr, wanted, |i, column| parts[i].addr = column);
    deal(size, wanted, |i, column| parts[i].size = column);
    deal(stream, wanted, |i, column| parts[i].stream = column);
    deal(stack, wanted, |i, column| parts[i].stack = column);
    deal(time_us, wanted, |i, column| parts[i].time_us = column);
    deal(pool, wanted, |i, column| parts[i].pool = column);
    for ((_, rows), part) in wanted.iter().zip(&mut parts) {
        let mut before = 0;
        for range in rows.ranges() {
            part.notes
                .extend(notes_in(&notes, &range).map(|(row, kind, text)| (row - range.start + before, kind, text)));
            before += range.len() as u32;
        }
    }
    parts
}

/// Notes of the events in `range`.
fn notes_in(notes: &[(u32, NoteKind, StrId)], range: &Range<u32>) -> impl Iterator<Item = (u32, NoteKind, StrId)> {
    let from = notes.partition_point(|n| n.0 < range.start);
    let to = notes.partition_point(|n| n.0 < range.end);
    notes[from..to.max(from)].iter().copied()
}

#[allow(clippy::needless_pass_by_value, reason = "frees the common column once it is dealt out")]
fn deal<T: Copy>(column: Vec<T>, wanted: &[(u32, RowList)], mut give: impl FnMut(usize, Vec<T>)) {
    if column.is_empty() {
        return;
    }
    for (i, (_, rows)) in wanted.iter().enumerate() {
        let mut part = Vec::with_capacity(rows.len().min(column.len()));
        for range in rows.ranges() {
            part.extend_from_slice(column.get(range.start as usize..range.end as usize).unwrap_or_default());
        }
        give(i, part);
    }
}

/// Hands each device its segments and their blocks.
pub(super) fn segments(collector: &mut Collector, segments: Option<Value>, devices: &mut BTreeMap<u32, Device>) {
    let Some(index) = segments.and_then(|v| v.as_kind(kind::ROWS)) else { return };
    let Some((kind::SEGMENT, rows)) = collector.row_lists.get(index as usize) else {
        collector.warnings.add("odd_segments", || "`segments` is no list of segments and was left out".to_owned());
        return;
    };
    let mut budget = Budget::of(collector.segments.len());
    let rows = budget.take(rows).unwrap_or_default();
    budget.report(collector);
    let mut budget = Budget::of(collector.blocks.len());
    let mut by_device: BTreeMap<u32, Vec<RawSegment>> = BTreeMap::new();
    for segment in rows.rows().filter_map(|row| collector.segments.get(row as usize)) {
        by_device.entry(segment.device).or_default().push(segment.clone());
    }
    let mut too_many = 0;
    for (device, mut segments) in by_device {
        if devices.len() >= MAX_DEVICES && !devices.contains_key(&device) {
            too_many += 1;
            continue;
        }
        let device = devices.entry(device).or_default();
        segments.sort_by_key(|s| s.address);
        for segment in segments {
            place(collector, &segment, device, &mut budget);
        }
    }
    budget.report(collector);
    left_out(collector, too_many);
}

/// Adds `raw` and its blocks to `device`.
fn place(collector: &mut Collector, raw: &RawSegment, device: &mut Device, budget: &mut Budget) {
    let first = device.blocks.len();
    let rows = raw.blocks.and_then(|list| collector.row_lists.get(list as usize));
    let rows =
        rows.filter(|(kind, _)| *kind == kind::BLOCK).and_then(|(_, rows)| budget.take(rows)).unwrap_or_default();
    let mut at = raw.address;
    for row in rows.rows() {
        let Some(block) = collector.blocks.get(row as usize) else { continue };
        let address = block.address.unwrap_or(at);
        if address != at {
            collector.warnings.add("blocks_not_contiguous", || {
                format!("a block is at {address:#x} where the one before ends at {at:#x}")
            });
        }
        at = address.wrapping_add(block.size);
        device.blocks.push(Block {
            address,
            size: block.size,
            requested_size: block.requested_size,
            state: block.state,
            stack: block.stack,
        });
    }
    let blocks = &device.blocks[first..];
    let sum = |states: &[crate::BlockState]| -> u64 {
        blocks.iter().filter(|b| states.contains(&b.state)).fold(0, |sum, b| sum.wrapping_add(b.size))
    };
    let (allocated, pending, free) =
        (sum(&[crate::BlockState::Allocated]), sum(&[crate::BlockState::PendingFree]), sum(&[crate::BlockState::Free]));
    let total = allocated.wrapping_add(pending).wrapping_add(free);
    let told = [
        ("total_size", raw.total_size, total),
        ("allocated_size", raw.allocated_size, allocated),
        ("active_size", raw.active_size, allocated.wrapping_add(pending)),
    ];
    for (key, told, summed) in told {
        if let Some(told) = told.filter(|told| *told != summed) {
            collector.warnings.add("segment_sums", || {
                format!("the segment at {:#x} says {key} {told}, its blocks sum up to {summed}", raw.address)
            });
        }
    }
    device.segments.push(Segment {
        address: raw.address,
        total_size: raw.total_size.unwrap_or(total),
        stream: raw.stream,
        is_small: raw.is_small,
        pool: raw.pool,
        is_expandable: raw.is_expandable,
        stack: raw.stack,
        blocks: first as u32..device.blocks.len() as u32,
    });
}
