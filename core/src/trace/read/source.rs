//! The sources of a recording's bytes: files and memory. A file may shrink while it is read.

use super::defects::Defects;
use crate::sync::Ordering;
use crate::trace::layout::{record, segment, WORD};
use crate::trace::Recorder;
use std::io;
use std::ops::Range;

pub(super) const BEFORE_RECORDS: u64 = (segment::RECORDS * WORD) as u64;
pub(super) const RECORD_BYTES: u64 = (record::WORDS * WORD) as u64;

pub trait Source {
    fn size(&self) -> io::Result<u64>;

    /// The next offset that may hold something other than zero, `u64::MAX` for none; the offset itself where unknown.
    fn next_data(&self, offset: u64) -> u64 {
        offset
    }

    /// Returns how many bytes were read, 0 past the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl<B: AsRef<[u8]>> Source for B {
    fn size(&self) -> io::Result<u64> {
        Ok(self.as_ref().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let there = usize::try_from(offset).ok().and_then(|offset| self.as_ref().get(offset..)).unwrap_or_default();
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }
}

/// A recording in its own process. Segments that may not be taken yet are read as zeros, without a look at them.
impl Source for &Recorder<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok((self.words().len() * WORD) as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(at) = usize::try_from(offset) else { return Ok(0) };
        let mut length = buffer.len();
        for closed in self.closed().map(|words| words.start * WORD..words.end * WORD) {
            if closed.contains(&at) {
                let zeros = length.min(closed.end - at);
                buffer[..zeros].fill(0);
                return Ok(zeros);
            }
            if closed.start > at && !closed.is_empty() {
                length = length.min(closed.start - at);
            }
        }
        let mut done = 0;
        while done < length {
            let Some(word) = self.words().get((at + done) / WORD) else { break };
            // Acquire: the reads after that of a word see everything stored before the word.
            let bytes = word.load(Ordering::Acquire).to_le_bytes();
            let there = &bytes[(at + done) % WORD..];
            let count = there.len().min(length - done);
            buffer[done..done + count].copy_from_slice(&there[..count]);
            done += count;
        }
        Ok(done)
    }
}

pub(super) const STRETCH: u64 = 256 << 10;

/// Returns how many bytes there were.
pub(super) fn fill<S: Source>(source: &S, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match source.read_at(offset.saturating_add(done as u64), &mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count.min(buffer.len() - done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads as [`fill`] does, and notes unreadable bytes as a defect.
pub(super) fn read(source: &impl Source, offset: u64, buffer: &mut [u8], defects: &mut Defects) -> usize {
    fill(source, offset, buffer).unwrap_or_else(|error| {
        defects.note(offset, || format!("{} bytes cannot be read: {error}", buffer.len()));
        0
    })
}

/// Appends at most `size` bytes, and returns how many.
pub(super) fn append(source: &impl Source, offset: u64, size: usize, to: &mut Vec<u8>, defects: &mut Defects) -> usize {
    // Zeroed by the allocator: `resize` is slow in an unoptimised build.
    let mut added = vec![0; size];
    let there = read(source, offset, &mut added, defects);
    to.extend_from_slice(&added[..there]);
    there
}

/// 0 where there is none.
pub(super) fn word(bytes: &[u8], number: usize) -> u64 {
    let place = number.saturating_mul(8);
    bytes.get(place..place.saturating_add(8)).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(super) const fn low(word: u64) -> u32 {
    word as u32
}

pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

pub(super) fn field(bytes: &[u8], words: &Range<usize>) -> String {
    let end = bytes.len().min(words.end * 8);
    let field = bytes.get(words.start * 8..end).unwrap_or_default();
    let length = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..length]).into_owned()
}

/// Zero where there are none.
pub(super) fn words<S: Source, const N: usize>(source: &S, offset: u64) -> [u64; N] {
    let mut bytes = vec![0; N * WORD];
    let there = fill(source, offset, &mut bytes).unwrap_or(0);
    std::array::from_fn(|number| word(&bytes[..there], number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use crate::trace::layout::Shape;
    use crate::trace::ProcessFacts;

    #[test]
    fn reading_past_the_end_gives_what_is_there() {
        let source = vec![1_u8, 2, 3];
        let mut defects = Defects::default();
        let mut buffer = vec![9];
        assert_eq!(append(&source, 1, 10, &mut buffer, &mut defects), 2);
        assert_eq!(append(&source, u64::MAX, 4, &mut buffer, &mut defects), 0);
        assert_eq!(buffer, [9, 2, 3]);
        assert_eq!(defects.count, 0);
    }

    #[test]
    fn words_in_memory_read_as_their_bytes_do() {
        let shape = Shape::of_bytes(Shape::SMALLEST);
        let words: Vec<_> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let recorder = &Recorder::new(&words, shape, &ProcessFacts::default()).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
        let end = bytes.len() as u64;
        assert_eq!(recorder.size().unwrap(), end);
        for (offset, size) in [(0, 32), (3, 7), (8, 8), (5, 100), (end - 1, 4), (end, 1), (u64::MAX, 3)] {
            let read = |source: &dyn Fn(&mut [u8]) -> io::Result<usize>| {
                let mut buffer = vec![0; size];
                let count = source(&mut buffer).unwrap();
                buffer.truncate(count);
                buffer
            };
            assert_eq!(read(&|b| recorder.read_at(offset, b)), read(&|b| bytes.read_at(offset, b)), "{offset} {size}");
        }
    }

    #[test]
    fn a_word_that_is_not_there_is_zero() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 9];
        assert_eq!((low(word(&bytes, 0)), high(word(&bytes, 0))), (1, 2));
        assert_eq!((word(&bytes, 1), word(&bytes, usize::MAX)), (0, 0));
    }

    #[test]
    fn a_field_ends_at_its_first_zero_and_holds_text_whatever_is_in_it() {
        assert_eq!(field(b"rank 3\0x", &(0..1)), "rank 3");
        assert_eq!(field(b"eight by\xfftes", &(0..2)), "eight by\u{fffd}tes");
        assert_eq!(field(b"short", &(1..2)), "");
    }
}
