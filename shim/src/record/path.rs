//! By which path the program's code came to a launch: the frames between the hook and the program.
//!
//! The call of a runtime's user returns into the runtime, and that one into the function that nvcc makes of a kernel; the line that launches it is
//! three frames away from the hook. The slow path walks these frames, by the tables that files carry for exceptions, and keeps by what the path is known
//! again: the return addresses of the frames, and how far from the hook's frame each lies. A launch on the fast path compares these words of the stack, and reads
//! one more, the return address of the next frame, which is another one for each line of the program that launches the kernel. Its record has this
//! address and the number of the path, whose frames the texts have.
//!
//! Why each word lies on the stack: a return address that is the known one leads to the same place of the same function, where the frame has the same size. A
//! function that counts its frame from the frame pointer may have one of another size each time, so the distance of that register is compared first.
//!
//! Must not: read a word of the stack on the fast path before those below it have been found equal; wait for the dynamic linker's lock that is
//! held while constructors run.

use super::Guard;
use crate::lookup::objects::{self, Loaded};
use crate::runtime::readable;
use lazyguard_core::map::HashMap;
use lazyguard_core::stack::{frame_size, FrameSize, Machine, Memory};
use lazyguard_core::state::Caller;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::from_word;
use std::collections::hash_map::Entry;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Whether the library knows where it was called from; AArch64 leaves return addresses where the tables' three numbers do not say.
pub const IS_KNOWN: bool = cfg!(all(lazyguard_frames, target_arch = "x86_64"));

/// Frames of a path: two of the runtime, and the function that nvcc makes of the kernel. Where that one has a frame pointer, the compiler has not optimised
/// the program, and the kernel's own function on the host lies between it and the line that launches.
const FRAMES: usize = 3;
const FRAMES_WITH_FRAME_POINTERS: usize = 4;
/// Each frame has a word with its return address, and may have one with its frame pointer.
const MOST_WORDS: usize = 2 * FRAMES_WITH_FRAME_POINTERS;
/// The most paths of a process: their texts take an eighth of the smallest recording's room.
const MOST_PATHS: usize = 1 << 10;
/// The most bytes of stack of a path.
const MOST_BYTES: usize = 1 << 16;
/// Paths that a launch compares before it takes the slow path.
const MOST_OTHERS: usize = 16;
/// In place of a path: there are too many, or the program calls the driver itself.
const NONE: usize = 1;

/// A word of the stack of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Word {
    /// How far above the place right above the hook's return address it lies, in bytes.
    at: isize,
    /// Of a frame pointer all bits, else none: it is compared by its distance from that place.
    relative: usize,
    value: usize,
}

/// By what a path is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// Where the hook returns to.
    returns: usize,
    words: [Word; MOST_WORDS],
    count: usize,
    /// Where the return address of the frame outside the path lies, as [`Word::at`].
    outside: isize,
}

/// See the module.
pub struct Path {
    shape: Shape,
    /// Its number in the recording, from 1.
    number: u16,
    /// Another path by which the same function was launched, in a ring; 0 for none.
    next: AtomicUsize,
}

impl Shape {
    /// A word of the stack above the hook's frame.
    #[inline(always)]
    fn word(caller: Caller, at: isize) -> usize {
        // SAFETY: the words below were found equal, so the frame that has this one is on the stack; see the module.
        unsafe { ((caller.stack as *const u8).wrapping_offset(at) as *const usize).read_volatile() }
    }

    #[inline(always)]
    fn holds(&self, caller: Caller) -> bool {
        let mut words = self.words.iter().take(self.count);
        caller.address == self.returns
            && words.all(|w| Self::word(caller, w.at).wrapping_sub(caller.stack & w.relative) == w.value)
    }
}

impl Path {
    /// The path that was kept as this number, if there is one.
    #[inline(always)]
    fn kept<'a>(known: usize) -> Option<&'a Self> {
        // SAFETY: 0, or a path of `Paths::find`, which is never freed.
        unsafe { (known as *const Self).as_ref() }
    }

