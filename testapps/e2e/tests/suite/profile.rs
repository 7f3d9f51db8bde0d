//! A profile: what one run has loaded, the next has ahead.

use lazyguard_e2e::{app, command, corpus, corpus_program, hostile_program, Outcome, Run, Running, Work, PATIENCE};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Has all the time it wants for what it loads ahead: a test that counts modules is not one of a busy machine's speed.
fn profiled<'w>(work: &'w Work, program: PathBuf, profile: &Path) -> Run<'w> {
    Run::new(work, program)
        .guarded()
        .kept()
        .set("LAZYGUARD_PROFILE", profile)
        .set("LAZYGUARD_PRELOAD_TIME", "60s")
        .set("LAZYGUARD_PRELOAD_SHARE", "100%")
}

/// Modules that were loaded ahead, and how many of them the program has got.
fn ahead(outcome: &Outcome) -> (u64, u64) {
    let preload = &outcome.out().summary()["preload"];
    let number = |name: &str| preload[name].as_u64().unwrap_or_else(|| panic!("{name}: {outcome}"));
    (number("modules_ahead"), number("modules_handed_over"))
}

fn lazyguard(work: &Work, arguments: &[&str]) -> Outcome {
    Run::new(work, command()).args(arguments).finish()
}

#[test]
fn a_program_of_the_corpus_that_says_so_completes_in_its_second_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for program in corpus().iter().filter(|program| program.header.completes_with_profile) {
        let name = &program.name;
        let profile = work.path().join(name);
        let eager = Run::new(&work, corpus_program(name)).set("CUDA_MODULE_LOADING", "EAGER");
        assert_eq!(eager.start().finish_within(Duration::from_secs(1)).code, None, "{name}: it hangs with EAGER too");
        let mut first = profiled(&work, corpus_program(name), &profile).hang_after("300ms").start();
        first.until_a_hang_is_reported();
        let lacked = |first: &mut Running| first.stderr().contains("lazyguard:   its profile lacked ").then_some(());
        first.until("what would have kept it away", PATIENCE, lacked);
        // Not even its guard's exit handlers run.
        drop(first);
        for _ in 0..2 {
            let next = profiled(&work, corpus_program(name), &profile).finish();
            assert_eq!((next.code, next.stderr.as_str()), (Some(0), ""), "{name}: {next}");
            let set_up = ahead(&next).1 + libraries_ahead(&next).1;
            assert!(set_up >= 1, "{name}: {next}");
        }
    }
}

/// The hooks look into names and images for the profile, as far as these can be read.
#[test]
fn pointers_that_lead_nowhere_are_not_followed_for_a_profile() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = || hostile_program("wild_pointers");
    let bare = Run::new(&work, program()).finish();
    let guarded = profiled(&work, program(), &work.path().join("profile")).finish();
    assert_eq!((guarded.code, &guarded.stdout, &guarded.stderr), (Some(0), &bare.stdout, &bare.stderr), "{guarded}");
}

/// Libraries that were loaded ahead, and how many of them the program has got.
fn libraries_ahead(outcome: &Outcome) -> (u64, u64) {
    let preload = &outcome.out().summary()["preload"];
    let number = |name: &str| preload[name].as_u64().unwrap_or_else(|| panic!("{name}: {outcome}"));
    (number("libraries_ahead"), number("libraries_handed_over"))
}

/// To load the library holds nothing up; to use its kernel does.
#[test]
fn a_program_that_hangs_in_the_use_of_a_library_of_its_own_completes_in_its_second_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let eager = Run::new(&work, corpus_program("own_library_load")).set("CUDA_MODULE_LOADING", "EAGER");
    assert_eq!(eager.start().finish_within(Duration::from_secs(1)).code, None, "it hangs with EAGER too");
    let mut first = profiled(&work, corpus_program("own_library_load"), &profile).hang_after("300ms").start();
    first.until_a_hang_is_reported();
    drop(first);
    for _ in 0..2 {
        let next = profiled(&work, corpus_program("own_library_load"), &profile).finish();
        assert_eq!((next.code, next.stderr.as_str()), (Some(0), ""), "{next}");
        assert_eq!(next.stdout, "the kernel of the library has counted to 1\n", "{next}");
        assert_eq!(libraries_ahead(&next), (1, 1), "{next}");
    }
    let shown = lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]);
    assert!(shown.stdout.contains("  loaded 1 time as a library\n  other_step\n"), "{shown}");
}

/// Of three runs with one profile the program notices nothing, and from the second one on so many modules and libraries are loaded ahead and handed over.
fn hands_over(work: &Work, name: &str, modules: u64, libraries: u64) {
    let profile = work.path().join(name);
    let bare = Run::new(work, hostile_program(name)).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for (modules, libraries) in [(0, 0), (modules, libraries), (modules, libraries)] {
        let run = profiled(work, hostile_program(name), &profile).finish();
        run.expect_same_as(&bare);
        assert_eq!((ahead(&run), libraries_ahead(&run)), ((modules, modules), (libraries, libraries)), "{run}");
    }
}

