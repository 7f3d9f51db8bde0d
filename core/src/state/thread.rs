//! A thread's slot: the driver call it is in, visible to others, its place in the recording, and its private caches.
//!
//! Protocol: the owning thread writes, any thread reads. The owner stores the facts of a call as the record that it will leave,
//! past the length of the thread's segment, and then the call's mark, with Release. A reader takes the mark with Acquire, the
//! facts, and the mark again: if it changed, the call is over and was not stuck. The thread's entry and the segment
//! are in the file of the recording, so a reader of the file sees the same. The caches and the writers are the owner's alone.

use super::caches::{Caches, Launches, Line};
use super::launchers::Launchers;
use crate::api::EntryPoint;
use crate::sync::{fence, AtomicU64, Ordering, Patience, Turn};
use crate::trace::layout::{flag, record, thread as place};
use crate::trace::{put_text, Cursor, Lane, Owner, Places, Recorder, SegmentWriter};
use crate::Nanos;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The return address, or 0 where it is not known.
    pub address: usize,
    /// The address of the stack right above the return address; where that is not known, one inside the callee's frame.
    pub stack: usize,
    /// The caller's frame pointer register, or 0 where it is not known.
    pub frame: usize,
}

pub type ThreadEntry = &'static [AtomicU64; place::WORDS];

/// See the module.
///
/// The fields that every call needs come first. A launch on the fast path needs none of them: see [`super::AtHand`].
#[repr(C, align(64))]
pub struct ThreadSlot {
    pub(super) entry: ThreadEntry,
    pub(super) places: Places<'static>,
    in_use: AtomicBool,
    pub(super) writers: [SegmentWriter<'static>; 3],
    pub(super) launches: Launches,
    pub(super) recorder: &'static Recorder<'static>,
    caches: OnceLock<Caches>,
    /// Held by the thread that folds the records of this slot's segment, and where the slot's thread takes another one.
    pub(super) folding: Turn,
    /// The slot's number, from 1 on: whose turn it is, where its thread folds.
    pub(super) number: u32,
    pub(super) launchers: Arc<Launchers>,
}

#[inline(always)]
pub(super) fn enter(entry: ThreadEntry, caller: Caller) -> bool {
    debug_assert!(caller.stack != 0, "a thread with this address of its stack is outside");
    // Not an atomic exchange: only the owner, or a signal handler on top of it, runs this. A handler in between leaves the thread
    // outside, as it was, before the owner continues.
    if entry[place::STACK].load(Ordering::Relaxed) != 0 {
        return false;
    }
    // Keeps this call's frame, and its number, behind the end of the last one's mark.
    fence(Ordering::Release);
    entry[place::STACK].store(caller.stack as u64, Ordering::Relaxed);
    // A handler that comes before this finds the thread inside, and leaves the frame's register as it is.
    compiler_fence(Ordering::SeqCst);
    entry[place::FRAME].store(caller.frame as u64, Ordering::Relaxed);
    true
}

#[inline(always)]
pub(super) fn leave(entry: ThreadEntry) {
    // Release: a reader that sees that the thread is outside sees the call's mark cleared.
    entry[place::STACK].store(0, Ordering::Release);
}

#[inline(always)]
pub(super) fn unmark(entry: ThreadEntry) {
    entry[place::MARK].store(0, Ordering::Release);
}

/// The mark of a call of the form with this id, whose record is in the place at the cursor, in the lane of work.
#[inline(always)]
pub(super) fn mark_at(id: u16, cursor: Cursor) -> u64 {
    u64::from(id) | (Lane::Work as u64 + 1) << LANE_AT | (cursor.at() as u64) << NUMBER_AT
}

/// In the head of a record: where the flags begin.
pub(super) const FLAGS_AT: u32 = 24;
/// In a mark: where the lane begins, and where the record's number does.
pub(super) const LANE_AT: u32 = 16;
pub(super) const NUMBER_AT: u32 = 32;

impl ThreadSlot {
    pub(super) fn over(
        recorder: &'static Recorder<'static>,
        entry: ThreadEntry,
        number: u32,
        launchers: Arc<Launchers>,
    ) -> Self {
        Self {
            recorder,
            places: recorder.places(),
            entry,
            in_use: AtomicBool::new(false),
            writers: [
                // Readers find a cursor in the recording's entries alone. A thread without one there counts in the head of its segment.
                match recorder.thread_entry(number.wrapping_sub(1) as usize) {
                    Some(entry) => SegmentWriter::of_thread(entry, number.wrapping_sub(1)),
                    None => SegmentWriter::default(),
                },
                SegmentWriter::default(),
                SegmentWriter::default(),
            ],
            launches: Launches::default(),
            caches: OnceLock::new(),
            folding: Turn::default(),
            number,
            launchers,
        }
    }

    pub(super) fn get(&self, word: usize) -> u64 {
        self.entry[word].load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, word: usize, value: u64) {
        self.entry[word].store(value, Ordering::Relaxed);
    }

