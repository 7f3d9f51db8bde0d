//! The table of hooks, and its registration.
//!
//! Protocol: the look-up does not know the hooks. Each entry that can be the first one registers their table: the library's constructor, and
//! `dlsym`, because a look-up can come before the constructor has run.
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
    /// The exports in place of the driver's, in the order of the entry points.
    pub exports: [Hook; DRIVER_ENTRY_POINTS.len()],
    pub nccl: [Hook; NCCL_ENTRY_POINTS.len()],
    /// What `cuGetProcAddress` hands out for `cuModuleGetLoadingMode`: a runtime looks up everything that way, so a question for the
    /// loading mode that comes by it is a runtime's.
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

/// The hook of the entry point with this index; null before the hooks are registered.
pub fn hook_at(index: usize) -> *mut c_void {
    let hooks = |table: &'static HookTable| table.exports.iter().chain(&table.nccl).nth(index);
    table().and_then(hooks).map_or(null_mut(), |hook| hook.0.cast_mut())
}

/// The hook of an entry point; null before the hooks are registered.
pub fn hook(entry_point: EntryPoint) -> *mut c_void {
    hook_at(entry_point.index())
}

/// The library's own `dlsym`; null before the hooks are registered.
pub fn dlsym_hook() -> *mut c_void {
    DLSYM.load(Ordering::Relaxed)
}

/// The hook of an entry point for a pointer that `cuGetProcAddress` hands out.
pub fn hook_for_runtime(entry_point: EntryPoint) -> *mut c_void {
    match table() {
        Some(table) if entry_point.symbol() == "cuModuleGetLoadingMode" => table.loading_mode_for_runtime.0.cast_mut(),
        _ => hook(entry_point),
    }
}
