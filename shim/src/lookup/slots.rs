//! Binds the hooks: puts them into those slots of the loaded objects that the dynamic linker has bound to a function of the driver, or of the followed
//! NCCL. A hook takes the place of exactly the function that it calls: a plugin's own function of such a name, a stub of the driver, a weak reference
//! without a driver stay as they are.
//!
//! The library's constructor, which runs first (`-z initfirst`), binds the objects that are there. The first `dlsym` after its load binds an object
//! that comes later; else a thread of the guard's does, a second later at most. A slot that is filled in at the first call is bound with its object,
//! where its function is known. In an object that sees other libraries first (`RTLD_DEEPBIND`), the guard's `dlsym` takes the C library's place.
//!
//! Protocol: only a relocated object may be touched, as long as it stays. [`bind_new`] notes how many objects have been loaded, waits until no other
//! thread is in a load, and visits the objects under the lock of their list. If as many have been loaded as before the wait, all are relocated, and none
//! can go meanwhile. A thread that loads an object itself does not wait: its allocator may look a name up. Nothing is bound where the dynamic linker is
//! not done ([`link_map::are_changing`]).
//!
//! Must not: allocate; wait for a load in a hook, because the thread that loads may wait for the hook's caller.

use super::dynamic::{Dynamic, Slot};
use super::objects::{self, Loaded};
use super::table::{dlsym_hook, hook};
use super::{driver, dynamic_linker, forks, link_map, loads, nccl};
use crate::runtime::{door, own_thread, pass_through};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PassThrough;
use std::ffi::{c_void, CStr};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Objects loaded and unloaded when the last pass was over.
#[link_section = ".data.lazyguard_start"]
static BOUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Objects at the start, whose definitions come first for every object.
#[link_section = ".data.lazyguard_start"]
static AT_START: AtomicU64 = AtomicU64::new(0);

/// The process in which a thread of the guard's binds, or 0.
static BESIDE: AtomicU32 = AtomicU32::new(0);

/// Passes anew because an object was loaded or adopted meanwhile.
const MOST_PASSES: usize = 8;
/// Depth of needs that are followed to find a slot's function.
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

pub fn are_new() -> bool {
    let bound = BOUND[0].load(Ordering::Relaxed);
    match loads::count() {
        // Unloads wait for the next pass: nothing has taken their place.
        Some(loads) => loads != bound,
        None => objects::counts() != (bound, BOUND[1].load(Ordering::Relaxed)),
    }
}

/// Waits as long as another thread loads an object, as a look-up does.
pub fn bind_new() {
    let has_started = AT_START.load(Ordering::Relaxed) > 0;
    if has_started && are_new() {
        door::inside(|| {
            _ = (0..MOST_PASSES).any(|_| bind_once());
            driver::keep_loaded();
        });
    }
}

/// On another thread: the caller must not wait for a load, and a constructor may wait for anything.
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
        // If another thread has begun a load since, the next wait is for that; this thread's loads are bound at the next occasion.
        return false;
    }
    // Found here: a look-up takes the lock that a load has when it takes that of the list.
    dynamic_linker::another_is_next();
    if forks::BINDS.swap(true, Ordering::Acquire) {
        // Another thread, or this one below a signal handler: the rest is bound at the next occasion.
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
    // Objects that were loaded since are at the list's end.
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
        // SAFETY: the relocation says that there is an address; the object is relocated.
        let place = unsafe { AtomicPtr::from_ptr(slot.address as *mut *mut c_void) };
        let function = place.load(Ordering::Relaxed);
        let at = function as u64;
        let found = match () {
            () if own.contains(&at) => slot.may_be_lazy.then(|| of_unbound(dynamic, &slot)).flatten(),
            () if driver.contains(&at) || nccl.contains(&at) || next.contains(&at) => {
                dynamic.symbol_of(&slot).and_then(|(name, _)| hook_for(name, function))
            }
            // The guard's takes its place: ordinary objects find that first.
            () if function == dlsym => {
                dynamic.symbol_of(&slot).filter(|(name, _)| *name == c"dlsym").map(|_| dlsym_hook())
            }
            () => None,
        };
        if let Some(hook) = found.filter(|hook| !hook.is_null()) {
            if object.is_writable(slot.address as u64) && pages.open_for(slot.address) {
                if slot.may_be_lazy {
                    place.store(hook, Ordering::Release);
                } else {
                    // It may be a variable that another thread of the program has just written.
                    let _ = place.compare_exchange(function, hook, Ordering::Release, Ordering::Relaxed);
                }
            } else {
                pass_through::note(PassThrough::ReadOnlySlot);
            }
        }
    }
    pages.close();
}

/// The hook for a slot that is not filled in yet, if the linker will find that hook's function.
fn of_unbound(dynamic: Dynamic, slot: &Slot) -> Option<*mut c_void> {
    let (name, is_own) = dynamic.symbol_of(slot)?;
    let is_hooked = !is_own && concerns(name);
    is_hooked.then(|| hook_for(name, at_start(name).or_else(|| in_needs(dynamic, name))?))?
}

/// Whether there is a hook of this name.
pub fn concerns(name: &CStr) -> bool {
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
    let mut left = AT_START.load(Ordering::Relaxed);
    objects::find(|object| {
        left = left.saturating_sub(1);
        let found = object.dynamic().defines(name);
        (found.is_some() || left == 0).then_some(found)
    })?
}

/// Looks a name up in an object, in those that it needs, and so on.
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
        // The system call itself is there before the library's own references are bound.
        // SAFETY: whole pages of a loaded object's data, which the dynamic linker and this function alone write.
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
