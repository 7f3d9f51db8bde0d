//! By which path the program's code came to a launch: the frames between the hook and the program. A launch by a CUDA runtime returns into the runtime,
//! twice, and then into the function that nvcc makes of a kernel; outside is the program's line. The slow path walks the frames, by the tables for
//! exceptions, and keeps how far from the hook each return address lies. The fast path finds the same addresses there, and reads one more, the line's,
//! which the launch's record has beside the path's number.
//!
//! The addresses are compared from the hook outwards: an equal one leads into a function whose frame is as large as it was. A function with a frame pointer
//! may have a frame of another size, the program's own as well, where a runtime is linked into its file; the fast path reads past it only on the page that
//! it is on, or on one that this thread could read before.
//!
//! Must not: read a word on the fast path before those below it were found equal; wait for the dynamic linker's lock; walk without room on the stack.

use crate::lookup::around::around;
use crate::runtime::process::Process;
use crate::runtime::readable;
use lazyguard_core::map::HashSet;
use lazyguard_core::stack::{caller_by, Machine, Memory, Registers};
use lazyguard_core::state::Caller;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::from_word;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Whether the return address lies outside the hook's frame.
const IS_KNOWN: bool = cfg!(all(lazyguard_frames, target_arch = "x86_64"));

/// In code that is not optimised, nvcc's function has a frame pointer, and one more frame comes before the line.
const FRAMES: usize = 3;
const MOST_FRAMES: usize = 4;
const MOST_BYTES: u64 = 1 << 16;
/// More than a walk, and the driver's call after it, take of the stack.
const STACK_OF_A_WALK: usize = 32 << 10;
/// Their texts take two fifths of the smallest recording's room.
const MOST_PATHS: usize = 1 << 10;
/// Paths compared before the slow path.
const MOST_IN_TURN: usize = 17;
/// There are too many paths, or no runtime makes these launches.
const NONE: usize = 1;

const _: () = assert!(size_of::<Path>() == 64);

/// One line of a processor's cache.
#[repr(align(64))]
pub struct Path {
    /// The return addresses; the first one again in place of missing ones.
    frames: [usize; MOST_FRAMES],
    /// The distances of the frames from right above the hook's own return address.
    distances: [i32; MOST_FRAMES],
    /// The same of the line's address.
    outside: i32,
    /// The path's number in the recording, from 1.
    number: u16,
    /// Whether the third frame is found by its frame pointer: then all frames count, else three.
    varies: bool,
    /// The first frame that is found so, or [`MOST_FRAMES`]: the return addresses behind it may lie elsewhere.
    sure: u8,
    /// The ring of paths to one function; or 0.
    next: AtomicUsize,
}

impl Path {
    #[inline(always)]
    fn kept<'a>(known: usize) -> Option<&'a Self> {
        // SAFETY: 0, or a path of `Known::walk`, which is never freed.
        unsafe { (known as *const Self).as_ref() }
    }

    /// The word of the launch's record; `None` by another path, or if a word may not be there.
    #[inline(always)]
    fn leads(&self, caller: Caller) -> Option<u64> {
        (!self.crosses(caller) && self.begins(caller)).then(|| self.line(caller))?
    }

    /// The same where the line's word is on another page, which is asked for first.
    fn leads_across(&self, caller: Caller) -> Option<u64> {
        let is_there = |distance: &i32| {
            readable::again(caller.stack.wrapping_add_signed(*distance as isize) as *const u8, size_of::<usize>())
        };
        let are_there = || self.distances.iter().chain([&self.outside]).all(is_there);
        (self.crosses(caller) && are_there() && self.begins(caller)).then(|| self.line(caller))?
    }

    fn leads_anywhere(&self, caller: Caller) -> Option<u64> {
        self.leads(caller).or_else(|| self.leads_across(caller))
    }

    #[inline(always)]
    fn crosses(&self, caller: Caller) -> bool {
        let page = |distance: i32| caller.stack.wrapping_add_signed(distance as isize) / readable::PAGE;
        self.distances.get(usize::from(self.sure)).is_some_and(|sure| page(*sure) != page(self.outside))
    }

