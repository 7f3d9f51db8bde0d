//! The fast path of a submission that is like an earlier one of its thread: a launch of the same function, another call about the same object or
//! about none, on the same stream.
//!
//! The first one looks everything up, and the thread keeps the results for the epoch, in which no handle changes its
//! meaning. A later one writes its record and the mark. `state::fold` brings the record into the stream's entry, whose lines of memory the driver
//! has pushed out of the nearest cache. The steps are those of [`CallStep`], as on the slow path (`hooks::call` of the shim), to which anything out
//! of the ordinary sends the submission.
//!
//! Must not: panic, allocate, lock, or look anything up.

use super::caches::{place_of_launch, CachedLaunch, Line};
use super::call_step::CallStep;
use super::thread::{enter, leave, mark_at, unmark, Caller, ThreadEntry, ThreadSlot, FLAGS_AT};
use crate::api::{Class, EntryPoint};
use crate::sync::{fence, Ordering};
use crate::trace::layout::{flag, record, thread as place};
use crate::trace::{complete_at, place_at, put_submission, subject_of, Cursor, Place, Places, RawPayload, Record};
use crate::Nanos;
use std::sync::atomic::{compiler_fence, AtomicUsize};

/// How many launches on a default stream the first cache entry of a thread serves before the guard asks the driver for the current context, which an
/// unhooked function may have changed. Each further entry serves one less: some two thousand launches in all.
const DEFAULT_STREAM_USES: u32 = 64;

/// The bits of a program's addresses.
const ADDRESS_BITS: u32 = 48;

#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The stream's handle, as the program passes it, made different where a default stream is the thread's own.
    pub stream: u64,
    pub number: u32,
    pub context: u32,
    /// Whether the handle is one of a default stream, which means another stream in another context.
    pub default_stream: bool,
}

/// The parts of a thread's slot that a launch needs; the thread keeps them at hand. A launch then does not touch the slot itself, which is other lines
/// of memory. Each part is asked for when it is needed, and so is in no register before.
pub trait AtHand<'a>: Copy {
    fn entry(self) -> ThreadEntry;
    fn places(self) -> Places<'static>;
    fn known(self) -> &'a [CachedLaunch];
    fn slot(self) -> &'a ThreadSlot;
}

impl<'a> AtHand<'a> for &'a ThreadSlot {
    fn entry(self) -> ThreadEntry {
        self.entry
    }

    fn places(self) -> Places<'static> {
        self.places
    }

    fn known(self) -> &'a [CachedLaunch] {
        self.known_launches()
    }

    fn slot(self) -> &'a ThreadSlot {
        self
    }
}

#[derive(Clone, Copy)]
pub struct FastSubmission {
    place: Place<'static>,
    entry: ThreadEntry,
    /// The number of the launched function, or of another call's object.
    pub number: u32,
}

impl FastSubmission {
    pub fn record(&self) -> Option<Record> {
        Record::from_words(&std::array::from_fn(|word| self.place[word].load(Ordering::Relaxed)))
    }

    /// Counts the call between the halves, once the gate has let it through.
    #[inline(always)]
    pub fn submit(self, is_launch: bool) {
        self.one_more::<{ place::CALLS }>();
        if is_launch {
            self.one_more::<{ place::LAUNCHES }>();
        }
        CallStep::Submit.taken();
    }

