//! Contexts, and the functions and kernels that are launched in them.

use crate::sync::{AtomicU64, Ordering};
use crate::trace::layout::context as place;
use crate::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// A driver context. The recording's table of contexts holds the words that readers need after the process is gone.
pub struct Context {
    words: Words,
    primary: AtomicBool,
    captures: AtomicU32,
    local_memory: AtomicUsize,
    launched: AtomicBool,
}

type Words = &'static [AtomicU64; place::WORDS];

impl Context {
    pub(super) fn over(words: Words) -> Self {
        Self {
            words,
            primary: AtomicBool::new(false),
            captures: AtomicU32::new(0),
            local_memory: AtomicUsize::new(0),
            launched: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(&self, handle: u64, now: Nanos) {
        self.words[place::HANDLE].store(handle, Ordering::Relaxed);
        self.words[place::BORN].store(now, Ordering::Relaxed);
        self.words[place::IDLE_UNTIL].store(now, Ordering::Relaxed);
        self.words[place::ORPHANED_UNTIL].store(0, Ordering::Relaxed);
        self.primary.store(false, Ordering::Relaxed);
        self.captures.store(0, Ordering::Relaxed);
        self.local_memory.store(0, Ordering::Relaxed);
        self.launched.store(false, Ordering::Relaxed);
        // Release: partner of the Acquire in `alive`.
        self.words[place::ALIVE].store(Self::status(true, -1), Ordering::Release);
    }

    fn status(alive: bool, device: i32) -> u64 {
        u64::from(alive) | u64::from(device as u32) << 32
    }

    pub(super) fn end(&self) {
        self.words[place::ALIVE].store(Self::status(false, self.device()), Ordering::Release);
    }

    pub fn alive(&self) -> bool {
        self.words[place::ALIVE].load(Ordering::Acquire) as u32 != 0
    }

    pub fn handle(&self) -> u64 {
        self.words[place::HANDLE].load(Ordering::Relaxed)
    }

    /// Its device, or -1 where that is not known.
    pub fn device(&self) -> i32 {
        (self.words[place::ALIVE].load(Ordering::Relaxed) >> 32) as u32 as i32
    }

    pub(super) fn set_device(&self, device: i32, primary: bool) {
        self.words[place::ALIVE].store(Self::status(self.alive(), device), Ordering::Relaxed);
        self.primary.store(primary, Ordering::Relaxed);
    }

    pub fn is_primary_of(&self, device: i32) -> bool {
        self.primary.load(Ordering::Relaxed) && self.device() == device
    }

    #[inline]
    pub fn idle_until(&self) -> Nanos {
        self.words[place::IDLE_UNTIL].load(Ordering::Relaxed)
    }

    pub fn complete_until(&self, entered: Nanos) {
        self.words[place::IDLE_UNTIL].fetch_max(entered, Ordering::Relaxed);
    }

    /// Work was submitted until then on streams that exist no more, and may not have ended.
    pub(super) fn orphaned_until(&self, last: Nanos) {
        self.words[place::ORPHANED_UNTIL].fetch_max(last, Ordering::Relaxed);
    }

    pub fn has_orphans(&self) -> bool {
        self.words[place::ORPHANED_UNTIL].load(Ordering::Relaxed) > self.idle_until()
    }

    /// The local memory that is known to be set aside there, in bytes a thread: less than there is where a launch was not seen.
    pub fn local_memory(&self) -> u64 {
        self.local_memory.load(Ordering::Relaxed) as u64
    }

    /// A launch, a graph or a limit sets so many bytes a thread aside. Returns how many were known to be before.
    pub fn sets_local_memory_aside(&self, bytes: u64) -> u64 {
        self.local_memory.fetch_max(bytes as usize, Ordering::Relaxed) as u64
    }

    pub fn set_launched(&self) {
        // Most launches find that: the line is shared by all threads that launch there.
        if !self.has_launched() {
            self.launched.store(true, Ordering::Relaxed);
        }
    }

    pub fn has_launched(&self) -> bool {
        self.launched.load(Ordering::Relaxed)
    }

    pub fn capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) > 0
    }

