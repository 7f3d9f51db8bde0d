//! `--on-hang revoke`: collectives that wait for good are ended, the contexts live, and the job goes on.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, library, target, Outcome, Run, Work};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::LazyLock;

const LONG: std::time::Duration = lazyguard_e2e::PATIENCE;
const OPTIONS: [&str; 4] = ["--hang-after", "500ms", "--on-hang", "revoke"];

/// A shell's script that starts the ranks, waits for all, and fails if one does. `fault`: with a seed behind it, or without.
fn job(work: &Work, ranks: u32, fault: &str) -> String {
    let name = fault.replace(' ', "-");
    let (program, shared) = (target().join("ranks/nccl_heals"), work.path().join(format!("shared-{name}")));
    let start =
        format!("RANK=$r WORLD_SIZE={ranks} '{}' '{}' {fault} & p=\"$p $!\"", program.display(), shared.display());
    let all = (0..ranks).map(|rank| rank.to_string()).collect::<Vec<_>>().join(" ");
    format!(
        "rm -f '{}'; p=; for r in {all}; do {start}; done; c=0; for x in $p; do wait $x || c=$?; done; exit $c",
        shared.display()
    )
}

fn out_of(work: &Work, fault: &str) -> PathBuf {
    work.path().join(format!("out-{}", fault.replace(' ', "-")))
}

fn revoked(work: &Work, ranks: u32, fault: &str, more: &[&str]) -> Outcome {
    let out = out_of(work, fault).display().to_string();
    let options = [&OPTIONS[..], &["--out", &out], more].concat();
    under(work, &options, &["sh", "-c", &job(work, ranks, fault)]).start().finish_within(LONG)
}

/// Every rank has ended with the sum of all steps, each of which it has checked.
fn expect_the_right_sum(outcome: &Outcome, ranks: u32) {
    let total = (0..6).map(|step| ranks * (ranks + 1) / 2 + ranks * step).sum::<u32>();
    let said = |rank: u32| outcome.stdout.lines().any(|line| line == format!("rank {rank}: total {total}"));
    assert!((0..ranks).all(said), "{total}: {outcome}");
    assert!(!outcome.stderr.contains("expected "), "a rank has found a wrong sum: {outcome}");
}

fn report(folder: &Path) -> String {
    let said = Command::new(command()).arg("report").arg(folder).output().unwrap();
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn the_job_goes_on_with_the_right_sums_whatever_the_ranks_wait_in() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (fault, ranks) in [("skip", 2), ("load", 3), ("query", 2), ("two", 3)] {
        let outcome = revoked(&work, ranks, fault, &[]);
        assert_eq!(outcome.code, Some(0), "{fault}: {outcome}");
        expect_the_right_sum(&outcome, ranks);
        let errors = outcome.stdout.matches(": CUDA_ERROR_TIMEOUT").count();
        let given_up = outcome.stdout.matches(": step ").count();
        assert_eq!(given_up as u32, ranks, "each rank gives up, once: {fault}: {outcome}");
        // Another one may come late enough to be refused, or early enough to end the step of a rank that waits for it.
        assert!(errors >= 1, "the rank that was revoked first: {fault}: {outcome}");
        assert!(!outcome.stdout.contains("the other communicator"), "{fault}: {outcome}");
        assert!(outcome.stderr.contains("REVOKED 1 communicator in "), "{fault}: {outcome}");
        let said = report(&out_of(&work, fault));
        assert!(said.contains("REVOKED 1 communicator"), "{fault}: {said}");
    }
}

