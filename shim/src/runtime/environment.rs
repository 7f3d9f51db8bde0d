//! The library's part of the environment, as it was when the process began.
//!
//! Protocol: [`remember`] runs once, when the library is loaded, before the program can have a second thread. Later the program may
//! change its environment at any time and in any thread, so everything that decides about the guard asks here.
//!
//! Must not: allocate in [`switched_on`], which look-ups ask.

use lazyguard_core::gpu_dump::{self, is_of_a_tool};
use lazyguard_core::sync::lock;
use std::ffi::{c_char, CStr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Mutex;

static REMEMBERED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Variables of other tools in the driver, and their values.
static OF_TOOLS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Whether [`remember`] has found a variable of the guard's own.
#[link_section = ".data.lazyguard_start"]
static ANY: AtomicBool = AtomicBool::new(false);

static AT_START: std::sync::atomic::AtomicPtr<*const c_char> = std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

#[used]
#[link_section = ".init_array.00001"]
static GIVEN: unsafe extern "C" fn(i32, *const *const c_char, *mut *const c_char) = {
    unsafe extern "C" fn given(_: i32, _: *const *const c_char, environment: *mut *const c_char) {
        AT_START.store(environment, Ordering::Relaxed);
    }
    given
};

/// Whether the process began without any variable of the guard's own.
pub fn is_empty() -> bool {
    !ANY.load(Ordering::Relaxed)
}

/// Remembers each variable whose name begins with `LAZYGUARD`, and those of other tools in the driver.
#[inline(always)]
pub fn remember() {
    let environ = AT_START.load(Ordering::Relaxed).cast_const();
    // SAFETY: the C library's list, which ends with a null pointer; nothing has run yet that could change it.
    let entries =
        (0..).map_while(|n| unsafe { environ.as_ref().map(|_| *environ.add(n)).filter(|entry| !entry.is_null()) });
    for entry in entries {
        // SAFETY: each entry is a terminated string, of which no byte is read behind one that differs.
        let begins = |with: &[u8]| with.iter().enumerate().all(|(at, byte)| unsafe { *entry.add(at) as u8 == *byte });
        if begins(b"LAZYGUARD") || begins(gpu_dump::OF_TOOLS.as_bytes()) {
            // SAFETY: as above.
            keep(unsafe { CStr::from_ptr(entry) }.to_bytes());
        }
    }
}

#[cold]
#[inline(never)]
fn keep(entry: &[u8]) {
    let text = String::from_utf8_lossy(entry);
    if let Some((name, value)) = text.split_once('=') {
        let kept = match () {
            () if name.starts_with("LAZYGUARD") => &REMEMBERED,
            () if is_of_a_tool(name) => &OF_TOOLS,
            () => return,
        };
        ANY.fetch_or(std::ptr::eq(kept, &REMEMBERED), Ordering::Relaxed);
        lock(kept).push((name.to_owned(), value.to_owned()));
    }
}

/// All of it: names and values.
pub fn all() -> Vec<(String, String)> {
    lock(&REMEMBERED).clone()
}

/// The names of the variables of other tools in the driver.
pub fn tools() -> Vec<String> {
    lock(&OF_TOOLS).iter().map(|(name, _)| name.clone()).collect()
}

/// The value of one of them.
pub fn of_tools(name: &str) -> Option<String> {
    lock(&OF_TOOLS).iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

/// The value of one variable.
pub fn get(name: &str) -> Option<String> {
    lock(&REMEMBERED).iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
#[link_section = ".data.lazyguard_start"]
static SWITCH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the process began without `LAZYGUARD=off`. A look-up may ask before the library's own constructor has run, so the first
/// question reads the variable itself.
#[link_section = ".text.lazyguard_start"]
pub fn switched_on() -> bool {
    match SWITCH.load(Ordering::Relaxed) {
        UNKNOWN => {
            // SAFETY: a terminated name; the value is read before anything else can run in this thread.
            let value = unsafe { libc::getenv(c"LAZYGUARD".as_ptr()) };
            // SAFETY: `getenv` gives null or a terminated string.
            let off = !value.is_null() && is_off(unsafe { CStr::from_ptr(value) }.to_bytes());
            SWITCH.store(if off { OFF } else { ON }, Ordering::Relaxed);
            !off
        }
        switch => switch == ON,
    }
}

/// Whether a value switches something off.
pub fn is_off(value: &[u8]) -> bool {
    matches!(value.trim_ascii(), b"off" | b"0" | b"false" | b"no")
}
