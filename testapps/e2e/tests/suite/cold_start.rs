//! The summary of a start: each part contains the delay that the test put there, and the parts add up to the whole. No test limits a
//! duration that depends on the machine.

use lazyguard_e2e::{
    app, command, corpus_program, driver_folder, hostile_program, number, one_of_three, target, text, timing_of,
    timing_text_of, Json, Run, Work,
};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const MS: u64 = 1_000_000;
const COLD: &str = "--cold-start";

/// What went into a part.
fn part(summary: &Json, name: &str) -> u64 {
    let parts = summary["parts"].as_array().unwrap_or_else(|| panic!("no parts in {summary:#}")).iter();
    parts.filter(|part| part["part"] == name).map(|part| number(part, "/ns")).sum()
}

/// The summary of the only process of a run, whose parts are the whole.
fn account_of(folder: &Path) -> Json {
    let mut processes = timing_of(folder, &[COLD]);
    assert_eq!(processes.len(), 1, "{processes:#?}");
    let summary = processes[0]["cold_start"].take();
    let parts = summary["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let sum: u64 = parts.iter().map(|part| number(part, "/ns")).sum();
    assert_eq!(sum, number(&summary, "/steady/until_ns"), "the parts are the whole: {summary:#}");
    summary
}

fn finished(run: Run<'_>) -> Json {
    let outcome = run.guarded().kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    account_of(outcome.out().path())
}

/// A duration as the command writes it.
fn written(nanos: u64) -> String {
    let n = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", n / 1e6),
        _ => format!("{:.3} s", n / 1e9),
    }
}

#[test]
fn each_delay_is_found_in_its_part() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The longest by far: on a busy machine the others take longer than their delays.
    let delays = "cuInit=120,cuDevicePrimaryCtxRetain=600,cuLibraryLoadData=60,cuMemAlloc_v2=40";
    let summary = finished(Run::new(&work, app("blocking_async")).set("LGSIM_DELAY", delays));
    assert_eq!(
        (&summary["from_process_start"], &summary["steady"]["reached"]),
        (&true.into(), &true.into()),
        "{summary:#}"
    );
    for (name, least) in [
        ("loader", 1),
        ("program", 1),
        ("driver_init", 120 * MS),
        ("arming", 1),
        ("context", 600 * MS),
        ("modules", 60 * MS),
        ("allocations", 2 * 40 * MS),
        ("preload", 1),
        ("waits", 1),
    ] {
        let spent = part(&summary, name);
        assert!(spent >= least && spent < least + 5_000 * MS, "{name}: {spent} and not {least} in {summary:#}");
    }
    let slow = &summary["allocations"][0];
    assert_eq!(
        (text(slow, "/call"), number(slow, "/count"), number(slow, "/bytes")),
        ("cuMemAlloc", 2, 2 << 20),
        "{slow:#}"
    );
    assert!(number(slow, "/ns") >= 80 * MS && number(slow, "/max_ns") >= 40 * MS, "{slow:#}");
    let longest = &summary["longest"][0];
    assert_eq!(
        (text(longest, "/part"), text(longest, "/call")),
        ("context", "cuDevicePrimaryCtxRetain"),
        "{longest:#}"
    );
}

#[test]
fn what_the_guard_loads_ahead_of_use_stands_apart_from_the_programs_own_loads() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = || Run::new(&work, app("blocking_async"));
    let ahead = finished(program().set("LGSIM_DELAY", "cuKernelGetFunction=15"));
    assert_eq!((number(&ahead, "/ahead/kernels"), number(&ahead, "/ahead/not_loaded")), (4, 0), "{ahead:#}");
    assert!(part(&ahead, "preload") >= 4 * 15 * MS, "{ahead:#}");
    assert!(number(&ahead, "/ahead/ns") >= part(&ahead, "preload"), "{ahead:#}");
    let kernels = ahead["kernels"].as_array().unwrap_or_else(|| panic!("no kernels in {ahead:#}"));
    assert!(kernels.len() == 4 && kernels.iter().all(|kernel| kernel["loaded"].is_null()), "{kernels:#?}");
    let off = finished(program().set("LAZYGUARD_PRELOAD", "off").set("LGSIM_DELAY", "cuLibraryLoadData=30"));
    assert_eq!((number(&off, "/ahead/times"), part(&off, "preload")), (0, 0), "{off:#}");
    let loads: Vec<_> = off["loads"].as_array().into_iter().flatten().map(|loads| text(loads, "/part")).collect();
    assert!(loads.contains(&"modules") && loads.contains(&"functions"), "{off:#}");
}

