//! A thread's slot: the driver call it is in, visible to others, its place in the recording, and its private caches.
//!
//! Protocol: the owning thread writes, any thread reads. The owner stores the facts of a call as the record that it will leave,
//! past the length of the thread's segment, and then the call's mark, with Release. A reader takes the mark with Acquire, the
//! facts, and the mark again: if it changed, the call is over and was not stuck. What is in the thread's entry and in the segment
//! is in the file of the recording, so a reader of the file sees the same. The caches and the writers are the owner's alone.

use super::caches::{Caches, Launches, Line};
use super::launchers::Launchers;
use crate::api::{Class, EntryPoint};
use crate::sync::{fence, AtomicU64, Ordering, Patience, Turn};
use crate::trace::layout::{flag, record, thread as place};
use crate::trace::{
    put_record, put_text, Cursor, Keep, Kind, Lane, Owner, Place, Places, Record, Recorder, SegmentWriter, SLOW_NANOS,
};
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

/// The record of a call that has not returned.
#[derive(Clone, Copy)]
pub struct OpenRecord {
    place: Place<'static>,
    mark: u64,
    lane: Lane,
    cold: bool,
}

pub type ThreadEntry = &'static [AtomicU64; place::WORDS];

/// See the module.
///
/// What every call needs comes first. A launch on the fast path needs none of it: see [`super::AtHand`].
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

/// In the head of a record: where the kind, the flags and the result begin.
const KIND_AT: u32 = 16;
pub(super) const FLAGS_AT: u32 = 24;
const RESULT_AT: u32 = 32;
/// In the subject of a record: where the function begins, behind the stream.
const FUNCTION_AT: u32 = 32;
/// In a mark: where the lane begins, and where the record's number does.
const LANE_AT: u32 = 16;
pub(super) const NUMBER_AT: u32 = 32;

