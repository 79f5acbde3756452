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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref {
    /// Index within the table of `kind`.
    pub index: u32,
    /// Which table.
    pub kind: Kind,
}

impl Ref {
    /// An empty dict.
    pub const EMPTY_DICT: Self = Self::new(Kind::EMPTY_DICT, 0);
    /// An empty list.
    pub const EMPTY_LIST: Self = Self::new(Kind::EMPTY_LIST, 0);

    /// A reference to row `index` of table `kind`.
    pub const fn new(kind: Kind, index: u32) -> Self {
        Self { index, kind }
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

/// One value, taken apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
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

/// One value on the stack: two words, because an enum's tag and payload are written in pieces that cannot be read
/// back in one go. [`Value::item`] takes it apart.
///
/// A reference also remembers through which memo slot it came, so that the slot follows when a container gets its
/// items. Equality does not look at that.
#[derive(Clone, Copy)]
pub struct Value {
    /// Tag in the low byte, memo slot in the high half.
    meta: u64,
    bits: u64,
}

const INT: u8 = 0;
const BIG: u8 = 1;
const FLOAT: u8 = 2;
const NONE: u8 = 3;
const BOOL: u8 = 4;
const BYTES: u8 = 5;
const EMPTY_TUPLE: u8 = 6;
const CALLABLE: u8 = 7;
/// Tag of kind 0; other kinds follow.
const REF: u8 = 16;

/// "Came through no memo slot."
pub(crate) const NO_MEMO: u32 = u32::MAX;

impl Value {
    /// `None`.
    pub const NONE: Self = Self::plain(NONE, 0);
    /// A bytes object.
    pub const BYTES: Self = Self::plain(BYTES, 0);
    /// The empty tuple.
    pub const EMPTY_TUPLE: Self = Self::plain(EMPTY_TUPLE, 0);

    const fn plain(tag: u8, bits: u64) -> Self {
        Self { meta: tag as u64, bits }
    }

    /// An integer.
    #[inline(always)]
    pub const fn int(n: i64) -> Self {
        Self::plain(INT, n as u64)
    }

    /// An integer of 64 unsigned bits.
    pub const fn unsigned(n: u64) -> Self {
        if n > i64::MAX as u64 { Self::plain(BIG, n) } else { Self::int(n as i64) }
    }

    /// A float.
    pub const fn float(f: f64) -> Self {
        Self::plain(FLOAT, f.to_bits())
    }

    /// A truth value.
    pub const fn bool(b: bool) -> Self {
        Self::plain(BOOL, b as u64)
    }

    /// A harmless global.
    pub const fn callable(c: Callable) -> Self {
        Self::plain(CALLABLE, c as u64)
    }

    /// Text number `index`.
    pub const fn text(index: u32) -> Self {
        Self::of(Ref::new(Kind::TEXT, index))
    }

    /// A reference.
    #[inline(always)]
    pub const fn of(r: Ref) -> Self {
        Self::through(r, NO_MEMO)
    }

    /// A reference that came through memo slot `memo`.
    #[inline(always)]
    pub(crate) const fn through(r: Ref, memo: u32) -> Self {
        Self { meta: (memo as u64) << 32 | (REF + r.kind.0) as u64, bits: r.index as u64 }
    }

    /// The memo slot it came through.
    #[inline(always)]
    pub(crate) const fn memo(self) -> u32 {
        (self.meta >> 32) as u32
    }

    const fn tag(self) -> u8 {
        self.meta as u8
    }

    /// What it is.
    #[inline(always)]
    pub const fn item(self) -> Item {
        match self.tag() {
            INT => Item::Int(self.bits as i64),
            BIG => Item::Big(self.bits),
            FLOAT => Item::Float(f64::from_bits(self.bits)),
            BOOL => Item::Bool(self.bits != 0),
            NONE => Item::None,
            BYTES => Item::Bytes,
            EMPTY_TUPLE => Item::EmptyTuple,
            CALLABLE => Item::Callable(match self.bits {
                0 => Callable::Dict,
                1 => Callable::Factory,
                _ => Callable::FactoryArgs,
            }),
            tag => Item::Ref(Ref::new(Kind(tag.wrapping_sub(REF)), self.bits as u32)),
        }
    }

    /// The number, if this is an integer of 64 signed bits.
    #[inline(always)]
    pub const fn as_int(self) -> Option<i64> {
        if self.tag() == INT { Some(self.bits as i64) } else { None }
    }

    /// The number, if this is an integer: those below zero as two's complement, as the C++ pickler writes addresses.
    #[inline(always)]
    pub const fn as_address(self) -> Option<u64> {
        if self.tag() <= BIG { Some(self.bits) } else { None }
    }

    /// The text's index, if this is text.
    #[inline(always)]
    pub const fn as_text(self) -> Option<u32> {
        self.as_kind(Kind::TEXT)
    }

    /// The index, if this is a reference of this kind.
    #[inline(always)]
    pub const fn as_kind(self, kind: Kind) -> Option<u32> {
        if self.tag() == REF + kind.0 { Some(self.bits as u32) } else { None }
    }

    /// The reference, if this is one.
    #[inline(always)]
    pub const fn as_ref(self) -> Option<Ref> {
        if self.tag() >= REF { Some(Ref::new(Kind(self.tag() - REF), self.bits as u32)) } else { None }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.item() == other.item()
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.item().fmt(f)
    }
}

impl From<Ref> for Value {
    fn from(r: Ref) -> Self {
        Self::of(r)
    }
}
