//! Segments, blocks, their history, frames and annotations.

use whyoom_pickle::{Ref, Value};

use super::events::{signed, unsigned};
use super::{Collector, Key, Plan, RawAnnotation, RawBlock, RawHistory, RawSegment, kind};
use crate::{BlockState, Frame, PoolRef, StackId, StrId};

impl Collector {
    pub(super) fn segment(&mut self, plan: &Plan, values: &[Value]) -> Ref {
        let blocks = plan.get(Key::Blocks, values).and_then(Value::as_ref);
        let blocks = match blocks {
            Some(Ref { kind: kind::ROWS, index }) => Some(index),
            Some(Ref::EMPTY_LIST) => None,
            _ => {
                self.warnings.add("odd_blocks", || {
                    "a segment's `blocks` is no list of blocks; the segment reads as one without".to_owned()
                });
                None
            }
        };
        let kind_text = plan.get(Key::SegmentType, values).and_then(Value::as_text);
        let is_small = kind_text.is_some_and(|t| self.text_of(StrId(t)) == "small");
        let pool = match plan.get(Key::SegmentPoolId, values) {
            None => PoolRef::UNKNOWN,
            pool => self.pool(pool),
        };
        let stream = unsigned(plan.get(Key::Stream, values)).unwrap_or(0);
        let segment = RawSegment {
            device: unsigned(plan.get(Key::Device, values)).unwrap_or(0).min(u64::from(u32::MAX)) as u32,
            address: unsigned(plan.get(Key::Address, values)).unwrap_or(0),
            total_size: unsigned(plan.get(Key::TotalSize, values)),
            allocated_size: unsigned(plan.get(Key::AllocatedSize, values)),
            active_size: unsigned(plan.get(Key::ActiveSize, values)),
            stream: self.stream(stream),
            is_small,
            pool,
            is_expandable: plan.get(Key::IsExpandable, values) == Some(Value::bool(true)),
            stack: self.stack(plan.get(Key::Frames, values)),
            blocks,
        };
        self.segments.push(segment);
        Ref::new(kind::SEGMENT, self.segments.len() as u32 - 1)
    }

    pub(super) fn block(&mut self, plan: &Plan, values: &[Value]) -> Ref {
        let state = plan.get(Key::State, values).and_then(Value::as_text).unwrap_or(0);
        let state = match self.text_of(StrId(state)) {
            "active_allocated" => BlockState::Allocated,
            "active_pending_free" | "active_awaiting_free" => BlockState::PendingFree,
            "inactive" => BlockState::Free,
            other => {
                let other = other.to_owned();
                self.warnings.add("unknown_state", || {
                    format!("blocks in a state that no release writes, such as `{other}`, read as free")
                });
                BlockState::Free
            }
        };
        let mut block = RawBlock {
            address: unsigned(plan.get(Key::Address, values)),
            size: unsigned(plan.get(Key::Size, values)).unwrap_or(0),
            requested_size: unsigned(plan.get(Key::RequestedSize, values)),
            state,
            stack: self.stack(plan.get(Key::Frames, values)),
        };
        // The newest entry comes first and is the block's present owner; the others lived there before.
        if let Some(index) = plan.get(Key::History, values).and_then(|v| v.as_kind(kind::ROWS))
            && let Some((kind::HISTORY, list)) = self.row_lists.get(index as usize)
            && let Some(newest) = list.rows().next().and_then(|row| self.history.get(row as usize))
        {
            block.requested_size = block.requested_size.or(newest.real_size);
            block.stack = block.stack.or(newest.stack);
        }
        if state == BlockState::Free {
            block.requested_size = None;
        }
        self.blocks.push(block);
        Ref::new(kind::BLOCK, self.blocks.len() as u32 - 1)
    }

    pub(super) fn history_entry(&mut self, plan: &Plan, values: &[Value]) -> Ref {
        let mut stack = self.stack(plan.get(Key::Frames, values));
        if let Some(frames) = plan.get(Key::CppFrames, values) {
            let joined = self.with_cpp_frames(stack, frames);
            stack = (joined != StackId::MISSING).then_some(joined);
        }
        self.history.push(RawHistory { real_size: unsigned(plan.get(Key::RealSize, values)), stack });
        Ref::new(kind::HISTORY, self.history.len() as u32 - 1)
    }

    pub(super) fn frame(&mut self, plan: &Plan, values: &[Value]) -> Ref {
        let text = |key| StrId(plan.get(key, values).and_then(Value::as_text).unwrap_or(0));
        let line = signed(plan.get(Key::Line, values)).unwrap_or(0);
        let frame =
            Frame { function: text(Key::Name), file: text(Key::Filename), line: u32::try_from(line).unwrap_or(0) };
        Ref::new(kind::FRAME, self.stacks.frame(frame).0)
    }

    pub(super) fn annotation(&mut self, plan: &Plan, values: &[Value]) -> Ref {
        let name = StrId(plan.get(Key::Name, values).and_then(Value::as_text).unwrap_or(0));
        let stage = StrId(plan.get(Key::Stage, values).and_then(Value::as_text).unwrap_or(0));
        let is_start = match self.text_of(stage) {
            "START" => true,
            "END" => false,
            other => {
                let other = other.to_owned();
                self.warnings.add("unknown_stage", || {
                    format!("annotations with a stage other than START or END, such as `{other}`, read as ends")
                });
                false
            }
        };
        self.annotations.push(RawAnnotation {
            name,
            is_start,
            device: unsigned(plan.get(Key::Device, values)).unwrap_or(0).min(u64::from(u32::MAX)) as u32,
            time_us: signed(plan.get(Key::TimeUs, values)).unwrap_or(0),
        });
        Ref::new(kind::ANNOTATION, self.annotations.len() as u32 - 1)
    }

    /// `stack` with the C++ frames of 2.0, which are further in than the Python ones.
    pub(super) fn with_cpp_frames(&mut self, stack: Option<StackId>, frames: Value) -> StackId {
        let Some(index) = frames.as_kind(kind::LIST) else { return stack.unwrap_or(StackId::MISSING) };
        let texts: Vec<u32> = self.list_items(Ref::new(kind::LIST, index)).iter().filter_map(|v| v.as_text()).collect();
        let mut joined = stack.unwrap_or(StackId::EMPTY);
        for text in texts.into_iter().rev() {
            let frame = self.stacks.frame(Frame { function: StrId(text), file: StrId(0), line: 0 });
            joined = self.stacks.push(joined, frame);
        }
        joined
    }
}

impl Collector {
    /// Hands a dict, which is no trace entry, to the function for its kind.
    pub(super) fn row_of(&mut self, plan: &Plan, keys: &[u32], values: &[Value]) -> Ref {
        use super::RowKind;
        match plan.kind {
            RowKind::Event | RowKind::Other => self.plain_dict(keys, values),
            RowKind::Frame => self.frame(plan, values),
            RowKind::Block => self.block(plan, values),
            RowKind::Segment => self.segment(plan, values),
            RowKind::Annotation => self.annotation(plan, values),
            RowKind::History => self.history_entry(plan, values),
        }
    }
}