#[test]
fn each_load_gets_a_library_of_its_own_and_the_program_notices_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Three without options, and one with: not the one with a log, nor those that are never used.
    hands_over(&work, "own_libraries", 0, 4);
}

/// The one that the program loads after there is a context is loaded ahead, and no other.
#[test]
fn a_library_that_is_loaded_before_there_is_a_context_is_not_loaded_ahead() {
    let work = Work::new(lazyguard_e2e::this_test!());
    hands_over(&work, "early_library", 0, 1);
}

/// Its kernels are loaded early as long as no run has shown that the start does without them, and again once a run has used one.
#[test]
fn a_library_that_earlier_runs_have_loaded_and_not_used_waits_until_the_start_is_over() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let program = hostile_program("unused_library");
    let kernels = |run: Run| {
        let run = run.finish();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
        run.out().summary()["preload"]["kernels"].as_u64().unwrap()
    };
    let all = kernels(profiled(&work, program.clone(), &work.path().join("another")));
    assert!(all > 190, "{all}");
    let run = |arguments: &[&str]| kernels(profiled(&work, program.clone(), &profile).args(arguments));
    let shown = || lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]).stdout;
    assert_eq!(run(&[]), all, "no run has loaded it");
    assert!(shown().contains("\n2 libraries that the program loads itself, by its samples\n"), "{}", shown());
    assert!(shown().contains(": last loaded on 20") && shown().contains(", not used\n"), "{}", shown());
    for _ in 0..2 {
        let few = run(&[]);
        assert!(few < 64, "{few} of {all}");
    }
    assert!(run(&["use"]) < 64, "it is used, and that was not known");
    assert!(shown().contains(", used\n") && !shown().contains(", not used\n"), "{}", shown());
    for arguments in [&["use"][..], &[]] {
        assert_eq!(run(arguments), all, "{arguments:?}");
    }
}

/// What a program imports takes long, and is the same in each of its starts: so a process that has not used the driver forks a child for each. What is
/// in the folder when a child arms counts, not what was there when its parent began.
#[test]
fn a_forked_child_reads_the_profile_as_a_new_process_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("starts");
    let run = Run::new(&work, hostile_program("starts_in_children")).guarded();
    let run = run.set("LAZYGUARD_PROFILE", work.path().join("profile")).set("LAZYGUARD_PRELOAD_TIME", "60s");
    let outcome = run.set("LAZYGUARD_OUT", out.join("%p")).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folders = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let mut starts: Vec<_> = folders
        .map(|folder| {
            let text = fs::read_to_string(folder.join("run.json")).unwrap();
            let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
            let number = |name: &str| summary["preload"][name].as_u64().unwrap();
            (number("libraries_ahead"), number("libraries_handed_over"))
        })
        .collect();
    starts.sort_unstable();
    assert_eq!(starts, [(0, 0), (1, 1), (1, 1)], "the first has nothing to read");
}

/// A run that hangs may not have come to the use of a library: what it has not used says nothing.
#[test]
fn a_run_that_hangs_or_is_killed_says_nothing_of_what_it_has_not_used() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let mut hangs = profiled(&work, corpus_program("own_library_load"), &profile).hang_after("300ms").start();
    hangs.until_a_hang_is_reported();
    drop(hangs);
    let shown = lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]).stdout;
    assert!(!shown.contains(", not used") && shown.contains(", used\n"), "{shown}");
}

/// The first run hangs in the load, and no kernel of the module is known: of all kernels of what is loaded, `resolve` loads none.
#[test]
fn of_a_module_that_no_run_has_come_to_use_all_kernels_are_loaded_ahead_unless_the_policy_forbids_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let run = |policy| {
        profiled(&work, corpus_program("fat_binary_load"), &profile)
            .set("LAZYGUARD_PRELOAD", policy)
            .hang_after("300ms")
    };
    for policy in ["auto", "resolve"] {
        let mut hangs = run(policy).start();
        hangs.until_a_hang_is_reported();
        drop(hangs);
    }
    for policy in ["auto", "resolve"] {
        let next = run(policy).finish();
        assert_eq!((next.code, ahead(&next)), (Some(0), (2, 2)), "{policy}: {next}");
    }
}

/// Loads a module if it is asked to, with these calls of the driver that never return, or take long.
fn if_asked<'w>(work: &'w Work, is_asked: bool, fault: (&str, &str)) -> Run<'w> {
    let run = profiled(work, hostile_program("loads_if_asked"), &work.path().join("profile")).hang_after("400ms");
    run.args(is_asked.then_some("asked")).set(fault.0, fault.1)
}

