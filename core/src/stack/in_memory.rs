//! The memory of a process as `gimli` reads tables, without a copy: those of a large library have megabytes, a step needs some hundred bytes.
//!
//! Must not: allocate, or read more for one step than a fixed number of bytes.

use super::Memory;
use gimli::{Error, LittleEndian, Reader, ReaderOffsetId};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

const MOST_BYTES: usize = 1 << 17;

/// Memory, of which a few bytes were read ahead: `gimli` asks for single ones.
pub struct Window<'a, M> {
    memory: &'a M,
    /// Address, number and bytes.
    ahead: RefCell<(u64, usize, [u8; 64])>,
    left: Cell<usize>,
}

impl<'a, M: Memory> Window<'a, M> {
    pub fn new(memory: &'a M) -> Self {
        Self { memory, ahead: RefCell::new((0, 0, [0; 64])), left: Cell::new(MOST_BYTES) }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        self.left.set(self.left.get().checked_sub(into.len())?);
        let mut ahead = self.ahead.try_borrow_mut().ok()?;
        let (begin, count, bytes) = &mut *ahead;
        if into.len() > bytes.len() {
            return None;
        }
        let from = |begin: u64| usize::try_from(at.checked_sub(begin)?).ok();
        let is_there = from(*begin).is_some_and(|from| from.saturating_add(into.len()) <= *count);
        if !is_there {
            (*begin, *count) = (at, self.memory.read(at, bytes));
        }
        into.copy_from_slice(bytes.get(..*count)?.get(from(*begin)?..)?.get(..into.len())?);
        Some(())
    }
}

pub struct InMemory<'a, M> {
    window: &'a Window<'a, M>,
    at: u64,
    bytes: usize,
}

impl<'a, M> InMemory<'a, M> {
    pub fn from(window: &'a Window<'a, M>, at: u64) -> Self {
        Self { window, at, bytes: usize::MAX }
    }
}

impl<M> Clone for InMemory<'_, M> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<M> fmt::Debug for InMemory<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.at)
    }
}

impl<M: Memory> InMemory<'_, M> {
    fn end<T>(&self) -> Result<T, Error> {
        Err(Error::UnexpectedEof(self.offset_id()))
    }
}

impl<M: Memory> Reader for InMemory<'_, M> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn empty(&mut self) {
        self.bytes = 0;
    }

    fn truncate(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes > self.bytes {
            return self.end();
        }
        self.bytes = bytes;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.at.wrapping_sub(base.at) as usize
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.at)?).ok().filter(|offset| *offset <= self.bytes)
    }

    fn find(&self, byte: u8) -> Result<usize, Error> {
        let mut rest = self.clone();
        // It ends where nothing more may be read.
        while rest.read_u8()? != byte {}
        Ok(rest.offset_from(self).wrapping_sub(1))
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(rest) = self.bytes.checked_sub(bytes) else { return self.end() };
        self.at = self.at.wrapping_add(bytes as u64);
        self.bytes = rest;
        Ok(())
    }

    fn split(&mut self, bytes: usize) -> Result<Self, Error> {
        let mut first = self.clone();
        first.truncate(bytes)?;
        self.skip(bytes)?;
        Ok(first)
    }

    // Only debug information has texts and blocks that are read as a whole.

    fn to_slice(&self) -> Result<Cow<'_, [u8]>, Error> {
        self.end()
    }

    fn to_string(&self) -> Result<Cow<'_, str>, Error> {
        self.end()
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>, Error> {
        self.end()
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let at = self.at;
        self.skip(into.len())?;
        self.window.read(at, into).map_or_else(|| self.end(), Ok)
    }
}
