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

impl Collector {
    #[inline]
    pub(super) fn event(&mut self, plan: &Plan, values: &[Value]) -> Result<Ref, Refusal> {
        let row = self.events.len();
        if row >= u32::MAX as usize {
            return Err(Refusal::Full);
        }
        let name = plan.get(Key::Action, values).and_then(Value::as_text);
        let action = name.and_then(|n| self.words.get(n as usize)).map_or(Action::Other, |w| w.action);
        let address = match action {
            Action::Oom => plan.get(Key::DeviceFree, values).or_else(|| plan.get(Key::Addr, values)),
            _ => plan.get(Key::Addr, values),
        };
        let stream = unsigned(plan.get(Key::Stream, values)).unwrap_or(0);
        let stream = self.stream(stream);
        let stack = self.stack(plan.get(Key::Frames, values)).unwrap_or(StackId::MISSING);
        self.events.action.push(action);
        self.events.addr.push(unsigned(address).unwrap_or(0));
        self.events.size.push(unsigned(plan.get(Key::Size, values)).unwrap_or(0));
        self.events.stream.push(stream);
        self.events.stack.push(stack);
        if let Some(time) = signed(plan.get(Key::TimeUs, values)) {
            if self.events.time_us.len() < row {
                self.fill_times(row);
            }
            self.events.time_us.push(time);
        }
        if let Some(pool) = plan.get(Key::PoolId, values) {
            if self.events.pool.len() < row {
                self.events.pool.resize(row, PoolRef::UNKNOWN);
            }
            let pool = self.pool(Some(pool));
            self.events.pool.push(pool);
        }
        if action == Action::Other {
            self.events.notes.push((row as u32, NoteKind::ActionName, StrId(name.unwrap_or(0))));
            self.other_action(name);
        }
        if let Some(context) = plan.get(Key::CompileContext, values).and_then(Value::as_text)
            && context != self.not_available.0
            && context != 0
        {
            self.events.notes.push((row as u32, NoteKind::CompileContext, StrId(context)));
        }
        match plan.get(Key::UserMetadata, values) {
            None => {}
            Some(data) => match data.as_text() {
                Some(0) => {}
                Some(text) => self.events.notes.push((row as u32, NoteKind::UserMetadata, StrId(text))),
                None if data == Value::NONE => {}
                None => self.metadata(row, data),
            },
        }
        if let Some(text) = plan.get(Key::InternalMetadata, values).and_then(Value::as_text)
            && text != 0
        {
            self.events.notes.push((row as u32, NoteKind::InternalMetadata, StrId(text)));
        }
        if let Some(frames) = plan.get(Key::CppFrames, values) {
            self.events.stack[row] = self.with_cpp_frames((stack != StackId::MISSING).then_some(stack), frames);
        }
        Ok(Ref::new(kind::EVENT, row as u32))
    }

    /// Entries before `row` had no time: they get that of the last that had one.
    #[cold]
    fn fill_times(&mut self, row: usize) {
        let last = self.events.time_us.last().copied().unwrap_or(0);
        self.events.time_us.resize(row, last);
        self.warnings.add("times_missing", || format!("trace entries before entry {row} have no time"));
    }

    #[cold]
    fn other_action(&mut self, name: Option<u32>) {
        let name = self.text_of(StrId(name.unwrap_or(0))).to_owned();
        match name.as_str() {
            // A mark in the trace, or a dump elsewhere: known, and without effect on state.
            "user_defined" | "workspace_snapshot" => {}
            _ => self.warnings.add("unknown_action", || format!("trace entries with an action that no release writes, such as `{name}`, are kept and do not change state")),
        }
    }

    /// `user_metadata` as a dict instead of its text.
    #[cold]
    fn metadata(&mut self, row: usize, data: Value) {
        let text = self.render(data, 4);
        if !text.is_empty() && text != "{}" {
            let text = StrId(self.intern(&text));
            self.events.notes.push((row as u32, NoteKind::UserMetadata, text));
        }
    }
}