/// Without work in flight, its load ahead would hang as well, in a run that may not need it.
#[test]
fn code_whose_load_did_not_end_is_loaded_ahead_again_once_a_load_of_it_has_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (by_program, by_guard) =
        (("LGSIM_NEVER_RETURN", "cuModuleLoadData"), ("LGSIM_NEVER_RETURN", "cuModuleLoadDataEx"));
    let mut hangs = if_asked(&work, true, by_program).start();
    hangs.until_a_hang_is_reported();
    drop(hangs);
    let next = if_asked(&work, false, by_guard).finish();
    assert_eq!((next.code, ahead(&next)), (Some(0), (0, 0)), "{next}");
    let report = next.out().report("text");
    assert!(report.contains("1 module or library not loaded ahead"), "{report}");
    let show = || lazyguard(&work, &["profile", "show", &work.path().join("profile").to_string_lossy()]).stdout;
    assert!(show().contains(": not loaded ahead: its newest load did not end"), "{}", show());
    for (is_asked, counts) in [(true, (0, 0)), (true, (1, 1)), (false, (1, 0))] {
        let next = if_asked(&work, is_asked, ("LGSIM_DELAY", "cuInit=1")).finish();
        assert_eq!((next.code, ahead(&next)), (Some(0), counts), "{next}");
    }
    assert!(!show().contains("not loaded ahead"), "{}", show());
}

#[test]
fn a_load_ahead_that_does_not_end_is_a_hang_of_the_guard_s_own_and_not_made_again() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let fault = ("LGSIM_NEVER_RETURN", "cuModuleLoadDataEx");
    let first = if_asked(&work, true, ("LGSIM_DELAY", "cuInit=1")).finish();
    assert_eq!(first.code, Some(0), "{first}");
    let mut hangs = if_asked(&work, false, fault).start();
    hangs.until_a_hang_is_reported();
    let own = "it is the guard's own load of code that an earlier run has loaded; LAZYGUARD_PROFILE=off avoids it";
    assert!(hangs.stderr().contains(own), "{}", hangs.stderr());
    let asked = lazyguard(&work, &["report", &hangs.out().to_string_lossy(), "--cold-start"]).stdout;
    assert!(asked.contains("cuModuleLoadDataEx: the guard preloaded, in progress"), "{asked}");
    drop(hangs);
    let next = if_asked(&work, false, fault).finish();
    assert_eq!((next.code, ahead(&next)), (Some(0), (0, 0)), "{next}");
}

/// Each is ended before the load counts as long, and before a hang could be reported.
/// Else it would hang in every second run.
#[test]
fn a_load_that_hung_ahead_is_not_made_again_though_one_of_the_program_ends() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let none = ("LGSIM_DELAY", "cuInit=1");
    assert_eq!(if_asked(&work, true, none).finish().code, Some(0));
    let show = || lazyguard(&work, &["profile", "show", &work.path().join("profile").to_string_lossy()]).stdout;
    let mut hangs = if_asked(&work, false, ("LGSIM_NEVER_RETURN", "cuModuleLoadDataEx")).start();
    let says = |_: &mut Running| show().contains(": not loaded ahead: a load of it ahead hung").then_some(());
    hangs.until("that it has hung", PATIENCE, says);
    drop(hangs);
    for is_asked in [true, true, false] {
        let next = if_asked(&work, is_asked, none).finish();
        assert_eq!((next.code, ahead(&next)), (Some(0), (0, 0)), "{next}");
    }
}

#[test]
fn a_process_that_is_ended_in_a_load_ahead_leaves_its_begin() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let fault = ("LGSIM_NEVER_RETURN", "cuModuleLoadDataEx");
    let first = if_asked(&work, true, ("LGSIM_DELAY", "cuInit=1")).finish();
    assert_eq!(first.code, Some(0), "{first}");
    let mut hangs = if_asked(&work, false, fault).start();
    let parts = || fs::read_dir(work.path().join("profile")).unwrap().count();
    let before = parts();
    hangs.until("that its begin is noted", PATIENCE, |_| (parts() > before).then_some(()));
    drop(hangs);
    let next = if_asked(&work, false, fault).finish();
    assert_eq!((next.code, ahead(&next)), (Some(0), (0, 0)), "{next}");
    // Its end takes that back.
    let slow = ("LGSIM_DELAY", "cuModuleLoadDataEx=600");
    for (is_asked, counts) in [(true, (0, 0)), (false, (1, 0)), (false, (1, 0))] {
        let next = if_asked(&work, is_asked, slow).finish();
        assert_eq!((next.code, ahead(&next)), (Some(0), counts), "{next}");
    }
}

#[test]
fn a_load_ahead_that_takes_long_is_made_again_for_a_program_that_has_asked_for_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let slow = ("LGSIM_DELAY", "cuModuleLoadDataEx=1500");
    for (is_asked, counts) in [(true, (0, 0)), (true, (1, 1)), (false, (1, 0)), (false, (0, 0))] {
        let next = if_asked(&work, is_asked, slow).finish();
        assert_eq!((next.code, ahead(&next)), (Some(0), counts), "{next}");
    }
}

