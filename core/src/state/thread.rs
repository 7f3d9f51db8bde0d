//! A thread's slot: the driver call it is in, visible to others, and its private shortcuts.
//!
//! Protocol: the owning thread writes, anybody reads. The facts of a call are stored first and the call's mark last, with
//! Release; a reader takes the mark with Acquire, the facts, and the mark and the serial number again: if they changed,
//! the call is over and was not stuck. The caches and the depth are the owner's alone.

use crate::api::Form;
use crate::trace::Ring;
use crate::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

const STREAM_CACHE: usize = 16;
const FUNCTION_CACHE: usize = 128;

/// A driver call in progress, as another thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedCall {
    /// The thread.
    pub thread: u32,
    /// The call.
    pub form: Form,
    /// When it was entered.
    pub entered: Nanos,
    /// The context's number, or 0.
    pub context: u32,
    /// The stream's number, or 0.
    pub stream: u32,
    /// The function's number, or 0.
    pub function: u32,
    /// The handle of the module or library it is about, or 0.
    pub owner: u64,
    /// Whether it loads on first use: 0 no, 1 a function, 2 a whole module.
    pub cold: u32,
    /// Which of the thread's calls this is.
    pub serial: u64,
    /// The address of the stack frame it was entered from.
    pub frame: usize,
}

struct CacheLine {
    key: AtomicU64,
    context: AtomicU32,
    number: AtomicU32,
    epoch: AtomicU32,
}

/// A small direct-mapped cache from handles to numbers, used by one thread.
struct Cache<const N: usize>([CacheLine; N]);

impl<const N: usize> Cache<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| CacheLine {
            key: AtomicU64::new(0),
            context: AtomicU32::new(0),
            number: AtomicU32::new(0),
            epoch: AtomicU32::new(u32::MAX),
        }))
    }

    fn line(&self, key: u64) -> &CacheLine {
        // Handles are addresses: their low bits are alike, so the middle ones choose the line.
        let mixed = (key ^ (key >> 17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(mixed >> 40) as usize % N]
    }

    fn get(&self, key: u64, context: u32, epoch: u32) -> Option<u32> {
        let line = self.line(key);
        let hit = line.key.load(Ordering::Relaxed) == key
            && line.epoch.load(Ordering::Relaxed) == epoch
            && line.context.load(Ordering::Relaxed) == context;
        hit.then(|| line.number.load(Ordering::Relaxed))
    }

    fn put(&self, key: u64, context: u32, epoch: u32, number: u32) {
        let line = self.line(key);
        line.key.store(key, Ordering::Relaxed);
        line.context.store(context, Ordering::Relaxed);
        line.number.store(number, Ordering::Relaxed);
        line.epoch.store(epoch, Ordering::Relaxed);
    }
}

/// See the module.
#[repr(align(64))]
pub struct ThreadSlot {
    mark: AtomicU32,
    context: AtomicU32,
    entered: AtomicU64,
    stream: AtomicU32,
    function: AtomicU32,
    owner: AtomicU64,
    cold: AtomicU32,
    serial: AtomicU64,
    launches: AtomicU64,
    depth: AtomicU32,
    frame: AtomicUsize,
    thread: AtomicU32,
    in_use: AtomicBool,
    streams: Cache<STREAM_CACHE>,
    functions: Cache<FUNCTION_CACHE>,
    ring: OnceLock<Ring>,
}

impl Default for ThreadSlot {
    fn default() -> Self {
        Self {
            mark: AtomicU32::new(0),
            context: AtomicU32::new(0),
            entered: AtomicU64::new(0),
            stream: AtomicU32::new(0),
            function: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            cold: AtomicU32::new(0),
            serial: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            frame: AtomicUsize::new(0),
            thread: AtomicU32::new(0),
            in_use: AtomicBool::new(false),
            streams: Cache::new(),
            functions: Cache::new(),
            ring: OnceLock::new(),
        }
    }
}

impl ThreadSlot {
    pub(super) fn begin(&self, thread: u32, ring_records: usize) {
        self.mark.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.ring.get_or_init(|| Ring::new(ring_records));
        self.in_use.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.mark.store(0, Ordering::Release);
        self.in_use.store(false, Ordering::Release);
    }

