//! The calling thread's slot. A POSIX key's destructor runs at the end of a thread; a later call takes a new slot.
//!
//! Must not: give a slot to a thread that is being given one.

use super::process::{process, Process};
use super::tls::{self, Mine};
use super::{door, pass_through};
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::ThreadSlot;
use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    static BEGINNING: Cell<bool> = const { Cell::new(false) };
    /// The guard's own.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// No call that a library makes in this thread is the program's.
pub fn becomes_own() {
    OWN.set(true);
    BEGINNING.set(true);
}

static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Without a key, slots of ended threads stay taken.
pub fn prepare() {
    if KEY.load(Ordering::Relaxed) != u32::MAX {
        return;
    }
    let mut key = 0;
    // SAFETY: the two conventions differ only in an unwinding.
    let ended: unsafe extern "C" fn(*mut c_void) =
        unsafe { std::mem::transmute(ended as unsafe extern "C-unwind" fn(*mut c_void)) };
    // SAFETY: the key is valid for writing, and the destructor is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
    }
}

#[inline(always)]
pub fn slot_if_any(process: &'static Process) -> Option<&'static ThreadSlot> {
    tls::own(process).map(tls::Own::slot)
}

/// The thread's number in the armed process's state, or 0.
pub fn number() -> u32 {
    let mine = tls::get();
    // A forked child's thread has its parent's slot.
    process().filter(|process| std::ptr::eq(*process, mine.process)).map_or(0, |_| mine.number)
}

pub fn know_launches() {
    // SAFETY: slots lie in the process's state, which is never freed.
    if let Some(slot) = unsafe { tls::get().slot.as_ref() } {
        tls::set_launches(slot.known_launches());
    }
}

#[inline]
pub fn slot(process: &'static Process) -> Option<&'static ThreadSlot> {
    if let Some(slot) = slot_if_any(process) {
        return Some(slot);
    }
    if BEGINNING.replace(true) {
        if !OWN.get() {
            // A signal handler, or an allocator that uses CUDA, on top of the lines below.
            pass_through::note(PassThrough::ThreadBeginning);
        }
        return None;
    }
    let slot = begin(process);
    BEGINNING.set(false);
    if slot.is_none() {
        pass_through::note(PassThrough::NoThreadSlot);
    }
    slot
}

#[cold]
fn begin(process: &'static Process) -> Option<&'static ThreadSlot> {
    let thread = own_number();
    let number = process.tracker.begin_thread(thread, process.now())?;
    let slot = process.tracker.thread(number)?;
    slot.set_name(&own_name());
    tls::set_launches(slot.known_launches());
    tls::set(Mine::of(process, slot, number));
    let key = KEY.load(Ordering::Relaxed);
    if key != u32::MAX {
        // SAFETY: the key exists; any non-null value makes its destructor run at the thread's end.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(slot).cast()) };
    }
    Some(slot)
}

/// The C library's own function came later than the oldest supported one.
pub fn own_number() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

pub fn own_name() -> String {
    let mut name = [0u8; 17];
    // SAFETY: the buffer is longer than any name and its end.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    CStr::from_bytes_until_nul(&name).ok().filter(|_| !failed).unwrap_or_default().to_string_lossy().trim().to_owned()
}

pub fn name(thread: u32) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"))
        .map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

/// The C library calls this in an ending thread, after the destructors of its C++ thread-local objects.
extern "C-unwind" fn ended(_: *mut c_void) {
    let mine = tls::get();
    // A signal handler on top of this passes untouched.
    BEGINNING.set(true);
    tls::set(Mine::NONE);
    if let Some(process) = process().filter(|process| std::ptr::eq(*process, mine.process)) {
        door::inside(|| {
            if let Some(slot) = process.tracker.thread(mine.number) {
                process.tracker.thread_streams_gone(slot.thread());
            }
            process.tracker.end_thread(mine.number, process.now());
        });
    }
    BEGINNING.set(false);
}
