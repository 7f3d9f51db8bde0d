//! The library's allocator: memory of its own, which no thread waits for. The program's allocator may be gone at the exit, have no lock, or
//! be locked by this very thread, where a signal handler interrupts it. Small blocks come from chunks. A freed block goes on the list of
//! its size and is used again; chunks are kept. Large blocks are mappings, which are given back.
//!
//! Protocol: a list is a stack whose head is exchanged as one word, with a counter in it: a thread that was interrupted between its look at
//! the head and its exchange finds another word. Nothing is locked. So a signal handler may interrupt any step and allocate, or never
//! return; and a forked child lacks at most the blocks that other threads had in hand.
//!
//! Rust ends a process whose allocation fails, but the program may well live on. When the kernel refuses, the memory comes from a reserve,
//! and the guard is disarmed: what is in progress ends, and nothing follows. A block that may be larger than the reserve is asked for by
//! [`copy_of`], and done without. A report of a hang is begun where there [`is_left`] enough for it.
//!
//! Must not: end the process, call the program's allocator, wait, or give out a byte twice.

use super::process;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const RESERVE: usize = 2 << 20;
const CHUNK: usize = 256 << 10;
const LARGEST: usize = 16 << 10;
/// Every block begins at a multiple of this.
const LEAST: usize = 16;
/// The smallest page there is.
const PAGE: usize = 4096;

#[repr(align(64))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: each byte is handed out at most once, by the counter below.
unsafe impl Sync for Reserve {}

static MEMORY: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static USED: AtomicUsize = AtomicUsize::new(0);

struct List(AtomicU64);

/// In a list's word: where the first block is, in units of [`LEAST`]. Programs have 48 bits of addresses. The counter is above it.
const FIRST: u64 = (1 << 44) - 1;

