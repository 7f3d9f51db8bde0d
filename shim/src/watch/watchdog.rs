//! The watchdog: sees that a driver call has been going on for too long, or that the program asks the same again and again, and
//! says what it waits for.
//!
//! It looks at the threads' slots a few times a second. When something is past the threshold it takes a snapshot of the
//! process's own recording, diagnoses it, and writes the report into the run folder. Then the probe asks the driver, which takes a
//! moment at most, and what the report says with that goes to standard error. While nothing changes it reports again, shortly, after pauses that
//! double; when what was reported is over, it says in a line how: the program went on, a call came back with an error, or it was left.
//!
//! Each step of a report may be the last one that succeeds, so the surest comes first:
//!
//! 1. The report is written into the run folder. (Where no thread is in a call the knowledge may be old, so the driver is asked first.)
//! 2. The driver is asked, and the snapshot is taken again with its answers: 300 ms at most. If nothing is in flight after all, the
//!    report is removed.
//! 3. The stacks of the blocked threads are read by the kernel, from where their slots say that they begin, and written as a minidump.
//!    No thread is stopped or signalled.
//! 4. One block goes to standard error. It comes after the questions, because then it is one block, and right.
//! 5. Of a hang in a process with Python, Python's own function writes the stacks of its threads, in a child that has a copy of the
//!    process's memory and makes only system calls and that one call.
//! 6. `LAZYGUARD_ON_HANG` is carried out, now or when it is time. It cannot be undone, so it waits until a verdict is certain or has lasted
//!    for three times the threshold.
//!
//! Must not: call the driver, or take a lock that a stuck thread can hold.

use super::command::Commands;
use super::live_report::{ends, still_inside, threads_of, what_is_known};
use super::on_hang;
use super::probe;
use super::python;
use super::stacks;
use crate::record::reports::{Reported, Waiting};
use crate::record::run_folder::{HANG, RUN};
use crate::record::Guard;
use crate::runtime::process::retired;
use crate::runtime::standard_error;
use crate::runtime::thread;
use lazyguard_core::diagnose::{Confidence, Status, ASKS_NO_MORE_NANOS};
use lazyguard_core::report::HangReport;
use lazyguard_core::settings::OnHang;
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::cell::Cell;
use std::time::Duration;

/// Reports in one process: a program that hangs a hundred times has been understood before.
const MOST_REPORTS: u64 = 20;

/// A sleep that takes this much longer than it was to is a stop of the whole process.
const OVERSLEPT_NANOS: u64 = 400_000_000;

/// A look that took this long is a dear one: those take at most one part in so many of a processor's time.
const DEAR_NANOS: Nanos = 50_000_000;
const LOOK_SHARE: u64 = 20;

/// The longest pause between two reports of the same.
const LONGEST_PAUSE: Nanos = 3_600_000_000_000;

/// The body of the watchdog's thread.
pub fn run(guard: &'static Guard) {
    let mut watch = Watch::new(guard);
    while !retired() {
        watch.sleep();
        watch.commands.look(guard);
        if watch.reports < MOST_REPORTS || watch.incident.is_some() {
            watch.tick(guard.now());
        }
    }
}

/// Something that was reported and still is so.
struct Incident {
    report: HangReport,
    /// What was past the threshold then; nothing where no thread was in a call.
    waiting: Vec<Waiting>,
    /// How many calls had been made.
    calls: u64,
    /// When to look again, and the pause after that.
    next: Nanos,
    pause: Nanos,
    /// When it was last spoken of.
    told: Nanos,
    /// Whether what the user wants done about a hang has been done.
    acted: bool,
    /// Whether it has been said that it will be.
    announced: bool,
}

struct Watch {
    guard: &'static Guard,
    every: Duration,
    threshold: Nanos,
    /// Since when the process has not been stopped as a whole.
    awake_since: Nanos,
    incident: Option<Incident>,
    /// Not looked at again before.
    look_at: Nanos,
    /// How many calls had been made when that last changed, and when; whether that has been looked at.
    calls: u64,
    quiet_since: Nanos,
    quiet_known: bool,
    reports: u64,
    /// How long the last look took.
    cost: Cell<Nanos>,
    /// What was started because of a hang.
    commands: Commands,
}

