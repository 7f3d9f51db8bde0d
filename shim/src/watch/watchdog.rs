//! The watchdog: it finds a driver call that has been in progress for too long, or endless equal queries, and reports what they wait for.
//!
//! It reads the threads' slots a few times a second. Past the threshold it takes a snapshot of the process's own recording, diagnoses it and reports. While
//! nothing changes it repeats that shortly, after pauses that double. At the end it says in a line how.
//!
//! Each step of a report may be the last one that succeeds, so the surest comes first. (1) The report goes into the run folder; where no thread is in a call,
//! the driver is asked first. (2) The probe asks the driver, 300 ms at most, and the snapshot is taken again; if nothing is in flight after all, the report
//! is removed. (3) The kernel reads the stacks of blocked threads. (4) One block goes to standard error. (5) At a hang, a child writes Python's stacks. (6)
//! The driver is asked where the device's threads stand (`LAZYGUARD_GPU_DUMP`), which ends the context's work. (7) `LAZYGUARD_ON_HANG`, once a verdict is
//! certain or has lasted for three thresholds.
//!
//! A process that submits no more, while nothing of it waits, is a case of its own ([`stalling`]).
//!
//! Must not: call the driver, or take a lock that a stuck thread can hold.

mod acting;
mod stalling;

use super::command::Commands;
use super::device::{Device, Standing};
use super::late::Peers;
use super::live_report::{ends, still_inside, threads_of, what_is_known};
use super::stall::Stalling;
use super::telling::{keep, name_the_late, say_that_it_is_over, say_what_is_beside};
use super::{probe, processor_time, python, revoke, stacks};
use crate::record::reports::{Reported, Waiting};
use crate::record::run_folder::HANG;
use crate::record::schedule::Schedule;
use crate::record::Guard;
use crate::runtime::process::retired;
use crate::runtime::{own_thread, thread};
use lazyguard_core::diagnose::{Asked, BusyStream, CallEnd, Status};
use lazyguard_core::report::{Block, HangReport, Outcome};
use lazyguard_core::state::{PublishedCall, ThreadSlot};
use lazyguard_core::sync::lock;
use lazyguard_core::trace::Keep;
use lazyguard_core::Nanos;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread::Thread;
use std::time::Duration;

/// Most reports of slow waits in one process, and of hangs that follow each other without a rest.
const MOST_REPORTS: u64 = 20;
/// The rest before each further hang is looked for, in thresholds.
const REST_OF_MANY: u64 = 10;
/// A longer sleep means that the whole process was stopped.
const OVERSLEPT_NANOS: u64 = 400_000_000;
/// An expensive snapshot; those take at most one part in so many of a processor's time.
const DEAR_NANOS: Nanos = 50_000_000;
const LOOK_SHARE: u64 = 20;
const LONGEST_PAUSE: Nanos = 3_600_000_000_000;
/// Later launches show that the program ignores the error that it got on purpose.
const HANDLES_IN: Nanos = 1_000_000_000;

static OWN: Mutex<Option<Thread>> = Mutex::new(None);
static ENDS: AtomicBool = AtomicBool::new(false);

/// The guard's threads are the last ones: the watchdog's, with the program's descriptors, ends the process, as the C library does.
pub fn end() {
    ENDS.store(true, Ordering::Relaxed);
    lock(&OWN).iter().for_each(Thread::unpark);
}

/// As a program's thread: with a stack for exit handlers, and without blocked signals.
fn end_by_a_thread() {
    own_thread::unblock_signals();
    if std::thread::Builder::new().stack_size(8 << 20).spawn(|| std::process::exit(0)).is_err() {
        std::process::exit(0);
    }
    loop {
        std::thread::park();
    }
}

/// If hangs are not looked for, the thread only ends the process.
pub fn run(guard: &'static Guard) {
    *lock(&OWN) = Some(std::thread::current());
    let watches = guard.settings.hang_after_nanos > 0;
    let mut watch = Watch::new(guard);
    while !retired() {
        if watches {
            watch.sleep();
        } else {
            std::thread::park();
        }
        if ENDS.load(Ordering::Relaxed) {
            end_by_a_thread();
        }
        if !watches {
            continue;
        }
        watch.commands.look(guard);
        watch.tick(guard.now());
    }
}

