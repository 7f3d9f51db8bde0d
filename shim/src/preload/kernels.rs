//! The functions of modules and the kernels of libraries: listed, and loaded into the current context.

use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::runtime::process::Process;
use lazyguard_core::preload::Memory;
use lazyguard_core::state::FunctionKind;
use std::ptr::null_mut;

/// The driver lists kernels and functions from this version on.
pub const LISTS_SINCE: i32 = 12040;
const NOT_SUPPORTED: i32 = 801;
const NUM_REGS: i32 = 4;

pub fn count(library: u64) -> Option<u32> {
    driver::told(0, |count| driver::library_kernel_count(count, library as Handle))
}

pub fn of_library(library: u64) -> Option<Vec<u64>> {
    list(count(library)?, |kernels, count| driver::library_kernels(kernels, count, library as Handle))
}

pub fn of_module(module: u64) -> Option<Vec<u64>> {
    let count = driver::told(0, |count| driver::module_function_count(count, module as Handle))?;
    list(count, |functions, count| driver::module_functions(functions, count, module as Handle))
}

fn list(count: u32, fill_in: impl FnOnce(*mut Handle, u32) -> Option<i32>) -> Option<Vec<u64>> {
    let mut handles = vec![null_mut(); count as usize];
    let filled_in = fill_in(handles.as_mut_ptr(), count)? == SUCCESS;
    filled_in.then(|| handles.into_iter().map(|handle| handle as u64).collect())
}

pub fn memory() -> Option<Memory> {
    let (free, total) = driver::told((0, 0), |(free, total)| driver::memory_info(free, total))?;
    Some(Memory { free: free as u64, total: total as u64 })
}

/// Brings a library into the current context.
pub fn bring(process: &Process, context: u32, library: u64) {
    if driver::library_module(&mut null_mut(), library as Handle) == Some(SUCCESS) {
        process.tracker.set_present(library, context, true);
    }
}

pub fn load(process: &Process, context: u32, kind: FunctionKind, handle: u64, owner: u64) -> bool {
    let tracker = &process.tracker;
    let entry = |handle, kind| tracker.function_entry(tracker.function(handle, kind, owner));
    let loaded = match kind {
        FunctionKind::Kernel => {
            let function = driver::told(null_mut(), |function| driver::kernel_function(function, handle as Handle));
            // Its function is loaded with it. The report names the kernel, whose use comes first.
            let its = function.and_then(|function| entry(function as u64, FunctionKind::Function));
            its.into_iter().for_each(|function| function.set_loaded_in(context));
            function.is_some()
        }
        FunctionKind::Function => match driver::function_load(handle as Handle) {
            Some(result) if result != NOT_SUPPORTED => result == SUCCESS,
            // Before 12.4, asking a resolved function for an attribute loads it.
            _ => driver::function_attribute(&mut 0, NUM_REGS, handle as Handle) == Some(SUCCESS),
        },
    };
    if loaded {
        entry(handle, kind).into_iter().for_each(|function| function.set_preloaded(context));
        tracker.set_present(owner, context, true);
    }
    loaded
}
