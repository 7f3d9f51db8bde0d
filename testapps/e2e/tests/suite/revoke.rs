//! `--on-hang revoke`: collectives that wait for good are ended, the contexts live, and the job goes on.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, library, target, Outcome, Run, Work};
use std::path::{Path, PathBuf};
use std::process::Command;

const LONG: std::time::Duration = lazyguard_e2e::PATIENCE;
const OPTIONS: [&str; 4] = ["--hang-after", "500ms", "--on-hang", "revoke"];

/// A shell's script that starts the ranks, waits for all, and fails if one does.
fn job(work: &Work, ranks: u32, fault: &str) -> String {
    let (program, shared) = (target().join("ranks/nccl_heals"), work.path().join(format!("shared-{fault}")));
    let start =
        format!("RANK=$r WORLD_SIZE={ranks} '{}' '{}' {fault} & p=\"$p $!\"", program.display(), shared.display());
    let all = (0..ranks).map(|rank| rank.to_string()).collect::<Vec<_>>().join(" ");
    format!(
        "rm -f '{}'; p=; for r in {all}; do {start}; done; c=0; for x in $p; do wait $x || c=$?; done; exit $c",
        shared.display()
    )
}

fn out_of(work: &Work, fault: &str) -> PathBuf {
    work.path().join(format!("out-{fault}"))
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
        assert_eq!(errors as u32, ranks - 1, "each rank that waited is told, once: {fault}: {outcome}");
        assert_eq!(outcome.stdout.matches("an invalid usage").count(), 1, "{fault}: {outcome}");
        assert!(!outcome.stdout.contains("the other communicator"), "{fault}: {outcome}");
        assert!(outcome.stderr.contains("REVOKED 1 communicator in 0."), "{fault}: {outcome}");
        let said = report(&out_of(&work, fault));
        assert!(said.contains("REVOKED 1 communicator"), "{fault}: {said}");
    }
}

#[test]
fn a_hang_that_was_revoked_fails_the_run_if_asked_and_a_healthy_job_is_as_ever() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = revoked(&work, 2, "skip", &["--fail-on", "hang"]);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    expect_the_right_sum(&outcome, 2);
    let healthy = revoked(&work, 2, "none", &["--fail-on", "hang"]);
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
