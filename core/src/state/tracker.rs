//! All that is known of one process.

use super::communicators::Communicators;
use super::context::{Context, Function};
use super::event::Event;
use super::graph_launches::GraphLaunches;
use super::hash::ByHandle;
use super::launchers::{Launchers, Of, SLOTS};
use super::load::InFlight;
use super::names::Names;
use super::shared::Shared;
use super::slab::Slab;
use super::stream::{Stream, StreamKey};
use super::thread::ThreadSlot;
use crate::api::{GraphContents, Operation};
use crate::map::HashMap;
use crate::order;
use crate::sync::AtomicU64 as Word;
use crate::trace::Recorder;
use crate::Nanos;
use dashmap::DashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

pub struct Tracker {
    pub(super) recorder: &'static Recorder<'static>,
    pub(super) threads: Slab<ThreadSlot>,
    pub(super) launchers: Arc<Launchers>,
    /// The number of the calling thread's slot, or 0.
    who: fn() -> u32,
    // Slots whose release a fold delayed.
    ended: Mutex<Vec<u32>>,
    pub(super) contexts: Slab<Context>,
    pub(super) streams: Slab<Stream>,
    pub(super) functions: Slab<Function>,
    pub(super) context_numbers: DashMap<u64, u32, ByHandle>,
    // The handle of each device's primary context. One that is reset comes back under its handle, without another retain.
    pub(super) primaries: Mutex<HashMap<i32, u64>>,
    pub(super) stream_numbers: DashMap<StreamKey, u32, ByHandle>,
    pub(super) function_numbers: DashMap<u64, u32, ByHandle>,
    pub(super) events: Slab<Event>,
    pub(super) event_numbers: DashMap<u64, u32, ByHandle>,
    pub(super) names: Names,
    // Streams that were destroyed while work was outstanding, until their context is known to be idle.
    pub(super) destroyed: Mutex<Vec<u32>>,
    // By owner (module or library) and context: an entry where the owner's code is in the context. The value: whether the guard brought the code
    // there, and the program has not used it since.
    pub(super) present: DashMap<(u64, u32), bool, ByHandle>,
    // The contents of executable graphs, by handle, as recorded last.
    pub(super) graphs: Mutex<HashMap<u64, GraphContents>>,
    pub graph_launches: GraphLaunches,
    pub(super) shared: Shared,
    /// Launches are looked at one by one.
    pub(super) slow_path: AtomicBool,
    epoch: &'static AtomicU32,
    last_thread: AtomicU32,
}

/// Words for an entry for which the recording has no room: the state follows it as the others, but it is not in the file.
fn elsewhere<const WORDS: usize>() -> &'static [Word; WORDS] {
    Box::leak(Box::new(std::array::from_fn(|_| Word::new(0))))
}

impl Tracker {
    /// The epoch is in this place, where launches find it at once.
    pub fn new(recorder: &'static Recorder<'static>, epoch: &'static AtomicU32) -> Self {
        let launchers = Arc::new(Launchers::new(recorder.shape().streams));
        let of_slot = launchers.clone();
        let tracker = Self {
            recorder,
            threads: Slab::made_by(move |at| {
                let entry = recorder.thread_entry(at).unwrap_or_else(elsewhere);
                ThreadSlot::over(recorder, entry, at as u32 + 1, of_slot.clone())
            }),
            launchers,
            who: || 0,
            ended: Mutex::default(),
            contexts: Slab::made_by(move |at| Context::over(recorder.context_entry(at).unwrap_or_else(elsewhere))),
            streams: Slab::made_by(move |at| Stream::over(recorder.stream_entry(at).unwrap_or_else(elsewhere))),
            functions: Slab::default(),
            context_numbers: DashMap::default(),
            primaries: Mutex::default(),
            stream_numbers: DashMap::default(),
            function_numbers: DashMap::default(),
            events: Slab::default(),
            event_numbers: DashMap::default(),
            names: Names::default(),
            destroyed: Mutex::default(),
            present: DashMap::default(),
            graphs: Mutex::default(),
            graph_launches: GraphLaunches::default(),
            shared: Shared::default(),
            slow_path: AtomicBool::new(false),
            epoch,
            last_thread: AtomicU32::new(0),
        };
        tracker.next_epoch();
        tracker
    }