/// How many of the newest records are looked at for one that another query can be added to: as many streams or events can
/// be polled in turns, and be one record each.
const FOLDED_AMONG: u32 = 16;

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

    /// A thread begins; `false`, and nothing is changed, while another thread keeps the turn in which this slot's launches are folded.
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

    fn owner(&self) -> Owner {
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

    // --- records ---

    fn note_segments(&self) {
        let [_, waits, rare] = &self.writers;
        let [waits, rare] = [waits, rare].map(|writer| u64::from(self.recorder.current_segment(writer)));
        self.set(place::SEGMENTS_1_2, waits | rare << 32);
    }

    /// Where the next record of a lane goes: into the thread's segment, or if none is to be had, into the spare place.
    #[inline]
    fn next_place(&self, lane: Lane, now: Nanos) -> (Place<'static>, bool) {
        match self.recorder.place(&self.writers[lane as usize]) {
            Some(place) => (place, true),
            None => self.next_segment(lane, now),
        }
    }

    /// Takes a segment for work where the thread's has no room: a call whose own record is in another lane takes none, and the fast path looks for none.
    pub fn make_room(&self, now: Nanos) {
        _ = self.next_place(Lane::Work, now);
    }

    #[cold]
    fn next_segment(&self, lane: Lane, now: Nanos) -> (Place<'static>, bool) {
        let next = || self.recorder.place_in_next(&self.writers[lane as usize], self.owner(), lane, now);
        let place = match lane {
            // A fold may be reading the segment; what is not folded when it is left is never folded.
            Lane::Work => self.folding.take(self.number, Patience::Long, || {
                self.fold_current();
                next()
            }),
            Lane::Waits | Lane::RareEvents => Some(next()),
        };
        let place = place.flatten();
        self.note_segments();
        match place {
            Some(place) => (place, true),
            None => (self.spare(), false),
        }
    }

    pub(super) fn spare(&self) -> Place<'static> {
        // The entry ends with the spare record: see the layout's test.
        match self.entry.last_chunk() {
            Some(spare) => spare,
            None => unreachable!("an entry is longer than a record"),
        }
    }

    /// Writes the facts of the call that the owner is about to make. They become visible with [`ThreadSlot::mark`].
    #[inline(always)]
    pub fn open(&self, facts: &Record, class: Class) -> OpenRecord {
        let cold = matches!(facts.kind, Kind::ColdFunction | Kind::ColdModule);
        let lane = if cold { Lane::RareEvents } else { Lane::of(class) };
        let (place, kept) = self.next_place(lane, facts.entered);
        self.open_in(facts, lane, place, kept)
    }

    /// The same of a call that does not load on first use, if the thread's segment has room.
    #[inline(always)]
    pub fn open_at_hand(&self, facts: &Record, class: Class) -> Option<OpenRecord> {
        let lane = Lane::of(class);
        let place = self.recorder.place(&self.writers[lane as usize])?;
        Some(self.open_in(facts, lane, place, true))
    }

    #[inline(always)]
    fn open_in(&self, facts: &Record, lane: Lane, place: Place<'static>, kept: bool) -> OpenRecord {
        self.count_call();
        // Keeps the facts of this call behind its number and the end of the last one's mark, for a reader that takes them in
        // between.
        fence(Ordering::Release);
        put_record(place, facts);
        let cold = lane == Lane::RareEvents && matches!(facts.kind, Kind::ColdFunction | Kind::ColdModule);
        OpenRecord { place, mark: self.mark_of(facts.entry_point, lane, kept), lane, cold }
    }

    /// The mark of a call whose record is the next one of the lane, or the spare one.
    #[inline(always)]
    pub(super) fn mark_of(&self, entry_point: EntryPoint, lane: Lane, kept: bool) -> u64 {
        let writer = &self.writers[lane as usize];
        if kept && lane == Lane::Work {
            return mark_at(entry_point.id(), writer.cursor());
        }
        let number = writer.next() << NUMBER_AT;
        let of_lane = if kept { lane as u64 + 1 } else { place::MARK_SPARE };
        u64::from(entry_point.id()) | of_lane << LANE_AT | number
    }

    #[inline(always)]
    pub(super) fn count_call(&self) {
        self.set(place::CALLS, self.get(place::CALLS).wrapping_add(1));
    }

    /// The call has returned: completes its record, if it leaves one. Returns whether it does. The call stays marked until
    /// what it means is in the state as well, and [`ThreadSlot::unmark`] says so.
    #[inline(always)]
    pub fn close(&self, open: OpenRecord, class: Class, returned: Nanos, result: i32) -> bool {
        let head = open.place[record::HEAD].load(Ordering::Relaxed) | u64::from(result as u32) << RESULT_AT;
        let keep = open.cold
            || match Keep::of(class) {
                Keep::Always => true,
                Keep::IfSlow => {
                    returned.saturating_sub(open.place[record::ENTERED].load(Ordering::Relaxed)) >= SLOW_NANOS
                }
                Keep::Folded => !self.fold_query(open, returned, result),
            };
        if keep {
            open.place[record::RETURNED].store(returned, Ordering::Relaxed);
            open.place[record::HEAD].store(head, Ordering::Relaxed);
            self.commit(open.lane, open.mark);
        }
        keep
    }

    #[inline]
    fn commit(&self, lane: Lane, mark: u64) {
        if mark >> LANE_AT & 0xff == place::MARK_SPARE {
            self.recorder.count_dropped(lane);
        } else {
            // No index, which could panic where nothing may.
            self.writers.get(lane as usize).into_iter().for_each(|writer| self.recorder.complete(writer));
        }
    }

    /// Adds a query to the record of an equal one shortly before, as made at this time; `false` if there is none, or none to add to.
    #[inline]
    pub fn fold_query(&self, open: OpenRecord, at: Nanos, result: i32) -> bool {
        const KIND: u64 = 0xff << KIND_AT;
        let get = |place: Place<'_>, word: usize| place[word].load(Ordering::Relaxed);
        let head = get(open.place, record::HEAD) | u64::from(result as u32) << RESULT_AT;
        let Some(writer) = self.writers.get(open.lane as usize) else { return false };
        for earlier in self.recorder.newest(writer, FOLDED_AMONG) {
            let earlier_head = get(earlier, record::HEAD);
            if (earlier_head ^ head) & KIND != 0 {
                break;
            }
            if [record::SUBJECT, record::DETAIL].iter().all(|&word| get(open.place, word) == get(earlier, word)) {
                // Another answer than last time is a transition, which is a record of its own.
                let equal = earlier_head == head;
                if equal {
                    earlier[record::EXTENT].store(get(earlier, record::EXTENT) + 1, Ordering::Relaxed);
                    earlier[record::RETURNED].store(at, Ordering::Relaxed);
                }
                return equal;
            }
        }
        false
    }

    /// The times of the owner's first and newest query of a poll; `None` if its newest record is another one, or no answer was
    /// "not ready".
    pub fn asking(&self) -> Option<(Nanos, Nanos)> {
        const NOT_READY: u64 = 600;
        let get = |place: Place<'_>, word: usize| place[word].load(Ordering::Relaxed);
        let newest = self.recorder.newest(&self.writers[Lane::Work as usize], FOLDED_AMONG);
        let queries = newest.take_while(|place| get(place, record::HEAD) >> 16 & 0xff == Kind::Queries as u64);
        queries
            .filter(|place| self.in_use() && get(place, record::HEAD) >> RESULT_AT == NOT_READY)
            .map(|place| (get(place, record::ENTERED), get(place, record::RETURNED)))
            .min()
    }

    /// Stores a word of the newest record, of a call that has just returned: what it made or gave out.
    pub fn amend(&self, open: &OpenRecord, word: usize, value: u64) {
        open.place[word].store(value, Ordering::Relaxed);
    }

    /// Adds to the newest record, of a call that has just returned, that it has loaded a function, and which.
    pub fn amend_load(&self, open: &OpenRecord, function: u32) {
        let amend = |word: usize, mask: u64, value: u64| {
            let old = open.place[word].load(Ordering::Relaxed);
            open.place[word].store(old & !mask | value, Ordering::Relaxed);
        };
        amend(record::HEAD, 0xff << KIND_AT, (Kind::ColdFunction as u64) << KIND_AT);
        amend(record::SUBJECT, !0 << FUNCTION_AT, u64::from(function) << FUNCTION_AT);
    }

    /// Whether the thread's segment has room for another record: [`ThreadSlot::push_at_hand`] has a place for it.
    #[inline(always)]
    pub fn has_room(&self, lane: Lane) -> bool {
        self.recorder.place(&self.writers[lane as usize]).is_some()
    }

    /// A record of something that is over, where there is room; of a thread that is in no call.
    #[inline(always)]
    pub fn push_at_hand(&self, facts: &Record, lane: Lane) {
        let writer = &self.writers[lane as usize];
        if let Some(place) = self.recorder.place(writer) {
            put_record(place, facts);
            self.recorder.complete(writer);
        }
    }

    /// A record of something that is over.
    pub fn push(&self, facts: &Record, lane: Lane) {
        let (place, kept) = self.next_place(lane, facts.entered);
        if !kept || self.open_lane(self.get(place::MARK)) == Some(lane) {
            // No segment; or the place is the one of the call in progress.
            self.recorder.count_dropped(lane);
            return;
        }
        put_record(place, facts);
        self.recorder.complete(&self.writers[lane as usize]);
    }

    /// Makes the described call visible. Release: partner of the Acquire in [`ThreadSlot::published`].
    #[inline]
    pub fn mark(&self, open: &OpenRecord) {
        self.set_mark(open.mark);
    }

    #[inline(always)]
    pub(super) fn set_mark(&self, mark: u64) {
        self.entry[place::MARK].store(mark, Ordering::Release);
    }

    /// The call is over, or has not been let through the gate.
    #[inline]
    pub fn unmark(&self) {
        unmark(self.entry);
    }

    pub(super) fn mark_word(&self) -> &AtomicU64 {
        &self.entry[place::MARK]
    }

    pub(super) fn open_lane(&self, mark: u64) -> Option<Lane> {
        Lane::ALL.get((mark >> LANE_AT & 0xff).checked_sub(1)? as usize).copied()
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

    /// Where the library keeps what it knows of the path to launches of such a function: 0 at the beginning.
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
