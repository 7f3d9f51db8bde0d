//! The real NCCL: its functions, by entry point.
//!
//! A process may load NCCL with a library that only that library sees (`RTLD_LOCAL`, as Python does), so the search order of this
//! library does not lead there. The real function is what the caller would have found without this library: what comes next in the
//! search order; else what the caller's own object and the objects that it needs have; else what the look-ups of the program have
//! found. The answer is kept by call site and function: whatever calls through `libffi`, as Python's `ctypes` does, calls all functions from
//! one site.
//!
//! The guard follows one NCCL, the first that it sees. Calls into a second copy pass through.
//!
//! Protocol: [`SITES`] pairs a call with its function. Two threads may store into one entry at a time, so the call is stored
//! combined with the function, and a reader that finds halves of two entries finds that they do not fit.
//!
//! Must not: load NCCL, or need it.

use super::dynamic_linker::{self, open_loaded, Symbol};
use super::objects;
use super::table::{self, hook, HookTable};
use crate::runtime::{door, pass_through};
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, NCCL_ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `ncclInternalError`: the answer where there is no NCCL, which no program that runs without this library can see.
pub const NOT_FOUND: i32 = 3;
/// `ncclSuccess`.
pub const SUCCESS: i32 = 0;
/// `ncclInProgress`: a call of a communicator that does not block has begun.
pub const IN_PROGRESS: i32 = 7;

/// The functions of the NCCL that the guard follows.
static REAL: [AtomicPtr<c_void>; NCCL_ENTRY_POINTS.len()] =
    [const { AtomicPtr::new(null_mut()) }; NCCL_ENTRY_POINTS.len()];
static USER_RANK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static COUNT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// The object that has them.
static ADOPTED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Call sites whose function is known: enough for one program's calls of collectives.
const MOST_SITES: usize = 64;

struct Site {
    /// The call, as [`call_from`] numbers it, combined with the function.
    key: AtomicUsize,
    function: AtomicUsize,
}

static SITES: [Site; MOST_SITES] =
    [const { Site { key: AtomicUsize::new(0), function: AtomicUsize::new(0) } }; MOST_SITES];

/// A real function, and whether it is of the NCCL that the guard follows.
#[derive(Clone, Copy)]
pub struct Found {
    /// The function.
    pub function: *mut c_void,
    /// See [`Found`].
    pub is_followed: bool,
}

/// The real function for a call that returns to `site`, or 0 where that is not known.
#[inline]
pub fn real(entry_point: EntryPoint, site: usize, hooks: &'static HookTable) -> Option<Found> {
    let call = call_from(entry_point, site);
    let slot = &SITES[(call >> 2 ^ call >> 8 ^ call >> NUMBER_AT) % MOST_SITES];
    let function = slot.function.load(Ordering::Relaxed);
    if site != 0 && function != 0 && slot.key.load(Ordering::Relaxed) == call ^ function {
        return Some(found(entry_point, function as *mut c_void));
    }
    let function = first(entry_point, site, hooks)?;
    slot.function.store(function as usize, Ordering::Relaxed);
    slot.key.store(call ^ function as usize, Ordering::Relaxed);
    Some(found(entry_point, function))
}

/// No address of a program uses the bits from this one on.
const NUMBER_AT: u32 = 57;
const _: () = assert!(NCCL_ENTRY_POINTS.len() < 1 << (usize::BITS - NUMBER_AT));

/// A number for calls of one function from one site, and for no others.
#[inline]
fn call_from(entry_point: EntryPoint, site: usize) -> usize {
    site ^ entry_point.index().wrapping_sub(DRIVER_ENTRY_POINTS.len()) << NUMBER_AT
}

fn found(entry_point: EntryPoint, function: *mut c_void) -> Found {
    Found { function, is_followed: known(entry_point) == function }
}

/// The function of the NCCL that the guard follows; null where there is none.
fn known(entry_point: EntryPoint) -> *mut c_void {
    let index = entry_point.index().wrapping_sub(DRIVER_ENTRY_POINTS.len());
    REAL.get(index).map_or(null_mut(), |function| function.load(Ordering::Relaxed))
}

