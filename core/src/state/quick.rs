//! The short way of a launch that is like an earlier one.
//!
//! A program launches the same functions on the same streams over and over. What had to be looked up for the first of such
//! launches is kept in the thread's slot, as places in the recording, and serves the next as long as no handle may have come to
//! mean something else: the epoch tells that. A [`Pair`] has all of it together; pairs are made of a [`Shortcut`] to the stream
//! and of the functions that are known to be loaded, of which there is room for more. Everything else that a launch does is done here
//! as on the long way, with the same functions: the record, the mark, the stream's times.
//!
//! The order of the steps, and what each is for, is that of the long way (`hooks::call` of the shim). Whatever is out of the
//! ordinary, also a segment that is full, sends the launch there.
//!
//! Must not: panic, allocate, lock, or look anything up.

use super::operation::Operation;
use super::stream::{outstanding, raise_submitted, refused, submitting, Words};
use super::thread::{place_of, Caller, ThreadSlot};
use crate::api::Form;
use crate::sync::{fence, AtomicU64, Ordering};
use crate::trace::layout::{context as place, flag, record};
use crate::trace::{put_record, Lane, Place, Record};
use crate::Nanos;
use std::sync::atomic::{AtomicU32, AtomicU64 as OwnU64, AtomicUsize};

/// Streams to which a thread keeps a shortcut, and launches of one function on one stream.
pub(super) const SHORTCUTS: usize = 256;
pub(super) const PAIRS: usize = 64;

/// How often a shortcut to a default stream serves a [`Pair`], and this a launch, before it is asked again what the current
/// context is: it may have been changed by a way that is not hooked.
const DEFAULT_STREAM_SERVES: u32 = 64;

/// What there is to know of the launches of one function on one stream, on one line of a processor's cache. The owning
/// thread's alone.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Pair {
    function: OwnU64,
    stream: OwnU64,
    /// The epoch for which it holds; its serves, which end with 0.
    epoch: AtomicU32,
    serves: AtomicU32,
    function_number: AtomicU32,
    stream_number: AtomicU32,
    context: AtomicU32,
    /// Where the entries of the stream and its context begin, in words of the recording.
    stream_at: AtomicUsize,
    context_at: AtomicUsize,
}

/// Where the launches on one stream lead, from which pairs are made. The owning thread's alone.
#[derive(Default)]
pub(super) struct Shortcut {
    stream: OwnU64,
    /// The epoch for which it holds; its serves, which end with 0, and those of each pair that is made of it.
    epoch: AtomicU32,
    serves: AtomicU32,
    serves_of_pair: AtomicU32,
    number: AtomicU32,
    context: AtomicU32,
    /// Where the entries of the stream and its context begin, in words of the recording.
    stream_at: AtomicUsize,
    context_at: AtomicUsize,
}

/// The stream of a launch, as the long way found it.
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

/// A launch on the short way, between its two halves.
#[derive(Clone, Copy)]
pub struct QuickLaunch {
    place: Place<'static>,
    stream: Words,
    first: Option<u64>,
}

