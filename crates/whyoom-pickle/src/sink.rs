//! Where closed containers go.

use crate::{Kind, Ref, ShapeId, Value};

/// Why a sink will not take something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Items for something that is no container of that sort.
    #[error("items are added to something that does not hold such items")]
    NotAContainer,
    /// A table is full.
    #[error("more than 4294967294 rows of one kind")]
    Full,
}

/// Receives containers as they close and keeps of them what it wants.
///
/// The machine never builds a tree: the moment a dict, list or tuple has its items, they are handed over as a
/// slice and replaced on the stack (and in the memo) by the [`Ref`] that the sink returns. A sink that knows the
/// dict's keys turns it into a row of a table; what it does not know it may keep or drop.
pub trait Sink {
    /// Interns text, returning its index. Invalid UTF-8 is the sink's to repair.
    ///
    /// # Errors
    /// If the sink can hold no more.
    fn text(&mut self, text: &[u8]) -> Result<u32, Refusal>;

    /// The text of an index that [`Sink::text`] returned.
    fn resolve(&self, text: u32) -> &str;

    /// A dict got all its items at once; its keys are text. `keys` and `values` have the same length.
    ///
    /// `shape` is the same for the same sequence of keys, counting up from 0 as new sequences come.
    ///
    /// # Errors
    /// If the sink can hold no more.
    fn row(&mut self, shape: ShapeId, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal>;

    /// A dict gets items in any other way: in several portions, with keys that are no text, or after very many
    /// different shapes.
    ///
    /// `target` is [`Ref::EMPTY_DICT`] the first time, later what this function or [`Sink::row`] returned.
    /// `items` holds keys and values in turn.
    ///
    /// # Errors
    /// If `target` is no dict, or the sink can hold no more.
    fn dict(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal>;

    /// A list gets items. `target` is [`Ref::EMPTY_LIST`] the first time, later what this function returned.
    ///
    /// # Errors
    /// If `target` is no list, or the sink can hold no more.
    fn list(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal>;

    /// A tuple of at least one item.
    ///
    /// # Errors
    /// If the sink can hold no more.
    fn tuple(&mut self, items: &[Value]) -> Result<Ref, Refusal>;

    /// Whether references of this kind stand for a value that never changes, so that equal lists of equal items of
    /// such kinds may be the same reference.
    fn is_interned(&self, kind: Kind) -> bool;

    /// The input ended inside this container: `items` is what had been read of it, a dict's keys and values in
    /// turn, possibly with a value missing at the end. Returns what to put in its place, or `None` to drop it.
    fn salvage(&mut self, target: Ref, items: &[Value]) -> Option<Ref>;
}
