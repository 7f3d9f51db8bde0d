//! One stream: what was submitted, what is known to be complete, and the oldest operation that is not.
//!
//! Protocol: any thread may submit to a stream at any time. `last_submitted` is raised when a submitting call is entered
//! and again when it has returned; `complete_until` is raised to the moment at which a synchronize or a successful query
//! was *entered*. The stream is known to be idle when the first does not exceed the second. A submission that overlaps
//! the query therefore leaves the stream busy, which is the safe answer.

use super::history::{History, ValueWait};
use super::operation::{Operation, OperationCell};
use crate::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};

const RECENT: usize = 32;

/// What kind of stream a handle means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Created by the program, synchronizing with the legacy default stream.
    Blocking,
    /// Created by the program with `CU_STREAM_NON_BLOCKING`.
    NonBlocking,
    /// The legacy default stream of a context.
    Legacy,
    /// A thread's own default stream.
    PerThread,
    /// A handle whose creation was not seen.
    Unknown,
}

impl StreamKind {
    const ALL: [Self; 5] = [Self::Unknown, Self::Blocking, Self::NonBlocking, Self::Legacy, Self::PerThread];
}

/// See the module.
pub struct Stream {
    handle: AtomicU64,
    context: AtomicU32,
    thread: AtomicU32,
    kind: AtomicU8,
    alive: AtomicBool,
    capturing: AtomicBool,
    destroyed: AtomicBool,
    submitted: AtomicU64,
    last_submitted: AtomicU64,
    complete_until: AtomicU64,
    first_since_idle: OperationCell,
    recent: [OperationCell; RECENT],
    waits: History<ValueWait>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            handle: AtomicU64::new(0),
            context: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            kind: AtomicU8::new(0),
            alive: AtomicBool::new(false),
            capturing: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            submitted: AtomicU64::new(0),
            last_submitted: AtomicU64::new(0),
            complete_until: AtomicU64::new(0),
            first_since_idle: OperationCell::default(),
            recent: std::array::from_fn(|_| OperationCell::default()),
            waits: History::keeping(512),
        }
    }
}

