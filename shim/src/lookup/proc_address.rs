//! The answers of `cuGetProcAddress`. The driver is asked first. If it gives the real function of an entry point with that name, that very entry point's
//! hook takes its place. A pointer that the driver exports under no name may be a newer entry point: it counts as the newest known one only if the
//! driver gives the same pointer for that one's version. An unknown name passes untouched; the summary lists it if it looks like a launch, a load, a
//! wait or a capture.
//!
//! Must not: change the driver's result, or what the program finds when the driver has not answered.

use super::driver::{self, Handle};
use super::link_map;
use super::table::hook_for_runtime;
use crate::runtime::{environment, pass_through};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PassThrough;
use std::ffi::{c_char, CStr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Unhooked, such names could launch, load, wait or capture behind the guard's back.
const OF_CONCERN: &[&[u8]] = &[
    b"cuLaunch",
    b"cuGraphLaunch",
    b"cuStreamBegin",
    b"cuStreamWait",
    b"cuStreamBatch",
    b"cuModuleLoad",
    b"cuLibraryLoad",
];

static LOOKED_UP: AtomicU64 = AtomicU64::new(0);

pub fn looked_up() -> u64 {
    LOOKED_UP.load(Ordering::Relaxed)
}

/// After a success: exchanges the pointer for the hook, where there is one.
pub fn substitute(symbol: Handle, pointer: Handle, version: i32, flags: u64) {
    LOOKED_UP.fetch_add(1, Ordering::Relaxed);
    if symbol.is_null() || pointer.is_null() || !environment::switched_on() {
        return;
    }
    // SAFETY: the driver has just accepted both: a terminated name, and room for a pointer, which it has filled in.
    let (name, slot) = unsafe { (CStr::from_ptr(symbol.cast::<c_char>()), &mut *pointer.cast::<Handle>()) };
    let name = name.to_bytes();
    if slot.is_null() {
        return;
    }
    let entry_point = match EntryPoint::by_base(name).find(|entry_point| driver::calls(*entry_point, *slot)) {
        Some(entry_point) => entry_point,
        None => {
            let known = EntryPoint::by_request(name, version, flags & PER_THREAD_DEFAULT_STREAM != 0)
                .filter(|entry_point| driver::answers_alike(symbol.cast(), entry_point.info().since, flags, *slot));
            let Some(entry_point) = known else {
                if EntryPoint::by_base(name).next().is_some() {
                    pass_through::note(PassThrough::UnknownVersion);
                }
                if OF_CONCERN.iter().any(|start| name.starts_with(start)) {
                    note(name);
                }
                return;
            };
            // A pointer into another object is another layer's, or a second driver's; one into none is code that the driver has made.
            if !driver::ADOPTED.addresses().contains(&(*slot as u64)) && link_map::object_of(*slot).is_some() {
                return;
            }
            driver::remember(entry_point, *slot);
            entry_point
        }
    };
    let hook = hook_for_runtime(entry_point);
    if !hook.is_null() {
        *slot = hook;
    }
}

const MOST_NAMES: usize = 64;
/// Asked for, and looking like launches, loads or waits, without a hook.
static UNHOOKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
static UNSEEN_CAPTURE: AtomicBool = AtomicBool::new(false);

fn note(name: &[u8]) {
    if name.windows(7).any(|at| at == b"Capture") {
        UNSEEN_CAPTURE.store(true, Ordering::Relaxed);
    }
    if let Ok(mut names) = UNHOOKED.try_lock() {
        let name = String::from_utf8_lossy(name);
        if names.len() < MOST_NAMES && !names.iter().any(|n| *n == name) {
            names.push(name.into_owned());
        }
    }
}

pub fn unhooked() -> Vec<String> {
    UNHOOKED.try_lock().map(|names| names.clone()).unwrap_or_default()
}

/// Whether an unhooked function begins captures: then no context is asked as a whole, which would invalidate one.
pub fn captures_may_go_unseen() -> bool {
    UNSEEN_CAPTURE.load(Ordering::Relaxed)
}