    #[inline(always)]
    fn word(caller: Caller, distance: i32) -> usize {
        let at = caller.stack.wrapping_add_signed(distance as isize);
        // SAFETY: see the module. Words behind a frame that varies are on the page of one before, or readable.
        unsafe { (at as *const usize).read_volatile() }
    }

    #[inline(always)]
    fn holds(&self, frame: usize, caller: Caller) -> bool {
        Self::word(caller, self.distances[frame]) == self.frames[frame]
    }

    #[inline(always)]
    fn begins(&self, caller: Caller) -> bool {
        self.holds(0, caller) && self.holds(1, caller) && self.holds(2, caller)
    }

    #[inline(always)]
    fn line(&self, caller: Caller) -> Option<u64> {
        let is_it = !self.varies || self.holds(3, caller);
        is_it.then(|| from_word(Self::word(caller, self.outside) as u64, self.number))
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.frames, self.distances, self.outside) == (other.frames, other.distances, other.outside)
    }
}

/// The launch's word by the kept path; `None` if the path has to be found.
#[inline(always)]
pub fn from(kept: &AtomicUsize, caller: Caller) -> Option<u64> {
    let known = kept.load(Ordering::Relaxed);
    if !IS_KNOWN || known == NONE {
        return Some(from_word(caller.address as u64, 0));
    }
    let path = Path::kept(known)?;
    path.leads(caller).or_else(|| from_another(kept, path, caller))
}

/// The same by another path of the ring, or by one whose line is on another page, which the slow path would take far longer for.
#[cold]
#[inline(never)]
fn from_another(kept: &AtomicUsize, path: &Path, caller: Caller) -> Option<u64> {
    let next = |path: &&Path| Path::kept(path.next.load(Ordering::Acquire));
    let mut known = std::iter::successors(Some(path), next).take(MOST_IN_TURN);
    known.find_map(|one| {
        let from = one.leads_anywhere(caller)?;
        kept.store(from_ref(one).addr(), Ordering::Relaxed);
        Some(from)
    })
}

#[derive(Default)]
pub struct Paths(Mutex<Known>);

#[derive(Default)]
struct Known {
    paths: Vec<&'static Path>,
    runtimes: Vec<usize>,
    direct: HashSet<u64>,
}

impl Paths {
    /// A runtime asks for the loading mode.
    pub fn runtime_asks(&self, from: usize) {
        lock(&self.0).runtimes.push(from);
    }

    /// The same as [`from`] on the slow path.
    #[cold]
    #[inline(never)]
    pub fn find(&self, process: &Process, kept: Option<&AtomicUsize>, caller: Caller) -> u64 {
        let mut known = lock(&self.0);
        let led = known.paths.iter().find_map(|path| Some((*path, path.leads_anywhere(caller)?)));
        let found = led.or_else(|| known.walk(process, caller));
        if let Some(kept) = kept {
            // Under the lock: no two threads join rings.
            kept.store(found.map_or(NONE, |(path, _)| joined(kept, path)), Ordering::Relaxed);
        }
        found.map_or(from_word(caller.address as u64, 0), |(_, from)| from)
    }
}

/// Joins two paths to a function in a ring. A path in another ring takes the slow path.
fn joined(kept: &AtomicUsize, path: &'static Path) -> usize {
    let own = from_ref(path).addr();
    let Some(before) = Path::kept(kept.load(Ordering::Relaxed)).filter(|before| from_ref(*before).addr() != own) else {
        return own;
    };
    if path.next.load(Ordering::Relaxed) != 0 {
        return NONE;
    }
    let next = Some(before.next.load(Ordering::Relaxed)).filter(|next| *next != 0);
    path.next.store(next.unwrap_or(from_ref(before).addr()), Ordering::Release);
    before.next.store(own, Ordering::Release);
    own
}

