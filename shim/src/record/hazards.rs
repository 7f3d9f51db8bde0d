//! The hazards of this process: the facts that make them, and the hazards so far.
//!
//! The calling thread's [`Hazards::note`] counts a hazard, and leaves a record of the first, second, fourth, eighth ... of its kind. The log's thread writes
//! new hazards to the run folder, the exiting thread all.
//!
//! Protocol: the locks are held for a few instructions, never across a driver call; the watchdog only tries them.
//!
//! Must not: be asked on the path of an ordinary launch.

use super::run_folder::{RunFolder, HAZARDS};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::process::Process;
use lazyguard_core::api::{Code, ValueWrite};
use lazyguard_core::hazard::{
    messages, Aggregator, Hazard, HazardEvent, HazardFile, Names, Outstanding, Waits, Writes,
};
use lazyguard_core::map::{HashMap, HashSet};
use lazyguard_core::report::SCHEMA;
use lazyguard_core::state::{Operation, ThreadSlot};
use lazyguard_core::sync::lock;
use lazyguard_core::trace::Lane;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

#[derive(Default)]
pub struct Hazards {
    fold: Mutex<Aggregator>,
    news: AtomicBool,
    /// Held while the file is written; `true` at the end.
    ended: Mutex<bool>,
    /// And their number: a call that finds none need not look.
    waits: Mutex<Waits>,
    waiting: AtomicUsize,
    pub writes: Writes,
    load_ended: AtomicU64,
    to_compile: Mutex<HashSet<u64>>,
    fillers: Mutex<Vec<Filler>>,
    /// Launches on a stream of one.
    launches_behind: AtomicU64,
    /// The resident blocks, and the epoch of the state in which they were counted.
    resident: Mutex<(u32, Resident)>,
}

/// Blocks that fit on a device, by function and device, threads of a block, and bytes of shared memory.
type Resident = HashMap<(u64, u32, u32), u64>;

/// A grid in flight that fills its device.
#[derive(Clone, Copy, Debug)]
pub struct Filler {
    pub stream: u32,
    pub context: u32,
    pub launch: Operation,
    /// Streams that wait for its end by an event, and since when; 0 is free.
    pub behind: [(u32, Nanos); MOST_BEHIND],
}

impl Filler {
    /// Whether a stream's new work comes behind it, by an event.
    pub fn is_before(&self, stream: u32) -> bool {
        self.behind.iter().any(|(behind, _)| *behind == stream)
    }
}

/// Remembered streams that wait for a grid, the first ones.
pub const MOST_BEHIND: usize = 8;

const MOST_FILLERS: usize = 16;
const LAUNCHES_A_QUESTION: u64 = 64;
const MOST_RESIDENT: usize = 256;
const MOST_TO_COMPILE: usize = 4096;

/// Whether an operation of that time has ended; so has one of a stream that is not known.
fn has_ended(process: &Process, stream: u32, at: Nanos) -> bool {
    process.tracker.stream_entry(stream).is_none_or(|s| s.has_ended(at, process.tracker.stream_idle_until(s)))
}

impl Hazards {
    /// Leaves a record of some, through the calling thread's slot.
    pub fn note(&self, process: &Process, slot: &ThreadSlot, noted: &HazardEvent) {
        let tracker = &process.tracker;
        let names = Names {
            kernel: tracker.function_name(noted.function),
            other: tracker.function_name(noted.other.operation.function),
        };
        // As the reader of the recording will see it.
        let Some(noted) = HazardEvent::of(&noted.record(), noted.thread) else { return };
        let count = lock(&self.fold).note(&noted, names);
        if let Some(count) = count {
            slot.push(&HazardEvent { count, ..noted }.record(), Lane::RareEvents);
            // Release: partner of the Acquire in `write_news`.
            self.news.store(true, Ordering::Release);
        }
    }

    /// Release and Acquire: a thread that submits a write after a wait sees the wait.
    pub fn has_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Gives the waits to `then`, without those that are over.
    pub fn with_waits<R>(&self, process: &Process, then: impl FnOnce(&mut Waits) -> R) -> R {
        let mut waits = lock(&self.waits);
        waits.forget(|wait| has_ended(process, wait.stream, wait.wait.at));
        let result = then(&mut waits);
        self.waiting.store(waits.count(), Ordering::Release);
        result
    }

    /// `holds` is the memory's content.
    pub fn waited(&self, process: &Process, wait: Outstanding, holds: Option<u64>) {
        let is_done = |write: &ValueWrite| has_ended(process, write.stream, write.at);
        self.with_waits(process, |waits| waits.submitted(wait, holds, &self.writes, is_done));
    }

    /// A write, for which this place was reserved. Takes a lock only while a stream may be at a wait.
    #[inline]
    pub fn written(&self, process: &Process, place: usize, write: &ValueWrite) {
        self.writes.put(place, write);
        if self.has_waits() {
            door::inside(|| self.with_waits(process, |waits| waits.written(write)));
        }
    }