    /// Begins a thread; `false`, and no change, while another thread folds this slot's launches.
    pub(super) fn begin(&self, number: u32, thread: u32, now: Nanos) -> bool {
        let restart = || self.writers.iter().for_each(SegmentWriter::restart);
        if self.folding.take(self.number, Patience::Short, restart).is_none() {
            return false;
        }
        let (calls, launches) = self.counts();
        self.recorder.keep_counts(calls, launches);
        self.set(place::MARK, 0);
        self.set(place::OUTER, 0);
        // A reader that sees anything of the new thread sees the mark cleared (see `published`).
        fence(Ordering::Release);
        self.set(place::STACK, 0);
        self.set(place::WHO, u64::from(number) | u64::from(thread) << 32);
        self.set(place::BORN, now);
        self.set(place::ENDED, 0);
        self.set(place::CALLS, 0);
        self.set(place::LAUNCHES, 0);
        self.caches.get_or_init(Caches::default);
        self.set(place::STATE, place::STATE_ALIVE);
        self.in_use.store(true, Ordering::Release);
        true
    }

    /// The owner ends. A call that it is still in was left by a cancellation, and its record says so. Returns what `release_segments` does.
    pub(super) fn end(&self, now: Nanos) -> bool {
        self.abandon(now);
        let is_released = self.release_segments();
        self.set(place::ENDED, now);
        self.set(place::STATE, place::STATE_ENDED);
        self.in_use.store(false, Ordering::Release);
        is_released
    }

    /// Gives the ended owner's segments up, once its launches are folded; `false` while another thread keeps the turn for that.
    pub(super) fn release_segments(&self) -> bool {
        let release = || {
            self.fold_current();
            self.writers.iter().for_each(|writer| self.recorder.release(writer));
        };
        let is_released = self.folding.take(self.number, Patience::Long, release).is_some();
        if is_released {
            self.note_segments();
        }
        is_released
    }

    pub fn in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    pub fn thread(&self) -> u32 {
        (self.get(place::WHO) >> 32) as u32
    }

    pub(super) fn owner(&self) -> Owner {
        Owner { number: self.get(place::WHO) as u32, thread: self.thread() }
    }

    /// The thread's name, for the recording. Any thread may set it.
    pub fn set_name(&self, name: &str) {
        put_text(&self.entry[place::NAME], name);
    }

    /// The owner enters LazyGuard's own code; `false` if it was there already, in which case the call that led here is the
    /// driver's own, LazyGuard's own, or a signal handler's, and passes untouched.
    #[inline(always)]
    pub fn enter(&self, caller: Caller) -> bool {
        enter(self.entry, caller)
    }

    /// Whether the call that the owner entered last was left without returning, by an exception or a jump: a frame that is further
    /// out than that call's cannot be inside it. Stacks grow downwards wherever there is CUDA. This cannot distinguish frames on
    /// another stack, as a signal handler may have.
    pub fn abandoned(&self, caller: Caller) -> bool {
        caller.stack as u64 >= self.get(place::STACK)
    }

    /// The call that the owner entered last was left without returning: its record says so, and it is over.
    pub(crate) fn abandon(&self, now: Nanos) {
        let mark = self.get(place::MARK);
        if let Some(lane) = self.open_lane(mark) {
            let writer = &self.writers[lane as usize];
            // The record of a call that was left behind its completion is there, and the next place is none of it.
            let is_open = EntryPoint::by_id(mark as u16).is_some_and(|of| self.mark_of(of, lane, true) == mark);
            if let Some(place) = self.recorder.place(writer).filter(|_| is_open) {
                let head = place[record::HEAD].load(Ordering::Relaxed);
                place[record::HEAD].store(head | u64::from(flag::LEFT) << FLAGS_AT, Ordering::Relaxed);
                place[record::RETURNED].store(now, Ordering::Relaxed);
                self.recorder.complete(writer);
            }
        }
        self.unmark();
        self.leave();
    }

    #[inline]
    pub fn leave(&self) {
        leave(self.entry);
    }

    #[inline]
    pub fn count_launch(&self) {
        self.set(place::LAUNCHES, self.get(place::LAUNCHES).wrapping_add(1));
    }

    pub fn counts(&self) -> (u64, u64) {
        (self.get(place::CALLS), self.get(place::LAUNCHES))
    }

    #[inline(always)]
    pub(super) fn caches(&self) -> Option<&Caches> {
        self.caches.get()
    }

    #[inline(always)]
    pub fn cached_stream(&self, handle: u64, epoch: u32) -> Option<u32> {
        self.caches()?.streams.get(handle, 0, epoch)
    }

    pub fn cache_stream(&self, handle: u64, epoch: u32, number: u32) {
        self.caches().into_iter().for_each(|c| c.streams.put(handle, 0, epoch, number));
    }

    /// The number of a function that is known to be loaded in the context.
    #[inline(always)]
    pub fn cached_loaded_function(&self, handle: u64, context: u32, epoch: u32) -> Option<u32> {
        self.caches()?.functions.get(handle, context, epoch)
    }

    /// The address of the library's entry for the path to launches of such a function; below 2 without one, 0 at first.
    pub fn path_to(&self, handle: u64, context: u32, epoch: u32) -> Option<&AtomicUsize> {
        Some(&self.caches()?.functions.line(handle, epoch, Line::of_context(context))?.path)
    }

    pub fn cache_loaded_function(&self, handle: u64, context: u32, epoch: u32, number: u32) {
        self.caches().into_iter().for_each(|c| c.functions.put(handle, context, epoch, number));
    }
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
