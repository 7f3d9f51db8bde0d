//! A thread's caches of look-ups, for its own use alone, valid for one epoch of the state.
//!
//! Must not: be read by another thread.

use std::sync::atomic::{AtomicU32, AtomicU64 as OwnU64, AtomicUsize, Ordering};

const STREAM_CACHE: usize = 16;
const FUNCTION_CACHE: usize = 512;

/// Entries of a thread's caches: streams, and functions launched on a stream.
pub(super) const CACHED_STREAMS: usize = 256;
pub(super) const CACHED_LAUNCHES: usize = 64;

/// What a thread knows of the launches of one function on one stream, on one line of a processor's cache. The owning thread's
/// alone.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct CachedLaunch {
    pub function: OwnU64,
    pub stream: OwnU64,
    /// The epoch for which it holds, and how many uses it has left.
    pub epoch: AtomicU32,
    pub uses_left: AtomicU32,
    pub function_number: AtomicU32,
    pub stream_number: AtomicU32,
    pub context: AtomicU32,
    /// Where the entries of the stream and its context begin, in words of the recording.
    pub stream_at: AtomicUsize,
    pub context_at: AtomicUsize,
}

/// What the launches on one stream have in common, from which a [`CachedLaunch`] is made. The owning thread's alone.
#[derive(Default)]
pub(super) struct CachedStream {
    pub stream: OwnU64,
    /// The epoch for which it holds, how many uses it has left, and how many a [`CachedLaunch`] made of it has.
    pub epoch: AtomicU32,
    pub uses_left: AtomicU32,
    pub uses_per_launch: AtomicU32,
    pub number: AtomicU32,
    pub context: AtomicU32,
    /// Where the entries of the stream and its context begin, in words of the recording.
    pub stream_at: AtomicUsize,
    pub context_at: AtomicUsize,
}

#[derive(Default)]
struct CacheLine {
    key: OwnU64,
    context: AtomicU32,
    number: AtomicU32,
    epoch: AtomicU32,
}

/// A small direct-mapped cache from handles to numbers, used by one thread.
pub(super) struct Cache(Box<[CacheLine]>);

impl Cache {
    /// A cache of as many lines, a power of two. No epoch is 0, so nothing is found in it.
    fn new(lines: usize) -> Self {
        Self((0..lines).map(|_| CacheLine::default()).collect())
    }

    #[inline(always)]
    fn line(&self, key: u64) -> Option<&CacheLine> {
        self.0.get(place_of(key, self.0.len()))
    }

    #[inline(always)]
    pub fn get(&self, key: u64, context: u32, epoch: u32) -> Option<u32> {
        let line = self.line(key)?;
        let hit = line.key.load(Ordering::Relaxed) == key
            && line.epoch.load(Ordering::Relaxed) == epoch
            && line.context.load(Ordering::Relaxed) == context;
        hit.then(|| line.number.load(Ordering::Relaxed))
    }

    pub fn put(&self, key: u64, context: u32, epoch: u32, number: u32) {
        let Some(line) = self.line(key) else { return };
        line.key.store(key, Ordering::Relaxed);
        line.context.store(context, Ordering::Relaxed);
        line.number.store(number, Ordering::Relaxed);
        line.epoch.store(epoch, Ordering::Relaxed);
    }
}

/// What the owner has looked up before. Made when the slot is first used, and kept for the next owner.
pub(super) struct Caches {
    pub cached_streams: Box<[CachedStream]>,
    pub streams: Cache,
    pub functions: Cache,
}

impl Caches {
    pub fn new() -> Self {
        Self {
            cached_streams: (0..CACHED_STREAMS).map(|_| CachedStream::default()).collect(),
            streams: Cache::new(STREAM_CACHE),
            functions: Cache::new(FUNCTION_CACHE),
        }
    }
}

/// Where a key belongs in a direct-mapped table of so many places, a power of two.
#[inline(always)]
pub(super) fn place_of(key: u64, places: usize) -> usize {
    // Handles are addresses: their low bits are alike. The high bits of the product depend on all of them.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & places.wrapping_sub(1)
}
