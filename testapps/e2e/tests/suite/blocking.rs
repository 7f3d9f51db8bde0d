//! The asynchronous calls that blocked the host: for each program, the report names the expected reason and the thread to blame.

use lazyguard_e2e::{app, corpus_program, hostile_program, number, text, timing_of, timing_text_of, Json, Run, Work};
use std::path::{Path, PathBuf};

const MS: u64 = 1_000_000;
const BLOCKING: &str = "--blocking";

/// The summary of the only process of a run; its groups are the whole, and the text says the same.
fn account_of(folder: &Path) -> Json {
    let mut processes = timing_of(folder, &[BLOCKING]);
    assert_eq!(processes.len(), 1, "{processes:#?}");
    let summary = processes[0]["blocking"].take();
    let groups = groups(&summary);
    let sum = |key: &str| groups.iter().map(|group| number(group, key)).sum::<u64>();
    assert_eq!(
        (sum("/count"), sum("/total_ns")),
        (number(&summary, "/count"), number(&summary, "/total_ns")),
        "{summary:#}"
    );
    assert!(
        groups.is_sorted_by(|a, b| number(a, "/total_ns") >= number(b, "/total_ns")),
        "the dearest first: {summary:#}"
    );
    summary
}

fn groups(summary: &Json) -> &[Json] {
    summary["groups"].as_array().unwrap_or_else(|| panic!("no groups in {summary:#}"))
}

fn finished(run: Run<'_>) -> Json {
    let outcome = run.guarded().kept().finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    expect_the_text_to_agree(outcome.out().path());
    account_of(outcome.out().path())
}

fn expect_the_text_to_agree(folder: &Path) {
    let (summary, said) = (account_of(folder), timing_text_of(folder, &[BLOCKING]));
    let (count, all) = (number(&summary, "/count"), number(&summary, "/asynchronous_calls"));
    let first = if count == 0 { format!(": none of {all}\n") } else { format!(": {count} of {all}, ") };
    assert!(said.contains(&first), "{first:?} is not in\n{said}");
    for group in groups(&summary).iter().take(20) {
        let of = group["kernel"].as_str().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        let times = match number(group, "/count") {
            1 => "1 time".to_owned(),
            count => format!("{count} times"),
        };
        let line = format!("{}{of}: {times}, ", text(group, "/call"));
        assert!(said.contains(&line), "{line:?} is not in\n{said}");
        assert!(said.contains(&format!("      why: {}\n", text(group, "/text"))), "{group:#} is not in\n{said}");
    }
    for class in summary["histogram"].as_array().into_iter().flatten() {
        let line = format!("  {:>14}  {:>8}", text(class, "/label"), number(class, "/count"));
        assert!(said.contains(&line), "{line:?} is not in\n{said}");
    }
}

/// The group of a call, a kernel and a reason.
fn the<'a>(summary: &'a Json, call: &str, kernel: Option<&str>, reason: &str) -> &'a Json {
    let found = groups(summary)
        .iter()
        .find(|group| group["call"] == call && group["kernel"].as_str() == kernel && group["reason"] == reason);
    found.unwrap_or_else(|| panic!("no {call} of {kernel:?} because of {reason} in {summary:#}"))
}

#[test]
fn a_pageable_copy_on_a_busy_stream_and_a_full_queue_are_told_apart() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let summary = finished(Run::new(&work, app("blocking_async")));
    let copy = the(&summary, "cuMemcpyDtoHAsync", None, "pageable_memory");
    assert!(number(copy, "/max_ns") >= 20 * MS, "it waits for a kernel of 600 ms: {copy:#}");
    let launch = the(&summary, "cuLaunchKernel", Some("count"), "queue_full");
    assert!(number(launch, "/max_ns") >= 5 * MS, "it waits for the rest of a kernel of 600 ms: {launch:#}");
}

#[test]
fn copies_of_pageable_memory_are_one_group() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let summary = finished(Run::new(&work, corpus_program("pageable_copies")).set("LG_SCALE_MS", "1500"));
    let group = the(&summary, "cuMemcpyDtoHAsync", None, "pageable_memory");
    assert_eq!((number(group, "/count"), &group["other"]), (5, &Json::Null), "{group:#}");
    assert!(number(group, "/total_ns") >= 5 * 300 * MS, "each waits for a kernel of 600 ms: {group:#}");
}

#[test]
fn a_full_queue_behind_a_long_kernel_is_told() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let summary = finished(Run::new(&work, corpus_program("queue_full_behind_long_kernel")).set("LG_SCALE_MS", "200"));
    let group = the(&summary, "cuLaunchKernel", Some("busy_for"), "queue_full");
    assert!(number(group, "/max_ns") >= 200 * MS, "{group:#}");
}

