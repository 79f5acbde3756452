//! What can be wrong with a pickle.

use crate::Refusal;

/// A pickle that cannot be read on, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Byte offset of the opcode that could not be carried out.
    pub offset: usize,
}

/// What is wrong with a pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The bytes end before the pickle does.
    #[error("the pickle ends inside {0}")]
    UnexpectedEnd(&'static str),
    /// A byte that is no opcode of protocols 0 to 5.
    #[error("byte 0x{0:02x} is no pickle opcode")]
    UnknownOpcode(u8),
    /// A protocol newer than 5.
    #[error("pickle protocol {0} is not known (0 to 5 are)")]
    UnknownProtocol(u8),
    /// An opcode needs more values than there are.
    #[error("opcode {0} finds too few values")]
    TooFewValues(&'static str),
    /// An opcode needs a mark and there is none.
    #[error("opcode {0} finds no mark")]
    NoMark(&'static str),
    /// Values are left over, or marks open, at the end.
    #[error("the pickle stops with {0} values on its stack instead of one")]
    LeftOver(usize),
    /// A memo slot that was never filled.
    #[error("memo entry {0} was never stored")]
    NoMemo(u64),
    /// A memo index far beyond what the input could fill.
    #[error("memo index {0} is beyond what a file of this size can hold")]
    MemoIndex(u64),
    /// More values at once than an honest file of this size has.
    #[error("more values wait on the stack than a file of this size can hold")]
    TooManyValues,
    /// Containers nested deeper than [`Limits::depth`](crate::Limits::depth).
    #[error("containers are nested more than {0} deep")]
    TooDeep(usize),
    /// A text argument that does not parse.
    #[error("opcode {0} has a malformed argument")]
    Malformed(&'static str),
    /// Items are added to something that takes none.
    #[error("opcode {0} adds to a value that is no container")]
    NotAContainer(&'static str),
    /// The pickle names code; nothing is ever imported or called.
    #[error("the pickle wants to import `{0}`, which is refused: a memory snapshot is plain data")]
    Global(String),
    /// The pickle wants to construct or call something; nothing is ever called.
    #[error("the pickle uses {0}, which runs code and is refused: a memory snapshot is plain data")]
    Code(&'static str),
    /// The sink refused.
    #[error("{0}")]
    Sink(#[from] Refusal),
}

impl ErrorKind {
    /// Whether the pickle asked for code to be run, which no snapshot does.
    pub const fn is_refused_code(&self) -> bool {
        matches!(self, Self::Global(_) | Self::Code(_))
    }
}
