//! The hazards of this process: the facts that make them, and the hazards so far.
//!
//! A hook that finds one calls [`Hazards::note`], in the calling thread, which counts it and leaves a record if it is the first,
//! second, fourth, eighth ... of its kind. The log's thread writes all hazards to the run folder when there is something new, and
//! the exiting thread writes them once more.
//!
//! Protocol: the locks here are held for a few instructions, never across a driver call; the watchdog only ever tries them.
//!
//! Must not: be asked on the path of an ordinary launch.

use super::run_folder::{RunFolder, HAZARDS};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::process::Process;
use crate::runtime::standard_error;
use lazyguard_core::api::{Code, ValueWrite};
use lazyguard_core::hazard::{messages, Aggregator, HazardEvent, HazardFile, Names, Outstanding, Waits, Writes};
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
    /// Held while the file is written; `true` once no more is written.
    ended: Mutex<bool>,
    /// Waits for values that no submitted write satisfies, and how many there are: a call that finds none need not look.
    waits: Mutex<Waits>,
    waiting: AtomicUsize,
    pub writes: Writes,
    load_ended: AtomicU64,
    to_compile: Mutex<HashSet<u64>>,
    /// Grids in flight that fill their device.
    fillers: Mutex<Vec<Filler>>,
    /// Launches on a stream of one of them, while there are any.
    launches_behind: AtomicU64,
    /// How many blocks of a function a device holds at once, as far as it was asked, in this epoch of the state.
    resident: Mutex<(u32, Resident)>,
}

/// Blocks by function and device, threads of a block, and bytes of shared memory.
type Resident = HashMap<(u64, u32, u32), u64>;

/// A grid in flight that fills its device.
#[derive(Clone, Copy, Debug)]
pub struct Filler {
    pub stream: u32,
    pub context: u32,
    pub launch: Operation,
    /// Streams that wait for its end by an event, and since when; free places are 0.
    pub behind: [(u32, Nanos); MOST_BEHIND],
}

impl Filler {
    /// Whether what is submitted to a stream now comes behind it, by an event.
    pub fn is_before(&self, stream: u32) -> bool {
        self.behind.iter().any(|(behind, _)| *behind == stream)
    }
}

/// Streams that are remembered to wait for a grid; of the first ones, as a program has few.
pub const MOST_BEHIND: usize = 8;

/// The most grids tracked, and the most functions and libraries kept.
const MOST_FILLERS: usize = 16;
const LAUNCHES_A_QUESTION: u64 = 64;
const MOST_RESIDENT: usize = 256;
const MOST_TO_COMPILE: usize = 4096;

fn is_over(process: &Process, wait: &Outstanding) -> bool {
    let stream = process.tracker.stream_entry(wait.stream);
    stream.is_none_or(|s| s.has_ended(wait.wait.at, process.tracker.stream_idle_until(s)))
}

impl Hazards {
    /// Counts a hazard, and leaves a record of some, through the calling thread's slot.
    pub fn note(&self, process: &Process, slot: &ThreadSlot, noted: &HazardEvent) {
        let tracker = &process.tracker;
        let names =
            Names { kernel: tracker.function_name(noted.function), other: tracker.function_name(noted.other.function) };
        // The report uses only what the record can hold, as the reader of the recording will see it.
        let Some(noted) = HazardEvent::of(&noted.record(), noted.thread) else { return };
        let counted = lock(&self.fold).note(&noted, names);
        if counted.recorded {
            slot.push(&HazardEvent { count: counted.count, ..noted }.record(), Lane::RareEvents);
            // Release: partner of the Acquire in `write_news`.
            self.news.store(true, Ordering::Release);
        }
    }

    // --- waits for values ---

    /// Whether some stream may be at a wait. Release and Acquire: a thread that submits a write after a wait sees the wait.
    pub fn has_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// What is known of waits, without those that are known to be over. The lock is held for a few instructions.
    pub fn with_waits<R>(&self, process: &Process, then: impl FnOnce(&mut Waits) -> R) -> R {
        let mut waits = lock(&self.waits);
        waits.forget(|wait| is_over(process, wait));
        let result = then(&mut waits);
        self.waiting.store(waits.count(), Ordering::Release);
        result
    }

    /// A wait was submitted; `holds` is what the memory is known to hold.
    pub fn waited(&self, process: &Process, wait: Outstanding, holds: Option<u64>) {
        let is_done = |write: &ValueWrite| {
            let stream = process.tracker.stream_entry(write.stream);
            stream.is_none_or(|s| s.has_ended(write.at, process.tracker.stream_idle_until(s)))
        };
        self.with_waits(process, |waits| waits.submitted(wait, holds, &self.writes, is_done));
    }

    /// A write was submitted, for which this place was reserved. Takes a lock only while a stream may be at a wait.
    #[inline]
    pub fn written(&self, process: &Process, place: usize, write: &ValueWrite) {
        self.writes.put(place, write);
        if self.has_waits() {
            door::inside(|| self.with_waits(process, |waits| waits.written(write)));
        }
    }

