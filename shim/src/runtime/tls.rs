//! What the calling thread keeps for itself: the process it is known to, and its slot there.
//!
//! Reaching a thread's own variable from a shared library takes a call into the dynamic linker, with lines of code and data that
//! the program has thrown out of the caches between two launches. This library is loaded when the process starts, so its
//! variable lies at a fixed distance from the thread's pointer, and is reached with two instructions; the assembler says so
//! where the compiler cannot be told. On other processors the compiler's own way serves.
//!
//! Must not: allocate, or have a destructor: it is used in look-ups, and late in a thread's end.

#[cfg(target_arch = "x86_64")]
use super::hot::HOT;
use super::process::Process;
use lazyguard_core::state::{CachedLaunch, ThreadSlot};
use std::mem::offset_of;
use std::ptr::null;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::Ordering;

/// The thread's way through the door (`door`): the frame by which it came in, and its cancellation before.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Door {
    /// The address of the frame; 0 while the thread is outside.
    pub frame: usize,
    /// The state.
    pub state: i32,
    /// The type.
    pub kind: i32,
}

impl Door {
    /// Of a thread that is outside.
    pub const NONE: Self = Self { frame: 0, state: 0, kind: 0 };
}

/// The thread-local variable, on one line of a processor's cache.
#[repr(C, align(64))]
struct Own {
    mine: Mine,
    door: Door,
}

/// See the module.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Mine {
    /// The armed process, or null.
    pub process: *const Process,
    /// The slot in it.
    pub slot: *const ThreadSlot,
    /// The slot's number.
    pub number: u32,
    /// The launches that the slot knows, and how many entries they are; read by [`launches()`] alone.
    launches: *const CachedLaunch,
    entries: usize,
}

impl Mine {
    /// Of the thread with this slot.
    pub const fn of(process: *const Process, slot: *const ThreadSlot, number: u32) -> Self {
        Self { process, slot, number, ..Self::NONE }
    }

    /// Of a thread that no armed process knows. All zero, as the variable is at the beginning.
    pub const NONE: Self = Self { process: null(), slot: null(), number: 0, launches: null(), entries: 0 };
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tbss.lazyguard_mine, \"awT\", @nobits",
    ".balign 64",
    ".globl lazyguard_mine",
    ".hidden lazyguard_mine",
    ".type lazyguard_mine, @object",
    ".size lazyguard_mine, {size}",
    "lazyguard_mine:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Own>(),
);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn place() -> *mut Own {
    let place: *mut Own;
    // SAFETY: reads the thread's pointer, which lies where it points to, and the variable's distance from it.
    unsafe {
        std::arch::asm!(
            "mov {place}, qword ptr fs:[0]",
            "add {place}, qword ptr [rip + lazyguard_mine@GOTTPOFF]",
            place = out(reg) place,
            options(pure, readonly, nostack),
        );
    }
    place
}

#[cfg(not(target_arch = "x86_64"))]
fn place() -> *mut Own {
    thread_local!(static OWN: std::cell::UnsafeCell<Own> =
        const { std::cell::UnsafeCell::new(Own { mine: Mine::NONE, door: Door::NONE }) });
    OWN.with(std::cell::UnsafeCell::get)
}

/// Lets [`slot_in`] know where the variable is. Called before a process is armed.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    {
        let distance: usize;
        // SAFETY: reads the variable's distance from the thread's pointer, which is the same in each thread.
        unsafe {
            std::arch::asm!(
                "mov {distance}, qword ptr [rip + lazyguard_mine@GOTTPOFF]",
                distance = out(reg) distance,
                options(pure, readonly, nostack),
            );
        }
        HOT.own.store(distance, Ordering::Relaxed);
    }
}

/// A word of the calling thread's variable, by its offset there. The distance comes from the line of memory that each launch reads anyway, and not
/// from the table of the dynamic linker.
///
/// Before [`prepare`] the distance is 0, and this is a word of the C library's, which lies where the thread's pointer leads to.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn word<const OFFSET: usize>() -> usize {
    let word: usize;
    // SAFETY: reads a word of the thread's own variable, or of the C library's own beside the thread's pointer.
    unsafe {
        std::arch::asm!(
            "mov {word}, qword ptr fs:[{distance} + {offset}]",
            word = out(reg) word,
            distance = in(reg) HOT.own.load(Ordering::Relaxed),
            offset = const OFFSET,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    word
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn word<const OFFSET: usize>() -> usize {
    // SAFETY: a word of the thread's own variable.
    unsafe { place().cast::<u8>().add(OFFSET).cast::<usize>().read() }
}

/// The calling thread's slot, if it is one of this process; for an armed process.
#[inline(always)]
pub fn slot_in(process: *const Process) -> Option<*const ThreadSlot> {
    let own = word::<{ offset_of!(Own, mine.process) }>();
    (own == process.addr()).then(|| std::ptr::with_exposed_provenance(word::<{ offset_of!(Own, mine.slot) }>()))
}

/// The calling thread's way through the door.
#[inline(always)]
pub fn door() -> Door {
    // SAFETY: the thread's own variable, which lives as long as the thread.
    unsafe { (&raw const (*place()).door).read() }
}

/// Stores it. The frame's address is written last on entry, and first on exit: a signal handler in between finds the thread outside, or
/// a complete value.
#[inline(always)]
pub fn set_door(door: Door) {
    let place = place();
    // SAFETY: as above. Volatile, so that the compiler keeps the order.
    unsafe {
        (&raw mut (*place).door.frame).write_volatile(0);
        (&raw mut (*place).door.state).write_volatile(door.state);
        (&raw mut (*place).door.kind).write_volatile(door.kind);
        (&raw mut (*place).door.frame).write_volatile(door.frame);
    }
}

/// The calling thread's.
#[inline(always)]
pub fn get() -> Mine {
    // SAFETY: the thread's own variable, which lives as long as the thread.
    unsafe { (&raw const (*place()).mine).read() }
}

/// Stores the calling thread's. The process's pointer is cleared first and written last: a signal handler in between finds the
/// old value, none, or the new.
pub fn set(mine: Mine) {
    let place = place();
    // SAFETY: as above. Volatile, so that the compiler keeps the order.
    unsafe {
        (&raw mut (*place).mine.process).write_volatile(null());
        (&raw mut (*place).mine.slot).write_volatile(mine.slot);
        (&raw mut (*place).mine.number).write_volatile(mine.number);
        (&raw mut (*place).mine.process).write_volatile(mine.process);
    }
}

/// The launches that the calling thread's slot knows.
///
/// # Safety
/// The thread has entered a slot that [`slot_in`] gave: before, a signal handler may store others while they are read, and a thread without a slot has
/// none.
#[inline(always)]
pub unsafe fn launches() -> &'static [CachedLaunch] {
    let launches = std::ptr::with_exposed_provenance(word::<{ offset_of!(Own, mine.launches) }>());
    // SAFETY: a thread's launches are stored before its slot. The pointer is to at least so many entries, which are never freed: see `set_launches`.
    unsafe { std::slice::from_raw_parts(launches, word::<{ offset_of!(Own, mine.entries) }>()) }
}

/// Stores them. The number is cleared first and written last: a signal handler that leaves this by a jump leaves none, or all.
pub fn set_launches(launches: &'static [CachedLaunch]) {
    let place = place();
    // SAFETY: as above. Volatile, so that the compiler keeps the order.
    unsafe {
        (&raw mut (*place).mine.entries).write_volatile(0);
        (&raw mut (*place).mine.launches).write_volatile(launches.as_ptr());
        (&raw mut (*place).mine.entries).write_volatile(launches.len());
    }
}