/// Eight modules and eight libraries that the run after the first does not ask for.
#[test]
fn nothing_is_loaded_ahead_while_less_than_a_tenth_of_the_device_is_free() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (program, profile) = (hostile_program("little_memory_left"), work.path().join("profile"));
    profiled(&work, program.clone(), &profile).args(["uses"]).finish();
    for (does, least, modules, left_out) in [
        // Of the second context, all but what takes the free memory below a tenth of the device.
        ("fills", "10", 8, 16),
        ("fills", "0", 16, 0),
        ("fills_for_a_moment", "10", 16, 16),
    ] {
        let bare = Run::new(&work, program.clone()).args([does]).finish();
        assert_eq!(bare.code, Some(0), "{bare}");
        let run = profiled(&work, program.clone(), &profile).args([does]).set("LAZYGUARD_PRELOAD_FREE", least).finish();
        run.expect_same_as(&bare);
        let preload = &run.out().summary()["preload"];
        let skipped = preload["skipped"].as_array().unwrap().iter();
        let skipped = skipped.filter(|skip| skip["reason"] == "little_memory_free").map(|skip| skip["count"].as_u64());
        assert_eq!((ahead(&run), skipped.flatten().sum()), ((modules, 0), left_out), "{does} {least}: {run}");
    }
}

/// Without the nudge, as where a runtime holds hundreds of fat binaries: the second one comes with a kernel that is launched too late. Runtimes
/// before 12.0 make modules of them.
#[test]
fn a_program_whose_runtime_loads_a_library_too_late_completes_in_its_second_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (runtime, of_them, others) in [("13000", "libraries", "modules"), ("11080", "modules", "libraries")] {
        for (name, hangs) in [("persistent_two_libraries", true), ("lazy_pair", false)] {
            let profile = work.path().join(format!("{name}-{runtime}"));
            let program = || Run::new(&work, app(name)).set("LG_RUNTIME", runtime);
            let run = || profiled(&work, app(name), &profile).set("LG_RUNTIME", runtime).set("LAZYGUARD_NUDGE", "0");
            let mut first = run().hang_after("300ms").start();
            if hangs {
                first.until_a_hang_is_reported();
                drop(first);
            } else {
                // Its only library is there, with all kernels, before anything is in flight.
                first.finish_within(PATIENCE);
            }
            let expected = program().set("CUDA_MODULE_LOADING", "EAGER").finish();
            for _ in 0..2 {
                let next = run().finish();
                next.expect_same_as(&expected);
                let preload = &next.out().summary()["preload"];
                let number = |what: &str, end: &str| {
                    let name = format!("{what}_{end}");
                    preload[&name].as_u64().unwrap_or_else(|| panic!("{name}: {next}"))
                };
                let there = if hangs { 2 } else { 1 };
                assert_eq!(number(of_them, "ahead"), there, "{name} on {runtime}: {next}");
                assert_eq!(number(of_them, "handed_over"), there, "{name} on {runtime}: {next}");
                assert_eq!(number(others, "ahead"), 0, "{name} on {runtime}: {next}");
            }
        }
    }
    for (runtime, lines) in [
        ("13000", ["\n2 libraries that CUDA runtimes load\n", " KiB at the program+0x"]),
        ("11080", ["2 images that the program loads itself", "\n0 libraries that CUDA runtimes load\n"]),
    ] {
        let profile = work.path().join(format!("persistent_two_libraries-{runtime}"));
        let shown = lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]);
        for line in lines.into_iter().chain(["\n  persistent_kernel\n", "\n  one_time_kernel\n"]) {
            assert!(shown.stdout.contains(line), "{line}: {shown}");
        }
    }
}

/// A CUDA runtime loads its libraries in whatever thread needs one: also in one that a constructor waits for, while `dlopen` runs. Nothing is
/// loaded ahead here: the simulated driver cannot bring code into a context without the dynamic loader, as a real one can.
#[test]
fn a_thread_that_a_constructor_waits_for_is_not_held() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let program = || hostile_program("plugin_with_code");
    let bare = Run::new(&work, program()).args(["constructor"]).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for _ in 0..2 {
        let noted = profiled(&work, program(), &profile).args(["constructor"]).set("LAZYGUARD_PRELOAD", "off");
        noted.finish().expect_same_as(&bare);
    }
}

#[test]
fn an_object_may_be_unloaded_at_any_time_and_come_back() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let run = |does: &str| profiled(&work, hostile_program("plugin_with_code"), &profile).args([does]).finish();
    let bare = |does: &str| Run::new(&work, hostile_program("plugin_with_code")).args([does]).finish();
    run("use").expect_same_as(&bare("use"));
    let shown = lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]);
    assert!(shown.stdout.contains(" at libplugin_with_code.so+0x"), "{shown}");
    for does in ["idle", "use"] {
        run(does).expect_same_as(&bare(does));
    }
}

#[test]
fn each_load_gets_a_module_of_its_own_and_the_program_notices_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let bare = Run::new(&work, hostile_program("modules_twice")).finish();
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let run = profiled(&work, hostile_program("modules_twice"), &profile).finish();
            run.expect_same_as(&bare);
            ahead(&run).1
        })
        .collect();
    // Four without options, one of these from a file, one with, and one in the other context: not the one with a log.
    assert_eq!(runs, [0, 6, 6]);
    let off = profiled(&work, hostile_program("modules_twice"), &profile).set("LAZYGUARD_PRELOAD", "off").finish();
    assert_eq!(ahead(&off), (0, 0), "nothing is loaded with LAZYGUARD_PRELOAD=off");
}

