//! Dicts without a known meaning, and dicts that are filled bit by bit.

use whyoom_pickle::{Item, Kind, Ref, Refusal, Value};

use super::{Collector, KeySet, NO_KEY, Plan, RowKind, Source, kind};
use crate::StrId;

/// A dict like any other, or one that later turned out to be a row.
#[derive(Debug)]
pub(crate) enum Slot {
    Items(Vec<(Value, Value)>),
    Row(Ref),
}

impl Collector {
    #[cold]
    pub(super) fn new_plan(&mut self, source: Source, at: usize, keys: &[u32], values: &[Value]) {
        let mut plan = Plan::new(keys, |text| self.words.get(text as usize).map_or(NO_KEY, |w| w.key));
        let places: Vec<u8> = plan.unknown.iter().map(|(place, _)| *place).collect();
        plan.examples = places
            .iter()
            .map(|p| values.get(usize::from(*p)).map_or_else(String::new, |v| self.render(*v, 2)))
            .collect();
        let plans = &mut self.plans[source as usize];
        if plans.len() <= at {
            plans.resize_with(at + 1, || None);
        }
        plans[at] = Some(Box::new(plan));
    }

    /// Whether `count` more values without a known meaning may be kept. What holds `values` with rows in them is what a
    /// snapshot hangs on, and has a budget of its own.
    pub(super) fn may_keep(&mut self, count: usize, values: &[Value]) -> bool {
        if count <= self.plain_left {
            self.plain_left -= count;
            return true;
        }
        let holds_rows = |v: &Value| v.as_ref().is_some_and(|r| matches!(r.kind, kind::ROWS | kind::LIST | kind::DICT));
        if count <= self.holding_left && values.iter().any(holds_rows) {
            self.holding_left -= count;
            return true;
        }
        self.warnings.add("data_dropped", || {
            "data that is no part of a snapshot was too large to keep and was passed over".to_owned()
        });
        false
    }

    pub(super) fn plain_dict(&mut self, keys: &[u32], values: &[Value]) -> Ref {
        if !self.may_keep(values.len() + 1, values) {
            return Ref::EMPTY_DICT;
        }
        let items = keys.iter().map(|k| Value::text(*k)).zip(values.iter().copied());
        self.new_dict(items.collect())
    }

    fn new_dict(&mut self, items: Vec<(Value, Value)>) -> Ref {
        self.dicts.push(Slot::Items(items));
        Ref::new(kind::DICT, self.dicts.len() as u32 - 1)
    }

    pub(super) fn extend_dict(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        let keep = self.may_keep(items.len() / 2 + usize::from(target.kind == Kind::EMPTY_DICT), items);
        let pairs = items.chunks_exact(2).map(|kv| (kv[0], kv[1])).take(if keep { usize::MAX } else { 0 });
        match target.kind {
            Kind::EMPTY_DICT if !keep => Ok(target),
            Kind::EMPTY_DICT => {
                let items = pairs.collect();
                Ok(self.new_dict(items))
            }
            kind::DICT => {
                match self.dicts.get_mut(target.index as usize) {
                    Some(Slot::Items(known)) => known.extend(pairs),
                    _ => self.late_items(),
                }
                Ok(target)
            }
            kind::EVENT | kind::BLOCK | kind::SEGMENT | kind::ANNOTATION | kind::HISTORY | kind::FRAME => {
                self.late_items();
                Ok(target)
            }
            _ => Err(Refusal::NotAContainer),
        }
    }

    #[cold]
    pub(super) fn late_items(&mut self) {
        self.warnings
            .add("late_items", || "a dict got further items after it was complete; they were left out".to_owned());
    }

    /// A dict that was filled bit by bit is used: if it is a row, it becomes one now.
    pub(super) fn settle(&mut self, value: Value) -> Result<Value, Refusal> {
        let Some(index) = value.as_kind(kind::DICT) else { return Ok(value) };
        let items = match self.dicts.get_mut(index as usize) {
            Some(Slot::Row(row)) => return Ok(Value::of(*row)),
            Some(Slot::Items(items)) => std::mem::take(items),
            None => return Ok(value),
        };
        if self.kind_of(&items) == RowKind::Other {
            self.dicts[index as usize] = Slot::Items(items);
            return Ok(value);
        }
        self.plain_left += items.len() + 1;
        let keys: Vec<u32> = items.iter().map(|(k, _)| k.as_text().unwrap_or(0)).collect();
        let values: Vec<Value> = items.iter().map(|(_, v)| *v).collect();
        let Some(shape) = self.settled_shapes.intern(&keys) else { return Ok(value) };
        let row = self.row_from(Source::Settled, shape, &keys, &values)?;
        self.dicts[index as usize] = Slot::Row(row);
        Ok(Value::of(row))
    }

    /// What a dict with these items is.
    pub(super) fn kind_of(&self, items: &[(Value, Value)]) -> RowKind {
        let mut keys = KeySet::default();
        for (key, _) in items {
            if let Some(word) = key.as_text().and_then(|k| self.words.get(k as usize)) {
                keys.add(word.key);
            }
        }
        RowKind::of(keys)
    }

    /// The items of a plain dict, in file order.
    pub(crate) fn items(&self, dict: Ref) -> &[(Value, Value)] {
        match self.dicts.get(dict.index as usize) {
            Some(Slot::Items(items)) if dict.kind == kind::DICT => items,
            _ => &[],
        }
    }

    /// The tag of a key of a plain dict.
    pub(crate) fn key_of(&self, key: Value) -> Option<u8> {
        key.as_text().and_then(|k| self.words.get(k as usize)).map(|w| w.key)
    }

    /// `value` as text for people; containers as JSON down to `depth`.
    pub(crate) fn render(&self, value: Value, depth: usize) -> String {
        match value.item() {
            Item::None => "null".to_owned(),
            Item::Bool(b) => b.to_string(),
            Item::Int(n) => n.to_string(),
            Item::Big(n) => n.to_string(),
            Item::Float(f) => f.to_string(),
            Item::Bytes => "(bytes)".to_owned(),
            Item::EmptyTuple => "[]".to_owned(),
            Item::Callable(_) => "(type)".to_owned(),
            Item::Ref(r) => self.render_ref(r, depth),
        }
    }

    fn render_ref(&self, r: Ref, depth: usize) -> String {
        const MOST: usize = 16;
        let quoted = |v: Value| match v.as_text() {
            Some(text) => format!("{:?}", self.text_of(StrId(text))),
            None => self.render(v, depth - 1),
        };
        match r.kind {
            Kind::TEXT => self.text_of(StrId(r.index)).to_owned(),
            Kind::EMPTY_DICT => "{}".to_owned(),
            Kind::EMPTY_LIST => "[]".to_owned(),
            kind::PAIR => self.pairs.get(r.index).map_or_else(String::new, |(a, b)| format!("[{a}, {b}]")),
            kind::DICT if depth > 0 => {
                let items = self.items(r).iter().take(MOST).map(|(k, v)| format!("{}: {}", quoted(*k), quoted(*v)));
                format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
            }
            kind::LIST if depth > 0 => {
                format!("[{}]", self.list_items(r).iter().take(MOST).map(|v| quoted(*v)).collect::<Vec<_>>().join(", "))
            }
            _ => "…".to_owned(),
        }
    }
}
