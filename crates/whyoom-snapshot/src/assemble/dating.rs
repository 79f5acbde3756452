//! Which release wrote a file.

use super::Parts;
use crate::TorchRange;
use crate::collect::{Collector, Key, KeySet, RowKind};

/// The release range that the keys allow.
pub(super) fn range(collector: &Collector, parts: &Parts) -> TorchRange {
    let keys_of = |kind: RowKind| {
        let mut keys = KeySet::default();
        for plan in collector.plans().filter(|p| p.kind == kind && p.rows > 0) {
            keys.union(plan.keys);
        }
        keys
    };
    let (event, segment, block) = (keys_of(RowKind::Event), keys_of(RowKind::Segment), keys_of(RowKind::Block));
    let cpp_frames = event.has(Key::CppFrames) || keys_of(RowKind::History).has(Key::CppFrames);
    let has_events = !collector.events.is_empty();
    let top = |key| parts.keys.has(key);
    let told = |at_least: &str, below: &str, because: &str| TorchRange {
        at_least: (!at_least.is_empty()).then(|| at_least.to_owned()),
        below: (!below.is_empty()).then(|| below.to_owned()),
        because: because.to_owned(),
    };
    if parts.is_bare_list {
        return match () {
            () if block.has(Key::Frames) || segment.has(Key::IsExpandable) => {
                told("2.1", "", "a bare list of segments, whose blocks have `frames` or which have `is_expandable`")
            }
            () if block.has(Key::RequestedSize) => {
                told("2.0", "2.1", "a bare list of segments with `requested_size` and without `is_expandable`")
            }
            () if segment.has(Key::Stream) => {
                told("1.13", "2.0", "a bare list of segments with `stream` and without `requested_size`")
            }
            () if segment != KeySet::default() => told("1.4", "1.13", "a bare list of segments without `stream`"),
            () => told("", "", "a bare list that holds nothing to date it by"),
        };
    }
    match () {
        () if event.has(Key::Category) => {
            told("2.0", "", "`category` in the trace: converted from a profile, not recorded by the allocator")
        }
        () if event.has(Key::InternalMetadata) => told("2.15", "", "`internal_metadata` in the trace"),
        () if top(Key::HostSegments) || top(Key::HostTraces) => {
            told("2.14", "", "`host_segments` or `host_traces` at the top")
        }
        () if event.has(Key::PoolId) => told("2.12", "2.14", "`pool_id` in the trace, no `host_segments`"),
        () if event.has(Key::UserMetadata) => told("2.10", "2.12", "`user_metadata` in the trace, no `pool_id`"),
        () if event.has(Key::CompileContext) => {
            told("2.7", "2.10", "`compile_context` in the trace, no `user_metadata`")
        }
        () if top(Key::ExternalAnnotations) && has_events => {
            told("2.5", "2.9", "`external_annotations`, no `compile_context` in the trace")
        }
        () if top(Key::ExternalAnnotations) => told("2.5", "", "`external_annotations`; the empty trace tells no more"),
        () if top(Key::AllocatorSettings) => told("2.3", "2.5", "`allocator_settings`, no `external_annotations`"),
        () if event.has(Key::TimeUs) => told("2.2", "2.3", "`time_us` in the trace, no `allocator_settings`"),
        () if block.has(Key::History) || cpp_frames => told("2.0", "2.1", "`history` in blocks or `cpp_frames`"),
        () if segment.has(Key::IsExpandable) || block.has(Key::Frames) => {
            let below = if has_events { "2.2" } else { "2.3" };
            told("2.1", below, "`is_expandable` or `frames` in blocks, no `time_us`, no `allocator_settings`")
        }
        () if segment != KeySet::default() => told("2.0", "2.1", "a dict of segments without `is_expandable`"),
        () => told("2.0", "", "a dict with a trace; nothing in it tells more"),
    }
}
