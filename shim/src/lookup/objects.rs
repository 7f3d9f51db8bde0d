//! The loaded objects, visited while the dynamic linker's list is locked.
//!
//! Must not: allocate in a visit: an allocator may visit the objects itself, under its lock.

use super::dynamic::{Dynamic, DynamicEntry};
use super::forks;
use std::ffi::{c_int, c_void, CStr};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};

pub struct Loaded<'a>(&'a libc::dl_phdr_info);

impl Loaded<'_> {
    pub fn path(&self) -> &CStr {
        if self.0.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader keeps a terminated string there as long as the object is loaded.
        unsafe { CStr::from_ptr(self.0.dlpi_name) }
    }

    pub fn file_name(&self) -> &[u8] {
        file_name(self.path().to_bytes())
    }

    pub fn dynamic(&self) -> Dynamic {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let first = header.map_or(0, |header| self.0.dlpi_addr.wrapping_add(header.p_vaddr));
        Dynamic::at(self.0.dlpi_addr as usize, first as *const DynamicEntry)
    }

    /// The index of its tables for unwinding.
    pub fn unwind_index(&self) -> Option<u64> {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        Some(self.0.dlpi_addr.wrapping_add(header.p_vaddr))
    }

    pub fn relocated_read_only(&self) -> Range<usize> {
        relocated_read_only(self.headers(), self.0.dlpi_addr)
    }

    /// Objects loaded and unloaded so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.dlpi_adds, self.0.dlpi_subs)
    }

    pub fn addresses(&self) -> Range<u64> {
        addresses(self.headers(), self.0.dlpi_addr)
    }

    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.0.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader gives the object's program headers, as many as there are.
        unsafe { std::slice::from_raw_parts(self.0.dlpi_phdr, usize::from(self.0.dlpi_phnum)) }
    }

    pub fn address(&self, offset: u64) -> Option<u64> {
        self.0.dlpi_addr.checked_add(offset)
    }

    /// The distance from its load address; `None` outside its readable segments.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.bytes(address, 1).and_then(|_| address.checked_sub(self.0.dlpi_addr))
    }

    /// Whether an address is in a segment that can be written to, if only until it is relocated.
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

    /// `None` where they are not all in one readable segment.
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
    c_int::from(!catch_unwind(AssertUnwindSafe(|| visit(&Loaded(info)))).unwrap_or(false))
}

/// Visits the loaded objects until one visit returns `false`. No object comes or goes meanwhile. The loader's lock of its list is held, not that of `dladdr`.
pub fn each(mut visit: Visit<'_>) {
    forks::visit(|| {
        // SAFETY: the callback has the type that is asked for, and its argument lives as long as this call.
        unsafe { libc::dl_iterate_phdr(Some(visit_one), std::ptr::from_mut(&mut visit).cast()) };
    });
}

/// The result of `look` for the first object that has one. It allocates nothing: see [`each`].
pub fn find<T>(mut look: impl FnMut(&Loaded<'_>) -> Option<T>) -> Option<T> {
    let mut found = None;
    each(&mut |object| {
        found = look(object);
        found.is_none()
    });
    found
}

pub fn counts() -> (u64, u64) {
    find(|object| Some(object.counts())).unwrap_or_default()
}

pub fn count() -> u64 {
    let mut count = 0;
    each(&mut |_| {
        count += 1;
        true
    });
    count
}

/// The thread-local variables of all objects take so many bytes, alignment included.
pub fn thread_local_bytes() -> usize {
    let mut sum = 0_u64;
    each(&mut |object| {
        let of_threads = object.headers().iter().filter(|header| header.p_type == libc::PT_TLS);
        of_threads.for_each(|header| sum = sum.saturating_add(header.p_memsz).saturating_add(header.p_align));
        true
    });
    // No thread starts with more.
    sum.min(1 << 30) as usize
}

/// The object that another one needs under this name.
pub fn loaded_as(name: &CStr) -> Option<Dynamic> {
    find(|object| {
        let dynamic = object.dynamic();
        (dynamic.soname() == Some(name) || object.file_name() == name.to_bytes()).then_some(dynamic)
    })
}

pub(super) fn addresses(headers: &[libc::Elf64_Phdr], base: u64) -> Range<u64> {
    let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = |header: &libc::Elf64_Phdr| base.wrapping_add(header.p_vaddr);
    let end = loads.clone().map(|header| begin(header).saturating_add(header.p_memsz)).max();
    loads.map(begin).min().unwrap_or(0)..end.unwrap_or(0)
}

/// Whole pages that are read-only once the object is relocated.
pub(super) fn relocated_read_only(headers: &[libc::Elf64_Phdr], base: u64) -> Range<usize> {
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO) else { return 0..0 };
    // The last page stays writable.
    let page = page_bytes();
    let begin = base.wrapping_add(header.p_vaddr);
    (begin / page * page) as usize..(begin.saturating_add(header.p_memsz) / page * page) as usize
}

#[cfg(target_arch = "x86_64")]
fn page_bytes() -> u64 {
    4096
}

#[cfg(target_arch = "aarch64")]
fn page_bytes() -> u64 {
    // SAFETY: takes an integer only.
    unsafe { libc::getauxval(libc::AT_PAGESZ) }.max(4096)
}

pub(super) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}
