//! The guard of this process: arming and disarming it, and what it consists of.
//!
//! Protocol: the guard's pointer is null until `cuInit` has succeeded; then it points to a [`Guard`] that is never freed. A forked
//! child sets it to null and stays unguarded until its own `cuInit` succeeds, which makes a new guard with a new state and
//! a new folder: what the parent knew means nothing there, and the parent's files stay the parent's.
//!
//! Must not: do anything in a process that does not use CUDA, or start a thread anywhere but after a successful `cuInit`.

pub mod clock;
pub mod door;
pub mod fault;
pub mod files;
pub mod hot;
pub mod memory;
mod sanitizer;
pub mod standard_error;
pub mod tasks;
pub mod thread;
pub mod tls;

use crate::lookup::driver;
use hot::HOT;
use lazyguard_core::report::{PreloadSummary, RecordingSummary, Summary, SCHEMA};
use lazyguard_core::settings::Settings;
use lazyguard_core::state::Tracker;
use lazyguard_core::trace::Lane;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Mutex;

/// Everything the guard of an armed process consists of.
pub struct Guard {
    /// The settings in force.
    pub settings: Settings,
    /// What is known of the program.
    pub tracker: Tracker,
    /// What is preloaded.
    pub loader: crate::preload::loader::Loader,
    /// The run folder, where one could be made.
    pub folder: Option<crate::record::run_folder::RunFolder>,
    /// The process, and its program's file name.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The driver's version, as `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// Where the recording lies.
    pub backing: crate::record::recording::Backing,
    /// What looks after it.
    pub heartbeat: crate::record::heartbeat::Heartbeat,
    /// The log.
    pub log: crate::record::log::Log,
    /// What the recording has of the program's threads.
    pub witnessed: crate::watch::Witnessed,
    /// Requests for a report.
    pub requests: crate::record::requests::Requests,
    /// What was started because of a hang.
    pub commands: crate::watch::command::Commands,
    /// Whether the summary of the end is being written: the watchdog writes no other then.
    pub ended: Mutex<bool>,
    /// What was reported last and has not gone on, as far as is known; for an exit that comes before the watchdog looks again.
    pub open_report: Mutex<Option<crate::watch::Reported>>,
    /// Hangs reported.
    pub hangs: AtomicU64,
    /// What another timing would have made a hang.
    pub hazards: crate::record::hazards::Hazards,
}

/// The guard has stepped aside, after a fault of its own or because memory ran out, and stays aside.
pub static RETIRED: AtomicBool = AtomicBool::new(false);

/// Whether the guard has stepped aside for good.
pub fn retired() -> bool {
    RETIRED.load(Ordering::Relaxed)
}

/// Calls that came from inside another: the driver's own, the guard's own, a signal handler's. They passed untouched.
pub static NESTED: AtomicU64 = AtomicU64::new(0);

/// The guard, if this process is armed.
#[inline]
pub fn guard() -> Option<&'static Guard> {
    // SAFETY: a non-null pointer is to a leaked, initialised guard; Acquire is the partner of the Release in `arm`.
    unsafe { HOT.guard.load(Ordering::Acquire).as_ref() }
}