#[cold]
#[inline(never)]
fn first(entry_point: EntryPoint, site: usize, hooks: &'static HookTable) -> Option<*mut c_void> {
    table::register(hooks);
    door::inside(|| find(entry_point, site as *const c_void)).flatten()
}

/// What a caller would find without this library, or what its look-ups have found.
pub fn find(entry_point: EntryPoint, caller: *const c_void) -> Option<*mut c_void> {
    let (symbol, own) = (Symbol::of(entry_point)?, hook(entry_point));
    let is_real = |found: &*mut c_void| !found.is_null() && *found != own;
    let next = || Some(dynamic_linker::real(libc::RTLD_NEXT, symbol.name())).filter(is_real);
    let by_caller = || in_object(objects::object_of(caller)?.path(), symbol.name()).filter(is_real);
    let by_look_up = || Some(known(entry_point)).filter(is_real);
    let loaded = || in_object(c"libnccl.so.2", symbol.name()).filter(is_real);
    let found = next().or_else(by_caller).or_else(by_look_up).or_else(loaded)?;
    adopt_at(found);
    Some(found)
}

/// What a loaded object, and the objects that it needs, have under a name.
fn in_object(path: &CStr, name: &CStr) -> Option<*mut c_void> {
    // The program itself has no path; its search order is this library's.
    let handle = if path.is_empty() { null_mut() } else { open_loaded(path) };
    if handle.is_null() {
        return None;
    }
    let found = dynamic_linker::real(handle, name);
    // The program may mean to unload the object.
    // SAFETY: a handle of `dlopen`'s. The object is in use, by its caller or by the code that loaded it, and stays.
    unsafe { libc::dlclose(handle) };
    Some(found)
}

/// Follows the NCCL that an address lies in; `false` where another one is followed.
pub fn adopt_at(address: *const c_void) -> bool {
    let Some(map) = objects::object_of(address) else { return false };
    let this = std::ptr::from_ref(map).cast_mut().cast::<c_void>();
    let adopted = ADOPTED.load(Ordering::Acquire);
    if !adopted.is_null() {
        if adopted != this {
            pass_through::note(PassThrough::SecondNccl);
        }
        return adopted == this;
    }
    // A handle of our own keeps it in place as long as our pointers into it are. The program itself stays without one.
    let path = map.path();
    let handle = if path.is_empty() { libc::RTLD_DEFAULT } else { open_loaded(path) };
    if !path.is_empty() && handle != this {
        return false;
    }
    let look_up = |name: &CStr| Some(dynamic_linker::real(handle, name)).filter(|found| !found.is_null());
    for (index, place) in REAL.iter().enumerate() {
        let entry_point = EntryPoint::from_index(DRIVER_ENTRY_POINTS.len() + index);
        let found = entry_point.and_then(|entry_point| {
            let found = look_up(Symbol::of(entry_point)?.name())?;
            (found != hook(entry_point)).then_some(found)
        });
        place.store(found.unwrap_or(null_mut()), Ordering::Relaxed);
    }
    USER_RANK.store(look_up(c"ncclCommUserRank").unwrap_or(null_mut()), Ordering::Relaxed);
    COUNT.store(look_up(c"ncclCommCount").unwrap_or(null_mut()), Ordering::Relaxed);
    // Every thread that comes here at the same time has found the same object, or passes through from its next call on.
    ADOPTED.store(this, Ordering::Release);
    true
}

/// The process's rank in a communicator that is ready, and how many ranks it has. NCCL reads both from the communicator.
pub fn rank_and_count(communicator: *mut c_void) -> Option<(u32, u32)> {
    let ask = |function: &AtomicPtr<c_void>| {
        let function = function.load(Ordering::Relaxed);
        if function.is_null() {
            return None;
        }
        // SAFETY: NCCL's function of this name has these arguments, and an enum for a result.
        let function: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int = unsafe { std::mem::transmute(function) };
        let mut value = 0;
        // SAFETY: a communicator that NCCL has just accepted; the value is valid for writing.
        let result = unsafe { function(communicator, &mut value) };
        (result == SUCCESS).then_some(value)
    };
    Some((u32::try_from(ask(&USER_RANK)?).ok()?, u32::try_from(ask(&COUNT)?).ok()?))
}