#[test]
fn a_load_on_first_use_is_told_with_what_was_loaded() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let facts = work.path().join("facts");
    let run = Run::new(&work, hostile_program("every_event")).args([&facts]);
    let summary = finished(run.set("LAZYGUARD_PRELOAD", "off").set("LGSIM_DELAY", "cuLaunchKernel=15"));
    for (kernel, reason) in [("add", "loads_module"), ("nothing", "loads_function"), ("spin", "loads_function")] {
        let group = the(&summary, "cuLaunchKernel", Some(kernel), reason);
        assert_eq!((number(group, "/count"), &group["certain"]), (1, &true.into()), "{group:#}");
        assert!(number(group, "/max_ns") >= 15 * MS, "{group:#}");
    }
    // The others were loaded, and the record does not show why they took as long.
    assert_eq!(number(the(&summary, "cuLaunchKernel", Some("nothing"), "not_known"), "/count"), 1);
}

#[test]
fn a_cold_launch_beside_work_in_flight_bears_the_code_of_the_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, app("cold_trigger")).args(["launch_ex"]).guarded().kept();
    let run = run.set("LAZYGUARD_PRELOAD", "off").set("LGSIM_DELAY", "cuLaunchKernelEx=20").hang_after("300ms");
    let mut running = run.start();
    running.until_a_hang_is_reported();
    let out = running.out();
    running.stop();
    expect_the_text_to_agree(&out);
    let summary = account_of(&out);
    let group = the(&summary, "cuLaunchKernelEx", Some("release"), "loads_function");
    assert_eq!(group["codes"], Json::from(vec!["LG101"]), "{group:#}");
}

#[test]
fn what_was_loaded_ahead_of_use_holds_nobody_as_a_load_on_first_use() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let facts = work.path().join("facts");
    let run = Run::new(&work, hostile_program("every_event")).args([&facts]);
    let summary = finished(run.set("LAZYGUARD_PRELOAD", "eager").set("LGSIM_DELAY", "cuLaunchKernel=15"));
    let of = |reason: &str| groups(&summary).iter().filter(|group| text(group, "/reason").starts_with(reason)).count();
    assert_eq!((of("loads_"), of("compiles")), (0, 0), "{summary:#}");
    // On a busy machine other calls may be slow as well.
    let launches = groups(&summary).iter().filter(|group| group["call"] == "cuLaunchKernel");
    let launched: u64 = launches.map(|group| number(group, "/count")).sum();
    assert_eq!(launched, 5, "each launch is slow all the same: {summary:#}");
}

/// Runs a program until it is said to hang, and stops it.
fn stuck(work: &Work, name: &str) -> PathBuf {
    let mut running = Run::new(work, corpus_program(name)).guarded().kept().hang_after("500ms").start();
    let folder = running.until_a_hang_is_reported();
    running.stop();
    folder.path().to_owned()
}

#[test]
fn the_thread_that_holds_the_lock_is_named_with_its_call() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (program, call) in
        [("worker_loads_others_launch", "cuModuleLoadData"), ("worker_frees_others_wait", "cuMemFree")]
    {
        let out = stuck(&work, program);
        expect_the_text_to_agree(&out);
        let summary = account_of(&out);
        let group = the(&summary, "cuLaunchKernel", Some("step"), "lock_held");
        assert_eq!((text(group, "/other/call"), number(group, "/in_progress")), (call, 1), "{group:#}");
        assert_ne!(number(group, "/other/thread"), number(group, "/first_thread"), "{group:#}");
        let named =
            format!("thread {} \"{}\" in {call}", number(group, "/other/thread"), text(group, "/other/thread_name"));
        assert!(text(group, "/text").ends_with(&named), "{group:#}");
    }
}

#[test]
fn a_program_whose_calls_return_at_once_has_none() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, app("lazy_pair")).guarded().kept().finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let said = timing_text_of(outcome.out().path(), &[BLOCKING, "--slower-than", "1m"]);
    let processes = timing_of(outcome.out().path(), &[BLOCKING, "--slower-than", "1m"]);
    assert_eq!((number(&processes[0], "/blocking/count"), groups(&processes[0]["blocking"])), (0, &[][..]));
    assert!(number(&processes[0], "/blocking/asynchronous_calls") >= 2, "{processes:#?}");
    assert!(said.contains("for 60.000 s or more: none of "), "{said}");
}