    /// The word of the record of a launch that came by this path.
    #[inline(always)]
    fn from(&self, caller: Caller) -> u64 {
        from_word(Shape::word(caller, self.shape.outside) as u64, self.number)
    }

    fn others(&self) -> impl Iterator<Item = &Self> {
        let next = |path: &&Self| Self::kept(path.next.load(Ordering::Acquire));
        std::iter::successors(next(&self), next).take(MOST_OTHERS)
    }
}

/// The word of the record of a launch from here that says from where it was made, by what is kept of the path of an earlier one; `None` if nothing is, or
/// this one came by a path that has to be found.
#[inline(always)]
pub fn from(kept: &AtomicUsize, caller: Caller) -> Option<u64> {
    let known = kept.load(Ordering::Relaxed);
    if !IS_KNOWN || known == NONE {
        return Some(from_word(caller.address as u64, 0));
    }
    let path = Path::kept(known)?;
    if path.shape.holds(caller) {
        return Some(path.from(caller));
    }
    from_another(kept, path, caller)
}

#[cold]
#[inline(never)]
fn from_another(kept: &AtomicUsize, path: &Path, caller: Caller) -> Option<u64> {
    let other = path.others().find(|other| other.shape.holds(caller))?;
    kept.store(from_ref(other).addr(), Ordering::Relaxed);
    Some(other.from(caller))
}

/// The paths of a process.
#[derive(Default)]
pub struct Paths(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Where runtimes have asked for the loading mode from.
    runtimes: Vec<usize>,
    /// Whether a return address of launches lies in the same file as a runtime.
    is_of_runtime: HashMap<usize, bool>,
    paths: HashMap<Shape, &'static Path>,
    /// The sizes of frames by their return addresses, where the tables say them. They are not those of a file that has taken another one's place: what is
    /// read by them is looked at first.
    sizes: HashMap<usize, Option<FrameSize>>,
}

impl Paths {
    /// A runtime has asked for the loading mode, from this address.
    pub fn runtime_asks(&self, from: usize) {
        lock(&self.0).runtimes.push(from);
    }

    /// The first frame of the path with this number: where its calls return to.
    pub fn returns(&self, number: u16) -> Option<usize> {
        let known = lock(&self.0);
        let path = known.paths.values().find(|path| path.number == number)?;
        Some(path.shape.returns)
    }
}

/// The same where that says nothing: finds the path, and keeps it.
#[cold]
#[inline(never)]
pub fn found(guard: &Guard, kept: Option<&AtomicUsize>, caller: Caller) -> u64 {
    let mut known = lock(&guard.paths.0);
    if !known.is_of_runtime(caller.address) {
        // The program calls the driver itself.
        kept.into_iter().for_each(|kept| kept.store(NONE, Ordering::Relaxed));
        return from_word(caller.address as u64, 0);
    }
    let (shape, frames) = known.walk(caller);
    let number = known.paths.len() + 1;
    let path = match known.paths.entry(shape) {
        Entry::Occupied(path) => Some(*path.get()),
        Entry::Vacant(place) => (number <= MOST_PATHS).then(|| {
            guard.tracker.recorder().add_path(guard.now(), number as u16, &frames);
            let path = Path { shape, number: number as u16, next: AtomicUsize::new(0) };
            *place.insert(Box::leak(Box::new(path)))
        }),
    };
    // Under the lock, so that no two threads join rings at a time.
    if let Some(kept) = kept {
        kept.store(path.map_or(NONE, |path| joined(kept, path)), Ordering::Relaxed);
    }
    path.map_or(from_word(caller.address as u64, 0), |path| path.from(caller))
}

