//! Which loaded object an address belongs to, and what that object is.
//!
//! Must not: allocate in what [`super::dlsym`] uses ([`object_of`], [`is_driver`]).

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

/// The loader's record of a loaded object (`struct link_map`): the public part.
#[repr(C)]
pub struct LinkMap {
    /// The object's load address.
    pub base: usize,
    /// The path it was loaded from; empty for the program itself.
    pub name: *const c_char,
    dynamic: *const DynamicEntry,
    next: *mut LinkMap,
    previous: *mut LinkMap,
}

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: usize,
}

const DT_NULL: i64 = 0;
const DT_NEEDED: i64 = 1;
const DT_STRTAB: i64 = 5;
const DT_SONAME: i64 = 14;
const RTLD_DL_LINKMAP: c_int = 2;

extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// The object that holds an address.
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

impl LinkMap {
    /// The path the object was loaded from.
    pub fn path(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader keeps a terminated string there as long as the object is loaded.
        unsafe { CStr::from_ptr(self.name) }
    }

    fn strings_with_tag(&self, tag: i64) -> impl Iterator<Item = &CStr> {
        let entries = || {
            let first = self.dynamic;
            (0..).map_while(move |n| {
                if first.is_null() {
                    return None;
                }
                // SAFETY: the dynamic section is an array that ends with a DT_NULL entry, and this stops there.
                let entry = unsafe { &*first.add(n) };
                (entry.tag != DT_NULL).then_some(entry)
            })
        };
        // The GNU C library has relocated the string table's address in place, on every architecture but a few that CUDA
        // does not know; an address below the base is one it has not.
        let table = entries().find(|e| e.tag == DT_STRTAB).map(|e| e.value);
        let base = self.base;
        entries().filter(move |e| e.tag == tag).filter_map(move |entry| {
            let table = table?;
            let table = if table < base { table + base } else { table };
            // SAFETY: the entry's value is an offset into the object's string table, which is mapped and terminated.
            Some(unsafe { CStr::from_ptr((table + entry.value) as *const c_char) })
        })
    }

    /// The object's own name (`DT_SONAME`).
    pub fn soname(&self) -> Option<&CStr> {
        self.strings_with_tag(DT_SONAME).next()
    }

    /// The names of the objects it needs.
    pub fn needs(&self, soname: &CStr) -> bool {
        self.strings_with_tag(DT_NEEDED).any(|n| n == soname)
    }

    /// All loaded objects of this object's namespace, as they are linked now.
    pub fn namespace(&self) -> impl Iterator<Item = &'static LinkMap> {
        let mut first: *const LinkMap = self;
        // SAFETY: the list is walked to its beginning through the loader's own pointers.
        unsafe {
            while !(*first).previous.is_null() {
                first = (*first).previous;
            }
        }
        std::iter::successors(
            // SAFETY: the loader's records; those of objects in use are not freed.
            unsafe { first.as_ref() },
            // SAFETY: as above.
            |map| unsafe { map.next.as_ref() },
        )
    }
}

/// A loaded object, while the loader's lock is held.
pub struct Loaded<'a>(&'a libc::dl_phdr_info);

impl Loaded<'_> {
    /// The name of its file; empty for the program itself.
    pub fn file_name(&self) -> &[u8] {
        if self.0.dlpi_name.is_null() {
            return b"";
        }
        // SAFETY: the loader keeps a terminated string there as long as the object is loaded.
        file_name(unsafe { CStr::from_ptr(self.0.dlpi_name) }.to_bytes())
    }

    /// How many objects have been loaded and unloaded so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.dlpi_adds, self.0.dlpi_subs)
    }

    /// The addresses from its first segment's to its last one's end.
    pub fn addresses(&self) -> Range<u64> {
        let loads = self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD);
        let begin = |header: &libc::Elf64_Phdr| self.0.dlpi_addr.wrapping_add(header.p_vaddr);
        let end = loads.clone().map(|header| begin(header).saturating_add(header.p_memsz)).max();
        loads.map(begin).min().unwrap_or(0)..end.unwrap_or(0)
    }

    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.0.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader gives the object's program headers, as many as there are.
        unsafe { std::slice::from_raw_parts(self.0.dlpi_phdr, usize::from(self.0.dlpi_phnum)) }
    }

    /// The address of what lies so far from its load address.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.0.dlpi_addr.checked_add(offset)
    }

    /// How far an address is from its load address; `None` where it is not in one of its readable segments.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.bytes(address, 1).and_then(|_| address.checked_sub(self.0.dlpi_addr))
    }

    /// Whether an address is in one of its segments that can be written to, be it only until it is relocated.
    pub fn is_writable(&self, address: u64) -> bool {
        self.segment(address, 1, libc::PF_W).is_some()
    }

    fn segment(&self, address: u64, length: usize, access: u32) -> Option<&libc::Elf64_Phdr> {
        let end = address.checked_add(length as u64)?;
        self.headers().iter().find(|header| {
            let begin = self.0.dlpi_addr.wrapping_add(header.p_vaddr);
            let is_one = header.p_type == libc::PT_LOAD && header.p_flags & access != 0;
            is_one && begin <= address && end <= begin.saturating_add(header.p_memsz)
        })
    }

    /// So many of its bytes from an address on; `None` where they are not all in one of its readable segments.
    pub fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.segment(address, length, libc::PF_R)?;
        // SAFETY: inside a segment that is mapped for reading, of an object that is not unloaded meanwhile.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, length) })
    }
}

type Visit<'a> = &'a mut dyn FnMut(&Loaded<'_>) -> bool;

unsafe extern "C" fn visit_one(info: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
    // SAFETY: the loader's own record, and what `each` has given.
    let (info, visit) = unsafe { (&*info, &mut *visit.cast::<Visit<'_>>()) };
    let goes_on = catch_unwind(AssertUnwindSafe(|| visit(&Loaded(info))));
    c_int::from(!goes_on.unwrap_or(false))
}

/// Visits the loaded objects until one visit returns `false`. No object is mapped or unmapped meanwhile: the loader holds the lock of its list,
/// which it does not hold while constructors and destructors run, as it holds the one that `dladdr` takes.
///
/// A visit must not allocate: an allocator may visit the objects itself, under a lock of its own.
pub fn each(mut visit: Visit<'_>) {
    // SAFETY: the callback has the type that is asked for, and its argument lives as long as this call.
    unsafe { libc::dl_iterate_phdr(Some(visit_one), std::ptr::from_mut(&mut visit).cast()) };
}

/// How many objects have been loaded and unloaded so far.
pub fn counts() -> (u64, u64) {
    let mut counts = (0, 0);
    each(&mut |object| {
        counts = object.counts();
        false
    });
    counts
}

/// The addresses of the object that holds this one; none where no object does.
pub fn addresses_around(address: u64) -> Range<u64> {
    let mut addresses = 0..0;
    each(&mut |object| {
        let is_it = object.offset_of(address).is_some();
        if is_it {
            addresses = object.addresses();
        }
        !is_it
    });
    addresses
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Whether an object is a CUDA driver: by its own name, or by its file's where it has none.
pub fn is_driver(map: &LinkMap) -> bool {
    match map.soname() {
        Some(soname) => soname == c"libcuda.so.1" || soname == c"libcuda.so",
        None => file_name(map.path().to_bytes()).starts_with(b"libcuda.so"),
    }
}
