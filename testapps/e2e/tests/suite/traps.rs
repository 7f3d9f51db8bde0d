//! The interposing traps again, for properties of the library or of a whole run that no single program shows.

use lazyguard_e2e::{apps, calls, command, hostile_program, library, run, App, Elf, Run, Work};
use std::collections::BTreeSet;
use std::process::Command;

/// Trap 1: a driver call from the watchdog could be the one that never returns. What the driver is asked about a hang is asked by a
/// thread that does nothing else, and is of the kinds that were seen to be answered.
#[test]
fn trap_01_the_watchdog_calls_no_driver_function() {
    const ASKED: [&str; 9] = [
        "cuCtxPopCurrent_v2",
        "cuCtxPushCurrent_v2",
        "cuDeviceGetAttribute",
        "cuEventQuery",
        "cuFuncGetAttribute",
        "cuPointerGetAttribute",
        "cuStreamIsCapturing",
        "cuStreamQuery",
        "cuThreadExchangeStreamCaptureMode",
    ];
    /// Asked only where a call loads a function and blocks, and about kernels that are launched as such.
    const MAY_BE_ASKED: [&str; 2] = ["cuFuncIsLoaded", "cuKernelGetAttribute"];
    let work = Work::new(lazyguard_e2e::this_test!());
    // Programs of one thread that hang in a known way, so that the driver is asked once; nearly all of the questions occur among them.
    let programs = [
        ("persistent_two_libraries", lazyguard_e2e::app("persistent_two_libraries")),
        ("lazy_pair", lazyguard_e2e::app("lazy_pair")),
        ("wait_never_written", lazyguard_e2e::app("wait_never_written")),
        ("device_filled", lazyguard_e2e::corpus_program("device_filled")),
        ("event_chain", lazyguard_e2e::corpus_program("event_chain")),
        ("legacy_stream_behind_wait", lazyguard_e2e::corpus_program("legacy_stream_behind_wait")),
    ];
    let mut asked = BTreeSet::new();
    for (name, program) in programs {
        let log = work.path().join(format!("calls-{name}"));
        let off = Run::new(&work, program).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("500ms");
        let mut running = off.set("LGSIM_CALL_LOG", &log).start();
        let hang = running.until_a_hang_is_reported().hang();
        let main = running.process().to_string();
        let text = std::fs::read_to_string(&log).unwrap_or_else(|error| panic!("{error}"));
        let calls: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).collect();
        let own = calls.iter().rev().find(|(thread, _)| *thread == main).map(|(_, symbol)| *symbol);
        let blocked: Vec<_> =
            hang["blocked"].as_array().into_iter().flatten().map(|call| call["call"].as_str()).collect();
        assert!(blocked.contains(&own), "{name}: something was called after the call that blocks, {blocked:?}: {text}");
        let foreign: Vec<_> = calls.iter().filter(|(thread, _)| *thread != main).collect();
        let askers: BTreeSet<_> = foreign.iter().map(|(thread, _)| *thread).collect();
        // One each time, and what is slow first and a hang later is asked about more than once.
        assert!(!askers.is_empty(), "{name}: no thread asked: {text}");
        // They are gone when they have asked, and none of those that watch: those are all still there.
        running.until("the end of those that asked", lazyguard_e2e::PATIENCE, |running| {
            let threads = crate::watchdog::threads_of(running.process());
            let is_alive = threads.iter().any(|(thread, _)| *thread == main);
            (is_alive && threads.iter().all(|(thread, _)| !askers.contains(thread.as_str()))).then_some(())
        });
        asked.extend(foreign.iter().map(|(_, symbol)| (*symbol).to_owned()));
    }
    asked.retain(|symbol| !MAY_BE_ASKED.contains(&symbol.as_str()));
    assert_eq!(
        asked,
        ASKED.iter().map(|symbol| (*symbol).to_owned()).collect(),
        "left: what was asked; right: what may be"
    );
}