    pub fn load_ended(&self, now: Nanos) {
        self.load_ended.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether another thread was in a loading call since: it holds the driver's lock, and explains the delay.
    pub fn loaded_since(&self, process: &Process, entered: Nanos, own: &ThreadSlot) -> bool {
        let loads = |slot: &ThreadSlot| {
            slot.published()
                .is_some_and(|call| call.record.kind.is_cold() || call.record.entry_point.class().loads_module())
        };
        self.load_ended.load(Ordering::Relaxed) >= entered
            || process.tracker.threads().any(|(_, slot)| !std::ptr::eq(slot, own) && slot.in_use() && loads(slot))
    }

    pub fn is_to_be_compiled(&self, library: u64) {
        let mut libraries = lock(&self.to_compile);
        if libraries.len() < MOST_TO_COMPILE {
            libraries.insert(library);
        }
    }

    pub fn has_to_be_compiled(&self, library: u64) -> bool {
        lock(&self.to_compile).contains(&library)
    }

    pub fn owner_gone(&self, owner: u64) {
        lock(&self.to_compile).remove(&owner);
    }

    /// From now on every launch takes the slow path.
    pub fn fills(&self, process: &Process, filler: Filler) {
        let mut fillers = lock(&self.fillers);
        // A stream's newest grid ends last, and one query for each launch is enough.
        fillers.retain(|known| known.stream != filler.stream);
        if fillers.len() == MOST_FILLERS {
            fillers.remove(0);
        }
        fillers.push(filler);
        process.tracker.set_slow_path(true);
    }

    /// The fillers that have not ended; once there are none, launches take the fast path.
    pub fn fillers(&self, process: &Process) -> Vec<Filler> {
        let mut fillers = lock(&self.fillers);
        fillers.retain(|filler| !has_ended(process, filler.stream, filler.launch.at));
        if fillers.is_empty() {
            process.tracker.set_slow_path(false);
        }
        fillers.clone()
    }

    /// A question about a grid takes many times what a launch takes.
    pub fn asks_again(&self) -> bool {
        self.launches_behind.fetch_add(1, Ordering::Relaxed) % LAUNCHES_A_QUESTION == LAUNCHES_A_QUESTION - 1
    }

    /// A stream waits for an event that was recorded then on this stream, or in its whole context (0): its later work comes behind a grid.
    pub fn waits_for_event(&self, stream: u32, recorded_on: u32, recorded: Nanos, now: Nanos) {
        for filler in lock(&self.fillers).iter_mut() {
            let own = (recorded_on == 0 || recorded_on == filler.stream) && recorded > filler.launch.at;
            let by_another = filler.behind.iter().any(|(behind, since)| *behind == recorded_on && recorded > *since);
            let free = filler.behind.iter_mut().find(|(behind, _)| *behind == 0 || *behind == stream);
            if let (true, Some(place)) = (own || recorded_on != 0 && by_another, free) {
                if place.0 == 0 {
                    *place = (stream, now);
                }
            }
        }
    }

    /// Blocks that a device holds at once, asked once in an epoch.
    pub fn resident(&self, epoch: u32, key: (u64, u32, u32), ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let known = {
            let mut resident = lock(&self.resident);
            if resident.0 != epoch || resident.1.len() >= MOST_RESIDENT {
                *resident = (epoch, HashMap::default());
            }
            resident.1.get(&key).copied()
        };
        known.or_else(|| {
            let blocks = ask()?;
            lock(&self.resident).1.insert(key, blocks);
            Some(blocks)
        })
    }

    /// The hazards by code; empty where their lock is taken.
    pub fn counts(&self, prevented: bool) -> Vec<(String, u64)> {
        let name = |(code, count): (Code, u64)| (code.name().to_owned(), count);
        self.fold.try_lock().map(|fold| fold.counts(prevented).into_iter().map(name).collect()).unwrap_or_default()
    }

    pub fn lines(&self) -> Vec<String> {
        let Ok(fold) = self.fold.try_lock() else { return Vec::new() };
        let (told, possible): (Vec<_>, Vec<_>) = fold.hazards(false).into_iter().partition(Hazard::counts);
        let mut lines: Vec<_> = told.iter().map(messages::line).collect();
        lines.extend(messages::possible(messages::occurrences(&possible)));
        if fold.overflow > 0 {
            lines.push(format!("{} more hazards of kinds too many to be told apart", fold.overflow));
        }
        lines
    }

    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// Lower bounds, because the process is alive.
    pub fn write_news(&self, process: &Process, folder: Option<&RunFolder>) {
        if !self.has_news() {
            return;
        }
        let Ok(ended) = self.ended.try_lock() else { return };
        if !*ended && self.news.swap(false, Ordering::Acquire) {
            self.write(process, folder, true);
        }
    }

    /// The log's thread writes no more. Waits for a write in progress, but not for long.
    pub fn end(&self) {
        if let Some(mut ended) = door::lock_soon(&self.ended, EXIT_PAUSES) {
            *ended = true;
        }
    }

    pub fn finish(&self, process: &Process, folder: Option<&RunFolder>) {
        self.write(process, folder, false);
    }

    fn write(&self, process: &Process, folder: Option<&RunFolder>, at_least: bool) {
        let Some(folder) = folder else { return };
        // A stopped thread with the lock costs only the file. A copy: threads that note a hazard do not wait for messages.
        let Some(fold) = self.fold.try_lock().ok().map(|fold| fold.clone()) else {
            return self.news.store(at_least, Ordering::Relaxed);
        };
        let (hazards, overflow) = (fold.hazards(at_least), fold.overflow);
        if hazards.is_empty() {
            return;
        }
        let file = HazardFile {
            schema: SCHEMA,
            process: process.id,
            program: process.program.clone(),
            rank: process.rank.clone(),
            hazards,
            overflow,
        };
        let kept = folder.replace(HAZARDS, &file.text());
        // A line only where the user has asked for the file.
        if folder.asked_for && !at_least {
            folder.say_unless("hazards", kept);
        }
    }
}
