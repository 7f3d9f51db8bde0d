//! The dynamic section of a loaded object: what it needs and defines, and which slots hold the addresses that it refers to. A look-up by the dynamic
//! linker would allocate, change what the program's `dlerror` says, and need a handle.
//!
//! Must not: allocate, which would change what [`super::dlsym`] does.

use std::ffi::{c_char, c_void, CStr};
use std::ops::Range;

#[repr(C)]
pub(super) struct DynamicEntry {
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
pub(super) const DT_DEBUG: i64 = 21;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
const DT_RELACOUNT: i64 = 0x6fff_fff9;
/// The flag of a version that is only for programs linked with an older release.
const HIDDEN: u16 = 0x8000;
const STT_FUNC: u8 = 2;
/// The symbol's function chooses the real one.
const STT_GNU_IFUNC: u8 = 10;

/// Relocations: an absolute address, a slot that holds it, and a slot for calls.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [257, 1025, 1026];

/// Equal ones are of the same loaded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    base: usize,
    first: *const DynamicEntry,
}

/// A place that holds the address of what a symbol resolves to.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub address: usize,
    symbol: u32,
    /// Whether the dynamic linker may fill it in at the first call.
    pub may_be_lazy: bool,
}

impl Dynamic {
    pub(super) fn at(base: usize, first: *const DynamicEntry) -> Self {
        Self { base, first }
    }

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

    pub(super) fn value(&self, tag: i64) -> Option<usize> {
        self.entries().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// glibc relocates the entry in place where it can write to it; an address below the base is not relocated.
    fn table(&self, tag: i64) -> Option<usize> {
        let value = self.value(tag)?;
        let relocated = value.wrapping_add(self.base);
        if !self.lies_below_base() {
            return Some(if value < self.base { relocated } else { value });
        }
        // The table is at the address that is nearer to the dynamic section.
        let distance = |address: usize| address.abs_diff(self.first.addr());
        Some(if distance(relocated) < distance(value) { relocated } else { value })
    }

    /// Whether the object was linked for higher addresses, as Linux 3.10's own.
    pub(super) fn lies_below_base(&self) -> bool {
        self.first.addr() < self.base
    }

    fn strings_with_tag(&self, tag: i64) -> impl Iterator<Item = &CStr> {
        let table = self.table(DT_STRTAB);
        self.entries().filter(move |e| e.tag == tag).filter_map(move |entry| {
            // SAFETY: the entry's value is an offset into the object's string table, which is mapped and terminated.
            Some(unsafe { CStr::from_ptr((table? + entry.value) as *const c_char) })
        })
    }

    pub fn soname(&self) -> Option<&CStr> {
        self.strings_with_tag(DT_SONAME).next()
    }

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

    /// Its name, and whether the object defines it itself.
    pub fn symbol_of(&self, slot: &Slot) -> Option<(&CStr, bool)> {
        let symbol = self.symbol(slot.symbol)?;
        Some((self.name_of(symbol)?, symbol.st_shndx != 0))
    }

    pub fn defines(&self, name: &CStr) -> Option<*mut c_void> {
        let address = |number| Some(self.base.wrapping_add(self.symbol(number)?.st_value as usize) as *mut c_void);
        self.definition(name).and_then(address)
    }

    pub fn variable(&self, name: &CStr) -> Option<Range<usize>> {
        let symbol = self.symbol(self.definition(name)?)?;
        let begin = self.base.wrapping_add(symbol.st_value as usize);
        Some(begin..begin.saturating_add(symbol.st_size as usize))
    }

    /// As the dynamic linker would bind it.
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

    /// The newest version's symbol.
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
        own.iter().chain(rows(DT_JMPREL, DT_PLTRELSZ, 0)).filter_map(|row| {
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
    let begin = if buckets > 0 && filters > 0 && may_have() { word(at + (hash % buckets) as usize) } else { 0 };
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
