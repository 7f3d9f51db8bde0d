//! Stacks of threads that are blocked in a driver call or run a host function, without a signal, a stop or `ptrace`. A thread that enters a driver call leaves
//! in its slot where its stack was: as long as it is inside, nothing above changes. For a thread that sleeps in a host function the kernel says where its
//! stack lies. The guard asks before and after the reading whether the thread has gone on. The tables for exceptions give the outer frames. The stacks go
//! into the run folder too.
//!
//! Must not: take a lock that the program can hold, the dynamic linker's least of all; follow a pointer that was found in memory; or open a file other than
//! those of `/proc/self` and its own.

use super::thread_activity::asleep;
use crate::record::Guard;
use crate::runtime::own_memory::OwnMemory;
use crate::runtime::{clock, thread};
use lazyguard_core::order;
use lazyguard_core::report::{FrameSeen, StackSeen};
use lazyguard_core::stack::{
    above_frame_pointer, mappings, modules, own_maps, walk, DumpFile, DumpModule, DumpThread, Image, Machine, Memory,
    Module, Stack, STACKS,
};
use lazyguard_core::state::PublishedCall;
use std::cell::OnceCell;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

const MOST_THREADS: usize = 64;
const MOST_BYTES: u64 = 256 << 10;

/// `keep`: they go into the run folder as well.
pub fn read(guard: &'static Guard, calls: &[PublishedCall], running: &[u32], keep: bool) -> Vec<StackSeen> {
    let maps = own_maps();
    let space = Space::new(&maps);
    let has_frame = |call: &&PublishedCall| call.record.caller != 0 || cfg!(target_arch = "x86_64") && is_of_nccl(call);
    let mut calls: Vec<_> = calls.iter().filter(has_frame).collect();
    order::sort_by_key(&mut calls, |call| call.record.entered);
    let running = running.iter().filter_map(|thread| space.sleeping(*thread));
    let mut found: Vec<_> =
        running.chain(calls.iter().filter_map(|call| space.seen(call))).take(MOST_THREADS).collect();
    let kept = guard.folder.as_ref().filter(|_| keep && !found.is_empty()).map(|folder| {
        folder.replace_by(STACKS, &mut |file| {
            // It holds stack memory: for its owner only, as a core file.
            file.set_permissions(Permissions::from_mode(0o600))?;
            space.write(file, guard, &found)
        })
    });
    found.retain(|found| found.stands(guard));
    let mut seen: Vec<_> = found.into_iter().map(|found| found.seen).collect();
    if let (Some(why), Some(call)) = (space.unreadable(), calls.first()) {
        seen = vec![StackSeen { thread: call.thread, notes: vec![why.to_owned()], ..StackSeen::default() }];
    }
    if let (Some(Err(error)), Some(first)) = (kept, seen.first_mut()) {
        first.notes.push(format!("the stacks could not be kept in the run folder: {error}"));
    }
    seen
}

pub fn places((calls, functions): (Vec<u64>, Vec<u64>)) -> Vec<FrameSeen> {
    let maps = own_maps();
    let space = Space::new(&maps);
    let of_functions = functions.into_iter().map(|address| {
        let inside = space.frame(address.wrapping_add(1));
        FrameSeen { address, offset: inside.offset.wrapping_sub(1), ..inside }
    });
    let known = |place: &FrameSeen| !place.module.is_empty();
    calls.into_iter().map(|address| space.frame(address)).chain(of_functions).filter(known).collect()
}

/// The guard knows only the frame of such a call.
fn is_of_nccl(call: &PublishedCall) -> bool {
    !call.record.entry_point.is_of_driver()
}

struct Space<'a> {
    memory: OwnMemory,
    maps: &'a str,
    modules: Vec<Module>,
    images: Vec<OnceCell<Option<Image>>>,
}

struct Found {
    /// `None` of a thread that sleeps in a host function.
    call: Option<PublishedCall>,
    stack: Stack,
    seen: StackSeen,
}

impl Found {
    fn stands(&self, guard: &Guard) -> bool {
        match self.call {
            Some(call) => guard.tracker.threads().any(|(_, slot)| slot.published() == Some(call)),
            None => asleep(self.seen.thread) == Some((self.stack.begin, self.stack.address)),
        }
    }
}

impl<'a> Space<'a> {
    fn new(maps: &'a str) -> Self {
        let modules = modules(maps);
        let images = modules.iter().map(|_| OnceCell::new()).collect();
        Self { memory: OwnMemory::new(), maps, modules, images }
    }

