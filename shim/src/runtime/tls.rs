//! The calling thread's own variable: its process, and its slot there. A thread's variable in a shared library takes a call into the dynamic linker, which is
//! cold between two launches. This library is loaded at the start, so its variable lies at a fixed distance from the thread's pointer, and takes two
//! instructions of assembly. On other processors the compiler's own way serves.
//!
//! Must not: allocate, or have a destructor: it is used in look-ups, and late in a thread's end.

#[cfg(target_arch = "x86_64")]
use super::hot::HOT;
use super::process::Process;
use lazyguard_core::state::{AtHand, CachedLaunch, ThreadEntry, ThreadSlot};
use lazyguard_core::trace::Places;
use std::ptr::null;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::Ordering;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Door {
    /// The frame's address; 0 outside.
    pub frame: usize,
    pub state: i32,
    pub kind: i32,
}

impl Door {
    pub const NONE: Self = Self { frame: 0, state: 0, kind: 0 };
}

/// For the attributes of a loop's launches, and the frames of its paths.
pub const READABLE_PAGES: usize = 4;

/// Its first cache line holds all that a launch reads.
#[repr(C, align(64))]
struct Variable {
    mine: Mine,
    door: Door,
    readable_pages: [usize; READABLE_PAGES],
    visits: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Mine {
    pub process: *const Process,
    pub slot: *const ThreadSlot,
    pub number: u32,
    place_count: u32,
    /// For launches ([`AtHand`]): the thread's entry, and the recording's first place.
    entry: *const (),
    places: *const (),
    /// The slot's known launches, read by [`Hand`] alone.
    launches: *const CachedLaunch,
    last_entry: u32,
}

const _: () = assert!(size_of::<Mine>() <= 64);

impl Mine {
    pub fn of(process: *const Process, slot: &'static ThreadSlot, number: u32) -> Self {
        let places = AtHand::places(slot);
        let (entry, first) = (std::ptr::from_ref(AtHand::entry(slot)).cast(), places.as_ptr().cast());
        // Without places no launch takes the fast path. Cursors count in 32 bits.
        let place_count = u32::try_from(places.len()).unwrap_or(0);
        Self { process, slot, number, place_count, entry, places: first, ..Self::NONE }
    }

    /// All zero, as at the beginning.
    pub const NONE: Self = Self {
        process: null(),
        slot: null(),
        number: 0,
        place_count: 0,
        entry: null(),
        places: null(),
        launches: null(),
        last_entry: 0,
    };
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
    size = const size_of::<Variable>(),
);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn place() -> *mut Variable {
    let place: *mut Variable;
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
fn place() -> *mut Variable {
    thread_local!(static OWN: std::cell::UnsafeCell<Variable> =
        const { std::cell::UnsafeCell::new(Variable { mine: Mine::NONE, door: Door::NONE, readable_pages: [0; READABLE_PAGES], visits: 0 }) });
    OWN.with(std::cell::UnsafeCell::get)
}

/// Before a process is armed: lets [`own`] find the variable.
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

/// The variable of a thread of an armed process, by a distance on the line of memory that each launch reads.
#[derive(Clone, Copy)]
pub struct Own(*const Variable);

/// `None` where the thread is none of this process's. Before [`prepare`] the distance is 0, and the first word is the thread's own pointer, no process's.
#[inline(always)]
pub fn own(process: *const Process) -> Option<Own> {
    #[cfg(target_arch = "x86_64")]
    let own: *const Variable = {
        let own: *const Variable;
        // SAFETY: reads the thread's pointer, which lies where it points to.
        unsafe {
            std::arch::asm!("mov {own}, qword ptr fs:[0]", own = out(reg) own, options(pure, readonly, nostack, preserves_flags));
        }
        own.wrapping_byte_add(HOT.own.load(Ordering::Relaxed))
    };
    #[cfg(not(target_arch = "x86_64"))]
    let own: *const Variable = place();
    // SAFETY: a word of the thread's own variable, or of the C library's. Volatile: a signal handler may change it.
    let is_of_process = unsafe { (&raw const (*own).mine.process).read_volatile() }.addr() == process.addr();
    is_of_process.then_some(Own(own))
}

impl Own {
    #[inline(always)]
    pub fn slot(self) -> &'static ThreadSlot {
        // SAFETY: slots are never freed; this one is the thread's, and is there when the process's pointer is.
        unsafe { &*(&raw const (*self.0).mine.slot).read_volatile() }
    }

    /// # Safety
    /// The thread has entered the slot before it asks for launches, as in `begin_fast`: a signal handler may store others.
    #[inline(always)]
    pub unsafe fn at_hand(self) -> Hand {
        Hand(self)
    }
}

/// See [`Own::at_hand`].
#[derive(Clone, Copy)]
pub struct Hand(Own);

impl AtHand<'static> for Hand {
    #[inline(always)]
    fn entry(self) -> ThreadEntry {
        // SAFETY: the entry is there when the process's pointer is (see `set`), in a recording that stays. Volatile: read after that pointer.
        unsafe { &*(&raw const (*self.0 .0).mine.entry).read_volatile().cast() }
    }

