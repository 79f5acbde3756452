//! Lists of rows, of frames and of anything else, and what is left of containers that the input cut short.

use whyoom_pickle::{Item, Kind, Ref, Refusal, Value};

use super::{Collector, RowKind, RowList, kind};
use crate::{Frame, FrameId, StackId, StrId};

/// Whether rows of this kind are kept in tables of their own.
const fn is_row(kind: Kind) -> bool {
    matches!(kind, kind::EVENT | kind::BLOCK | kind::SEGMENT | kind::ANNOTATION | kind::HISTORY)
}

/// A list like any other.
#[derive(Debug)]
pub(crate) struct PlainList {
    items: Vec<Value>,
    /// The stack that it was found to be when it was first used as one. From then on it takes no more items.
    stack: Option<StackId>,
}

impl Collector {
    /// The items of a plain list.
    pub(crate) fn list_items(&self, r: Ref) -> &[Value] {
        let list = self.lists.get(r.index as usize).filter(|_| r.kind == kind::LIST);
        list.map(|l| l.items.as_slice()).unwrap_or_default()
    }

    /// A stack as a plain list: it was filled item by item, or its frames are only texts.
    pub(super) fn stack_of_list(&mut self, at: u32) -> Option<StackId> {
        let list = self.lists.get_mut(at as usize)?;
        if list.stack.is_some() {
            return list.stack;
        }
        let items = std::mem::take(&mut list.items);
        let mut frames = Vec::with_capacity(items.len());
        let mut texts = 0;
        for item in &items {
            match self.settle(*item).ok().and_then(Value::as_ref) {
                Some(Ref { kind: kind::FRAME, index }) => frames.push(FrameId(index)),
                Some(Ref { kind: Kind::TEXT, index }) => {
                    texts += 1;
                    frames.push(self.stacks.frame(Frame { function: StrId(index), file: StrId(0), line: 0 }));
                }
                _ => {}
            }
        }
        let stack = Some(self.sequences.intern(&frames, &mut self.stacks));
        let list = self.lists.get_mut(at as usize)?;
        list.stack = stack;
        if texts > 0 {
            list.items = items;
        } else {
            // The stack says it all.
            self.plain_left += items.len();
        }
        stack
    }

    #[inline]
    pub(super) fn pair(&mut self, a: i64, b: i64) -> Result<Ref, Refusal> {
        match self.pairs.intern((a, b), u32::MAX as usize) {
            Some(place) => Ok(Ref::new(kind::PAIR, place)),
            None => Err(Refusal::NotAContainer),
        }
    }

    pub(super) fn extend_list(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        if target.kind == Kind::EMPTY_LIST {
            return self.new_list(items);
        }
        match target.kind {
            kind::ROWS => {
                self.push_rows(target.index, items)?;
                Ok(target)
            }
            kind::FRAMES => {
                // Interned anew at each portion, a list filled item by item would cost the square of its length.
                let known = self.stacks.table().frames(StackId(target.index));
                let mut all: Vec<Value> = known.map(|(id, _)| Value::of(Ref::new(kind::FRAME, id.0))).collect();
                all.extend_from_slice(items);
                Ok(self.plain_list(&all))
            }
            kind::LIST => {
                let keep = self.may_keep(items.len(), items);
                match self.lists.get_mut(target.index as usize) {
                    Some(list) if list.stack.is_none() && keep => list.items.extend_from_slice(items),
                    Some(list) if list.stack.is_some() => self.late_items(),
                    _ => {}
                }
                Ok(target)
            }
            kind::PAIR => {
                let (a, b) = self.pairs.get(target.index).unwrap_or_default();
                let all: Vec<Value> = [Value::int(a), Value::int(b)].iter().chain(items).copied().collect();
                Ok(self.plain_list(&all))
            }
            _ => Err(Refusal::NotAContainer),
        }
    }

    #[inline]
    fn new_list(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        let Some(first) = items.first() else { return Ok(Ref::EMPTY_LIST) };
        match first.item() {
            Item::Ref(Ref { kind: kind::FRAME, .. }) => {
                self.scratch.clear();
                self.push_frames(items)
            }
            Item::Ref(Ref { kind, .. }) if is_row(kind) => self.new_rows(kind, items),
            Item::Int(a) => match items {
                [_, b] if b.as_int().is_some() => self.pair(a, b.as_int().unwrap_or(0)),
                _ => Ok(self.plain_list(items)),
            },
            _ => self.new_mixed_list(items),
        }
    }

