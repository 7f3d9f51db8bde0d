//! Every run of the hostile programs: output and end are the same with the guard and without.

use crate::{ask, questions};
use lazyguard_e2e::{number, Folder, Hostile, Outcome, Recording, Run, Work};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

pub(crate) fn trials() -> Vec<Trial> {
    let runs = lazyguard_e2e::hostile().into_iter();
    runs.flat_map(|hostile| ask("hostile", &hostile.name, questions![guarded_it_behaves_as_bare])).collect()
}

fn guarded_it_behaves_as_bare(test: &str, name: &str) {
    let (work, hostile) = (Work::new(test), Hostile::named(name));
    if let Some(surroundings) = hostile.entry["harness"].as_str() {
        return in_surroundings(&work, &hostile, surroundings);
    }
    let bare = run(&work, &hostile).finish();
    expect_as_listed(&hostile, &bare);
    // Once as a user has it, once with everything recorded.
    let private = run(&work, &hostile).guarded().finish();
    expect_same(&hostile, &private, &bare);
    if !hostile.says("keeps_folder", false) {
        assert_eq!(private.left_behind(), [""; 0], "files were left in TMPDIR");
    }
    let uses_cuda = hostile.says("uses_cuda", true);
    let sets_out = hostile.environment().iter().any(|(variable, _)| variable == "LAZYGUARD_OUT");
    if sets_out || hostile.says("unrecorded", false) {
        return;
    }
    let mut recorded = run(&work, &hostile).guarded().kept();
    if !hostile.environment().iter().any(|(variable, _)| variable == "LAZYGUARD_LOG") {
        recorded = recorded.set("LAZYGUARD_LOG", "launch");
    }
    recorded = recorded.set("LAZYGUARD_SUMMARY", "on");
    let mut recorded = recorded.finish();
    let said = take_own_lines(&mut recorded);
    expect_same(&hostile, &recorded, &bare);
    if !uses_cuda {
        assert!(!recorded.out().exists(), "a run folder was made, and CUDA was not used");
    } else if hostile.says("missed", false) {
        expect_miss_is_said(&recorded, &said);
    } else {
        expect_recorded(&hostile, &recorded.out(), &said);
    }
}

fn run<'w>(work: &'w Work, hostile: &Hostile) -> Run<'w> {
    let command = hostile.command();
    let run = Run::new(work, &command[0]).args(&command[1..]);
    let run = run.beside(hostile.preloaded("preload_before"), hostile.preloaded("preload_after"));
    hostile.environment().into_iter().fold(run, |run, (name, value)| run.set(name, value))
}

fn expect_as_listed(hostile: &Hostile, outcome: &Outcome) {
    assert_eq!(
        outcome.code.map(i64::from),
        hostile.entry["exit_code"].as_i64(),
        "bare, it ends otherwise than listed: {outcome}"
    );
    if let Some(stdout) = hostile.entry["stdout"].as_str() {
        assert_eq!(outcome.stdout, stdout, "bare, it prints otherwise than listed: {outcome}");
    }
}

/// The lines that the guard wrote, taken out of standard error.
fn take_own_lines(outcome: &mut Outcome) -> Vec<String> {
    let stderr = std::mem::take(&mut outcome.stderr);
    let (own, others): (Vec<_>, Vec<_>) =
        stderr.split_inclusive('\n').partition(|line| line.starts_with("lazyguard: "));
    outcome.stderr = others.concat();
    own.into_iter().map(|line| line.trim_start_matches("lazyguard: ").trim_end().to_owned()).collect()
}

fn expect_same(hostile: &Hostile, guarded: &Outcome, bare: &Outcome) {
    let mut guarded = guarded.clone();
    if hostile.says("stderr_may_differ", false) {
        take_own_lines(&mut guarded);
    }
    guarded.expect_same_as(bare);
}

