//! The real NCCL: its functions, by entry point.
//!
//! The guard follows one NCCL, the first that it sees: an object that has the functions by which each program makes a communicator and uses
//! it. Hooks take the place of exactly its functions. References to a second copy, or to an object that has some functions of these names, stay as
//! they are. The guard keeps no handle of it: a program that unloads it unloads it.
//!
//! Protocol: [`ADOPTED`] is set (Release) after the functions are. Only a pass over the loaded objects sets it ([`super::slots`]).
//!
//! Must not: load NCCL, need it, or keep it loaded.

use super::dynamic_linker::Symbol;
use super::objects::{self, Loaded};
use crate::runtime::pass_through;
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, NCCL_ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_int, c_void, CStr};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// `ncclInternalError`: the answer to a call of a hook that the program was never given.
pub const NOT_FOUND: i32 = 3;
/// `ncclSuccess`.
pub const SUCCESS: i32 = 0;
/// `ncclInProgress`: a call of a communicator that does not block has begun.
pub const IN_PROGRESS: i32 = 7;

/// An object that has all of these is an NCCL.
const NEEDED: [&CStr; 5] =
    [c"ncclGetUniqueId", c"ncclCommInitRank", c"ncclCommDestroy", c"ncclAllReduce", c"ncclGroupEnd"];

/// The functions of the NCCL that the guard follows.
static REAL: [AtomicPtr<c_void>; NCCL_ENTRY_POINTS.len()] =
    [const { AtomicPtr::new(null_mut()) }; NCCL_ENTRY_POINTS.len()];
static USER_RANK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static COUNT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Where it begins and ends; 0 without one.
static ADOPTED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The function that an entry point's hook calls.
#[inline]
pub fn real(entry_point: EntryPoint) -> Option<*mut c_void> {
    let function = known(entry_point);
    (!function.is_null()).then_some(function)
}

/// The same; null where there is none.
pub fn known(entry_point: EntryPoint) -> *mut c_void {
    let index = entry_point.index().wrapping_sub(DRIVER_ENTRY_POINTS.len());
    REAL.get(index).map_or(null_mut(), |function| function.load(Ordering::Relaxed))
}

/// Whether an NCCL is followed.
pub fn adopted() -> bool {
    ADOPTED[1].load(Ordering::Acquire) != 0
}

/// The addresses of the NCCL that the guard follows; none without one.
pub fn addresses() -> Range<u64> {
    let end = ADOPTED[1].load(Ordering::Acquire);
    ADOPTED[0].load(Ordering::Relaxed)..end
}

/// Follows an NCCL, if an object is one and none is followed yet.
pub fn adopt(object: &Loaded<'_>) -> bool {
    let dynamic = object.dynamic();
    if !NEEDED.iter().all(|name| dynamic.defines(name).is_some()) || object.addresses() == addresses() {
        return false;
    }
    if adopted() {
        pass_through::note(PassThrough::SecondNccl);
        return false;
    }
    for (index, place) in REAL.iter().enumerate() {
        let symbol = EntryPoint::from_index(DRIVER_ENTRY_POINTS.len() + index).and_then(Symbol::of);
        let function = symbol.and_then(|symbol| dynamic.defines(symbol.name()));
        place.store(function.unwrap_or(null_mut()), Ordering::Relaxed);
    }
    for (place, name) in [(&USER_RANK, c"ncclCommUserRank"), (&COUNT, c"ncclCommCount")] {
        place.store(dynamic.defines(name).unwrap_or(null_mut()), Ordering::Relaxed);
    }
    ADOPTED[0].store(object.addresses().start, Ordering::Relaxed);
    ADOPTED[1].store(object.addresses().end, Ordering::Release);
    true
}

/// Objects have been unloaded: if the NCCL that was followed is not there any more, the next one is followed.
pub fn forget_if_gone() {
    let mut is_there = false;
    objects::each(&mut |object| {
        is_there = object.addresses() == addresses() && object.dynamic().defines(NEEDED[0]).is_some();
        !is_there
    });
    if adopted() && !is_there {
        ADOPTED.iter().for_each(|place| place.store(0, Ordering::Relaxed));
        REAL.iter().chain([&USER_RANK, &COUNT]).for_each(|place| place.store(null_mut(), Ordering::Relaxed));
    }
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