    // --- loads ---

    pub fn load_ended(&self, now: Nanos) {
        self.load_ended.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether another thread was in a call that loads since then. That call holds the driver's lock, and explains the delay.
    pub fn loaded_since(&self, process: &Process, entered: Nanos, own: &ThreadSlot) -> bool {
        let loads = |slot: &ThreadSlot| {
            slot.published().is_some_and(|call| call.cold != 0 || call.entry_point.class().loads_module())
        };
        self.load_ended.load(Ordering::Relaxed) >= entered
            || process.tracker.threads().any(|(_, slot)| !std::ptr::eq(slot, own) && slot.in_use() && loads(slot))
    }

    /// The driver has to compile a library before it is used.
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

    // --- grids that fill the device ---

    /// A grid was launched that fills its device: from now on every launch takes the slow path.
    pub fn fills(&self, process: &Process, filler: Filler) {
        let mut fillers = lock(&self.fillers);
        // Only the newest grid of a stream is kept: it ends last, and one query for each launch is enough.
        fillers.retain(|known| known.stream != filler.stream);
        if fillers.len() == MOST_FILLERS {
            fillers.remove(0);
        }
        fillers.push(filler);
        process.tracker.set_slow_path(true);
    }

    /// The grids that fill a device and are not known to have ended. Once there are none, launches take the fast path again.
    pub fn fillers(&self, process: &Process) -> Vec<Filler> {
        let mut fillers = lock(&self.fillers);
        fillers.retain(|filler| {
            let stream = process.tracker.stream_entry(filler.stream);
            stream.is_some_and(|s| !s.has_ended(filler.launch.at, process.tracker.stream_idle_until(s)))
        });
        if fillers.is_empty() {
            process.tracker.set_slow_path(false);
        }
        fillers.clone()
    }

    /// Whether it is time to ask a grid's own stream whether it has ended: a question takes many times what a launch takes.
    pub fn asks_again(&self) -> bool {
        self.launches_behind.fetch_add(1, Ordering::Relaxed) % LAUNCHES_A_QUESTION == LAUNCHES_A_QUESTION - 1
    }

    /// A stream waits from now on for an event, which was recorded then on this stream, or in its whole context where that is 0:
    /// its later work comes behind a grid.
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

    /// How many blocks a device holds at once of what this stands for, asked once. Handles are used again in another epoch.
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

    // --- results ---

    /// How often each code arose: what was prevented, or what was not. Nothing where that cannot be had at once.
    pub fn counts(&self, prevented: bool) -> Vec<(String, u64)> {
        let name = |(code, count): (Code, u64)| (code.name().to_owned(), count);
        self.fold.try_lock().map(|fold| fold.counts(prevented).into_iter().map(name).collect()).unwrap_or_default()
    }

    /// One line each, for the summary.
    pub fn lines(&self) -> Vec<String> {
        let Ok(fold) = self.fold.try_lock() else { return Vec::new() };
        let mut lines: Vec<_> = fold.hazards(false).iter().map(messages::line).collect();
        if fold.overflow() > 0 {
            lines.push(format!("{} more hazards of kinds too many to be told apart", fold.overflow()));
        }
        lines
    }

    /// Whether there are hazards that the file does not have.
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// Writes the file, if there is a new occurrence. The process is alive, so the counts are lower bounds.
    pub fn write_news(&self, process: &Process, folder: Option<&RunFolder>) {
        if !self.has_news() {
            return;
        }
        let Ok(ended) = self.ended.try_lock() else { return };
        if !*ended && self.news.swap(false, Ordering::Acquire) {
            self.write(process, folder, true);
        }
    }

    /// Stops the log's thread from writing the file. Waits for a write in progress, but not for long.
    pub fn end(&self) {
        if let Some(mut ended) = door::lock_soon(&self.ended, EXIT_PAUSES) {
            *ended = true;
        }
    }

    /// Writes the file of a process that ends, if the folder stays.
    pub fn finish(&self, process: &Process, folder: Option<&RunFolder>) {
        self.write(process, folder, false);
    }

    fn write(&self, process: &Process, folder: Option<&RunFolder>, at_least: bool) {
        let Some(folder) = folder else { return };
        // If a stopped thread holds the lock, only the file is lost. A copy, so that threads that note a hazard do not wait while
        // names are demangled and messages are written.
        let Some(fold) = self.fold.try_lock().ok().map(|fold| fold.clone()) else {
            return self.news.store(at_least, Ordering::Relaxed);
        };
        let (hazards, overflow) = (fold.hazards(at_least), fold.overflow());
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
        // Not reported where the user has not asked for the file.
        if let (Err(error), true, false) = (folder.replace(HAZARDS, &file.json()), folder.asked_for(), at_least) {
            standard_error::line(&format!("the hazards could not be kept in {}: {error}", folder.path().display()));
        }
    }
}
