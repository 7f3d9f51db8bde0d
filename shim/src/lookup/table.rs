//! The table of hooks, which the look-up does not know: each entry that can be the first one registers it, the library's constructor and `dlsym`.
//!
//! Must not: allocate or lock.

use lazyguard_core::api::{EntryPoint, DRIVER_ENTRY_POINTS, NCCL_ENTRY_POINTS};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

pub struct Hook(pub *const c_void);

// SAFETY: the address of a function may be read from anywhere.
unsafe impl Sync for Hook {}

pub struct HookTable {
    pub exports: [Hook; DRIVER_ENTRY_POINTS.len()],
    pub nccl: [Hook; NCCL_ENTRY_POINTS.len()],
    /// The hook for `cuModuleGetLoadingMode` from `cuGetProcAddress`, by which runtimes alone look it up.
    pub loading_mode_for_runtime: Hook,
}

static REGISTERED: AtomicPtr<HookTable> = AtomicPtr::new(null_mut());

static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

pub fn register(hooks: &'static HookTable, dlsym: *const c_void) {
    // Relaxed: both are constant.
    DLSYM.store(dlsym.cast_mut(), Ordering::Relaxed);
    REGISTERED.store(std::ptr::from_ref(hooks).cast_mut(), Ordering::Relaxed);
}

fn table() -> Option<&'static HookTable> {
    // SAFETY: null, or a table that is a constant of this library.
    unsafe { REGISTERED.load(Ordering::Relaxed).as_ref() }
}

/// Null before the hooks are registered, as in the functions below.
pub fn hook(entry_point: EntryPoint) -> *mut c_void {
    let of_it = |table: &'static HookTable| table.exports.iter().chain(&table.nccl).nth(entry_point.index());
    table().and_then(of_it).map_or(null_mut(), |hook| hook.0.cast_mut())
}

pub fn dlsym_hook() -> *mut c_void {
    DLSYM.load(Ordering::Relaxed)
}

/// The hook for a pointer of `cuGetProcAddress`.
pub fn hook_for_runtime(entry_point: EntryPoint) -> *mut c_void {
    match table() {
        Some(table) if entry_point.symbol() == "cuModuleGetLoadingMode" => table.loading_mode_for_runtime.0.cast_mut(),
        _ => hook(entry_point),
    }
}
