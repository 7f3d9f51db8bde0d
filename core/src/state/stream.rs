//! One stream: what was submitted, what is known to be complete, and the oldest operation that is not.
//!
//! Protocol: any thread may submit to a stream at any time. A submitting call raises `last_submitted` when it is entered and again
//! when it has returned. A synchronize or a successful query raises `complete_until` to the moment at which it was *entered*. The
//! stream is known to be idle when the first does not exceed the second. A submission that overlaps the query therefore leaves the
//! stream busy, which is the safe answer.

use super::operation;
use crate::api::{oldest_outstanding, Operation, StreamKind, Submissions};
use crate::sync::{AtomicU64, Ordering};
use crate::trace::layout::stream as place;
use crate::Nanos;

/// See the module. What readers need of it after the process is gone lies in the recording's table of streams.
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

    /// A submitting call is about to be made.
    ///
    /// Returns the number that [`Stream::refused`] wants if the stream was idle, so that the operation is all there is.
    #[inline]
    pub fn submitting(&self, op: Operation, idle_until: Nanos) -> Option<u64> {
        submitting(self.words, op, idle_until)
    }

    /// The driver refused the operation that this number was given for, and the call has returned: if nothing was submitted
    /// since, the stream is as idle as it was.
    pub fn refused(&self, number: u64, now: Nanos) {
        refused(self.words, number, now);
    }

    /// The driver refused the launch that was entered at `at`, and that has been folded: if it is all that is known to be on the stream, the
    /// stream is as idle as it was.
    pub fn refused_alone(&self, at: Nanos, now: Nanos) {
        if operation::get(self.words, place::FIRST_SINCE_IDLE).at == at && outstanding(self.words) <= 1 {
            self.complete_until(now);
        }
    }

    /// A submitting call has returned.
    #[inline]
    pub fn submitted(&self, now: Nanos) {
        raise_submitted(self.words, now);
    }

    /// Everything submitted before `entered` is complete.
    pub fn complete_until(&self, entered: Nanos) {
        self.words[place::COMPLETE_UNTIL].fetch_max(entered, Ordering::Relaxed);
    }

    pub fn submitted_count(&self) -> u64 {
        self.get(place::SUBMITTED)
    }

    /// Of the operations submitted, the first so many are known to have ended.
    pub fn passed(&self, number: u64) {
        self.words[place::PASSED].fetch_max(number, Ordering::Relaxed);
    }

    /// How many operations are outstanding at most, as far as is known.
    pub fn outstanding_count(&self, idle_until: Nanos) -> u64 {
        if self.busy(idle_until) {
            outstanding(self.words)
        } else {
            0
        }
    }

    /// Whether what was submitted at this moment is known to have ended; also where the stream is gone, and another one has its
    /// number.
    pub fn has_ended(&self, at: Nanos, idle_until: Nanos) -> bool {
        !self.alive() || self.get(place::BORN) > at || self.get(place::COMPLETE_UNTIL).max(idle_until) >= at
    }

    pub fn last_submitted(&self) -> Nanos {
        self.get(place::LAST_SUBMITTED)
    }

    /// Whether something submitted is not known to be complete; `idle_until` is what is known of the whole context.
    pub fn busy(&self, idle_until: Nanos) -> bool {
        self.alive() && self.last_submitted() > self.get(place::COMPLETE_UNTIL).max(idle_until)
    }

    /// The oldest operation that is not known to be complete, if the stream is busy.
    pub fn oldest(&self, idle_until: Nanos) -> Option<Operation> {
        if !self.busy(idle_until) {
            return None;
        }
        let until = self.get(place::COMPLETE_UNTIL).max(idle_until);
        let recent = (0..place::RECENT_COUNT).map(|n| operation::get(self.words, place::RECENT + n * 2));
        oldest_outstanding(operation::get(self.words, place::FIRST_SINCE_IDLE), recent, until)
    }
}