/// Whether this guard is still the one in force: a forked child has none, and one that had a fault steps aside.
#[inline]
pub fn is_guard(guard: &Guard) -> bool {
    std::ptr::eq(HOT.guard.load(Ordering::Relaxed), guard)
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static SWITCH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether `LAZYGUARD=off` was not said when the process began. Looked up once, without allocating: the look-up of
/// functions asks.
pub fn switched_on() -> bool {
    match SWITCH.load(Ordering::Relaxed) {
        UNKNOWN => {
            // SAFETY: a terminated name; the value is read before anything else can run in this thread.
            let value = unsafe { libc::getenv(c"LAZYGUARD".as_ptr()) };
            // SAFETY: `getenv` gives null or a terminated string.
            let off = !value.is_null() && is_off(unsafe { std::ffi::CStr::from_ptr(value) }.to_bytes());
            SWITCH.store(if off { OFF } else { ON }, Ordering::Relaxed);
            !off
        }
        switch => switch == ON,
    }
}

pub fn is_off(value: &[u8]) -> bool {
    matches!(value.trim_ascii(), b"off" | b"0" | b"false" | b"no")
}

/// Names asked of the driver that look like launches, loads or waits and are not hooked; few, and of interest together.
static UNHOOKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

static UNSEEN_CAPTURE: AtomicBool = AtomicBool::new(false);

/// Notes a name that was asked of the driver and is not hooked.
pub fn note_unhooked(name: &[u8]) {
    if name.windows(7).any(|at| at == b"Capture") {
        UNSEEN_CAPTURE.store(true, Ordering::Relaxed);
    }
    // Called from a look-up: never wait there.
    if let Ok(mut names) = UNHOOKED.try_lock() {
        let name = String::from_utf8_lossy(name);
        if names.len() < 64 && !names.iter().any(|n| *n == name) {
            names.push(name.into_owned());
        }
    }
}

/// Whether the driver offers a way to begin a capture that this build does not see. The question whether a context is
/// idle would invalidate a capture, so it is not asked then.
pub fn captures_may_go_unseen() -> bool {
    UNSEEN_CAPTURE.load(Ordering::Relaxed)
}

impl Guard {
    /// Nanoseconds since this guard was armed.
    #[inline]
    pub fn now(&self) -> Nanos {
        clock::now()
    }

    /// The watchdog writes nothing more into the run folder. What it is writing is waited for, but not for long.
    pub fn end_reports(&self) {
        for _ in 0..25 {
            if let Ok(mut ended) = self.ended.try_lock() {
                *ended = true;
                return;
            }
            door::pause(std::time::Duration::from_millis(2));
        }
    }

    /// The summary of the run so far.
    pub fn summary(&self, ended: &str) -> Summary {
        let (calls, launches) = self.tracker.counts();
        let recording = self.recording_account();
        Summary {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: self.process,
            program: self.program.clone(),
            driver_version: self.driver_version,
            ended: ended.to_owned(),
            nanos: self.now(),
            calls,
            launches,
            hangs: self.hangs.load(Ordering::Relaxed),
            hazards: self.hazards.counts(false),
            prevented: self.hazards.counts(true),
            preload: self.preload_account(),
            recording: recording.clone(),
            unhooked: UNHOOKED.try_lock().map(|names| names.clone()).unwrap_or_default(),
            lost: vec![
                ("records that found no room".to_owned(), recording.dropped),
                ("records overwritten before the log had them".to_owned(), self.log.overwritten()),
                ("log lines that could not be written".to_owned(), self.log.lost()),
                ("handles that could not be numbered".to_owned(), self.tracker.overflowed()),
                ("calls from inside another call, passed untouched".to_owned(), NESTED.load(Ordering::Relaxed)),
                ("submissions let through the gate unfinished".to_owned(), crate::preload::gate::impatient()),
                (
                    "look-ups answered by a second driver, passed untouched".to_owned(),
                    driver::FOREIGN.load(Ordering::Relaxed),
                ),
                ("faults of the guard's own".to_owned(), fault::count()),
                ("times memory ran out, and the guard stepped aside".to_owned(), u64::from(memory::exhausted())),
            ],
        }
    }

    /// The recording's part of the summary.
    fn recording_account(&self) -> RecordingSummary {
        let counts = Lane::ALL.map(|lane| self.tracker.recorder().counts(lane));
        RecordingSummary {
            bytes: (self.tracker.recorder().words().len() * 8) as u64,
            in_file: self.backing.in_file(),
            overwritten: counts.iter().map(|c| c.overwritten).sum(),
            dropped: counts.iter().map(|c| c.dropped).sum(),
        }
    }

    /// The preloading part of the summary.
    pub fn preload_account(&self) -> PreloadSummary {
        self.loader.summary(self.settings.preload)
    }
}
