//! From rows to the tables of a [`Snapshot`].

mod dating;
mod devices;
mod order;
mod settings;

use std::collections::BTreeMap;

use whyoom_pickle::{Item, Kind, Ref, Value};

use crate::collect::{Collector, Key, KeySet, RowKind, kind};
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

/// The parts of a snapshot among the values read.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    segments: Option<Value>,
    traces: Option<Value>,
    annotations: Option<Value>,
    settings: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Option<Value>,
    /// Whether the list of segments was read to its end.
    segments_complete: bool,
    /// Whether the file is a list of segments and nothing else.
    is_bare_list: bool,
    keys: KeySet,
}

/// Builds the snapshot out of `top`, the outermost value.
pub(crate) fn snapshot(
    mut collector: Collector,
    top: Value,
    input_bytes: u64,
    partial: Option<Partial>,
) -> Result<Snapshot, ReadError> {
    let Some(parts) = find(&mut collector, top, partial.is_some(), 3) else {
        return Err(not_a_snapshot(&collector, top));
    };
    if let Some(Partial { what, offset }) = partial {
        collector.warnings.add("truncated", || {
            format!("the input is cut or damaged at byte {offset} of {input_bytes} ({what}); everything before was read")
        });
    }
    let torch = dating::range(&collector, &parts);
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
        streams,
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

/// Finds the snapshot in `value`: itself, or inside the dicts and lists of a wrapper.
fn find(collector: &mut Collector, value: Value, is_cut: bool, depth: usize) -> Option<Parts> {
    let r = value.as_ref()?;
    match r.kind {
        Kind::EMPTY_LIST => Some(Parts { segments: Some(value), is_bare_list: true, segments_complete: !is_cut, ..Parts::default() }),
        kind::ROWS => {
            let rows = collector.row_lists.get(r.index as usize).map(|(kind, _)| *kind);
            let bare = Parts { is_bare_list: true, ..Parts::default() };
            match rows {
                Some(kind::SEGMENT) => Some(Parts { segments: Some(value), segments_complete: !is_cut, ..bare }),
                Some(kind::EVENT) => Some(Parts { traces: Some(value), ..bare }),
                _ => None,
            }
        }
        kind::DICT => {
            let parts = parts(collector, r, is_cut);
            if parts.segments.is_some() || parts.traces.is_some() {
                return Some(parts);
            }
            let values: Vec<Value> = collector.items(r).iter().map(|(_, v)| *v).collect();
            find_in(collector, &values, is_cut, depth)
        }
        kind::LIST => {
            let values = collector.lists.get(r.index as usize).cloned().unwrap_or_default();
            find_in(collector, &values, is_cut, depth)
        }
        _ => None,
    }
}

fn find_in(collector: &mut Collector, values: &[Value], is_cut: bool, depth: usize) -> Option<Parts> {
    let depth = depth.checked_sub(1)?;
    let inner = values.iter().filter(|v| v.as_ref().is_some_and(|r| matches!(r.kind, kind::ROWS | kind::DICT | kind::LIST)));
    let found = inner.filter_map(|v| find(collector, *v, is_cut, depth)).collect::<Vec<_>>();
    if found.len() > 1 {
        collector.warnings.add("several_snapshots", || format!("the file holds {} snapshots; only the first was read", found.len()));
    }
    let first = found.first().copied()?;
    collector.warnings.add("wrapped", || "the snapshot lies inside other data, which was passed over".to_owned());
    Some(first)
}

fn parts(collector: &mut Collector, dict: Ref, is_cut: bool) -> Parts {
    let mut parts = Parts::default();
    let items: Vec<(Value, Value)> = collector.items(dict).to_vec();
    let last = items.len().wrapping_sub(1);
    for (place, (key, value)) in items.into_iter().enumerate() {
        let tag = collector.key_of(key).unwrap_or(crate::collect::NO_KEY);
        parts.keys.add(tag);
        let is = |key: Key| tag == key as u8;
        if is(Key::Segments) {
            parts.segments = Some(value);
            parts.segments_complete = !is_cut || place != last;
        } else if is(Key::DeviceTraces) {
            parts.traces = Some(value);
        } else if is(Key::ExternalAnnotations) {
            parts.annotations = Some(value);
        } else if is(Key::AllocatorSettings) {
            parts.settings = Some(value);
        } else if is(Key::HostSegments) {
            parts.host_segments = Some(value);
        } else if is(Key::HostTraces) {
            parts.host_traces = Some(value);
        } else if is(Key::TraceAllocOverflowed) {
            overflowed(collector, value);
        } else if !is(Key::Traces) && !is(Key::TraceAllocMaxEntries) {
            let name = collector.render(key, 1);
            collector.warnings.add("unknown_key", || format!("keys without a known meaning were passed over, such as `{name}` beside the segments"));
        }
    }
    parts
}

/// `trace_alloc_overflowed`: a flag, or a list of one per device.
fn overflowed(collector: &mut Collector, value: Value) {
    let flags = match value.as_ref() {
        Some(r) if r.kind == kind::LIST => collector.lists.get(r.index as usize).cloned().unwrap_or_default(),
        _ => vec![value],
    };
    if flags.contains(&Value::bool(true)) {
        collector.warnings.add("ring_overflowed", || "the file says that the trace lost its oldest entries to a full ring".to_owned());
    }
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
        let message = format!("keys without a known meaning were passed over, such as `{name}` of a {} with the value `{example}`", kind.name());
        collector.warnings.add_many("unknown_key", rows, || message);
    }
}

/// Pinned host memory is recorded beside the devices and not modelled.
fn host(collector: &mut Collector, parts: &Parts) {
    for (value, what) in [(parts.host_segments, "segments"), (parts.host_traces, "trace entries")] {
        let Some(r) = value.and_then(Value::as_ref) else { continue };
        let count = match r.kind {
            kind::ROWS => collector.row_lists.get(r.index as usize).map_or(0, |(_, rows)| rows.len()),
            kind::LIST => collector.lists.get(r.index as usize).map_or(0, |list| list.iter().map(|v| rows_in(collector, *v)).sum()),
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
            let keys: Vec<String> = collector.items(r).iter().take(5).map(|(k, _)| format!("`{}`", collector.render(*k, 1))).collect();
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
