//! From inert to armed and back: start of the library, `cuInit`, fork, exit.

use crate::lookup::{dlsym, driver};
use crate::preload::gate;
use crate::preload::nudge;
use crate::record::log;
use crate::record::recording::Backing;
use crate::record::requests::Requests;
use crate::record::run_folder;
use crate::record::run_folder::{RunFolder, RUN};
use crate::runtime::clock;
use crate::runtime::door;
use crate::runtime::fault;
use crate::runtime::hot::HOT;
use crate::runtime::memory;
use crate::runtime::standard_error;
use crate::runtime::tasks;
use crate::runtime::thread;
use crate::runtime::Guard;
use crate::runtime::RETIRED;
use crate::watch;
use crate::watch::command::Commands;
use lazyguard_core::settings::{OnHang, Settings, RUN_ROOT};
use lazyguard_core::stack::{mappings, own_maps};
use lazyguard_core::state::Tracker;
use lazyguard_core::trace::layout::state;
use lazyguard_core::trace::{ProcessFacts, Recorder, StartFacts};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Guards against two threads that arm at once. Released by the fork handler in the child.
static ARMING: AtomicBool = AtomicBool::new(false);
static FORK_HANDLER: AtomicBool = AtomicBool::new(false);
/// The process that is armed: a child made without the C library's fork does not run the handler.
static ARMED_PROCESS: AtomicU32 = AtomicU32::new(0);

/// When this library was loaded or, in a forked child, when that was forked, on the system's monotonic clock.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// When the driver was initialised, on the system's monotonic clock.
#[derive(Clone, Copy)]
pub struct Initialised {
    /// The call was entered.
    pub entered: u64,
    /// The driver returned from it.
    pub returned: u64,
}

/// Runs when the library is loaded, in every process: it notes the time, finds the real `dlsym`, looks what standard error
/// is, and nothing else. The program has no second thread then that could cancel this one.
#[ctor::ctor(unsafe)]
fn loaded() {
    LOADED.store(clock::system_nanos(), Ordering::Relaxed);
    dlsym::prepare();
    standard_error::at_start();
    crate::runtime::switched_on();
    remember_environment();
}

