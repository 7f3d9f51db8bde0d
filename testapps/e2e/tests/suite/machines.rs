//! Old kernels, container engines and small machines (`docs/DOCTOR.md`): what the guard uses is refused, and the program behaves as ever.

use lazyguard_e2e::{
    app, command, hostile_program, only_run_in, root, skipped, stack_program, Folder, Outcome, Run, Running, Work,
    PATIENCE,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The calls that the library does without, one at a time.
const REFUSED: [&str; 13] = [
    "membarrier",
    "process_vm_readv",
    "madvise",
    "fallocate",
    "fstatfs",
    "getrandom",
    "statx",
    "close_range",
    "unshare",
    "prctl",
    "setsid",
    "sched_getaffinity",
    "memfd_create",
];
/// Lists that `refusing` knows by name.
const LISTS: [&str; 3] = ["linux-3.10", "container", "container-2015"];
/// Programs that hang bare, and complete with the guard.
const SEEDS: [&str; 6] =
    ["lazy_pair", "module_pair", "persistent_one_time", "persistent_two_libraries", "value_fence", "blocking_async"];
/// Settings of a run whose hang is reported, and then ended.
const HANG: [(&str, &str); 3] =
    [("LAZYGUARD_PRELOAD", "off"), ("LAZYGUARD_HANG_AFTER", "400ms"), ("LAZYGUARD_ON_HANG", "exit:117")];

/// Every refusal: each call by itself and all of them, with both errors, and the lists.
fn refusals() -> Vec<String> {
    let all = REFUSED.join(",");
    let calls = REFUSED.iter().copied().chain([all.as_str()]);
    let of_calls: Vec<_> =
        calls.flat_map(|calls| ["ENOSYS", "EPERM"].map(|error| format!("{error}={calls}"))).collect();
    of_calls.into_iter().chain(LISTS.map(str::to_owned)).collect()
}

fn refusing<'w>(work: &'w Work, refusal: &str, program: impl AsRef<Path>) -> Run<'w> {
    Run::new(work, hostile_program("refusing")).args([refusal]).args([program.as_ref()])
}

fn hanging<'w>(run: Run<'w>) -> Run<'w> {
    HANG.iter().fold(run.guarded(), |run, (name, value)| run.set(name, value))
}

fn expect_a_hang_with_its_stack(what: &str, outcome: &Outcome) {
    assert_eq!(outcome.code, Some(117), "{what}: {outcome}");
    for expect in
        ["LG201 (", "the driver says: busy: stream 1", "lazyguard: stack of thread ", "lazyguard:     at lazy_pair"]
    {
        assert!(outcome.stderr.contains(expect), "{what}: {expect}: {outcome}");
    }
}

/// Starts a few at a time, and waits for their ends.
fn all_of<'w>(mut runs: impl Iterator<Item = (String, Run<'w>)>, mut check: impl FnMut(&str, &Outcome)) {
    loop {
        let started: Vec<(String, Running)> = runs.by_ref().take(8).map(|(what, run)| (what, run.start())).collect();
        if started.is_empty() {
            return;
        }
        started.into_iter().for_each(|(what, running)| check(&what, &running.finish_within(PATIENCE)));
    }
}

#[test]
fn a_hang_is_prevented_and_nothing_is_printed_whichever_call_is_refused() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let bare = Run::new(&work, app("lazy_pair_single_kernel")).finish();
    let reference = Run::new(&work, app("lazy_pair")).guarded().finish();
    assert_eq!((bare.code, reference.code), (Some(0), Some(0)), "{bare} {reference}");
    for (program, expect) in [("lazy_pair_single_kernel", &bare), ("lazy_pair", &reference)] {
        let runs = refusals().into_iter().map(|refusal| {
            let run = refusing(&work, &refusal, app(program)).guarded();
            (format!("{program}, {refusal}"), run)
        });
        all_of(runs, |what, outcome| {
            assert_eq!(
                (outcome.code, &outcome.stdout, &outcome.stderr, outcome.left_behind()),
                (expect.code, &expect.stdout, &expect.stderr, vec![]),
                "{what}"
            );
        });
    }
    for seed in SEEDS {
        let expect = Run::new(&work, app(seed)).guarded().finish();
        let all = ["ENOSYS=", "EPERM="].map(|error| error.to_owned() + &REFUSED.join(","));
        let runs = all
            .into_iter()
            .map(|refusal| (format!("{seed}, {refusal}"), refusing(&work, &refusal, app(seed)).guarded()));
        // Threads print side by side.
        all_of(runs, |what, outcome| {
            let seen = |outcome: &Outcome| {
                (
                    outcome.code,
                    outcome.sorted_stdout().join(
                        "
",
                    ),
                    outcome.stderr.clone(),
                )
            };
            assert_eq!(seen(outcome), seen(&expect), "{what}");
        });
    }
}