/// Where an image ends is told by its tables, which compilers write last. What is behind them in another one is not known, so it is the driver's.
#[test]
fn an_image_whose_tables_do_not_come_last_is_left_to_the_driver() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let bare = Run::new(&work, hostile_program("tables_first")).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for _ in 0..3 {
        let run = profiled(&work, hostile_program("tables_first"), &profile).finish();
        run.expect_same_as(&bare);
        assert_eq!(ahead(&run), (0, 0), "{run}");
    }
}

/// The driver takes numbers of 32 bits from words of 64; what a program has left in their upper half is another thing in each run.
#[test]
fn a_profile_does_not_grow_by_what_is_no_option_and_no_load() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let text = "import ctypes, sys, os\n\
        d, p = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p\n\
        ptx = b'.version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry e() { ret; }\\n'\n\
        module, context = p(), p()\n\
        d.cuInit(0)\n\
        print(d.cuModuleLoadData(ctypes.byref(module), b'\\n' + ptx))\n\
        d.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
        d.cuCtxSetCurrent(context)\n\
        option, value = ctypes.c_int(0), ctypes.c_uint64(os.getpid() << 32 | 32)\n\
        print(d.cuModuleLoadDataEx(ctypes.byref(module), ptx, 1, ctypes.byref(option), ctypes.byref(value)))\n";
    for _ in 0..3 {
        let run = profiled(&work, "python3".into(), &profile).args(["-c", text]).finish();
        assert_eq!((run.stdout.as_str(), ahead(&run)), ("201\n0\n", (0, 0)), "{run}");
    }
}

/// A fat binary is one image, by whatever reference or call the program loads it. The limits of the context are set as without the guard although
/// a module whose kernel prints is there before.
#[test]
fn each_load_of_a_fat_binary_gets_a_module_of_its_own_and_the_program_notices_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let bare = Run::new(&work, hostile_program("fat_binaries")).finish();
    assert!(bare.code == Some(0) && bare.stdout.starts_with("limits: 0 and 0\n"), "{bare}");
    for expected in [(0, 0), (7, 7), (7, 7)] {
        let run = profiled(&work, hostile_program("fat_binaries"), &profile).finish();
        run.expect_same_as(&bare);
        // Beside the library of the job, of three images: five, one with another byte, and one that prints; not the one with a log, and not the one
        // that the driver refuses.
        assert_eq!(ahead(&run), expected, "{run}");
    }
    let shown = lazyguard(&work, &["profile", "show", &profile.to_string_lossy()]);
    for line in ["4 images that the program loads itself", "  loaded 5 times in a context", "\n  prints\n"] {
        assert!(shown.stdout.contains(line), "{line}: {shown}");
    }
}

/// In the context before its first launch, a module that prints would hold that launch back, and so would a kernel of a library that is loaded ahead.
#[test]
fn what_prints_is_loaded_ahead_and_comes_into_the_context_after_its_first_launch() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, modules, libraries) in [("prints_later", 2, 0), ("prints_in_object", 1, 1)] {
        hands_over(&work, name, modules, libraries);
    }
}

/// What may print comes right before the first launch of an idle context, in which nothing can be held back.
#[test]
fn code_that_cannot_be_read_is_there_from_the_first_launch_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    hands_over(&work, "packed_code", 2, 1);
    let (log, profile) = (work.path().join("calls"), work.path().join("packed_code"));
    profiled(&work, hostile_program("packed_code"), &profile).set("LGSIM_CALL_LOG", &log).finish();
    let log = fs::read_to_string(&log).unwrap();
    let at = |symbol: &str, which: usize| {
        let lines = log.lines().enumerate().filter(|(_, line)| line.split(' ').nth(1) == Some(symbol));
        lines.map(|(at, _)| at).nth(which).unwrap_or_else(|| panic!("{symbol}: {log}"))
    };
    // The plain module, and the one that cannot be read, for which the first launch waits.
    let [plain, packed] = [0, 1].map(|which| at("cuModuleLoadDataEx", which));
    let (started, launched) = (at("cuStreamCreate", 1), at("cuLaunchKernel", 0));
    assert!(plain < started && started < packed && packed < launched, "{log}");
    assert!(started < at("cuKernelGetFunction", 0) && at("cuKernelGetFunction", 0) < launched, "{log}");
}

/// A launch that the driver refuses is none.
#[test]
fn a_module_that_prints_is_not_loaded_ahead_after_a_launch_that_was_refused() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let bare = Run::new(&work, hostile_program("prints_after_a_refusal")).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for _ in 0..3 {
        profiled(&work, hostile_program("prints_after_a_refusal"), &profile).finish().expect_same_as(&bare);
    }
}

