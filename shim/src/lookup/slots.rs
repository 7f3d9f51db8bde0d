//! Binds the hooks: puts them into those slots of the loaded objects that the dynamic linker has bound to a function of the driver, or of
//! the followed NCCL. Every reference resolves as it does without the library, and a hook takes the place of exactly the function that it
//! calls: a plugin's own function of such a name, a stub of the driver, a weak reference in a process without a driver stay as they are.
//!
//! The library's constructor, which runs before all others (`-z initfirst`), binds the objects that are there. The first `dlsym` after its
//! load binds an object that comes later; else a thread of the guard's does, a second later at most. A slot that the dynamic linker fills
//! in at the first call is bound with its object, where the function that it will find is known. In an object that sees other libraries
//! first (`RTLD_DEEPBIND`), the guard's `dlsym` takes the C library's place.
//!
//! Protocol: an object may be touched only when it is relocated, and as long as it stays. [`bind_new`] notes how many objects have been
//! loaded, waits until no other thread is in the middle of a load, and visits the objects under the lock of their list. If as many have
//! been loaded as before the wait, all are relocated, and none can go meanwhile. A thread that loads an object itself does not wait: its
//! allocator may look a name up. Nothing is bound where the dynamic linker says that it is not done ([`link_map::are_changing`]).
//!
//! Must not: allocate; wait for a load in a hook, because the thread that loads may wait for the hook's caller.

use super::dynamic::{Dynamic, Slot};
use super::dynamic_linker;
use super::link_map;
use super::objects::{self, Loaded};
use super::table::{dlsym_hook, hook};
use super::{driver, forks, loads, nccl};
use crate::runtime::{door, own_thread, pass_through};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PassThrough;
use std::ffi::{c_void, CStr};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// How many objects had been loaded, and unloaded, when the last pass was over.
#[link_section = ".data.lazyguard_start"]
static BOUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// How many objects were there when the process started. They and what they define come first for every object.
#[link_section = ".data.lazyguard_start"]
static AT_START: AtomicU64 = AtomicU64::new(0);

/// The process in which a thread of the guard's binds; 0 without one.
static BESIDE: AtomicU32 = AtomicU32::new(0);

/// How often a pass begins anew because an object was loaded or adopted meanwhile.
const MOST_PASSES: usize = 8;
/// How deep an object's needs are followed to find what a slot of it will be bound to.
const DEEPEST: usize = 3;

#[link_section = ".text.lazyguard_start"]
pub fn bind_at_start() {
    AT_START.store(objects::count(), Ordering::Relaxed);
    // No other thread is there that could be in the middle of a load.
    door::inside(|| {
        loads::find(objects::counts().0);
        _ = (0..MOST_PASSES).any(|_| pass(objects::counts()));
    });
    driver::is_there_from_the_start();
}

/// Whether objects have been loaded that are not bound yet.
pub fn are_new() -> bool {
    let bound = BOUND[0].load(Ordering::Relaxed);
    match loads::count() {
        // Of what was unloaded the next pass takes notice. Until then nothing has taken its place.
        Some(loads) => loads != bound,
        None => objects::counts() != (bound, BOUND[1].load(Ordering::Relaxed)),
    }
}

/// Binds the objects that have been loaded since the last time. It waits as long as another thread loads an object, as a look-up does.
pub fn bind_new() {
    let has_started = AT_START.load(Ordering::Relaxed) > 0;
    if has_started && are_new() {
        door::inside(|| {
            _ = (0..MOST_PASSES).any(|_| bind_once());
            driver::keep_loaded();
        });
    }
}

/// Binds new objects on a thread of its own: the caller must not wait for a load, and a constructor may wait for anything.
pub fn bind_beside() {
    let process = std::process::id();
    if !are_new() || BESIDE.swap(process, Ordering::Relaxed) == process {
        return;
    }
    let bind = || {
        bind_new();
        BESIDE.store(0, Ordering::Relaxed);
    };
    if own_thread::start("lazyguard-bind", || (), bind).is_err() {
        BESIDE.store(0, Ordering::Relaxed);
    }
}

fn bind_once() -> bool {
    let counts = objects::counts();
    link_map::wait_for_loads();
    if link_map::are_changing() {
        // If another thread has begun a load since, the next wait is for that. What this thread loads is bound at the next occasion.
        return false;
    }
    // Found here: a look-up takes the lock that a load has when it takes that of the list.
    dynamic_linker::another_is_next();
    if forks::BINDS.swap(true, Ordering::Acquire) {
        // Another thread, or this one below a signal handler. What that one leaves is bound at the next occasion.
        return true;
    }
    let is_over = pass(counts);
    forks::BINDS.store(false, Ordering::Release);
    is_over
}

fn pass(counts: (u64, u64)) -> bool {
    let (loads, unloads) = counts;
    if BOUND[1].load(Ordering::Relaxed) != unloads {
        nccl::forget_if_gone();
    }
    // The list grows at its end: what has been loaded since is behind all others.
    let new = loads - BOUND[0].load(Ordering::Relaxed).min(loads);
    let skipped = objects::count().saturating_sub(new);
    let (mut number, mut is_over) = (0, true);
    objects::each(&mut |object| {
        number += 1;
        loads::check(object.counts().0);
        if object.counts() != counts {
            is_over = false;
        } else if number > skipped {
            is_over = !driver::adopt(object) && !nccl::adopt(object);
            if !is_over {
                // An object that comes before the adopted one may be bound to that.
                BOUND[0].store(0, Ordering::Relaxed);
            } else if number > AT_START.load(Ordering::Relaxed)
                || driver::ADOPTED.is_there()
                || nccl::ADOPTED.is_there()
            {
                bind(object);
            }
        }
        is_over
    });
    if is_over {
        BOUND[0].store(loads, Ordering::Relaxed);
        BOUND[1].store(unloads, Ordering::Relaxed);
    }
    is_over
}

