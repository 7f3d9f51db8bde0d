//! The records of a thread's calls: opened before a call, closed behind it.

use super::thread::{mark_at, unmark, ThreadSlot, LANE_AT, NUMBER_AT};
use crate::api::result::{loses_work, NOT_READY};
use crate::api::{Asked, Class, EntryPoint};
use crate::sync::{fence, AtomicU64, Ordering, Patience};
use crate::trace::layout::{record, thread as place};
use crate::trace::{put_record, Keep, Kind, Lane, Place, RawPayload, Record, SLOW_NANOS};
use crate::Nanos;

/// In the head of a record: where the kind and the result begin.
const KIND_AT: u32 = 16;
const RESULT_AT: u32 = 32;
/// In the subject of a record: where the function begins, behind the stream.
const FUNCTION_AT: u32 = 32;
/// The record of a call that has not returned.
#[derive(Clone, Copy)]
pub struct OpenRecord {
    pub(super) place: Place<'static>,
    mark: u64,
    lane: Lane,
    cold: bool,
}

/// How many of the newest records are looked at for one that another query can be added to: as many streams or events can
/// be polled in turns, and be one record each.
const FOLDED_AMONG: u32 = 16;

impl ThreadSlot {
    pub(super) fn note_segments(&self) {
        let [_, waits, rare] = &self.writers;
        let [waits, rare] = [waits, rare].map(|writer| u64::from(self.recorder.current_segment(writer)));
        self.set(place::SEGMENTS_1_2, waits | rare << 32);
    }

    /// The place of a lane's next record: in the thread's segment or, if none is to be had, the spare place.
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
        let cold = facts.kind.is_cold();
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
        self.set(place::CALLS, self.get(place::CALLS).wrapping_add(1));
        // Keeps the facts of this call behind its number and the end of the last one's mark, for a reader that takes them in
        // between.
        fence(Ordering::Release);
        put_record(place, facts);
        let cold = lane == Lane::RareEvents && facts.kind.is_cold();
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

    /// A call that has been closed gave the error of a failed context ([`ThreadSlot::has_failed`]); one that is no query itself.
    #[cold]
    #[inline(never)]
    pub fn asked_in_vain(&self, open: OpenRecord, class: Class, returned: Nanos, result: i32) {
        if open.lane == Lane::RareEvents || Keep::of(class) == Keep::Folded {
            return;
        }
        let call = Record::from_words(&std::array::from_fn(|word| open.place[word].load(Ordering::Relaxed)));
        call.into_iter().for_each(|call| self.has_failed(&Record { returned, result, ..call }));
    }

    /// A call that gave the error of a failed context has asked for its state, as a query does: equal ones are one record, beside those of the calls. The call
    /// has returned, and its own record is in another lane.
    pub fn has_failed(&self, call: &Record) {
        if !loses_work(call.result) {
            return;
        }
        let (place, kept) = self.next_place(Lane::RareEvents, call.returned);
        if !kept {
            self.recorder.count_dropped(Lane::RareEvents);
            return;
        }
        let event = call.event().filter(|_| call.entry_point.class().synchronizes());
        let raw = RawPayload::about(event.unwrap_or(0)).with_queries(1);
        let asks = Record { kind: Kind::Queries, flags: 0, raw, ..*call };
        put_record(place, &Record { result: 0, ..asks });
        let open = OpenRecord { place, mark: 0, lane: Lane::RareEvents, cold: false };
        if !self.fold_query(open, call.returned, call.result) {
            put_record(place, &asks);
            self.recorder.complete(&self.writers[Lane::RareEvents as usize]);
        }
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

    /// The owner's queries of a poll; `None` if its newest record is another one, or no answer was "not ready" or the
    /// error of a failed context.
    pub fn asking(&self) -> Option<Asked> {
        self.asks_by(Lane::Work)
    }

    /// The owner's other calls that gave the error of a failed context.
    pub fn asking_in_vain(&self) -> Option<Asked> {
        self.asks_by(Lane::RareEvents)
    }

    fn asks_by(&self, lane: Lane) -> Option<Asked> {
        let get = |place: Place<'_>, word: usize| place[word].load(Ordering::Relaxed);
        let newest = self.recorder.newest(&self.writers[lane as usize], FOLDED_AMONG);
        let goes_on = |result: u64| result as i32 == NOT_READY || loses_work(result as i32);
        let queries = newest.take_while(|place| get(place, record::HEAD) >> 16 & 0xff == Kind::Queries as u64);
        queries
            .filter(|place| self.in_use() && goes_on(get(place, record::HEAD) >> RESULT_AT))
            .map(|place| [record::ENTERED, record::RETURNED, record::EXTENT].map(|word| get(place, word)))
            .min()
            .map(|[since, last, times]| Asked { times, since, last })
    }

    /// Stores a word of the newest record, of a call that has just returned: what it made or gave out.
    pub fn amend(&self, open: &OpenRecord, word: usize, value: u64) {
        open.place[word].store(value, Ordering::Relaxed);
    }

    /// Makes the newest record one of a call that has loaded this function; the call has just returned.
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

    /// Records something that is over, where there is room; for a thread that is in no call.
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
        self.entry[place::MARK].store(open.mark, Ordering::Release);
    }

    /// Shows a call of the guard's own, between or before calls of the owner, while it lasts. It leaves no record, and does not count.
    pub fn shows<T>(&self, facts: &Record, make: impl FnOnce() -> T) -> T {
        self.mark(&self.open(facts, facts.entry_point.class()));
        let made = make();
        self.unmark();
        self.set(place::CALLS, self.get(place::CALLS).wrapping_sub(1));
        made
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
}
