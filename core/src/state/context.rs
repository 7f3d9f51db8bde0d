//! Contexts, and the functions and kernels that are launched in them.

use crate::Nanos;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A driver context.
#[derive(Default)]
pub struct Context {
    handle: AtomicU64,
    alive: AtomicBool,
    device: AtomicI32,
    primary: AtomicBool,
    idle_until: AtomicU64,
    orphaned_until: AtomicU64,
    captures: AtomicU32,
}

impl Context {
    pub(super) fn begin(&self, handle: u64, now: Nanos) {
        self.handle.store(handle, Ordering::Relaxed);
        self.device.store(-1, Ordering::Relaxed);
        self.primary.store(false, Ordering::Relaxed);
        self.idle_until.store(now, Ordering::Relaxed);
        self.orphaned_until.store(0, Ordering::Relaxed);
        self.captures.store(0, Ordering::Relaxed);
        // Release: partner of the Acquire in `alive`.
        self.alive.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Whether the context exists.
    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The program's handle.
    pub fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    /// Its device, or -1 where that is not known.
    pub fn device(&self) -> i32 {
        self.device.load(Ordering::Relaxed)
    }

    /// It is a context of this device: the primary one, or one of its own.
    pub fn set_device(&self, device: i32, primary: bool) {
        self.device.store(device, Ordering::Relaxed);
        self.primary.store(primary, Ordering::Relaxed);
    }

    /// Whether it is known to be this device's primary context.
    pub fn is_primary_of(&self, device: i32) -> bool {
        self.primary.load(Ordering::Relaxed) && self.device() == device
    }

    /// Until when everything submitted to any of its streams is known to be complete.
    pub fn idle_until(&self) -> Nanos {
        self.idle_until.load(Ordering::Relaxed)
    }

    /// Everything submitted to any of its streams before `entered` is complete.
    pub fn complete_until(&self, entered: Nanos) {
        self.idle_until.fetch_max(entered, Ordering::Relaxed);
    }

    /// Work was submitted until then on streams that exist no more, and may not have ended.
    pub(super) fn orphaned_until(&self, last: Nanos) {
        self.orphaned_until.fetch_max(last, Ordering::Relaxed);
    }

    /// Whether such work may still be in flight.
    pub fn has_orphans(&self) -> bool {
        self.orphaned_until.load(Ordering::Relaxed) > self.idle_until()
    }

    /// Whether a stream of it is being captured, as far as was seen.
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

/// What a launchable handle is.
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
}

impl Function {
    pub(super) fn begin(&self, handle: u64, kind: FunctionKind, owner: u64) {
        self.handle.store(handle, Ordering::Relaxed);
        self.kernel.store(kind == FunctionKind::Kernel, Ordering::Relaxed);
        self.name.store(0, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Relaxed);
        self.loaded_in.store(0, Ordering::Relaxed);
        self.alive.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Whether its module or library is still loaded.
    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The program's handle.
    pub fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    /// What the handle is.
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

    pub(super) fn set_owner(&self, owner: u64) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    pub(super) fn name_number(&self) -> u32 {
        self.name.load(Ordering::Relaxed)
    }

    pub(super) fn set_name_number(&self, name: u32) {
        self.name.store(name, Ordering::Relaxed);
    }

    /// Whether it is known to be loaded in a context. Contexts past the 64th are never known: their launches take the
    /// longer way each time.
    pub fn loaded_in(&self, context: u32) -> bool {
        context < 64 && self.loaded_in.load(Ordering::Relaxed) & (1 << context) != 0
    }

    /// It is loaded in a context.
    pub fn set_loaded_in(&self, context: u32) {
        if context < 64 {
            self.loaded_in.fetch_or(1 << context, Ordering::Relaxed);
        }
    }

    /// A context is gone: its number may be used again for one in which nothing is loaded.
    pub(super) fn forget_context(&self, context: u32) {
        if context < 64 {
            self.loaded_in.fetch_and(!(1 << context), Ordering::Relaxed);
        }
    }
}
