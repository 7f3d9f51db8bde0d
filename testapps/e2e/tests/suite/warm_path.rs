//! The warm path of a launch: no allocation, no lock, no system call.
//!
//! `testapps/bench/warm_path.cpp` counts them for one thread, the driver's own included. The guard's share is the guarded count less the
//! bare one; it is zero, whatever is recorded.

use lazyguard_e2e::{target, Outcome, Run, Work};

/// What may be recorded of a launch; the recording of a megabyte is gone through more than once in the window.
const SETTINGS: [&[(&str, &str)]; 4] =
    [&[], &[("LAZYGUARD_LOG", "launch")], &[("LAZYGUARD_RECORD", "1M")], &[("LAZYGUARD_RECORD", "off")]];

fn run<'w>(work: &'w Work, args: &[&str]) -> Run<'w> {
    Run::new(work, target().join("bench/warm_path")).args(args).set("LGSIM_FREE_RUNNING", "1")
}

fn guarded(work: &Work, args: &[&str], settings: &[(&str, &str)]) -> Outcome {
    settings.iter().fold(run(work, args), |run, (name, value)| run.set(name, value)).guarded().finish()
}

/// The number behind a label of its own line.
fn counted(outcome: &Outcome, label: &str) -> Option<u64> {
    outcome.stdout.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(": ")?.parse().ok())
}

#[test]
fn at_full_speed_nothing_is_allocated_locked_or_asked_of_the_kernel() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let bare = run(&work, &[]).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    for label in ["calls", "allocations", "locks"] {
        // The program has made sure that it counts.
        assert!(counted(&bare, label).is_some(), "{label} were not counted: {bare}");
    }
    // Where the kernel takes no filter, the program says so, bare as guarded; the other test counts there, too.
    assert!(bare.stdout.contains("system calls: "), "{bare}");
    SETTINGS.iter().for_each(|settings| guarded(&work, &[], settings).expect_same_as(&bare));
}

#[test]
fn an_instruction_at_a_time_none_of_them_enters_the_kernel() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let bare = run(&work, &["--steps"]).finish();
    let guarded = guarded(&work, &["--steps"], &[]);
    assert_eq!((bare.code, guarded.code), (Some(0), Some(0)), "{bare}\nguarded: {guarded}");
    assert_eq!(counted(&guarded, "calls"), counted(&bare, "calls"));
    assert_eq!(counted(&guarded, "system calls"), counted(&bare, "system calls"), "{guarded}\nbare: {bare}");
    assert!(
        counted(&guarded, "instructions") > counted(&bare, "instructions"),
        "the guard was not there: {guarded}\nbare: {bare}"
    );
}