impl QuickLaunch {
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

/// A launch as it comes; how big it is, packed as its record has it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchFacts {
    /// The call.
    pub form: Form,
    /// From where it was made.
    pub caller: Caller,
    /// The function's handle.
    pub function: u64,
    /// The stream's, as [`Known::stream`].
    pub stream: u64,
    /// The grid.
    pub extent: u64,
    /// The block.
    pub three: u64,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl ThreadSlot {
    /// From now on launches on this stream may take the short way; `epoch` is the one for which everything was looked up.
    pub fn remember_stream(&self, epoch: u32, known: &Known) {
        let Some((stream_at, context_at)) = self.recorder.places_of(known.number, known.context) else { return };
        let shortcuts = self.caches().map_or(&[][..], |caches| &caches.shortcuts);
        let Some(shortcut) = shortcuts.get(place_of(known.stream, shortcuts.len())) else { return };
        shortcut.stream.store(known.stream, Ordering::Relaxed);
        shortcut.epoch.store(epoch, Ordering::Relaxed);
        let serves = if known.default_stream { DEFAULT_STREAM_SERVES } else { u32::MAX };
        shortcut.serves.store(serves, Ordering::Relaxed);
        shortcut.serves_of_pair.store(serves, Ordering::Relaxed);
        shortcut.number.store(known.number, Ordering::Relaxed);
        shortcut.context.store(known.context, Ordering::Relaxed);
        shortcut.stream_at.store(stream_at, Ordering::Relaxed);
        shortcut.context_at.store(context_at, Ordering::Relaxed);
    }

    /// The first half of a launch: up to its mark. `None` if it has to take the long way; nothing has been done then.
    #[inline(always)]
    pub fn begin_quick(
        &self,
        facts: LaunchFacts,
        epoch: u32,
        now: fn() -> Nanos,
    ) -> Option<(QuickLaunch, QuickOperation)> {
        // First of all: a signal handler that launches from here on passes untouched, and leaves the pen and the shortcuts
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
    fn pair(&self, function: u64, stream: u64) -> &Pair {
        &self.pairs[place_of(function ^ stream.rotate_left(23), PAIRS) % PAIRS]
    }

    /// Makes the pair of this function and stream hold, from what else the thread remembers; `false` if it does not.
    #[cold]
    #[inline(never)]
    fn renew_pair(&self, function: u64, stream: u64, epoch: u32) -> bool {
        let renewed = || {
            let caches = self.caches()?;
            let shortcut = caches.shortcuts.get(place_of(stream, caches.shortcuts.len()))?;
            let serves = shortcut.serves.load(Ordering::Relaxed);
            let holds = shortcut.stream.load(Ordering::Relaxed) == stream
                && shortcut.epoch.load(Ordering::Relaxed) == epoch
                && serves != 0;
            let context = shortcut.context.load(Ordering::Relaxed);
            let function_number = self.cached_loaded_function(function, context, epoch).filter(|_| holds)?;
            shortcut.serves.store(serves - 1, Ordering::Relaxed);
            let pair = self.pair(function, stream);
            pair.function.store(function, Ordering::Relaxed);
            pair.stream.store(stream, Ordering::Relaxed);
            pair.epoch.store(epoch, Ordering::Relaxed);
            pair.serves.store(shortcut.serves_of_pair.load(Ordering::Relaxed), Ordering::Relaxed);
            pair.function_number.store(function_number, Ordering::Relaxed);
            pair.stream_number.store(shortcut.number.load(Ordering::Relaxed), Ordering::Relaxed);
            pair.context.store(context, Ordering::Relaxed);
            pair.stream_at.store(shortcut.stream_at.load(Ordering::Relaxed), Ordering::Relaxed);
            pair.context_at.store(shortcut.context_at.load(Ordering::Relaxed), Ordering::Relaxed);
            Some(())
        };
        renewed().is_some()
    }

    #[inline(always)]
    fn begin_entered(
        &self,
        facts: LaunchFacts,
        epoch: u32,
        now: fn() -> Nanos,
    ) -> Option<(QuickLaunch, QuickOperation)> {
        let LaunchFacts { form, caller, function, stream, .. } = facts;
        let pair = self.pair(function, stream);
        let holds = pair.function.load(Ordering::Relaxed) == function
            && pair.stream.load(Ordering::Relaxed) == stream
            && pair.epoch.load(Ordering::Relaxed) == epoch
            && pair.serves.load(Ordering::Relaxed) != 0;
        if !holds && !self.renew_pair(function, stream, epoch) {
            return None;
        }
        let pen = &self.pens[Lane::Work as usize];
        let at = self.recorder.place(pen)?;
        let words = self.recorder.words();
        let stream_words: Words = words.get(pair.stream_at.load(Ordering::Relaxed)..)?.first_chunk()?;
        let idle_until = words.get(pair.context_at.load(Ordering::Relaxed)..)?.get(place::IDLE_UNTIL)?;
        pair.serves.store(pair.serves.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        let function = pair.function_number.load(Ordering::Relaxed);
        let entered = now();
        // See `ThreadSlot::open`.
        fence(Ordering::Release);
        put_record(
            at,
            &Record {
                flags: flag::SUBMITTED,
                entered,
                stream: pair.stream_number.load(Ordering::Relaxed),
                function,
                context: pair.context.load(Ordering::Relaxed) as u16,
                three: facts.three,
                extent: facts.extent,
                caller: caller.address as u64,
                detail: u64::from(facts.shared_bytes),
                ..Record::of(form)
            },
        );
        self.set_mark(self.mark_of(form, Lane::Work, true));
        let operation = Operation { at: entered, form: form.id(), function };
        Some((QuickLaunch { place: at, stream: stream_words, first: None }, QuickOperation { operation, idle_until }))
    }

    /// Between the halves, once the gate has let the launch through: the operation is about to be submitted.
    #[inline(always)]
    pub fn submit_quick(&self, launch: &mut QuickLaunch, submits: &QuickOperation) {
        self.count_call();
        self.count_launch();
        launch.first = submitting(launch.stream, submits.operation, submits.idle_until.load(Ordering::Relaxed));
    }

    /// The launch has not been made, and takes the long way.
    pub fn cancel_quick(&self) {
        self.unmark();
        self.leave();
    }

    /// The second half: the launch has returned. Returns whether it held the host for so long.
    #[inline(always)]
    pub fn end_quick(&self, launch: QuickLaunch, returned: Nanos, result: i32, long: Nanos) -> bool {
        let took = returned.wrapping_sub(launch.place[record::ENTERED].load(Ordering::Relaxed));
        let head = launch.place[record::HEAD].load(Ordering::Relaxed);
        launch.place[record::RETURNED].store(returned, Ordering::Relaxed);
        launch.place[record::HEAD].store(head | u64::from(result as u32) << 32, Ordering::Relaxed);
        self.recorder.complete(&self.pens[Lane::Work as usize]);
        raise_submitted(launch.stream, returned);
        if let (Some(number), true) = (launch.first, result != 0) {
            refused(launch.stream, number, returned);
        }
        // Only now: who finds no mark takes the launch to be in the stream's times.
        self.unmark();
        self.leave();
        took >= long
    }
}

/// The operation of a launch on the short way, and what is known of its context.
#[derive(Clone, Copy)]
pub struct QuickOperation {
    operation: Operation,
    idle_until: &'static AtomicU64,
}
