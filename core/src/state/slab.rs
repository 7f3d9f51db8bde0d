//! Entries with stable numbers, readable without a lock.
//!
//! Numbers begin at 1; 0 means none. An entry never moves and is never freed, only used again, so a reader may hold a reference for
//! as long as it likes and finds either the entry or its successor there.

use crate::sync::lock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

// Few under the model checker, to which every atomic is a cost.
const FIRST: usize = if cfg!(loom) { 1 } else { 64 };
/// Enough for every number of 32 bits: memory ends before.
const CHUNKS: usize = 26;

pub struct Slab<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    used: AtomicU32,
    free: Mutex<Vec<u32>>,
    make: Box<dyn Fn(usize) -> T + Send + Sync>,
}

impl<T: Default> Default for Slab<T> {
    fn default() -> Self {
        Self::made_by(|_| T::default())
    }
}

/// Which chunk, and where in it, entry `index` (from 0) lies: chunk `n` holds `FIRST << n` entries.
fn place(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Slab<T> {
    /// Entries that `make` makes, each of its number less 1.
    pub fn made_by(make: impl Fn(usize) -> T + Send + Sync + 'static) -> Self {
        Self {
            chunks: std::array::from_fn(|_| OnceLock::new()),
            used: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
            make: Box::new(make),
        }
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        let index = (number as usize).wrapping_sub(1);
        // Most processes never get past the first chunk, and every launch runs this.
        if index < FIRST {
            return self.chunks[0].get()?.get(index);
        }
        self.get_far(index)
    }

    #[inline(never)]
    fn get_far(&self, index: usize) -> Option<&T> {
        // The number 0, which has no entry, comes here as well.
        let (chunk, offset) = place((index != usize::MAX).then_some(index)?);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// A number for a new entry: one that was given back, or the next.
    pub fn take(&self) -> u32 {
        if let Some(number) = lock(&self.free).pop() {
            return number;
        }
        let index = self.used.fetch_add(1, Ordering::Relaxed) as usize;
        let (chunk, _) = place(index);
        let Some(cell) = self.chunks.get(chunk) else { return 0 };
        cell.get_or_init(|| {
            let before = FIRST * ((1 << chunk) - 1);
            (before..before + (FIRST << chunk)).map(|index| (self.make)(index)).collect()
        });
        index as u32 + 1
    }

    /// Gives a number back. The entry says so by then: readers may still look at it.
    pub fn give_back(&self, number: u32) {
        lock(&self.free).push(number);
    }

    /// All entries ever used, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (1..=self.used.load(Ordering::Relaxed)).filter_map(|n| Some((n, self.get(n)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_stable_and_used_again() {
        let slab = Slab::<AtomicU32>::default();
        for n in 1..=1000 {
            assert_eq!(slab.take(), n);
            slab.get(n).unwrap().store(n, Ordering::Relaxed);
        }
        assert!(slab.iter().all(|(n, e)| e.load(Ordering::Relaxed) == n));
        assert_eq!(slab.iter().count(), 1000);
        slab.give_back(17);
        assert_eq!(slab.take(), 17);
        assert_eq!(slab.take(), 1001);
        assert!(slab.get(0).is_none());
    }
}
