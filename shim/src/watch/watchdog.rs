//! The watchdog: it finds a driver call that has been in progress for too long, or a program that repeats the same query, and reports what
//! it waits for.
//!
//! It reads the threads' slots a few times a second. When something is past the threshold it takes a snapshot of the process's own
//! recording, diagnoses it and reports. While nothing changes it reports again, shortly, after pauses that double. When what was reported
//! is over, it says in a line how.
//!
//! Each step of a report may be the last one that succeeds, so the surest comes first. (1) The report goes into the run folder; where no
//! thread is in a call the knowledge may be old, and the driver is asked first. (2) The probe asks the driver, 300 ms at most, and the
//! snapshot is taken again with its answers; if nothing is in flight after all, the report is removed. (3) The kernel reads the stacks of
//! the blocked threads, without a signal or a stop. (4) One block goes to standard error. (5) At a hang in a process with Python, a child
//! writes the stacks of Python's threads. (6) The driver is asked where the device's threads stand (`LAZYGUARD_GPU_DUMP`), which ends the
//! work of the context. (7) `LAZYGUARD_ON_HANG`, once a verdict is certain or has lasted for three thresholds: that cannot be undone.
//!
//! Must not: call the driver, or take a lock that a stuck thread can hold.

use super::command::Commands;
use super::device::Device;
use super::live_report::{ends, still_inside, threads_of, what_is_known};
use super::on_hang;
use super::probe;
use super::processor_time;
use super::python;
use super::revoke;
use super::stacks;
use super::telling::{keep, say_that_it_is_due, say_that_it_is_over, take_gpu_dump};
use crate::record::reports::{Reported, Waiting};
use crate::record::run_folder::HANG;
use crate::record::schedule::Schedule;
use crate::record::Guard;
use crate::runtime::own_thread;
use crate::runtime::process::retired;
use crate::runtime::thread;
use lazyguard_core::diagnose::{BusyStream, CallEnd, Confidence, Status, ASKS_NO_MORE_NANOS};
use lazyguard_core::report::{Block, HangReport, Outcome};
use lazyguard_core::settings::OnHang;
use lazyguard_core::state::{PublishedCall, ThreadSlot};
use lazyguard_core::sync::lock;
use lazyguard_core::trace::Keep;
use lazyguard_core::Nanos;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread::Thread;
use std::time::Duration;

/// The most reports in one process of what is slow, and of hangs: further ones would add nothing.
const MOST_REPORTS: u64 = 20;
/// A sleep that lasts this much longer than requested means that the whole process was stopped.
const OVERSLEPT_NANOS: u64 = 400_000_000;
/// A snapshot that took this long is expensive: those take at most one part in so many of a processor's time.
const DEAR_NANOS: Nanos = 50_000_000;
const LOOK_SHARE: u64 = 20;
const LONGEST_PAUSE: Nanos = 3_600_000_000_000;
/// In thresholds: how long other ranks get to come to a communicator that is made again after a revoke.
const LATECOMERS_PATIENCE: u64 = 10;
/// How long a program may launch work after its calls have returned an error on purpose. Later launches show that it ignores the error.
const HANDLES_IN: Nanos = 1_000_000_000;

static OWN: Mutex<Option<Thread>> = Mutex::new(None);
static ENDS: AtomicBool = AtomicBool::new(false);

/// The guard's threads are the last ones: the watchdog's ends the process, as the C library does in the last thread. It has the program's
/// descriptors, to which exit handlers may write.
pub fn end() {
    ENDS.store(true, Ordering::Relaxed);
    lock(&OWN).iter().for_each(Thread::unpark);
}

/// In a thread as those of programs are: with a stack for exit handlers, and without blocked signals.
fn end_by_a_thread() {
    own_thread::unblock_signals();
    if std::thread::Builder::new().stack_size(8 << 20).spawn(|| std::process::exit(0)).is_err() {
        std::process::exit(0);
    }
    loop {
        std::thread::park();
    }
}

