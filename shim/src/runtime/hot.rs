//! What every launch reads, on one line of a processor's cache. Between two launches a program does enough to push it out of the
//! nearest cache, and the launch would wait for each further line.
//!
//! Each field is one module's: the pointer is [`super::process`]'s, the clock's are [`super::clock`]'s, the gate's are
//! `preload::gate`'s. The pointer has no type here, so that nothing is below this file.
//!
//! Must not: hold anything that is not read at every launch.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

/// See the module.
#[repr(C, align(64))]
pub struct Hot {
    /// The armed process, or null.
    pub armed: AtomicPtr<()>,
    /// The clock's reading at time 0.
    pub clock_base: AtomicU64,
    /// Nanoseconds a tick, as a fraction of 2^32; 0 means that the system's clock is asked.
    pub clock_scale: AtomicU64,
    /// The number of the context that is closed.
    pub gate: AtomicU32,
    /// Whether a submission has to make its own fence.
    pub fence_needed: AtomicBool,
}

/// See the module.
pub static HOT: Hot = Hot {
    armed: AtomicPtr::new(null_mut()),
    clock_base: AtomicU64::new(0),
    clock_scale: AtomicU64::new(0),
    gate: AtomicU32::new(0),
    fence_needed: AtomicBool::new(true),
};