#[test]
fn every_form_of_report_says_what_was_given_up() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let file = |name: &str| work.path().join(name).display().to_string();
    let files = ["junit", "json", "html"].map(file);
    let outcome = revoked(&work, 2, "skip", &["--junit", &files[0], "--json", &files[1], "--html", &files[2]]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.contains("communicator 1 at collective 4"), !path.ends_with("json"), "{path}: {text}");
    }
    let found: Json = serde_json::from_str(&std::fs::read_to_string(&files[1]).unwrap()).unwrap();
    let processes = found["processes"].as_array().unwrap();
    assert_eq!((processes.len(), &processes[0]["status"]), (2, &Json::from("revoked")), "the worst first");
    let given_up = |process: &Json| process.pointer("/run/revoked/0/communicators/0").cloned();
    let expected = |collective: u64| Some(serde_json::json!({"number": 1, "collective": collective, "transfer": 0}));
    assert_eq!(processes[0].pointer("/hang/revoked/communicators/0").cloned(), expected(4));
    assert_eq!(
        (given_up(&processes[0]), given_up(&processes[1])),
        (expected(4), expected(3)),
        "also of one that slept"
    );
    let metrics = Command::new(command()).arg("metrics").arg(out_of(&work, "skip")).output().unwrap();
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    let counted = |line: &&str| line.starts_with("lazyguard_revoked_communicators_total{") && line.ends_with(" 1");
    assert_eq!(metrics.lines().filter(counted).count(), 2, "{metrics}");
}

/// Of two communicators that a thread waits for, one refuses.
#[test]
fn results_of_those_that_were_revoked_are_errors_also_where_another_one_was_not() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = under(&work, &OPTIONS, &["sh", "-c", &job(&work, 2, "both")]);
    // Without dumps, nothing can be failed instead.
    let run = run.set("LGSIM_REVOKE_OF_SPLIT", "refused").set("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "0");
    let outcome = run.start().finish_within(LONG);
    // Both ranks revoke at the same time, so either may say it first.
    let of_rank_0 = |line: &&str| line.contains("(communicator 1 at collective 4)");
    let line = outcome.stderr.lines().find(of_rank_0).unwrap_or_default();
    let (_, line) = line.split_once("REVOKED 1 communicator in ").unwrap_or_default();
    let seconds = line.split(" s (").next().unwrap_or_default();
    assert!(seconds.parse::<f64>().is_ok_and(|seconds| (0.5..5.0).contains(&seconds)), "{outcome}");
    assert!(outcome.stderr.contains("; not revoked: communicator 2: ncclCommRevoke returned 3"), "{outcome}");
    assert!(outcome.stdout.contains("cuStreamSynchronize: CUDA_ERROR_TIMEOUT"), "{outcome}");
    assert!(!outcome.stderr.contains("expected "), "a rank has found a wrong sum: {outcome}");
}

#[test]
fn a_hang_that_was_revoked_fails_the_run_if_asked_and_a_healthy_job_is_as_ever() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = revoked(&work, 2, "skip", &["--fail-on", "hang"]);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    expect_the_right_sum(&outcome, 2);
    let healthy = revoked(&work, 2, "none", &["--fail-on", "hang", "--hang-after", "5s"]);
    assert_eq!((healthy.code, healthy.stderr.as_str()), (Some(0), ""), "{healthy}");
    expect_the_right_sum(&healthy, 2);
}

/// The ranks share nothing but the folder.
#[test]
fn the_library_alone_does_it_by_the_marker_of_the_job() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = out_of(&work, "skip");
    let run = Run::new(&work, "sh").args(["-c", &job(&work, 3, "skip")]).set("LD_PRELOAD", library());
    let run = run.set("LAZYGUARD_OUT", out.join("rank%r-%p")).set("LAZYGUARD_ON_HANG", "revoke").hang_after("500ms");
    let outcome = run.start().finish_within(LONG);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    expect_the_right_sum(&outcome, 3);
}

#[test]
fn without_revoke_and_without_a_collective_it_is_as_fail() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let old = target().join("simnccl-old").display().to_string();
    let options = [&OPTIONS[..], &["--kill-after", "2s"]].concat();
    let run = under(&work, &options, &["sh", "-c", &job(&work, 2, "skip")]);
    let paths = format!("{old}:{}", target().join("simdriver").display());
    let outcome = run.set("LD_LIBRARY_PATH", paths).start().finish_within(LONG);
    assert!(outcome.stderr.contains("no communicator is revoked: this NCCL has no ncclCommRevoke"), "{outcome}");
    assert!(
        outcome.stderr.contains("CUDA_ERROR_LAUNCH_FAILED") || outcome.stdout.contains("CUDA_ERROR_LAUNCH_FAILED"),
        "{outcome}"
    );
    let outcome = under(&work, &OPTIONS, &[app("wait_never_written")]).start().finish_within(LONG);
    assert!(
        outcome.stderr.contains("no communicator is revoked: no collective is on the path of this hang"),
        "{outcome}"
    );
    assert!(
        outcome.stderr.contains("CUDA_ERROR_LAUNCH_FAILED") || outcome.stdout.contains("CUDA_ERROR_LAUNCH_FAILED"),
        "{outcome}"
    );
}