/// The settings among the environment, as they were when the process began: later the program may change it, in another
/// thread and at any time.
static ENVIRONMENT: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn remember_environment() {
    extern "C" {
        static environ: *const *const std::ffi::c_char;
    }
    // SAFETY: the C library's list, which ends with a null pointer; nothing has run yet that could change it.
    let entries = (0..).map_while(|n| unsafe { environ.as_ref().and_then(|_| (*environ.add(n)).as_ref()) });
    for entry in entries {
        // SAFETY: each entry is a terminated string.
        let text = unsafe { std::ffi::CStr::from_ptr(entry) }.to_bytes();
        if !text.starts_with(b"LAZYGUARD") {
            continue;
        }
        let text = String::from_utf8_lossy(text);
        if let (Some((name, value)), Ok(mut kept)) = (text.split_once('='), ENVIRONMENT.lock()) {
            kept.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// Runs when the process exits in an orderly way, after the program's own exit handlers.
#[used]
#[link_section = ".fini_array"]
static UNLOADED: extern "C-unwind" fn() = exiting;

/// Arms this process; called when `cuInit` has succeeded. Does nothing the second time.
pub fn arm(initialised: Initialised) {
    if crate::runtime::guard().is_some()
        || crate::runtime::retired()
        || !crate::runtime::switched_on()
        || ARMING.swap(true, Ordering::SeqCst)
    {
        return;
    }
    // A fault on the way disarms.
    door::inside(|| {
        let _unlimited = fault::Unlimited::new();
        fault::silence();
        build(initialised);
        if memory::exhausted() {
            disarm();
        }
    });
    ARMING.store(false, Ordering::SeqCst);
}

fn build(initialised: Initialised) {
    standard_error::when_armed();
    let environment = ENVIRONMENT.lock().map(|e| e.clone()).unwrap_or_default();
    let (settings, complaints) = Settings::read(environment.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    complaints.iter().for_each(|complaint| standard_error::line(complaint));
    if !settings.enabled {
        return;
    }
    clock::start();
    gate::prepare();
    thread::prepare();
    let folder = RunFolder::make(settings.out.as_deref());
    let mut driver_version = 0;
    driver::driver_version(&mut driver_version);
    let program = program_name();
    let Some(backing) = Backing::make(folder.as_ref(), settings.record_bytes as usize) else {
        memory::give_up();
        return;
    };
    let asked_for = folder.as_ref().map_or(settings.out.is_some(), RunFolder::asked_for);
    if let (Some(complaint), true) = (backing.complaint(), asked_for) {
        standard_error::line(complaint);
    }
    let start_ticks = start_ticks();
    let facts = ProcessFacts {
        process: std::process::id(),
        driver_version,
        armed_unix_nanos: clock::unix_nanos(),
        armed_monotonic_nanos: clock::monotonic_nanos(),
        start_ticks: start_ticks.unwrap_or(0),
        program: program.clone(),
        host: run_folder::host_name(),
        rank: run_folder::rank().unwrap_or_default(),
        lazyguard: env!("CARGO_PKG_VERSION").to_owned(),
        start: start_facts(start_ticks, initialised),
    };
    let Some(recorder) = Recorder::new(backing.words, backing.shape, &facts) else { return };
    for (name, value) in &environment {
        recorder.add_setting(0, &format!("{name}={value}"));
    }
    let requests = Requests::new(folder.as_ref(), &backing);
    let guard: &'static Guard = Box::leak(Box::new(Guard {
        tracker: Tracker::new(Box::leak(Box::new(recorder))),
        backing,
        heartbeat: crate::record::heartbeat::Heartbeat::default(),
        loader: crate::preload::loader::Loader::default(),
        folder,
        process: std::process::id(),
        program,
        driver_version,
        log: log::Log::new(settings.log),
        witnessed: watch::Witnessed::default(),
        requests,
        commands: Commands::default(),
        ended: Mutex::new(false),
        open_report: Mutex::default(),
        hangs: AtomicU64::new(0),
        hazards: crate::record::hazards::Hazards::default(),
        settings,
    }));
    if nudge::driver_is_eager() {
        guard.loader.set_driver_eager();
    }
    if !FORK_HANDLER.swap(true, Ordering::SeqCst) {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    EVER_ARMED.store(true, Ordering::Relaxed);
    ARMED_PROCESS.store(guard.process, Ordering::Relaxed);
    // Release: partner of the Acquire in `guard`.
    HOT.guard.store(std::ptr::from_ref(guard).cast_mut(), Ordering::Release);
    match tasks::too_few() {
        Some(why) => {
            // A user who wants a hang to be acted on, here or by `lazyguard run`, has to know that no hang is seen.
            if !matches!(guard.settings.on_hang, OnHang::Report) || std::env::var_os(RUN_ROOT).is_some() {
                standard_error::line(&why);
            }
            guard.loader.note(why);
        }
        None => {
            if guard.settings.hang_after_nanos > 0 {
                start_thread("lazyguard-watch", guard, move || watch::watchdog::run(guard));
            }
            start_thread("lazyguard-log", guard, move || guard.log.run(guard));
        }
    }
    let took_micros = clock::system_nanos().saturating_sub(initialised.returned) / 1000;
    guard.tracker.recorder().armed_after(u32::try_from(took_micros).unwrap_or(u32::MAX));
}

fn start_facts(start_ticks: Option<u64>, initialised: Initialised) -> StartFacts {
    let started = start_ticks.map(clock::of_ticks);
    // A child that was made without the C library's fork did not run the handler, and has its parent's time.
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
    // The second field is a name in brackets, which may hold anything; the 22nd is the 20th behind it.
    told.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Starts a thread in which no signal of the program's is handled.
pub fn start_thread(name: &str, guard: &'static Guard, body: impl FnOnce() + Send + 'static) {
    // SAFETY: all-zero bytes are a valid signal set, and both are valid for the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: as above; the calling thread's mask is restored below.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let ready = Arc::new(AtomicBool::new(false));
    let under_way = ready.clone();
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10).spawn(move || {
        door::own_thread(log::warm_up);
        under_way.store(true, Ordering::Release);
        door::own_thread(body);
    });
    // What libraries keep for a thread is made before the program goes on, and not when it may have used up its memory: the C
    // library ends a process in which that fails. A few hundred microseconds; nobody waits for ever.
    let since = Instant::now();
    while started.is_ok() && !ready.load(Ordering::Acquire) && since.elapsed() < Duration::from_millis(50) {
        door::pause(Duration::from_micros(50));
    }
    // SAFETY: `before` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
    if let Err(error) = started {
        guard.loader.note(format!("the thread {name} could not be started: {error}"));
    }
}

fn program_name() -> String {
    let path = std::fs::read_link("/proc/self/exe").ok();
    let name = path.as_deref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "the program".to_owned())
}

/// Lets every later call pass straight through, for good. What was recorded stays.
pub fn disarm() {
    if let Some(guard) = retire() {
        guard.tracker.recorder().set_state(state::STEPPED_ASIDE);
    }
}

/// Has every later call pass straight through, and gives the guard back that was in force. The recording says nothing of it.
fn retire() -> Option<&'static Guard> {
    RETIRED.store(true, Ordering::SeqCst);
    let last = HOT.guard.swap(null_mut(), Ordering::SeqCst);
    if !last.is_null() {
        LAST.store(last, Ordering::SeqCst);
    }
    // SAFETY: null, or a guard, which is never freed.
    unsafe { last.as_ref() }
}

