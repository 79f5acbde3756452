//! What the machine's stack holds: 16-byte copies, never a tree.

/// Which table a [`Ref`] points into.
///
/// Kinds below [`Kind::FIRST_FREE`] belong to the machine; a [`Sink`](crate::Sink) numbers its own from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u8);

impl Kind {
    /// Text; the index is what [`Sink::text`](crate::Sink::text) returned.
    pub const TEXT: Self = Self(0);
    /// A dict that got no items yet; the index is 0.
    pub const EMPTY_DICT: Self = Self(1);
    /// A list or set that got no items yet; the index is 0.
    pub const EMPTY_LIST: Self = Self(2);
    /// First kind that a sink may use for its own rows.
    pub const FIRST_FREE: Self = Self(3);
    /// Last kind that a sink may use.
    pub const LAST: Self = Self(14);
}

/// A reference to something interned or collapsed: a kind and an index.
///
/// It remembers through which memo slot it came, so that the slot follows when a container gets its items.
#[derive(Debug, Clone, Copy)]
pub struct Ref {
    /// Index within the table of `kind`.
    pub index: u32,
    pub(crate) memo: u32,
    /// Which table.
    pub kind: Kind,
}

impl PartialEq for Ref {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.index == other.index
    }
}

impl Eq for Ref {}

/// "Came through no memo slot."
pub(crate) const NO_MEMO: u32 = u32::MAX;

impl Ref {
    /// An empty dict.
    pub const EMPTY_DICT: Self = Self::new(Kind::EMPTY_DICT, 0);
    /// An empty list.
    pub const EMPTY_LIST: Self = Self::new(Kind::EMPTY_LIST, 0);

    /// A reference to row `index` of table `kind`.
    pub const fn new(kind: Kind, index: u32) -> Self {
        Self { index, memo: NO_MEMO, kind }
    }
}

/// Things a pickle may name that read as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callable {
    /// `collections.OrderedDict` or `collections.defaultdict`: read as a dict.
    Dict,
    /// A builtin type used as the factory of a `defaultdict`; never called.
    Factory,
    /// A one-tuple of [`Callable::Factory`]: the arguments of a `defaultdict`.
    FactoryArgs,
}

/// One value on the stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits 64 signed bits.
    Int(i64),
    /// An integer from 2^63 to 2^64 - 1; larger ones read as `u64::MAX`, smaller ones as `Int(i64::MIN)`.
    Big(u64),
    /// A float.
    Float(f64),
    /// A bytes object; its content is not kept.
    Bytes,
    /// The empty tuple.
    EmptyTuple,
    /// A harmless global.
    Callable(Callable),
    /// Text, a row, or a container.
    Ref(Ref),
}

impl Value {
    /// Text number `index`.
    pub const fn text(index: u32) -> Self {
        Self::Ref(Ref::new(Kind::TEXT, index))
    }

    /// The text's index, if this is text.
    pub const fn as_text(self) -> Option<u32> {
        match self {
            Self::Ref(Ref { kind: Kind::TEXT, index, .. }) => Some(index),
            _ => None,
        }
    }

    /// The reference, if this is one.
    pub const fn as_ref(self) -> Option<Ref> {
        match self {
            Self::Ref(r) => Some(r),
            _ => None,
        }
    }
}
