//! How much threads compute in a call in which the driver may be at work for long: a call that waits computes little. The kernel's scheduler counts a
//! thread's time on a processor and its waits for one, each once it is over. So a thread that is runnable at both ends of a span counts as runnable in it.
//! The driver's own threads may do a part of the work, so their time counts as well.

use super::thread_activity;
use crate::record::reports::{Computing, Waiting};
use crate::record::Guard;
use crate::runtime::thread;
use lazyguard_core::api::{Class, ComputeTime, EntryPoint};
use lazyguard_core::state::PublishedCall;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::{Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;

const LEAST: Nanos = 100_000_000;

/// Records it for each such thread, a quarter of the threshold after the former record. It begins at half the threshold: a program may have forbidden the
/// calls for a file, and its loads are short.
pub fn note(guard: &'static Guard, threshold: Nanos) {
    let mut known = lock(&guard.reports.computing);
    let (at, least) = (guard.now(), LEAST.max(threshold / 4));
    let is_long = |call: &PublishedCall| may_compute(call) && at.saturating_sub(call.record.entered) >= threshold / 2;
    let calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published()).filter(is_long);
    let calls: Vec<Waiting> = calls.map(|call| (call.thread, call.record.entered)).collect();
    known.retain(|waiting, _| calls.contains(waiting));
    let is_due = |call: &Waiting| known.get(call).is_none_or(|known| at.saturating_sub(known.at) >= least);
    let due: Vec<_> = calls.into_iter().filter(is_due).collect();
    let Some(slot) = thread::slot(guard).filter(|_| !due.is_empty()) else { return };
    let drivers: Nanos = thread_activity::drivers().filter_map(runnable).sum();
    let drivers_faults: u64 = thread_activity::drivers().filter_map(faults).sum();
    for call in due {
        let Some(own) = runnable(call.0) else { continue };
        let now = Computing {
            at,
            nanos: own.saturating_add(drivers),
            is_runnable: thread_activity::is_runnable(call.0),
            faults: faults(call.0).map(|own| own.saturating_add(drivers_faults)),
        };
        let Some(before) = known.insert(call, now) else { continue };
        let within_nanos = at.saturating_sub(before.at);
        let is_always_runnable = before.is_runnable && now.is_runnable;
        let nanos = if is_always_runnable { within_nanos } else { now.nanos.saturating_sub(before.nanos) };
        let alone = now.faults.is_some() && now.faults == before.faults && !has_children(call.0);
        let time = ComputeTime { nanos, within_nanos, alone };
        let raw = RawPayload::computes(call.0, time);
        let about = Record::of(EntryPoint::of_class(Class::ModuleLoad));
        slot.push(&Record { kind: Kind::Seen, entered: at, returned: at, raw, ..about }, Lane::RareEvents);
    }
}

fn may_compute(call: &PublishedCall) -> bool {
    call.record.kind.is_cold() || call.record.entry_point.class().may_compute()
}

/// Running, or waiting for a processor.
fn runnable(thread: u32) -> Option<Nanos> {
    let counts = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut counts = counts.split_ascii_whitespace().map(str::parse::<Nanos>);
    Some(counts.next()?.ok()?.saturating_add(counts.next()?.ok()?))
}

/// Its page faults, with and without a read from a disk; the name before may hold any character.
fn faults(thread: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let count = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(count(7)?.saturating_add(count(9)?))
}

/// There may be some if the kernel does not say.
fn has_children(thread: u32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/children")).map_or(true, |children| !children.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_touches_new_memory_has_faulted_and_one_that_counts_has_not() {
        let faulted = |work: fn()| {
            std::thread::spawn(move || {
                // SAFETY: takes no arguments and cannot fail.
                let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
                // The first look touches what the next ones do.
                let (_, before) = (faults(own), faults(own)?);
                work();
                Some(faults(own)? - before)
            })
            .join()
            .unwrap()
        };
        let touches = faulted(|| {
            let page = std::hint::black_box(vec![1_u8; 16 << 20]);
            assert_eq!(page[12 << 20], 1);
        });
        // An emulator answers nothing.
        assert!(touches.is_none_or(|faults| faults > 100), "{touches:?}");
        let counts = faulted(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) {}
        });
        assert!(counts.is_none_or(|faults| faults < 100), "{counts:?}");
    }

    #[test]
    fn a_thread_that_sleeps_computes_for_little_of_the_time_and_one_that_runs_for_most() {
        let took = |work: fn()| {
            std::thread::spawn(move || {
                // SAFETY: takes no arguments and cannot fail.
                let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
                let (begin, before) = (Instant::now(), runnable(own)?);
                work();
                let nanos = runnable(own)? - before;
                Some(ComputeTime { nanos, within_nanos: begin.elapsed().as_nanos() as Nanos, alone: false })
            })
            .join()
            .unwrap()
        };
        let runs = took(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(300) {}
        });
        let (tell, told) = std::sync::mpsc::channel();
        let spins = std::thread::spawn(move || {
            // SAFETY: takes no arguments and cannot fail.
            tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as u32).unwrap();
            while tell.send(0).is_ok() {}
        });
        let spinning = told.recv().unwrap();
        // An emulator answers nothing.
        let is_told = thread_activity::is_told(spinning);
        assert!(!is_told || (0..500).any(|_| thread_activity::is_runnable(spinning)), "it is runnable");
        drop(told);
        spins.join().unwrap();
        // If the kernel counts nothing, there is nothing to test.
        assert!(runs.is_none_or(ComputeTime::is_most), "{runs:?}");
        let sleeps = took(|| std::thread::sleep(Duration::from_millis(300)));
        assert!(sleeps.is_none_or(|time| !time.is_most()), "{sleeps:?}");
    }
}