    /// Sets the function that gives the number of the calling thread's slot, or 0. A thread without a number does not give back a turn that it has
    /// left by a jump.
    pub fn known_by(self, who: fn() -> u32) -> Self {
        Self { who, ..self }
    }

    pub fn recorder(&self) -> &'static Recorder<'static> {
        self.recorder
    }

    /// Changes whenever a handle may have come to mean something else; the threads' caches hold only for one epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn next_epoch(&self) {
        // No epoch is 0: that is what an empty cache has. Release: a thread that sees the new epoch sees the maps as they are now (Acquire in
        // `epoch`).
        if self.epoch.fetch_add(1, Ordering::Release) == u32::MAX {
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// `room` is how many of them the recording has entries for.
    pub(super) fn taken(&self, number: u32, room: usize) -> u32 {
        if number as usize > room {
            self.recorder.count_without_entry();
        }
        number
    }

    pub fn begin_thread(&self, thread: u32, now: Nanos) -> Option<u32> {
        self.release_ended();
        let in_recording = self.last_thread.fetch_add(1, Ordering::Relaxed) + 1;
        loop {
            let number = self.taken(self.threads.take(), self.recorder.shape().threads);
            if self.threads.get(number)?.begin(in_recording, thread, now) {
                return Some(number);
            }
            // Another thread is in a fold of the slot that has found nothing to fold.
            self.release_later(number);
        }
    }

    pub fn end_thread(&self, number: u32, now: Nanos) {
        if let Some(slot) = self.threads.get(number).filter(|slot| slot.in_use()) {
            self.give_turns_back(slot);
            if slot.end(now) {
                self.threads.give_back(number);
            } else {
                self.release_later(number);
            }
        }
    }

    /// The slot is given back when another thread begins. If the list is locked, the slot stays taken: a signal handler may have left the lock taken by
    /// a jump, and nothing may wait for it here.
    fn release_later(&self, number: u32) {
        if let Ok(mut ended) = self.ended.try_lock() {
            ended.push(number);
        }
    }

    /// Gives back the slots whose release a fold delayed.
    fn release_ended(&self) {
        let next = || self.ended.try_lock().ok()?.pop();
        while let Some(number) = next() {
            if self.threads.get(number).is_some_and(ThreadSlot::release_segments) {
                self.threads.give_back(number);
            } else {
                return self.release_later(number);
            }
        }
    }

    /// The slot's thread, which calls this, has left its last call without returning, by an exception or a jump: the call's record says so, and
    /// what the thread had of the guard it has no more.
    pub fn abandon(&self, slot: &ThreadSlot, now: Nanos) {
        self.give_turns_back(slot);
        slot.abandon(now);
    }

    /// The thread of this slot is in no fold, whatever it has left.
    fn give_turns_back(&self, slot: &ThreadSlot) {
        self.threads.iter().for_each(|(_, other)| other.folding.give_back(slot.number));
    }

    pub fn thread(&self, number: u32) -> Option<&ThreadSlot> {
        self.threads.get(number)
    }

    /// How many calls, and how many launches among them, all threads made, those that have ended too.
    pub fn counts(&self) -> (u64, u64) {
        let entries = self.threads.iter().map(|(_, slot)| slot.counts());
        entries.fold(self.recorder.kept_counts(), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// All slots, also those not in use.
    pub fn threads(&self) -> impl Iterator<Item = (u32, &ThreadSlot)> {
        self.threads.iter()
    }

    pub fn communicators(&self) -> Communicators {
        Communicators::of(self.recorder)
    }

    /// Brings the launches that all threads have made into the streams' entries. Before it, an entry may lack some. Returns whether it lacks
    /// none now: a thread that is in a fold may be away (see the protocol of `super::fold`), and then what is asked is unknown.
    #[must_use]
    pub fn fold(&self) -> bool {
        let by = (self.who)();
        let mut is_known = true;
        // Each of them, also behind one that cannot be folded.
        self.each_launching(|slot| is_known &= slot.fold_from_outside(by));
        is_known
    }

    /// The same for a question about one stream: only threads that may have launched on that one are looked at.
    #[must_use]
    pub fn fold_of(&self, stream: u32) -> bool {
        match self.launchers.of(stream) {
            Of::None => true,
            Of::One(number) => self.threads.get(number).is_none_or(|slot| slot.fold_from_outside((self.who)())),
            Of::All => self.fold(),
        }
    }

    /// Calls this with each slot whose thread may have launches that are not folded; also of one that has ended.
    fn each_launching(&self, mut look: impl FnMut(&ThreadSlot)) {
        self.launchers.each(|index| {
            let of_bit = (index..).step_by(SLOTS).map_while(|index| self.threads.get(index as u32 + 1));
            of_bit.for_each(&mut look);
        });
    }

    /// How many operations of a stream may be outstanding, without a fold: what is not folded may all be on it.
    pub fn outstanding_at_most(&self, stream: u32) -> u64 {
        let mut unfolded = 0;
        // First: what is folded in between is counted twice, and not missing.
        self.each_launching(|slot| unfolded += slot.unfolded());
        unfolded + self.stream_entry(stream).map_or(0, |s| s.outstanding_count(self.stream_idle_until(s)))
    }

    /// The driver refused a launch of the fast path on this stream, which was entered then and has returned now.
    pub fn launch_refused(&self, stream: u32, entered: Nanos, returned: Nanos) {
        self.beside_no_other_call(stream).into_iter().for_each(|stream| stream.refused_alone(entered, returned));
    }

    /// The same of another call, for which [`Stream::submitting`] gave this number.
    pub fn submission_refused(&self, stream: u32, number: u64, returned: Nanos) {
        self.beside_no_other_call(stream).into_iter().for_each(|stream| stream.refused(number, returned));
    }

    /// A stream's entry after a fold, if all could be folded and no thread is in a call on the stream. A launch in progress is not counted yet,
    /// and may have returned before the call that asks. The fold comes second: what has returned meanwhile is folded, and what is entered meanwhile returns later.
    fn beside_no_other_call(&self, stream: u32) -> Option<&Stream> {
        let is_on_it = |slot: &ThreadSlot| slot.published().is_some_and(|call| call.record.stream == stream);
        let is_called_on = self.threads.iter().any(|(_, slot)| is_on_it(slot));
        let is_known = self.fold_of(stream);
        self.stream_entry(stream).filter(|_| is_known && !is_called_on)
    }

    /// The work in flight in a context as far as the guard knows, oldest first; context 0 means every context. Unknown work that may be in flight
    /// comes last ([`InFlight::UNKNOWN`]).
    pub fn in_flight(&self, context: u32) -> Vec<InFlight> {
        let is_known = self.fold();
        let mut all: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, s)| context == 0 || s.context() == context)
            .filter_map(|(stream, s)| Some(InFlight { stream, operation: s.oldest(self.idle_until(s.context()))? }))
            .collect();
        // Work of destroyed streams that are no longer followed one by one: of no stream, but in flight.
        all.extend(self.contexts().filter(|(number, c)| (context == 0 || context == *number) && c.has_orphans()).map(
            |(_, c)| InFlight { stream: 0, operation: Operation { at: c.idle_until(), entry_point: 0, function: 0 } },
        ));
        order::sort_by_key(&mut all, |f| f.operation.at);
        all.extend((!is_known).then_some(InFlight::UNKNOWN));
        all
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
