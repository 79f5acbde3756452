//! Reading position in the input.

use crate::ErrorKind;

/// A byte slice and a position; every read is checked, nothing is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) pos: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, ErrorKind> {
        let byte = *self.data.get(self.pos).ok_or(ErrorKind::UnexpectedEnd(what))?;
        self.pos += 1;
        Ok(byte)
    }

    #[inline(always)]
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ErrorKind> {
        let rest = self.data.get(self.pos..).unwrap_or_default();
        let bytes = *rest.first_chunk::<N>().ok_or(ErrorKind::UnexpectedEnd(what))?;
        self.pos += N;
        Ok(bytes)
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        let rest = self.data.get(self.pos..).unwrap_or_default();
        if len > rest.len() as u64 {
            return Err(ErrorKind::UnexpectedEnd(what));
        }
        let bytes = &rest[..len as usize];
        self.pos += bytes.len();
        Ok(bytes)
    }

    /// The next byte, if there is one.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.data.get(self.pos).copied()
    }

    /// The next eight bytes as a little-endian number, if there are eight.
    #[inline(always)]
    pub(crate) fn peek_u64(&self) -> Option<u64> {
        let rest = self.data.get(self.pos..)?;
        rest.first_chunk::<8>().map(|b| u64::from_le_bytes(*b))
    }

    /// The bytes up to the next line feed, which is skipped.
    pub(crate) fn line(&mut self, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        let rest = self.data.get(self.pos..).unwrap_or_default();
        let len = rest.iter().position(|b| *b == b'\n').ok_or(ErrorKind::UnexpectedEnd(what))?;
        self.pos += len + 1;
        Ok(&rest[..len])
    }
}