    #[inline(always)]
    fn places(self) -> Places<'static> {
        // SAFETY: as above; made in `Mine::of`.
        unsafe {
            let mine = &raw const (*self.0 .0).mine;
            let first = (&raw const (*mine).places).read_volatile();
            let count = (&raw const (*mine).place_count).read_volatile();
            std::slice::from_raw_parts(first.cast(), count as usize)
        }
    }

    #[inline(always)]
    fn known(self) -> &'static [CachedLaunch] {
        // SAFETY: stored before the slot; at least so many entries, which are never freed (see `set_launches`). The thread has entered its slot.
        unsafe {
            let mine = &raw const (*self.0 .0).mine;
            let launches = (&raw const (*mine).launches).read_volatile();
            std::slice::from_raw_parts(launches, (&raw const (*mine).last_entry).read_volatile() as usize + 1)
        }
    }

    #[inline(always)]
    fn slot(self) -> &'static ThreadSlot {
        self.0.slot()
    }
}

#[inline(always)]
pub fn door() -> Door {
    // SAFETY: the thread's own variable, which lives as long as the thread.
    unsafe { (&raw const (*place()).door).read() }
}

/// The frame's address is written last on entry, and first on exit: a signal handler finds the thread outside, or a complete value.
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

macro_rules! field {
    ($(#[$doc:meta])* $get:ident $set:ident $of:ty) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $get() -> $of {
            // SAFETY: as above. Volatile: a signal handler may change it.
            unsafe { (&raw const (*place()).$get).read_volatile() }
        }

        #[inline(always)]
        pub fn $set(value: $of) {
            // SAFETY: as above.
            unsafe { (&raw mut (*place()).$get).write_volatile(value) };
        }
    };
}

field! {
    /// The numbers of pages that the calling thread could read (`readable::again`), the newest first; 0 at the beginning.
    readable_pages set_readable_pages [usize; READABLE_PAGES]
}
field! {
    /// Depth in visits of the loaded objects, and in forks.
    visits set_visits u32
}

#[inline(always)]
pub fn get() -> Mine {
    // SAFETY: the thread's own variable, which lives as long as the thread.
    unsafe { (&raw const (*place()).mine).read() }
}

/// The process's pointer is cleared first and written last: a signal handler finds the old value, none, or the new.
pub fn set(mine: Mine) {
    let place = place();
    // SAFETY: as above. Volatile, so that the compiler keeps the order.
    unsafe {
        (&raw mut (*place).mine.process).write_volatile(null());
        (&raw mut (*place).mine.slot).write_volatile(mine.slot);
        (&raw mut (*place).mine.number).write_volatile(mine.number);
        (&raw mut (*place).mine.place_count).write_volatile(mine.place_count);
        (&raw mut (*place).mine.entry).write_volatile(mine.entry);
        (&raw mut (*place).mine.places).write_volatile(mine.places);
        (&raw mut (*place).mine.process).write_volatile(mine.process);
    }
}

/// At least one. The number is cleared first and written last: a signal handler's jump leaves the first one, or all.
pub fn set_launches(launches: &'static [CachedLaunch]) {
    let place = place();
    // SAFETY: as above. Volatile, so that the compiler keeps the order.
    unsafe {
        (&raw mut (*place).mine.last_entry).write_volatile(0);
        (&raw mut (*place).mine.launches).write_volatile(launches.as_ptr());
        (&raw mut (*place).mine.last_entry)
            .write_volatile(u32::try_from(launches.len().saturating_sub(1)).unwrap_or(0));
    }
}
