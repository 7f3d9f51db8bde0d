//! Device memory of which the driver makes a handle for other processes, and memory that such a handle opens.
//!
//! Must not: keep a handle, which gives access to the memory.

use super::call::{succeeds, written, Call, Entry, Real};
use crate::lookup::driver::Handle;
use crate::lookup::driver_queries;
use lazyguard_core::api::{identity_of, SharedMemory};

/// `CUipcMemHandle` or `CUipcEventHandle`, which the driver takes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle(pub(super) [u8; 64]);

impl Call {
    /// The memory around this address has the handle, in all processes.
    fn shares(&self, address: u64, IpcHandle(bytes): IpcHandle) {
        if let Some((begin, size)) = driver_queries::range(address) {
            let memory = SharedMemory { address: begin, bytes: size, identity: identity_of(bytes), offset: 0 };
            self.guard.tracker.shares(memory, self.returned);
        }
    }
}

fn in_context(call: &mut Call) {
    call.about.context = call.current_context();
}

pub(super) fn exports(entry: Entry, handle: Handle, address: u64, real: impl Real) -> i32 {
    succeeds(entry, in_context, real, |call| {
        if !handle.is_null() {
            // SAFETY: the driver has just filled in a handle there, of as many bytes whatever its kind.
            call.shares(address, unsafe { handle.cast::<IpcHandle>().read() });
        }
    })
}

pub(super) fn opens(entry: Entry, memory: Handle, handle: IpcHandle, real: impl Real) -> i32 {
    succeeds(entry, in_context, real, |call| {
        written(memory).into_iter().for_each(|memory| call.shares(memory as u64, handle));
    })
}

pub(super) fn imports(entry: Entry, memory: Handle, handle: Handle, real: impl Real) -> i32 {
    succeeds(entry, in_context, real, |call| {
        if let Some(memory) = written(memory).filter(|_| !handle.is_null()) {
            // SAFETY: the driver has just read a handle there.
            call.shares(memory as u64, unsafe { handle.cast::<IpcHandle>().read() });
        }
    })
}
