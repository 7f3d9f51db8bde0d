//! The library's allocator: memory of its own, which no thread waits for. The program's allocator may be gone at the exit, have no lock, or be locked by this
//! very thread below a signal handler. Small blocks come from chunks, which are kept; a freed one goes on the list of its size. Large blocks are mappings.
//!
//! Protocol: a list is a stack whose head is exchanged as one word with a counter, without a lock. So a signal handler may interrupt any step and
//! allocate, or never return; a forked child lacks at most the blocks that other threads had in hand.
//!
//! Rust ends a process whose allocation fails. When the kernel refuses, the memory comes from a reserve, and the guard is disarmed. The reserve is mapped when
//! the guard is armed: a process without CUDA has a small one. [`copy_of`] does without a block that may be larger, and a report begins where there
//! [`is_left`] enough.
//!
//! Must not: end the process, call the program's allocator, wait, or give out a byte twice.

use super::process;
use super::readable::PAGE;
use super::sanitizer::leave_unchecked;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const RESERVE: usize = 2 << 20;
const SMALL: usize = 32 << 10;
const CHUNK: usize = 256 << 10;
const LARGEST: usize = 16 << 10;
/// The alignment of every block.
const LEAST: usize = 16;

#[repr(align(64))]
struct Small(UnsafeCell<[u8; SMALL]>);

// SAFETY: its counter below hands each byte out at most once.
unsafe impl Sync for Small {}

static SMALL_MEMORY: Small = Small(UnsafeCell::new([0; SMALL]));
static SMALL_USED: AtomicUsize = AtomicUsize::new(0);

/// The reserve of an armed guard; or null.
static MEMORY: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static USED: AtomicUsize = AtomicUsize::new(0);

/// Maps the reserve, once. Without it, memory counts as exhausted.
pub fn keep_a_reserve() {
    let mapped = map(RESERVE);
    if mapped.is_null() {
        USED.fetch_add(1, Ordering::Relaxed);
    }
    // Release: partner of the Acquire in `reserve`.
    MEMORY.store(mapped, Ordering::Release);
}

/// Its first byte, its size, and how much of it is used.
fn reserve() -> (*mut u8, usize, &'static AtomicUsize) {
    match MEMORY.load(Ordering::Acquire) {
        none if none.is_null() => (SMALL_MEMORY.0.get().cast(), SMALL, &SMALL_USED),
        mapped => (mapped, RESERVE, &USED),
    }
}

struct List(AtomicU64);

/// In a list's word: the first block, in units of [`LEAST`] (48 bits of address); the counter is above.
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
            // SAFETY: chunks stay. If another thread has taken the block, the exchange fails.
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
            // SAFETY: a free, aligned block of at least 16 bytes, which other threads read by atomic loads alone.
            unsafe { &*block.cast::<AtomicU64>() }.store(word & FIRST, Ordering::Relaxed);
            // Release: partner of the Acquire in `pop`.
            match self.0.compare_exchange_weak(word, word & !FIRST | at, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

/// Free blocks by [`class`], aligned to [`LEAST`]; and by the power of two, for blocks aligned to their size.
static SIZES: [List; 36] = [const { List(AtomicU64::new(0)) }; 36];
static POWERS: [List; 15] = [const { List(AtomicU64::new(0)) }; 15];

/// Class and bytes of a block: multiples of 16 up to 128, then four to each power of two.
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
    /// A list, with the bytes and the alignment of its blocks.
    List(&'static List, usize, usize),
    Mapping,
}

fn source(layout: Layout) -> Source {
    let (size, align) = (layout.size(), layout.align());
    let found = if align <= LEAST {
        let (class, bytes) = class(size);
        SIZES.get(class).map(|list| Source::List(list, bytes, LEAST))
    } else if align > PAGE {
        // Chunks begin at a page, and so at no multiple of more.
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
    leave_unchecked(mapped.cast(), bytes);
    mapped.cast()
}

struct Chunk(AtomicUsize);

/// Blocks are cut from it; or null.
static NEWEST: AtomicPtr<Chunk> = AtomicPtr::new(null_mut());

/// A zero block, or null. The rest of a chunk with too little is not used.
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
            // SAFETY: mapped above, unseen.
            unsafe { libc::munmap(fresh.cast(), CHUNK) };
        }
    }
}

fn allocate(layout: Layout) -> *mut u8 {
    match source(layout) {
        Source::List(list, bytes, align) => list.pop().unwrap_or_else(|| cut(bytes, align)),
        // No type is aligned to more than a page.
        Source::Mapping if layout.align() > PAGE => null_mut(),
        Source::Mapping => map(layout.size()),
    }
}

struct Own;

#[global_allocator]
static ALLOCATOR: Own = Own;

pub fn exhausted() -> bool {
    USED.load(Ordering::Relaxed) + SMALL_USED.load(Ordering::Relaxed) > 0
}

