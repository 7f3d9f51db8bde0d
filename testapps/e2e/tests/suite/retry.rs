//! `lazyguard run --retry`: a run that ended for a hang is made again with the profile of what it had loaded.

use crate::run_passes_on::{send, under};
use lazyguard_e2e::{app, command, target, Outcome, Run, Work};
use std::fs;

const LONG: std::time::Duration = lazyguard_e2e::PATIENCE;
/// With preloading off, each first use of a kernel loads it.
const OPTIONS: [&str; 7] = ["--on-hang", "kill", "--hang-after", "500ms", "--preload", "off", "--retry"];

fn retried(work: &Work, retries: &str, more: &[&str], program: &[&str]) -> Outcome {
    let options = [&OPTIONS[..], &[retries], more].concat();
    let run = under(work, &options, program).set("XDG_CACHE_HOME", work.path().join("cache"));
    run.start().finish_within(LONG)
}

fn text_of(path: std::path::PathBuf) -> String {
    path.display().to_string()
}

/// How many attempts have said why they were ended.
fn hung(outcome: &Outcome) -> usize {
    outcome.stderr.matches("--on-hang is kill: ending the program").count()
}

#[test]
fn a_cold_load_hangs_once_and_the_second_attempt_has_it_ahead() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, code) in [("lazy_pair", "LG201"), ("module_persistent_load", "LG202")] {
        let junit = text_of(work.path().join(format!("{name}.xml")));
        let outcome = retried(&work, "2", &["--junit", &junit], &[&text_of(app(name))]);
        assert_eq!((outcome.code, hung(&outcome)), (Some(0), 1), "{outcome}");
        let last = outcome.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("lazyguard: completed in attempt 2; attempt 1 hung: {code} ")), "{outcome}");
        let report = fs::read_to_string(&junit).unwrap();
        let folder = outcome.left_behind();
        assert_eq!(folder.len(), 1, "the first attempt's folder is kept: {outcome}");
        for part in ["failures=\"0\"", "<flakyFailure", &format!("type=\"{code}\""), &folder[0]] {
            assert!(report.contains(part), "{part}: {report}");
        }
        fs::remove_dir_all(work.path().join("cache")).unwrap();
    }
}

/// Each loads its modules itself, so that preloading alone takes no hang away.
#[test]
fn without_a_cache_and_with_profile_off_the_profile_is_in_the_folder_of_the_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = target().join("corpus/module_load").display().to_string();
    let cache = work.path().join("cache");
    for (more, home, why) in [
        (&[][..], "/nowhere", "this user's cache cannot be used"),
        (&[][..], "/proc", "this user's cache cannot be used"),
        (&["--profile", "off"][..], "", "--profile is off"),
    ] {
        let out = text_of(work.path().join(format!("out{home}{}", more.len())));
        let options = [&OPTIONS[..], &["1", "--out", &out], more].concat();
        let mut run = under(&work, &options, &[&program]);
        if home.is_empty() {
            run = run.set("XDG_CACHE_HOME", &cache);
        } else {
            run = run.set("XDG_CACHE_HOME", "").set("HOME", home);
        }
        let outcome = run.start().finish_within(LONG);
        assert_eq!((outcome.code, hung(&outcome)), (Some(0), 1), "{home}: {outcome}");
        let said = format!("attempt 1 hung (LG202): attempt 2 loads ahead what this one has loaded ({why}: ");
        assert!(outcome.stderr.contains(&said), "{said}: {outcome}");
        let left = files_in(out.as_ref());
        assert!(!left.is_empty() && !left.iter().any(|path| path.ends_with("profile")), "{left:?}");
    }
    assert!(!cache.exists(), "--profile off keeps the cache out of it");
}

fn files_in(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| [vec![path.display().to_string()], files_in(&path)].concat()).collect()
}

#[test]
fn a_run_that_passed_in_a_later_attempt_fails_if_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = retried(&work, "1", &["--fail-on", "retried"], &[&text_of(app("lazy_pair"))]);
    assert_eq!((outcome.code, hung(&outcome)), (Some(117), 1), "{outcome}");
    assert!(outcome.stderr.contains("This fails the run, as --fail-on retried says."), "{outcome}");
    let first = retried(&work, "1", &["--fail-on", "retried"], &[&text_of(app("lazy_pair"))]);
    assert_eq!((first.code, hung(&first)), (Some(117), 1), "preloading is off in each first attempt: {first}");
    let passes = retried(&work, "1", &["--fail-on", "retried", "--preload", "auto"], &[&text_of(app("lazy_pair"))]);
    assert_eq!((passes.code, hung(&passes)), (Some(0), 0), "{passes}");
}