/// At the first launch of an idle context, all that waits is loaded, what prints as well.
#[test]
fn a_library_that_prints_is_loaded_at_the_first_launch_of_an_idle_context() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, hostile_program("prints_at_once"));
    let run = run.guarded().kept().set("LAZYGUARD_PRELOAD_TIME", "60s").set("LAZYGUARD_PRELOAD_SHARE", "100%").finish();
    assert_eq!(run.code, Some(0), "{run}");
    let preload = &run.out().summary()["preload"];
    assert_eq!((preload["pending"].as_u64(), preload["kernels"].as_u64() > Some(1)), (Some(0), true), "{run}");
}

#[test]
fn a_primary_context_that_is_reset_while_it_is_retained_takes_its_modules_along() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let bare = Run::new(&work, hostile_program("primary_context_reset")).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for _ in 0..3 {
        profiled(&work, hostile_program("primary_context_reset"), &profile).finish().expect_same_as(&bare);
    }
}

#[test]
fn a_folder_that_only_can_be_read_is_used_and_one_that_anybody_can_write_to_is_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    let first = profiled(&work, hostile_program("modules_twice"), &profile).finish();
    assert_eq!(first.code, Some(0), "{first}");
    let mode = |bits| fs::set_permissions(&profile, fs::Permissions::from_mode(bits)).unwrap();
    mode(0o500);
    let shipped = profiled(&work, hostile_program("modules_twice"), &profile).powerless().finish();
    assert_eq!((ahead(&shipped).1, shipped.stderr.as_str()), (6, ""), "{shipped}");
    mode(0o777);
    let open = profiled(&work, hostile_program("modules_twice"), &profile).finish();
    assert_eq!(ahead(&open), (0, 0), "{open}");
    assert!(open.stderr.starts_with("lazyguard: LAZYGUARD_PROFILE=") && open.stderr.lines().count() == 1, "{open}");
    mode(0o700);
}

#[test]
fn processes_that_share_a_folder_and_are_killed_at_any_time_leave_it_whole() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile");
    for round in 0..4_u64 {
        let all: Vec<_> =
            (0..16).map(|_| profiled(&work, hostile_program("modules_twice"), &profile).start()).collect();
        for (n, running) in (0..).zip(all) {
            running.finish_within(Duration::from_millis((round * 37 + n * 13) % 150));
        }
        let seen = lazyguard(&work, &["profile", "verify", &profile.to_string_lossy()]);
        assert_eq!(seen.code, Some(0), "{seen}");
    }
    let whole = profiled(&work, hostile_program("modules_twice"), &profile).finish();
    assert_eq!(whole.code, Some(0), "{whole}");
    let next = profiled(&work, hostile_program("modules_twice"), &profile).finish();
    assert_eq!((ahead(&next).1, next.stderr.as_str()), (6, ""), "{next}");
}

