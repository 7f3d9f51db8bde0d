//! Questions that the driver answers at any time, also while threads are blocked in it: about functions, devices and addresses.
//!
//! Must not: ask anything that was seen to block (limits, occupancy), or that loads.

use super::driver::{self, Handle, SUCCESS};
use crate::runtime::own_memory::{self, Unread};
use lazyguard_core::diagnose::{Device, Needs};

/// Values of `CUpointer_attribute`.
const CONTEXT: i32 = 1;
const MEMORY_TYPE: i32 = 2;
const HOST_POINTER: i32 = 4;
const IS_MANAGED: i32 = 8;
const RANGE_START_ADDR: i32 = 11;
const RANGE_SIZE: i32 = 12;
const MEMPOOL_HANDLE: i32 = 17;
/// `CU_MEMORYTYPE_HOST`.
const HOST: u32 = 1;
/// `CUDA_ERROR_INVALID_VALUE`: an unknown address.
const INVALID_VALUE: i32 = 1;
/// Values of `CUfunction_attribute`.
const SHARED_SIZE_BYTES: i32 = 1;
const LOCAL_SIZE_BYTES: i32 = 3;
const NUM_REGS: i32 = 4;

/// An integer attribute of what lies at an address.
fn at<T: Default>(address: u64, which: i32) -> Result<T, Option<i32>> {
    let mut value = T::default();
    match driver::pointer_attribute((&raw mut value).cast(), which, address) {
        Some(SUCCESS) => Ok(value),
        other => Err(other),
    }
}

/// Managed memory is left alone: looking at it moves it.
pub fn host_memory(address: u64, wide: bool) -> Result<u64, Unread> {
    let of_host = is_page_locked(address) && at::<u32>(address, IS_MANAGED).is_ok_and(|managed| managed & 0xff == 0);
    let (true, Ok(pointer)) = (of_host, at::<u64>(address, HOST_POINTER)) else { return Err(Unread::Never) };
    let mut bytes = [0u8; 8];
    let size = if wide { 8 } else { 4 };
    // By the kernel: a bad address is an error, not a fault.
    own_memory::read_without_files(pointer, &mut bytes[..size]).map(|()| u64::from_le_bytes(bytes))
}

/// Whether the driver does not know the memory.
pub fn is_pageable(address: u64) -> bool {
    address != 0 && at::<u32>(address, MEMORY_TYPE) == Err(Some(INVALID_VALUE))
}

/// Whether it is the host's memory, allocated or registered with the driver.
pub fn is_page_locked(address: u64) -> bool {
    at::<u32>(address, MEMORY_TYPE) == Ok(HOST)
}

/// The first address and the size of the allocation or mapping that has this address.
pub fn range(address: u64) -> Option<(u64, u64)> {
    Some((at::<u64>(address, RANGE_START_ADDR).ok()?, at::<usize>(address, RANGE_SIZE).ok()? as u64))
}

/// Whether it was allocated in the order of a stream.
pub fn is_of_a_pool(address: u64) -> bool {
    at::<u64>(address, MEMPOOL_HANDLE).is_ok_and(|pool| pool != 0)
}

/// Whether memory that was allocated or registered in this context begins here.
pub fn is_allocated_in(address: u64, context: Handle, of_host: bool) -> bool {
    at::<u64>(address, RANGE_START_ADDR) == Ok(address)
        && at::<u64>(address, CONTEXT) == Ok(context as u64)
        && at::<u32>(address, MEMORY_TYPE).is_ok_and(|kind| (kind == HOST) == of_host)
}

fn attribute(handle: Handle, kernel: bool, device: i32, which: i32) -> Option<u32> {
    let value = driver::told(0, |value| match kernel {
        true => driver::kernel_attribute(value, which, handle, device),
        false => driver::function_attribute(value, which, handle),
    })?;
    u32::try_from(value).ok()
}

/// A block's needs of a device; `shared_bytes` are the launch's.
pub fn needs(handle: Handle, kernel: bool, device: i32, threads: u32, shared_bytes: u64) -> Option<Needs> {
    let attribute = |which| attribute(handle, kernel, device, which);
    let shared_bytes = shared_bytes.saturating_add(u64::from(attribute(SHARED_SIZE_BYTES)?));
    Some(Needs { threads, registers: attribute(NUM_REGS)?, shared_bytes })
}

/// Bytes of local memory of a thread of a loaded function or kernel.
pub fn local_bytes(handle: Handle, kernel: bool, device: i32) -> Option<u64> {
    attribute(handle, kernel, device, LOCAL_SIZE_BYTES).map(u64::from)
}

pub fn limits(device: i32) -> Device {
    let told = |which: i32| driver::told(0, |value| driver::device_attribute(value, which, device));
    let attribute = |which: i32| told(which).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
    // The numbers are those of `CUdevice_attribute`.
    Device {
        multiprocessors: attribute(16),
        threads: attribute(39),
        blocks: attribute(106),
        registers: attribute(82),
        shared_bytes: attribute(81),
        reserved_shared_bytes: attribute(111),
        warp: attribute(10),
    }
}
