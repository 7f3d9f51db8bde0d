//! Whether memory that the program points to can be read. The driver refuses many calls before it follows their pointers. So a hook asks the kernel about
//! each page: a change of the signal mask in a way that does not exist reads eight bytes, and changes nothing. Every filter that lets threads begin lets it
//! through.
//!
//! Must not: touch `errno`, or ask the kernel in a launch on the fast path, beside the first one about a page.

use super::tls;
use std::arch::asm;
use std::ffi::CStr;

/// The smallest page there is.
pub const PAGE: usize = 4096;
/// In a longer piece, which is code that the driver reads as well, only the first and the last page are looked at.
const MOST_LOOKED_AT: usize = 256 * PAGE;

pub fn bytes<'a>(at: *const u8, count: usize) -> Option<&'a [u8]> {
    let (begin, end) = (at as usize, (at as usize).checked_add(count)?);
    let step = if count > MOST_LOOKED_AT { count - 1 } else { PAGE };
    let last = end.checked_sub(1).filter(|_| count > 0 && isize::try_from(count).is_ok())?;
    // `step_by` may panic: a launch asks outside the door.
    let mut look = begin;
    while look / PAGE < last / PAGE {
        if !answers(look & !7) {
            return None;
        }
        look = look.saturating_add(step);
    }
    // SAFETY: each page was readable just now, and the program does not take it away in its own call.
    answers(last & !7).then(|| unsafe { std::slice::from_raw_parts(at, count) })
}

/// Whether at most a page of bytes from here on can be read, for launches that come back to the same few pages: the kernel is not asked again about a page
/// that the calling thread could read before.
#[inline(always)]
pub fn again(at: *const u8, count: usize) -> bool {
    let pages = [at as usize, (at as usize).wrapping_add(count.wrapping_sub(1))].map(|at| at / PAGE);
    let known = tls::readable_pages();
    // The first page is nobody's.
    pages.iter().all(|page| *page != 0 && known.contains(page)) || is_answered(at, count, pages)
}

#[cold]
#[inline(never)]
fn is_answered(at: *const u8, count: usize, pages: [usize; 2]) -> bool {
    let can_be_read = bytes(at, count).is_some();
    for page in pages.into_iter().filter(|_| can_be_read) {
        let mut known = tls::readable_pages();
        if !known.contains(&page) {
            known.rotate_right(1);
            known[0] = page;
            tls::set_readable_pages(known);
        }
    }
    can_be_read
}

pub fn value<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: as many bytes can be read; the caller's type is of integers and pointers, which any bytes are.
    bytes(at.cast(), size_of::<T>()).map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A text with its zero, of `most` bytes at most.
pub fn text<'a>(at: *const u8, most: usize) -> Option<&'a CStr> {
    let mut count = 0;
    while count < most {
        let here = at.wrapping_add(count);
        let stretch = bytes(here, PAGE - here as usize % PAGE)?;
        if let Some(end) = memchr::memchr(0, stretch) {
            let bytes = count + end + 1;
            // SAFETY: each page up to the zero was readable just now.
            let text = (bytes <= most).then(|| unsafe { std::slice::from_raw_parts(at, bytes) })?;
            return CStr::from_bytes_with_nul(text).ok();
        }
        count += stretch.len();
    }
    None
}

/// Whether the kernel can read the eight bytes at a multiple of eight.
fn answers(at: usize) -> bool {
    const NO_SUCH_WAY: isize = -1;
    const EFAULT: isize = -(libc::EFAULT as isize);
    let mut answer = libc::SYS_rt_sigprocmask as isize;
    // Most structures lie in the caller's frame.
    if at / PAGE == (&raw const answer).addr() / PAGE {
        return true;
    }
    // SAFETY: the kernel checks the address, refuses the way, and writes nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inlateout("rax") answer, in("rdi") NO_SUCH_WAY, in("rsi") at, in("rdx") 0, in("r10") 8,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let number = std::mem::replace(&mut answer, NO_SUCH_WAY);
        asm!("svc 0", in("x8") number, inlateout("x0") answer, in("x1") at, in("x2") 0, in("x3") 8, options(nostack));
    }
    // The kernel takes null for no mask.
    answer != EFAULT && at != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn what_is_not_there_is_not_read() {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: fresh pages; the second half is given back.
        let edge = unsafe {
            let pages = libc::mmap(null_mut(), 4 * PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::munmap(pages.byte_add(2 * PAGE), 2 * PAGE), 0);
            pages.byte_add(2 * PAGE).cast::<u8>()
        };
        let before = |count: usize| edge.wrapping_sub(count).cast_const();
        assert_eq!((bytes(before(4), 4), bytes(before(4), 5)), (Some(&[0; 4][..]), None));
        assert!(
            bytes(before(5000), 5000).is_some_and(|read| read.len() == 5000) && bytes(before(5000), 5001).is_none()
        );
        assert!(
            bytes(before(1), 0).is_none()
                && bytes(before(1), usize::MAX).is_none()
                && bytes(before(1), 1 << 40).is_none()
        );
        assert_eq!((value(before(8).cast::<u64>()), value(before(7).cast::<u64>())), (Some(0), None));
        for nowhere in [std::ptr::null(), 8 as *const u8, edge, usize::MAX as *const u8] {
            assert!(bytes(nowhere, 1).is_none() && text(nowhere, 10).is_none());
        }
        assert_eq!(text(before(1), 10), Some(c""));
        // SAFETY: inside the pages that are there.
        unsafe { before(6000).cast_mut().write_bytes(b'x', 6000) };
        assert_eq!(text(before(6000), 10_000), None, "no zero before the hole");
        // SAFETY: as above.
        unsafe { before(1).cast_mut().write(0) };
        assert_eq!(text(before(6000), 10_000).map(|text| text.to_bytes().len()), Some(5999));
        assert_eq!((text(before(6000), 1000), text(c"name".as_ptr().cast(), 100)), (None, Some(c"name")));
    }
}
