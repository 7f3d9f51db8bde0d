//! The library's part of the environment, as it was when the process began. [`remember`] runs once, at the load, in the only thread: later the program may
//! change its environment at any time.
//!
//! Must not: allocate in [`switched_on`], which look-ups ask.

use lazyguard_core::gpu_dump::{self, is_of_a_tool};
use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// Bytes of entries, each with its zero.
const ROOM: usize = 32 << 10;
struct Kept(UnsafeCell<[u8; ROOM]>);
// SAFETY: the one caller of `keep` writes behind `USED`, and nothing before it changes.
unsafe impl Sync for Kept {}
static KEPT: Kept = Kept(UnsafeCell::new([0; ROOM]));
static USED: AtomicUsize = AtomicUsize::new(0);

static TOO_LONG: AtomicBool = AtomicBool::new(false);

/// A variable of the guard's own was found.
#[link_section = ".data.lazyguard_start"]
static ANY: AtomicBool = AtomicBool::new(false);

pub fn is_empty() -> bool {
    !ANY.load(Ordering::Relaxed)
}

/// The environment that the dynamic linker passes: the C library may have no list of its own yet.
#[link_section = ".data.lazyguard_start"]
static AT_START: AtomicPtr<*const c_char> = AtomicPtr::new(null_mut());

#[used]
#[link_section = ".init_array.00000"]
static TAKES_THE_LIST: extern "C" fn(c_int, *const *const c_char, *mut *const c_char) = take_list;

#[link_section = ".text.lazyguard_start"]
extern "C" fn take_list(_: c_int, _: *const *const c_char, list: *mut *const c_char) {
    AT_START.store(list, Ordering::Relaxed);
}

extern "C" {
    /// The C library's list, under a name that programs leave alone.
    static __environ: *const *const c_char;
}

/// # Safety
/// The list is null, or one of terminated strings with a null pointer at its end.
#[inline(always)]
unsafe fn entries(list: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    // SAFETY: the caller's promise.
    (0..).map_while(move |n| unsafe { list.as_ref().map(|_| *list.add(n)).filter(|entry| !entry.is_null()) })
}

/// # Safety
/// The entry is a terminated string.
#[inline(always)]
unsafe fn begins(entry: *const c_char, with: &[u8]) -> bool {
    // SAFETY: no byte is read behind one that differs.
    with.iter().enumerate().all(|(at, byte)| unsafe { *entry.add(at) as u8 == *byte })
}

/// Keeps the variables of the guard, and of other tools in the driver.
#[inline(always)]
pub fn remember() {
    remember_those(AT_START.load(Ordering::Relaxed));
}

/// For arming: another library's constructor may initialise CUDA before this library's own has called [`remember`].
pub fn remember_if_not_yet() {
    if SWITCH.load(Ordering::Relaxed) == UNKNOWN {
        // SAFETY: the C library's own variable.
        remember_those(unsafe { __environ });
    }
}

#[inline(always)]
fn remember_those(list: *const *const c_char) {
    if SWITCH.swap(ON, Ordering::Relaxed) != UNKNOWN {
        return;
    }
    // SAFETY: the environment's list, which nothing changes yet.
    for entry in unsafe { entries(list) } {
        // SAFETY: its entries are terminated strings.
        unsafe {
            if begins(entry, b"LAZYGUARD") || begins(entry, gpu_dump::OF_TOOLS.as_bytes()) {
                keep(CStr::from_ptr(entry).to_bytes_with_nul());
            }
        }
    }
}

/// The first one of a name counts, as for `getenv`.
#[cold]
#[inline(never)]
fn keep(entry: &[u8]) {
    let is_own = entry.starts_with(b"LAZYGUARD");
    ANY.fetch_or(is_own, Ordering::Relaxed);
    if let Some(value) =
        entry.strip_prefix(b"LAZYGUARD=").filter(|_| !kept_bytes().any(|(name, _)| name == b"LAZYGUARD"))
    {
        SWITCH.store(if is_off(value.strip_suffix(&[0]).unwrap_or(value)) { OFF } else { ON }, Ordering::Relaxed);
    }
    let used = USED.load(Ordering::Relaxed);
    if ROOM - used < entry.len() {
        TOO_LONG.fetch_or(is_own, Ordering::Relaxed);
        return;
    }
    // SAFETY: inside the room, by the check above, and behind what is read.
    unsafe {
        let behind = KEPT.0.get().cast::<u8>().add(used);
        std::ptr::copy_nonoverlapping(entry.as_ptr(), behind, entry.len());
    }
    // Release: partner of the Acquire in `kept`.
    USED.store(used + entry.len(), Ordering::Release);
}

fn kept_bytes() -> impl Iterator<Item = (&'static [u8], &'static [u8])> {
    // SAFETY: nothing before `USED` ever changes again.
    let bytes = unsafe { std::slice::from_raw_parts(KEPT.0.get().cast::<u8>(), USED.load(Ordering::Acquire)) };
    bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((entry.get(..at)?, entry.get(at + 1..)?))
    })
}

fn kept() -> impl Iterator<Item = (Cow<'static, str>, Cow<'static, str>)> {
    kept_bytes().map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
}

fn is_own(name: &str) -> bool {
    name.starts_with("LAZYGUARD")
}

pub fn all() -> Vec<(String, String)> {
    kept().filter(|(name, _)| is_own(name)).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

pub fn complaint() -> Option<&'static str> {
    let line = "the variables LAZYGUARD_... of the environment have more than 32 KB in all: the last ones are ignored";
    TOO_LONG.load(Ordering::Relaxed).then_some(line)
}

pub fn tools() -> Vec<String> {
    kept().filter(|(name, _)| is_of_a_tool(name)).map(|(name, _)| name.into_owned()).collect()
}

pub fn get(name: &str) -> Option<String> {
    kept().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Its value by now.
pub fn present(name: &str) -> Option<OsString> {
    // SAFETY: the C library's own list. As for each `getenv`, no other thread may change it just now.
    unsafe { entries(__environ) }.find_map(|entry| {
        // SAFETY: an entry is a terminated string, and the value begins behind its name.
        unsafe {
            let is_named = begins(entry, name.as_bytes()) && begins(entry.add(name.len()), b"=");
            is_named.then(|| OsStr::from_bytes(CStr::from_ptr(entry.add(name.len() + 1)).to_bytes()).to_owned())
        }
    })
}

pub fn present_text(name: &str) -> Option<String> {
    present(name)?.into_string().ok()
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
#[link_section = ".data.lazyguard_start"]
static SWITCH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether `LAZYGUARD=off` is not set; true before the library's own constructor.
#[link_section = ".text.lazyguard_start"]
pub fn switched_on() -> bool {
    SWITCH.load(Ordering::Relaxed) != OFF
}

pub fn is_off(value: &[u8]) -> bool {
    matches!(value.trim_ascii(), b"off" | b"0" | b"false" | b"no")
}
