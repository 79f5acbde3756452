//! Opcodes that open, fill and close containers.

use crate::machine::Machine;
use crate::shape::Template;
use crate::value::{Callable, Item};
use crate::{ErrorKind, Kind, Ref, Sink, Value};

impl<S: Sink> Machine<'_, S> {
    pub(crate) fn mark(&mut self) -> Result<(), ErrorKind> {
        if self.marks.len() >= self.depth_cap {
            return Err(ErrorKind::TooDeep(self.depth_cap));
        }
        self.floor = self.stack.len();
        self.marks.push(self.floor);
        Ok(())
    }

    /// Closes the innermost mark; returns the stack height at it.
    pub(crate) fn pop_mark(&mut self, op: &'static str) -> Result<usize, ErrorKind> {
        let at = self.marks.pop().ok_or(ErrorKind::NoMark(op))?;
        self.floor = self.marks.last().copied().unwrap_or(0);
        Ok(at)
    }

    /// The container whose items begin at `at`.
    fn target(&self, at: usize, op: &'static str) -> Result<Ref, ErrorKind> {
        self.need(self.stack.len() - at + 1, op)?;
        match self.stack[at - 1].as_ref() {
            Some(r) if r.kind != Kind::TEXT => Ok(r),
            _ => Err(ErrorKind::NotAContainer(op)),
        }
    }

    /// Replaces a container, whose items begin at `at`, and the items by what the sink made of them.
    #[inline(always)]
    fn collapse(&mut self, at: usize, made: Ref) -> Result<(), ErrorKind> {
        self.stack.truncate(at);
        let container = &mut self.stack[at - 1];
        let memo = container.memo();
        *container = Value::through(made, memo);
        self.memo.follow(memo, made)
    }

    pub(crate) fn set_items(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("SETITEMS")?;
        let target = self.target(at, "SETITEMS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.dict(target, at, "SETITEMS")?;
        if target == Ref::EMPTY_DICT
            && let Some(template) = self.templates.get_mut(self.marks.len())
        {
            template.learn(&self.stack[at..]);
        }
        self.collapse(at, made)
    }

    /// Hands the items above `at`, keys and values in turn, to the sink.
    fn dict(&mut self, target: Ref, at: usize, op: &'static str) -> Result<Ref, ErrorKind> {
        let items = &self.stack[at..];
        if !items.len().is_multiple_of(2) {
            return Err(ErrorKind::TooFewValues(op));
        }
        self.keys.clear();
        self.keys.extend(items.iter().step_by(2).map_while(|k| k.as_text()));
        let is_whole = target == Ref::EMPTY_DICT && self.keys.len() * 2 == items.len();
        match if is_whole { self.shapes.intern(&self.keys) } else { None } {
            Some(shape) => {
                self.values.clear();
                self.values.extend(items.iter().skip(1).step_by(2));
                Ok(self.sink.row(shape, &self.keys, &self.values)?)
            }
            None => Ok(self.sink.dict(target, items)?),
        }
    }

    pub(crate) fn append_items(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("APPENDS")?;
        let target = self.target(at, "APPENDS")?;
        if self.stack.len() == at {
            return Ok(());
        }
        let made = self.sink.list(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    pub(crate) fn append_one(&mut self) -> Result<(), ErrorKind> {
        self.need(2, "APPEND")?;
        let at = self.stack.len() - 1;
        let target = self.target(at, "APPEND")?;
        let made = self.sink.list(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    pub(crate) fn set_one(&mut self) -> Result<(), ErrorKind> {
        self.need(3, "SETITEM")?;
        let at = self.stack.len() - 2;
        let target = self.target(at, "SETITEM")?;
        // One item at a time is how protocol 0 writes every dict: what it will be is not known before the last.
        let made = self.sink.dict(target, &self.stack[at..])?;
        self.collapse(at, made)
    }

    pub(crate) fn list_or_dict(&mut self, is_dict: bool) -> Result<(), ErrorKind> {
        let op = if is_dict { "DICT" } else { "LIST" };
        let at = self.pop_mark(op)?;
        let empty = if is_dict { Ref::EMPTY_DICT } else { Ref::EMPTY_LIST };
        let made = if self.stack.len() == at {
            empty
        } else if is_dict {
            self.dict(empty, at, op)?
        } else {
            self.sink.list(empty, &self.stack[at..])?
        };
        self.stack.truncate(at);
        self.push(Value::of(made))
    }

    pub(crate) fn tuple(&mut self) -> Result<(), ErrorKind> {
        let at = self.pop_mark("TUPLE")?;
        if self.stack.len() == at {
            return self.push(Value::EMPTY_TUPLE);
        }
        self.tuple_at(at)
    }

    #[inline(always)]
    pub(crate) fn tuple_of(&mut self, count: usize, op: &'static str) -> Result<(), ErrorKind> {
        self.need(count, op)?;
        self.tuple_at(self.stack.len() - count)
    }

    fn tuple_at(&mut self, at: usize) -> Result<(), ErrorKind> {
        let items = &self.stack[at..];
        let made = match items {
            [only] if only.item() == Item::Callable(Callable::Factory) => Value::callable(Callable::FactoryArgs),
            _ => Value::of(self.sink.tuple(items)?),
        };
        self.stack.truncate(at);
        self.push(made)
    }

    pub(crate) fn put(&mut self, index: u64, op: &'static str) -> Result<(), ErrorKind> {
        self.need(1, op)?;
        let top = self.stack.len() - 1;
        let (index, overwrote) = self.memo.put(index, self.stack[top])?;
        if overwrote {
            // Bytes of known keys may mean something else from here on.
            self.templates.iter_mut().for_each(Template::retire);
            self.lists.clear();
        }
        if let Some(r) = self.stack[top].as_ref() {
            self.stack[top] = Value::through(r, index);
        }
        Ok(())
    }
}
