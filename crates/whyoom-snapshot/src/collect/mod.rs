//! Turns closing containers into rows of tables.

mod dicts;
mod events;
mod keys;
mod lists;
mod plan;
mod rows;
mod segments;
mod sequences;
mod small;

use whyoom_pickle::{Item, Kind, Ref, Refusal, ShapeId, Shapes, Sink, Value};

use crate::{
    Action, Events, FrameId, PoolRef, StackId, StackTableBuilder, StrId, StreamId, StringTableBuilder, Warnings,
};

pub(crate) use dicts::Slot;
pub(crate) use keys::{Key, KeySet, NO_KEY};
use lists::PlainList;
pub(crate) use plan::{Plan, RowKind};
pub(crate) use rows::{RawAnnotation, RawBlock, RawHistory, RawSegment, RowList};
use sequences::Sequences;
use small::Distinct;

/// Kinds of what the collector returns for a container.
pub(crate) mod kind {
    use whyoom_pickle::Kind;

    pub(crate) const FRAME: Kind = Kind(Kind::FIRST_FREE.0);
    /// A list of frames; the index is that of its stack.
    pub(crate) const FRAMES: Kind = Kind(Kind::FIRST_FREE.0 + 1);
    pub(crate) const EVENT: Kind = Kind(Kind::FIRST_FREE.0 + 2);
    pub(crate) const BLOCK: Kind = Kind(Kind::FIRST_FREE.0 + 3);
    pub(crate) const SEGMENT: Kind = Kind(Kind::FIRST_FREE.0 + 4);
    pub(crate) const ANNOTATION: Kind = Kind(Kind::FIRST_FREE.0 + 5);
    pub(crate) const HISTORY: Kind = Kind(Kind::FIRST_FREE.0 + 6);
    /// A list of rows of one of the four kinds above.
    pub(crate) const ROWS: Kind = Kind(Kind::FIRST_FREE.0 + 7);
    /// Two integers.
    pub(crate) const PAIR: Kind = Kind(Kind::FIRST_FREE.0 + 8);
    /// A dict like any other.
    pub(crate) const DICT: Kind = Kind(Kind::FIRST_FREE.0 + 9);
    /// A list or tuple like any other.
    pub(crate) const LIST: Kind = Kind(Kind::FIRST_FREE.0 + 10);
}

/// Values of dicts and lists without a known meaning that are kept, beside one for every 16 bytes of input; a
/// wrapper's own data beyond that is dropped.
const PLAIN_VALUES: usize = 1 << 18;
/// Bytes of a file for one trace entry, roughly, if it holds little else. Room for entries that never come is not used
/// and costs no memory.
const BYTES_PER_EVENT: usize = 96;
/// Texts of up to seven bytes are found in a table of this many places before they are hashed.
const SHORT_TEXTS: usize = 256;

/// What is known of a text by its spelling alone.
#[derive(Debug, Clone, Copy)]
struct Word {
    /// [`Key`] as a number.
    key: u8,
    /// The action it names as a trace entry's `action`.
    action: Action,
}

/// Who numbered the shape of a dict.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The reader, for dicts that come whole.
    Whole,
    /// The collector, for dicts that were filled bit by bit.
    Settled,
}

/// Receives containers and keeps their rows.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) strings: StringTableBuilder,
    words: Vec<Word>,
    short: Vec<(u64, u32)>,
    pub(crate) stacks: StackTableBuilder,
    sequences: Sequences,
    scratch: Vec<FrameId>,
    /// Plans by [`Source`] and shape.
    plans: [Vec<Option<Box<Plan>>>; 2],
    settled_shapes: Shapes,
    /// Events in the order in which they closed, over all lists.
    pub(crate) events: Events,
    pub(crate) blocks: Vec<RawBlock>,
    pub(crate) segments: Vec<RawSegment>,
    pub(crate) annotations: Vec<RawAnnotation>,
    pub(crate) history: Vec<RawHistory>,
    /// Lists of rows, with the kind of their rows.
    pub(crate) row_lists: Vec<(Kind, RowList)>,
    pub(crate) dicts: Vec<Slot>,
    lists: Vec<PlainList>,
    pairs: Distinct<(i64, i64)>,
    /// Trace entries for which room is made when the first one comes.
    events_to_come: usize,
    plain_left: usize,
    /// The same, for lists and dicts that hold rows.
    holding_left: usize,
    streams: Distinct<u64>,
    pools: Distinct<(u64, u64)>,
    last_pool: (u32, PoolRef),
    not_available: StrId,
    pub(crate) warnings: Warnings,
}

