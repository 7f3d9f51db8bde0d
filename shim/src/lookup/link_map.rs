//! The dynamic linker's records of the loaded objects.

use super::dynamic::{Dynamic, DynamicEntry, DT_DEBUG};
use super::objects::{addresses, file_name, relocated_read_only};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::ptr::null_mut;

const RTLD_DL_LINKMAP: c_int = 2;
const LINKERS: [&[u8]; 2] = [b"ld-linux-x86-64.so.2", b"ld-linux-aarch64.so.1"];

extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// The public part of `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    pub base: usize,
    /// Its path; empty for the program itself.
    pub name: *const c_char,
    first: *const DynamicEntry,
    next: *mut LinkMap,
}

#[repr(C)]
struct Debug {
    version: c_int,
    first: *const LinkMap,
    hook: usize,
    state: c_int,
}

const RT_CONSISTENT: c_int = 0;

extern "C" {
    static _r_debug: Debug;
}

/// The loaded objects, for code that runs before any other thread and before `dl_iterate_phdr` is bound.
pub fn at_start() -> impl Iterator<Item = &'static LinkMap> {
    // SAFETY: filled in before any code runs, under a name that programs leave alone.
    let first = unsafe { (&raw const _r_debug.first).read() };
    // SAFETY: the loader's records; nothing is unloaded yet.
    std::iter::successors(unsafe { first.as_ref() }, |map| unsafe { map.next.as_ref() })
}

pub fn linker() -> Option<&'static LinkMap> {
    at_start().find(|map| LINKERS.contains(&map.file_name()))
}

pub fn object_of(address: *const c_void) -> Option<&'static LinkMap> {
    let mut info =
        libc::Dl_info { dli_fname: null_mut(), dli_fbase: null_mut(), dli_sname: null_mut(), dli_saddr: null_mut() };
    let mut map: *mut c_void = null_mut();
    // SAFETY: both outputs are valid for writing, and the address is only compared with mapped ranges.
    let found = unsafe { dladdr1(address, &mut info, &mut map, RTLD_DL_LINKMAP) };
    if found == 0 || map.is_null() {
        return None;
    }
    // SAFETY: the loader's record outlives this use: the object holds code that is being called or was just looked up.
    Some(unsafe { &*map.cast::<LinkMap>() })
}

/// A look-up takes the lock that a load holds until its constructors have run.
pub fn wait_for_loads() {
    object_of(wait_for_loads as *const () as *const c_void);
}

/// Whether this thread loads or unloads objects; glibc before 2.41 says so only until they are mapped.
pub fn are_changing() -> bool {
    // The program's own section: the variable of that name may be a copy.
    let debug = at_start().next().and_then(|program| program.dynamic().value(DT_DEBUG)).unwrap_or(0) as *const Debug;
    // SAFETY: null, or the dynamic linker's own structure, which stays. Volatile: it changes meanwhile.
    !debug.is_null() && unsafe { (&raw const (*debug).state).read_volatile() } != RT_CONSISTENT
}

impl LinkMap {
    pub fn path(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader keeps a terminated string there as long as the object is loaded.
        unsafe { CStr::from_ptr(self.name) }
    }

    pub fn file_name(&self) -> &[u8] {
        file_name(self.path().to_bytes())
    }

    pub fn dynamic(&self) -> Dynamic {
        Dynamic::at(self.base, self.first)
    }

    /// The program headers that a library's first segment names; none for the program, and below the base.
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.path().is_empty() || self.base == 0 || self.dynamic().lies_below_base() {
            return &[];
        }
        // SAFETY: the first page of a loaded library.
        let header = unsafe { &*(self.base as *const libc::Elf64_Ehdr) };
        let (entry, table) = (usize::from(header.e_phentsize), (self.base + header.e_phoff as usize) as *const _);
        if !header.e_ident.starts_with(b"\x7fELF") || entry != size_of::<libc::Elf64_Phdr>() {
            return &[];
        }
        // SAFETY: the table lies where the header says, in the first segment, from which the dynamic linker has read it.
        unsafe { std::slice::from_raw_parts(table, header.e_phnum.into()) }
    }

    pub fn addresses(&self) -> Range<u64> {
        addresses(self.headers(), self.base as u64)
    }

    pub fn relocated_read_only(&self) -> Range<usize> {
        relocated_read_only(self.headers(), self.base as u64)
    }
}