/// Rank 0's answers under `--on-hang revoke`, in a program that looks in this way.
fn answers(how: &str, more: &[&str]) -> Outcome {
    let work = Work::new(&format!("nccl-looks-{how}"));
    let (program, shared) = (target().join("ranks/nccl_looks"), work.path().join("shared"));
    let (program, shared) = (program.display(), shared.display());
    let start = |rank: u32| format!("RANK={rank} WORLD_SIZE=2 '{program}' '{shared}' {how}");
    let script = format!("{} & {}; c=$?; wait; exit $c", start(1), start(0));
    under(&work, &[&OPTIONS[..], more].concat(), &["sh", "-c", &script]).start().finish_within(LONG)
}

#[test]
fn no_look_at_revoked_work_succeeds_before_the_communicator_has_ended() {
    let looks: [(&str, &[&str]); 11] = [
        ("destructor", &["stream 0: 909", "stream 1: 909", "copy: 909"]),
        ("streams", &["stream 0: 909", "stream 1: 909"]),
        ("events", &["event 0: 909", "event 1: 909"]),
        ("queries", &["stream 0: 909", "stream 1: 909"]),
        ("batch", &["copy 0: 0", "copy 0: 0", "stream 0: 909", "copy 0: 909", "copy 0: 909"]),
        ("joined", &["stream 2: 909", "stream 3: 909"]),
        ("context", &["context: 909", "context: 909"]),
        ("threads", &["stream 1: 909", "stream 0: 909"]),
        ("other", &["stream 0: 909", "stream 2: 0", "stream 1: 909"]),
        ("ended", &["stream 0: 909", "stream 0: 0", "stream 1: 909"]),
        (
            "later",
            &[
                "stream 0: 909",
                "host function: 909",
                "copy: 909",
                "value: 909",
                "graph: 909",
                "told: 0",
                "host function on stream 2: 0",
                "host function on stream 0: 0",
            ],
        ),
    ];
    let look = |(how, expected): (&str, &[&str])| {
        let outcome = answers(how, &["--kill-after", "60s"]);
        assert_eq!(outcome.code, Some(0), "{how}: {outcome}");
        let said: Vec<_> = outcome.stdout.lines().collect();
        let (looked, at_the_end) = said.split_at(expected.len().min(said.len()));
        assert_eq!((looked, at_the_end), (expected, &["at the end: 0"; 4][..]), "{how}: {outcome}");
        assert!(outcome.stderr.contains("REVOKED 2 communicators in "), "{how}: {outcome}");
    };
    // They mostly wait.
    for some in looks.chunks(*AT_A_TIME as usize) {
        std::thread::scope(|scope| some.iter().for_each(|one| drop(scope.spawn(|| look(*one)))));
    }
}

/// A host function or a copy to mapped memory is on its way behind the collective.
#[test]
fn work_of_which_no_call_could_say_that_it_is_revoked_is_failed_instead() {
    for (how, why) in [
        ("host", "a host function behind the collective on stream"),
        ("mapped", "a copy to the host, for which no thread waits"),
    ] {
        let outcome = answers(how, &["--kill-after", "2s"]);
        assert!(outcome.stderr.contains(&format!("no communicator is revoked: {why}")), "{how}: {outcome}");
        assert!(!outcome.stdout.contains("WRONG") && outcome.code != Some(0), "{how}: {outcome}");
    }
}

