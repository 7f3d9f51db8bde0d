//! The library's allocator: the C library's, and a reserve for when that has nothing left.
//!
//! Rust ends a process whose allocation fails, but the program may well live on. So when the C library refuses, the memory comes
//! from a reserve, and the guard is disarmed: what is in progress ends, and nothing follows. The reserve is address space only
//! until then. What may be larger than the reserve, such as a copy of a program's code, is asked for by [`copy_of`], and done without.
//!
//! Must not: end the process, or give out a byte of the reserve twice.

use super::process;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

const RESERVE: usize = 2 << 20;

#[repr(align(64))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: each byte is handed out at most once, by the counter below.
unsafe impl Sync for Reserve {}

static MEMORY: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static USED: AtomicUsize = AtomicUsize::new(0);

struct Reserved;

#[global_allocator]
static ALLOCATOR: Reserved = Reserved;

/// Whether the reserve had to be touched.
pub fn exhausted() -> bool {
    USED.load(Ordering::Relaxed) > 0
}

fn is_reserved(pointer: *mut u8) -> bool {
    let start = MEMORY.0.get() as usize;
    (start..start + RESERVE).contains(&(pointer as usize))
}

/// A copy of bytes, with room for so many more; `None` where there is no memory for it.
pub fn copy_of(bytes: &[u8], more: usize) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len().checked_add(more)?).ok()?;
    copy.extend_from_slice(bytes);
    Some(copy)
}

#[cold]
fn from_reserve(layout: Layout) -> *mut u8 {
    let align = layout.align().max(16);
    let Some(size) = layout.size().checked_add(align).filter(|size| *size <= RESERVE) else { return null_mut() };
    process::disarm();
    let at = USED.fetch_add(size, Ordering::Relaxed);
    if at.saturating_add(size) > RESERVE {
        return null_mut();
    }
    // SAFETY: `at` lies inside the reserve, and so does everything up to `at + size`, which leaves room to align.
    unsafe {
        let start = MEMORY.0.get().cast::<u8>().add(at);
        start.add(start.align_offset(align))
    }
}

// SAFETY: what the C library gives out goes back to it; what the reserve gives out is unused, large enough, aligned, and never
// goes back.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let pointer = unsafe { System.alloc(layout) };
        if pointer.is_null() {
            return from_reserve(layout);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_reserved(pointer) {
            // SAFETY: it came from the C library, with this layout.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        if pointer.is_null() {
            // The reserve was never written to, so it is zero.
            return from_reserve(layout);
        }
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_reserved(pointer) {
            // SAFETY: it came from the C library, with this layout.
            let moved = unsafe { System.realloc(pointer, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        let fresh = from_reserve(wanted);
        if !fresh.is_null() {
            // SAFETY: both are valid for the smaller of the two sizes, and the reserve's part is new.
            unsafe { std::ptr::copy_nonoverlapping(pointer, fresh, layout.size().min(size)) };
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_for_which_there_is_no_memory_is_none_and_the_guard_goes_on() {
        assert_eq!(copy_of(b"code", 1).map(|copy| (copy.capacity(), copy)), Some((5, b"code".to_vec())));
        for more in [isize::MAX as usize - 64, usize::MAX] {
            assert_eq!(copy_of(b"code", more), None);
        }
        assert!(!exhausted());
    }
}
