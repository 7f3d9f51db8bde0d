//! Arming: the start of the library, a successful `cuInit`, and a fork.
//!
//! Protocol: one thread arms at a time ([`ARMING`]), and sets the guard's pointer once the whole guard is built.
//!
//! Must not: allocate or lock in [`forked`], or fail the program's `cuInit`.

use super::exit;
use crate::lookup::{driver, dynamic_linker, forks, objects};
use crate::preload::{ahead::Ahead, gate, libraries::Libraries, loader::Loader, nudge};
use crate::record::gpu_dump::{self, GpuDump};
use crate::record::hazards::Hazards;
use crate::record::log::{self, Log};
use crate::record::mappings::Mappings;
use crate::record::marker::Marker;
use crate::record::path::Paths;
use crate::record::profile::Notes;
use crate::record::recording::Backing;
use crate::record::reports::Reports;
use crate::record::requests::Requests;
use crate::record::run_folder::{self, RunFolder};
use crate::record::schedule::Schedule;
use crate::record::statements::Statements;
use crate::record::{ready, upkeep, Guard};
use crate::runtime::hot::HOT;
use crate::runtime::process::{self, Process};
use crate::runtime::withheld::Withheld;
use crate::runtime::{clock, door, environment, files, memory, own_thread, standard_error, thread};
use crate::watch::late::Speaker;
use crate::watch::{live_report, python, revoke, watchdog};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::settings::{OnHang, Policy, Settings, RUN_ROOT};
use lazyguard_core::state::{Caller, Tracker};
use lazyguard_core::trace::{ProcessFacts, Recorder, StartFacts};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Mutex;

/// The fork handler releases it in the child.
static ARMING: AtomicBool = AtomicBool::new(false);
static FORK_HANDLER: AtomicBool = AtomicBool::new(false);

/// When the library was loaded or a child was forked, on the system's monotonic clock.
#[link_section = ".data.lazyguard_start"]
static LOADED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
pub struct Initialised {
    pub entered: u64,
    pub returned: u64,
}

/// Runs at the load, in the only thread. Code and data of the start lie together (`.text.lazyguard_start`, `.data.lazyguard_start`): each further page
/// costs a process without CUDA microseconds.
#[link_section = ".text.lazyguard_start"]
pub fn loaded() {
    LOADED.store(clock::first_look(), Ordering::Relaxed);
    dynamic_linker::prepare();
    standard_error::at_start();
    environment::remember();
    if environment::switched_on() {
        forks::register();
        gate::register();
    }
}

pub fn arm(initialised: Initialised) {
    let armed = process::process().is_some() || process::retired();
    environment::remember_if_not_yet();
    if armed || !environment::switched_on() || ARMING.swap(true, Ordering::SeqCst) {
        return;
    }
    // A fault in here disarms.
    door::inside(|| {
        let _withheld = Withheld::new();
        door::silence();
        build(initialised);
        if memory::exhausted() {
            process::disarm();
        }
    });
    ARMING.store(false, Ordering::SeqCst);
}

fn build(initialised: Initialised) {
    standard_error::when_armed();
    let environment = environment::all();
    let (settings, complaints) = Settings::read(environment.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    complaints.iter().map(String::as_str).chain(environment::complaint()).for_each(standard_error::line);
    if !settings.enabled {
        return;
    }
    memory::keep_a_reserve();
    if memory::exhausted() {
        return process::disarm();
    }
    clock::start();
    ready::begin();
    gate::prepare();
    thread::prepare();
    let folder = RunFolder::make(settings.out.as_deref());
    let Some(backing) = backing(folder.as_ref(), &settings) else { return process::disarm() };
    let facts = facts(initialised);
    let Some(recorder) = Recorder::new(backing.words, backing.shape, &facts) else { return };
    backing.limit(&recorder);
    environment.iter().for_each(|(name, value)| recorder.add_setting(0, &format!("{name}={value}")));
    // A user who keeps no files may have forbidden the calls for them.
    let requests = Requests::new(folder.as_ref().filter(|_| settings.keeps_files()), &backing);
    let marker = Marker::of(folder.as_ref(), &settings);
    let statements = marker.as_ref().and_then(|marker| Statements::beside(marker, &settings));
    let reports = Reports::of(folder.as_ref());
    let started = clock::unix_nanos();
    let profile = settings.profile.as_deref().and_then(|folder| Notes::open(folder, &facts.host, started));
    let used = profile.as_ref().filter(|_| settings.preload != Policy::Off);
    let ahead = Ahead::new(used.map(Notes::ahead).unwrap_or_default());
    let libraries = Libraries::new(used.map(Notes::libraries_ahead).unwrap_or_default());
    let schedule = settings.schedule.as_deref().and_then(|path| Schedule::read(path, &facts.rank, folder.as_ref()));
    let guard: &'static Guard = Box::leak(Box::new(Guard {
        loader: Loader::new(ahead, libraries, nudge::driver_is_eager()),
        folder,
        backing,
        mappings: Mappings::default(),
        log: Log::new(settings.log),
        gpu_dump: GpuDump::default(),
        reports,
        requests,
        marker,
        statements,
        hazards: Hazards::default(),
        paths: Paths::default(),
        profile,
        schedule,
        of_graphs: Mutex::default(),
        process: Process {
            settings,
            tracker: Tracker::new(Box::leak(Box::new(recorder)), &HOT.epoch).known_by(thread::number),
            id: std::process::id(),
            program: facts.program,
            rank: facts.rank,
            driver_version: facts.driver_version,
        },
    }));
    begin(guard, initialised);
}