#[test]
fn a_hang_is_reported_with_its_stack_whichever_call_is_refused() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let runs = refusals().into_iter().map(|refusal| {
        let run = hanging(refusing(&work, &refusal, app("lazy_pair"))).kept();
        (refusal, run)
    });
    all_of(runs, |what, outcome| {
        expect_a_hang_with_its_stack(what, outcome);
        assert!(
            outcome.out().hang()["verdicts"][0]["code"] == "LG201" && outcome.out().holds("trace.lgt"),
            "{what}: {outcome}"
        );
        // Only a kernel that does not tell the kind of a file system costs the file.
        let in_file = outcome.out().summary()["recording"]["in_file"] == true;
        assert_eq!(in_file, !what.contains("fstatfs"), "{what}: {outcome}");
    });
}

/// Python's stacks and a command need a child, which is not to be had.
#[test]
fn without_a_child_the_report_and_a_line_say_what_is_missing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let python = root().join("testapps/stacks/children.py");
    // A wrapper of the interpreter could make children.
    let own = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let interpreter = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    let run = refusing(&work, "EPERM=clone", interpreter).args([python, work.path().join("end")]).guarded().kept();
    let mut running = run.hang_after("400ms").set("LAZYGUARD_ON_HANG", "command:echo it ran").start();
    let lines = [
        "python: its threads' stacks could not be had: a child cannot be made: Operation not permitted",
        "the command of LAZYGUARD_ON_HANG could not be started: Operation not permitted",
    ];
    for line in lines {
        running.until(line, PATIENCE, |running| running.stderr().contains(line).then_some(()));
    }
}

/// The tables of descriptors of a process's threads: a thread's name, and where its descriptors lead.
fn descriptors(process: u32) -> Vec<(String, BTreeSet<String>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |task: &Path| {
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default().trim().to_owned();
        let entries = fs::read_dir(task.join("fd")).into_iter().flatten().flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        (name, links.map(|link| link.display().to_string()).collect())
    };
    tasks.map(|task| of(&task.path())).collect()
}

/// Before Linux 5.9 the log's thread has its own descriptors as well, and without random numbers no thread opens the device for them.
#[test]
fn an_old_kernel_gives_the_program_no_descriptor_of_the_guards() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for refusal in ["linux-3.10", "EPERM=close_range,getrandom"] {
        let run = refusing(&work, refusal, app("lazy_pair")).guarded().kept();
        let mut running = run.set("LAZYGUARD_PRELOAD", "off").hang_after("400ms").start();
        running.until_a_hang_is_reported();
        let process = running.process();
        // A line of the log takes a descriptor for a moment.
        running.until("a table of the log's thread with its own file alone", PATIENCE, |_| {
            let all = descriptors(process);
            let of_log = all.iter().find(|(name, _)| name == "lazyguard-log")?;
            let own = format!("/proc/{process}/task/{process}/stat");
            (of_log.1.iter().all(|link| *link == own)).then_some(())
        });
        let dump = Command::new(command()).args(["dump", &process.to_string()]).output().unwrap();
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        assert!(dump.status.success() && text.contains("LG201"), "{refusal}: {text}");
        let all = descriptors(process);
        assert!(!all.iter().any(|(_, links)| links.iter().any(|link| link.contains("random"))), "{refusal}: {all:?}");
    }
}