#[test]
fn the_first_launch_of_a_kernel_stands_beside_its_later_ones() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let summary = finished(Run::new(&work, app("blocking_async")).set("LAZYGUARD_PRELOAD", "off"));
    let kernels = summary["kernels"].as_array().unwrap_or_else(|| panic!("no kernels in {summary:#}"));
    let of = |name: &str| {
        let found = kernels.iter().find(|kernel| kernel["kernel"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {kernels:#?}"))
    };
    for (name, launches, loaded) in [
        ("add_one", 3, "modules"),
        ("busy", 3, "functions"),
        ("multiply", 4, "functions"),
        ("count", 2000, "functions"),
    ] {
        let kernel = of(name);
        assert_eq!((number(kernel, "/launches"), text(kernel, "/loaded")), (launches, loaded), "{kernel:#}");
        assert_eq!(kernel["first_is_known"], true, "{kernel:#}");
        let (first, steady) = (number(kernel, "/first_ns"), number(kernel, "/steady_ns"));
        assert_eq!(number(kernel, "/difference_ns"), first.saturating_sub(steady), "{kernel:#}");
    }
}

#[test]
fn what_needs_the_compiler_is_told_as_compilation() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The simulated driver takes a millisecond for each of 150 kernels.
    let summary = finished(Run::new(&work, corpus_program("ptx_compiles")).set("LG_SCALE_MS", "100"));
    let compiled = part(&summary, "compile");
    assert!(compiled >= 150 * MS, "{summary:#}");
    assert_eq!((text(&summary, "/loads/0/part"), number(&summary, "/loads/0/count")), ("compile", 1), "{summary:#}");
    assert_eq!(summary["steady"]["reached"], false, "it launches nothing: {summary:#}");
}

#[test]
fn the_text_says_what_the_json_says() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, app("blocking_async")).guarded().kept().finish();
    let summary = account_of(outcome.out().path());
    let said = timing_text_of(outcome.out().path(), &[COLD]);
    let whole = written(number(&summary, "/steady/until_ns"));
    assert!(said.contains(&format!("cold start: steady {whole} after its start\n")), "{said}");
    assert!(said.contains(&format!("  {whole:>10}  in all\n")), "{said}");
    for part in summary["parts"].as_array().into_iter().flatten() {
        assert!(said.contains(&format!("  {:>10}  ", written(number(part, "/ns")))), "{part} is not in\n{said}");
    }
    for kernel in summary["kernels"].as_array().into_iter().flatten() {
        let line =
            format!("  {:>10}  {:>10}  ", written(number(kernel, "/first_ns")), written(number(kernel, "/steady_ns")));
        assert!(said.contains(&line), "{kernel} is not in\n{said}");
    }
    assert!(said.contains("the card's state: nobody looked at it"), "{said}");
    assert!(said.contains(text(&summary, "/steady/definition")), "{said}");
}

#[test]
fn the_time_begins_where_the_process_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    one_of_three(|| {
        let before = now();
        let summary = finished(Run::new(&work, app("blocking_async")));
        let (began, after) = (number(&summary, "/began_unix_ns"), now());
        let armed = number(&summary, "/armed_ns");
        assert!(began < after && armed <= after - began && armed > 0, "{summary:#}");
        // The system gives the start to a hundredth of a second; the machine may stand still between two clocks.
        if began + 15 * MS >= before {
            Ok(())
        } else {
            Err(format!("{before} {began} {after}"))
        }
    });
}

#[test]
fn a_forked_child_begins_where_it_was_forked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = work.folder("of");
    let run = Run::new(&work, hostile_program("trap11_fork_before_init")).guarded();
    let outcome = run.set("LAZYGUARD_OUT", folder.join("%p")).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let processes = timing_of(&folder, &[COLD, "--blocking"]);
    assert_eq!(processes.len(), 2, "{processes:#?}");
    for process in &processes {
        let summary = &process["cold_start"];
        assert_eq!(summary["from_process_start"], true, "{summary:#}");
        assert!(part(summary, "driver_init") > 0 && process["blocking"].is_object(), "{process:#}");
    }
    let said = timing_text_of(&folder, &[COLD]);
    for process in &processes {
        assert!(said.contains(&format!("(process {} on ", number(process, "/process"))), "{said}");
    }
}

#[test]
fn a_process_that_hangs_is_told_while_it_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = Run::new(&work, corpus_program("module_load")).guarded().kept().hang_after("300ms").start();
    let out = running.until_a_hang_is_reported().path().to_owned();
    let summary = account_of(&out);
    assert_eq!((text(&summary, "/longest/0/call"), text(&summary, "/longest/0/part")), ("cuModuleLoadData", "modules"));
    assert_eq!(summary["longest"][0]["in_progress"], true, "{summary:#}");
    assert_eq!((&summary["steady"]["reached"], &summary["steady"]["last_of_start_ns"]), (&false.into(), &Json::Null));
    let said = timing_text_of(&out, &[COLD]);
    assert!(said.contains("nothing of the start has ended"), "{said}");
    drop(running.stop());
}

/// What `lazyguard run --cold-start` says on standard error, with libraries to be found in these folders too.
fn run_and_told(work: &Work, folders: &[&Path]) -> String {
    let mut search = vec![driver_folder()];
    search.extend(folders.iter().map(|folder| folder.to_path_buf()));
    let search = std::env::join_paths(search).unwrap_or_else(|error| panic!("{error}"));
    let run = Run::new(work, command()).args(["run", "--cold-start", "--"]).args([app("blocking_async")]);
    let outcome = run.set("LD_LIBRARY_PATH", search).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    outcome.stderr
}

#[test]
fn a_run_says_what_state_the_card_was_in() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = work.folder("nvml");
    let library = target().join("nvml/libnvidia-ml.so");
    std::os::unix::fs::symlink(library, folder.join("libnvidia-ml.so.1")).unwrap_or_else(|error| panic!("{error}"));
    let said = run_and_told(&work, &[&folder]);
    for line in [
        "cold start: steady ",
        "card 0 (Simulated card):\n",
        "  at the start  P8, SM 345 of 1980 MHz, memory 405 of 2619 MHz, 31 C, 70 W, clocks held down by: idle\n",
    ] {
        assert!(said.contains(line), "{line:?} is not in\n{said}");
    }
}

#[test]
fn a_run_without_the_management_library_says_why_there_is_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let said = run_and_told(&work, &[]);
    assert!(said.contains("cold start: steady ") && said.contains("the card's state: libnvidia-ml.so.1: "), "{said}");
}