fn bind(object: &Loaded<'_>) {
    let (dynamic, own) = (object.dynamic(), object.addresses());
    if own.contains(&(bind as *const () as u64)) || driver::ADOPTED.addresses().start == own.start {
        return;
    }
    let (driver, nccl, next) =
        (driver::ADOPTED.addresses(), nccl::ADOPTED.addresses(), dynamic_linker::addresses_of_another());
    let dlsym = dynamic_linker::real_dlsym();
    let mut pages = Pages::of(object.relocated_read_only());
    for slot in dynamic.slots() {
        // SAFETY: the object's own relocation says that there is an address, and the object is relocated.
        let place = unsafe { AtomicPtr::from_ptr(slot.address as *mut *mut c_void) };
        let function = place.load(Ordering::Relaxed);
        let at = function as u64;
        let found = match () {
            () if own.contains(&at) => slot.may_be_lazy.then(|| of_unbound(dynamic, &slot)).flatten(),
            () if driver.contains(&at) || nccl.contains(&at) || next.contains(&at) => {
                of_bound(dynamic, &slot, function)
            }
            () if function == dlsym => of_dlsym(dynamic, &slot),
            () => None,
        };
        if let Some(hook) = found.filter(|hook| !hook.is_null()) {
            if object.is_writable(slot.address as u64) && pages.open_for(slot.address) {
                if slot.may_be_lazy {
                    place.store(hook, Ordering::Release);
                } else {
                    // It may be a variable of the program's, to which another thread has just written.
                    let _ = place.compare_exchange(function, hook, Ordering::Release, Ordering::Relaxed);
                }
            } else {
                pass_through::note(PassThrough::ReadOnlySlot);
            }
        }
    }
    pages.close();
}

fn of_bound(dynamic: Dynamic, slot: &Slot, function: *mut c_void) -> Option<*mut c_void> {
    let (name, _) = dynamic.symbol_of(slot)?;
    hook_for(name, function)
}

/// The guard's `dlsym` for a slot that holds the C library's. The search order of an ordinary object leads to the guard's first.
fn of_dlsym(dynamic: Dynamic, slot: &Slot) -> Option<*mut c_void> {
    let (name, _) = dynamic.symbol_of(slot)?;
    (name == c"dlsym").then(dlsym_hook)
}

/// The hook for a slot that the dynamic linker has not filled in yet, if it will find that hook's function.
fn of_unbound(dynamic: Dynamic, slot: &Slot) -> Option<*mut c_void> {
    let (name, is_own) = dynamic.symbol_of(slot)?;
    if is_own || !concerns(name) {
        return None;
    }
    hook_for(name, at_start(name).or_else(|| in_needs(dynamic, name))?)
}

fn concerns(name: &CStr) -> bool {
    let name = name.to_bytes();
    (name.starts_with(b"cu") || name.starts_with(b"nc")) && EntryPoint::by_symbol(name).is_some()
}

pub fn hook_for(name: &CStr, function: *mut c_void) -> Option<*mut c_void> {
    let entry_point = EntryPoint::by_symbol(name.to_bytes())?;
    let is_called = match entry_point.is_of_driver() {
        true => driver::calls(entry_point, function),
        false => !function.is_null() && nccl::ADOPTED.function(entry_point) == function,
    };
    is_called.then(|| hook(entry_point))
}

fn at_start(name: &CStr) -> Option<*mut c_void> {
    let (mut left, mut found) = (AT_START.load(Ordering::Relaxed), None);
    objects::each(&mut |object| {
        found = object.dynamic().defines(name);
        left = left.saturating_sub(1);
        found.is_none() && left > 0
    });
    found
}

/// The first definition of a name in an object, in those that it needs, and so on.
pub fn in_needs(dynamic: Dynamic, name: &CStr) -> Option<*mut c_void> {
    (0..=DEEPEST).find_map(|depth| so_deep(dynamic, name, depth))
}

fn so_deep(dynamic: Dynamic, name: &CStr, depth: usize) -> Option<*mut c_void> {
    if depth == 0 {
        return dynamic.defines(name);
    }
    dynamic.needed().find_map(|needed| so_deep(objects::loaded_as(needed)?, name, depth - 1))
}

pub struct Pages {
    range: Range<usize>,
    are_open: bool,
}

impl Pages {
    pub fn of(range: Range<usize>) -> Self {
        Self { range, are_open: false }
    }

    pub fn open_for(&mut self, address: usize) -> bool {
        if self.range.contains(&address) && !self.are_open {
            self.are_open = self.protect(libc::PROT_READ | libc::PROT_WRITE);
            return self.are_open;
        }
        true
    }

    pub fn close(&mut self) {
        if self.are_open {
            self.protect(libc::PROT_READ);
        }
    }

    fn protect(&self, access: libc::c_int) -> bool {
        let (begin, length) = (self.range.start, self.range.len());
        let result: isize;
        // The system call itself: it leaves `errno` alone, and is there before the library's own references are bound.
        // SAFETY: whole pages of a loaded object, which hold data that is read, and written to by the dynamic linker and here alone.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "syscall", inlateout("rax") libc::SYS_mprotect as isize => result,
                in("rdi") begin, in("rsi") length, in("rdx") access as isize, out("rcx") _, out("r11") _, options(nostack),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "svc 0", in("x8") libc::SYS_mprotect, inlateout("x0") begin => result, in("x1") length, in("x2") access as isize,
                options(nostack),
            );
        }
        result == 0
    }
}
