//! The fast path of a launch that is like an earlier one.
//!
//! A program launches the same functions on the same streams over and over. The first such launch looks everything up, and the thread's
//! slot keeps the results as offsets into the recording. They hold for later launches of the same epoch, in which no handle changes its
//! meaning. A [`CachedLaunch`] holds all results of one function on one stream. It is made of a `CachedStream`, which holds those of
//! the stream, and of the cache of loaded functions, which holds more entries. The record, the mark and the stream's times are
//! written by the functions of the slow path.
//!
//! The steps are those of [`CallStep`], as on the slow path (`hooks::call` of the shim). Whatever is out of the ordinary, also a
//! segment that is full, sends the launch there.
//!
//! Must not: panic, allocate, lock, or look anything up.

use super::caches::{place_of, CachedLaunch, CACHED_LAUNCHES};
use super::call_step::CallStep;
use super::stream::{outstanding, raise_submitted, refused, submitting, Words};
use super::thread::{Caller, ThreadSlot};
use crate::api::{EntryPoint, Operation};
use crate::sync::{fence, AtomicU64, Ordering};
use crate::trace::layout::{context as place, flag, record};
use crate::trace::{put_record, Lane, Place, RawPayload, Record};
use crate::Nanos;

/// How often a cached_stream to a default stream uses_left a [`CachedLaunch`], and this a launch, before it is asked again what the current
/// context is: it may have been changed by a way that is not hooked.
const DEFAULT_STREAM_USES: u32 = 64;

/// The stream of a launch, as the slow path found it.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The stream's handle, as the program passes it, made different where a default stream is the thread's own.
    pub stream: u64,
    /// Its number.
    pub number: u32,
    /// The context's number.
    pub context: u32,
    /// Whether the handle is one of a default stream, which means another stream in another context.
    pub default_stream: bool,
}

/// A launch on the fast path, between its two halves.
#[derive(Clone, Copy)]
pub struct FastLaunch {
    place: Place<'static>,
    stream: Words,
    first: Option<u64>,
}

impl FastLaunch {
    /// Its record, for the thread that has just made it.
    pub fn record(&self) -> Option<Record> {
        Record::from_words(&std::array::from_fn(|word| self.place[word].load(Ordering::Relaxed)))
    }

    /// How many operations were outstanding on its stream at most, itself included, as far as is known.
    pub fn outstanding_count(&self) -> u64 {
        match self.first {
            Some(_) => 1,
            None => outstanding(self.stream),
        }
    }
}

/// A launch as it comes.
#[derive(Clone, Copy, Debug)]
pub struct LaunchFacts {
    /// The call.
    pub entry_point: EntryPoint,
    /// From where it was made.
    pub caller: Caller,
    /// The function's handle.
    pub function: u64,
    /// The stream's, as [`Known::stream`].
    pub stream: u64,
    /// Its grid, block and shared memory.
    pub raw: RawPayload,
}

impl ThreadSlot {
    /// From now on launches on this stream may take the fast path; `epoch` is the one for which everything was looked up.
    pub fn remember_stream(&self, epoch: u32, known: &Known) {
        let Some((stream_at, context_at)) = self.recorder.places_of(known.number, known.context) else { return };
        let cached_streams = self.caches().map_or(&[][..], |caches| &caches.cached_streams);
        let Some(cached_stream) = cached_streams.get(place_of(known.stream, cached_streams.len())) else { return };
        cached_stream.stream.store(known.stream, Ordering::Relaxed);
        cached_stream.epoch.store(epoch, Ordering::Relaxed);
        let uses_left = if known.default_stream { DEFAULT_STREAM_USES } else { u32::MAX };
        cached_stream.uses_left.store(uses_left, Ordering::Relaxed);
        cached_stream.uses_per_launch.store(uses_left, Ordering::Relaxed);
        cached_stream.number.store(known.number, Ordering::Relaxed);
        cached_stream.context.store(known.context, Ordering::Relaxed);
        cached_stream.stream_at.store(stream_at, Ordering::Relaxed);
        cached_stream.context_at.store(context_at, Ordering::Relaxed);
    }

    /// The first half of a launch: up to its mark. `None` if it has to take the slow path; nothing has been done then.
    #[inline(always)]
    pub fn begin_fast(
        &self,
        facts: LaunchFacts,
        epoch: u32,
        now: fn() -> Nanos,
    ) -> Option<(FastLaunch, FastOperation)> {
        // First of all: a signal handler that launches from here on passes untouched, and leaves the writer and the cached_streams
        // as they are.
        if !self.enter(facts.caller) {
            return None;
        }
        let begun = self.begin_entered(facts, epoch, now);
        if begun.is_none() {
            self.leave();
        }
        begun
    }

    #[inline(always)]
    fn cached(&self, function: u64, stream: u64) -> &CachedLaunch {
        &self.launches[place_of(function ^ stream.rotate_left(23), CACHED_LAUNCHES) % CACHED_LAUNCHES]
    }