impl Collector {
    /// A collector for `input_bytes` bytes of input.
    pub(crate) fn new(input_bytes: usize) -> Self {
        let mut collector = Self {
            strings: StringTableBuilder::default(),
            words: Vec::new(),
            short: vec![(0, u32::MAX); SHORT_TEXTS],
            stacks: StackTableBuilder::default(),
            sequences: Sequences::default(),
            scratch: Vec::new(),
            plans: [Vec::new(), Vec::new()],
            settled_shapes: Shapes::default(),
            events: Events::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            history: Vec::new(),
            row_lists: Vec::new(),
            dicts: Vec::new(),
            lists: Vec::new(),
            pairs: Distinct::starting_with((0, 0)),
            events_to_come: input_bytes / BYTES_PER_EVENT,
            plain_left: PLAIN_VALUES + input_bytes / 16,
            holding_left: PLAIN_VALUES / 4,
            streams: Distinct::starting_with(0),
            pools: Distinct::starting_with((0, 0)),
            last_pool: (0, PoolRef::DEFAULT),
            not_available: StrId(0),
            warnings: Warnings::default(),
        };
        collector.intern("");
        collector.not_available = StrId(collector.intern("N/A"));
        collector
    }

    fn intern(&mut self, text: &str) -> u32 {
        let id = self.strings.intern(text).0;
        if id as usize == self.words.len() {
            self.words.push(Word { key: Key::tag(text), action: events::action(text) });
        }
        id
    }

    fn intern_bytes(&mut self, text: &[u8]) -> u32 {
        if let Ok(text) = std::str::from_utf8(text) {
            return self.intern(text);
        }
        let repaired = String::from_utf8_lossy(text).into_owned();
        self.warnings.add("text_repaired", || format!("a text is not valid UTF-8 and was repaired: `{repaired}`"));
        self.intern(&repaired)
    }

    /// The stream with pointer value `raw`.
    #[inline]
    fn stream(&mut self, raw: u64) -> StreamId {
        if let Some(place) = self.streams.intern(raw, usize::from(u16::MAX)) {
            return StreamId(place as u16);
        }
        self.warnings.add("streams_merged", || {
            format!("more than {} streams: stream {raw:#x} and later ones read as the default stream", u16::MAX)
        });
        StreamId(0)
    }

    /// The pool that a `(int, int)` value names.
    #[inline]
    fn pool(&mut self, value: Option<Value>) -> PoolRef {
        match value.and_then(|v| v.as_kind(kind::PAIR)) {
            Some(index) if index == self.last_pool.0 => self.last_pool.1,
            Some(index) => {
                let (a, b) = self.pairs.get(index).unwrap_or_default();
                let pool =
                    self.pools.intern((a as u64, b as u64), usize::from(u16::MAX)).map(|place| PoolRef(place as u16));
                let pool = pool.unwrap_or_else(|| {
                    self.warnings.add("pools_merged", || {
                        format!("more than {} pools: pool ({a}, {b}) and later ones read as unknown", u16::MAX)
                    });
                    PoolRef::UNKNOWN
                });
                self.last_pool = (index, pool);
                pool
            }
            None => PoolRef::UNKNOWN,
        }
    }

    /// The stack that a `frames` value is; `None` without the key.
    #[inline]
    fn stack(&mut self, frames: Option<Value>) -> Option<StackId> {
        match frames?.item() {
            Item::Ref(Ref { kind: kind::FRAMES, index }) => Some(StackId(index)),
            Item::Ref(Ref::EMPTY_LIST) | Item::EmptyTuple => Some(StackId::EMPTY),
            Item::Ref(Ref { kind: kind::LIST, index }) => self.stack_of_list(index),
            Item::None => None,
            _ => {
                self.warnings.add("odd_frames", || "a `frames` value is no list of frames and was left out".to_owned());
                None
            }
        }
    }