fn outstanding(words: Words) -> u64 {
    let get = |word: usize| words[word].load(Ordering::Relaxed);
    get(place::SUBMITTED).saturating_sub(get(place::PASSED))
}

/// See [`Stream::submitting`].
///
/// Another thread may submit, or fold, in the same moment. Each raises the time before the count, and this call takes the count before the
/// time: if it finds the stream idle and its own addition comes next to that count, no other operation is counted in its number.
#[inline(always)]
fn submitting(words: Words, op: Operation, idle_until: Nanos) -> Option<u64> {
    let get = |word: usize| words[word].load(Ordering::Relaxed);
    // Acquire, here and below: partner of the Release in `add_submitted`.
    let number = words[place::SUBMITTED].load(Ordering::Acquire);
    let until = get(place::COMPLETE_UNTIL).max(idle_until);
    let was_idle = get(place::LAST_SUBMITTED) <= until;
    if was_idle {
        operation::put(words, place::FIRST_SINCE_IDLE, op);
        words[place::PASSED].store(number, Ordering::Relaxed);
    }
    put_recent(words, number, op);
    raise_submitted(words, op.at);
    let is_next = add_submitted(words, 1) == number;
    (was_idle && is_next).then_some(number.wrapping_add(1))
}

/// Counts operations, the time of the last of which has been raised; returns how many there were before.
fn add_submitted(words: Words, count: u64) -> u64 {
    words[place::SUBMITTED].fetch_add(count, Ordering::AcqRel)
}

#[inline(always)]
fn raise_submitted(words: Words, now: Nanos) {
    words[place::LAST_SUBMITTED].fetch_max(now, Ordering::Relaxed);
}

/// A launch that is folded later is in progress: the stream is busy with it. It is counted when it is folded.
pub(super) fn is_submitting(words: Words, op: Operation, idle_until: Nanos) {
    let get = |word: usize| words[word].load(Ordering::Relaxed);
    if get(place::LAST_SUBMITTED) <= get(place::COMPLETE_UNTIL).max(idle_until) {
        operation::put(words, place::FIRST_SINCE_IDLE, op);
        words[place::PASSED].store(get(place::SUBMITTED), Ordering::Relaxed);
    }
    raise_submitted(words, op.at);
}

/// What is known of the submissions to a stream, and until when they are complete.
pub(super) fn submissions(words: Words) -> (Submissions, Nanos) {
    let get = |word: usize| words[word].load(Ordering::Relaxed);
    let known = Submissions {
        count: get(place::SUBMITTED),
        ended: get(place::PASSED),
        last: get(place::LAST_SUBMITTED),
        first_since_idle: operation::get(words, place::FIRST_SINCE_IDLE),
    };
    (known, get(place::COMPLETE_UNTIL))
}

/// Stores what has been learnt since; the operations themselves are there ([`put_recent`]).
pub(super) fn put_submissions(words: Words, known: &Submissions, learnt: &Submissions) {
    if learnt.first_since_idle != known.first_since_idle {
        operation::put(words, place::FIRST_SINCE_IDLE, learnt.first_since_idle);
    }
    words[place::PASSED].store(learnt.ended, Ordering::Relaxed);
    raise_submitted(words, learnt.last);
    add_submitted(words, learnt.count.wrapping_sub(known.count));
}

/// Stores an operation among the newest ones, as the one of this number.
#[inline(always)]
pub(super) fn put_recent(words: Words, number: u64, op: Operation) {
    operation::put(words, place::RECENT + number as usize % place::RECENT_COUNT * 2, op);
}

fn refused(words: Words, number: u64, now: Nanos) {
    if words[place::SUBMITTED].load(Ordering::Acquire) == number {
        words[place::COMPLETE_UNTIL].fetch_max(now, Ordering::Relaxed);
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
        let (known, until) = submissions(stream.words);
        let mut learnt = known;
        learnt.learn(op(8), 9, until);
        // Another thread's call meanwhile, which the driver refuses.
        let number = stream.submitting(op(10), 0);
        put_submissions(stream.words, &known, &learnt);
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