#[test]
fn the_command_shows_checks_merges_and_prunes_a_profile() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let [one, other, all] = ["one", "other", "all"].map(|name| work.path().join(name));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    profiled(&work, hostile_program("modules_twice"), &one).finish();
    let mut hangs = profiled(&work, corpus_program("module_load"), &other).hang_after("300ms").start();
    hangs.until_a_hang_is_reported();
    // Another thread than the one that reports writes the profile.
    hangs.until("the profile of what it loads", Duration::from_secs(30), |_| {
        let shown = lazyguard(&work, &["profile", "show", &text(&other)]);
        shown.stdout.starts_with("2 images").then_some(())
    });
    drop(hangs);
    let shown = lazyguard(&work, &["profile", "show", &text(&one)]);
    for line in ["2 images that the program loads itself", "  loaded 1 time in a context with options 0=32", "\n  k2\n"]
    {
        assert!(shown.stdout.contains(line), "{line}: {shown}");
    }
    let merged = lazyguard(&work, &["profile", "merge", &text(&all), &text(&one), &text(&other)]);
    assert_eq!(merged.code, Some(0), "{merged}");
    assert!(lazyguard(&work, &["profile", "show", &text(&all)]).stdout.starts_with("4 images"), "{merged}");
    let next = profiled(&work, corpus_program("module_load"), &all).finish();
    assert!(next.code == Some(0) && ahead(&next).1 >= 1, "{next}");
    fs::write(all.join("images/photo.jpg"), "a file of the user's").unwrap();
    let pruned = lazyguard(&work, &["profile", "prune", "--most", "0", &text(&all)]);
    assert!(pruned.stdout.starts_with("removed 4 images"), "{pruned}");
    fs::remove_file(all.join("images/photo.jpg")).expect("a file with another name stays");
    assert!(lazyguard(&work, &["profile", "show", &text(&all)]).stdout.starts_with("0 images"));
    let elsewhere = work.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("letter"), "a file of the user's").unwrap();
    fs::remove_dir(all.join("images")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, all.join("images")).unwrap();
    for arguments in [&["verify"][..], &["prune"], &["merge"]] {
        let others = if arguments == ["merge"] { vec![text(&all), text(&one)] } else { vec![text(&all)] };
        let mut all_arguments = [&["profile"], arguments].concat();
        all_arguments.extend(others.iter().map(String::as_str));
        let seen = lazyguard(&work, &all_arguments);
        assert!(seen.code == Some(1) && seen.stderr.contains("images: it is a symbolic link"), "{arguments:?}: {seen}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1, "{arguments:?}");
    }
    let part = fs::read_dir(&one).unwrap().flatten().find(|entry| entry.path().is_file()).unwrap().path();
    let content = fs::read(&part).unwrap();
    fs::write(&part, &content[..content.len() / 2]).unwrap();
    let seen = lazyguard(&work, &["profile", "verify", &text(&one)]);
    assert!(seen.code == Some(1) && seen.stderr.contains("it was cut off, or changed"), "{seen}");
    let pruned = lazyguard(&work, &["profile", "prune", &text(&one)]);
    assert!(pruned.code == Some(1) && pruned.stderr.contains("nothing is removed"), "{pruned}");
    assert_eq!(lazyguard(&work, &["profile", "show", "/nowhere"]).code, Some(1));
    let pruned = lazyguard(&work, &["profile", "prune", &text(&elsewhere)]);
    assert!(pruned.code == Some(1) && pruned.stderr.contains("no part of a profile"), "{pruned}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1, "nothing is made there");
}

/// A line for each profile in a cache, without the paths: parts, images and bytes.
fn listed(work: &Work, cache: &Path) -> Vec<(String, String)> {
    let seen = Run::new(work, command()).set("XDG_CACHE_HOME", cache).args(["profile", "show"]).finish();
    let mut lines = seen.stdout.lines();
    let (count, folder) = lines.next().and_then(|line| line.split_once(" in ")).unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(Path::new(folder), cache.join("lazyguard/profiles"));
    let line = |line: &str| {
        let (path, holds) = line.strip_prefix(folder)?.split_once(": ")?;
        Some((path.strip_prefix('/')?.rsplit_once('-')?.0.to_owned(), holds.to_owned()))
    };
    let found: Vec<_> = lines.map(|text| line(text).unwrap_or_else(|| panic!("{text}: {seen}"))).collect();
    assert!((seen.code, found.len()) == (Some(0), count.split(' ').next().unwrap().parse().unwrap()), "{seen}");
    found
}

#[test]
fn without_a_folder_each_program_has_a_profile_of_its_own_in_the_users_cache() {
    use std::os::unix::fs::PermissionsExt as _;
    let work = Work::new(lazyguard_e2e::this_test!());
    let cache = work.path().join("cache");
    let program = corpus_program("module_load").to_string_lossy().into_owned();
    let cached = |options: &[&str], program: &[&str]| {
        crate::run_passes_on::under(&work, options, program).set("XDG_CACHE_HOME", &cache)
    };
    assert_eq!(listed(&work, &cache), []);
    let hangs = ["--profile", "--hang-after", "300ms", "--on-hang", "kill", "--kill-after", "0"];
    let first = cached(&hangs, &[&program]).finish();
    assert_eq!(first.code, Some(117), "{first}");
    let second = cached(&["--profile"], &[&program]).finish();
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second}");
    assert_eq!(listed(&work, &cache).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["module_load"]);
    let profiles = cache.join("lazyguard/profiles");
    let own = fs::read_dir(&profiles).unwrap().flatten().map(|entry| entry.path());
    for made in own.chain([cache.clone(), cache.join("lazyguard"), profiles.clone()]) {
        let mode = fs::metadata(&made).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", made.display());
    }
    // The run inside has a folder of its own, and one that asks for none has that of the run around it.
    let (lazyguard, twice) = (command().to_string_lossy().into_owned(), hostile_program("modules_twice"));
    let twice = twice.to_string_lossy().into_owned();
    for (options, script) in [(&["run", "--profile", "--"][..], "inner.sh"), (&["run", "--"], "outer.sh")] {
        let path = work.path().join(script);
        fs::write(&path, format!("'{lazyguard}' {} '{twice}'", options.join(" "))).unwrap();
        let nested = cached(&["--profile"], &["sh", &path.to_string_lossy()]).finish();
        assert_eq!(nested.code, Some(0), "{nested}");
    }
    let listed = listed(&work, &cache);
    assert_eq!(
        listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["module_load", "modules_twice", "outer.sh"]
    );
    assert!(listed.iter().skip(1).all(|(_, holds)| holds.starts_with("1 part, 0 libraries, 2 images, ")), "{listed:?}");
}

#[test]
fn without_a_cache_the_program_runs_without_a_profile() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let tells = ["sh", "-c", "echo $LAZYGUARD_PROFILE"];
    let run =
        crate::run_passes_on::under(&work, &["--profile"], &tells).set("XDG_CACHE_HOME", "relative").set("HOME", "");
    let outcome = run.set("LAZYGUARD_PROFILE", work.path()).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "off\n"), "{outcome}");
    assert!(outcome.stderr.contains("XDG_CACHE_HOME") && outcome.stderr.lines().count() == 1, "{outcome}");
}

/// `lazyguard run` of a program, with the user's cache there.
fn cached<'w>(work: &'w Work, cache: &Path, options: &[&str], program: &Path) -> Run<'w> {
    crate::run_passes_on::under(work, options, &[program]).set("XDG_CACHE_HOME", cache)
}