impl Known {
    fn walk(&mut self, process: &Process, caller: Caller) -> Option<(&'static Path, u64)> {
        if !IS_KNOWN || self.direct.contains(&(caller.address as u64)) {
            return None;
        }
        if !self.is_of_runtime(caller.address) {
            self.direct.insert(caller.address as u64);
            return None;
        }
        let (mut path, count, outside) = Some(caller).filter(has_room).map(walked)?;
        let known = self.paths.iter().find(|known| known.is_like(&path)).copied();
        let path = match known {
            Some(known) => known,
            None if self.paths.len() < MOST_PATHS => {
                path.number = self.paths.len() as u16 + 1;
                let frames: Vec<_> = path.frames.iter().take(count).map(|address| *address as u64).collect();
                process.tracker.recorder().add_path(process.now(), path.number, &frames);
                self.paths.push(Box::leak(Box::new(path)));
                self.paths.last()?
            }
            None => return None,
        };
        Some((path, from_word(outside, path.number)))
    }

    /// A runtime's library, or a file that a runtime is linked into.
    fn is_of_runtime(&self, address: usize) -> bool {
        let is_one = around(address as u64, |object| {
            let is_here = |address: &usize| object.addresses.contains(&(*address as u64));
            object.file_name.starts_with(b"libcudart") || self.runtimes.iter().any(is_here)
        });
        is_one.unwrap_or(false)
    }
}

/// Threads with the smallest stack may launch as well. A guard page cannot be read.
fn has_room(caller: &Caller) -> bool {
    readable::bytes(caller.stack.wrapping_sub(STACK_OF_A_WALK) as *const u8, STACK_OF_A_WALK).is_some()
}

/// The path, its frames, and the line's return address.
#[inline(never)]
fn walked(caller: Caller) -> (Path, usize, u64) {
    let distance = |stack: u64| (stack as usize).wrapping_sub(caller.stack).wrapping_sub(size_of::<usize>()) as i32;
    let mut now = Registers::new(Machine::OWN, caller.address as u64, caller.stack as u64, caller.frame as u64);
    let first = distance(now.stack());
    let (mut frames, mut distances) = ([caller.address; MOST_FRAMES], [first; MOST_FRAMES]);
    let (mut count, mut varies, mut sure, mut outside) = (0, false, MOST_FRAMES, first);
    while count < if varies { MOST_FRAMES } else { FRAMES } {
        (frames[count], distances[count]) = (now.address() as usize, outside);
        count += 1;
        let next = unwind_index(now.address()).and_then(|index| caller_by(&Readable, index, &now));
        let is_near = |next: &Registers| (1..MOST_BYTES).contains(&next.stack().wrapping_sub(now.stack()));
        let Some(next) = next.filter(is_near) else { break };
        // The frame pointer lies below the return address.
        if now.frame().is_some_and(|frame| frame.wrapping_add(16) == next.stack()) {
            (varies, sure) = (varies || count == FRAMES, sure.min(count - 1));
        }
        outside = distance(next.stack());
        now = next;
    }
    let path = Path { frames, distances, outside, number: 0, varies, sure: sure as u8, next: AtomicUsize::new(0) };
    (path, count, now.address())
}

fn unwind_index(address: u64) -> Option<u64> {
    around(address, |object| object.unwind_index).flatten()
}

/// Pages that can be read.
struct Readable;

impl Memory for Readable {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let rest = readable::PAGE - address as usize % readable::PAGE;
        let found = [into.len(), into.len().min(rest)].map(|count| readable::bytes(address as *const u8, count));
        let found = found.into_iter().flatten().next().unwrap_or_default();
        into[..found.len()].copy_from_slice(found);
        found.len()
    }
}

#[cfg(all(lazyguard_frames, target_arch = "x86_64"))]
#[cfg(test)]
mod tests {
    use super::*;

