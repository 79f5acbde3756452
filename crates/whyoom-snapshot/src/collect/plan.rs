//! What to make of a dict with a given sequence of keys.

use whyoom_pickle::Value;

use super::events::EventPlan;
use super::keys::{KEYS, Key, KeySet, NO_KEY};
use crate::StrId;

/// What a dict is, told by its keys alone: position in the file plays no part, so wrappers and cut files read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Event,
    Segment,
    Block,
    Frame,
    Annotation,
    /// An entry of a block's `history` (1.13 and 2.0).
    History,
    /// A dict like any other.
    Other,
}

impl RowKind {
    /// What a dict with these keys is.
    pub(crate) const fn of(keys: KeySet) -> Self {
        if keys.has(Key::Blocks) && (keys.has(Key::Address) || keys.has(Key::TotalSize)) {
            Self::Segment
        } else if keys.has(Key::Action) {
            Self::Event
        } else if keys.has(Key::State) && keys.has(Key::Size) {
            Self::Block
        } else if keys.has(Key::Filename) && (keys.has(Key::Name) || keys.has(Key::Line)) {
            Self::Frame
        } else if keys.has(Key::Stage) && keys.has(Key::Name) {
            Self::Annotation
        } else if keys.has(Key::RealSize) {
            Self::History
        } else {
            Self::Other
        }
    }

    /// Name for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Event => "trace entry",
            Self::Segment => "segment",
            Self::Block => "block",
            Self::Frame => "frame",
            Self::Annotation => "annotation",
            Self::History => "block history entry",
            Self::Other => "dict",
        }
    }
}

/// Where the known keys stand in a dict, worked out once per sequence of keys.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: RowKind,
    pub(crate) keys: KeySet,
    places: [u8; KEYS],
    /// For trace entries.
    pub(crate) event: Option<EventPlan>,
    /// Keys without a meaning here: place, name.
    pub(crate) unknown: Vec<(u8, StrId)>,
    /// Rows read by this plan.
    pub(crate) rows: u64,
    /// First value of each of `unknown`, as text.
    pub(crate) examples: Vec<String>,
}

const ABSENT: u8 = u8::MAX;

impl Plan {
    /// The plan for `keys`, whose meaning `tag_of` tells.
    pub(crate) fn new(keys: &[u32], tag_of: impl Fn(u32) -> u8) -> Self {
        let mut set = KeySet::default();
        let mut places = [ABSENT; KEYS];
        let mut unknown = Vec::new();
        for (place, key) in keys.iter().enumerate().take(usize::from(ABSENT)) {
            let tag = tag_of(*key);
            set.add(tag);
            if let Some(slot) = places.get_mut(usize::from(tag)) {
                *slot = place as u8;
            } else {
                unknown.push((place as u8, StrId(*key)));
            }
        }
        let kind = RowKind::of(set);
        if kind == RowKind::Other {
            unknown.clear();
        } else {
            unknown.extend(keys.iter().enumerate().filter_map(|(place, key)| {
                let tag = tag_of(*key);
                (tag != NO_KEY && !belongs(kind, tag)).then_some((place as u8, StrId(*key)))
            }));
        }
        let mut plan = Self { kind, keys: set, places, event: None, unknown, rows: 0, examples: Vec::new() };
        plan.event = (kind == RowKind::Event).then(|| EventPlan::new(&plan));
        plan
    }

    /// Where `key` stands, or a place past all values.
    pub(crate) const fn place(&self, key: Key) -> u8 {
        self.places[key as usize]
    }

    /// The value of `key` among `values`.
    #[inline]
    pub(crate) fn get(&self, key: Key, values: &[Value]) -> Option<Value> {
        values.get(usize::from(self.places[key as usize])).copied()
    }
}

/// Whether a key with a meaning has one in this kind of dict.
fn belongs(kind: RowKind, tag: u8) -> bool {
    use Key as K;
    let known: &[Key] = match kind {
        RowKind::Event => &[
            K::Action,
            K::Addr,
            K::DeviceFree,
            K::Size,
            K::Stream,
            K::Frames,
            K::CppFrames,
            K::TimeUs,
            K::CompileContext,
            K::UserMetadata,
            K::InternalMetadata,
            K::PoolId,
            K::Category,
        ],
        RowKind::Segment => &[
            K::Device,
            K::Address,
            K::TotalSize,
            K::AllocatedSize,
            K::ActiveSize,
            K::RequestedSize,
            K::Stream,
            K::SegmentType,
            K::SegmentPoolId,
            K::IsExpandable,
            K::Frames,
            K::Blocks,
        ],
        RowKind::Block => &[K::Address, K::Size, K::RequestedSize, K::State, K::Frames, K::History],
        RowKind::Frame => &[
            K::Name,
            K::Filename,
            K::Line,
            K::FxNodeOp,
            K::FxNodeName,
            K::FxNodeTarget,
            K::FxOriginalTrace,
            K::FxNodeInfo,
        ],
        RowKind::Annotation => &[K::Name, K::Stage, K::Device, K::TimeUs],
        RowKind::History => &[K::Addr, K::RealSize, K::Frames, K::CppFrames],
        RowKind::Other => return true,
    };
    known.iter().any(|k| *k as u8 == tag)
}
