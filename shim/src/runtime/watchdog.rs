//! The watchdog: sees that a driver call has been going on for too long, and says what it waits for.
//!
//! It looks at the threads' slots a few times a second. When a call is past the threshold it takes a snapshot, diagnoses
//! it, and writes the report to standard error and into the run folder. It reports each blocked call once.
//!
//! Must not: call the driver, or take a lock that a stuck thread can hold.

use super::folder::{HANG, RUN};
use super::{python, stacks, standard_error, thread, Guard};
use lazyguard_core::diagnose::Snapshot;
use lazyguard_core::report::HangReport;
use lazyguard_core::state::PublishedCall;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Reports in one process: a program that hangs a hundred times has been understood before.
const MOST_REPORTS: u64 = 20;

/// A sleep that takes this much longer than it was to is a stop of the whole process.
const OVERSLEPT_NANOS: u64 = 400_000_000;

/// The body of the watchdog's thread.
pub fn run(guard: &'static Guard) {
    let threshold = guard.settings.hang_after_nanos;
    let every = Duration::from_nanos((threshold / 4).clamp(20_000_000, 250_000_000));
    let mut awake_since = 0;
    let mut reported: HashSet<(u32, u64)> = HashSet::new();
    while guard.hangs.load(Ordering::Relaxed) < MOST_REPORTS && !super::retired() {
        let slept_from = guard.now();
        std::thread::sleep(every);
        let now = guard.now();
        if now - slept_from > every.as_nanos() as u64 + OVERSLEPT_NANOS {
            // The whole process was stopped, or starved: what everybody lost is nobody's hang.
            awake_since = now;
        }
        let overdue: Vec<_> = guard
            .world
            .threads()
            .filter_map(|(_, slot)| slot.published())
            .filter(|call| now.saturating_sub(call.entered.max(awake_since)) >= threshold)
            // What has been reported is not looked at again: the next question reads a file.
            .filter(|call| !reported.contains(&(call.thread, call.entered)) && still_inside(call))
            .map(|call| (call.thread, call.entered))
            .collect();
        if !overdue.is_empty() && report(guard) {
            reported.extend(&overdue);
        }
    }
}

/// Reports what is blocked now; `false` if nothing explains it as a hang, as long as it may still be only slow.
fn report(guard: &'static Guard) -> bool {
    let snapshot = Snapshot::take(&guard.world, guard.now(), guard.settings.hang_after_nanos, &thread::name);
    let folder = guard.folder.as_ref().map(|f| f.path().display().to_string());
    let mut report =
        HangReport::new(guard.process, &guard.program, folder.as_deref(), snapshot, guard.preload_account());
    if report.verdicts.is_empty() {
        return false;
    }
    guard.hangs.fetch_add(1, Ordering::Relaxed);
    guard.keeper.at_a_hang(guard);
    let calls: Vec<_> = guard.world.threads().filter_map(|(_, slot)| slot.published()).collect();
    (report.stacks, report.python) = (stacks::save(guard, &calls), python::save(guard));
    standard_error::write(&report.text());
    if let Some(folder) = &guard.folder {
        let account = guard.account("running").json();
        let kept = folder
            .replace(HANG, &report.json())
            .and_then(|()| folder.replace(RUN, &account))
            .and_then(|()| guard.backing.save(folder));
        if let Err(error) = kept {
            standard_error::line(&format!("the report could not be kept in {}: {error}", folder.path().display()));
        }
    }
    true
}

/// Whether a thread can still be inside a call, by where its stack ends: a jump may have led it out. Where the kernel does
/// not say, or the thread is running, it is taken to be inside.
fn still_inside(call: &PublishedCall) -> bool {
    let told = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", call.thread)).unwrap_or_default();
    let mut fields = told.split_whitespace().rev();
    // The last two fields are the stack pointer and the program counter.
    let stack = fields.nth(1).and_then(|f| usize::from_str_radix(f.trim_start_matches("0x"), 16).ok());
    stack.is_none_or(|stack| stack <= call.frame)
}