const ENDS_A_HANG: [&str; 6] = ["--hang-after", "300ms", "--on-hang", "kill", "--kill-after", "0"];

#[test]
fn a_program_that_hangs_in_a_load_completes_in_its_second_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (cache, program) = (work.path().join("cache"), corpus_program("module_load"));
    let first = cached(&work, &cache, &ENDS_A_HANG, &program).finish();
    assert_eq!(first.code, Some(117), "{first}");
    let next = first.stderr.lines().filter(|line| line.ends_with("the next run has that ahead")).count();
    assert_eq!(next, 1, "{first}");
    let second = cached(&work, &cache, &[], &program).finish();
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second}");
    assert_eq!(listed(&work, &cache).len(), 1);
}

#[test]
fn a_run_without_a_profile_writes_none_and_uses_none() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (cache, program) = (work.path().join("cache"), corpus_program("module_load"));
    let off = [&ENDS_A_HANG[..], &["--profile", "off"]].concat();
    let own = [&ENDS_A_HANG[..], &["--profile"]].concat();
    let by_variable = || cached(&work, &cache, &ENDS_A_HANG, &program).set("LAZYGUARD_PROFILE", "off");
    for with_profile in [false, true] {
        let option = cached(&work, &cache, &off, &program).finish();
        let variable = by_variable().finish();
        for outcome in [&option, &variable] {
            assert!(outcome.code == Some(117) && !outcome.stderr.contains("its profile"), "{outcome}");
        }
        assert_eq!(cache.exists(), with_profile);
        let taught = cached(&work, &cache, &own, &program).finish();
        assert_eq!(taught.code, Some(if with_profile { 0 } else { 117 }), "{taught}");
    }
    // As each run of `lazyguard explore`.
    let schedule = work.path().join("schedule");
    fs::write(&schedule, "budget 0\n").unwrap();
    let scheduled = ["--schedule", schedule.to_str().unwrap()];
    let tells = crate::run_passes_on::under(&work, &scheduled, &["sh", "-c", "echo $LAZYGUARD_PROFILE"]).finish();
    assert_eq!((tells.code, tells.stdout.as_str()), (Some(0), "\n"), "{tells}");
}

#[test]
fn a_profile_that_is_no_folder_is_refused_and_off_is_none_whatever_is_there() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let device = Run::new(&work, command()).args(["run", "--profile", "/dev/null", "echo", "began"]).finish();
    let line = "lazyguard: --profile \"/dev/null\" is not usable (it is no folder; ";
    assert!(device.code == Some(125) && device.stdout.is_empty() && device.stderr.starts_with(line), "{device}");
    let off = format!("cd {} && : > off && {} run --profile off true", work.path().display(), command().display());
    let outcome = Run::new(&work, "sh").args(["-c", &off]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
}

#[test]
fn an_unusable_cache_costs_no_line() {
    use std::os::unix::fs::PermissionsExt as _;
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("modules_twice");
    let bare = Run::new(&work, &program).finish();
    let folder = |name: &str| work.folder(name);
    let mode = |path: &Path, bits| fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    let file = folder("a-file").join("file");
    fs::write(&file, "").unwrap();
    mode(&folder("read-only"), 0o500);
    let [open, damaged, blocked] = ["open", "damaged", "blocked"].map(|name| {
        let cache = folder(name);
        cached(&work, &cache, &[], &program).finish().expect_same_as(&bare);
        let own = fs::read_dir(cache.join("lazyguard/profiles")).unwrap().flatten().next().unwrap().path();
        (cache, own)
    });
    mode(&open.1, 0o777);
    let images = || fs::read_dir(damaged.1.join("images")).unwrap().flatten().map(|entry| entry.path());
    images().for_each(|image| fs::write(image, "damaged").unwrap());
    let part = fs::read_dir(&damaged.1).unwrap().flatten().find(|entry| entry.path().is_file()).unwrap().path();
    fs::write(part.with_file_name("cut.profile"), &fs::read(&part).unwrap()[..40]).unwrap();
    // No part and no image can be written.
    fs::remove_dir_all(&blocked.1).unwrap();
    fs::write(&blocked.1, "").unwrap();
    let nowhere = ["/dev/full", "/proc/none", "/sys/none"].map(Path::new);
    let unusable = [&*file, &file.join("below"), &folder("read-only"), &open.0, &damaged.0, &blocked.0];
    for cache in nowhere.into_iter().chain(unusable) {
        for _ in 0..2 {
            cached(&work, cache, &[], &program).powerless().finish().expect_same_as(&bare);
        }
    }
    let homeless = || cached(&work, Path::new("relative"), &[], &program);
    for run in [homeless().set("HOME", ""), homeless().set("HOME", "/no/such/folder"), homeless().set("HOME", &file)] {
        run.powerless().finish().expect_same_as(&bare);
    }
    // The guard has replaced what it could not use, and only that.
    assert!(images().all(|image| fs::read(image).unwrap() != b"damaged"));
    assert_eq!(fs::read_dir(folder("read-only")).unwrap().count() + fs::read(&file).unwrap().len(), 0);
}