    /// A place that the compiler did not know would be checked, and the check can panic.
    #[inline(always)]
    fn one_more<const PLACE: usize>(self) {
        self.entry[PLACE].store(self.entry[PLACE].load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn stream_and_context(&self) -> (u32, u32) {
        let [subject, place] = [record::SUBJECT, record::PLACE].map(|word| self.place[word].load(Ordering::Relaxed));
        (subject as u32, u32::from(place as u16))
    }

    #[inline(always)]
    pub fn entered(&self) -> Nanos {
        self.place[record::ENTERED].load(Ordering::Relaxed)
    }

    /// The call gave out this address: its record says so.
    #[inline(always)]
    pub fn gave_out(&self, what: u64) {
        self.place[record::DETAIL].store(what, Ordering::Relaxed);
    }

    /// The place of the thread's next record, unless this segment is full then: memory that the processor may fetch meanwhile.
    #[inline(always)]
    pub fn next_place(self) -> *const u8 {
        self.place.as_ptr().wrapping_add(record::WORDS).cast()
    }

    pub fn cancel(self) {
        unmark(self.entry);
        leave(self.entry);
    }

    /// The second half: the call has returned. Returns whether it blocked the host for so long.
    #[inline(always)]
    pub fn end(self, returned: Nanos, result: i32, long: Nanos) -> bool {
        let took = returned.wrapping_sub(self.entered());
        self.place[record::RETURNED].store(returned, Ordering::Relaxed);
        if result != 0 {
            let head = self.place[record::HEAD].load(Ordering::Relaxed);
            self.place[record::HEAD].store(head | u64::from(result as u32) << 32, Ordering::Relaxed);
        }
        complete_at(&self.entry[place::CURSOR]);
        CallStep::Complete.taken();
        // A fold brings the submission into its stream's entry later.
        CallStep::Settle.taken();
        unmark(self.entry);
        CallStep::Unmark.taken();
        leave(self.entry);
        CallStep::Leave.taken();
        took >= long
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SubmissionFacts {
    /// The head of the record: one number, where the compiler knows the call.
    head: u64,
    pub is_launch: bool,
    /// The function of a launch. Another call has the handle of its object, or 0, made different from those of functions: see [`object_key`].
    pub object: u64,
    /// The stream's, as [`Known::stream`].
    stream: u64,
    pub raw: RawPayload,
}

impl SubmissionFacts {
    #[inline(always)]
    pub fn of(entry_point: EntryPoint, object: u64, stream: u64, raw: RawPayload) -> Self {
        let flags = flag::SUBMITTED | flag::FOLDED_LATER;
        let [head, ..] = Record { flags, ..Record::of(entry_point) }.to_words();
        Self { head, is_launch: entry_point.class() == Class::Launch, object, stream, raw }
    }

    /// The same with these flags, which calls of its kind have.
    #[inline(always)]
    pub fn with(self, flags: u8) -> Self {
        Self { head: self.head | u64::from(flags) << FLAGS_AT, ..self }
    }
}

/// The number of the call in bits that no address has, so that objects of different calls differ.
#[inline(always)]
pub fn object_key(entry_point: EntryPoint, handle: u64) -> u64 {
    handle | u64::from(entry_point.id()) << ADDRESS_BITS
}

impl ThreadSlot {
    /// From now on submissions to this stream may take the fast path; `epoch` is the one for which the slow path looked everything up.
    pub fn remember_stream(&self, epoch: u32, known: &Known) {
        // A stream or context without an entry has none that a launch could be folded into, and a thread without one has no cursor there.
        let is_counted = self.recorder.thread_entry(self.number.wrapping_sub(1) as usize).is_some();
        if is_counted && self.recorder.have_entries(known.number, known.context) {
            let uses_left = if known.default_stream { DEFAULT_STREAM_USES } else { u32::MAX };
            let Some(caches) = self.caches() else { return };
            // Before the first fast launch: see `launchers`.
            self.launchers.add(self.number, known.number);
            caches.launch_streams.put_line(known.stream, epoch, |_| true, known.context, known.number, uses_left);
        }
    }

    /// The launches that the owner knows. The table grows once they push each other out. Only the slow path may call this: it allocates.
    pub fn known_launches(&self) -> &[CachedLaunch] {
        self.launches.grown()
    }

    /// The entry of this function and stream, where it is not in its place among those at hand: beside it or in a newer table, or filled from
    /// the thread's other caches; `None` if they do not hold it.
    #[cold]
    #[inline(never)]
    fn renew_launch(&self, function: u64, stream: u64, epoch: u32) -> Option<&CachedLaunch> {
        let cached = self.launches.entry_for(function, stream, epoch)?;
        if cached.serves(function, stream, epoch) {
            return Some(cached);
        }
        let caches = self.caches()?;
        let of_stream = caches.launch_streams.line(stream, epoch, |_| true)?;
        let context = of_stream.context.load(Ordering::Relaxed);
        let of_function = caches.functions.line(function, epoch, Line::of_context(context))?;
        let uses_left = of_stream.uses_left.load(Ordering::Relaxed);
        // All functions share the uses of a default stream.
        of_stream.uses_left.store(uses_left.checked_sub(1)?, Ordering::Relaxed);
        // A signal handler that leaves this by a jump leaves an entry that serves nothing, or all of it.
        cached.epoch.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        cached.function.store(function, Ordering::Relaxed);
        cached.stream.store(stream, Ordering::Relaxed);
        cached.uses_left.store(uses_left, Ordering::Relaxed);
        let [stream_number, number] = [of_stream, of_function].map(|line| line.number.load(Ordering::Relaxed));
        cached.number.store(number, Ordering::Relaxed);
        // See `object_key`.
        let is_launch = function >> ADDRESS_BITS == 0;
        let subject = subject_of(stream_number, if is_launch { number } else { 0 });
        cached.subject.store(subject, Ordering::Relaxed);
        cached.path.store(of_function.path.load(Ordering::Relaxed), Ordering::Relaxed);
        // A stream whose context has no entry is not remembered, and there are fewer of these than 2^16.
        cached.context.store(context as u16, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        cached.epoch.store(epoch, Ordering::Relaxed);
        Some(cached)
    }
}

/// The first half of a launch: up to its mark. `None` if it has to take the slow path; nothing has been done then. From where the launch was made is
/// asked twice, and so is in no register in between; `from` makes the record's word of it ([`crate::trace::from_word`]) by what is kept of the path of
/// an earlier launch, or says that this one came by another path, which the slow path is to find.
#[inline(always)]
pub fn begin_fast<'a>(
    hand: impl AtHand<'a>,
    facts: SubmissionFacts,
    caller: impl Fn() -> Caller,
    from: impl Fn(&AtomicUsize) -> Option<u64>,
    epoch: u32,
    now: fn() -> Nanos,
) -> Option<FastSubmission> {
    let entry = hand.entry();
    // First of all: a signal handler that launches from here on passes untouched, and leaves the writer and the caches as they are.
    if !enter(entry, caller()) {
        return None;
    }
    compiler_fence(Ordering::SeqCst);
    let begun = begin_entered(hand, entry, facts, from, epoch, now);
    if begun.is_none() {
        leave(entry);
    }
    begun
}

#[inline(always)]
fn begin_entered<'a>(
    hand: impl AtHand<'a>,
    entry: ThreadEntry,
    facts: SubmissionFacts,
    from: impl Fn(&AtomicUsize) -> Option<u64>,
    epoch: u32,
    now: fn() -> Nanos,
) -> Option<FastSubmission> {
    let known = hand.known();
    let cached = match known.get(place_of_launch(facts.object, facts.stream, known.len())) {
        Some(cached) if cached.serves(facts.object, facts.stream, epoch) => cached,
        _ => hand.slot().renew_launch(facts.object, facts.stream, epoch)?,
    };
    let cursor = Cursor(entry[place::CURSOR].load(Ordering::Relaxed));
    let place = place_at(cursor, hand.places())?;
    let Some(from) = from(&cached.path) else {
        // The slow path keeps what it finds with the function.
        cached.epoch.store(0, Ordering::Relaxed);
        return None;
    };
    cached.uses_left.store(cached.uses_left.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    // Nothing sends the launch to the slow path any more.
    CallStep::Enter.taken();
    // See `ThreadSlot::open`.
    fence(Ordering::Release);
    // The clock comes last: what is stored already need not be kept in registers while it is read.
    let subject = (cached.subject.load(Ordering::Relaxed), cached.context.load(Ordering::Relaxed));
    put_submission(place, facts.head, subject, from, facts.raw);
    place[record::ENTERED].store(now(), Ordering::Relaxed);
    CallStep::Write.taken();
    entry[place::MARK].store(mark_at(facts.head as u16, cursor), Ordering::Release);
    CallStep::Mark.taken();
    Some(FastSubmission { place, entry, number: cached.number.load(Ordering::Relaxed) })
}