    /// A path of three frames, whose words lie from the caller's place on.
    fn path(frames: [usize; 3], number: u16, varies: bool) -> &'static Path {
        let [first, second, third] = frames;
        Box::leak(Box::new(Path {
            frames: [first, second, third, third],
            distances: [0, 8, 16, 16],
            outside: 24,
            number,
            varies,
            sure: if varies { 2 } else { MOST_FRAMES as u8 },
            next: AtomicUsize::new(0),
        }))
    }

    fn caller(stack: &[usize]) -> Caller {
        Caller { address: stack[0], stack: stack.as_ptr().addr(), frame: 0 }
    }

    #[test]
    fn a_path_that_is_found_again_is_kept_and_in_no_ring() {
        let kept = AtomicUsize::new(0);
        let own = path([10, 20, 30], 5, true);
        for _ in 0..3 {
            kept.store(joined(&kept, own), Ordering::Relaxed);
            assert_eq!((kept.load(Ordering::Relaxed), own.next.load(Ordering::Relaxed)), (from_ref(own).addr(), 0));
        }
    }

    #[test]
    fn a_path_is_known_by_its_return_addresses_and_says_the_next_one() {
        let (here, elsewhere) = ([10, 20, 30, 77], [10, 20, 31, 77]);
        let known = path([10, 20, 30], 5, false);
        assert_eq!(known.leads(caller(&here)), Some(from_word(77, 5)));
        assert_eq!(known.leads(caller(&elsewhere)), None);
    }

    #[test]
    fn behind_a_frame_that_varies_nothing_is_read_on_another_page() {
        let words = vec![0; 3 * readable::PAGE / size_of::<usize>()];
        let begin = words.as_ptr().addr().next_multiple_of(readable::PAGE) - words.as_ptr().addr();
        let edge = (begin + readable::PAGE) / size_of::<usize>();
        for (at, is_read) in [(edge - 4, true), (edge - 3, false)] {
            let stack = caller(&words[at..]);
            assert_eq!(path([0; 3], 1, true).leads(stack).is_some(), is_read);
            assert!(path([0; 3], 1, false).leads(stack).is_some());
        }
        // From the first such frame on.
        let varies_early = path([0; 3], 1, false);
        let varies_early = Path { sure: 0, next: AtomicUsize::new(0), ..*varies_early };
        assert!(varies_early.leads(caller(&words[edge - 4..])).is_some());
        assert!((1..4).all(|at| varies_early.leads(caller(&words[edge - at..])).is_none()));
    }

    #[test]
    fn a_line_on_another_page_is_read_where_that_page_can_be_read() {
        let map = |protection| {
            let (size, flags) = (2 * readable::PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, wherever there is room.
            let begin =
                unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            assert_ne!(begin, libc::MAP_FAILED);
            assert_eq!(
                // SAFETY: the second page of it.
                unsafe { libc::mprotect(begin.wrapping_byte_add(readable::PAGE), readable::PAGE, protection) },
                0
            );
            begin.addr() + readable::PAGE - 3 * size_of::<usize>()
        };
        for protection in [libc::PROT_READ, libc::PROT_NONE, libc::PROT_READ] {
            let stack = map(protection);
            let known = path([0; 3], 4, true);
            let kept = AtomicUsize::new(from_ref(known).addr());
            for _ in 0..2 {
                let found = from(&kept, Caller { address: 0, stack, frame: 0 });
                assert_eq!(found, (protection == libc::PROT_READ).then(|| from_word(0, 4)));
            }
        }
    }

    #[test]
    fn a_function_that_is_launched_by_several_paths_in_turn_knows_them_all() {
        let stacks: Vec<_> = (1..5).map(|n| [10, 20, n, 100 + n]).collect();
        let kept = AtomicUsize::new(0);
        assert_eq!(from(&kept, caller(&stacks[0])), None, "nothing is kept yet");
        for (stack, number) in stacks.iter().zip(1..) {
            let found = path([10, 20, stack[2]], number, false);
            kept.store(joined(&kept, found), Ordering::Relaxed);
        }
        for (stack, number) in stacks.iter().zip(1..).chain(stacks.iter().zip(1..)) {
            assert_eq!(from(&kept, caller(stack)), Some(from_word(stack[3] as u64, number)));
        }
        assert_eq!(from(&kept, caller(&[10, 20, 99, 0])), None, "a path that none was");
        kept.store(NONE, Ordering::Relaxed);
        assert_eq!(from(&kept, caller(&stacks[0])), Some(from_word(10, 0)));
    }
}
