//! Graphs: a kernel node loads its kernel when it is added; a launch submits one operation.
//!
//! Must not: change what a graph holds.

use super::call::{observe, published, Entry};
use crate::lookup::driver::Handle;
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS_v2 as KernelNode, CUgraphNodeParams as NodeParams};
use std::mem::offset_of;

/// `CU_GRAPH_NODE_TYPE_KERNEL`.
const KERNEL: u32 = 0;

/// A graph is launched.
pub(super) fn launch(entry: Entry, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.guard.tracker.graph_launched(call.entered);
        },
        real,
        |call, _| call.guard.tracker.graph_launched(call.guard.now()),
    )
}

/// A kernel node is added or changed, by a structure of the node's own kind.
pub(super) fn add_kernel_node(entry: Entry, params: Handle, real: impl FnOnce() -> i32) -> i32 {
    // The first version of the structure ends before the kernel's handle.
    let with_kernel = entry.entry_point.symbol().ends_with("_v2");
    published(
        entry,
        |call| {
            call.about.context = call.current_context();
            if !params.is_null() {
                call.uses(function_of(params, with_kernel));
            }
        },
        real,
    )
}

/// A node of any kind is added or changed, by a structure that begins with the kind.
pub(super) fn add_node(entry: Entry, params: Handle, real: impl FnOnce() -> i32) -> i32 {
    published(
        entry,
        |call| {
            call.about.context = call.current_context();
            // SAFETY: the program passes a node description, which the driver reads as well; the kind is read as an integer.
            if !params.is_null() && unsafe { params.cast::<u32>().read() } == KERNEL {
                // SAFETY: as above: what follows at this offset is a kernel node's description.
                let node = unsafe { params.cast::<u8>().add(offset_of!(NodeParams, __bindgen_anon_1)) };
                call.uses(function_of(node.cast(), true));
            }
        },
        real,
    )
}

/// The function of a kernel node, or the kernel in its place.
fn function_of(params: Handle, with_kernel: bool) -> Handle {
    // SAFETY: the program passes a kernel node's description, of which this is the part that every version has.
    let function = unsafe { params.cast::<u8>().add(offset_of!(KernelNode, func)).cast::<Handle>().read() };
    if !function.is_null() || !with_kernel {
        return function;
    }
    // SAFETY: as above, for the versions that have it.
    unsafe { params.cast::<u8>().add(offset_of!(KernelNode, kern)).cast::<Handle>().read() }
}