    /// Why no stack can be read at all.
    fn unreadable(&self) -> Option<&'static str> {
        let own = 0u64;
        match () {
            () if self.maps.is_empty() => Some("no stack: /proc/self/maps cannot be read; is /proc mounted?"),
            () if self.memory.word(&raw const own as u64).is_none() => {
                Some("no stack: process_vm_readv is refused here, and /proc/self/mem cannot be read")
            }
            () => None,
        }
    }

    fn image(&self, number: usize) -> Option<&Image> {
        let (module, image) = (self.modules.get(number)?, self.images.get(number)?);
        image.get_or_init(|| Image::read(&self.memory, module.base)).as_ref()
    }

    /// The stack of a call, if it is there as the call has left it.
    fn seen(&self, call: &PublishedCall) -> Option<Found> {
        let begin = call.frame as u64;
        let mapping = mappings(self.maps).find(|m| m.readable && (m.begin..m.end).contains(&begin))?;
        // Right below; else a jump has left the call.
        let address = self.memory.word(begin.checked_sub(8)?)?;
        if !is_of_nccl(call) && call.record.path == 0 && address != call.record.caller {
            return None;
        }
        let begin = match Machine::OWN {
            Machine::X86_64 => begin,
            Machine::Aarch64 => self.end_of_hook(call).unwrap_or(begin),
        };
        let stack = Stack { address, begin, end: mapping.end, frame: call.frame_register as u64 };
        Some(self.found(call.thread, Some(*call), stack))
    }

    /// On AArch64 the return address lies at the lower end of the hook's frame, beside the frame pointer.
    fn end_of_hook(&self, call: &PublishedCall) -> Option<u64> {
        let hook = crate::lookup::table::hook(call.record.entry_point) as u64;
        let library = self.modules.iter().position(|module| module.has_code_at(hook))?;
        let frame_pointer = (call.frame as u64).checked_sub(16)?;
        frame_pointer.checked_add(above_frame_pointer(&self.memory, self.image(library)?, Machine::OWN, hook)?)
    }

    fn sleeping(&self, thread: u32) -> Option<Found> {
        let (begin, address) = asleep(thread)?;
        let mapping = mappings(self.maps).find(|m| m.readable && (m.begin..m.end).contains(&begin))?;
        // Most functions use no frame pointer.
        Some(self.found(thread, None, Stack { address, begin, end: mapping.end, frame: 0 }))
    }

    fn found(&self, thread: u32, call: Option<PublishedCall>, stack: Stack) -> Found {
        let walked = walk(&self.memory, &self.modules, &|number| self.image(number), &stack);
        let frames = walked.into_iter().map(|address| self.frame(address)).collect();
        Found { call, stack, seen: StackSeen { thread, frames, notes: Vec::new() } }
    }

    fn frame(&self, address: u64) -> FrameSeen {
        let number = self.modules.iter().position(|module| module.has_code_at(address.wrapping_sub(1)));
        let Some((number, module)) = number.and_then(|number| Some((number, self.modules.get(number)?))) else {
            return FrameSeen { address, ..FrameSeen::default() };
        };
        let bias = self.image(number).map_or(module.base, |image| image.bias);
        let (module, offset) = (module.name().to_owned(), address.wrapping_sub(bias));
        FrameSeen { address, module, offset, ..FrameSeen::default() }
    }

    fn write(&self, file: &mut File, guard: &Guard, found: &[Found]) -> io::Result<()> {
        let mut dump = DumpFile::new(io::BufWriter::new(file))?;
        let mut threads = Vec::new();
        for Found { stack, seen, .. } in found {
            let end = stack.end.min(stack.begin.saturating_add(MOST_BYTES));
            threads.push(DumpThread {
                thread: seen.thread,
                name: thread::name(seen.thread),
                address: stack.address,
                stack: stack.begin,
                frame: stack.frame,
                memory: dump.memory(&self.memory, stack.begin, end)?,
            });
        }
        // A stack that changed while it was read is not reported.
        let stands =
            |thread: &DumpThread| found.iter().any(|found| found.seen.thread == thread.thread && found.stands(guard));
        threads.retain(stands);
        let build_id = |number| self.image(number).map_or(&[][..], |image| &image.build_id);
        let modules = self.modules.iter().enumerate();
        let modules: Vec<_> = modules.map(|(n, module)| DumpModule { module, build_id: build_id(n) }).collect();
        dump.finish(guard.id, clock::unix_nanos() / 1_000_000_000, &threads, &modules, self.maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// The frames of the calling function, by the tables.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn frames_here() -> Vec<FrameSeen> {
        let (address, begin, frame): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {address}, [rip]",
                "mov {begin}, rsp",
                "mov {frame}, rbp",
                address = out(reg) address,
                begin = out(reg) begin,
                frame = out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
        }
        let maps = own_maps();
        let space = Space::new(&maps);
        let end = mappings(&maps).find(|m| (m.begin..m.end).contains(&begin)).unwrap().end;
        let stack = Stack { address, begin, end, frame };
        let walked = walk(&space.memory, &space.modules, &|number| space.image(number), &stack);
        walked.into_iter().map(|address| space.frame(address)).collect()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn nested(depth: u32, data: &mut [u64]) -> Vec<FrameSeen> {
        let mut own = vec![u64::from(depth); 16];
        let found = if depth == 0 { black_box(frames_here()) } else { black_box(nested(depth - 1, &mut own)) };
        data[0] += own.len() as u64 + found.len() as u64;
        found
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn frames_are_found_up_to_the_threads_first() {
        let run = |depth| std::thread::spawn(move || nested(depth, &mut [0; 4])).join().unwrap();
        let (few, many) = (run(3), run(13));
        assert!(many.len() >= 15 && many.len() == few.len() + 10, "{} and {}", few.len(), many.len());
        // The outermost are the C library's start of a thread.
        assert!(many.last().unwrap().module.starts_with("libc.so"), "{many:#?}");
        assert!(many.iter().all(|frame| !frame.module.is_empty()));
    }
}
