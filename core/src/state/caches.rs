//! A thread's caches of look-ups, for its own use alone, valid for one epoch of the state.
//!
//! A [`Cache`] grows while entries that are in use push each other out: a program with ten thousand functions has them all in the cache, and
//! one with five pays for five.
//!
//! Must not: be read by another thread.

use std::sync::atomic::{compiler_fence, AtomicU16, AtomicU32, AtomicU64 as OwnU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// A thread's facts about the launches of one function on one stream, or about other calls with one object and stream. An entry is one line of a
/// processor's cache, made of what the thread remembers of the two handles.
#[derive(Default)]
#[repr(align(64))]
pub struct CachedLaunch {
    pub(super) function: OwnU64,
    pub(super) stream: OwnU64,
    /// The epoch for which it holds, and how many uses it has left.
    pub(super) epoch: AtomicU32,
    pub(super) uses_left: AtomicU32,
    /// The subject of the launches' records: both numbers ([`subject_of`](crate::trace::subject_of)).
    pub(super) subject: OwnU64,
    pub(super) context: AtomicU16,
    /// The number of the function, or of another object.
    pub(super) number: AtomicU32,
    /// The address of the library's entry for the path by which the program came to the newest of these launches; below 2 without one.
    pub(super) path: AtomicUsize,
}

impl CachedLaunch {
    #[inline(always)]
    pub(super) fn serves(&self, function: u64, stream: u64, epoch: u32) -> bool {
        self.is_of(function, stream)
            && self.epoch.load(Ordering::Relaxed) == epoch
            && self.uses_left.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn is_of(&self, function: u64, stream: u64) -> bool {
        self.function.load(Ordering::Relaxed) == function && self.stream.load(Ordering::Relaxed) == stream
    }
}

/// How many entries each table of launches has: 4 KiB of them, up to 64 KiB. A larger one has each launch wait for its line of memory, and takes the
/// driver's lines out of the processor's caches; what has no room is looked up in the thread's other caches, which are small.
const LAUNCHES: [usize; 3] = [64, 256, 1024];
/// One of so many launches that find no room in the largest table pushes another one out: frequent launches get in.
const PUSHES_OUT: usize = 8;

/// The launches that a thread knows. The look-up is in one place of the newest table, which a launch has at hand; what is not there
/// may be beside it. Only the slow path makes a table.
#[derive(Default)]
pub(super) struct Launches {
    tables: [OnceLock<Box<[CachedLaunch]>>; LAUNCHES.len()],
    level: AtomicUsize,
    /// How often an entry of the newest epoch was in the way of another one in the newest table.
    pushed_out: AtomicUsize,
    /// The entry for a launch that finds no room in the largest table.
    spare: CachedLaunch,
}

impl Launches {
    /// The newest table, or a larger one where entries push each other out of it; made if it is not there.
    pub fn grown(&self) -> &[CachedLaunch] {
        let level = self.level.load(Ordering::Relaxed).min(LAUNCHES.len() - 1);
        let is_small = self.pushed_out.load(Ordering::Relaxed) > LAUNCHES[level] / 4;
        let level = (level + usize::from(is_small)).min(LAUNCHES.len() - 1);
        let table = made_once(&self.tables[level], || (0..LAUNCHES[level]).map(|_| CachedLaunch::default()).collect());
        if is_small {
            // The table is filled as look-ups fail.
            self.pushed_out.store(0, Ordering::Relaxed);
            self.level.store(level, Ordering::Relaxed);
        }
        table
    }

    /// The entry that is to hold the launches of this function and stream: theirs, one of a former epoch, or another one.
    pub fn entry_for(&self, function: u64, stream: u64, epoch: u32) -> Option<&CachedLaunch> {
        let level = self.level.load(Ordering::Relaxed);
        let table = self.tables.get(level)?.get()?;
        let place = place_of_launch(function, stream, table.len());
        let both = [table.get(place)?, table.get(place ^ 1)?];
        let is_old = |one: &&&CachedLaunch| one.epoch.load(Ordering::Relaxed) != epoch;
        let free = both.iter().find(|one| one.is_of(function, stream)).or_else(|| both.iter().find(is_old));
        if let Some(free) = free {
            return Some(free);
        }
        let pushed_out = self.pushed_out.load(Ordering::Relaxed) + 1;
        self.pushed_out.store(pushed_out, Ordering::Relaxed);
        let turns = if level + 1 < LAUNCHES.len() { 1 } else { PUSHES_OUT };
        if !pushed_out.is_multiple_of(turns) {
            return Some(&self.spare);
        }
        both.get(pushed_out / turns % both.len()).copied()
    }
}

/// The place of the launches of this function and stream in a table of so many places, a power of two.
#[inline(always)]
pub(super) fn place_of_launch(function: u64, stream: u64, places: usize) -> usize {
    place_of(function ^ stream.rotate_left(23), places)
}

/// How many places a key has: neighbours, on one line of a processor's cache.
const WAYS: usize = 2;
/// Each table has so many times the sets of the one before.
const GROWTH: usize = 4;
const LEVELS: usize = 6;
const FIRST_SETS: usize = 32;

#[derive(Default)]
#[repr(align(32))]
pub(super) struct Line {
    key: OwnU64,
    /// The epoch for which it holds; 0 in an empty line: no epoch is 0.
    epoch: AtomicU32,
    pub context: AtomicU32,
    pub number: AtomicU32,
    pub uses_left: AtomicU32,
    /// The address of the library's entry for the path to a function's launches; below 2 without one.
    pub path: AtomicUsize,
}

impl Line {
    #[inline(always)]
    fn holds(&self, key: u64, epoch: u32) -> bool {
        self.key.load(Ordering::Relaxed) == key && self.epoch.load(Ordering::Relaxed) == epoch
    }

    fn is_of(&self, epoch: u32) -> bool {
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    pub fn of_context(context: u32) -> impl Fn(&Self) -> bool {
        move |line| line.context.load(Ordering::Relaxed) == context
    }
}

type Sets = Box<[[Line; WAYS]]>;

#[derive(Default)]
pub(super) struct Cache {
    tables: [OnceLock<Sets>; LEVELS],
    level: AtomicUsize,
    pushed_out: AtomicUsize,
}

impl Cache {
    /// The newest table, made if it is not there.
    fn table(&self) -> &Sets {
        let level = self.level.load(Ordering::Relaxed).min(LEVELS - 1);
        let sets = FIRST_SETS * GROWTH.pow(level as u32);
        made_once(&self.tables[level], || (0..sets).map(|_| <[Line; WAYS]>::default()).collect())
    }

    /// The line of a key, if it is there and of this epoch; a key may be there once in each context.
    pub fn line(&self, key: u64, epoch: u32, is_meant: impl Fn(&Line) -> bool) -> Option<&Line> {
        let sets = self.tables.get(self.level.load(Ordering::Relaxed))?.get()?;
        let set = sets.get(place_of(key, sets.len()))?;
        set.iter().find(|line| line.holds(key, epoch) && is_meant(line))
    }

    pub fn get(&self, key: u64, context: u32, epoch: u32) -> Option<u32> {
        let line = self.line(key, epoch, Line::of_context(context))?;
        Some(line.number.load(Ordering::Relaxed))
    }

    pub fn put(&self, key: u64, context: u32, epoch: u32, number: u32) {
        let is_meant = Line::of_context(context);
        self.put_line(key, epoch, is_meant, context, number, u32::MAX);
    }

    /// Remembers what a line holds, in the line with that content, in one of a former epoch, or in place of another one.
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
        // A signal handler that leaves this by a jump leaves an empty line, or all of it.
        line.epoch.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        line.key.store(key, Ordering::Relaxed);
        line.context.store(context, Ordering::Relaxed);
        line.number.store(number, Ordering::Relaxed);
        line.uses_left.store(uses_left, Ordering::Relaxed);
        line.path.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        line.epoch.store(epoch, Ordering::Relaxed);
        let level = self.level.load(Ordering::Relaxed);
        if pushed_out > sets.len() && level + 1 < LEVELS {
            // The next table is filled as look-ups fail.
            self.pushed_out.store(0, Ordering::Relaxed);
            self.level.store(level + 1, Ordering::Relaxed);
        }
    }
}

/// The owner's earlier look-ups. Made when the slot is first used, and kept for the next owner.
#[derive(Default)]
pub(super) struct Caches {
    /// The streams to which launches may take the fast path.
    pub launch_streams: Cache,
    pub functions: Cache,
    pub streams: Cache,
}

/// Gets the value, or makes it; only one thread does so. A signal handler may leave the making by a jump: in `get_or_init` the thread would then
/// wait for itself.
fn made_once<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match place.get() {
        Some(there) => there,
        None => {
            let made = make();
            place.get_or_init(|| made)
        }
    }
}

/// The place of a key in a table of so many places, a power of two.
#[inline(always)]
fn place_of(key: u64, places: usize) -> usize {
    // Handles are addresses: their low bits are alike. These bits of the product depend on all of them, and on the number of a call above them
    // (`object_key`).
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::object_key;
    use super::*;
    use crate::api::EntryPoint;

    #[test]
    fn launches_that_push_each_other_out_get_a_larger_table() {
        let launches = Launches::default();
        assert_eq!(launches.grown().len(), LAUNCHES[0]);
        // Two hundred functions on twenty streams, as handles come.
        let used = |epoch: u32| {
            let mut missing = 0;
            for n in 0..200_u64 {
                let (function, stream) = (0x5555_0000_0000 + n * 0x350, 0x7777_0000_0000 + n % 20 * 0x1d0);
                let entry = launches.entry_for(function, stream, epoch).unwrap();
                missing += usize::from(!entry.serves(function, stream, epoch));
                if n % 63 == 0 {
                    launches.grown();
                }
                entry.function.store(function, Ordering::Relaxed);
                entry.stream.store(stream, Ordering::Relaxed);
                entry.epoch.store(epoch, Ordering::Relaxed);
                entry.uses_left.store(1, Ordering::Relaxed);
            }
            missing
        };
        assert_eq!(used(1), 200);
        let missing: Vec<_> = (0..40).map(|_| used(1)).collect();
        assert!(missing[2..].iter().all(|&missing| missing < 20), "{missing:?}");
        // In another epoch none of them serves, and none is in another's way.
        let level = launches.level.load(Ordering::Relaxed);
        assert_eq!(used(2), 200);
        assert_eq!(launches.level.load(Ordering::Relaxed), level);
    }

    #[test]
    fn launches_that_find_no_room_share_one_entry_and_get_in_if_they_come_often() {
        let launches = Launches::default();
        // The first launches fill the largest table.
        let use_it = |function: u64| {
            let entry = launches.entry_for(function << 8, 0, 1).unwrap();
            let serves = entry.serves(function << 8, 0, 1);
            entry.function.store(function << 8, Ordering::Relaxed);
            entry.epoch.store(1, Ordering::Relaxed);
            entry.uses_left.store(1, Ordering::Relaxed);
            (serves, std::ptr::eq(entry, &launches.spare))
        };
        for round in 0..10_u64 {
            assert!(launches.grown().len() <= LAUNCHES[2]);
            (0..8000).for_each(|n| _ = use_it(n + round));
        }
        assert_eq!(launches.grown().len(), LAUNCHES[2]);
        let spare = (8010..16_000).filter(|&n| use_it(n).1).count();
        assert!(spare > 6000, "{spare}");
        // The same one again finds itself there, whether in the table or not.
        let last = 16_001;
        assert!((0..3).any(|_| use_it(last).0));
        // One that comes in turns with others is in the table by and by.
        let comes = |n: u64| [use_it(last), use_it(20_000 + n)][0];
        assert!((0..200).any(|n| comes(n) == (true, false)));
    }

    #[test]
    fn in_a_table_that_may_grow_each_launch_pushes_one_of_two_out_in_turn() {
        let launches = Launches::default();
        launches.grown();
        let place = |function: u64| place_of_launch(function, 0, LAUNCHES[0]);
        let mut alike = (1..).filter(|&function| place(function) == place(1));
        let mut use_next = || {
            let entry = launches.entry_for(alike.next().unwrap(), 0, 7).unwrap();
            entry.epoch.store(7, Ordering::Relaxed);
            std::ptr::from_ref(entry)
        };
        let first_two = [use_next(), use_next()];
        let pushed_out: Vec<_> = (0..4).map(|_| use_next()).collect();
        assert!(!pushed_out.contains(&std::ptr::from_ref(&launches.spare)));
        assert!(first_two.iter().all(|entry| pushed_out.contains(entry)));
        assert!(pushed_out.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn calls_about_no_object_on_one_stream_have_places_of_their_own() {
        let symbols: [&[u8]; 5] = [
            b"cuMemAllocAsync",
            b"cuMemFreeAsync",
            b"cuMemsetD8Async",
            b"cuMemcpyDtoDAsync_v2",
            b"cuStreamWriteValue32",
        ];
        let objects = symbols.map(|symbol| object_key(EntryPoint::by_symbol(symbol).unwrap(), 0));
        let meets = |n: u64| {
            let places = objects.map(|object| place_of_launch(object, 0x5555_0000_0000 + n * 0x1d0, LAUNCHES[0]));
            (1..places.len()).filter(|&at| places[..at].contains(&places[at])).count()
        };
        // At random one of some thirty meets another one.
        assert!((0..100).map(meets).sum::<usize>() < 40);
    }

    #[test]
    fn a_launch_that_is_not_in_its_place_is_beside_it() {
        let launches = Launches::default();
        let table = launches.grown();
        let place = |function: u64| place_of_launch(function, 0, LAUNCHES[0]);
        let alike: Vec<u64> = (1..).filter(|&function| place(function) == place(1)).take(2).collect();
        for &function in &alike {
            let entry = launches.entry_for(function, 0, 7).unwrap();
            entry.function.store(function, Ordering::Relaxed);
            entry.epoch.store(7, Ordering::Relaxed);
            entry.uses_left.store(5, Ordering::Relaxed);
        }
        for &function in &alike {
            assert!(launches.entry_for(function, 0, 7).unwrap().serves(function, 0, 7));
        }
        assert!(table[place(1)].serves(1, 0, 7) && table[place(1) ^ 1].serves(alike[1], 0, 7));
    }

    #[test]
    fn a_cache_holds_what_was_put_for_one_epoch_and_context() {
        let cache = Cache::default();
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
            let cache = Cache::default();
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
        let cache = Cache::default();
        for epoch in 1..100 {
            (0..40).for_each(|handle| cache.put(handle << 12, 1, epoch, 1));
        }
        assert!(cache.level.load(Ordering::Relaxed) <= 1);
    }
}
