//! The commands' answers for a process that is gone, for a folder that several processes share, and for arguments that do not match.

use lazyguard_e2e::{command, hostile_program, run, App, Folder, Outcome, Run, Work};
use std::fs;
use std::path::{Path, PathBuf};

/// A command of `lazyguard`, run to its end.
fn asked<'w, A: AsRef<std::ffi::OsStr>>(work: &'w Work, args: impl IntoIterator<Item = A>) -> Run<'w> {
    Run::new(work, command()).args(args)
}

/// A folder in memory for private folders, where their recordings are files. Gone with the test.
struct InMemory(PathBuf);

impl InMemory {
    fn new() -> Self {
        let path = PathBuf::from(format!("/dev/shm/lazyguard-e2e-asked-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        // What cannot be removed lies in memory, and is gone with the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that hangs, killed by SIGKILL once that has been reported.
fn killed_in_its_hang(run: Run<'_>) -> Outcome {
    let mut running = run.set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").guarded().start();
    running.until("the report", lazyguard_e2e::PATIENCE, |running| {
        running.stderr().contains("lazyguard: HANG").then_some(())
    });
    running.stop()
}

#[test]
fn a_process_that_was_killed_is_found_by_its_number() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let memory = InMemory::new();
    let killed = killed_in_its_hang(run(&work, &App::named("lazy_pair")).set("TMPDIR", &memory.0));
    let folder = Folder::only_one_in(&memory.0);
    let process = killed.process.to_string();
    let report = asked(&work, ["report", &process]).set("TMPDIR", &memory.0).finish();
    assert_eq!(report.code, Some(0), "{report}");
    assert!(report.stdout.contains("LG201 (") && report.stdout.contains(&format!("process {process}")), "{report}");
    let said = format!("lazyguard: process {process} is gone; this is what it left in {}\n", folder.path().display());
    assert_eq!(report.stderr, said, "{report}");
    // The same for what reads the records.
    let log = asked(&work, ["log", &process, "--event", "launch"]).set("TMPDIR", &memory.0).finish();
    assert_eq!((log.code, log.stderr.as_str()), (Some(0), said.as_str()), "{log}");
    assert!(log.stdout.contains("cuLaunchKernel"), "{log}");
    // Without that folder, no command finds the process.
    let elsewhere = asked(&work, ["report", &process]).finish();
    assert_eq!((elsewhere.code, elsewhere.stdout.as_str()), (Some(1), ""), "{elsewhere}");
    assert!(
        elsewhere.stderr.contains("there is no process with this id") && elsewhere.stderr.contains("LAZYGUARD_OUT"),
        "{elsewhere}"
    );
}

/// A private folder that lies on a disk keeps its recording in memory, which goes with the process.
#[test]
fn what_a_kill_has_lost_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = run(&work, &App::named("plain_spin")).guarded().start();
    let temporary = running.temporary();
    let made =
        |name: &str| fs::read_dir(&temporary).into_iter().flatten().flatten().any(|e| e.path().join(name).exists());
    running.until("the private folder", lazyguard_e2e::PATIENCE, |_| made("log.jsonl").then_some(()));
    let is_kept_in_memory = !made("trace.lgt");
    let process = running.stop().process.to_string();
    let report = asked(&work, ["report", &process]).set("TMPDIR", &temporary).finish();
    assert_eq!(report.code, Some(0), "{report}");
    assert_eq!(report.stdout.contains("no recording: it was kept in memory"), is_kept_in_memory, "{report}");
    assert!(report.stderr.contains("this is what it left"), "{report}");
}

#[test]
fn the_first_run_of_a_folder_is_not_mistaken_for_a_later_one() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("shared");
    let first = killed_in_its_hang(run(&work, &App::named("lazy_pair")).set("LAZYGUARD_OUT", &out));
    let alone = asked(&work, ["report".as_ref(), out.as_os_str()]).finish();
    assert_eq!((alone.code, alone.stderr.as_str()), (Some(0), ""), "{alone}");

    let second = run(&work, &App::named("route_direct_link")).guarded().set("LAZYGUARD_OUT", &out).finish();
    assert_eq!(second.code, Some(0), "{second}");
    let own = out.join(second.process.to_string());
    let both = asked(&work, ["report".as_ref(), out.as_os_str()]).finish();
    assert!(both.stdout.contains("LG201 ("), "{both}");
    assert_eq!(
        both.stderr,
        format!(
            "lazyguard: several processes were given this folder; this is process {}, the first. The newer run is {}\n",
            first.process,
            own.display()
        )
    );
    let of_second = asked(&work, ["report".as_ref(), own.as_os_str()]).finish();
    assert_eq!((of_second.code, of_second.stderr.as_str()), (Some(0), ""), "{of_second}");
    assert!(
        !of_second.stdout.contains("LG201") && of_second.stdout.contains(&format!("process {}", second.process)),
        "{of_second}"
    );
}

#[test]
fn a_process_that_the_guard_has_ended_was_not_killed_by_somebody() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (how, code) in [("exit:42", 42), ("abort", -6)] {
        // A circle is certain: it is ended at once.
        let program = lazyguard_e2e::corpus_program("wait_cycle");
        let run = Run::new(&work, program).guarded().kept().hang_after("300ms").set("LAZYGUARD_ON_HANG", how);
        let outcome = run.finish();
        assert_eq!(outcome.code, Some(code), "{outcome}");
        let report = asked(&work, ["report".as_ref(), outcome.out().path().as_os_str()]).finish();
        let said = format!("was ended by LAZYGUARD_ON_HANG={how}");
        assert_eq!(report.stdout.matches("ended by LAZYGUARD_ON_HANG").count(), 1, "{report}");
        assert!(report.stdout.contains(&said) && !report.stdout.contains("was killed"), "{report}");
    }
}