/// The guard that has stepped aside, for the exit to clear up after.
static LAST: AtomicPtr<Guard> = AtomicPtr::new(null_mut());

/// Takes away the private folder of a guard that has stepped aside, unless it reported a hang.
fn clear_up() {
    // SAFETY: null, or a guard, which is never freed.
    let Some(last) = (unsafe { LAST.load(Ordering::SeqCst).as_ref() }) else { return };
    let own = ARMED_PROCESS.load(Ordering::Relaxed) == std::process::id();
    if own {
        last.requests.end();
    }
    if let (true, 0, Some(folder)) = (own, last.hangs.load(Ordering::Relaxed), &last.folder) {
        folder.remove_unless_asked_for();
    }
}

/// Runs in a forked child. Only stores, and a look at the clock: anything else could wait for a lock that a thread of the parent held.
extern "C" fn forked() {
    HOT.guard.store(null_mut(), Ordering::SeqCst);
    ARMING.store(false, Ordering::SeqCst);
    LOADED.store(clock::system_nanos(), Ordering::Relaxed);
    gate::prepare();
}

/// Whether this process, or the one it was forked from, was ever armed.
static EVER_ARMED: AtomicBool = AtomicBool::new(false);

/// A driver may have been used by a way that leads past the guard: a plugin bound to its own libraries first, a namespace
/// of its own, a program with its own `dlsym`. Whoever asked for a summary or a folder is told.
fn say_what_was_missed() {
    let asked = ["LAZYGUARD_OUT", "LAZYGUARD_SUMMARY"]
        .iter()
        .filter(|name| **name != "LAZYGUARD_OUT" || !run_folder::is_for_a_run_alone())
        .any(|name| {
            std::env::var(name).is_ok_and(|value| !value.is_empty() && !crate::runtime::is_off(value.as_bytes()))
        });
    if !asked || !crate::runtime::switched_on() {
        return;
    }
    if EVER_ARMED.load(Ordering::Relaxed) {
        if crate::runtime::retired() {
            let why = if memory::exhausted() { "memory ran out" } else { "it had a fault of its own" };
            standard_error::line(&format!(
                "the guard stepped aside on the way, because {why}: the summary could not be kept"
            ));
        }
        return;
    }
    if mappings(&own_maps()).any(|mapping| mapping.path.contains("/libcuda.so")) {
        standard_error::when_armed();
        standard_error::line(
            "a CUDA driver was loaded, and its initialisation was not seen: if it was used, that went past the guard; \
             `lazyguard doctor -- PROGRAM` and docs/ARCHITECTURE.md say which ways it misses",
        );
    }
}

/// Writes the last of the log and the summary, or takes the folder away.
extern "C-unwind" fn exiting() {
    // A signal handler that calls `exit` has interrupted the guard itself: the recording has everything, as after a kill.
    if door::is_interrupted() {
        return;
    }
    let Some(guard) = crate::runtime::guard() else {
        door::inside(clear_up);
        door::inside(say_what_was_missed);
        return;
    };
    // A child that was made behind the C library's back must not touch its parent's files.
    if ARMED_PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    door::inside(|| {
        let _unlimited = fault::Unlimited::new();
        watch::watchdog::at_exit(guard);
        let summary = guard.summary("exit");
        guard.log.finish(guard);
        // A kill from here on leaves a process that did not end in an orderly way, and not a guard that stepped aside.
        retire();
        if guard.settings.out.is_some() || guard.hangs.load(Ordering::Relaxed) > 0 {
            guard.heartbeat.at_the_end(guard);
        }
        guard.tracker.recorder().seen_alive(guard.now());
        guard.tracker.recorder().set_state(state::ENDED);
        if guard.settings.summary {
            let lines = [summary.lines(), guard.hazards.lines()].concat();
            lines.iter().for_each(|line| standard_error::line(line));
        }
        let Some(folder) = &guard.folder else { return };
        guard.requests.end();
        guard.end_reports();
        guard.hazards.end();
        if guard.hangs.load(Ordering::Relaxed) == 0 {
            folder.remove_unless_asked_for();
            if guard.settings.out.is_none() {
                return;
            }
        }
        guard.hazards.finish(guard);
        for (what, kept) in
            [("summary", folder.replace(RUN, &summary.json())), ("recording", guard.backing.save(folder))]
        {
            if let (Err(error), true) = (kept, folder.asked_for()) {
                standard_error::line(&format!("the {what} could not be kept in {}: {error}", folder.path().display()));
            }
        }
    });
}