/// The others cannot go on without it.
#[test]
fn a_rank_that_does_not_come_back_in_time_ends_the_job() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let stops = job(&work, 3, "skip").replace("c=0;", "sleep 1; kill -STOP ${p##* }; c=0;");
    let options = [&OPTIONS[..], &["--kill-after", "2s"]].concat();
    let outcome = under(&work, &options, &["sh", "-c", &stops]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(outcome.stderr.contains("has not answered --on-hang revoke in 2s"), "{outcome}");
    let sleeps = revoked(&work, 2, "late", &[]);
    assert_eq!(sleeps.code, Some(0), "it sleeps for less than --kill-after: {sleeps}");
    expect_the_right_sum(&sleeps, 2);
    let sleeps = revoked(&work, 2, "late", &["--kill-after", "1s"]);
    assert_eq!(sleeps.code, Some(117), "it sleeps for longer: {sleeps}");
    assert!(sleeps.stderr.contains("has not answered --on-hang revoke in 1s"), "{sleeps}");
}

/// The end of an operation that was slow is no answer.
#[test]
fn a_stopped_rank_that_was_slow_before_ends_the_job() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let late = job(&work, 3, "skip").replace("for r in 0 1 2; do", "for r in 0 2 1; do [ $r != 1 ] || sleep 1.5;");
    let late = late.replace("c=0;", "sleep 1; set -- $p; kill -STOP $2; c=0;");
    let options = [&OPTIONS[..], &["--kill-after", "2s", "--timeout", "20s"]].concat();
    let outcome = under(&work, &options, &["sh", "-c", &late]).start().finish_within(LONG);
    assert!(outcome.stderr.contains("in ncclCommInitRank"), "a rank was slow at first: {outcome}");
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(outcome.stderr.contains("has not answered --on-hang revoke in 2s"), "{outcome}");
}

/// Each time, ranks are slow for longer than is left of the time that an earlier hang has given them.
#[test]
fn a_job_that_hangs_again_and_again_goes_on_each_time() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = revoked(&work, 2, "both 11 4", &["--kill-after", "4s"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(outcome.stdout.matches(": total ").count(), 2, "{outcome}");
    assert!(outcome.stdout.matches(": step ").count() >= 8, "each rank gives up four times: {outcome}");
    assert!(!outcome.stderr.contains("expected "), "a rank has found a wrong sum: {outcome}");
}

/// What a rank does instead of its collective. After the last three, the others cannot go on.
const FAULTS: [&str; 11] = ["skip", "sleep", "late", "load", "order", "query", "both", "fork", "stop", "kill", "exec"];
const GONE: [&str; 3] = ["stop", "kill", "exec"];
/// Runs at a time: they mostly wait.
static AT_A_TIME: LazyLock<u32> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(4, |processors| 2 * processors.get() as u32));
/// In the long form, each group of communicators of a program has its fault: 10,000 in all.
const FAULTS_OF_EACH: u32 = 12;

/// Blocked calls return within a second of the revoke.
fn latest_return(found: &Json) -> u64 {
    let hangs = found["processes"].as_array().unwrap().iter().map(|process| &process["hang"]);
    let late = |hang: &Json| {
        let revoked = hang.pointer("/revoked/at")?.as_u64()?;
        hang["ends"].as_array()?.iter().filter_map(|end| Some(end["at"].as_u64()?.saturating_sub(revoked))).max()
    };
    hangs.filter_map(late).max().unwrap_or(0)
}

/// A random program with a fault: every rank has ended by itself or with the sum of all steps, each of which it has checked.
fn survives(ranks: u32, seed: u32, faults: u32) {
    let work = Work::new(&format!("{}-{ranks}-{seed}", lazyguard_e2e::this_test!()));
    let fault = FAULTS[seed as usize % FAULTS.len()];
    let named = format!("{fault} {seed} {faults}");
    let (threshold, patience) = if ranks > 8 { ("4s", "40s") } else { ("500ms", "10s") };
    let json = work.path().join("report.json");
    let more = ["--hang-after", threshold, "--kill-after", patience, "--json", &json.display().to_string()];
    let outcome = revoked(&work, ranks, &named, &more);
    let ended = |how: &str| outcome.stdout.lines().filter(|line| line.contains(how)).count() as u32;
    let (totals, gone) = (ended(": total "), ended(": a rank is gone"));
    if GONE.contains(&fault) {
        assert!(outcome.code != Some(0) && totals + gone >= ranks - 1, "{ranks} ranks, {named}: {outcome}");
    } else {
        assert_eq!((outcome.code, totals), (Some(0), ranks), "{ranks} ranks, {named}: {outcome}");
    }
    assert!(!outcome.stderr.contains("expected "), "a wrong sum: {ranks} ranks, {named}: {outcome}");
    let found: Json = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let latest = latest_return(&found);
    assert!(latest < 1_000_000_000 * u64::from(lazyguard_e2e::slower()), "{latest}: {ranks} ranks, {named}: {outcome}");
}