/// The body of the watchdog's thread. If hangs are not looked for, it only ends the process.
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
        if watch.reports < MOST_REPORTS || watch.incident.is_some() {
            watch.tick(guard.now());
        }
    }
}

struct Incident {
    report: HangReport,
    /// What was past the threshold then; nothing where no thread was in a call.
    waiting: Vec<Waiting>,
    /// Where no thread was in a call: the streams that stand still, and when the newest submission to each returned.
    streams: Vec<(u32, Nanos)>,
    /// How many calls had been made.
    calls: u64,
    /// When to look again, and the pause after that.
    next: Nanos,
    pause: Nanos,
    told: Nanos,
    acted: bool,
    announced: bool,
}

impl Incident {
    /// Its report, whose action is carried out from now on.
    fn acts(&mut self) -> &mut HangReport {
        self.acted = true;
        self.report.acts = true;
        &mut self.report
    }
}

/// A program whose blocked calls have returned an error on purpose.
struct Failed {
    report: HangReport,
    /// Until when launches may belong to what the program does about it.
    handles_until: Nanos,
    /// How many had been made then.
    launches: Option<u64>,
}

struct Watch {
    guard: &'static Guard,
    every: Duration,
    threshold: Nanos,
    /// Since when the process has not been stopped as a whole.
    awake_since: Nanos,
    incident: Option<Incident>,
    failed: Option<Failed>,
    was_over: bool,
    /// The earliest time of the next look.
    look_at: Nanos,
    /// The number of calls, when it last changed, and whether a snapshot was taken since.
    calls: u64,
    quiet_since: Nanos,
    quiet_known: bool,
    reports: u64,
    slow_reports: u64,
    device: Device,
    cost: Cell<Nanos>,
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
            failed: None,
            was_over: false,
            look_at: 0,
            calls: 0,
            quiet_since: 0,
            quiet_known: false,
            reports: 0,
            slow_reports: 0,
            device: Device::default(),
            cost: Cell::new(0),
            commands: Commands::default(),
        }
    }

    fn sleep(&mut self) {
        let slept_from = self.guard.now();
        std::thread::park_timeout(self.every);
        let now = self.guard.now();
        if now - slept_from > self.every.as_nanos() as u64 + OVERSLEPT_NANOS {
            // The whole process was stopped, or starved: time that all threads lost is no hang.
            self.awake_since = now;
        }
        // Calls that wait for a thread which a schedule holds are no hang.
        let held = self.guard.schedule.as_ref().map_or(0, Schedule::held);
        self.awake_since = self.awake_since.max(held);
    }

    fn tick(&mut self, now: Nanos) {
        // Before a call is past the threshold, so that its first report says what the thread does.
        processor_time::note(self.guard, self.threshold);
        let waiting = self.waiting(now);
        let over = self.incident.as_ref().is_some_and(|incident| self.is_over(incident, &waiting));
        // A thread that polls does not do so while the process is stopped, which may have been during the last look.
        if over && self.was_over {
            self.went_on(now);
        }
        self.was_over = over && self.incident.is_some();
        self.take_part_in_a_failure();
        self.look_at_the_failed(now);
        let quiet = self.is_quiet(now);
        self.act(now);
        match &self.incident {
            // Its calls return in a moment, unless they wait for something else as well.
            Some(incident) if incident.acted && revoke::was_lately(self.guard, now) => {}
            Some(incident) if now >= incident.next => self.look_again(waiting, now),
            Some(_) => {}
            None if !waiting.is_empty() && now >= self.look_at => self.look(waiting, now),
            None if quiet => self.look_at_the_quiet(),
            None => self.look_at_the_device(now),
        }
    }

    // --- at each look: a few words of each thread ---

    /// What is past the threshold, or was when it was reported and still waits.
    fn waiting(&self, now: Nanos) -> Vec<Waiting> {
        let slots = self.guard.tracker.threads().filter(|(_, slot)| slot.in_use());
        slots
            .filter_map(|(_, slot)| self.waits_in_a_call(slot, now).or_else(|| self.waits_in_a_poll(slot, now)))
            .collect()
    }

    fn waits_in_a_call(&self, slot: &ThreadSlot, now: Nanos) -> Option<Waiting> {
        let call = slot.published()?;
        let waiting = (call.thread, call.entered);
        // `still_inside` reads a file, so it is called once.
        let waits = self.is_known(&waiting) || self.is_past(&waiting, now) && still_inside(&call);
        // A query that belongs to a poll is none by itself.
        let asks = is_query(&call) && slot.asking().is_some();
        (waits && !asks).then_some(waiting)
    }

    fn waits_in_a_poll(&self, slot: &ThreadSlot, now: Nanos) -> Option<Waiting> {
        let (first, last) = slot.asking()?;
        let waiting = (slot.thread(), first);
        // The thread is in the next query, or was in one a moment ago.
        let asks = || match slot.published() {
            Some(call) => is_query(&call) && still_inside(&call),
            None => self.awake(last, now) <= self.threshold.max(ASKS_NO_MORE_NANOS),
        };
        ((self.is_known(&waiting) || self.is_past(&waiting, now)) && asks()).then_some(waiting)
    }

    fn awake(&self, since: Nanos, now: Nanos) -> Nanos {
        now.saturating_sub(since.max(self.awake_since))
    }

    fn is_past(&self, waiting: &Waiting, now: Nanos) -> bool {
        self.awake(waiting.1, now) >= self.threshold
    }

    /// A process that was stopped has not gone on by that: what is reported stays so until its call returns.
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

    /// Whether the reported hang lasts: a report takes its time on a busy machine.
    fn lasts(&self) -> bool {
        self.incident.as_ref().is_some_and(|incident| !self.is_over(incident, &self.waiting(self.guard.now())))
    }

    /// Takes the user's action on a hang: at once if the verdict is certain, else after the patience for waits without a pattern. Whether a
    /// kernel ends cannot be known from outside, and the action cannot be undone.
    fn act(&mut self, now: Nanos) {
        let is_due = self.incident.as_ref().is_some_and(|i| !i.acted && i.report.status == Status::Hang);
        // Asked last: it looks at every thread.
        if !is_due || revoke::was_lately(self.guard, now) || !self.lasts() {
            return;
        }
        let (awake_since, threshold) = (self.awake_since, self.threshold);
        let mut patience = self.guard.settings.patience_nanos();
        let Some(incident) = self.incident.as_mut() else { return };
        let mut certain = incident.report.verdicts.iter().any(|verdict| verdict.confidence == Confidence::Certain);
        if revoke::waits_for_latecomers(&incident.report) {
            (certain, patience) = (false, threshold.saturating_mul(LATECOMERS_PATIENCE));
        }
        let since = incident.waiting.iter().map(|(_, entered)| *entered).min();
        // If no thread is in a call, the patience was over before the report.
        let lasted = since.is_none_or(|since| now.saturating_sub(since.max(awake_since)) >= patience);
        if certain || lasted {
            let is_revoked = revoke::revoke_for(self.guard, incident.acts());
            // Where the program has given its communicators up meanwhile, there is none to revoke.
            let lasts = self.lasts();
            let Some(incident) = self.incident.as_mut().filter(|_| is_revoked || lasts) else { return };
            if !is_revoked {
                take_gpu_dump(self.guard, Some(&mut incident.report));
                say_that_it_is_due(self.guard, &incident.report);
                if let (true, Some(marker)) = (self.guard.settings.on_hang.ends_waits(), &self.guard.marker) {
                    marker.raise(self.guard.id, &self.guard.rank, true);
                }
            }
            on_hang::act(self.guard, &mut self.commands, &incident.report);
            self.forget_what_was_revoked();
        } else if !incident.announced && self.guard.settings.on_hang != OnHang::Report {
            incident.announced = true;
            let seconds = patience as f64 / 1e9;
            self.guard.reports.add(&Block::marked([format!(
                "the guard carries out LAZYGUARD_ON_HANG once this hang has lasted {seconds:.1} s in all"
            )]));
        }
    }

    /// Another process of the job hangs, and has had its calls return an error.
    fn take_part_in_a_failure(&mut self) {
        let guard = self.guard;
        if guard.gpu_dump.takes_part_in_a_failure(guard) {
            if guard.settings.on_hang == OnHang::Revoke {
                return self.take_part_in_a_revoke();
            }
            guard.reports.add(&Block::marked([
                "another process of the job hangs, and LAZYGUARD_ON_HANG=fail is for all of them",
            ]));
            take_gpu_dump(guard, self.incident.as_mut().map(Incident::acts));
        }
    }

    fn take_part_in_a_revoke(&mut self) {
        let was_over = self.was_over;
        let mut lasts = self.incident.as_mut().filter(|incident| !incident.acted && !was_over);
        let took_part = revoke::take_part(self.guard, lasts.as_mut().map(|incident| &mut incident.report));
        if let (Some(is_whole), Some(incident)) = (took_part, lasts) {
            incident.acted = true;
            if !is_whole {
                take_gpu_dump(self.guard, Some(&mut incident.report));
            }
        }
        self.forget_what_was_revoked();
    }

    /// The driver called streams busy that a revoke has ended since: it is asked again, so that they are not taken for ones that stand still.
    fn forget_what_was_revoked(&self) {
        let was_revoked = self.incident.as_ref().is_some_and(|incident| incident.report.revoked.is_some());
        if was_revoked {
            let _ = self.what_is_known().and_then(|report| self.asked(&report));
        }
    }

    /// A program whose blocked calls have returned an error on purpose may go on as if nothing had happened.
    fn look_at_the_failed(&mut self, now: Nanos) {
        let launches = self.guard.tracker.counts().1;
        let Some(failed) = self.failed.as_mut().filter(|failed| now >= failed.handles_until) else { return };
        if *failed.launches.get_or_insert(launches) != launches {
            failed.report.gpu_dump.iter_mut().for_each(|dump| dump.ignored = true);
            keep(self.guard, &failed.report);
            self.failed = None;
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

    // --- at a standstill ---

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

    /// Streams stand still, whatever threads do. The driver is asked about those before anything is said.
    fn look_at_the_device(&mut self, now: Nanos) {
        let Some(streams) = self.device.due(self.guard, now, self.awake_since, self.rest()) else { return };
        let Some(mut report) = self.what_is_known() else { return };
        report.snapshot.streams.retain(|stream| streams.contains(&stream.stream.number));
        let Some(report) = self.asked(&report).filter(|report| report.status != Status::Well) else { return };
        self.tell(report, Vec::new());
    }

    fn look_again(&mut self, waiting: Vec<Waiting>, now: Nanos) {
        let Some(report) = self.what_is_known() else { return };
        // A slow operation is queried each time: its progress may become visible.
        let report = match report.status {
            _ if self.incident.as_ref().is_some_and(|incident| incident.waiting.is_empty()) => {
                self.asked(&report).unwrap_or(report)
            }
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
        // Else the process was stopped a moment ago, and has not been awake for a threshold again.
        let stands = report.status == incident.report.status;
        if stands && now.saturating_sub(incident.told) >= incident.pause {
            incident.told = now;
            incident.pause = incident.pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.guard.reports.add(&report.repeated());
        }
        incident.next = now + pause;
    }

    /// The least pause after the last look, so that the program keeps the processor.
    fn rest(&self) -> Nanos {
        match self.cost.get() {
            cost if cost >= DEAR_NANOS => cost.saturating_mul(LOOK_SHARE),
            _ => 0,
        }
    }

    fn pause_of(&self, report: &HangReport) -> Nanos {
        let pause = match report.status {
            // Short, so that a slow operation is called a hang soon after its threshold.
            Status::Slow => (self.threshold / 4).max(250_000_000),
            _ => self.threshold,
        };
        // Looking through a big recording takes its time, which is the program's.
        pause.max(self.rest())
    }

    fn asked(&self, report: &HangReport) -> Option<HangReport> {
        let seen = probe::ask(self.guard, thread::slot(self.guard)?, &report.snapshot);
        let mut amended = self.what_is_known()?;
        amended.probe = Some(seen);
        Some(amended)
    }

    // --- reports ---

    fn tell(&mut self, mut report: HangReport, waiting: Vec<Waiting>) {
        let guard = self.guard;
        if report.status == Status::Slow && self.slow_reports >= MOST_REPORTS {
            // A hang may come of it.
            self.look_at = guard.now() + self.threshold.max(self.rest());
            return;
        }
        guard.mappings.at_a_hang(guard);
        // What is reported follows from the recording as well, if the process is killed before the log's thread has its turn.
        guard.tracker.recorder().seen_alive(guard.now());
        // The report is in the run folder before anything else is tried. It is on standard error once the driver has answered, or
        // has not within a short time: one complete block.
        keep(guard, &report);
        if report.probe.is_none() {
            report = self.asked(&report).unwrap_or(report);
        }
        if report.status == Status::Well {
            // Everything has ended, and no call has shown it.
            self.forget();
            return;
        }
        self.count(report.status);
        let (calls, running) = threads_of(guard, &report);
        report.stacks = stacks::read(guard, &calls, &running, true);
        report.places = stacks::places(report.addresses());
        {
            // From its first line on, an exit says that it is over.
            let mut open = lock(&guard.reports.open);
            guard.reports.write(&report);
            *open = Some(Reported { report: report.clone(), waiting: waiting.clone() });
        }
        if report.status == Status::Hang {
            // A child process writes the stacks, which may take long.
            keep(guard, &report);
            report.python = python::save(guard);
        }
        guard.reports.write_stacks(&report);
        keep(guard, &report);
        if let Some(reported) = lock(&guard.reports.open).as_mut() {
            reported.report = report.clone();
        }
        let now = guard.now();
        self.incident = Some(Incident {
            next: now + self.pause_of(&report),
            streams: streams_of(guard, &report, &waiting),
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

    fn count(&mut self, status: Status) {
        let guard = self.guard;
        if status != Status::Hang {
            self.slow_reports += 1;
            return;
        }
        self.reports += 1;
        guard.reports.count_hang();
        guard.marker.iter().for_each(|marker| marker.raise(guard.id, &guard.rank, false));
    }

    fn went_on(&mut self, now: Nanos) {
        let Some(mut incident) = self.incident.take() else { return };
        // Slow. If the process exits meanwhile, the exiting thread reports it.
        incident.report.ends = ends(self.guard, &incident.report);
        if incident.report.ends.iter().any(CallEnd::lost_work) {
            self.device.is_lost();
        }
        // Else an exiting thread has reported it.
        if lock(&self.guard.reports.open).take().is_some() {
            let report = say_that_it_is_over(self.guard, incident.report, now);
            if report.outcome() == Outcome::FailedOnPurpose {
                self.failed = Some(Failed { report, handles_until: now + HANDLES_IN, launches: None });
            }
        }
    }

    fn forget(&mut self) {
        if let Some(folder) = &self.guard.folder {
            // If the file cannot be removed, the report stays as it was: written before the driver was asked.
            let _ = std::fs::remove_file(folder.path().join(HANG));
        }
        self.incident = None;
        *lock(&self.guard.reports.open) = None;
        self.look_at = self.guard.now() + self.threshold;
    }
}

fn streams_of(guard: &Guard, report: &HangReport, waiting: &[Waiting]) -> Vec<(u32, Nanos)> {
    let is_one = |stream: &&BusyStream| waiting.is_empty() && report.snapshot.stands_at_rest(stream);
    let streams = report.snapshot.streams.iter().filter(is_one);
    Device::reported(guard, streams.map(|stream| stream.stream.number))
}

fn is_query(call: &PublishedCall) -> bool {
    Keep::of(call.entry_point.class()) == Keep::Folded
}