    /// Makes the cached of this function and stream hold, from what else the thread remembers; `false` if it does not.
    #[cold]
    #[inline(never)]
    fn renew_launch(&self, function: u64, stream: u64, epoch: u32) -> bool {
        let renewed = || {
            let caches = self.caches()?;
            let cached_stream = caches.cached_streams.get(place_of(stream, caches.cached_streams.len()))?;
            let uses_left = cached_stream.uses_left.load(Ordering::Relaxed);
            let holds = cached_stream.stream.load(Ordering::Relaxed) == stream
                && cached_stream.epoch.load(Ordering::Relaxed) == epoch
                && uses_left != 0;
            let context = cached_stream.context.load(Ordering::Relaxed);
            let function_number = self.cached_loaded_function(function, context, epoch).filter(|_| holds)?;
            cached_stream.uses_left.store(uses_left - 1, Ordering::Relaxed);
            let cached = self.cached(function, stream);
            cached.function.store(function, Ordering::Relaxed);
            cached.stream.store(stream, Ordering::Relaxed);
            cached.epoch.store(epoch, Ordering::Relaxed);
            cached.uses_left.store(cached_stream.uses_per_launch.load(Ordering::Relaxed), Ordering::Relaxed);
            cached.function_number.store(function_number, Ordering::Relaxed);
            cached.stream_number.store(cached_stream.number.load(Ordering::Relaxed), Ordering::Relaxed);
            cached.context.store(context, Ordering::Relaxed);
            cached.stream_at.store(cached_stream.stream_at.load(Ordering::Relaxed), Ordering::Relaxed);
            cached.context_at.store(cached_stream.context_at.load(Ordering::Relaxed), Ordering::Relaxed);
            Some(())
        };
        renewed().is_some()
    }

    #[inline(always)]
    fn begin_entered(&self, facts: LaunchFacts, epoch: u32, now: fn() -> Nanos) -> Option<(FastLaunch, FastOperation)> {
        let LaunchFacts { entry_point, caller, function, stream, .. } = facts;
        let cached = self.cached(function, stream);
        let holds = cached.function.load(Ordering::Relaxed) == function
            && cached.stream.load(Ordering::Relaxed) == stream
            && cached.epoch.load(Ordering::Relaxed) == epoch
            && cached.uses_left.load(Ordering::Relaxed) != 0;
        if !holds && !self.renew_launch(function, stream, epoch) {
            return None;
        }
        let writer = &self.writers[Lane::Work as usize];
        let at = self.recorder.place(writer)?;
        let words = self.recorder.words();
        let stream_words: Words = words.get(cached.stream_at.load(Ordering::Relaxed)..)?.first_chunk()?;
        let idle_until = words.get(cached.context_at.load(Ordering::Relaxed)..)?.get(place::IDLE_UNTIL)?;
        cached.uses_left.store(cached.uses_left.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        let function = cached.function_number.load(Ordering::Relaxed);
        // Nothing sends the launch to the slow path any more.
        CallStep::Enter.taken();
        let entered = now();
        // See `ThreadSlot::open`.
        fence(Ordering::Release);
        put_record(
            at,
            &Record {
                flags: flag::SUBMITTED,
                entered,
                stream: cached.stream_number.load(Ordering::Relaxed),
                function,
                context: cached.context.load(Ordering::Relaxed) as u16,
                caller: caller.address as u64,
                raw: facts.raw,
                ..Record::of(entry_point)
            },
        );
        CallStep::Write.taken();
        self.set_mark(self.mark_of(entry_point, Lane::Work, true));
        CallStep::Mark.taken();
        let operation = Operation { at: entered, entry_point: entry_point.id(), function };
        Some((FastLaunch { place: at, stream: stream_words, first: None }, FastOperation { operation, idle_until }))
    }

    /// Between the halves, once the gate has let the launch through: the operation is about to be submitted.
    #[inline(always)]
    pub fn submit_fast(&self, launch: &mut FastLaunch, submits: &FastOperation) {
        self.count_call();
        self.count_launch();
        launch.first = submitting(launch.stream, submits.operation, submits.idle_until.load(Ordering::Relaxed));
        CallStep::Submit.taken();
    }

    /// The launch has not been made, and takes the slow path.
    pub fn cancel_fast(&self) {
        self.unmark();
        self.leave();
    }

    /// The second half: the launch has returned. Returns whether it blocked the host for so long.
    #[inline(always)]
    pub fn end_fast(&self, launch: FastLaunch, returned: Nanos, result: i32, long: Nanos) -> bool {
        let took = returned.wrapping_sub(launch.place[record::ENTERED].load(Ordering::Relaxed));
        let head = launch.place[record::HEAD].load(Ordering::Relaxed);
        launch.place[record::RETURNED].store(returned, Ordering::Relaxed);
        launch.place[record::HEAD].store(head | u64::from(result as u32) << 32, Ordering::Relaxed);
        self.recorder.complete(&self.writers[Lane::Work as usize]);
        CallStep::Complete.taken();
        raise_submitted(launch.stream, returned);
        if let (Some(number), true) = (launch.first, result != 0) {
            refused(launch.stream, number, returned);
        }
        CallStep::Settle.taken();
        self.unmark();
        CallStep::Unmark.taken();
        self.leave();
        CallStep::Leave.taken();
        took >= long
    }
}

/// The operation of a launch on the fast path, and what is known of its context.
#[derive(Clone, Copy)]
pub struct FastOperation {
    operation: Operation,
    idle_until: &'static AtomicU64,
}