/// Where no descriptors of its own can be had at all, the summary says so.
#[test]
fn what_cannot_be_had_is_said_in_the_summary_and_by_the_doctor() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let line = "close_range and unshare are refused here: the guard's log shares the program's descriptor numbers";
    for (refusal, said) in [("container-2015", true), ("container", false), ("linux-3.10", false)] {
        let mut running = refusing(&work, refusal, app("lazy_pair")).guarded().kept();
        running = running.set("LAZYGUARD_PRELOAD", "off").hang_after("400ms").set("LAZYGUARD_ON_HANG", "exit:117");
        let outcome = running.start().finish_within(PATIENCE);
        assert_eq!(outcome.out().summary().to_string().contains(line), said, "{refusal}: {outcome}");
    }
    let doctor = |refusal: &str| {
        let outcome =
            Run::new(&work, hostile_program("refusing")).args([refusal]).args([command()]).args(["doctor"]).finish();
        let said = outcome.stdout.lines().filter(|line| line.contains(" kernel: "));
        said.map(|line| {
            line.split(" kernel: ").nth(1).unwrap_or_default().split(':').next().unwrap_or_default().to_owned()
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(doctor("container"), ["it has what the guard uses, and /proc is mounted"]);
    let refused = ["process_vm_readv is refused", "membarrier is refused", "close_range and unshare are refused"];
    assert_eq!(doctor("container-2015"), refused);
    assert_eq!(doctor("linux-3.10"), [refused[1]]);
}

#[test]
fn the_command_works_whatever_is_refused() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let refusing = |refusal: &str| Run::new(&work, hostile_program("refusing")).args([refusal]).args([command()]);
    let kills = ["run", "--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--out"];
    let calls = "membarrier,process_vm_readv,close_range,getrandom,statx,flock,copy_file_range,renameat2,pidfd_open,socketpair,ptrace";
    let refusals =
        [format!("ENOSYS={calls}"), format!("EPERM={calls}"), "linux-3.10".to_owned(), "container-2015".to_owned()];
    let out = |refusal: &str| work.path().join(refusal);
    let hang = refusals.iter().map(|refusal| {
        let program = ["--".as_ref(), app("lazy_pair").as_path()].map(Path::to_owned);
        (refusal.clone(), refusing(refusal).args(kills).args([out(refusal)]).args(program))
    });
    all_of(hang, |refusal, outcome| {
        assert_eq!(outcome.code, Some(117), "{refusal}: {outcome}");
        assert!(outcome.stderr.contains("at main, "), "{refusal}: no stack with its lines: {outcome}");
    });
    let reads = [
        ("report", 0, "LG201"),
        ("health", 1, "was ended by `lazyguard run`"),
        ("top", 0, "lazy_pair"),
        ("metrics", 0, "lazyguard_"),
    ];
    let each = refusals.iter().flat_map(|refusal| reads.map(|(command, ..)| (refusal, command)));
    let each = each.map(|(refusal, command)| {
        let run = refusing(refusal).args([command]).args([only_run_in(&out(refusal))]);
        (format!("{refusal}: {command}"), run)
    });
    all_of(each, |what, outcome| {
        let (_, code, expect) = reads.iter().find(|(command, ..)| what.ends_with(command)).unwrap();
        assert!(outcome.code == Some(*code) && outcome.stdout.contains(expect), "{what}: {outcome}");
    });
    let passes = refusals
        .iter()
        .map(|refusal| (refusal.clone(), refusing(refusal).args(["run", "--"]).args([app("lazy_pair")])));
    all_of(passes, |refusal, outcome| {
        let said = (outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!((outcome.code, said), (Some(0), ("", "")), "{refusal}: {outcome}");
    });
}

/// Without the call that stops a thread, what can be read without is printed, and why the rest is missing.
#[test]
fn attach_says_what_a_filter_keeps_from_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = Run::new(&work, stack_program("undisturbed")).args([work.path().join("end")]).start();
    running.until("its start", PATIENCE, |running| running.stdout().contains("ready").then_some(()));
    let process = running.process().to_string();
    for (refusal, why) in [("container-2015", "a seccomp filter, a user namespace"), ("ENOSYS=ptrace", "(ENOSYS: ")] {
        let run = Run::new(&work, hostile_program("refusing")).args([refusal]).args([command()]);
        let seen = run.args(["report", &process]).finish();
        if seen.code != Some(0) {
            return skipped(&format!("this machine lets no process look into another one: {seen}"));
        }
        for expect in ["in cuStreamSynchronize at both looks", "no thread could be stopped for its registers", why] {
            assert!(seen.stdout.contains(expect), "{refusal}: {expect}: {seen}");
        }
    }
}

/// A command in a namespace of mounts in which a shell line has been run; `None` where the machine allows none.
fn surrounded<'w>(work: &'w Work, prepare: &str) -> Option<impl Fn(&[&str]) -> Run<'w>> {
    let line = format!("{prepare} && exec env \"$@\"");
    let run = move |words: &[&str]| Run::new(work, "unshare").args(["-m", "sh", "-c", &line, "sh"]).args(words);
    let tried = run(&["true"]).finish();
    if tried.code != Some(0) {
        skipped(&format!("needs root, and a namespace of mounts: {tried}"));
        return None;
    }
    Some(run)
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

