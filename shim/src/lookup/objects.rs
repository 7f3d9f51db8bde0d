//! The loaded objects: which one an address belongs to, what an object defines, and which slots hold the addresses that it refers to.
//!
//! The guard reads the dynamic sections itself. A look-up by the dynamic linker would allocate for its error message, would change what the
//! program's `dlerror` says, and would need a handle.
//!
//! Must not: allocate in what [`super::dlsym`] uses.

use super::forks;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: usize,
}

const DT_NULL: i64 = 0;
const DT_NEEDED: i64 = 1;
const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_SONAME: i64 = 14;
const DT_DEBUG: i64 = 21;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
const DT_RELACOUNT: i64 = 0x6fff_fff9;
/// Of a symbol's version: the definition is there for programs that were linked with an older release alone.
const HIDDEN: u16 = 0x8000;
const STT_FUNC: u8 = 2;
/// The symbol's address is that of a function which chooses the real one.
const STT_GNU_IFUNC: u8 = 10;
const RTLD_DL_LINKMAP: c_int = 2;

/// A word that holds the absolute address of a symbol, a slot that holds it, and a slot that calls go through.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [257, 1025, 1026];

extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// The dynamic section of a loaded object. Two that are equal are of the same object, as long as that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    base: usize,
    first: *const DynamicEntry,
}

/// A place in an object that holds the address of what a symbol of the object resolves to.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Where it is.
    pub address: usize,
    /// The number of the symbol in the object.
    symbol: u32,
    /// Whether the dynamic linker may fill it in at the first call only.
    pub may_be_lazy: bool,
}

impl Dynamic {
    fn entries(&self) -> impl Iterator<Item = &DynamicEntry> {
        let first = self.first;
        (0..).map_while(move |n| {
            if first.is_null() {
                return None;
            }
            // SAFETY: the dynamic section is an array that ends with a DT_NULL entry, and this stops there.
            let entry = unsafe { &*first.add(n) };
            (entry.tag != DT_NULL).then_some(entry)
        })
    }