struct Incident {
    report: HangReport,
    /// Past the threshold then; empty where no thread was in a call.
    waiting: Vec<Waiting>,
    /// Then the streams that stand still.
    streams: Vec<Standing>,
    calls: u64,
    next: Nanos,
    /// When the driver was last asked.
    asked: Nanos,
    pause: Nanos,
    told: Nanos,
    announced: bool,
}

impl Incident {
    fn acts(&mut self) -> &mut HangReport {
        self.report.acts = true;
        &mut self.report
    }
}

/// Its blocked calls have returned an error on purpose.
struct Failed {
    report: HangReport,
    /// Launches until then may belong to the program's handling.
    handles_until: Nanos,
    /// Made by then.
    launches: Option<u64>,
}

struct Watch {
    guard: &'static Guard,
    every: Duration,
    threshold: Nanos,
    /// The process has not been stopped since.
    awake_since: Nanos,
    incident: Option<Incident>,
    failed: Option<Failed>,
    was_over: bool,
    /// The earliest time of the next look.
    look_at: Nanos,
    /// No look comes before, where many hangs have ended.
    rests_until: Nanos,
    /// Their number, its last change, and whether a snapshot was taken since.
    calls: u64,
    quiet_since: Nanos,
    quiet_known: bool,
    slow_reports: u64,
    device: Device,
    cost: Cell<Nanos>,
    commands: Commands,
    stalling: Stalling,
    peers: RefCell<Peers>,
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
            failed: None,
            was_over: false,
            look_at: 0,
            rests_until: 0,
            calls: 0,
            quiet_since: 0,
            quiet_known: false,
            slow_reports: 0,
            device: Device::default(),
            cost: Cell::new(0),
            commands: Commands::default(),
            stalling: Stalling::default(),
            peers: RefCell::default(),
        }
    }

    fn sleep(&mut self) {
        let slept_from = self.guard.now();
        std::thread::park_timeout(self.every);
        let now = self.guard.now();
        if now - slept_from > self.every.as_nanos() as u64 + OVERSLEPT_NANOS {
            // Stopped or starved: time that all threads lost is no hang.
            self.awake_since = now;
        }
        // Waiting for a thread that a schedule holds is no hang.
        self.awake_since = self.awake_since.max(self.guard.schedule.as_ref().map_or(0, Schedule::held));
    }

    fn tick(&mut self, now: Nanos) {
        // Before a call is past the threshold, for its first report.
        processor_time::note(self.guard, self.threshold);
        let waiting = self.waiting(now);
        let over = self.incident.as_ref().is_some_and(|incident| self.is_over(incident, &waiting));
        // A stopped process does not poll.
        if over && self.was_over {
            self.went_on(now);
        }
        self.was_over = over && self.incident.is_some();
        self.take_part_in_a_failure();
        self.look_at_the_failed(now);
        let rests = now < self.rests_until;
        let quiet = !rests && self.is_quiet(now);
        self.ask_the_late(now);
        self.act(now);
        match &self.incident {
            // Its calls return in a moment.
            Some(incident) if incident.report.acts && revoke::was_lately(self.guard, now) => {}
            Some(incident) if now >= incident.next => self.look_again(waiting, now),
            Some(_) => {}
            None if rests => {}
            None if !waiting.is_empty() && now >= self.look_at => self.look(waiting, now),
            None if quiet => self.look_at_the_quiet(),
            None => self.look_at_the_device(now),
        }
        self.look_at_the_rhythm(now);
    }

    /// The report names the ranks that are late once they have said what they do.
    fn ask_the_late(&mut self, now: Nanos) {
        let peers = self.peers.get_mut();
        let Some(incident) = self.incident.as_mut().filter(|_| peers.ask_again(self.guard, now)) else { return };
        let since = incident.waiting.iter().map(|(_, entered)| *entered).min();
        if peers.are_over(self.guard, since.unwrap_or(now), self.awake_since) {
            // An expensive snapshot would come later.
            incident.next = now;
        }
        if let Some(is_new) = peers.name_in(&mut incident.report, self.guard, self.awake_since) {
            name_the_late(self.guard, &incident.report, is_new);
        }
    }

    /// Past the threshold, or reported and still waiting.
    fn waiting(&self, now: Nanos) -> Vec<Waiting> {
        let slots = self.guard.tracker.threads().filter(|(_, slot)| slot.in_use());
        slots
            .filter_map(|(_, slot)| self.waits_in_a_call(slot, now).or_else(|| self.waits_in_a_poll(slot, now)))
            .collect()
    }

    fn waits_in_a_call(&self, slot: &ThreadSlot, now: Nanos) -> Option<Waiting> {
        let call = slot.published()?;
        let waiting = (call.thread, call.record.entered);
        // `still_inside` reads a file.
        let waits = self.is_known(&waiting) || self.is_past(&waiting, now) && still_inside(&call);
        // A query of a poll is none by itself.
        let asks = is_query(&call) && self.polls(slot).is_some();
        (waits && !asks).then_some(waiting)
    }

    fn waits_in_a_poll(&self, slot: &ThreadSlot, now: Nanos) -> Option<Waiting> {
        let Asked { since, last, .. } = self.polls(slot)?;
        let waiting = (slot.thread(), since);
        // In the next query, or in one a moment ago. In a failed context any call is one.
        let asks = || match slot.published().filter(|_| slot.asking().is_some()) {
            Some(call) => is_query(&call) && still_inside(&call),
            None => self.awake(last, now) <= Asked::pause(self.threshold),
        };
        ((self.is_known(&waiting) || self.is_past(&waiting, now)) && asks()).then_some(waiting)
    }

    fn polls(&self, slot: &ThreadSlot) -> Option<Asked> {
        // A few calls that fail, one after the other, are no loop.
        let goes_on = |asked: &Asked| asked.last.saturating_sub(asked.since) >= self.threshold;
        let in_vain = || slot.asking_in_vain().filter(goes_on);
        slot.asking().or_else(in_vain).filter(|asked| asked.is_poll(self.threshold))
    }

    fn awake(&self, since: Nanos, now: Nanos) -> Nanos {
        now.saturating_sub(since.max(self.awake_since))
    }

    fn is_past(&self, waiting: &Waiting, now: Nanos) -> bool {
        self.awake(waiting.1, now) >= self.threshold
    }

    /// A reported wait lasts until its call returns, also in a process that was stopped.
    fn is_known(&self, waiting: &Waiting) -> bool {
        self.incident.as_ref().is_some_and(|incident| incident.waiting.contains(waiting))
    }

    fn is_over(&self, incident: &Incident, waiting: &[Waiting]) -> bool {
        match incident.waiting.is_empty() {
            true if !incident.streams.is_empty() => !Device::stands(self.guard, &incident.streams),
            true => self.guard.tracker.counts().0 != incident.calls,
            false => !incident.waiting.iter().any(|one| waiting.contains(one)),
        }
    }

    /// A report takes its time on a busy machine.
    fn lasts(&self) -> bool {
        self.incident.as_ref().is_some_and(|incident| !self.is_over(incident, &self.waiting(self.guard.now())))
    }

    /// Whether no thread has called the driver for long, with work in flight, unseen so far.
    fn is_quiet(&mut self, now: Nanos) -> bool {
        let calls = self.guard.tracker.counts().0;
        if calls != self.calls {
            (self.calls, self.quiet_since, self.quiet_known) = (calls, now, false);
        }
        let quiet = now.saturating_sub(self.quiet_since.max(self.awake_since)) >= self.guard.settings.patience_nanos();
        quiet && !std::mem::replace(&mut self.quiet_known, true) && !self.guard.tracker.in_flight(0).is_empty()
    }

    fn what_is_known(&self) -> Option<HangReport> {
        let since = self.guard.now();
        let known = what_is_known(self.guard, self.threshold, self.awake_since);
        let known = known.map(|report| self.peers.borrow_mut().ask(self.guard, report, self.awake_since));
        self.cost.set(self.guard.now().saturating_sub(since));
        known
    }

    fn look(&mut self, waiting: Vec<Waiting>, now: Nanos) {
        let Some(report) = self.what_is_known() else { return };
        if report.status == Status::Well {
            self.look_at = now + (self.threshold / 2).max(250_000_000).max(self.rest());
            return;
        }
        self.tell(report, waiting);
    }

    /// No thread waits in a call, so the driver is asked first.
    fn look_at_the_quiet(&mut self) {
        let Some(report) = self.what_is_known() else { return };
        // A slow wait is looked at again.
        let is_one = |report: &HangReport| report.status != Status::Well;
        if !is_one(&report) {
            return;
        }
        let Some(report) = self.asked(&report).filter(is_one) else { return };
        self.tell(report, Vec::new());
    }

    /// Streams stand still; the driver is asked about them first.
    fn look_at_the_device(&mut self, now: Nanos) {
        let Some(streams) = self.device.due(self.guard, now, self.awake_since, self.rest()) else { return };
        let Some(mut report) = self.what_is_known() else { return };
        report.snapshot.streams.retain(|stream| streams.contains(&stream.stream.number));
        let Some(report) = self.asked(&report).filter(|report| report.status != Status::Well) else { return };
        self.tell(report, Vec::new());
    }

    fn look_again(&mut self, waiting: Vec<Waiting>, now: Nanos) {
        let Some(report) = self.what_is_known() else { return };
        let asks = self.incident.as_ref().is_some_and(|incident| self.is_to_ask(incident, &report, now));
        let report = if asks { self.asked(&report).unwrap_or(report) } else { report };
        let pause = self.pause_of(&report);
        let Some(incident) = &mut self.incident else { return };
        if asks {
            incident.asked = now;
        }
        if report.status == Status::Hang && !report.same_hang(&incident.report) {
            let waiting = if waiting.is_empty() { incident.waiting.clone() } else { waiting };
            self.tell(report, waiting);
            return;
        }
        // Else the process was stopped a moment ago.
        let stands = report.status == incident.report.status;
        if stands && report.verdicts.iter().any(|verdict| !incident.report.tells(verdict)) {
            incident.told = now;
            say_what_is_beside(self.guard, &mut incident.report, report);
        } else if stands && now.saturating_sub(incident.told) >= incident.pause {
            incident.told = now;
            incident.pause = incident.pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.guard.reports.add(&report.repeated());
        }
        incident.next = now + pause;
    }

    /// Each query may show progress. An answer about a stream at rest counts for the patience, which the next look comes before.
    fn is_to_ask(&self, incident: &Incident, report: &HangReport, now: Nanos) -> bool {
        let is_old = now.saturating_sub(incident.asked) >= self.guard.settings.patience_nanos() / 2;
        incident.waiting.is_empty() || report.status == Status::Slow || is_old
    }

    /// The least pause, so that the program keeps the processor.
    fn rest(&self) -> Nanos {
        match self.cost.get() {
            cost if cost >= DEAR_NANOS => cost.saturating_mul(LOOK_SHARE),
            _ => 0,
        }
    }

    fn pause_of(&self, report: &HangReport) -> Nanos {
        let pause = match report.status {
            // Soon called a hang.
            Status::Slow => (self.threshold / 4).max(250_000_000),
            _ => self.threshold,
        };
        pause.max(self.rest())
    }

    fn asked(&self, report: &HangReport) -> Option<HangReport> {
        let seen = probe::ask(self.guard, thread::slot(self.guard)?, &report.snapshot);
        let mut amended = self.what_is_known()?;
        amended.probe = Some(seen);
        Some(amended)
    }

    fn tell(&mut self, mut report: HangReport, waiting: Vec<Waiting>) {
        let guard = self.guard;
        if report.status == Status::Slow && self.slow_reports >= MOST_REPORTS {
            self.look_at = guard.now() + self.threshold.max(self.rest());
            return;
        }
        guard.mappings.at_a_hang(guard);
        // A process that is killed now leaves a recording from which the report follows.
        guard.tracker.recorder().seen_alive(guard.now());
        // The report is in the run folder before anything else is tried, and in one block on standard error once the driver has answered, or not.
        keep(guard, &report);
        if report.probe.is_none() {
            report = self.asked(&report).unwrap_or(report);
        }
        if report.status == Status::Well {
            // Everything has ended unseen.
            self.forget();
            return;
        }
        self.count(report.status);
        let (calls, running) = threads_of(guard, &report);
        report.stacks = stacks::read(guard, &calls, &running, true);
        report.places = stacks::places(report.addresses());
        let slow = self.incident.take().map(|incident| incident.report).filter(|told| told.status == Status::Slow);
        {
            // From now on, an exit says that it is over.
            let mut open = lock(&guard.reports.open);
            guard.reports.write(&report, slow.as_ref());
            *open = Some(Reported { report: report.copied(), waiting: waiting.clone() });
        }
        if report.status == Status::Hang {
            // The child may take long.
            keep(guard, &report);
            report.python = python::save(guard);
        }
        guard.reports.write_stacks(&report, slow.as_ref());
        keep(guard, &report);
        if let Some(reported) = lock(&guard.reports.open).as_mut() {
            reported.report = report.copied();
        }
        let now = guard.now();
        self.incident = Some(Incident {
            next: now + self.pause_of(&report),
            asked: now,
            streams: streams_of(guard, &report, &waiting),
            report,
            waiting,
            calls: guard.tracker.counts().0,
            pause: self.threshold,
            told: now,
            announced: false,
        });
        self.act(now);
    }

    fn count(&mut self, status: Status) {
        let guard = self.guard;
        if status != Status::Hang {
            self.slow_reports += 1;
            return;
        }
        guard.reports.count_hang();
        if guard.reports.hangs() == MOST_REPORTS {
            let seconds = self.threshold.saturating_mul(REST_OF_MANY) as f64 / 1e9;
            guard.reports.add(&Block::marked([format!(
                "hang {MOST_REPORTS} of this process: the guard rests for {seconds:.1} s after each that ends"
            )]));
        }
        guard.marker.iter().for_each(|marker| marker.raise(guard.id, &guard.rank, false));
    }

    fn went_on(&mut self, now: Nanos) {
        let Some(mut incident) = self.incident.take() else { return };
        self.peers.get_mut().over(self.guard);
        if self.guard.reports.hangs() >= MOST_REPORTS {
            self.rests_until = now + self.threshold.saturating_mul(REST_OF_MANY);
        }
        // Slow: an exiting thread reports it.
        incident.report.ends = ends(self.guard, &incident.report);
        if incident.report.ends.iter().any(CallEnd::lost_work) {
            self.device.lost = true;
        }
        // Else an exiting thread has.
        if lock(&self.guard.reports.open).take().is_some() {
            let report = say_that_it_is_over(self.guard, incident.report, now);
            if report.outcome() == Outcome::FailedOnPurpose {
                self.failed = Some(Failed { report, handles_until: now + HANDLES_IN, launches: None });
            }
        }
    }

    fn forget(&mut self) {
        if let Some(folder) = &self.guard.folder {
            // Else the report stays as it was.
            let _ = std::fs::remove_file(folder.path().join(HANG));
        }
        self.guard.tracker.recorder().tell_of_a_hang(0);
        self.incident = None;
        self.peers.get_mut().over(self.guard);
        *lock(&self.guard.reports.open) = None;
        self.look_at = self.guard.now() + self.threshold;
    }
}

fn streams_of(guard: &Guard, report: &HangReport, waiting: &[Waiting]) -> Vec<Standing> {
    let is_one = |stream: &&BusyStream| waiting.is_empty() && report.snapshot.stands_at_rest(stream);
    Device::reported(guard, report.snapshot.streams.iter().filter(is_one).map(|stream| stream.stream.number))
}

fn is_query(call: &PublishedCall) -> bool {
    Keep::of(call.record.entry_point.class()) == Keep::Folded
}
