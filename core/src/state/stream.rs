//! One stream: what was submitted, what is known to be complete, and the oldest operation that is not.
//!
//! Protocol: any thread may submit to a stream at any time. A submitting call raises `last_submitted` when it is entered and again
//! when it has returned. A synchronize or a successful query raises `complete_until` to the moment at which it was *entered*. The
//! stream is known to be idle when the first does not exceed the second. A submission that overlaps the query therefore leaves the
//! stream busy, which is the safe answer.

use crate::api::{oldest_outstanding, Operation, StreamKind, Submissions};
use crate::sync::{AtomicU64, Ordering};
use crate::trace::layout::stream as place;
use crate::Nanos;

/// Identifies a stream: a default stream's handle means another stream in each context, and a per-thread one in each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub handle: u64,
    /// The context's number for a default stream, else 0.
    pub context: u32,
    /// The thread for a per-thread default stream, else 0.
    pub thread: u32,
}

/// See the module. The recording's table of streams holds the words, for readers after the process is gone.
pub struct Stream {
    words: Words,
}

pub(super) type Words = &'static [AtomicU64; place::WORDS];

impl Stream {
    pub(super) fn over(words: Words) -> Self {
        Self { words }
    }

    pub(super) fn begin(&self, handle: u64, context: u32, thread: u32, kind: StreamKind, now: Nanos) {
        let set = |word: usize, value: u64| self.words[word].store(value, Ordering::Relaxed);
        set(place::HANDLE, handle);
        set(place::PLACE, u64::from(context) | u64::from(thread) << 32);
        set(place::KIND, kind.number());
        set(place::CAPTURING, 0);
        set(place::DESTROYED, 0);
        set(place::SUBMITTED, 0);
        set(place::PASSED, 0);
        set(place::LAST_SUBMITTED, 0);
        set(place::BORN, now);
        // Work of the entry's former stream does not count; work submitted at this very time does.
        set(place::COMPLETE_UNTIL, now.saturating_sub(1));
        // Release: a reader that sees the stream alive (Acquire in `alive`) sees the facts above.
        self.words[place::ALIVE].store(1, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.words[place::ALIVE].store(0, Ordering::Release);
    }

    fn get(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    /// Raises a word to this value. An exchange waits for all that the processor has stored before, so none is made for nothing.
    #[inline(always)]
    fn raise(&self, word: usize, value: u64) {
        if self.get(word) < value {
            self.words[word].fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Stores an operation in the two words from `at` on, which any thread may look at at any time.
    #[inline(always)]
    fn put_operation(&self, at: usize, op: Operation) {
        // A reader that finds the old time with the new call, or the reverse, sees one wrong name in a report.
        self.words[at + 1].store(u64::from(op.entry_point) | u64::from(op.function) << 32, Ordering::Relaxed);
        self.words[at].store(op.at, Ordering::Relaxed);
    }

    fn operation(&self, at: usize) -> Operation {
        let what = self.get(at + 1);
        Operation { at: self.get(at), entry_point: what as u16, function: (what >> 32) as u32 }
    }

    pub(super) fn born(&self) -> Nanos {
        self.get(place::BORN)
    }

    /// Whether the stream exists. Partner of the Release in `begin`.
    pub fn alive(&self) -> bool {
        self.words[place::ALIVE].load(Ordering::Acquire) != 0
    }

    pub fn handle(&self) -> u64 {
        self.get(place::HANDLE)
    }

    pub fn context(&self) -> u32 {
        self.get(place::PLACE) as u32
    }

    /// The thread whose default stream it is, or 0.
    pub fn thread(&self) -> u32 {
        (self.get(place::PLACE) >> 32) as u32
    }

    pub fn kind(&self) -> StreamKind {
        StreamKind::from_number(self.get(place::KIND))
    }

    /// Whether the program has destroyed it while work was outstanding: the driver lets that work end, and the handle means nothing
    /// any more.
    pub fn destroyed(&self) -> bool {
        self.get(place::DESTROYED) != 0
    }

    pub(super) fn set_destroyed(&self) {
        self.words[place::DESTROYED].store(1, Ordering::Relaxed);
    }

    pub fn capturing(&self) -> bool {
        self.get(place::CAPTURING) != 0
    }

    pub(super) fn set_capturing(&self, capturing: bool) -> bool {
        self.words[place::CAPTURING].swap(u64::from(capturing), Ordering::Relaxed) != 0
    }

    /// A submitting call is about to be made. Returns the number that [`Stream::refused`] wants if the stream was idle, so that the operation is
    /// all there is.
    ///
    /// Another thread may submit, or fold, in the same moment. Each raises the time before the count, and this call takes the count before the
    /// time: if it finds the stream idle and its own addition comes next to that count, no other operation is counted in its number.
    #[inline]
    pub fn submitting(&self, op: Operation, idle_until: Nanos) -> Option<u64> {
        // Acquire, here and below: partner of the Release in `add_submitted`.
        let number = self.words[place::SUBMITTED].load(Ordering::Acquire);
        let was_idle = self.begins_if_idle(op, idle_until, number);
        self.put_recent(number, op);
        self.submitted(op.at);
        let is_next = self.add_submitted(1) == number;
        (was_idle && is_next).then_some(number.wrapping_add(1))
    }

    /// A launch that is folded later is in progress: the stream is busy with it. It is counted when it is folded.
    pub(super) fn is_submitting(&self, op: Operation, idle_until: Nanos) {
        self.begins_if_idle(op, idle_until, self.submitted_count());
        self.submitted(op.at);
    }

    /// Whether the stream is idle: then this operation is the first one since, and so many have ended before it.
    #[inline(always)]
    fn begins_if_idle(&self, op: Operation, idle_until: Nanos, ended: u64) -> bool {
        let is_idle = self.last_submitted() <= self.ended_until(idle_until);
        if is_idle {
            self.put_operation(place::FIRST_SINCE_IDLE, op);
            self.words[place::PASSED].store(ended, Ordering::Relaxed);
        }
        is_idle
    }

    /// Counts operations, the time of the last of which has been raised; returns how many there were before.
    fn add_submitted(&self, count: u64) -> u64 {
        self.words[place::SUBMITTED].fetch_add(count, Ordering::AcqRel)
    }

    /// The submissions as far as they are known, and the time until which they are complete.
    pub(super) fn submissions(&self) -> (Submissions, Nanos) {
        let known = Submissions {
            count: self.submitted_count(),
            ended: self.get(place::PASSED),
            last: self.last_submitted(),
            first_since_idle: self.operation(place::FIRST_SINCE_IDLE),
        };
        (known, self.get(place::COMPLETE_UNTIL))
    }

    /// Stores what has been learnt since; the operations themselves are there ([`Stream::put_recent`]).
    pub(super) fn put_submissions(&self, known: &Submissions, learnt: &Submissions) {
        if learnt.first_since_idle != known.first_since_idle {
            self.put_operation(place::FIRST_SINCE_IDLE, learnt.first_since_idle);
        }
        self.words[place::PASSED].store(learnt.ended, Ordering::Relaxed);
        self.submitted(learnt.last);
        self.add_submitted(learnt.count.wrapping_sub(known.count));
    }

    /// Stores an operation among the newest ones, as the one of this number.
    #[inline(always)]
    pub(super) fn put_recent(&self, number: u64, op: Operation) {
        self.put_operation(place::RECENT + number as usize % place::RECENT_COUNT * 2, op);
    }

    /// The driver refused the operation that this number was given for, and the call has returned: if nothing was submitted
    /// since, the stream is as idle as it was.
    pub fn refused(&self, number: u64, now: Nanos) {
        if self.words[place::SUBMITTED].load(Ordering::Acquire) == number {
            self.complete_until(now);
        }
    }

    /// The driver refused the launch that was entered at `at`, and a fold has counted it. If nothing else is known to be on the stream, the stream is as
    /// idle as before.
    pub fn refused_alone(&self, at: Nanos, now: Nanos) {
        if self.operation(place::FIRST_SINCE_IDLE).at == at && self.outstanding() <= 1 {
            self.complete_until(now);
        }
    }

    /// A submitting call has returned.
    #[inline]
    pub fn submitted(&self, now: Nanos) {
        self.raise(place::LAST_SUBMITTED, now);
    }

    /// Everything submitted before `entered` is complete.
    pub fn complete_until(&self, entered: Nanos) {
        self.raise(place::COMPLETE_UNTIL, entered);
    }

    pub fn submitted_count(&self) -> u64 {
        self.get(place::SUBMITTED)
    }

    /// The first `number` of the submitted operations are known to have ended.
    pub fn passed(&self, number: u64) {
        self.raise(place::PASSED, number);
    }

    /// How many operations are outstanding at most, as far as is known.
    pub fn outstanding_count(&self, idle_until: Nanos) -> u64 {
        if self.busy(idle_until) {
            self.outstanding()
        } else {
            0
        }
    }

    fn outstanding(&self) -> u64 {
        self.submitted_count().saturating_sub(self.get(place::PASSED))
    }

    /// Whether what was submitted at this moment is known to have ended; also where the stream is gone, and another one has its
    /// number.
    pub fn has_ended(&self, at: Nanos, idle_until: Nanos) -> bool {
        !self.alive() || self.born() > at || self.ended_until(idle_until) >= at
    }

    /// Each operation submitted until then is known to have ended.
    #[inline(always)]
    pub fn ended_until(&self, idle_until: Nanos) -> Nanos {
        self.get(place::COMPLETE_UNTIL).max(idle_until)
    }

    /// When its first operation came, or the newest one that is known to have ended.
    pub fn stands_since(&self, idle_until: Nanos) -> Nanos {
        self.ended_until(idle_until).max(self.get(place::FIRST_SINCE_IDLE))
    }

    pub fn last_submitted(&self) -> Nanos {
        self.get(place::LAST_SUBMITTED)
    }

    /// Whether something submitted is not known to be complete; `idle_until` is what is known of the whole context.
    pub fn busy(&self, idle_until: Nanos) -> bool {
        self.alive() && self.last_submitted() > self.ended_until(idle_until)
    }

    /// The oldest operation that is not known to be complete, if the stream is busy.
    pub fn oldest(&self, idle_until: Nanos) -> Option<Operation> {
        if !self.busy(idle_until) {
            return None;
        }
        let until = self.ended_until(idle_until);
        let recent = (0..place::RECENT_COUNT).map(|n| self.operation(place::RECENT + n * 2));
        oldest_outstanding(self.operation(place::FIRST_SINCE_IDLE), recent, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(at: Nanos) -> Operation {
        Operation { at, entry_point: 1, function: at as u32 }
    }

    fn submit(stream: &Stream, at: Nanos) {
        stream.submitting(op(at), 0);
        stream.submitted(at + 1);
    }

    fn new() -> Stream {
        let stream = Stream::over(Box::leak(Box::new(std::array::from_fn(|_| AtomicU64::new(0)))));
        stream.begin(7, 1, 0, StreamKind::Blocking, 5);
        stream
    }

    #[test]
    fn a_stream_is_busy_from_its_first_submission_to_the_next_synchronize() {
        let stream = new();
        assert!(!stream.busy(0));
        submit(&stream, 10);
        submit(&stream, 20);
        assert_eq!(stream.oldest(0), Some(op(10)));
        stream.complete_until(30);
        assert!(!stream.busy(0));
        submit(&stream, 40);
        assert_eq!(stream.oldest(0), Some(op(40)));
        assert!(!stream.busy(50), "the whole context was idle later");
    }

    #[test]
    fn what_overlaps_a_synchronize_stays_outstanding() {
        let stream = new();
        stream.submitting(op(10), 0);
        stream.complete_until(11); // entered after the launch was, before it returned
        stream.submitted(12);
        assert!(stream.busy(0));
        assert_eq!(stream.oldest(0), Some(op(10)));
    }

    #[test]
    fn what_the_driver_refuses_was_not_submitted() {
        let stream = new();
        let number = stream.submitting(op(10), 0);
        stream.submitted(11);
        stream.refused(number.unwrap(), 11);
        assert!(!stream.busy(0));
        submit(&stream, 20);
        assert_eq!(stream.submitting(op(30), 0), None, "there is other work");
    }

    #[test]
    fn what_is_folded_while_another_call_submits_is_counted_beside_it() {
        let stream = new();
        let (known, until) = stream.submissions();
        let mut learnt = known;
        learnt.learn(op(8), 9, until);
        // Another thread's call meanwhile, which the driver refuses.
        let number = stream.submitting(op(10), 0);
        stream.put_submissions(&known, &learnt);
        stream.submitted(11);
        stream.refused(number.unwrap(), 11);
        assert_eq!(stream.submitted_count(), 2);
        assert!(stream.busy(0), "the launch that was folded is in flight");
    }

    #[test]
    fn partial_completion_moves_the_oldest_operation_on() {
        let stream = new();
        for at in [10, 20, 30] {
            submit(&stream, at);
        }
        stream.complete_until(25); // an event recorded at 25 has completed
        assert_eq!(stream.oldest(0), Some(op(30)));
    }

    #[test]
    fn what_is_outstanding_is_counted_from_the_last_time_it_was_known() {
        let stream = new();
        assert_eq!(stream.outstanding_count(0), 0);
        for at in [10, 20, 30] {
            submit(&stream, at);
        }
        assert_eq!(stream.outstanding_count(0), 3);
        stream.passed(2); // an event behind the second operation has completed
        assert_eq!(stream.outstanding_count(0), 1);
        assert_eq!(stream.outstanding_count(100), 0);
        stream.complete_until(100);
        submit(&stream, 110);
        assert_eq!(stream.outstanding_count(0), 1);
    }

    #[test]
    fn what_was_submitted_has_ended_when_the_stream_is_complete_up_to_it_or_gone() {
        let stream = new();
        submit(&stream, 10);
        assert!(!stream.has_ended(10, 0) && stream.has_ended(10, 10));
        stream.complete_until(10);
        assert!(stream.has_ended(10, 0) && !stream.has_ended(11, 0));
        stream.end();
        assert!(stream.has_ended(11, 0));
        stream.begin(8, 1, 0, StreamKind::NonBlocking, 20);
        assert!(stream.has_ended(11, 0), "that was another stream");
    }

    #[test]
    fn an_entry_used_again_starts_idle() {
        let stream = new();
        submit(&stream, 10);
        stream.end();
        assert!(!stream.busy(0));
        stream.begin(8, 1, 0, StreamKind::NonBlocking, 20);
        assert!(!stream.busy(0));
        assert_eq!(stream.kind(), StreamKind::NonBlocking);
    }
}