impl List {
    fn pop(&self) -> Option<*mut u8> {
        // Acquire: partner of the Release in `push`; the block's link is read.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let block = (word & FIRST) as usize * LEAST;
            if block == 0 {
                return None;
            }
            // SAFETY: chunks are never given back. If another thread has taken the block meanwhile, the exchange below fails.
            let next = unsafe { &*with_exposed_provenance::<AtomicU64>(block) }.load(Ordering::Relaxed) & FIRST;
            let fresh = (word & !FIRST).wrapping_add(FIRST + 1) | next;
            match self.0.compare_exchange_weak(word, fresh, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(with_exposed_provenance_mut(block)),
                Err(now) => word = now,
            }
        }
    }

    fn push(&self, block: *mut u8) {
        let at = (block.expose_provenance() / LEAST) as u64;
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is free, of at least 16 bytes and aligned to them; other threads read this word by atomic loads alone.
            unsafe { &*block.cast::<AtomicU64>() }.store(word & FIRST, Ordering::Relaxed);
            // Release: partner of the Acquire in `pop`.
            match self.0.compare_exchange_weak(word, word & !FIRST | at, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

/// The lists of blocks that are aligned to [`LEAST`], by [`class`], and of those that are aligned to their size, by its power of two.
static SIZES: [List; 36] = [const { List(AtomicU64::new(0)) }; 36];
static POWERS: [List; 15] = [const { List(AtomicU64::new(0)) }; 15];

/// The class of a size, and how many bytes its blocks have: multiples of 16 up to 128, then four to each power of two.
fn class(size: usize) -> (usize, usize) {
    let last = size.max(1) - 1;
    if last < 128 {
        return (last / LEAST, (last / LEAST + 1) * LEAST);
    }
    let power = last.ilog2() as usize;
    let quarter = last >> (power - 2);
    (8 + (power - 7) * 4 + quarter - 4, (quarter + 1) << (power - 2))
}

enum Source {
    /// A list, whose blocks have so many bytes and this alignment.
    List(&'static List, usize, usize),
    Mapping,
}

fn source(layout: Layout) -> Source {
    let (size, align) = (layout.size(), layout.align());
    // The lists are there for each size up to the largest.
    let found = if align <= LEAST {
        let (class, bytes) = class(size);
        SIZES.get(class).map(|list| Source::List(list, bytes, LEAST))
    } else if align > PAGE {
        // Chunks begin with a page, and so at no multiple of more.
        None
    } else {
        let bytes = size.max(align).next_power_of_two();
        POWERS.get(bytes.trailing_zeros() as usize).map(|list| Source::List(list, bytes, bytes.min(PAGE)))
    };
    found.unwrap_or(Source::Mapping)
}

fn map(bytes: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages, at an address of the kernel's choice.
    let mapped = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return null_mut();
    }
    mapped.cast()
}

struct Chunk(AtomicUsize);

/// The chunk that blocks are cut from; null before the first.
static NEWEST: AtomicPtr<Chunk> = AtomicPtr::new(null_mut());

/// A block that was never used, zero; null where there is no memory. What is left of a chunk that has too little is not used.
fn cut(bytes: usize, align: usize) -> *mut u8 {
    loop {
        // Acquire: partner of the Release below, for the chunk's own counter.
        let newest = NEWEST.load(Ordering::Acquire);
        // SAFETY: null, or a chunk, which is never given back.
        if let Some(chunk) = unsafe { newest.as_ref() } {
            let begin = |used: usize| used.next_multiple_of(align);
            let next = |used| Some(begin(used) + bytes).filter(|end| *end <= CHUNK);
            if let Ok(used) = chunk.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
                // SAFETY: inside the chunk, which begins with a page.
                return unsafe { newest.cast::<u8>().add(begin(used)) };
            }
        }
        let fresh = map(CHUNK).cast::<Chunk>();
        // SAFETY: null, or new pages.
        let Some(chunk) = (unsafe { fresh.as_ref() }) else { return null_mut() };
        chunk.0.store(LEAST, Ordering::Relaxed);
        if NEWEST.compare_exchange(newest, fresh, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: mapped above, and no other thread has seen it.
            unsafe { libc::munmap(fresh.cast(), CHUNK) };
        }
    }
}

fn allocate(layout: Layout) -> *mut u8 {
    match source(layout) {
        Source::List(list, bytes, align) => list.pop().unwrap_or_else(|| cut(bytes, align)),
        // No type of the library's is aligned to more than a page.
        Source::Mapping if layout.align() > PAGE => null_mut(),
        Source::Mapping => map(layout.size()),
    }
}

struct Own;

#[global_allocator]
static ALLOCATOR: Own = Own;

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

/// Whether so much more can be had now. Asked before work that needs more than the reserve, and that can be left undone.
pub fn is_left(bytes: usize) -> bool {
    let pages = map(bytes);
    // SAFETY: mapped above, and nobody has seen it.
    !pages.is_null() && unsafe { libc::munmap(pages.cast(), bytes) } == 0
}

/// Memory for a small value; null where there is none.
pub fn place<T>() -> *mut T {
    const { assert!(size_of::<T>() <= LARGEST) };
    allocate(Layout::new::<T>()).cast()
}

/// Gives it back.
///
/// # Safety
/// It came from [`place`], for this type, and is not used any more.
pub unsafe fn give_back<T>(place: *mut T) {
    if let Source::List(list, ..) = source(Layout::new::<T>()) {
        list.push(place.cast());
    }
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

// SAFETY: a block is given out by the exchange that takes it off its list, or by the counter of its chunk, and so to one owner; it is as large and as
// aligned as its source says. A mapping is its owner's. What the reserve gives out is unused, large enough, aligned, and never goes back.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match allocate(layout) {
            none if none.is_null() => from_reserve(layout),
            memory => memory,
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let memory = unsafe { self.alloc(layout) };
        // A mapping is zero.
        if !memory.is_null() && matches!(source(layout), Source::List(..)) {
            // SAFETY: of this size.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match source(layout) {
            _ if is_reserved(pointer) => {}
            Source::List(list, ..) => list.push(pointer),
            // SAFETY: mapped for this layout, whose owner is done with it.
            Source::Mapping => unsafe { _ = libc::munmap(pointer.cast(), layout.size()) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        match (source(layout), source(wanted)) {
            _ if is_reserved(pointer) => {}
            (Source::List(one, ..), Source::List(other, ..)) if std::ptr::eq(one, other) => return pointer,
            (Source::Mapping, Source::Mapping) => {
                // SAFETY: mapped for this layout; where it is moved, the former address is nobody's any more.
                let moved = unsafe { libc::mremap(pointer.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved != libc::MAP_FAILED {
                    return moved.cast();
                }
            }
            _ => {}
        }
        // SAFETY: the wanted layout; both are valid for the smaller of the two sizes, and the former is given back by its own layout.
        unsafe {
            let fresh = self.alloc(wanted);
            if !fresh.is_null() {
                std::ptr::copy_nonoverlapping(pointer, fresh, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
            fresh
        }
    }
}

/// The C library's functions under their own names, for the parts of Rust's library and of the unwinder that go past the global allocator. Hidden: the
/// program's are never called from here, and these are nowhere else. In the tests' program they would be the whole program's.
#[cfg(not(test))]
mod of_c {
    use super::{allocate, GlobalAlloc as _, ALLOCATOR, LEAST};
    use std::alloc::Layout;
    use std::ffi::{c_int, c_void};
    use std::ptr::{null, null_mut};

    /// Ahead of each block: its layout's size and alignment.
    type Head = [usize; 2];

    fn give(align: usize, size: usize) -> *mut c_void {
        let align = align.max(LEAST);
        let layout = size.checked_add(align).and_then(|size| Layout::from_size_align(size, align).ok());
        let Some((layout, block)) =
            layout.map(|layout| (layout, allocate(layout))).filter(|(_, block)| !block.is_null())
        else {
            return null_mut();
        };
        // SAFETY: the alignment, which the block has more than was asked for, holds the head.
        unsafe {
            let begin = block.add(align);
            begin.cast::<Head>().sub(1).write([layout.size(), align]);
            begin.cast()
        }
    }

    extern "C" fn malloc(size: usize) -> *mut c_void {
        give(LEAST, size)
    }

    unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
        let given = give(align, size);
        // SAFETY: the caller's, valid for writing.
        unsafe { place.write(given) };
        if given.is_null() {
            libc::ENOMEM
        } else {
            0
        }
    }

    unsafe extern "C" fn realloc(former: *mut c_void, size: usize) -> *mut c_void {
        let fresh = give(LEAST, size);
        if !former.is_null() && !fresh.is_null() {
            // SAFETY: the head is ahead of each block that was given; both are valid for the smaller of the two sizes.
            unsafe {
                let [bytes, align] = former.cast::<Head>().sub(1).read();
                std::ptr::copy_nonoverlapping(former.cast::<u8>(), fresh.cast(), size.min(bytes - align));
                free(former);
            }
        }
        fresh
    }

    unsafe extern "C" fn free(block: *mut c_void) {
        if !block.is_null() {
            // SAFETY: given out by `give` with the layout in the head.
            unsafe {
                let [size, align] = block.cast::<Head>().sub(1).read();
                ALLOCATOR.dealloc(block.cast::<u8>().sub(align), Layout::from_size_align_unchecked(size, align));
            }
        }
    }

    /// For `getenv`: the environment is the program's and not for the guard. For `realpath`: its result would be the C library's memory; Rust's library
    /// calls it for stacks of panics, which are not printed.
    extern "C" fn nothing() -> *const c_void {
        null()
    }

    #[cfg(target_arch = "x86_64")]
    macro_rules! jump {
        () => {
            "jmp"
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! jump {
        () => {
            "b"
        };
    }

    macro_rules! name {
        ($($name:literal $function:ident)*) => {
            $(std::arch::global_asm!(
                ".pushsection .text.lazyguard_of_c, \"ax\"",
                concat!(".globl ", $name),
                concat!(".hidden ", $name),
                concat!(".type ", $name, ", %function"),
                concat!($name, ":"),
                concat!(jump!(), " {to}"),
                ".popsection",
                to = sym $function,
            );)*
        };
    }

    name!("malloc" malloc "posix_memalign" posix_memalign "realloc" realloc "free" free "getenv" nothing "realpath" nothing);

    // The C library's list of what ends with a thread is in the program's memory. If this function is missing, Rust's library keeps its own list.
    std::arch::global_asm!(".weak __cxa_thread_atexit_impl", ".hidden __cxa_thread_atexit_impl");
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

    #[test]
    fn what_is_left_is_known_without_the_reserve() {
        assert!(is_left(1 << 20) && !is_left(isize::MAX as usize) && !exhausted());
    }

    #[test]
    fn a_class_has_the_sizes_above_that_of_the_one_before() {
        let mut before = (0, 0);
        for size in 1..=LARGEST {
            let (class, bytes) = class(size);
            assert!(size <= bytes && class < SIZES.len() && bytes % LEAST == 0, "{size}: {class} {bytes}");
            // No more than a quarter is lost, or 15 bytes.
            assert!(bytes - size < (size / 4).max(LEAST), "{size}: {bytes}");
            let is_next = class == before.0 + 1 && size == before.1 + 1;
            assert!(is_next || (class, bytes) == before || size == 1, "{size}: {class} {bytes} {before:?}");
            before = (class, bytes);
        }
        assert_eq!(before, (SIZES.len() - 1, LARGEST));
    }

    #[test]
    fn more_than_a_page_is_no_alignment_of_a_list() {
        for (size, align) in [(1, 2 * PAGE), (LARGEST, 2 * PAGE), (1, LARGEST)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            assert!(allocate(layout).is_null(), "{layout:?}");
        }
    }

    #[test]
    fn memory_is_aligned_zero_where_that_is_asked_for_and_nobody_elses() {
        let blocks: Vec<(*mut u8, Layout)> = (0..2000_usize)
            .map(|n| {
                let layout = Layout::from_size_align(1 + n * 37 % 40_000, 1 << (n % 13)).expect("a layout");
                // SAFETY: of some bytes each.
                let block = unsafe { ALLOCATOR.alloc_zeroed(layout) };
                assert!(block.addr() % layout.align() == 0 && !is_reserved(block));
                // SAFETY: of this size.
                let bytes = unsafe { std::slice::from_raw_parts_mut(block, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
                bytes.fill(n as u8);
                (block, layout)
            })
            .collect();
        for (n, (block, layout)) in blocks.into_iter().enumerate() {
            // SAFETY: given out above with this layout, and given back below once.
            unsafe {
                let grown = ALLOCATOR.realloc(block, layout, layout.size() * 2);
                let bytes = std::slice::from_raw_parts(grown, layout.size());
                assert!(bytes.iter().all(|byte| *byte == n as u8), "{layout:?}");
                let layout = Layout::from_size_align(layout.size() * 2, layout.align()).expect("a layout");
                ALLOCATOR.dealloc(grown, layout);
            }
        }
    }

    #[test]
    fn threads_that_allocate_at_once_get_blocks_of_their_own() {
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    let mut kept = std::collections::VecDeque::new();
                    for n in 0..20_000_u64 {
                        kept.push_back(Box::new([thread, n, thread]));
                        if let Some(oldest) = kept.pop_front().filter(|_| n % 3 > 0) {
                            assert_eq!((oldest[0], oldest[2]), (thread, thread));
                        }
                    }
                });
            }
        });
    }
}