    #[inline]
    fn row_from(&mut self, source: Source, shape: ShapeId, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal> {
        let at = shape.0 as usize;
        if let Some(Some(plan)) = self.plans[source as usize].get_mut(at)
            && let Some(event) = plan.event
        {
            plan.rows += 1;
            let made = self.event(event, values)?;
            if event.has_more {
                self.rest_of_event(source, at, values);
            }
            return Ok(made);
        }
        self.row_of_kind(source, at, keys, values)
    }

    #[inline(never)]
    fn rest_of_event(&mut self, source: Source, at: usize, values: &[Value]) {
        if let Some(plan) = self.plans[source as usize].get_mut(at).and_then(Option::take) {
            self.event_more(&plan, values);
            self.plans[source as usize][at] = Some(plan);
        }
    }

    #[inline(never)]
    fn row_of_kind(&mut self, source: Source, at: usize, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal> {
        if self.plans[source as usize].get(at).is_none_or(Option::is_none) {
            self.new_plan(source, at, keys, values);
            return self.row_from(source, ShapeId(at as u32), keys, values);
        }
        let Some(mut plan) = self.plans[source as usize].get_mut(at).and_then(Option::take) else {
            return Err(Refusal::NotAContainer);
        };
        plan.rows += 1;
        let made = self.row_of(&plan, keys, values);
        self.plans[source as usize][at] = Some(plan);
        Ok(made)
    }

    pub(crate) fn into_tables(self) -> (StringTableBuilder, StackTableBuilder, Vec<u64>, Vec<(u64, u64)>, Warnings) {
        (self.strings, self.stacks, self.streams.into_items(), self.pools.into_items(), self.warnings)
    }

    /// Plans in use, in the order of their first dict.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.iter().flatten().flatten().map(AsRef::as_ref)
    }

    pub(crate) fn text_of(&self, id: StrId) -> &str {
        self.strings.table().get(id)
    }
}

impl Sink for Collector {
    #[inline]
    fn text(&mut self, text: &[u8]) -> Result<u32, Refusal> {
        if let Some(word) = short_text(text) {
            let place = (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % SHORT_TEXTS;
            let (known, id) = self.short[place];
            if known == word && id != u32::MAX {
                return Ok(id);
            }
            let id = self.intern_bytes(text);
            self.short[place] = (word, id);
            return Ok(id);
        }
        Ok(self.intern_bytes(text))
    }

    fn resolve(&self, text: u32) -> &str {
        self.strings.table().get(StrId(text))
    }

    #[inline]
    fn row(&mut self, shape: ShapeId, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal> {
        self.row_from(Source::Whole, shape, keys, values)
    }

    fn dict(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        self.extend_dict(target, items)
    }

    fn list(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        self.extend_list(target, items)
    }

    #[inline]
    fn tuple(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        if let [a, b] = items
            && let (Some(a), Some(b)) = (a.as_int(), b.as_int())
        {
            return self.pair(a, b);
        }
        self.extend_list(Ref::EMPTY_LIST, items)
    }

    fn is_interned(&self, kind: Kind) -> bool {
        matches!(kind, kind::FRAME | kind::FRAMES | kind::PAIR)
    }

    fn salvage(&mut self, target: Ref, items: &[Value]) -> Option<Ref> {
        self.salvage_container(target, items)
    }
}

/// A text of at most seven bytes and its length as one number.
#[inline]
fn short_text(text: &[u8]) -> Option<u64> {
    // Overlapping reads instead of a copy of variable length.
    let word = match *text {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        [a, b, c, d, ..] if text.len() <= 7 => {
            let last = text.last_chunk::<4>().map_or(0, |l| u32::from_le_bytes(*l));
            u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(last) << (8 * (text.len() - 4))
        }
        _ => return None,
    };
    Some(word | (text.len() as u64) << 56)
}
