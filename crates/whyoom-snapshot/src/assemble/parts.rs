//! Where in the file the snapshot is.

use whyoom_pickle::{Kind, Ref, Value};

use crate::collect::{Collector, Key, KeySet, NO_KEY, kind};

/// The parts of a snapshot among the values read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) segments: Option<Value>,
    pub(super) traces: Option<Value>,
    pub(super) annotations: Option<Value>,
    pub(super) settings: Option<Value>,
    pub(super) host_segments: Option<Value>,
    pub(super) host_traces: Option<Value>,
    /// Whether the list of segments was read to its end.
    pub(super) segments_complete: bool,
    /// Whether the file is a list of segments and nothing else.
    pub(super) is_bare_list: bool,
    /// Keys at the top.
    pub(super) keys: KeySet,
}

/// Values of a wrapper that are looked through for a snapshot.
const MOST_VISITS: usize = 10_000;
/// Levels of a wrapper that are looked through.
const MOST_LEVELS: usize = 3;

/// Finds the snapshot in `top`: itself, or inside the dicts and lists of a wrapper. `is_cut` says that the input
/// ended early.
pub(super) fn find(collector: &mut Collector, top: Value, is_cut: bool) -> Option<Parts> {
    let mut level = vec![top];
    let mut visits = 0;
    for depth in 0..=MOST_LEVELS {
        let found: Vec<Parts> = level.iter().filter_map(|v| here(collector, *v, is_cut)).collect();
        if let Some(first) = found.first() {
            if depth > 0 {
                collector
                    .warnings
                    .add("wrapped", || "the snapshot lies inside other data, which was passed over".to_owned());
            }
            if found.len() > 1 {
                let count = found.len();
                collector
                    .warnings
                    .add("several_snapshots", || format!("the file holds {count} snapshots; only the first was read"));
            }
            return Some(*first);
        }
        let inner = level.iter().filter_map(|v| v.as_ref()).flat_map(|r| {
            let items = collector.items(r).iter().map(|(_, v)| *v);
            items.chain(collector.list_items(r).iter().copied())
        });
        let is_container =
            |v: &Value| v.as_ref().is_some_and(|r| matches!(r.kind, kind::ROWS | kind::DICT | kind::LIST));
        level = inner.filter(is_container).take(MOST_VISITS - visits).collect();
        visits += level.len();
    }
    None
}

/// The snapshot that `value` itself is.
fn here(collector: &mut Collector, value: Value, is_cut: bool) -> Option<Parts> {
    let r = value.as_ref()?;
    let bare = Parts { is_bare_list: true, segments_complete: !is_cut, ..Parts::default() };
    match r.kind {
        Kind::EMPTY_LIST => Some(Parts { segments: Some(value), ..bare }),
        kind::ROWS => match collector.row_lists.get(r.index as usize).map(|(kind, _)| *kind) {
            Some(kind::SEGMENT) => Some(Parts { segments: Some(value), ..bare }),
            Some(kind::EVENT) => Some(Parts { traces: Some(value), ..bare }),
            _ => None,
        },
        kind::DICT => {
            let has = |key: Key| collector.items(r).iter().any(|(k, _)| collector.key_of(*k) == Some(key as u8));
            (has(Key::Segments) || has(Key::DeviceTraces)).then(|| parts(collector, r, is_cut))
        }
        _ => None,
    }
}

/// The parts that the dict of a snapshot names.
fn parts(collector: &mut Collector, dict: Ref, is_cut: bool) -> Parts {
    let mut parts = Parts::default();
    let items: Vec<(Value, Value)> = collector.items(dict).to_vec();
    let last = items.len().wrapping_sub(1);
    for (place, (key, value)) in items.into_iter().enumerate() {
        let tag = collector.key_of(key).unwrap_or(NO_KEY);
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
            collector.warnings.add("unknown_key", || {
                format!("keys without a known meaning were passed over, such as `{name}` beside the segments")
            });
        }
    }
    parts
}

/// `trace_alloc_overflowed`: a flag, or a list of one per device.
fn overflowed(collector: &mut Collector, value: Value) {
    let flags = match value.as_ref() {
        Some(r) if r.kind == kind::LIST => collector.list_items(r).to_vec(),
        _ => vec![value],
    };
    if flags.contains(&Value::bool(true)) {
        collector.warnings.add("ring_overflowed", || {
            "the file says that the trace lost its oldest entries to a full ring".to_owned()
        });
    }
}
