//! The guarded process: what every part of the guard knows of it, and whether it is armed.
//!
//! Protocol: the pointer in [`HOT`] is null until `cuInit` has succeeded. Then it points to the [`Process`] at the beginning of a `record::Guard`, which is
//! never freed. A forked child sets it to null until its own `cuInit`; a guard that steps aside, for good.

use super::hot::HOT;
use super::{clock, pass_through};
use lazyguard_core::report::PassThrough;
use lazyguard_core::settings::Settings;
use lazyguard_core::state::Tracker;
use lazyguard_core::trace::ProcessState;
use lazyguard_core::Nanos;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub struct Process {
    pub settings: Settings,
    pub tracker: Tracker,
    pub id: u32,
    pub program: String,
    /// The process's rank in its job, or empty.
    pub rank: String,
    pub driver_version: i32,
}

impl Process {
    #[inline]
    pub fn now(&self) -> Nanos {
        clock::now()
    }

    /// A forked child is not, nor a guard that stepped aside.
    #[inline]
    pub fn is_armed(&self) -> bool {
        std::ptr::eq(HOT.armed.load(Ordering::Relaxed).cast(), self)
    }
}

#[inline]
pub fn armed() -> *const Process {
    // Acquire: partner of the Release in `arm`.
    HOT.armed.load(Ordering::Acquire).cast()
}

#[inline]
pub fn process() -> Option<&'static Process> {
    // SAFETY: a non-null pointer is to a leaked, initialised process; see `arm`.
    unsafe { armed().as_ref() }
}

/// The limit of a resource, as it is just now.
pub fn limit(of: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for writing.
    (unsafe { libc::getrlimit(of, &mut limit) } == 0).then_some(limit.rlim_cur)
}

/// Arms the process.
///
/// # Safety
/// The pointer is to the beginning of a `record::Guard` that is never freed, and may be used for all of it.
pub unsafe fn arm(process: *const Process) {
    EVER_ARMED.store(true, Ordering::Relaxed);
    // Release: partner of the Acquire in `armed`.
    HOT.armed.store(process.cast_mut().cast(), Ordering::Release);
}

#[link_section = ".data.lazyguard_start"]
static EVER_ARMED: AtomicBool = AtomicBool::new(false);

pub fn was_ever_armed() -> bool {
    EVER_ARMED.load(Ordering::Relaxed)
}

/// The guard has stepped aside, after a fault of its own or because memory ran out.
static RETIRED: AtomicBool = AtomicBool::new(false);

/// The process of a guard that stepped aside: the exit clears up after it.
static LAST: AtomicPtr<Process> = AtomicPtr::new(null_mut());

pub fn retired() -> bool {
    RETIRED.load(Ordering::Relaxed)
}

pub fn last() -> *const Process {
    LAST.load(Ordering::SeqCst)
}

/// The guard steps aside for good. The recording stays.
pub fn disarm() {
    if let Some(last) = retire() {
        last.tracker.recorder().set_state(ProcessState::SteppedAside);
    }
}

/// Every later call passes straight through. Returns the process that was armed; the recording says nothing of it.
pub fn retire() -> Option<&'static Process> {
    RETIRED.store(true, Ordering::SeqCst);
    let last = HOT.armed.swap(null_mut(), Ordering::SeqCst).cast::<Process>();
    if !last.is_null() {
        LAST.store(last, Ordering::SeqCst);
    }
    // SAFETY: null, or a process, which is never freed.
    unsafe { last.as_ref() }
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// In a forked child, inside the handler of the fork: only stores.
pub fn forked() {
    HOT.armed.store(null_mut(), Ordering::SeqCst);
    FORKED.store(true, Ordering::Relaxed);
    pass_through::reset();
}

#[cold]
#[inline(never)]
pub fn note_unarmed() {
    pass_through::note(match () {
        () if retired() => PassThrough::SteppedAside,
        () if FORKED.load(Ordering::Relaxed) => PassThrough::ForkedChild,
        () => PassThrough::NotArmed,
    });
}
