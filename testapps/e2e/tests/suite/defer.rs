//! Releases that are put off: a program that hangs because it releases something completes, and each release is made once.

use lazyguard_e2e::{calls, corpus_program, Outcome, Run, Work};

/// Programs of the corpus that release something beside a kernel that waits for them, and the driver's function.
const RELEASE: [(&str, &str); 6] = [
    ("free", "cuMemFree_v2"),
    ("free_host", "cuMemFreeHost"),
    ("host_unregister", "cuMemHostUnregister"),
    ("module_unload", "cuModuleUnload"),
    ("unloads_library", "cuLibraryUnload"),
    ("worker_frees_others_wait", "cuMemFree_v2"),
];

fn releases(outcome: &Outcome) -> (u64, u64, u64) {
    let preload = &outcome.out().summary()["preload"];
    let number = |name: &str| preload[name].as_u64().unwrap_or_else(|| panic!("{name}: {outcome}"));
    (number("releases_put_off"), number("releases_made"), number("releases_refused"))
}

#[test]
fn a_program_that_hangs_in_a_release_completes_and_the_release_is_made_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, function) in RELEASE {
        let log = work.path().join(name);
        let run = || Run::new(&work, corpus_program(name)).guarded().kept().set("LGSIM_CALL_LOG", &log);
        let outcome = run().set("LAZYGUARD_DEFER", "free").finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}: {outcome}");
        assert_eq!(releases(&outcome), (1, 1, 0), "{name}: {outcome}");
        assert_eq!(calls(&log).get(function), Some(&1), "{name}: {outcome}");
    }
}