#[test]
fn without_proc_a_hang_is_prevented_and_reported_without_its_stack() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let preloaded = format!("LD_PRELOAD={}", lazyguard_e2e::library().display());
    let program = text(app("lazy_pair"));
    let no_stack = "lazyguard:     (no stack: /proc/self/maps cannot be read; is /proc mounted?)";
    for prepare in ["umount -l /proc", "mount -t tmpfs none /proc"] {
        let Some(without) = surrounded(&work, prepare) else { return };
        let passes = without(&[&preloaded, &program]).finish();
        assert_eq!((passes.code, passes.stdout.as_str(), passes.stderr.as_str()), (Some(0), "", ""), "{passes}");
        let summary = without(&[&preloaded, "LAZYGUARD_SUMMARY=on", &program]).finish();
        let registers = format!("CUDA runtime in {program}: 1 fat binary, told to register");
        assert!(summary.stderr.contains(&registers) && summary.stderr.contains("lazyguard: lazy_pair ("), "{summary}");
        let settings: Vec<_> = HANG.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let words: Vec<_> = settings.iter().chain([&preloaded, &program]).map(String::as_str).collect();
        let hangs = without(&words).finish();
        assert!(hangs.code == Some(117) && hangs.stderr.contains("LG201 ("), "{hangs}");
        assert_eq!(hangs.stderr.lines().filter(|line| *line == no_stack).count(), 1, "{hangs}");

        let command = text(command());
        let run = ["run", "--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--", &program];
        let hangs = without(&[&[command.as_str()][..], &run[..]].concat()).finish();
        assert!(hangs.code == Some(117) && hangs.stderr.contains("LG201 ("), "{hangs}");
        let own = std::process::id().to_string();
        for (arguments, lines) in [(&["top", &own][..], 1), (&["report", &own], 1), (&["top"], 1)] {
            let refused = without(&[&[command.as_str()][..], arguments].concat()).finish();
            assert!(
                refused.code == Some(1) && refused.stderr.contains("/proc is not mounted"),
                "{arguments:?}: {refused}"
            );
            assert_eq!(refused.stderr.lines().count(), lines, "{arguments:?}: {refused}");
        }
        let doctor = without(&[&command, "doctor"]).finish();
        assert!(
            doctor.stdout.contains("note     kernel: /proc is not mounted: ")
                && doctor.stdout.contains("do: mount -t proc"),
            "{doctor}"
        );
    }
}

#[test]
fn where_nothing_can_be_written_a_hang_is_prevented_and_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The test itself reads what the run has printed, in files that are open already.
    let read_only = "for place in /tmp /dev/shm /var/tmp; do mount --bind $place $place && mount -o remount,bind,ro $place || exit 98; done; \
                     mount -o remount,bind,ro / && ! touch /dev/shm/x /tmp/x /x 2>/dev/null";
    let Some(namespace) = surrounded(&work, read_only) else { return };
    // The test's own folder may lie on another file system.
    let inside = |words: &[&str]| namespace(&[&["TMPDIR=/tmp"], words].concat());
    let (preloaded, program) = (format!("LD_PRELOAD={}", lazyguard_e2e::library().display()), text(app("lazy_pair")));
    let passes = inside(&[&preloaded, &program]).finish();
    assert_eq!((passes.code, passes.stdout.as_str(), passes.stderr.as_str()), (Some(0), "", ""), "{passes}");
    let settings: Vec<_> = HANG.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let words: Vec<_> = settings.iter().chain([&preloaded, &program]).map(String::as_str).collect();
    expect_a_hang_with_its_stack("read-only", &inside(&words).finish());
    let command = text(command());
    let run = ["run", "--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--", &program];
    let ended = inside(&[&[command.as_str()][..], &run[..]].concat()).finish();
    expect_a_hang_with_its_stack("read-only, the command", &ended);
    let said = "the program runs without one, and nothing is found of it, but that a process which hangs ends itself with status 117";
    assert_eq!(ended.stderr.lines().filter(|line| line.ends_with(said)).count(), 1, "{ended}");
}

/// Files may have a megabyte and no more: the recording is made smaller, and no write ends the program.
#[test]
fn a_limit_for_files_and_closed_streams_end_no_program() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = text(app("lazy_pair"));
    let limited = |line: &str| Run::new(&work, "bash").args(["-c", &format!("{line}; exec \"$0\""), &program]);
    let outcome = hanging(limited("ulimit -f 1100")).kept().finish();
    expect_a_hang_with_its_stack("ulimit -f 1100", &outcome);
    assert!(outcome.stderr.contains("it would exceed the limit for the size of files"), "{outcome}");
    let outcome = limited("exec 0<&- 1>&- 2>&-; unset HOME").guarded().set("LAZYGUARD_SUMMARY", "on").finish();
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "", ""), "{outcome}");
    let outcome = hanging(limited("exec 0<&- 1>&- 2>&-; unset HOME")).kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(117), ""), "{outcome}");
    assert_eq!(Folder::at(outcome.out().path()).hang()["verdicts"][0]["code"], "LG201");
}

/// The page names each refusal that is tried here.
#[test]
fn the_page_has_a_row_for_each_call() {
    let page = fs::read_to_string(root().join("docs/DOCTOR.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for call in REFUSED.iter().filter(|call| **call != "memfd_create").chain(&["ptrace", "clone", "/proc"]) {
        assert!(rows.iter().any(|row| row.contains(&format!("`{call}`"))), "docs/DOCTOR.md has no row with `{call}`");
    }
    for list in LISTS {
        assert!(page.contains(&format!("`{list}`")), "docs/DOCTOR.md does not say what {list} is");
    }
}
