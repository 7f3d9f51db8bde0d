//! The words that every launch reads, on one line of a processor's cache. Each field is one module's: [`super::process`], [`super::clock`], `preload::gate`,
//! the state, [`super::tls`], `lookup::driver`. The pointers have no type here, so that nothing is below this file.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// In the gate's word: a submission makes its own fence.
pub const FENCE: u64 = 1 << 32;

#[repr(C, align(64))]
pub struct Hot {
    pub armed: AtomicPtr<()>,
    /// The counter at time 0.
    pub clock_base: AtomicU64,
    /// Nanoseconds a tick, of 2^32; 0 asks the system's clock.
    pub clock_scale: AtomicU64,
    /// 0 lets a submission pass.
    pub gate: AtomicU64,
    /// The epoch of the last armed process's state.
    pub epoch: AtomicU32,
    /// The distance from a thread's pointer to its own variable, or 0.
    pub own: AtomicUsize,
    /// The real `cuLaunchKernel` and `cuLaunchKernelEx`, or an interposer's.
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
