//! The real NCCL. The guard follows the first object that has the functions to make and use a communicator, and holds no handle of it; a second copy
//! stays as it is. Only a pass over the loaded objects sets [`ADOPTED`] ([`super::slots`]).
//!
//! Must not: load NCCL, need it, or keep it loaded.

use super::adopted::{own_calls, Adopted};
use super::dynamic::Dynamic;
use super::objects::{self, Loaded};
use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, NCCL_ENTRY_POINTS};
use lazyguard_core::report::PassThrough;
use std::ffi::{c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `ncclInternalError`, from a hook that the program was never given.
pub const NOT_FOUND: i32 = 3;
pub const SUCCESS: i32 = 0;
/// `ncclInProgress`, of a communicator that does not block.
pub const IN_PROGRESS: i32 = 7;

pub fn begun(result: i32) -> bool {
    matches!(result, SUCCESS | IN_PROGRESS)
}

/// An NCCL has all of these.
const NEEDED: [&CStr; 5] =
    [c"ncclGetUniqueId", c"ncclCommInitRank", c"ncclCommDestroy", c"ncclAllReduce", c"ncclGroupEnd"];

pub static ADOPTED: Adopted<{ NCCL_ENTRY_POINTS.len() }> =
    Adopted::new(DRIVER_ENTRY_POINTS.len(), PassThrough::SecondNccl);
own_calls! {
    user_rank = c"ncclCommUserRank" (communicator: *mut c_void, rank: *mut c_int);
    count = c"ncclCommCount" (communicator: *mut c_void, count: *mut c_int);
    /// Allowed while the communicator is in use, and until the program ends it. It takes half a second.
    comm_revoke = c"ncclCommRevoke" (communicator: *mut c_void, flags: c_int);
}

#[inline]
pub fn real(entry_point: EntryPoint) -> Option<*mut c_void> {
    let function = ADOPTED.function(entry_point);
    (!function.is_null()).then_some(function)
}

pub fn adopt(object: &Loaded<'_>) -> bool {
    let dynamic = object.dynamic();
    NEEDED.iter().all(|name| dynamic.defines(name).is_some())
        && ADOPTED.is_free_for(object)
        && ADOPTED.adopt(object, || OWN.look_up(Some(dynamic)))
}

/// After unloads: where the followed NCCL is gone, the next one is followed.
pub fn forget_if_gone() {
    let still =
        |object: &Loaded<'_>| object.dynamic().defines(NEEDED[0]).filter(|_| object.addresses() == ADOPTED.addresses());
    if ADOPTED.is_there() && objects::find(still).is_none() {
        ADOPTED.forget();
        OWN.look_up(None);
    }
}

/// The process's rank in a ready communicator, and the number of ranks.
pub fn rank_and_count(communicator: *mut c_void) -> Option<(u32, u32)> {
    let (mut rank, mut ranks) = (0, 0);
    let are_known = [user_rank(communicator, &mut rank), count(communicator, &mut ranks)] == [Some(SUCCESS); 2];
    are_known.then(|| Some((u32::try_from(rank).ok()?, u32::try_from(ranks).ok()?))).flatten()
}

/// Since 2.28.7.
pub fn can_revoke() -> bool {
    !OWN.comm_revoke.load(Ordering::Relaxed).is_null()
}
