//! The program headers of an object, and the name of its file.

use std::ops::Range;

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
    let end = begin.saturating_add(header.p_memsz);
    (begin / page * page) as usize..(end / page * page) as usize
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
