//! A thread's caches of look-ups, for its own use alone, valid for one epoch of the state.
//!
//! A [`Cache`] grows while entries that are in use push each other out: a program with ten thousand functions has them all in the cache, and
//! one with five pays for five.
//!
//! Must not: be read by another thread.

use std::sync::atomic::{AtomicU32, AtomicU64 as OwnU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Entries for functions launched on streams.
pub(super) const CACHED_LAUNCHES: usize = 64;

/// What a thread knows of the launches of one function on one stream, on one line of a processor's cache. It is made of the two entries in
/// the [`Cache`]s, which hold more.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct CachedLaunch {
    pub function: OwnU64,
    pub stream: OwnU64,
    /// The epoch for which it holds, and how many uses it has left.
    pub epoch: AtomicU32,
    pub uses_left: AtomicU32,
    /// The subject of the launches' records: both numbers ([`subject_of`](crate::trace::subject_of)).
    pub subject: OwnU64,
    pub context: AtomicU32,
}

/// How many places a key has: neighbours, on one line of a processor's cache.
const WAYS: usize = 2;
/// Each table has so many times the sets of the one before.
const GROWTH: usize = 4;
/// Tables that a cache has at most.
const LEVELS: usize = 6;
/// Sets of the first table.
const FIRST_SETS: usize = 32;

/// What a thread remembers of a handle.
#[derive(Default)]
#[repr(align(32))]
pub(super) struct Line {
    key: OwnU64,
    /// The epoch for which it holds; 0 in an empty line: no epoch is 0.
    epoch: AtomicU32,
    pub context: AtomicU32,
    pub number: AtomicU32,
    pub uses_left: AtomicU32,
}

impl Line {
    #[inline(always)]
    fn holds(&self, key: u64, epoch: u32) -> bool {
        self.key.load(Ordering::Relaxed) == key && self.epoch.load(Ordering::Relaxed) == epoch
    }

    fn is_of(&self, epoch: u32) -> bool {
        self.epoch.load(Ordering::Relaxed) == epoch
    }
}

type Sets = Box<[[Line; WAYS]]>;

/// A cache from handles to numbers, used by one thread.
pub(super) struct Cache {
    tables: [OnceLock<Sets>; LEVELS],
    level: AtomicUsize,
    /// Entries of the newest epoch that were pushed out of the newest table.
    pushed_out: AtomicUsize,
}

impl Cache {
    fn new() -> Self {
        let cache = Self {
            tables: std::array::from_fn(|_| OnceLock::new()),
            level: AtomicUsize::new(0),
            pushed_out: AtomicUsize::new(0),
        };
        cache.table();
        cache
    }

    /// The newest table, made if it is not there.
    fn table(&self) -> &Sets {
        let level = self.level.load(Ordering::Relaxed).min(LEVELS - 1);
        let sets = FIRST_SETS * GROWTH.pow(level as u32);
        self.tables[level].get_or_init(|| (0..sets).map(|_| <[Line; WAYS]>::default()).collect())
    }

    /// The line of a key, if it is there and of this epoch; a key may be there once in each context.
    pub fn line(&self, key: u64, epoch: u32, is_meant: impl Fn(&Line) -> bool) -> Option<&Line> {
        let sets = self.tables.get(self.level.load(Ordering::Relaxed))?.get()?;
        let set = sets.get(place_of(key, sets.len()))?;
        set.iter().find(|line| line.holds(key, epoch) && is_meant(line))
    }

    /// The number of a key in a context.
    pub fn get(&self, key: u64, context: u32, epoch: u32) -> Option<u32> {
        let line = self.line(key, epoch, |line| line.context.load(Ordering::Relaxed) == context)?;
        Some(line.number.load(Ordering::Relaxed))
    }

    /// Remembers a key's number in a context.
    pub fn put(&self, key: u64, context: u32, epoch: u32, number: u32) {
        let is_meant = |line: &Line| line.context.load(Ordering::Relaxed) == context;
        self.put_line(key, epoch, is_meant, context, number, u32::MAX);
    }

