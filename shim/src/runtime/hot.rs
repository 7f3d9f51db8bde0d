//! The words that every launch reads, on one line of a processor's cache: between two launches a program pushes it out of the nearest
//! cache, and the launch would wait for each further line. Each field is one module's: [`super::process`], [`super::clock`],
//! `preload::gate`, the state, [`super::tls`], `lookup::driver`. The pointers have no type here, so that nothing is below this file.
//!
//! Must not: hold anything that is not read at every launch.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// In the gate's word: a submission has to make its own fence. Until it is known whether it has to, it has to.
pub const FENCE: u64 = 1 << 32;

#[repr(C, align(64))]
pub struct Hot {
    pub armed: AtomicPtr<()>,
    /// The clock's reading at time 0.
    pub clock_base: AtomicU64,
    /// Nanoseconds a tick, as a fraction of 2^32; 0 means that the system's clock is asked.
    pub clock_scale: AtomicU64,
    /// What the gate asks of a submission; 0 where a submission passes as it is.
    pub gate: AtomicU64,
    /// The epoch of the state of the armed process, or of the last one that was armed.
    pub epoch: AtomicU32,
    /// How far a thread's own variable lies from its pointer; 0 until that is needed.
    pub own: AtomicUsize,
    /// The driver's `cuLaunchKernel` and `cuLaunchKernelEx`, or what stands before them.
    pub launches: [AtomicPtr<c_void>; 2],
}

const _: () = assert!(size_of::<Hot>() == 64);

pub static HOT: Hot = Hot {
    armed: AtomicPtr::new(null_mut()),
    clock_base: AtomicU64::new(0),
    clock_scale: AtomicU64::new(0),
    gate: AtomicU64::new(FENCE),
    epoch: AtomicU32::new(0),
    own: AtomicUsize::new(0),
    launches: [const { AtomicPtr::new(null_mut()) }; 2],
};
