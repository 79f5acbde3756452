//! From rows to the tables of a [`Snapshot`].

mod dating;
mod devices;
mod order;
mod parts;
mod settings;

use std::collections::BTreeMap;

use whyoom_pickle::{Item, Kind, Value};

use parts::Parts;

use crate::collect::{Collector, Key, RowKind, kind};
use crate::read::ReadError;
use crate::{Annotation, Device, Snapshot, StrId};

/// Where and why the input ended early.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    /// What was wrong, without a full stop.
    pub(crate) what: String,
    /// Byte offset.
    pub(crate) offset: u64,
}

/// Builds the snapshot out of `top`, the outermost value.
pub(crate) fn snapshot(
    mut collector: Collector,
    top: Value,
    input_bytes: u64,
    partial: Option<&Partial>,
) -> Result<Snapshot, ReadError> {
    let Some(parts) = parts::find(&mut collector, top, partial.is_some()) else {
        return Err(not_a_snapshot(&collector, top));
    };
    if let Some(Partial { what, offset }) = partial {
        collector.warnings.add("truncated", || {
            format!(
                "the input is cut or damaged at byte {offset} of {input_bytes} ({what}); everything before was read"
            )
        });
    }
    let mut torch = dating::range(&collector, &parts);
    if partial.is_some() {
        // A key that is missing may have stood in the part that is missing.
        torch.below = None;
        torch.because.push_str("; the end of the file is missing, and with it perhaps keys of later releases");
    }
    if collector.plans().any(|p| p.kind == RowKind::Event && p.keys.has(Key::Category)) {
        collector.warnings.add("from_profile", || {
            "the trace was converted from a profile: it has no driver calls and no frees by the allocator, so that it cannot be replayed".to_owned()
        });
    }
    unknown_keys(&mut collector);
    let mut devices: BTreeMap<u32, Device> = BTreeMap::new();
    devices::traces(&mut collector, parts.traces, &mut devices);
    devices::segments(&mut collector, parts.segments, &mut devices);
    for device in devices.values_mut() {
        device.has_segments = parts.segments.is_some() && parts.segments_complete;
        order::by_time(device, &mut collector.warnings);
    }
    host(&mut collector, &parts);
    let annotations = annotations(&mut collector, parts.annotations);
    let settings = parts.settings.and_then(|value| settings::settings(&collector, value));
    let (strings, stacks, streams, pools, warnings) = collector.into_tables();
    Ok(Snapshot {
        devices: devices.into_iter().map(|(index, device)| Device { index, ..device }).collect(),
        streams: streams.into(),
        pools,
        strings: strings.finish(),
        stacks: stacks.finish(),
        annotations,
        settings,
        torch,
        warnings,
        input_bytes,
    })
}

/// Counts keys that rows have and that mean nothing here.
fn unknown_keys(collector: &mut Collector) {
    let mut found: Vec<(RowKind, StrId, u64, String)> = Vec::new();
    for plan in collector.plans() {
        for ((_, name), example) in plan.unknown.iter().zip(&plan.examples) {
            found.push((plan.kind, *name, plan.rows, example.clone()));
        }
    }
    for (kind, name, rows, example) in found {
        let name = collector.text_of(name).to_owned();
        let example: String = example.chars().take(60).collect();
        let message = format!(
            "keys without a known meaning were passed over, such as `{name}` of a {} with the value `{example}`",
            kind.name()
        );
        collector.warnings.add_many("unknown_key", rows, || message);
    }
}

/// Pinned host memory is recorded beside the devices and not modelled.
fn host(collector: &mut Collector, parts: &Parts) {
    for (value, what) in [(parts.host_segments, "segments"), (parts.host_traces, "trace entries")] {
        let Some(r) = value.and_then(Value::as_ref) else { continue };
        let count = match r.kind {
            kind::ROWS => collector.row_lists.get(r.index as usize).map_or(0, |(_, rows)| rows.len()),
            kind::LIST => collector.list_items(r).iter().map(|v| rows_in(collector, *v)).sum(),
            _ => 0,
        };
        collector.warnings.add_many("host_memory", count as u64, || {
            format!("{count} {what} of pinned host memory are in the file and were passed over: only device memory is replayed")
        });
    }
}

/// Rows in a list within a list; one for anything else.
fn rows_in(collector: &Collector, value: Value) -> usize {
    match value.as_ref() {
        Some(r) if r.kind == kind::ROWS => collector.row_lists.get(r.index as usize).map_or(0, |(_, rows)| rows.len()),
        Some(r) if r.kind == Kind::EMPTY_LIST => 0,
        _ => 1,
    }
}

fn annotations(collector: &mut Collector, value: Option<Value>) -> Vec<Annotation> {
    let Some(index) = value.and_then(|v| v.as_kind(kind::ROWS)) else { return Vec::new() };
    let Some((kind::ANNOTATION, rows)) = collector.row_lists.get(index as usize) else { return Vec::new() };
    let mut annotations: Vec<Annotation> = rows
        .rows()
        .filter_map(|row| collector.annotations.get(row as usize))
        .map(|a| Annotation { name: a.name, is_start: a.is_start, device: a.device, time_us: a.time_us })
        .collect();
    annotations.sort_by_key(|a| a.time_us);
    annotations
}

/// What `top` looks like instead of a snapshot.
fn not_a_snapshot(collector: &Collector, top: Value) -> ReadError {
    let looks_like = match top.item() {
        Item::Ref(r) if r.kind == kind::DICT => {
            let keys: Vec<String> =
                collector.items(r).iter().take(5).map(|(k, _)| format!("`{}`", collector.render(*k, 1))).collect();
            format!("a dict with the keys {}", keys.join(", "))
        }
        Item::Ref(r) if r.kind == Kind::EMPTY_DICT => "an empty dict".to_owned(),
        Item::Ref(r) if r.kind == kind::LIST || r.kind == kind::PAIR => {
            format!("a list, {}", collector.render(top, 1).chars().take(60).collect::<String>())
        }
        Item::Ref(r) if r.kind == kind::SEGMENT => "a single segment; dump the whole list".to_owned(),
        Item::Ref(r) if r.kind == Kind::TEXT => "a pickled text".to_owned(),
        Item::Ref(_) => "rows of some other tool".to_owned(),
        _ => format!("the pickled value {}", collector.render(top, 1)),
    };
    crate::read::not_a_snapshot(&looks_like)
}