impl Watch {
    fn new(guard: &'static Guard) -> Self {
        let threshold = guard.settings.hang_after_nanos;
        Self {
            guard,
            every: Duration::from_nanos((threshold / 4).clamp(20_000_000, 250_000_000)),
            threshold,
            awake_since: 0,
            incident: None,
            look_at: 0,
            calls: 0,
            quiet_since: 0,
            quiet_known: false,
            reports: 0,
            cost: Cell::new(0),
            commands: Commands::default(),
        }
    }

    fn sleep(&mut self) {
        let slept_from = self.guard.now();
        std::thread::sleep(self.every);
        let now = self.guard.now();
        if now - slept_from > self.every.as_nanos() as u64 + OVERSLEPT_NANOS {
            // The whole process was stopped, or starved: time that all threads lost is no hang.
            self.awake_since = now;
        }
    }

    fn tick(&mut self, now: Nanos) {
        let waiting = self.waiting(now);
        if self.incident.as_ref().is_some_and(|incident| self.is_over(incident, &waiting)) {
            self.went_on(now);
        }
        let quiet = self.is_quiet(now);
        self.act(now);
        match &self.incident {
            Some(incident) if now >= incident.next => self.look_again(waiting, now),
            Some(_) => {}
            None if !waiting.is_empty() && now >= self.look_at => self.look(waiting, now),
            None if quiet => self.look_at_the_quiet(),
            None => {}
        }
    }

    // --- what is looked at each time: a few words a thread ---

    /// What is past the threshold.
    fn waiting(&self, now: Nanos) -> Vec<Waiting> {
        let past = |since: Nanos| now.saturating_sub(since.max(self.awake_since)) >= self.threshold;
        let known = |waiting: &Waiting| self.incident.as_ref().is_some_and(|i| i.waiting.contains(waiting));
        let slots = self.guard.tracker.threads().filter(|(_, slot)| slot.in_use());
        slots
            .filter_map(|(_, slot)| match slot.published() {
                Some(call) if past(call.entered) => {
                    let waiting = (call.thread, call.entered);
                    // The question whether it is still inside reads a file, and is asked once.
                    (known(&waiting) || still_inside(&call)).then_some(waiting)
                }
                Some(_) => None,
                None => {
                    let (first, last) = slot.asking()?;
                    let asks = now.saturating_sub(last) <= self.threshold.max(ASKS_NO_MORE_NANOS);
                    (asks && past(first)).then(|| (slot.thread(), first))
                }
            })
            .collect()
    }

    /// Whether what was reported is no longer so.
    fn is_over(&self, incident: &Incident, waiting: &[Waiting]) -> bool {
        match incident.waiting.is_empty() {
            true => self.guard.tracker.counts().0 != incident.calls,
            false => !incident.waiting.iter().any(|one| waiting.contains(one)),
        }
    }

    /// Does what the user wants done about a hang: at once where it is certain, else when it has lasted for as long as anything has
    /// to that has no pattern. Whether a kernel ends cannot be known from outside, and what is done cannot be undone.
    fn act(&mut self, now: Nanos) {
        let (awake_since, patience) = (self.awake_since, self.guard.settings.patience_nanos());
        let Some(incident) = self.incident.as_mut().filter(|i| !i.acted && i.report.status == Status::Hang) else {
            return;
        };
        let certain = incident.report.verdicts.iter().any(|verdict| verdict.confidence == Confidence::Certain);
        let since = incident.waiting.iter().map(|(_, entered)| *entered).min();
        // Where no thread is in a call, it was waited for before it was called a hang.
        let lasted = since.is_none_or(|since| now.saturating_sub(since.max(awake_since)) >= patience);
        if certain || lasted {
            incident.acted = true;
            incident.report.acts = true;
            say_that_it_is_due(self.guard, &incident.report);
            on_hang::act(self.guard, &mut self.commands, &incident.report);
        } else if !incident.announced && self.guard.settings.on_hang != OnHang::Report {
            incident.announced = true;
            let seconds = patience as f64 / 1e9;
            standard_error::line(&format!(
                "the guard carries out LAZYGUARD_ON_HANG once this hang has lasted {seconds:.1} s in all"
            ));
        }
    }