impl Stream {
    pub(super) fn begin(&self, handle: u64, context: u32, thread: u32, kind: StreamKind, now: Nanos) {
        let kind = StreamKind::ALL.iter().position(|&k| k == kind).unwrap_or(0) as u8;
        self.handle.store(handle, Ordering::Relaxed);
        self.context.store(context, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Relaxed);
        self.capturing.store(false, Ordering::Relaxed);
        self.destroyed.store(false, Ordering::Relaxed);
        self.submitted.store(0, Ordering::Relaxed);
        self.last_submitted.store(0, Ordering::Relaxed);
        // Whatever the entry's former user left in flight is not this stream's.
        self.complete_until.store(now, Ordering::Relaxed);
        // Release: a reader that sees the stream alive (Acquire in `alive`) sees the facts above.
        self.alive.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Whether the stream exists. Partner of the Release in `begin`.
    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The program's handle.
    pub fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    /// The context's number.
    pub fn context(&self) -> u32 {
        self.context.load(Ordering::Relaxed)
    }

    /// The thread whose default stream it is, or 0.
    pub fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// What kind of stream it is.
    pub fn kind(&self) -> StreamKind {
        StreamKind::ALL.get(usize::from(self.kind.load(Ordering::Relaxed))).copied().unwrap_or(StreamKind::Unknown)
    }

    /// Whether the program has destroyed it while work was outstanding: the driver lets that end, and its handle means
    /// nothing any more.
    pub fn destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Relaxed)
    }

    pub(super) fn set_destroyed(&self) {
        self.destroyed.store(true, Ordering::Relaxed);
    }

    /// Whether a capture is in progress on it, as far as was seen.
    pub fn capturing(&self) -> bool {
        self.capturing.load(Ordering::Relaxed)
    }

    pub(super) fn set_capturing(&self, capturing: bool) -> bool {
        self.capturing.swap(capturing, Ordering::Relaxed)
    }

    /// A submitting call is about to be made.
    ///
    /// Returns the number that [`Stream::refused`] wants if the stream was idle, so that the operation is all there is.
    pub fn submitting(&self, op: Operation, idle_until: Nanos) -> Option<u64> {
        let until = self.complete_until.load(Ordering::Relaxed).max(idle_until);
        let was_idle = self.last_submitted.load(Ordering::Relaxed) <= until;
        if was_idle {
            self.first_since_idle.store(op);
        }
        // Not an atomic addition, which would be the dearest instruction of a launch: two threads that submit to one stream
        // in the same moment may count as one.
        let number = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(number + 1, Ordering::Relaxed);
        self.recent[number as usize % RECENT].store(op);
        self.raise_submitted(op.at);
        was_idle.then_some(number + 1)
    }

    /// The driver refused the operation that this number was given for, and the call has returned: if nothing was submitted
    /// since, the stream is as idle as it was.
    pub fn refused(&self, number: u64, now: Nanos) {
        if self.submitted.load(Ordering::Relaxed) == number {
            self.complete_until(now);
        }
    }

    /// A submitting call has returned.
    pub fn submitted(&self, now: Nanos) {
        self.raise_submitted(now);
    }

    fn raise_submitted(&self, now: Nanos) {
        // A plain raise, not `fetch_max`: that is a compare-and-swap loop on the path of every launch. Two threads that
        // submit to one stream in the same moment may leave the older of two almost equal times.
        if self.last_submitted.load(Ordering::Relaxed) < now {
            self.last_submitted.store(now, Ordering::Relaxed);
        }
    }

    /// Everything submitted before `entered` is complete.
    pub fn complete_until(&self, entered: Nanos) {
        self.complete_until.fetch_max(entered, Ordering::Relaxed);
    }

    /// How many operations were submitted.
    pub fn submitted_count(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// When the newest submission returned.
    pub fn last_submitted(&self) -> Nanos {
        self.last_submitted.load(Ordering::Relaxed)
    }

    /// Whether something submitted is not known to be complete; `idle_until` is what is known of the whole context.
    pub fn busy(&self, idle_until: Nanos) -> bool {
        self.alive() && self.last_submitted() > self.complete_until.load(Ordering::Relaxed).max(idle_until)
    }

    /// The oldest operation that is not known to be complete, if the stream is busy.
    pub fn oldest(&self, idle_until: Nanos) -> Option<Operation> {
        if !self.busy(idle_until) {
            return None;
        }
        let until = self.complete_until.load(Ordering::Relaxed).max(idle_until);
        let first = self.first_since_idle.load();
        if first.at > until {
            return Some(first);
        }
        // Part of what was outstanding has completed since: the oldest of the newest operations that is past that part.
        // Where a synchronize overlapped the last submission, nothing is past it; then the last one is what is outstanding.
        let recent = || self.recent.iter().map(OperationCell::load);
        recent().filter(|op| op.at > until).min_by_key(|op| op.at).or_else(|| recent().max_by_key(|op| op.at))
    }

    /// A wait for a value was submitted.
    pub fn waits_for(&self, wait: ValueWait) {
        self.waits.push(wait);
    }

    /// The waits that are not known to be satisfied, oldest first.
    pub fn unsatisfied(&self, idle_until: Nanos) -> Vec<ValueWait> {
        if !self.busy(idle_until) {
            return Vec::new();
        }
        let until = self.complete_until.load(Ordering::Relaxed).max(idle_until);
        self.waits.copy_soon().into_iter().filter(|w| w.at > until).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(at: Nanos) -> Operation {
        Operation { at, form: 1, function: at as u32 }
    }

    fn submit(stream: &Stream, at: Nanos) {
        stream.submitting(op(at), 0);
        stream.submitted(at + 1);
    }

    fn new() -> Stream {
        let stream = Stream::default();
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
    fn partial_completion_moves_the_oldest_operation_on() {
        let stream = new();
        for at in [10, 20, 30] {
            submit(&stream, at);
        }
        stream.complete_until(25); // an event recorded at 25 has completed
        assert_eq!(stream.oldest(0), Some(op(30)));
    }

    #[test]
    fn a_wait_is_unsatisfied_until_the_stream_has_passed_it() {
        let stream = new();
        let wait = ValueWait { at: 10, address: 0x100, value: 1, flags: 1, wide: false };
        submit(&stream, 10);
        stream.waits_for(wait);
        assert_eq!(stream.unsatisfied(0), [wait]);
        stream.complete_until(20);
        assert!(stream.unsatisfied(0).is_empty());
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