    pub(super) fn capture_began(&self) {
        // Release: a thread that is let through the gate afterwards sees the capture (Acquire in `capturing`).
        self.captures.fetch_add(1, Ordering::Release);
    }

    pub(super) fn capture_ended(&self) {
        let _ = self.captures.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// A `CUfunction`, which belongs to one context.
    Function,
    /// A `CUkernel`, which every context may launch and each loads for itself.
    Kernel,
}

/// A `CUfunction` or a `CUkernel`.
#[derive(Default)]
pub struct Function {
    handle: AtomicU64,
    alive: AtomicBool,
    kernel: AtomicBool,
    name: AtomicU32,
    owner: AtomicU64,
    loaded_in: AtomicU64,
    /// Contexts in which the guard loaded it, and the program has not used it since.
    ahead_in: AtomicU64,
    /// Contexts in which it was launched.
    launched_in: AtomicU64,
    /// Whether the recording has its name and owner.
    introduced: AtomicBool,
}

impl Function {
    pub(super) fn begin(&self, handle: u64, kind: FunctionKind, owner: u64) {
        self.handle.store(handle, Ordering::Relaxed);
        self.kernel.store(kind == FunctionKind::Kernel, Ordering::Relaxed);
        self.name.store(0, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Relaxed);
        self.loaded_in.store(0, Ordering::Relaxed);
        self.ahead_in.store(0, Ordering::Relaxed);
        self.launched_in.store(0, Ordering::Relaxed);
        self.introduced.store(false, Ordering::Relaxed);
        self.alive.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    pub fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    pub fn kind(&self) -> FunctionKind {
        if self.kernel.load(Ordering::Relaxed) {
            FunctionKind::Kernel
        } else {
            FunctionKind::Function
        }
    }

    /// The handle of its module or library, or 0 where that was not seen.
    pub fn owner(&self) -> u64 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Whether it has not been introduced to the recording yet; from now on it has.
    pub(super) fn introduce(&self) -> bool {
        // A load before the exchange: only one use of a function is its first.
        !self.introduced.load(Ordering::Relaxed) && !self.introduced.swap(true, Ordering::Relaxed)
    }

    pub(super) fn set_owner(&self, owner: u64) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    pub(super) fn name_number(&self) -> u32 {
        self.name.load(Ordering::Relaxed)
    }

    pub(super) fn set_name_number(&self, name: u32) {
        self.name.store(name, Ordering::Relaxed);
    }

    pub fn loaded_in(&self, context: u32) -> bool {
        self.loaded_in.load(Ordering::Relaxed) & bit(context) != 0
    }

    pub fn set_loaded_in(&self, context: u32) {
        self.loaded_in.fetch_or(bit(context), Ordering::Relaxed);
    }

    /// The guard has loaded it in a context, ahead of its use.
    pub fn set_preloaded(&self, context: u32) {
        self.set_loaded_in(context);
        self.ahead_in.fetch_or(bit(context), Ordering::Relaxed);
    }

    /// The program uses it in a context. Returns whether this is the first use of what the guard had loaded.
    pub fn take_preloaded(&self, context: u32) -> bool {
        let bit = bit(context);
        self.ahead_in.load(Ordering::Relaxed) & bit != 0 && self.ahead_in.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// It is launched in a context. Returns whether that is the first launch there.
    pub fn set_launched_in(&self, context: u32) -> bool {
        let bit = bit(context);
        // A load before the exchange: only one launch is the first.
        bit != 0
            && self.launched_in.load(Ordering::Relaxed) & bit == 0
            && self.launched_in.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// A context is gone: its number may be used again for one in which nothing is loaded.
    pub(super) fn forget_context(&self, context: u32) {
        for bits in [&self.loaded_in, &self.ahead_in, &self.launched_in] {
            bits.fetch_and(!bit(context), Ordering::Relaxed);
        }
    }
}

/// The bit of a context in a function's sets. Contexts past the 64th have none: their launches take the slow path each time, and none is known
/// to be a first one.
fn bit(context: u32) -> u64 {
    1_u64.checked_shl(context).unwrap_or(0)
}