fn begin(guard: &'static Guard, initialised: Initialised) {
    if !FORK_HANDLER.swap(true, Ordering::SeqCst) {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    guard.mappings.note_program(guard);
    THREADS.store(TO_BEGIN, Ordering::Relaxed);
    guard.arm();
    let took_micros = clock::system_nanos().saturating_sub(initialised.returned) / 1000;
    guard.tracker.recorder().armed_after(u32::try_from(took_micros).unwrap_or(u32::MAX));
}

fn backing(folder: Option<&RunFolder>, settings: &Settings) -> Option<Backing> {
    let backing = Backing::make(folder, settings.record_bytes as usize)?;
    let asked_for = folder.map_or(settings.out.is_some(), |folder| folder.asked_for);
    backing.why.as_deref().filter(|_| asked_for).into_iter().for_each(standard_error::line);
    Some(backing)
}

fn facts(initialised: Initialised) -> ProcessFacts {
    let start_ticks = start_ticks();
    ProcessFacts {
        process: std::process::id(),
        driver_version: driver::told(0, |version| driver::driver_version(version)).unwrap_or(0),
        armed_unix_nanos: clock::unix_nanos(),
        armed_monotonic_nanos: clock::monotonic_nanos(),
        start_ticks: start_ticks.unwrap_or(0),
        program: program_name(),
        host: run_folder::host_name(),
        rank: run_folder::rank().unwrap_or_default(),
        lazyguard: env!("CARGO_PKG_VERSION").to_owned(),
        start: start_facts(start_ticks, initialised),
        ..ProcessFacts::default()
    }
}

fn start_facts(start_ticks: Option<u64>, initialised: Initialised) -> StartFacts {
    let started = start_ticks.map(clock::of_ticks);
    // A child that was made without the C library's fork has its parent's time.
    let loaded = LOADED.load(Ordering::Relaxed).max(started.unwrap_or(0));
    let before = started.map_or(0, |started| ((loaded - started) / 1000).max(1));
    StartFacts {
        loaded,
        init_entered: initialised.entered,
        init_returned: initialised.returned,
        before_loaded_micros: u32::try_from(before).unwrap_or(u32::MAX),
        arming_micros: 0,
    }
}

/// When the process started, in clock ticks since the machine did.
fn start_ticks() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in brackets, which may hold anything, the 22nd field is the 20th.
    told.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the guard's threads have begun. With a schedule, each call looks further.
static THREADS: AtomicU8 = AtomicU8::new(BEGUN);
const TO_BEGIN: u8 = 0;
const BEGUN: u8 = 1;
const BEGUN_AND_SCHEDULED: u8 = 2;

/// The guard's threads begin with the first call that may submit, load or wait: until then the process can fork, or enter a namespace. A schedule may
/// hold the calling thread here.
#[inline(always)]
pub fn begin_threads(guard: &'static Guard, entry_point: EntryPoint, caller: impl FnOnce() -> Caller) {
    if !entry_point.class().only_prepares() && THREADS.load(Ordering::Relaxed) != BEGUN {
        begin_or_hold(guard, entry_point, caller());
    }
}

#[cold]
#[inline(never)]
fn begin_or_hold(guard: &'static Guard, entry_point: EntryPoint, caller: Caller) {
    let begun = if guard.schedule.is_some() { BEGUN_AND_SCHEDULED } else { BEGUN };
    if THREADS.swap(begun, Ordering::Relaxed) == TO_BEGIN {
        begin_them(guard);
    }
    guard.schedule.iter().for_each(|schedule| schedule.comes(guard, entry_point, caller));
}

fn begin_them(guard: &'static Guard) {
    if let Some(why) = own_thread::too_few() {
        // Without the watchdog there are no actions on a hang. A user who has set one gets a line.
        if !matches!(guard.settings.on_hang, OnHang::Report) || environment::get(RUN_ROOT).is_some() {
            standard_error::line(&why);
        }
        guard.loader.note(why);
        return make_all_present(guard);
    }
    let bodies: [(_, fn(&'static Guard)); 2] = [
        ("lazyguard-watch", watchdog::run),
        (LOG, |guard| {
            let mut speaker = Speaker::default();
            let speak = |asks: bool, leave: &dyn Fn()| speaker.round(guard, asks, leave);
            upkeep::run(guard, live_report::on_request, python::look, end, speak);
        }),
    ];
    own_thread::leave_room_for(objects::thread_local_bytes());
    // The libraries' data for one thread is made while the other one begins.
    let begun = bodies.map(|(name, body)| (name, own_thread::begin(name, log::warm_up, move || body(guard))));
    for (name, begun) in begun {
        match begun {
            Ok(begun) => begun.wait(),
            Err(error) => {
                guard.loader.note(format!("the thread {name} could not be started: {error}"));
                if name == LOG {
                    make_all_present(guard);
                }
            }
        }
    }
}

/// The guard's threads are the last ones. After the system call `exit` the kernel would have ended the process with that status, without exit handlers.
fn end(status: i32) {
    if status == 0 {
        return watchdog::end();
    }
    exit::finish();
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(status) }
}

const LOG: &str = "lazyguard-log";

/// No thread does so later.
fn make_all_present(guard: &Guard) {
    guard
        .backing
        .make_present(guard.tracker.recorder(), usize::MAX)
        .into_iter()
        .for_each(|line| guard.loader.note(line));
}

fn program_name() -> String {
    let name = files::program().as_deref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "the program".to_owned())
}

/// In a forked child. Only stores, and the clock: a thread of the parent may have held any lock.
extern "C" fn forked() {
    process::forked();
    gpu_dump::forked();
    revoke::forked();
    ARMING.store(false, Ordering::SeqCst);
    THREADS.store(BEGUN, Ordering::Relaxed);
    own_thread::forked();
    LOADED.store(clock::system_nanos(), Ordering::Relaxed);
    gate::prepare();
}
