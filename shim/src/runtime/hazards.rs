//! The hazards of this process: what is known that makes them, and what they come to.
//!
//! A hook that finds one calls [`Hazards::note`], in the calling thread: it is counted, and if it is the first, second, fourth,
//! eighth ... of its kind, it leaves a record. The log's thread writes the whole of it to the run folder when there is
//! something new, and whoever ends the process writes it once more.
//!
//! Protocol: the locks here are held for a few instructions, never across a driver call; the watchdog only ever tries them.
//!
//! Must not: be asked on the path of an ordinary launch.

use super::folder::HAZARDS;
use super::{folder, standard_error, Guard};
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::{words, Fold, HazardFile, Names, Noted};
use lazyguard_core::report::SCHEMA;
use lazyguard_core::state::ThreadSlot;
use lazyguard_core::trace::Lane;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Hazards {
    fold: Mutex<Fold>,
    /// Something has arisen that is not in the file.
    news: AtomicBool,
    /// Held while the file is written; whether that has come to an end.
    ended: Mutex<bool>,
}

/// Locks, also where a thread died with the lock in hand.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Hazards {
    /// Counts a hazard, and leaves a record of some, through the calling thread's slot.
    pub fn note(&self, guard: &Guard, slot: &ThreadSlot, noted: &Noted) {
        let world = &guard.world;
        let names =
            Names { kernel: world.function_name(noted.function), other: world.function_name(noted.other.function) };
        // What is said is made of what the record can hold, as the reader of the recording will see it.
        let Some(noted) = Noted::of(&noted.record(), noted.thread) else { return };
        let counted = lock(&self.fold).note(&noted, names);
        if counted.recorded {
            slot.push(&Noted { count: counted.count, ..noted }.record(), Lane::Landmarks);
            // Release: partner of the Acquire in `write_news`.
            self.news.store(true, Ordering::Release);
        }
    }

    /// How often each code arose: what was prevented, or what was not. Nothing where that cannot be had at once.
    pub fn counts(&self, prevented: bool) -> Vec<(String, u64)> {
        let name = |(code, count): (Code, u64)| (code.name().to_owned(), count);
        self.fold.try_lock().map(|fold| fold.counts(prevented).into_iter().map(name).collect()).unwrap_or_default()
    }

    /// One line each, for the summary.
    pub fn lines(&self) -> Vec<String> {
        let Ok(fold) = self.fold.try_lock() else { return Vec::new() };
        let mut lines: Vec<_> = fold.hazards(false).iter().map(words::line).collect();
        if fold.beyond() > 0 {
            lines.push(format!("{} more hazards of kinds too many to be told apart", fold.beyond()));
        }
        lines
    }

    /// Writes the file, if something has arisen since. The process goes on, so the counts are lower bounds.
    pub fn write_news(&self, guard: &Guard) {
        if !self.news.load(Ordering::Relaxed) {
            return;
        }
        let Ok(ended) = self.ended.try_lock() else { return };
        if !*ended && self.news.swap(false, Ordering::Acquire) {
            self.write(guard, true);
        }
    }

    /// The log's thread writes no more of it. What it is writing is waited for, but not for long.
    pub fn end(&self) {
        for _ in 0..25 {
            if let Ok(mut ended) = self.ended.try_lock() {
                *ended = true;
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Writes the file of a process that ends, if the folder stays.
    pub fn finish(&self, guard: &Guard) {
        self.write(guard, false);
    }

    fn write(&self, guard: &Guard, at_least: bool) {
        let Some(folder) = &guard.folder else { return };
        let (hazards, beyond) = {
            // A thread that was stopped with it in hand costs the file only.
            let Ok(fold) = self.fold.try_lock() else { return self.news.store(at_least, Ordering::Relaxed) };
            (fold.hazards(at_least), fold.beyond())
        };
        if hazards.is_empty() {
            return;
        }
        let file = HazardFile {
            schema: SCHEMA,
            process: guard.process,
            program: guard.program.clone(),
            rank: folder::rank().unwrap_or_default(),
            hazards,
            beyond,
        };
        if let (Err(error), Some(_), false) = (folder.replace(HAZARDS, &file.json()), &guard.settings.out, at_least) {
            standard_error::line(&format!("the hazards could not be kept in {}: {error}", folder.path().display()));
        }
    }
}