    /// Whether a thread owns the slot.
    pub fn in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// The owning thread.
    pub fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// The owner's records.
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.get()
    }

    /// The owner enters LazyGuard's own code, from a stack frame at this address; `false` if it was there already, in which
    /// case the call that led here is the driver's own, LazyGuard's own, or a signal handler's, and passes untouched.
    #[inline]
    pub fn enter(&self, frame: usize) -> bool {
        // Not an atomic exchange: only the owner, or a signal handler on top of it, comes here, and a handler that gets
        // in between finishes, and restores the depth, before the owner goes on.
        if self.depth.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.frame.store(frame, Ordering::Relaxed);
        self.depth.store(1, Ordering::Relaxed);
        true
    }

    /// Whether the call that the owner entered last was left without returning, by an exception or a jump: a frame that
    /// is further out than that call's cannot be inside it. Stacks grow downwards wherever there is CUDA. Frames on another
    /// stack, as a signal handler may have, are not told apart here.
    pub fn abandoned(&self, frame: usize) -> bool {
        frame >= self.frame.load(Ordering::Relaxed)
    }

    /// The owner leaves LazyGuard's code.
    #[inline]
    pub fn leave(&self) {
        self.depth.store(0, Ordering::Relaxed);
    }

    /// The owner launches a kernel.
    #[inline]
    pub fn count_launch(&self) {
        self.launches.store(self.launches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How many calls, and how many launches among them, went through this slot, whoever owned it.
    pub fn counts(&self) -> (u64, u64) {
        (self.serial.load(Ordering::Relaxed), self.launches.load(Ordering::Relaxed))
    }

    /// Publishes the call the owner is about to make. It becomes visible with [`ThreadSlot::mark`].
    #[inline]
    pub fn describe(&self, entered: Nanos, context: u32, stream: u32, function: u32) {
        // Keeps the facts of this call behind the end of the last one's mark, for a reader that takes them in between.
        std::sync::atomic::fence(Ordering::Release);
        self.entered.store(entered, Ordering::Relaxed);
        self.context.store(context, Ordering::Relaxed);
        self.stream.store(stream, Ordering::Relaxed);
        self.function.store(function, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        self.cold.store(0, Ordering::Relaxed);
        self.serial.store(self.serial.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds to the description that the call loads, or unloads, what belongs to `owner`; `cold` as in [`PublishedCall`].
    pub fn describe_load(&self, owner: u64, cold: u32) {
        self.owner.store(owner, Ordering::Relaxed);
        self.cold.store(cold, Ordering::Relaxed);
    }

    /// Makes the described call visible. Release: partner of the Acquire in [`ThreadSlot::published`].
    #[inline]
    pub fn mark(&self, form: Form) {
        self.mark.store(form.index() as u32 + 1, Ordering::Release);
    }

    /// The call is over, or has not been let through the gate.
    #[inline]
    pub fn unmark(&self) {
        self.mark.store(0, Ordering::Release);
    }

    /// The call in progress, if there is one.
    pub fn published(&self) -> Option<PublishedCall> {
        if !self.in_use() {
            return None;
        }
        let mark = self.mark.load(Ordering::Acquire);
        let serial = self.serial.load(Ordering::Relaxed);
        let call = PublishedCall {
            thread: self.thread(),
            form: Form::from_index((mark as usize).checked_sub(1)?)?,
            entered: self.entered.load(Ordering::Relaxed),
            context: self.context.load(Ordering::Relaxed),
            stream: self.stream.load(Ordering::Relaxed),
            function: self.function.load(Ordering::Relaxed),
            owner: self.owner.load(Ordering::Relaxed),
            cold: self.cold.load(Ordering::Relaxed),
            serial,
            frame: self.frame.load(Ordering::Relaxed),
        };
        // The fence keeps the reads above from moving below the second look.
        std::sync::atomic::fence(Ordering::Acquire);
        let still = self.mark.load(Ordering::Relaxed) == mark && self.serial.load(Ordering::Relaxed) == serial;
        still.then_some(call)
    }

    /// The number of a stream the owner used before.
    #[inline]
    pub fn cached_stream(&self, handle: u64, epoch: u32) -> Option<u32> {
        self.streams.get(handle, 0, epoch)
    }

    /// Remembers a stream's number.
    pub fn cache_stream(&self, handle: u64, epoch: u32, number: u32) {
        self.streams.put(handle, 0, epoch, number);
    }

    /// The number of a function that is known to be loaded in the context.
    #[inline]
    pub fn cached_loaded_function(&self, handle: u64, context: u32, epoch: u32) -> Option<u32> {
        self.functions.get(handle, context, epoch)
    }

    /// Remembers the number of a function that is loaded in the context.
    pub fn cache_loaded_function(&self, handle: u64, context: u32, epoch: u32, number: u32) {
        self.functions.put(handle, context, epoch, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_visible_from_mark_to_unmark_with_its_facts() {
        let slot = ThreadSlot::default();
        slot.begin(42, 2);
        assert_eq!(slot.published(), None);
        let form = Form::by_symbol(b"cuStreamSynchronize").unwrap();
        slot.describe(100, 1, 2, 3);
        assert_eq!(slot.published(), None);
        slot.mark(form);
        let call = slot.published().unwrap();
        assert_eq!((call.thread, call.form, call.entered), (42, form, 100));
        assert_eq!((call.context, call.stream, call.function, call.cold), (1, 2, 3, 0));
        slot.unmark();
        assert_eq!(slot.published(), None);
    }

    #[test]
    fn a_call_inside_a_call_is_told_apart() {
        let slot = ThreadSlot::default();
        slot.begin(1, 2);
        assert!(slot.enter(0x7000));
        assert!(!slot.enter(0x6f00), "further in");
        assert!(!slot.abandoned(0x6f00));
        assert!(slot.abandoned(0x7100), "an exception went through the call");
        slot.leave();
        assert!(slot.enter(0x7000));
    }

    #[test]
    fn the_caches_forget_when_the_epoch_moves_and_keep_contexts_apart() {
        let slot = ThreadSlot::default();
        slot.cache_stream(0x5000, 1, 9);
        slot.cache_loaded_function(0x6000, 1, 1, 4);
        assert_eq!(slot.cached_stream(0x5000, 1), Some(9));
        assert_eq!(slot.cached_stream(0x5000, 2), None);
        assert_eq!(slot.cached_loaded_function(0x6000, 1, 1), Some(4));
        assert_eq!(slot.cached_loaded_function(0x6000, 2, 1), None);
    }
}