    /// Remembers what a line holds, in place of the line that is meant, of one of a former epoch, or of another one.
    pub fn put_line(
        &self,
        key: u64,
        epoch: u32,
        is_meant: impl Fn(&Line) -> bool,
        context: u32,
        number: u32,
        uses_left: u32,
    ) {
        let sets = self.table();
        let Some(set) = sets.get(place_of(key, sets.len())) else { return };
        let same = |line: &&Line| line.holds(key, epoch) && is_meant(line);
        let free = set.iter().find(same).or_else(|| set.iter().find(|line| !line.is_of(epoch)));
        let pushed_out = self.pushed_out.load(Ordering::Relaxed) + usize::from(free.is_none());
        self.pushed_out.store(pushed_out, Ordering::Relaxed);
        // Which one is pushed out changes from time to time, so that of three in turns two can stay.
        let line = free.unwrap_or(&set[pushed_out / WAYS % WAYS]);
        line.key.store(key, Ordering::Relaxed);
        line.context.store(context, Ordering::Relaxed);
        line.number.store(number, Ordering::Relaxed);
        line.uses_left.store(uses_left, Ordering::Relaxed);
        line.epoch.store(epoch, Ordering::Relaxed);
        let level = self.level.load(Ordering::Relaxed);
        if pushed_out > sets.len() && level + 1 < LEVELS {
            // The next table is filled as look-ups fail.
            self.pushed_out.store(0, Ordering::Relaxed);
            self.level.store(level + 1, Ordering::Relaxed);
        }
    }
}

/// What the owner has looked up before. Made when the slot is first used, and kept for the next owner.
pub(super) struct Caches {
    /// The streams to which launches may take the fast path.
    pub launch_streams: Cache,
    pub functions: Cache,
    pub streams: Cache,
}

impl Caches {
    pub fn new() -> Self {
        Self { launch_streams: Cache::new(), functions: Cache::new(), streams: Cache::new() }
    }
}

/// Where a key belongs in a table of so many places, a power of two.
#[inline(always)]
pub(super) fn place_of(key: u64, places: usize) -> usize {
    // Handles are addresses: their low bits are alike. The high bits of the product depend on all of them.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_holds_what_was_put_for_one_epoch_and_context() {
        let cache = Cache::new();
        cache.put(7, 1, 1, 70);
        cache.put(7, 2, 1, 71);
        assert_eq!((cache.get(7, 1, 1), cache.get(7, 2, 1)), (Some(70), Some(71)));
        assert_eq!((cache.get(7, 3, 1), cache.get(7, 1, 2), cache.get(8, 1, 1)), (None, None, None));
        cache.put(7, 1, 1, 72);
        assert_eq!((cache.get(7, 1, 1), cache.get(7, 2, 1)), (Some(72), Some(71)));
        assert_eq!(cache.get(0, 0, 0), Some(0), "an empty line is of epoch 0, which is none");
    }

    #[test]
    fn a_cache_grows_until_it_holds_all_that_is_used() {
        for count in [10, 1000, 10_000] {
            let cache = Cache::new();
            let handles: Vec<u64> = (0..count).map(|n| 0x5555_0000_1000 + n * 0x1c0).collect();
            let missed = || {
                let missed = handles.iter().filter(|&&handle| cache.get(handle, 1, 1).is_none());
                missed.map(|&handle| cache.put(handle, 1, 1, handle as u32)).count()
            };
            (0..20).for_each(|_| _ = missed());
            let missed = missed();
            assert!(missed * 10 < handles.len(), "{missed} of {count} miss");
            let level = cache.level.load(Ordering::Relaxed);
            assert!(FIRST_SETS * GROWTH.pow(level as u32) <= 64 * handles.len(), "level {level} for {count}");
        }
    }

    #[test]
    fn a_former_epochs_entries_make_no_cache_grow() {
        let cache = Cache::new();
        for epoch in 1..100 {
            (0..40).for_each(|handle| cache.put(handle << 12, 1, epoch, 1));
        }
        assert!(cache.level.load(Ordering::Relaxed) <= 1);
    }
}