    /// Whether no thread has called the driver for long, with work in flight, and that has not been looked at.
    fn is_quiet(&mut self, now: Nanos) -> bool {
        let calls = self.guard.tracker.counts().0;
        if calls != self.calls {
            (self.calls, self.quiet_since, self.quiet_known) = (calls, now, false);
        }
        let quiet = now.saturating_sub(self.quiet_since.max(self.awake_since)) >= self.guard.settings.patience_nanos();
        quiet && !std::mem::replace(&mut self.quiet_known, true) && !self.guard.tracker.in_flight(0).is_empty()
    }

    // --- what is looked at when something stands still ---

    fn what_is_known(&self) -> Option<HangReport> {
        let since = self.guard.now();
        let known = what_is_known(self.guard, self.threshold, self.awake_since);
        self.cost.set(self.guard.now().saturating_sub(since));
        known
    }

    fn look(&mut self, waiting: Vec<Waiting>, now: Nanos) {
        let Some(report) = self.what_is_known() else { return };
        if report.status == Status::Well {
            let pause = (self.threshold / 2).max(250_000_000);
            self.look_at = now + pause.max(self.rest());
            return;
        }
        self.tell(report, waiting);
    }

    /// No thread waits in a call. What is known may be old, so the driver is asked first.
    fn look_at_the_quiet(&mut self) {
        let Some(report) = self.what_is_known() else { return };
        if report.status != Status::Hang {
            return;
        }
        let Some(report) = self.asked(&report).filter(|report| report.status == Status::Hang) else { return };
        self.tell(report, Vec::new());
    }

    fn look_again(&mut self, waiting: Vec<Waiting>, now: Nanos) {
        let Some(report) = self.what_is_known() else { return };
        // What is slow is asked about each time: it may be seen to move.
        let report = match report.status {
            Status::Slow => self.asked(&report).unwrap_or(report),
            _ => report,
        };
        let pause = self.pause_of(&report);
        let Some(incident) = &mut self.incident else { return };
        if report.status == Status::Hang && !report.same_cause(&incident.report) {
            let waiting = if waiting.is_empty() { incident.waiting.clone() } else { waiting };
            self.tell(report, waiting);
            return;
        }
        if now.saturating_sub(incident.told) >= incident.pause {
            incident.told = now;
            incident.pause = incident.pause.saturating_mul(2).min(LONGEST_PAUSE);
            standard_error::write(&report.repeated());
        }
        incident.next = now + pause;
    }

    /// How long to leave the processor to the program after the last look.
    fn rest(&self) -> Nanos {
        match self.cost.get() {
            cost if cost >= DEAR_NANOS => cost.saturating_mul(LOOK_SHARE),
            _ => 0,
        }
    }

    /// How long to look away.
    fn pause_of(&self, report: &HangReport) -> Nanos {
        let pause = match report.status {
            // So that it is called by its name soon after its time.
            Status::Slow => (self.threshold / 4).max(250_000_000),
            _ => self.threshold,
        };
        // Looking through a big recording takes its time, which is the program's.
        pause.max(self.rest())
    }

    /// The report, amended by what the driver says.
    fn asked(&self, report: &HangReport) -> Option<HangReport> {
        let seen = probe::ask(self.guard, thread::slot(self.guard)?, &report.snapshot);
        let mut amended = self.what_is_known()?;
        amended.probe = Some(seen);
        Some(amended)
    }

    // --- what is said ---

