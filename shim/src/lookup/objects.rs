//! The loaded objects, visited while the dynamic linker's list is locked.
//!
//! Must not: allocate in a visit: an allocator may visit the objects itself, under its lock.

use super::dynamic::{Dynamic, DynamicEntry};
use super::forks;
use super::layout::{addresses, file_name, relocated_read_only};
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

    /// From its load address; `None` outside its readable segments.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.bytes(address, 1).and_then(|_| address.checked_sub(self.0.dlpi_addr))
    }

    /// In a segment that can be written to, also only until it is relocated.
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
    let goes_on = catch_unwind(AssertUnwindSafe(|| visit(&Loaded(info))));
    c_int::from(!goes_on.unwrap_or(false))
}

/// Until one visit returns `false`. No object comes or goes meanwhile. The loader's lock of its list is held, not that of `dladdr`.
pub fn each(mut visit: Visit<'_>) {
    forks::visit(|| {
        // SAFETY: the callback has the type that is asked for, and its argument lives as long as this call.
        unsafe { libc::dl_iterate_phdr(Some(visit_one), std::ptr::from_mut(&mut visit).cast()) };
    });
}

pub fn counts() -> (u64, u64) {
    let mut counts = (0, 0);
    each(&mut |object| {
        counts = object.counts();
        false
    });
    counts
}

pub fn count() -> u64 {
    let mut count = 0;
    each(&mut |_| {
        count += 1;
        true
    });
    count
}

/// The object that another one needs under this name.
pub fn loaded_as(name: &CStr) -> Option<Dynamic> {
    let mut found = None;
    each(&mut |object| {
        let dynamic = object.dynamic();
        if dynamic.soname() == Some(name) || object.file_name() == name.to_bytes() {
            found = Some(dynamic);
        }
        found.is_none()
    });
    found
}

/// Of the object that holds this one.
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
