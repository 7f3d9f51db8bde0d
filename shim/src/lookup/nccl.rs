//! The real NCCL: its functions, by entry point. The guard follows one NCCL, the first object that has the functions by which each program
//! makes a communicator and uses it. References to a second copy stay as they are. The guard keeps no handle of it.
//!
//! Protocol: only a pass over the loaded objects sets [`ADOPTED`] ([`super::slots`]).
//!
//! Must not: load NCCL, need it, or keep it loaded.

use super::adopted::Adopted;
use super::objects::{self, Loaded};
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, NCCL_ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `ncclInternalError`: the answer to a call of a hook that the program was never given.
pub const NOT_FOUND: i32 = 3;
/// `ncclSuccess`.
pub const SUCCESS: i32 = 0;
/// `ncclInProgress`: a call of a communicator that does not block has begun.
pub const IN_PROGRESS: i32 = 7;

pub fn begun(result: i32) -> bool {
    matches!(result, SUCCESS | IN_PROGRESS)
}

/// An object that has all of these is an NCCL.
const NEEDED: [&CStr; 5] =
    [c"ncclGetUniqueId", c"ncclCommInitRank", c"ncclCommDestroy", c"ncclAllReduce", c"ncclGroupEnd"];

pub static ADOPTED: Adopted<{ NCCL_ENTRY_POINTS.len() }> =
    Adopted::new(DRIVER_ENTRY_POINTS.len(), PassThrough::SecondNccl);
static USER_RANK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static COUNT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static REVOKE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// What the guard calls itself, by name.
const OWN_CALLS: [(&AtomicPtr<c_void>, &CStr); 3] =
    [(&USER_RANK, c"ncclCommUserRank"), (&COUNT, c"ncclCommCount"), (&REVOKE, c"ncclCommRevoke")];

#[inline]
pub fn real(entry_point: EntryPoint) -> Option<*mut c_void> {
    let function = ADOPTED.function(entry_point);
    (!function.is_null()).then_some(function)
}

pub fn adopt(object: &Loaded<'_>) -> bool {
    let dynamic = object.dynamic();
    let others = || {
        for (place, name) in OWN_CALLS {
            place.store(dynamic.defines(name).unwrap_or(null_mut()), Ordering::Relaxed);
        }
    };
    NEEDED.iter().all(|name| dynamic.defines(name).is_some())
        && ADOPTED.is_free_for(object)
        && ADOPTED.adopt(object, others)
}

/// Objects have been unloaded: if the NCCL that was followed is not there any more, the next one is followed.
pub fn forget_if_gone() {
    let mut is_there = false;
    objects::each(&mut |object| {
        is_there = object.addresses() == ADOPTED.addresses() && object.dynamic().defines(NEEDED[0]).is_some();
        !is_there
    });
    if ADOPTED.is_there() && !is_there {
        ADOPTED.forget();
        OWN_CALLS.iter().for_each(|(place, _)| place.store(null_mut(), Ordering::Relaxed));
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

/// Whether this NCCL can revoke a communicator, as those from 2.28.7 on.
pub fn can_revoke() -> bool {
    !REVOKE.load(Ordering::Relaxed).is_null()
}

/// Revokes a communicator; returns NCCL's result. It takes half a second.
pub fn revoke(communicator: *mut c_void) -> Option<c_int> {
    let function = REVOKE.load(Ordering::Relaxed);
    if function.is_null() {
        return None;
    }
    // SAFETY: NCCL's function of this name has these arguments, and an enum for a result.
    let function: unsafe extern "C" fn(*mut c_void, c_int) -> c_int = unsafe { std::mem::transmute(function) };
    // SAFETY: a communicator that the program has not ended; NCCL lets another thread revoke it while it is in use.
    Some(unsafe { function(communicator, 0) })
}