#[test]
fn a_hang_that_no_profile_takes_away_is_tried_so_often_and_no_more() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = retried(&work, "1", &[], &[&text_of(app("wait_never_written"))]);
    assert_eq!((outcome.code, hung(&outcome)), (Some(117), 2), "{outcome}");
    assert!(!outcome.stderr.contains("completed in attempt"), "{outcome}");
    let said = "attempt 1 hung (LG203): attempt 2 is made alike, as no load ahead takes LG203 away";
    assert!(outcome.stderr.contains(said) && !outcome.stderr.contains("loads ahead"), "{outcome}");
}

#[test]
fn each_attempt_has_the_whole_time_of_timeout() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (count, hangs) = (work.path().join("count"), app("wait_never_written"));
    let script = format!("sleep 4; [ -e {0} ] || {{ : > {0}; exec {1}; }}", count.display(), hangs.display());
    let outcome = retried(&work, "1", &["--timeout", "8s", "--kill-after", "0"], &["sh", "-c", &script]);
    assert_eq!((outcome.code, hung(&outcome)), (Some(0), 1), "{outcome}");
    assert!(outcome.seconds > 8.0, "{outcome}");
}

#[test]
fn what_fails_without_a_hang_is_final() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (script, code) in [("echo once; exit 5", 5), ("echo once; kill -SEGV $$", 139)] {
        let outcome = retried(&work, "3", &[], &["sh", "-c", script]);
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("once\n", outcome.code), "{outcome}");
        let ended = outcome.code.unwrap_or(128 + 11);
        assert_eq!(ended, code, "{outcome}");
    }
}

#[test]
fn a_file_is_read_again_from_where_it_was_and_a_pipe_is_not() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let input = text_of(work.path().join("input"));
    fs::write(&input, "first\nsecond\n").unwrap();
    let run = format!(
        "'{}' run {} 1 -- sh -c 'cat; exec {}'",
        command().display(),
        OPTIONS.join(" "),
        app("lazy_pair").display()
    );
    let shell = |script: String| {
        let run = Run::new(&work, "sh").args(["-c", &script]).set("XDG_CACHE_HOME", work.path().join("cache"));
        run.start().finish_within(LONG)
    };
    // The shell has read the first line; a file is shared, with its position.
    let file = shell(format!("{{ read line; {run}; }} < '{input}'"));
    assert_eq!((file.code, file.stdout.matches("second\n").count()), (Some(0), 2), "{file}");
    assert!(!file.stdout.contains("first"), "{file}");
    fs::remove_dir_all(work.path().join("cache")).unwrap();
    let pipe = shell(format!("cat '{input}' | {run}"));
    assert_eq!((pipe.code, hung(&pipe)), (Some(117), 1), "{pipe}");
    assert!(pipe.stderr.contains("attempt 1 hung, and is not made again: its standard input is a pipe"), "{pipe}");
    let reads = run.replace("sh -c 'cat;", "sh -c 'cat <&3;");
    let other = shell(format!("exec 3< '{input}' 4< '{input}'; {reads} < /dev/null"));
    let said = format!("attempt 1 has read of descriptor 3 ({input}), and attempt 2 reads on from there");
    assert!(other.stderr.contains(&said) && !other.stderr.contains("descriptor 4"), "{other}");
}

#[test]
fn who_ends_the_run_ends_it_for_good() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let options = [&OPTIONS[..], &["5"]].concat();
    let run = under(&work, &options, &["sh", "-c", "echo begun; exec sleep 60"]);
    let mut running = run.set("XDG_CACHE_HOME", work.path().join("cache")).start();
    running.until("that it has begun", LONG, |running| running.stdout().contains("begun").then_some(()));
    send("TERM", &running.process().to_string());
    let outcome = running.finish_within(LONG);
    assert_eq!((outcome.code.unwrap_or(143), outcome.stdout.as_str()), (143, "begun\n"), "{outcome}");
}

#[test]
fn a_rank_is_not_made_again_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let options = [&OPTIONS[..], &["3"]].concat();
    let run = under(&work, &options, &[app("lazy_pair")]).set("RANK", "1").set("WORLD_SIZE", "2");
    let outcome = run.start().finish_within(LONG);
    assert_eq!((outcome.code, hung(&outcome)), (Some(117), 1), "{outcome}");
    assert!(outcome.stderr.contains("--retry: this is one rank of a job"), "{outcome}");
}