#[test]
fn random_programs_with_a_fault_go_on_or_end_and_no_sum_is_wrong() {
    let all = std::env::var_os("LAZYGUARD_TEST_LONG").is_some();
    let faults = if all { FAULTS_OF_EACH } else { 1 };
    for (ranks, few, many) in [(2, 11, 1_100), (8, 2, 110), (64, 0, 3)] {
        let next = AtomicU32::new(1);
        let seeds = || {
            let (next, last) = (&next, if all { many } else { few });
            std::iter::from_fn(move || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed <= last))
        };
        std::thread::scope(|scope| {
            (0..*AT_A_TIME).for_each(|_| drop(scope.spawn(|| seeds().for_each(|seed| survives(ranks, seed, faults)))));
        });
    }
}

/// A job whose ranks believe each success, with a fault in each round, and in the last one perhaps work of which no call can tell. However it ends, no sum is
/// wrong, and every rank comes to an end.
fn trusts(seed: u32, rounds: u32) {
    let work = Work::new(&format!("{}-{seed}", lazyguard_e2e::this_test!()));
    let last = ["", "late", "host", "mapped"][seed as usize % 4];
    let (program, shared) = (target().join("ranks/nccl_trusts"), work.path().join("shared"));
    let (program, shared) = (program.display(), shared.display());
    let start = format!("RANK=$r WORLD_SIZE=3 '{program}' '{shared}' {seed} {rounds} {last}");
    let script = format!(
        "p=; for r in 0 1 2; do {start} & p=\"$p $!\"; done; c=0; for x in $p; do wait $x || c=$?; done; exit $c"
    );
    let options = [&OPTIONS[..], &["--max-late", "0", "--kill-after", "60s"]].concat();
    let outcome = under(&work, &options, &["sh", "-c", &script]).start().finish_within(LONG * 2);
    assert!(!outcome.stdout.contains("WRONG"), "{seed} {last}: {outcome}");
    let all_rounds = outcome.stdout.lines().filter(|line| line.ends_with(&format!(": {rounds} rounds"))).count();
    // Submitted before the revoke or meanwhile, the host function has the job fail; afterwards it is refused.
    let goes_on =
        last.is_empty() || last == "late" && !outcome.stderr.contains("a host function behind the collective");
    if goes_on {
        assert_eq!((outcome.code, all_rounds), (Some(0), 3), "{seed} {last}: {outcome}");
    } else {
        assert_eq!((outcome.code == Some(0), all_rounds), (false, 0), "{seed} {last}: {outcome}");
        let why = ["a host function behind the collective", "a copy to the host, for which no thread waits"];
        let why = why[usize::from(last == "mapped")];
        let said = [format!("no communicator is revoked: {why}"), format!("; not revoked: {why}")];
        // One that came while the revokes were under way may be found after them.
        let may_be = if last == "late" { &said[..] } else { &said[..1] };
        assert!(may_be.iter().any(|said| outcome.stderr.contains(said)), "{seed} {last}: {outcome}");
    }
    let revoked = outcome.stderr.matches("REVOKED ").count() as u32;
    assert!(revoked >= rounds - 1, "{revoked} of {rounds} rounds: {seed} {last}: {outcome}");
}

/// A thousand in the long form.
#[test]
fn no_success_stands_for_a_wrong_sum_in_chains_of_communicators() {
    let (jobs, rounds) = if std::env::var_os("LAZYGUARD_TEST_LONG").is_some() { (40, 25) } else { (4, 10) };
    let next = AtomicU32::new(0);
    let seeds = || std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < jobs));
    std::thread::scope(|scope| {
        (0..*AT_A_TIME).for_each(|_| drop(scope.spawn(|| seeds().for_each(|seed| trusts(seed, rounds)))));
    });
}