/// What to keep of a function that was launched by another path before: this one, in a ring with that one. Where it is in another ring already, launches by the
/// two would take the slow path each time.
fn joined(kept: &AtomicUsize, path: &'static Path) -> usize {
    let Some(before) = Path::kept(kept.load(Ordering::Relaxed)) else { return from_ref(path).addr() };
    if path.next.load(Ordering::Relaxed) != 0 {
        return NONE;
    }
    let next = match before.next.load(Ordering::Relaxed) {
        0 => from_ref(before).addr(),
        next => next,
    };
    path.next.store(next, Ordering::Release);
    before.next.store(from_ref(path).addr(), Ordering::Release);
    from_ref(path).addr()
}

impl Known {
    /// Whether the code at an address may be a runtime's: that of its library, or of a file that a runtime is linked into.
    fn is_of_runtime(&mut self, address: usize) -> bool {
        let runtimes = &self.runtimes;
        *self.is_of_runtime.entry(address).or_insert_with(|| {
            let mut is_one = false;
            objects::each(&mut |object| {
                let is_here = |address: &usize| object.offset_of(*address as u64).is_some();
                let found = is_here(&address);
                is_one |= found && (object.file_name().starts_with(b"libcudart") || runtimes.iter().any(is_here));
                !found
            });
            is_one
        })
    }

    /// The path from this hook on, and the return addresses of its frames.
    fn walk(&mut self, caller: Caller) -> (Shape, Vec<u64>) {
        let (mut stack, mut frame) = (caller.stack, caller.frame);
        // The hook has saved the register right below its return address.
        let (mut frame_at, mut most) = (stack.wrapping_sub(16), FRAMES);
        let mut frames = vec![caller.address];
        let mut words = Vec::new();
        let distance = |at: usize| at.wrapping_sub(caller.stack);
        while let Some(size) = frames.last().and_then(|address| self.size(*address)) {
            if size.from_frame_pointer {
                words.push(Word { at: distance(frame_at) as isize, relative: usize::MAX, value: distance(frame) });
            }
            let begin = if size.from_frame_pointer { frame } else { stack };
            let next = begin.wrapping_add(size.bytes as usize);
            let value = |at: usize| readable::value(at as *const usize).filter(|_| at.is_multiple_of(8));
            let Some(returns) = value(next.wrapping_sub(8)).filter(|_| next > stack && distance(next) <= MOST_BYTES)
            else {
                break;
            };
            if let Some(saved) = size.saved_frame_pointer {
                frame_at = next.wrapping_sub(saved as usize);
                let Some(saved) = value(frame_at) else { break };
                frame = saved;
            }
            if frames.len() == FRAMES && size.from_frame_pointer {
                most = FRAMES_WITH_FRAME_POINTERS;
            }
            stack = next;
            frames.push(returns);
            if frames.len() > most {
                break;
            }
            words.push(Word { at: distance(next.wrapping_sub(8)) as isize, relative: 0, value: returns });
        }
        // The last one is not the path's, but the one outside.
        frames.pop();
        let mut shape = Shape {
            returns: caller.address,
            words: [Word::default(); MOST_WORDS],
            count: words.len().min(MOST_WORDS),
            outside: distance(stack.wrapping_sub(8)) as isize,
        };
        shape.words.iter_mut().zip(words).for_each(|(to, word)| *to = word);
        (shape, frames.into_iter().map(|address| address as u64).collect())
    }

    fn size(&mut self, address: usize) -> Option<FrameSize> {
        *self.sizes.entry(address).or_insert_with(|| {
            let mut size = None;
            objects::each(&mut |object| {
                let is_here = object.offset_of(address as u64).is_some();
                if is_here {
                    let index = object.unwind_index();
                    size = index.and_then(|i| frame_size(&InObject(object), i, Machine::OWN, address as u64));
                }
                !is_here
            });
            size
        })
    }
}

/// The memory of a loaded object, where it can be read.
struct InObject<'a>(&'a Loaded<'a>);

impl Memory for InObject<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let found = (1..=into.len()).rev().find_map(|count| self.0.bytes(address, count));
        let found = found.unwrap_or_default();
        into[..found.len()].copy_from_slice(found);
        found.len()
    }
}