    fn value(&self, tag: i64) -> Option<usize> {
        self.entries().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The address of a table. The GNU C library relocates the entry in place where the section can be written to; an address below the
    /// base is one that it has left.
    fn table(&self, tag: i64) -> Option<usize> {
        let value = self.value(tag)?;
        let relocated = value.wrapping_add(self.base);
        if !self.lies_below_base() {
            return Some(if value < self.base { relocated } else { value });
        }
        // Of the two, the one that is in the object, and so nearer to its dynamic section.
        let distance = |address: usize| address.abs_diff(self.first.addr());
        Some(if distance(relocated) < distance(value) { relocated } else { value })
    }

    /// Whether the object lies below its base, because it was linked for higher addresses. So does the object that Linux 3.10 puts into
    /// each process: it is linked for the end of the address space.
    fn lies_below_base(&self) -> bool {
        self.first.addr() < self.base
    }

    fn strings_with_tag(&self, tag: i64) -> impl Iterator<Item = &CStr> {
        let table = self.table(DT_STRTAB);
        self.entries().filter(move |e| e.tag == tag).filter_map(move |entry| {
            // SAFETY: the entry's value is an offset into the object's string table, which is mapped and terminated.
            Some(unsafe { CStr::from_ptr((table? + entry.value) as *const c_char) })
        })
    }

    /// The object's own name (`DT_SONAME`).
    pub fn soname(&self) -> Option<&CStr> {
        self.strings_with_tag(DT_SONAME).next()
    }

    /// The names of the objects that it needs, in order.
    pub fn needed(&self) -> impl Iterator<Item = &CStr> {
        self.strings_with_tag(DT_NEEDED)
    }

    fn symbol(&self, number: u32) -> Option<&libc::Elf64_Sym> {
        // SAFETY: numbers come from the object's own tables, which the dynamic linker trusts as well.
        self.table(DT_SYMTAB).map(|table| unsafe { &*(table as *const libc::Elf64_Sym).add(number as usize) })
    }

    fn name_of(&self, symbol: &libc::Elf64_Sym) -> Option<&CStr> {
        // SAFETY: as in `strings_with_tag`.
        self.table(DT_STRTAB).map(|table| unsafe { CStr::from_ptr((table + symbol.st_name as usize) as *const c_char) })
    }

    /// The name of the symbol that a slot is for, and whether the object defines it itself.
    pub fn symbol_of(&self, slot: &Slot) -> Option<(&CStr, bool)> {
        let symbol = self.symbol(slot.symbol)?;
        Some((self.name_of(symbol)?, symbol.st_shndx != 0))
    }

    /// The address at which the object itself defines a name; `None` where it does not.
    pub fn defines(&self, name: &CStr) -> Option<*mut c_void> {
        let address = |number| Some(self.base.wrapping_add(self.symbol(number)?.st_value as usize) as *mut c_void);
        self.definition(name).and_then(address)
    }

    /// The function that the object itself defines under a name, as the dynamic linker would bind it.
    pub fn function(&self, name: &CStr) -> Option<*mut c_void> {
        let symbol = self.symbol(self.definition(name)?)?;
        let address = self.base.wrapping_add(symbol.st_value as usize) as *mut c_void;
        match symbol.st_info & 0xf {
            STT_FUNC => return Some(address),
            STT_GNU_IFUNC => (),
            _ => return None,
        }
        // SAFETY: such a symbol is a function that takes what the kernel says of the processor, and gives an address.
        let choose: unsafe extern "C" fn(u64) -> *mut c_void = unsafe { std::mem::transmute(address) };
        // SAFETY: as above; the dynamic linker has called it with the same before.
        Some(unsafe { choose(libc::getauxval(libc::AT_HWCAP)) })
    }

    /// The number of the symbol by which the object defines a name: that of the newest version.
    fn definition(&self, name: &CStr) -> Option<u32> {
        let is_it = |number: &u32| {
            let is_one = |symbol: &libc::Elf64_Sym| {
                symbol.st_shndx != 0 && symbol.st_info >> 4 != 0 && self.name_of(symbol) == Some(name)
            };
            self.symbol(*number).is_some_and(is_one)
        };
        let versions = self.table(DT_VERSYM);
        let is_old = |number: u32| {
            // SAFETY: the table has a version for each symbol.
            let version = |table: usize| unsafe { *(table as *const u16).add(number as usize) };
            versions.is_some_and(|table| version(table) & HIDDEN != 0)
        };
        let mut old = None;
        let mut newest = |chain: &mut dyn Iterator<Item = u32>| {
            let mut newest = None;
            for number in chain.filter(is_it) {
                match is_old(number) {
                    true => old = old.or(Some(number)),
                    false => newest = newest.or(Some(number)),
                }
            }
            newest
        };
        let newest = match self.table(DT_GNU_HASH) {
            Some(table) => newest(&mut gnu_chain(table, name)),
            None => self.table(DT_HASH).and_then(|table| newest(&mut sysv_chain(table, name))),
        };
        newest.or(old)
    }

    /// The slots of the object, in the order of its relocations.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let rows = |table: i64, size: i64, skipped: usize| {
            let count = self.value(size).unwrap_or(0) / size_of::<libc::Elf64_Rela>();
            let first = self.table(table).filter(|_| count > skipped);
            // SAFETY: so many relocations lie at that address, by the object's own word.
            first
                .map_or(&[][..], |first| unsafe { std::slice::from_raw_parts(first as *const libc::Elf64_Rela, count) })
                .get(skipped..)
                .unwrap_or(&[])
        };
        // Those without a symbol come first.
        let own = rows(DT_RELA, DT_RELASZ, self.value(DT_RELACOUNT).unwrap_or(0));
        let all = own.iter().chain(rows(DT_JMPREL, DT_PLTRELSZ, 0));
        all.filter_map(|row| {
            let (kind, symbol) = (row.r_info as u32, (row.r_info >> 32) as u32);
            let is_one = ADDRESSES.contains(&kind) && row.r_addend == 0 && symbol != 0;
            let address = self.base.wrapping_add(row.r_offset as usize);
            (is_one && address.is_multiple_of(align_of::<usize>())).then_some(Slot {
                address,
                symbol,
                may_be_lazy: kind == ADDRESSES[2],
            })
        })
    }
}

/// The numbers of the symbols that may have a name, by a table of GNU's kind.
fn gnu_chain(table: usize, name: &CStr) -> impl Iterator<Item = u32> {
    let word = move |n: usize| {
        // SAFETY: the object's own table, read as far as its own counts say.
        unsafe { *(table as *const u32).add(n) }
    };
    let hash = name.to_bytes().iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
    let (buckets, first_hashed, filters, shift) = (word(0), word(1), word(2), word(3));
    let may_have = || {
        let filter = 4 + 2 * (hash as usize / 64 % filters.max(1) as usize);
        let bits = u64::from(word(filter)) | u64::from(word(filter + 1)) << 32;
        bits >> (hash % 64) & bits >> (hash.checked_shr(shift).unwrap_or(0) % 64) & 1 == 1
    };
    let at = 4 + 2 * filters as usize;
    let begin = match buckets > 0 && filters > 0 && may_have() {
        true => word(at + (hash % buckets) as usize),
        false => 0,
    };
    let chain = at + buckets as usize;
    let mut next = (begin != 0 && begin >= first_hashed).then_some(begin);
    std::iter::from_fn(move || loop {
        let number = next?;
        let value = word(chain + (number - first_hashed) as usize);
        next = (value & 1 == 0).then_some(number + 1);
        if value | 1 == hash | 1 {
            return Some(number);
        }
    })
}