    fn tell(&mut self, mut report: HangReport, waiting: Vec<Waiting>) {
        let guard = self.guard;
        guard.mappings.at_a_hang(guard);
        // It is in the run folder before anything else is tried, whatever comes of that, and on standard error as soon as the
        // driver has answered, or has not within a moment: once, and right.
        keep(guard, &report);
        if report.probe.is_none() {
            report = self.asked(&report).unwrap_or(report);
        }
        if report.status == Status::Well {
            // Everything has ended, and no call has told so.
            self.forget();
            return;
        }
        self.reports += 1;
        if report.status == Status::Hang {
            guard.reports.count_hang();
        }
        let (calls, running) = threads_of(guard, &report);
        report.stacks = stacks::save(guard, &calls, &running);
        report.places = stacks::places(report.addresses());
        standard_error::write(&report.text());
        if report.status == Status::Hang {
            // Another process is asked, which takes longer on a bad day.
            keep(guard, &report);
            report.python = python::save(guard);
        }
        standard_error::write(&report.stacks_text());
        keep(guard, &report);
        let now = guard.now();
        *lock(&guard.reports.open) = Some(Reported { report: report.clone(), waiting: waiting.clone() });
        self.incident = Some(Incident {
            next: now + self.pause_of(&report),
            report,
            waiting,
            calls: guard.tracker.counts().0,
            pause: self.threshold,
            told: now,
            acted: false,
            announced: false,
        });
        self.act(now);
    }

    fn went_on(&mut self, now: Nanos) {
        let Some(mut incident) = self.incident.take() else { return };
        // This takes a moment. At an exit meanwhile it is still to be said there.
        incident.report.ends = ends(self.guard, &incident.report);
        // At an exit that came before, it has been said.
        if lock(&self.guard.reports.open).take().is_some() {
            say_that_it_is_over(self.guard, incident.report, now);
        }
    }

    /// There is nothing to report after all.
    fn forget(&mut self) {
        if let Some(folder) = &self.guard.folder {
            // Where it cannot be removed, it is told as what it was: kept before the driver was asked.
            let _ = std::fs::remove_file(folder.path().join(HANG));
        }
        self.incident = None;
        *lock(&self.guard.reports.open) = None;
        self.look_at = self.guard.now() + self.threshold;
    }
}

/// The program ends in an orderly way: what was reported and is waited for no more has gone on.
pub fn at_exit(guard: &Guard) {
    // The watchdog holds it for a moment only; an exit waits for no more.
    let Some(Reported { mut report, waiting }) = guard.reports.open.try_lock().ok().and_then(|mut open| open.take())
    else {
        return;
    };
    let still = |(thread, entered): &Waiting| {
        let mut calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published());
        calls.any(|call| call.thread == *thread && call.entered == *entered)
    };
    if !waiting.iter().any(still) {
        report.ends = ends(guard, &report);
        say_that_it_is_over(guard, report, guard.now());
    }
}

/// `lazyguard run --on-hang kill` waits for this: the report is complete.
fn say_that_it_is_due(guard: &Guard, report: &HangReport) {
    if let Some(reported) = lock(&guard.reports.open).as_mut() {
        reported.report.acts = true;
    }
    let Some(folder) = &guard.folder else { return };
    let ended = lock(&guard.reports.ended);
    if !*ended {
        // Where it cannot be replaced, `keep` has said so a moment ago.
        let _ = folder.replace(HANG, &report.json());
    }
}

fn say_that_it_is_over(guard: &Guard, mut report: HangReport, now: Nanos) {
    standard_error::write(&report.went_on(now));
    report.resolved = Some(now);
    keep(guard, &report);
}

/// Keeps a report, and everything else, in the run folder.
fn keep(guard: &Guard, report: &HangReport) {
    let Some(folder) = &guard.folder else { return };
    // The process may be at its exit meanwhile: what is written there is the last word.
    let ended = lock(&guard.reports.ended);
    if *ended {
        return;
    }
    let summary = guard.summary("running").json();
    let kept = folder
        .replace(HANG, &report.json())
        .and_then(|()| folder.replace(RUN, &summary))
        .and_then(|()| guard.backing.save(folder));
    if let Err(error) = kept {
        standard_error::line(&format!("the report could not be kept in {}: {error}", folder.path().display()));
    }
}
