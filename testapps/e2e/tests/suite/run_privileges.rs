//! `lazyguard run` of a program whose processes change their user, as `gosu`, `su` and `setpriv` do in a container's entry point, or
//! their root. They may not write into the folder of the run; the command finds their hangs and hazards all the same, or says that it
//! cannot.

use crate::run_passes_on::under;
use lazyguard_e2e::{
    app, command, corpus_program, driver, library, only_run_in, skipped, text, Folder, Outcome, Run, Work,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LONG: Duration = lazyguard_e2e::PATIENCE;
/// The user `nobody`, which owns nothing.
const USER: &str = "65534";
const HANGS: [&str; 4] = ["--preload", "off", "--hang-after", "400ms"];

/// A program that another user runs; `None`, and why, where that cannot be tried.
fn dropped(program: &[&str]) -> Option<Vec<String>> {
    let setpriv = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
    let is_there = |file: &Path| {
        let [command, rest @ ..] = &setpriv[..] else { return false };
        Command::new(command).args(rest).args(["test", "-r"]).arg(file).status().is_ok_and(|status| status.success())
    };
    let unreachable = [library(), command(), driver(), app("lazy_pair")].into_iter().find(|file| !is_there(file));
    if let Some(file) = unreachable {
        skipped(&format!("needs root, setpriv, and {} readable by every user", file.display()));
        return None;
    }
    Some(setpriv.iter().chain(program).map(|&word| word.to_owned()).collect())
}

fn path(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

#[test]
fn a_hang_of_another_user_is_acted_on_and_found() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(hangs) = dropped(&[&path(&app("lazy_pair"))]) else { return };
    for (options, code) in [
        (&["--on-hang", "kill", "--timeout", "20s"][..], 117),
        (&["--on-hang", "exit:9", "--fail-on", "hang"], 117),
        (&["--on-hang", "exit:9"], 9),
        (&["--timeout", "2500ms", "--fail-on", "hang"], 117),
        (&["--timeout", "2500ms"], 124),
    ] {
        let outcome = under(&work, &[&HANGS[..], options].concat(), &hangs).start().finish_within(LONG);
        assert_eq!(outcome.code, Some(code), "{options:?}: {outcome}");
        assert!(!outcome.stderr.contains("cannot be used"), "{options:?}: {outcome}");
        assert!(outcome.stderr.contains("the folder of this run is kept"), "{options:?}: {outcome}");
        assert_eq!(outcome.left_behind().len(), 1, "the place for others is left: {:?}", outcome.left_behind());
    }
}

#[test]
fn the_folder_that_the_user_named_has_those_of_other_users() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(hangs) = dropped(&[&path(&app("lazy_pair"))]) else { return };
    let out = work.path().join("out");
    let named = path(&out);
    let options = [&HANGS[..], &["--out", &named, "--on-hang", "kill"]].concat();
    let outcome = under(&work, &options, &hangs).start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.left_behind()), (Some(117), vec![]), "{outcome}");
    let entries = fs::read_dir(only_run_in(&out)).unwrap().flatten().map(|entry| entry.path());
    let folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let folder = Folder::at(&folders[0]);
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG201");
    assert!(folder.holds("trace.lgt") && folder.report("text").contains("was ended by `lazyguard run`"));
}

#[test]
fn a_program_of_another_user_that_passes_is_not_disturbed_and_its_hazards_are_found() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(passes) = dropped(&[&path(&app("lazy_pair_single_kernel"))]) else { return };
    let outcome = under(&work, &["--fail-on", "hang,hazard", "--on-hang", "kill"], &passes).finish();
    let said = (outcome.stdout.as_str(), outcome.stderr.as_str());
    assert_eq!((outcome.code, said, outcome.left_behind()), (Some(0), ("", ""), vec![]), "{outcome}");
    let hazard = dropped(&[&path(&corpus_program("wait_before_its_write"))]).unwrap();
    let outcome = under(&work, &["--fail-on", "hazard"], &hazard).finish();
    assert_eq!(outcome.code, Some(118), "{outcome}");
}

/// The user changes in the process itself, which the kernel then hides from other processes of that user.
#[test]
fn a_process_that_changes_its_own_user_has_its_folder() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if dropped(&[]).is_none() {
        return;
    }
    let program = format!(
        "import ctypes, os\nos.setgroups([]); os.setgid({USER}); os.setuid({USER})\n\
         assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0\n"
    );
    let out = work.path().join("out");
    let outcome = under(&work, &["--out", &path(&out)], &["python3", "-c", &program]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folders: Vec<_> =
        fs::read_dir(only_run_in(&out)).unwrap().flatten().map(|e| e.path()).filter(|e| e.is_dir()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}: {outcome}");
    assert!(folders[0].join("run.json").exists() && folders[0].join("trace.lgt").exists(), "{outcome}");
}

#[test]
fn a_run_of_another_user_in_a_run_is_part_of_that() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = path(&command());
    let hangs = path(&app("lazy_pair"));
    let inner = [&[lazyguard.as_str(), "run"][..], &HANGS[..], &["--", &hangs]].concat();
    let Some(inner) = dropped(&inner) else { return };
    let outcome = under(&work, &["--on-hang", "kill"], &inner).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
}

/// A process that does not know the place cannot find it; one that knows it cannot remove another's folder.
#[test]
fn the_place_for_other_users_cannot_be_listed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = "d=${LAZYGUARD_RUN_OTHER_USERS%/*}; ls \"$d\" 2>&1 | grep -c denied; mkdir \"$LAZYGUARD_RUN_OTHER_USERS/x\" && echo made";
    let Some(looks) = dropped(&["sh", "-c", script]) else { return };
    let outcome = under(&work, &[], &looks).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "1\nmade\n"), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0]);
}

/// In another view of the file system, neither the folder of the run nor the place for others is there.
#[test]
fn what_cannot_be_seen_of_a_process_fails_a_run_that_is_to_fail_on_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let elsewhere = |program: &str| {
        let script = format!("mount -t tmpfs none \"$TMPDIR\" && mount -t tmpfs none /dev/shm && exec '{program}'");
        ["unshare", "-rm", "sh", "-c", &script].map(str::to_owned)
    };
    let tried = Run::new(&work, "unshare").args(&elsewhere("/bin/true")[1..]).finish();
    if tried.code != Some(0) {
        skipped(&format!("needs a namespace of users and mounts: {tried}"));
        return;
    }
    let hangs = elsewhere(&path(&app("lazy_pair")));
    for (options, code) in [(&["--fail-on", "hang"][..], 125), (&[], 124)] {
        let options = [&HANGS[..], options, &["--timeout", "2500ms"]].concat();
        let outcome: Outcome = under(&work, &options, &hangs).start().finish_within(LONG);
        assert_eq!(outcome.code, Some(code), "{options:?}: {outcome}");
        let said = outcome.stderr.contains("could make no folder that this run reads");
        assert_eq!(said, code == 125, "{options:?}: {outcome}");
    }
    // A process with a folder of its own has asked for that.
    let own = format!("LAZYGUARD_OUT='{}' '{}'", work.path().join("own").display(), app("lazy_pair").display());
    let outcome = under(&work, &["--fail-on", "hang"], &["sh", "-c", &own]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
}
