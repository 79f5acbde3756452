//! Trace entries.

use whyoom_pickle::{Item, Ref, Refusal, Value};

use super::{Collector, Key, Plan, kind};
use crate::{Action, NoteKind, PoolRef, StackId, StrId};

/// The action that `text` names.
pub(super) fn action(text: &str) -> Action {
    match text {
        "alloc" => Action::Alloc,
        "free_requested" => Action::FreeRequested,
        "free_completed" => Action::FreeCompleted,
        "segment_alloc" => Action::SegmentAlloc,
        "segment_free" => Action::SegmentFree,
        "segment_map" => Action::SegmentMap,
        "segment_unmap" => Action::SegmentUnmap,
        "snapshot" => Action::Snapshot,
        "oom" => Action::Oom,
        "annotate" => Action::Annotate,
        _ => Action::Other,
    }
}

/// A size or address: the C++ pickler writes addresses as signed numbers.
#[inline]
pub(super) fn unsigned(value: Option<Value>) -> Option<u64> {
    let value = value?;
    match value.as_address() {
        None => unsigned_of_other(value),
        number => number,
    }
}

#[cold]
fn unsigned_of_other(value: Value) -> Option<u64> {
    match value.item() {
        Item::Bool(b) => Some(u64::from(b)),
        Item::Float(f) if f >= 0.0 => Some(f as u64),
        _ => None,
    }
}

#[inline]
pub(super) fn signed(value: Option<Value>) -> Option<i64> {
    match value?.item() {
        Item::Int(n) => Some(n),
        Item::Float(f) => Some(f as i64),
        _ => None,
    }
}

/// Where the columns of a trace entry stand among the values of its dict.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventPlan {
    action: u8,
    addr: u8,
    size: u8,
    stream: u8,
    frames: u8,
    time_us: u8,
    compile_context: u8,
    user_metadata: u8,
    device_free: u8,
    /// Whether there are keys beside these.
    pub(super) has_more: bool,
}

impl EventPlan {
    pub(super) fn new(plan: &Plan) -> Self {
        let more = [Key::PoolId, Key::InternalMetadata, Key::CppFrames];
        Self {
            action: plan.place(Key::Action),
            addr: plan.place(Key::Addr),
            size: plan.place(Key::Size),
            stream: plan.place(Key::Stream),
            frames: plan.place(Key::Frames),
            time_us: plan.place(Key::TimeUs),
            compile_context: plan.place(Key::CompileContext),
            user_metadata: plan.place(Key::UserMetadata),
            device_free: plan.place(Key::DeviceFree),
            has_more: more.iter().any(|key| plan.keys.has(*key)),
        }
    }
}

impl Collector {
    /// Adds a row to the columns of the trace.
    #[inline]
    pub(super) fn event(&mut self, at: EventPlan, values: &[Value]) -> Result<Ref, Refusal> {
        let value = |place: u8| values.get(usize::from(place)).copied();
        let row = self.events.len();
        if row >= u32::MAX as usize {
            return Err(Refusal::Full);
        }
        if row == 0 {
            self.make_room();
        }
        let name = value(at.action).and_then(Value::as_text);
        let action = name.and_then(|n| self.words.get(n as usize)).map_or(Action::Other, |w| w.action);
        let mut addr = value(at.addr);
        if action == Action::Oom {
            addr = value(at.device_free).or(addr);
        }
        let stream = unsigned(value(at.stream)).unwrap_or(0);
        let stream = self.stream(stream);
        let stack = self.stack(value(at.frames)).unwrap_or(StackId::MISSING);
        self.events.action.push(action);
        self.events.addr.push(unsigned(addr).unwrap_or(0));
        self.events.size.push(unsigned(value(at.size)).unwrap_or(0));
        self.events.stream.push(stream);
        self.events.stack.push(stack);
        if let Some(time) = value(at.time_us) {
            if self.events.time_us.len() < row {
                self.fill_times(row);
            }
            self.events.time_us.push(signed(Some(time)).unwrap_or(0));
        }
        if action == Action::Other {
            self.other_action(row, name);
        }
        if let Some(context) = value(at.compile_context)
            && context.as_text().is_none_or(|c| c != self.not_available.0 && c != 0)
        {
            self.note(row, NoteKind::CompileContext, context);
        }
        if let Some(data) = value(at.user_metadata)
            && data.as_text() != Some(0)
        {
            self.note(row, NoteKind::UserMetadata, data);
        }
        Ok(Ref::new(kind::EVENT, row as u32))
    }

    #[cold]
    fn make_room(&mut self) {
        let count = self.events_to_come;
        self.events.action.reserve(count);
        self.events.addr.reserve(count);
        self.events.size.reserve(count);
        self.events.stream.reserve(count);
        self.events.stack.reserve(count);
        self.events.time_us.reserve(count);
    }

    /// The rest of an entry that has keys beside the usual ones.
    pub(super) fn event_more(&mut self, plan: &Plan, values: &[Value]) {
        let row = self.events.len() - 1;
        if let Some(pool) = plan.get(Key::PoolId, values) {
            if self.events.pool.len() < row {
                self.events.pool.resize(row, PoolRef::UNKNOWN);
            }
            let pool = self.pool(Some(pool));
            self.events.pool.push(pool);
        }
        if let Some(text) = plan.get(Key::InternalMetadata, values) {
            self.note(row, NoteKind::InternalMetadata, text);
        }
        if let Some(frames) = plan.get(Key::CppFrames, values) {
            let stack = self.events.stack[row];
            self.events.stack[row] = self.with_cpp_frames((stack != StackId::MISSING).then_some(stack), frames);
        }
    }

    /// Entries before `row` had no time: they get that of the last that had one.
    #[cold]
    fn fill_times(&mut self, row: usize) {
        let last = self.events.time_us.last().copied().unwrap_or(0);
        self.events.time_us.resize(row, last);
        self.warnings.add("times_missing", || format!("trace entries before entry {row} have no time"));
    }

    /// Brings the columns that not every entry has to the length of the others, once all entries are there.
    pub(crate) fn even_out(&mut self) {
        let rows = self.events.len();
        if !self.events.time_us.is_empty() && self.events.time_us.len() < rows {
            self.fill_times(rows);
        }
        if !self.events.pool.is_empty() {
            self.events.pool.resize(rows, PoolRef::UNKNOWN);
        }
    }

    #[cold]
    fn other_action(&mut self, row: usize, name: Option<u32>) {
        let name = StrId(name.unwrap_or(0));
        self.events.notes.push((row as u32, NoteKind::ActionName, name));
        let name = self.text_of(name).to_owned();
        // A mark in the trace, or a dump elsewhere, is known and without effect on state.
        if name != "user_defined" && name != "workspace_snapshot" {
            self.warnings.add("unknown_action", || {
                format!("trace entries with an action that no release writes, such as `{name}`, are kept and do not change state")
            });
        }
    }

    /// Keeps what says something: a text, or a dict that some writers leave instead of its text.
    #[cold]
    fn note(&mut self, row: usize, kind: NoteKind, data: Value) {
        let text = match data.as_text() {
            Some(text) => text,
            None if data == Value::NONE || data.as_ref() == Some(Ref::EMPTY_DICT) => 0,
            None => {
                let text = self.render(data, 4);
                self.intern(&text)
            }
        };
        if text != 0 {
            self.events.notes.push((row as u32, kind, StrId(text)));
        }
    }
}