/// The same by a table of the older kind.
fn sysv_chain(table: usize, name: &CStr) -> impl Iterator<Item = u32> {
    let word = move |n: usize| {
        // SAFETY: as in `gnu_chain`.
        unsafe { *(table as *const u32).add(n) }
    };
    let hash = name.to_bytes().iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_shl(4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    });
    let buckets = word(0);
    let begin = if buckets > 0 { word(2 + (hash % buckets) as usize) } else { 0 };
    let after = move |number: &u32| Some(word(2 + (buckets + *number) as usize)).filter(|next| *next != 0);
    std::iter::successors(Some(begin).filter(|begin| *begin != 0), after)
}

/// The loader's record of a loaded object (`struct link_map`): the public part.
#[repr(C)]
pub struct LinkMap {
    /// The object's load address.
    pub base: usize,
    /// The path it was loaded from; empty for the program itself.
    pub name: *const c_char,
    first: *const DynamicEntry,
    next: *mut LinkMap,
}

/// What a debugger reads: the list of the objects.
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const LinkMap,
    hook: usize,
    state: c_int,
}

/// Of [`Debug`]: no object is being loaded or unloaded.
const RT_CONSISTENT: c_int = 0;

extern "C" {
    static _r_debug: Debug;
}

/// The objects that are there when the process starts, by the dynamic linker's own list: for code that runs before any other thread does, and
/// before it is known whether `dl_iterate_phdr` is the C library's.
pub fn at_start() -> impl Iterator<Item = &'static LinkMap> {
    // SAFETY: the dynamic linker has filled it in before it runs any code. The name is one that programs leave alone.
    let first = unsafe { (&raw const _r_debug.first).read() };
    // SAFETY: the loader's records; nothing is unloaded yet.
    std::iter::successors(unsafe { first.as_ref() }, |map| unsafe { map.next.as_ref() })
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

/// Waits until no other thread is in the middle of loading an object: each holds the loader's lock until the object is relocated and its
/// constructors have run, and a look-up takes that lock.
pub fn wait_for_loads() {
    object_of(wait_for_loads as *const () as *const c_void);
}

/// Whether the dynamic linker says that objects are being loaded or unloaded: by the calling thread itself, if it has waited for the others. The GNU C
/// library before 2.41 says no more of it once the objects are mapped, and relocates them after that.
pub fn are_changing() -> bool {
    // The program's own section, where debuggers look: the variable of that name may be a copy in the program.
    let debug = at_start().next().and_then(|program| program.dynamic().value(DT_DEBUG)).unwrap_or(0) as *const Debug;
    // SAFETY: null, or the dynamic linker's own structure, which stays. Volatile: it changes meanwhile.
    !debug.is_null() && unsafe { (&raw const (*debug).state).read_volatile() } != RT_CONSISTENT
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

    /// The name of its file; empty for the program itself.
    pub fn file_name(&self) -> &[u8] {
        file_name(self.path().to_bytes())
    }

    /// Its dynamic section.
    pub fn dynamic(&self) -> Dynamic {
        Dynamic { base: self.base, first: self.first }
    }

    /// Its program headers, by the header of the file, which a library's first segment begins with. None for the program itself, whose
    /// base need not be where it begins, and for what lies below its base.
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.path().is_empty() || self.base == 0 || self.dynamic().lies_below_base() {
            return &[];
        }
        // SAFETY: the first page of a loaded library.
        let header = unsafe { &*(self.base as *const libc::Elf64_Ehdr) };
        let is_one =
            header.e_ident.starts_with(b"\x7fELF") && usize::from(header.e_phentsize) == size_of::<libc::Elf64_Phdr>();
        // SAFETY: the table lies where the header says, in the first segment, from which the dynamic linker has read it.
        let table =
            |at: usize| unsafe { std::slice::from_raw_parts(at as *const libc::Elf64_Phdr, header.e_phnum.into()) };
        if is_one {
            table(self.base + header.e_phoff as usize)
        } else {
            &[]
        }
    }

    /// The addresses of a library, from its first segment's to its last one's end.
    pub fn addresses(&self) -> Range<u64> {
        addresses(self.headers(), self.base as u64)
    }

    /// See [`Loaded::relocated_read_only`].
    pub fn relocated_read_only(&self) -> Range<usize> {
        relocated_read_only(self.headers(), self.base as u64)
    }
}

