//! The keys that some dialect writes.

/// A key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Key {
    Action,
    Addr,
    Address,
    DeviceFree,
    Size,
    Stream,
    Frames,
    CppFrames,
    ForwardFrames,
    TimeUs,
    CompileContext,
    UserMetadata,
    InternalMetadata,
    PoolId,
    Category,
    Device,
    TotalSize,
    AllocatedSize,
    ActiveSize,
    RequestedSize,
    SegmentType,
    SegmentPoolId,
    IsExpandable,
    Blocks,
    State,
    History,
    RealSize,
    Name,
    Filename,
    Line,
    Stage,
    FxNodeOp,
    FxNodeName,
    FxNodeTarget,
    FxOriginalTrace,
    FxNodeInfo,
    Segments,
    DeviceTraces,
    AllocatorSettings,
    ExternalAnnotations,
    HostSegments,
    HostTraces,
    TraceAllocOverflowed,
    TraceAllocMaxEntries,
    Traces,
}

/// Number of [`Key`]s.
pub(crate) const KEYS: usize = Key::Traces as usize + 1;

/// Tag of a text that is no key.
pub(crate) const NO_KEY: u8 = u8::MAX;

impl Key {
    /// The tag of `text`: a [`Key`] as a number, or [`NO_KEY`].
    pub(crate) fn tag(text: &str) -> u8 {
        let key = match text {
            "action" => Self::Action,
            "addr" => Self::Addr,
            "address" => Self::Address,
            "device_free" => Self::DeviceFree,
            "size" => Self::Size,
            "stream" => Self::Stream,
            "frames" => Self::Frames,
            "cpp_frames" => Self::CppFrames,
            "forward_frames" => Self::ForwardFrames,
            "time_us" => Self::TimeUs,
            "compile_context" => Self::CompileContext,
            "user_metadata" => Self::UserMetadata,
            "internal_metadata" => Self::InternalMetadata,
            "pool_id" => Self::PoolId,
            "category" => Self::Category,
            "device" => Self::Device,
            "total_size" => Self::TotalSize,
            "allocated_size" => Self::AllocatedSize,
            "active_size" => Self::ActiveSize,
            "requested_size" => Self::RequestedSize,
            "segment_type" => Self::SegmentType,
            "segment_pool_id" => Self::SegmentPoolId,
            "is_expandable" => Self::IsExpandable,
            "blocks" => Self::Blocks,
            "state" => Self::State,
            "history" => Self::History,
            "real_size" => Self::RealSize,
            "name" => Self::Name,
            "filename" => Self::Filename,
            "line" => Self::Line,
            "stage" => Self::Stage,
            "fx_node_op" => Self::FxNodeOp,
            "fx_node_name" => Self::FxNodeName,
            "fx_node_target" => Self::FxNodeTarget,
            "fx_original_trace" => Self::FxOriginalTrace,
            "fx_node_info" => Self::FxNodeInfo,
            "segments" => Self::Segments,
            "device_traces" => Self::DeviceTraces,
            "allocator_settings" => Self::AllocatorSettings,
            "external_annotations" => Self::ExternalAnnotations,
            "host_segments" => Self::HostSegments,
            "host_traces" => Self::HostTraces,
            "trace_alloc_overflowed" => Self::TraceAllocOverflowed,
            "trace_alloc_max_entries" => Self::TraceAllocMaxEntries,
            "traces" => Self::Traces,
            _ => return NO_KEY,
        };
        key as u8
    }
}

/// A set of [`Key`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeySet(u64);

impl KeySet {
    pub(crate) const fn add(&mut self, tag: u8) {
        if (tag as usize) < KEYS {
            self.0 |= 1 << tag;
        }
    }

    pub(crate) const fn has(self, key: Key) -> bool {
        self.0 >> key as u8 & 1 == 1
    }

    pub(crate) const fn union(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