fn is_reserved(pointer: *mut u8) -> bool {
    let is_in = |start: usize, bytes: usize| start != 0 && (start..start + bytes).contains(&pointer.addr());
    is_in(SMALL_MEMORY.0.get().addr(), SMALL) || is_in(MEMORY.load(Ordering::Acquire).addr(), RESERVE)
}

/// A copy with room for so many more; `None` where there is no memory.
pub fn copy_of(bytes: &[u8], more: usize) -> Option<Vec<u8>> {
    let mut copy = room_for(bytes.len().checked_add(more)?)?;
    copy.extend_from_slice(bytes);
    Some(copy)
}

/// Its pages are there before they are written to: one by one, at the first write, they take several times as long as a copy. Before Linux 5.14 they are not.
pub fn room_for(bytes: usize) -> Option<Vec<u8>> {
    const POPULATE_WRITE: libc::c_int = 23;
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes).ok()?;
    // SAFETY: of a mapping, which is this value's alone, nothing changes; the kernel refuses a small block, which begins at no page.
    unsafe { libc::madvise(room.as_mut_ptr().cast(), room.capacity(), POPULATE_WRITE) };
    Some(room)
}

/// Asked before work that needs more than the reserve, and can be left undone.
pub fn is_left(bytes: usize) -> bool {
    let pages = map(bytes);
    // SAFETY: mapped above, unseen.
    !pages.is_null() && unsafe { libc::munmap(pages.cast(), bytes) } == 0
}

/// Memory for a small value; or null.
pub fn place<T>() -> *mut T {
    const { assert!(size_of::<T>() <= LARGEST) };
    allocate(Layout::new::<T>()).cast()
}

/// # Safety
/// It came from [`place`] for this type, and is not used any more.
pub unsafe fn give_back<T>(place: *mut T) {
    if let Source::List(list, ..) = source(Layout::new::<T>()) {
        list.push(place.cast());
    }
}

#[cold]
fn from_reserve(layout: Layout) -> *mut u8 {
    let align = layout.align().max(16);
    let (start, all, used) = reserve();
    let Some(size) = layout.size().checked_add(align).filter(|size| *size <= all) else { return null_mut() };
    process::disarm();
    let at = used.fetch_add(size, Ordering::Relaxed);
    if at.saturating_add(size) > all {
        return null_mut();
    }
    // SAFETY: all up to `at + size` lies inside the reserve, with room to align.
    unsafe {
        let start = start.add(at);
        start.add(start.align_offset(align))
    }
}

// SAFETY: the exchange, or the chunk's counter, gives a block to one owner, as large and aligned as its source says; so does a mapping. The reserve's
// blocks are unused, large enough, aligned, and never go back.
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
            // SAFETY: mapped for this layout; the owner is done with it.
            Source::Mapping => unsafe { _ = libc::munmap(pointer.cast(), layout.size()) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        match (source(layout), source(wanted)) {
            _ if is_reserved(pointer) => {}
            (Source::List(one, ..), Source::List(other, ..)) if std::ptr::eq(one, other) => return pointer,
            (Source::Mapping, Source::Mapping) => {
                // SAFETY: mapped for this layout; a former address is nobody's.
                let moved = unsafe { libc::mremap(pointer.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved != libc::MAP_FAILED {
                    return moved.cast();
                }
            }
            _ => {}
        }
        // SAFETY: both are valid for the smaller size; the former is given back by its own layout.
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

/// The C library's functions, for the parts of Rust's library and of the unwinder that go past the global allocator. Hidden: the program's are never called
/// from here. In the tests' program they would be the whole program's.
#[cfg(not(test))]
mod of_c {
    use super::{allocate, GlobalAlloc as _, ALLOCATOR, LEAST};
    use std::alloc::Layout;
    use std::ffi::{c_int, c_void};
    use std::ptr::{null, null_mut};

    /// Before each block: size and alignment.
    type Head = [usize; 2];

    fn give(align: usize, size: usize) -> *mut c_void {
        let align = align.max(LEAST);
        let layout = size.checked_add(align).and_then(|size| Layout::from_size_align(size, align).ok());
        let Some((layout, block)) =
            layout.map(|layout| (layout, allocate(layout))).filter(|(_, block)| !block.is_null())
        else {
            return null_mut();
        };
        // SAFETY: the alignment's room holds the head.
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
            // SAFETY: each block has its head; both are valid for the smaller size.
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
            // SAFETY: from `give`, with the head's layout.
            unsafe {
                let [size, align] = block.cast::<Head>().sub(1).read();
                ALLOCATOR.dealloc(block.cast::<u8>().sub(align), Layout::from_size_align_unchecked(size, align));
            }
        }
    }

    /// For `getenv`: the environment is the program's. For `realpath`, whose result would be the C library's memory: panics are not printed.
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

    // The C library's list of thread ends is in the program's memory; without it, Rust's library keeps its own.
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
