//! Reading position in the input.

use crate::ErrorKind;

/// The bytes that are still to be read; every read is checked, nothing is copied.
///
/// The rest as a slice, and not the whole with a position: one comparison then checks a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Number of bytes still to be read.
    #[inline(always)]
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    pub(crate) const fn byte(&mut self, what: &'static str) -> Result<u8, ErrorKind> {
        let [byte, rest @ ..] = self.rest else { return Err(ErrorKind::UnexpectedEnd(what)) };
        self.rest = rest;
        Ok(*byte)
    }

    #[inline(always)]
    pub(crate) const fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ErrorKind> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(ErrorKind::UnexpectedEnd(what));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline(always)]
    pub(crate) const fn bytes(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        if len > self.rest.len() as u64 {
            return Err(ErrorKind::UnexpectedEnd(what));
        }
        let (bytes, rest) = self.rest.split_at(len as usize);
        self.rest = rest;
        Ok(bytes)
    }

    /// The next byte, if there is one.
    #[inline(always)]
    pub(crate) const fn peek(&self) -> Option<u8> {
        match self.rest {
            [byte, ..] => Some(*byte),
            [] => None,
        }
    }

    /// The next eight bytes as a little-endian number, if there are eight.
    #[inline(always)]
    pub(crate) const fn peek_u64(&self) -> Option<u64> {
        match self.rest.first_chunk::<8>() {
            Some(bytes) => Some(u64::from_le_bytes(*bytes)),
            None => None,
        }
    }

    /// The eight bytes from `offset` on, if there are so many.
    #[inline(always)]
    pub(crate) fn peek_u64_at(&self, offset: usize) -> Option<u64> {
        let bytes = self.rest.get(offset..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Steps over `len` bytes, or to the end if there are fewer.
    #[inline(always)]
    pub(crate) fn skip(&mut self, len: usize) {
        self.rest = match self.rest.get(len..) {
            Some(rest) => rest,
            None => past_the_end(),
        };
    }

    /// The bytes from here to `later`, which is a later state of this cursor.
    #[inline(always)]
    pub(crate) fn until(&self, later: &Self) -> &'a [u8] {
        self.rest.get(..self.rest.len() - later.rest.len()).unwrap_or_default()
    }

    /// The bytes up to the next line feed, which is skipped.
    pub(crate) fn line(&mut self, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        let len = self.rest.iter().position(|b| *b == b'\n').ok_or(ErrorKind::UnexpectedEnd(what))?;
        let line = self.bytes(len as u64, what)?;
        self.skip(1);
        Ok(line)
    }
}

/// A call, and not a choice between two values: reading on must not wait for the comparison.
#[cold]
#[inline(never)]
const fn past_the_end<'a>() -> &'a [u8] {
    &[]
}
