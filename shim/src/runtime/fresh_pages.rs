//! Memory for large copies, which is there before it is written to: page by page, at the first write, it takes several times as long as the copying. The
//! kernel is asked for all pages at once, and for large ones, which take milliseconds in some virtual machines (4.5 were measured): after the first slow
//! one a process asks for small ones.
//!
//! Must not: end the process where there is no memory.

use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A large page on x86-64, and on AArch64 with pages of 4 KiB.
const LARGE: usize = 2 << 20;
/// A smaller rest takes small pages.
const LEAST_IN_LARGE: usize = LARGE / 4;
const SLOW: Duration = Duration::from_millis(1);

static ARE_SLOW: AtomicBool = AtomicBool::new(false);

const POPULATE_WRITE: libc::c_int = 23;

/// Zero at first; they begin at a large page if they hold one.
pub struct FreshPages {
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// The bytes begin here.
    skipped: usize,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for FreshPages {}

impl FreshPages {
    /// `None` where there is no memory, and for no bytes.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = isize::try_from(bytes).ok()?.unsigned_abs();
        let large = if ARE_SLOW.load(Ordering::Relaxed) { 0 } else { large_bytes(bytes) };
        let begun = Instant::now();
        let pages = Self::with_large(bytes, large)?;
        if is_slow(large, begun.elapsed()) {
            ARE_SLOW.store(true, Ordering::Relaxed);
        }
        Some(pages)
    }

    fn with_large(bytes: usize, large: usize) -> Option<Self> {
        // Room to align: unwritten pages are address space only.
        let mapped_bytes = if large > 0 { bytes.max(large).checked_add(LARGE)? } else { bytes };
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages, at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(null_mut(), mapped_bytes, access, flags, -1, 0) };
        let mapped = NonNull::new(mapped.cast::<u8>()).filter(|_| mapped != libc::MAP_FAILED)?;
        let skipped = if large > 0 { mapped.as_ptr().align_offset(LARGE) } else { 0 };
        let pages = Self { mapped, mapped_bytes, skipped, bytes };
        // SAFETY: both ranges lie in the mapped pages, and no content changes.
        unsafe {
            if large > 0 {
                libc::madvise(pages.begin().cast(), large, libc::MADV_HUGEPAGE);
            }
            libc::madvise(pages.begin().cast(), bytes, POPULATE_WRITE);
        }
        Some(pages)
    }

    fn begin(&self) -> *mut u8 {
        // SAFETY: less than the length of the mapping.
        unsafe { self.mapped.as_ptr().add(self.skipped) }
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped from there on, and zero until they are written to.
        unsafe { std::slice::from_raw_parts(self.begin(), self.bytes) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the pages are borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.begin(), self.bytes) }
    }

    pub fn leak(self) -> &'static [u8] {
        let pages = std::mem::ManuallyDrop::new(self);
        // SAFETY: as above, and the pages are given back no more.
        unsafe { std::slice::from_raw_parts(pages.begin(), pages.bytes) }
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        // SAFETY: they were mapped as a whole, and no slice of them is left.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

fn large_bytes(bytes: usize) -> usize {
    let rest = bytes % LARGE;
    bytes - rest + if rest >= LEAST_IN_LARGE { LARGE } else { 0 }
}

/// Longer than clearing so much takes.
fn is_slow(large: usize, took: Duration) -> bool {
    let count = u32::try_from(large / LARGE).unwrap_or(u32::MAX);
    count > 0 && took > SLOW.saturating_mul(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_hold_whole_ones_and_a_last_one_that_is_worth_it() {
        let least = LEAST_IN_LARGE;
        for (bytes, large) in [
            (0, 0),
            (least - 1, 0),
            (least, LARGE),
            (LARGE, LARGE),
            (LARGE + least - 1, LARGE),
            (LARGE + least, 2 * LARGE),
            (3 * LARGE, 3 * LARGE),
        ] {
            assert_eq!(large_bytes(bytes), large, "{bytes}");
        }
    }

    #[test]
    fn pages_are_zero_and_keep_what_is_written() {
        for bytes in [1, 4096, 100_000, LEAST_IN_LARGE, LARGE, LARGE + 4097, 2 * LARGE + LEAST_IN_LARGE] {
            let large = large_bytes(bytes);
            let mut pages = FreshPages::with_large(bytes, large).unwrap();
            assert!(pages.as_slice().iter().all(|byte| *byte == 0) && pages.as_slice().len() == bytes, "{bytes}");
            assert_eq!(pages.as_slice().as_ptr().align_offset(if large > 0 { LARGE } else { 4096 }), 0);
            pages.as_mut_slice().fill(7);
            let begin = pages.as_slice().as_ptr();
            let kept = pages.leak();
            assert!(kept.iter().all(|byte| *byte == 7) && (kept.as_ptr(), kept.len()) == (begin, bytes), "{bytes}");
        }
    }

    #[test]
    fn large_pages_are_slow_that_take_longer_than_to_clear_them() {
        let micros = Duration::from_micros;
        for (pages, took, expect) in [
            (0, micros(u64::MAX / 2), false),
            (1, micros(1000), false),
            (1, micros(1001), true),
            (3, micros(3000), false),
            (3, micros(3001), true),
        ] {
            assert_eq!(is_slow(pages * LARGE, took), expect, "{pages} {took:?}");
        }
        ARE_SLOW.store(true, Ordering::Relaxed);
        let mut pages = FreshPages::new(LARGE + 1).unwrap();
        assert_eq!((pages.skipped, pages.mapped_bytes), (0, LARGE + 1), "small ones");
        pages.as_mut_slice().fill(7);
        assert!(pages.as_slice().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn where_there_is_no_memory_there_are_no_pages() {
        for bytes in [0, 1 << 60, usize::MAX - LARGE, usize::MAX] {
            assert!(FreshPages::new(bytes).is_none(), "{bytes}");
        }
    }
}