    /// A list whose first item tells nothing: dicts that were filled bit by bit, or an odd item before rows.
    #[cold]
    fn new_mixed_list(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        let settled = items.iter().map(|v| self.settle(*v)).collect::<Result<Vec<_>, _>>()?;
        let row = settled.iter().find_map(|v| v.as_ref().map(|r| r.kind).filter(|k| is_row(*k) || *k == kind::FRAME));
        match row {
            Some(kind::FRAME) => {
                self.scratch.clear();
                self.push_frames(&settled)
            }
            Some(kind) => self.new_rows(kind, &settled),
            None => Ok(self.plain_list(&settled)),
        }
    }

    fn new_rows(&mut self, kind: Kind, items: &[Value]) -> Result<Ref, Refusal> {
        let at = self.row_lists.len() as u32;
        self.row_lists.push((kind, RowList::default()));
        self.push_rows(at, items)?;
        Ok(Ref::new(kind::ROWS, at))
    }

    fn push_rows(&mut self, list: u32, items: &[Value]) -> Result<(), Refusal> {
        let Some((kind, rows)) = self.row_lists.get_mut(list as usize) else { return Ok(()) };
        let kind = *kind;
        let mut rows = std::mem::take(rows);
        for item in items {
            if let Some(row) = item.as_kind(kind) {
                rows.push(row);
                continue;
            }
            let settled = self.settle(*item)?;
            if let Some(row) = settled.as_kind(kind) {
                rows.push(row);
            } else {
                let odd = self.render(settled, 1);
                self.warnings
                    .add("odd_item", || format!("a list of rows holds something else, `{odd}`, which was left out"));
            }
        }
        self.row_lists[list as usize].1 = rows;
        Ok(())
    }

    /// Appends `items` to the frames in `scratch` and interns the whole.
    #[inline]
    fn push_frames(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        for item in items {
            let frame = match item.as_kind(kind::FRAME) {
                None => self.settle(*item)?.as_kind(kind::FRAME),
                frame => frame,
            };
            let Some(frame) = frame else {
                self.warnings
                    .add("odd_frames", || "a list of frames holds something else, which was left out".to_owned());
                continue;
            };
            self.scratch.push(FrameId(frame));
        }
        let stack = self.sequences.intern(&self.scratch, &mut self.stacks);
        Ok(Ref::new(kind::FRAMES, stack.0))
    }

    fn plain_list(&mut self, items: &[Value]) -> Ref {
        if !self.may_keep(items.len() + 1, items) {
            return Ref::EMPTY_LIST;
        }
        self.lists.push(PlainList { items: items.to_vec(), stack: None });
        Ref::new(kind::LIST, self.lists.len() as u32 - 1)
    }

    /// What remains of a container inside which the input ended: lists keep their items, dicts only if they are no
    /// rows, since half a row would pass for a whole one.
    pub(super) fn salvage_container(&mut self, target: Ref, items: &[Value]) -> Option<Ref> {
        match target.kind {
            Kind::EMPTY_DICT | kind::DICT => {
                let pairs = &items[..items.len() / 2 * 2];
                let mut all: Vec<(Value, Value)> = self.items(target).to_vec();
                all.extend(pairs.chunks_exact(2).map(|kv| (kv[0], kv[1])));
                let kind = self.kind_of(&all);
                if kind != RowKind::Other || self.is_part_of_row(&all) {
                    return None;
                }
                self.extend_dict(target, pairs).ok()
            }
            Kind::EMPTY_LIST | kind::ROWS | kind::LIST => {
                // A dict that is still open at the end of the input is incomplete if it would be a row.
                let whole = items.iter().filter(|v| match v.as_ref() {
                    Some(r) if r.kind == kind::DICT => self.kind_of(self.items(r)) == RowKind::Other,
                    _ => true,
                });
                let whole: Vec<Value> = whole.copied().collect();
                if whole.is_empty() { Some(target) } else { self.extend_list(target, &whole).ok() }
            }
            _ => None,
        }
    }

    /// Whether these items look like the start of a row whose telling key is still to come.
    fn is_part_of_row(&self, items: &[(Value, Value)]) -> bool {
        use super::Key as K;
        const TELLING: [K; 10] = [
            K::Addr,
            K::Address,
            K::Size,
            K::TotalSize,
            K::Device,
            K::Name,
            K::Filename,
            K::TimeUs,
            K::Stream,
            K::Stage,
        ];
        items.iter().any(|(k, _)| self.key_of(*k).is_some_and(|tag| TELLING.iter().any(|t| *t as u8 == tag)))
    }
}