#[test]
fn the_word_of_confidence_of_a_report_is_explained() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = run(&work, &App::named("lazy_pair")).kept();
    let folder = killed_in_its_hang(run).out();
    let report = asked(&work, ["report".as_ref(), folder.path().as_os_str()]).finish();
    let word = ["possible", "likely", "certain"].into_iter().find(|word| report.stdout.contains(&format!("({word})")));
    let word = word.unwrap_or_else(|| panic!("no verdict has a word of confidence: {report}"));
    let explained = asked(&work, ["explain", word].map(std::ffi::OsStr::new)).finish();
    assert!(explained.stdout.starts_with(&format!("{word}: ")) && explained.stdout.len() > 30, "{explained}");
}

#[test]
fn a_filter_that_matches_nothing_says_how_much_it_was_tried_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = Run::new(&work, hostile_program("plain_job")).guarded().kept().finish().out();
    let log = |filters: &[&str]| {
        let args = ["log".as_ref(), out.path().as_os_str()].into_iter().chain(filters.iter().map(AsRef::as_ref));
        asked(&work, args).finish()
    };
    let all = log(&[]);
    assert_eq!((all.code, all.stderr.as_str()), (Some(0), ""), "{all}");
    let count = all.stdout.lines().count();
    assert!(count > 5, "{all}");
    for format in ["text", "json"] {
        let none = log(&["--function", "no_such_kernel", "--format", format]);
        let said = format!(
            "lazyguard: none of the {count} records that were looked at matches; without a filter, all are printed\n"
        );
        assert_eq!((none.code, none.stdout.as_str(), none.stderr), (Some(0), "", said));
    }
    // What was asked for in so many words is no surprise.
    assert_eq!(log(&["--last", "0"]).stderr, "");
}

#[test]
fn a_dump_is_asked_for_by_the_folder_as_well_and_says_what_else_to_do() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = run(&work, &App::named("plain_spin")).guarded().kept().start();
    let out = running.out();
    let dump = |what: &Path| asked(&work, ["dump".as_ref(), what.as_os_str()]).finish();
    let alive =
        running.until("an answer", lazyguard_e2e::PATIENCE, |_| Some(dump(&out)).filter(|dump| dump.code == Some(0)));
    assert_eq!(alive.stderr, "", "{alive}");
    assert!(alive.stdout.contains("plain_spin"), "{alive}");
    let process = running.stop().process;
    let gone = dump(&out);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), ""), "{gone}");
    assert!(
        gone.stderr.contains(&format!("its process ({process}) does not run"))
            && gone.stderr.contains(&format!("lazyguard report {}", out.display())),
        "{gone}"
    );
    let nothing = dump(&work.folder("nothing"));
    assert!(
        nothing.code == Some(1) && nothing.stderr.contains("no guarded process has a recording in it"),
        "{nothing}"
    );
    let nowhere = dump(Path::new("no-such-thing"));
    assert!(nowhere.code == Some(2) && nowhere.stderr.contains("neither a process nor a folder"), "{nowhere}");
}