/// Trap 3: a look-up that starts a thread would wait for the loader's lock. A process that looks at its devices has one thread: Python warns where one with
/// more forks, and `unshare` refuses it a user namespace. The threads come with the first context, for which a driver starts threads of its own.
#[test]
fn trap_03_no_thread_starts_before_the_first_context() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let looks_up = "import ctypes, os\n\
                    driver = ctypes.CDLL('libcuda.so.1')\n\
                    driver.cuLaunchKernel, driver.cuGetProcAddress_v2, driver.cuCtxSynchronize\n\
                    print('before:', len(os.listdir('/proc/self/task')))\n\
                    guards = lambda: sum(open('/proc/self/task/%s/comm' % t).read().startswith('lazyguard-') for t in os.listdir('/proc/self/task'))\n\
                    device, context, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()\n\
                    assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0\n\
                    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0\n\
                    print('with a device:', guards())\n\
                    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0\n\
                    print('with a context:', guards())\n";
    let outcome = Run::new(&work, "python3").args(["-c", looks_up]).guarded().finish();
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "before: 1\nwith a device: 0\nwith a context: 2\n"),
        "{outcome}"
    );
}

/// Trap 7: the library hooks exact names only, and `lazyguard symbols` lists them.
#[test]
fn trap_07_only_names_of_the_driver_and_of_nccl_are_hooked() {
    let output = Command::new(command()).arg("symbols").output().unwrap_or_else(|error| panic!("{error}"));
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<_> = symbols.lines().collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert!(names.len() > 100 && unique.len() == names.len(), "{} names, {} different", names.len(), unique.len());
    let is_known = |name: &&str| {
        let rest = name.strip_prefix("cu").or_else(|| name.strip_prefix("nccl"));
        rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
    };
    assert!(names.iter().all(is_known), "{names:?}");
}

/// Trap 8: a library that needs CUDA could not be preloaded into everything.
#[test]
fn trap_08_the_library_needs_no_cuda() {
    let needed = Elf::read(&library()).needed();
    let allowed = ["libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    assert!(needed.iter().all(|name| allowed.contains(&name.as_str())), "it needs {needed:?}");
}

/// Trap 9: what is read on every call costs on every call. The settings are read once: rewriting them changes nothing.
#[test]
fn trap_09_settings_are_read_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("trap09_environment_churn");
    let outcome = Run::new(&work, program).guarded().kept().set("LAZYGUARD_LOG", "hazard").finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.out().events("launch").is_empty(), "launches were logged, and the log was to hold hazards");
}

/// Trap 9: nothing is inserted into the program's streams, and nothing is asked of the driver at a launch.
#[test]
fn trap_09_a_launch_makes_no_other_call() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let log = work.path().join("calls");
    let program = hostile_program("out_many_launches");
    let outcome = Run::new(&work, program).guarded().set("LGSIM_CALL_LOG", &log).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let counts = calls(&log);
    let launches = counts.get("cuLaunchKernel").copied().unwrap_or(0);
    assert!(launches >= 10_000, "{counts:?}");
    let others: usize = counts.iter().filter(|(symbol, _)| *symbol != "cuLaunchKernel").map(|(_, count)| count).sum();
    assert!(others < launches / 10, "{launches} launches and {others} other calls: {counts:?}");
}

/// Trap 10: everything that loads is a program of its own, and each is prevented.
#[test]
fn trap_10_every_way_to_load_is_followed() {
    let arguments: BTreeSet<_> =
        apps().iter().filter(|app| app.program() == "cold_trigger").flat_map(App::args).collect();
    let usage = Command::new(lazyguard_e2e::app("cold_trigger"))
        .env("LD_LIBRARY_PATH", lazyguard_e2e::driver_folder())
        .output();
    let usage = usage
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .unwrap_or_else(|error| panic!("{error}"));
    let known: BTreeSet<_> =
        usage.trim().trim_start_matches("usage: cold_trigger ").split('|').map(str::to_owned).collect();
    assert_eq!(arguments, known, "left: the programs listed; right: what cold_trigger knows");
}

/// Trap 11: the child of a fork, which has not called `cuInit`, leaves its parent's files alone.
#[test]
fn trap_11_the_account_is_the_parents() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("trap11_fork_child_silent");
    let outcome = Run::new(&work, program).guarded().kept().finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let summary = outcome.out().summary();
    assert_eq!(summary["process"], outcome.process, "{summary:#}");
    let entries = std::fs::read_dir(outcome.out().path()).into_iter().flatten().flatten();
    let mut names: BTreeSet<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // Threads that launch a kernel for the first time at the same moment meet what the guard has prevented.
    names.remove("hazards.json");
    let own = ["log.jsonl", "run.json", "trace.lgt"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(own), "left: what is in the folder; right: what a process without a hang leaves");
}