/// What the guard saw of the run: the number of launches that is listed, and no fault of its own.
fn expect_recorded(hostile: &Hostile, folder: &Folder, said: &[String]) {
    let launches = hostile.entry["launches"].as_u64();
    if !folder.exists() {
        // A program that only looks functions up has nothing to record.
        assert_eq!(launches, None, "the guard recorded nothing");
        return;
    }
    let log = folder.log_so_far();
    if hostile.says("keeps_folder", false) {
        // The log's thread writes a few times a second: what was said by then is there, and nothing that was not.
        let logged = log.iter().filter(|line| line["event"] == "launch").count() as u64;
        assert!(launches.is_none_or(|all| logged <= all), "{logged} launches are in the log, of {launches:?}");
        // The recording waits for no other thread: it is complete at once.
        let recorded = Recording::of(folder.path()).number("/launches");
        assert!(launches.is_none_or(|all| recorded == all), "{recorded} launches are recorded, of {launches:?}");
        return;
    }
    if let Some(launches) = launches {
        let unit = if launches == 1 { "launch" } else { "launches" };
        let summary = format!(" {launches} {unit}, ");
        assert!(
            said.iter().any(|line| line.contains(&summary)),
            "the summary does not say {launches} launches: {said:?}"
        );
    }
    if hostile.says("loses_account", false) {
        assert!(
            said.iter().any(|line| line.contains("could not be kept")),
            "the summary is lost, and nothing says so: {said:?}"
        );
        return;
    }
    let summary = folder.summary();
    assert!(
        launches.is_none_or(|all| number(&summary, "/launches") == all),
        "another number of launches was seen: {summary:#}"
    );
    let faults = summary["lost"].as_array().into_iter().flatten().find(|entry| entry[0] == "faults of the guard's own");
    assert_eq!(faults.map(|entry| &entry[1]), Some(&0.into()), "the guard had a fault: {summary:#}");
}

/// The program reached the driver past the guard: the summary or the report says so.
fn expect_miss_is_said(outcome: &Outcome, said: &[String]) {
    let kept = if outcome.out().exists() { outcome.out().report("text") } else { String::new() };
    let told =
        |text: &str| ["missed", "past the guard", "untouched", "not followed"].iter().any(|word| text.contains(word));
    assert!(
        told(&kept) || said.iter().any(|line| told(line)),
        "nothing says that a driver was used past the guard: {said:?}\n{kept}"
    );
}

/// Runs that need something made first, which a list cannot say.
fn in_surroundings(work: &Work, hostile: &Hostile, surroundings: &str) {
    let bare = run(work, hostile).finish();
    expect_as_listed(hostile, &bare);
    let guarded = match surroundings {
        "LAZYGUARD_OUT is a folder on a full file system" => on_a_full_disk(work, hostile),
        "LAZYGUARD_OUT is a folder that cannot be written" => in_a_read_only_folder(work, hostile),
        other => panic!("nothing here makes these surroundings: {other}"),
    };
    let (ours, theirs): (Vec<_>, Vec<_>) = guarded.stderr.lines().partition(|line| line.starts_with("lazyguard: "));
    assert!(ours.len() <= 3, "a line or two are enough to say so: {guarded}");
    assert_eq!(
        (guarded.code, &guarded.stdout, theirs),
        (bare.code, &bare.stdout, bare.stderr.lines().collect()),
        "{guarded}"
    );
    assert_eq!(guarded.left_behind(), [""; 0], "files were left in TMPDIR");
}

/// A file system of a few pages, filled up, in a mount namespace of its own; where the machine allows no namespace, a limit
/// of nothing on the size of files, which fails every write in the same place.
fn on_a_full_disk(work: &Work, hostile: &Hostile) -> Outcome {
    const MOUNT: &str =
        "mount -t tmpfs -o size=16k none \"$0\" && { cat /dev/zero > \"$0/filler\"; } 2>/dev/null; exec \"$@\"";
    const LIMIT: &str = "set -o pipefail; (trap '' XFSZ; ulimit -f 0; exec \"$@\") | cat";
    let disk = work.folder("disk");
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none"]).arg(&disk).output();
    let namespace: &[&str] = match allowed {
        Ok(output) if output.status.success() => &["unshare", "-rm", "bash", "-c", MOUNT],
        _ => &["bash", "-c", LIMIT],
    };
    let run = Run::new(work, namespace[0]).args(&namespace[1..]).args([&disk]).args(hostile.command());
    run.guarded().set("LAZYGUARD_OUT", disk.join("out")).set("LAZYGUARD_LOG", "launch").finish()
}

/// A folder without permission to write, and a program without the power to write all the same.
fn in_a_read_only_folder(work: &Work, hostile: &Hostile) -> Outcome {
    let folder = work.folder("read-only");
    let allow =
        |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap_or_else(|error| panic!("{error}"));
    allow(0o555);
    let guarded = run(work, hostile).guarded().powerless().set("LAZYGUARD_OUT", folder.join("out")).finish();
    let inside = run(work, hostile).guarded().powerless().set("LAZYGUARD_OUT", &folder).finish();
    allow(0o755);
    assert_eq!(
        fs::read_dir(&folder).map(Iterator::count).unwrap_or_default(),
        0,
        "the folder could be written after all"
    );
    assert_eq!((inside.code, &inside.stdout), (guarded.code, &guarded.stdout), "{inside}");
    assert!(
        guarded.stderr.contains("LAZYGUARD_OUT") && inside.stderr.contains("LAZYGUARD_OUT"),
        "nothing was said: {guarded}"
    );
    guarded
}