/// A loaded object, while the loader's lock is held.
pub struct Loaded<'a>(&'a libc::dl_phdr_info);

impl Loaded<'_> {
    /// The path it was loaded from; empty for the program itself.
    pub fn path(&self) -> &CStr {
        if self.0.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader keeps a terminated string there as long as the object is loaded.
        unsafe { CStr::from_ptr(self.0.dlpi_name) }
    }

    /// The name of its file; empty for the program itself.
    pub fn file_name(&self) -> &[u8] {
        file_name(self.path().to_bytes())
    }

    /// Its dynamic section.
    pub fn dynamic(&self) -> Dynamic {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let first = header.map_or(0, |header| self.0.dlpi_addr.wrapping_add(header.p_vaddr));
        Dynamic { base: self.0.dlpi_addr as usize, first: first as *const DynamicEntry }
    }

    /// Where the index of its tables for unwinding lies, where it has one.
    pub fn unwind_index(&self) -> Option<u64> {
        let header = self.headers().iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        Some(self.0.dlpi_addr.wrapping_add(header.p_vaddr))
    }

    /// The part of it that the dynamic linker has made read-only once it was relocated: whole pages.
    pub fn relocated_read_only(&self) -> Range<usize> {
        relocated_read_only(self.headers(), self.0.dlpi_addr)
    }

    /// How many objects have been loaded and unloaded so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.dlpi_adds, self.0.dlpi_subs)
    }

    /// The addresses from its first segment's to its last one's end.
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

fn addresses(headers: &[libc::Elf64_Phdr], base: u64) -> Range<u64> {
    let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = |header: &libc::Elf64_Phdr| base.wrapping_add(header.p_vaddr);
    let end = loads.clone().map(|header| begin(header).saturating_add(header.p_memsz)).max();
    loads.map(begin).min().unwrap_or(0)..end.unwrap_or(0)
}

fn relocated_read_only(headers: &[libc::Elf64_Phdr], base: u64) -> Range<usize> {
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO) else { return 0..0 };
    // The dynamic linker leaves the page alone in which the part ends.
    let page = page_bytes();
    let begin = base.wrapping_add(header.p_vaddr);
    let end = begin.saturating_add(header.p_memsz);
    (begin / page * page) as usize..(end / page * page) as usize
}

/// The size of a page.
#[cfg(target_arch = "x86_64")]
fn page_bytes() -> u64 {
    4096
}

/// The size of a page, which the kernel tells each process.
#[cfg(target_arch = "aarch64")]
fn page_bytes() -> u64 {
    // SAFETY: takes an integer only.
    unsafe { libc::getauxval(libc::AT_PAGESZ) }.max(4096)
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
    forks::visit(|| {
        // SAFETY: the callback has the type that is asked for, and its argument lives as long as this call.
        unsafe { libc::dl_iterate_phdr(Some(visit_one), std::ptr::from_mut(&mut visit).cast()) };
    });
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

/// How many objects there are.
pub fn count() -> u64 {
    let mut count = 0;
    each(&mut |_| {
        count += 1;
        true
    });
    count
}

/// The dynamic section of the object that another one needs under this name.
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
pub fn is_driver(dynamic: Dynamic, path: &[u8]) -> bool {
    match dynamic.soname() {
        Some(soname) => soname == c"libcuda.so.1" || soname == c"libcuda.so",
        None => file_name(path).starts_with(b"libcuda.so"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Object {
        entries: [DynamicEntry; 3],
        strings: [u8; 12],
    }

    #[test]
    fn tables_are_found_wherever_the_base_is_and_whoever_has_relocated_them() {
        const NAME: usize = 4;
        let entries = [DT_STRTAB, DT_SONAME, DT_NULL].map(|tag| DynamicEntry { tag, value: NAME });
        let mut object = Object { entries, strings: *b"abc\0libx.so\0" };
        let strings = object.strings.as_ptr().addr();
        let low = (&raw const object).addr() & !0xfff;
        // Linux 3.10 has linked its own object for this address.
        let high = low.wrapping_sub(0xffff_ffff_ff70_0000);
        for (base, is_below) in [(low, false), (0, false), (high, true)] {
            for value in [strings, strings.wrapping_sub(base)] {
                object.entries[0].value = value;
                let dynamic = Dynamic { base, first: object.entries.as_ptr() };
                assert_eq!(dynamic.soname(), Some(c"libx.so"), "{base:x} {value:x}");
                assert_eq!(dynamic.lies_below_base(), is_below);
            }
        }
    }
}