/// Trap 13: the released library runs with a C library of 2012.
#[test]
fn trap_13_the_library_asks_for_no_new_c_library() {
    let versions = Elf::read(&library()).needed_versions();
    assert!(!versions.is_empty(), "no version was found");
    for version in &versions {
        let digits = version.strip_prefix("GLIBC_").unwrap_or_else(|| panic!("it asks for {version}"));
        let parts: Vec<u32> =
            digits.split('.').map(|part| part.parse().unwrap_or_else(|_| panic!("{version}"))).collect();
        assert!(parts.as_slice() <= &[2, 17][..], "it asks for {version}; all it asks for: {versions:?}");
    }
}

/// Trap 14: `dlopen` is not overridden.
#[test]
fn trap_14_dlopen_is_the_c_librarys() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let whose = "import ctypes\n\
                 class Info(ctypes.Structure):\n    _fields_ = [('file', ctypes.c_char_p)] + [(n, ctypes.c_void_p) for n in ('a', 'b', 'c')]\n\
                 info, own = Info(), ctypes.CDLL(None)\n\
                 own.dladdr(ctypes.cast(own.dlopen, ctypes.c_void_p), ctypes.byref(info))\n\
                 print(info.file.decode())\n";
    let outcome = Run::new(&work, "python3").args(["-c", whose]).guarded().finish();
    assert!(
        outcome.code == Some(0) && outcome.stdout.contains("/lib") && !outcome.stdout.contains("lazyguard"),
        "{outcome}"
    );
}

/// Trap 15: `dlclose` must not take hooks away under a running call.
#[test]
fn trap_15_the_library_is_never_unloaded() {
    assert!(Elf::read(&library()).is_never_unloaded(), "DF_1_NODELETE is not set");
}

/// Trap 17: the guard does not ask whether a context is idle during a capture that the question would invalidate.
#[test]
fn trap_17_nothing_is_recorded_into_a_capture() {
    const HARMLESS: [&str; 4] =
        ["cuCtxGetCurrent", "cuFuncIsLoaded", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"];
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("cold_trigger_capture");
    for policy in ["resolve", "auto", "eager"] {
        let log = work.path().join(format!("calls-{policy}"));
        let outcome = run(&work, &app).guarded().set("LAZYGUARD_PRELOAD", policy).set("LGSIM_CALL_LOG", &log);
        let outcome = outcome.start().finish_within(lazyguard_e2e::PATIENCE);
        assert_eq!(outcome.code, Some(0), "under {policy}: {outcome}");
        let text = std::fs::read_to_string(&log).unwrap_or_else(|error| panic!("{error}"));
        let symbols: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        let begin = symbols.iter().position(|s| s.starts_with("cuStreamBeginCapture"));
        let end = symbols.iter().position(|s| s.starts_with("cuStreamEndCapture"));
        let (Some(begin), Some(end)) = (begin, end) else { panic!("no capture was made: {text}") };
        let inside = &symbols[begin + 1..end];
        let foreign: Vec<_> = inside.iter().filter(|s| **s != "cuLaunchKernel" && !HARMLESS.contains(s)).collect();
        assert!(foreign.is_empty(), "under {policy}, within the capture: {foreign:?}");
    }
}

/// Each hook leaves `errno`, a pending `dlerror`, the signal mask and the floating-point state as the real function does.
#[test]
fn every_hook_leaves_the_threads_state_as_it_was() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let output = Command::new(command()).arg("symbols").output().unwrap_or_else(|error| panic!("{error}"));
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let run = || Run::new(&work, hostile_program("every_export")).args(symbols.lines());
    let changed = |text: &str| {
        let of_line = |line: &str| {
            let (name, end) = line.split_once(": ")?;
            Some((name.to_owned(), end.strip_prefix("exit ").unwrap_or(end).to_owned()))
        };
        text.lines().filter_map(of_line).collect::<Vec<_>>()
    };
    let [bare, guarded] = [run().finish(), run().guarded().finish()];
    assert_eq!((bare.code, guarded.code), (Some(0), Some(0)), "{bare} {guarded}");
    let (bare, guarded) = (changed(&bare.stdout), changed(&guarded.stdout));
    assert_eq!(bare.len(), symbols.lines().count());
    let of_driver = bare.iter().filter(|(name, changed)| name.starts_with("cu") && changed == "0");
    assert!(of_driver.count() > 200, "{bare:?}");
    let differ: Vec<_> = bare.iter().zip(&guarded).filter(|(bare, guarded)| bare != guarded).collect();
    assert!(differ.is_empty(), "bare, and guarded: {differ:?}");
}
