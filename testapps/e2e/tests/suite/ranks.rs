//! Jobs of several ranks that hang in a collective: which rank the end of `lazyguard run`, and the report of its folder, blame.

use crate::run_passes_on::under;
use lazyguard_e2e::{command, root, text, Json, Outcome, Work};
use std::process::Command;
use std::time::Duration;

const RANKS: u64 = 3;
const ODD: u64 = RANKS - 1;
const KERNEL: &str = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL";

struct Job {
    outcome: Outcome,
    /// What `lazyguard report` says of the folder, and its JSON and JUnit forms.
    report: String,
    junit: String,
    json: Json,
}

fn job(work: &Work, fault: &str, options: &[&str]) -> Job {
    job_of(work, ("collective_job", RANKS), fault, options)
}

fn job_of(work: &Work, (program, ranks): (&str, u64), arguments: &str, options: &[&str]) -> Job {
    let out = work.path().join(format!("out-{arguments}"));
    let program = root().join("target/ranks").join(program);
    let (folder, program) = (out.to_string_lossy().into_owned(), program.to_string_lossy().into_owned());
    let options = [&["--hang-after", "400ms", "--keep", "--out", &folder][..], options].concat();
    let shared = work.path().join(format!("shared-{arguments}")).to_string_lossy().into_owned();
    let last = ranks - 1;
    let script = format!(
        "export WORLD_SIZE={ranks}; for rank in $(seq 0 {last}); do RANK=$rank '{program}' '{shared}' {arguments} & done; wait"
    );
    let run = under(work, &options, &["sh", "-c", &script]);
    let outcome = run.start().finish_within(Duration::from_secs(40));
    let said = |arguments: &[&str]| {
        let output = Command::new(command()).arg("report").args(arguments).arg(&out).output();
        String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("{error}")).stdout).into_owned()
    };
    let json = serde_json::from_str(&said(&["--format", "json"])).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    Job { report: said(&[]), junit: said(&["--hazards", "--format", "junit"]), json, outcome }
}

impl Job {
    /// The run and the report of its folder begin with this sentence.
    fn expect(&self, sentence: &str) {
        assert_eq!(self.outcome.code, Some(117), "{}", self.outcome);
        let of_run = format!("lazyguard: {sentence}");
        assert!(self.outcome.stderr.lines().any(|line| line.starts_with(&of_run)), "{sentence}\n{}", self.outcome);
        let first = self.report.lines().nth(2).unwrap_or_default();
        assert!(first.starts_with(sentence), "{sentence}\n{}", self.report);
        assert!(text(&self.json, "/ranks/sentence").starts_with(sentence), "{:#}", self.json["ranks"]);
        let failure = format!("<failure message=\"{}", sentence.replace('\'', "&apos;"));
        let case = self.junit.split("<testcase name=\"ranks\"").nth(1).unwrap_or_default().split("</testcase>").next();
        assert!(case.is_some_and(|case| case.contains(&failure)), "{failure}\n{}", self.junit);
    }

    fn is_behind(&self, doing: &str) {
        self.expect(&format!("rank {ODD} has not launched collective 14 ({KERNEL}), {doing}; ranks 0-1 wait in it."));
        let behind = &self.json["ranks"]["behind"];
        assert_eq!((behind[0]["rank"].as_u64(), behind[0]["launched"].as_u64()), (Some(ODD), Some(13)), "{behind:#}");
    }
}

const KILL: [&str; 2] = ["--on-hang", "kill"];
const STOPPED: &str = "and was stopped, by a signal or a debugger";

#[test]
fn a_rank_in_no_driver_call_is_behind_and_what_it_did_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    job(&work, "skip", &KILL).is_behind("and its main thread waits for a signal");
    // A rank that computes is late, and no hang, until then.
    let late = [&KILL[..], &["--max-late", "3s"]].concat();
    job(&work, "loop", &late).is_behind("and its main thread computes");
    job(&work, "stops", &KILL).is_behind(STOPPED);
}

/// Its own report is of what it did before.
#[test]
fn a_rank_that_is_stopped_while_its_report_of_a_slow_call_stands_is_said_to_be_stopped() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The others sleep for two seconds, between the two reports of a call.
    let job = job(&work, "slow_stops", &["--hang-after", "1s", "--on-hang", "kill"]);
    let slow = format!(" rank {ODD} pid ");
    assert!(job.outcome.stderr.lines().any(|line| line.contains("SLOW") && line.contains(&slow)), "{}", job.outcome);
    job.is_behind(STOPPED);
    assert!(job.outcome.stderr.contains("seen from outside; it was stopped"), "{}", job.outcome);
}

/// The run is the parent of no rank.
#[test]
fn a_rank_that_has_ended_is_behind_and_how_it_ended_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    job(&work, "exits", &KILL).is_behind("and ended");
    job(&work, "crashes", &KILL).is_behind("and was killed or ended without an exit");
}

#[test]
fn a_rank_that_is_blocked_by_itself_is_behind_and_why_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let job = job(&work, "unwritten", &["--timeout", "5s", "--fail-on", "hang"]);
    job.expect(&format!("rank {ODD} has not launched collective 14 ({KERNEL}), and is blocked: LG203: "));
}

#[test]
fn a_rank_that_launches_another_collective_differs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let job = job(&work, "other", &["--timeout", "5s", "--fail-on", "hang"]);
    job.expect(&format!(
        "rank {ODD} has launched ncclDevKernel_AllGather_RING_LL as collective 14, which is {KERNEL}; ranks 0-1 wait in it."
    ));
}

#[test]
fn a_rank_that_loads_a_module_behind_the_collective_is_named_beside_those_that_wait_for_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let job = job(&work, "load", &["--timeout", "20s", "--fail-on", "hang"]);
    job.expect(&format!("ranks 0-1 have not launched collective 14 ({KERNEL}); rank {ODD} waits in it."));
    let blocked = format!("  rank {ODD} (process ");
    let is_it = |line: &&str| {
        line.starts_with(&blocked) && line.contains("has joined and is blocked: LG202: cuModuleLoadData cannot return")
    };
    assert!(job.report.lines().any(|line| is_it(&line)), "{}", job.report);
}

#[test]
fn a_collective_that_has_ended_on_some_ranks_alone_has_lost_a_signal() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let job = job(&work, "lost", &KILL);
    job.expect(&format!(
        "ranks 0-1's collective 14 ({KERNEL}) has ended, rank {ODD}'s has not: a signal between them was lost."
    ));
    // No rank is to be looked for.
    assert!(!job.report.contains("find the rank that has not launched"), "{}", job.report);
    assert!(job.report.contains("fix: all ranks have launched it"), "{}", job.report);
}

#[test]
fn a_rank_that_is_late_is_no_hang_and_a_job_that_is_well_compares_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let late = job(&work, "late", &["--hang-after", "1500ms", "--fail-on", "hang"]);
    assert_eq!(late.outcome.code, Some(0), "{}", late.outcome);
    let well = job(&work, "none", &["--hang-after", "5s", "--on-hang", "kill"]);
    assert_eq!((well.outcome.code, well.outcome.stderr.as_str()), (Some(0), ""), "{}", well.outcome);
    assert_eq!(
        well.outcome.sorted_stdout(),
        ["rank 0: 20 collectives", "rank 1: 20 collectives", "rank 2: 20 collectives"]
    );
    assert!(well.junit.contains("<testcase name=\"ranks\"") && !well.junit.contains("<failure"), "{}", well.junit);
    assert!(late.json["ranks"].is_null() && well.json["ranks"].is_null());
}

/// No hang is looked for, so that each rank has only what it was asked before the end.
#[test]
fn ranks_that_a_timeout_ends_say_what_they_did() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let odd = [
        ("skip", ", rank 2): when ended, in no hang: its main thread was waiting"),
        ("stops", ", rank 2): when ended, stopped, by a signal or a debugger"),
    ];
    for (fault, of_odd) in odd {
        let job = job(&work, fault, &["--hang-after", "0", "--timeout", "2s"]);
        assert_eq!(job.outcome.code, Some(124), "{}", job.outcome);
        for did in ["ranks 0-1 (2 processes): when ended, in cuCtxSynchronize", of_odd] {
            assert!(job.outcome.stderr.lines().any(|line| line.contains(did)), "{did}: {}", job.outcome);
        }
    }
}

/// However many ranks hang, a person who opens the log of the job finds the blame on its last screen.
fn in_memory(work: &Work, memory: &str, fault: &str) -> Job {
    job_of(work, ("shared_memory", 2), &format!("{memory} {fault}"), &KILL)
}

const CROSSED: &str = "ranks wait for each other: rank 0's stream 1 waits for a value that rank 1's stream 1 writes behind its own wait; \
     rank 1's stream 1 waits for a value that rank 0's stream 1 writes behind its own wait. \
     Submit each write before the wait, or on another stream.";

#[test]
fn ranks_that_wait_for_values_in_a_file_that_both_have_mapped_are_compared_by_them() {
    let work = Work::new(lazyguard_e2e::this_test!());
    compared_by_memory(&work, "host");
}

#[test]
fn ranks_that_wait_for_values_in_device_memory_that_one_opens_by_its_handle_are_compared_by_them() {
    let work = Work::new(lazyguard_e2e::this_test!());
    compared_by_memory(&work, "device");
}

fn compared_by_memory(work: &Work, memory: &str) {
    let crossed = in_memory(work, memory, "crossed");
    crossed.expect(CROSSED);
    let different = &crossed.json["ranks"]["different"];
    assert_eq!((different[0]["rank"].as_u64(), different[1]["rank"].as_u64()), (Some(0), Some(1)), "{different:#}");
    // The run ends them when one of them is said to hang.
    let is_blocked = |rank: usize| text(&different[rank], "/doing").starts_with("and is blocked: LG203: ");
    assert!(is_blocked(0) || is_blocked(1), "{different:#}");
    assert_eq!(text(&crossed.json, "/ranks/compared_by"), "memory");
    let late = "ranks wait for each other: rank 0's stream 1 waits for a value, of which rank 1 has submitted no write; rank 1's stream 1 waits";
    in_memory(work, memory, "late").expect(late);
    let value = "the value that rank 0's stream 1 waits for in memory that both have";
    let unwritten = in_memory(work, memory, "unwritten");
    let rank_1 = "rank 1 has not submitted a write of";
    unwritten.expect(&format!("{rank_1} {value}, and its main thread waits for a signal."));
    assert_eq!(unwritten.json["ranks"]["behind"][0]["rank"], 1, "{:#}", unwritten.json["ranks"]);
    let behind = in_memory(work, memory, "behind");
    behind.expect(&format!("rank 1 writes {value} behind spin_until on its stream 1, which has not ended"));
    let well = in_memory(work, memory, "none");
    assert_eq!((well.outcome.code, well.outcome.stderr.as_str()), (Some(0), ""), "{}", well.outcome);
    assert!(well.json["ranks"].is_null(), "{:#}", well.json["ranks"]);
}

#[test]
fn sixteen_ranks_are_a_few_lines_with_the_blame_among_them() {
    const MANY: u64 = 16;
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = root().join("target/ranks/nccl_job").to_string_lossy().into_owned();
    let shared = work.path().join("shared").to_string_lossy().into_owned();
    let script = format!(
        "export WORLD_SIZE={MANY}; for rank in $(seq 0 {}); do RANK=$rank '{program}' '{shared}' steps skip & done; wait",
        MANY - 1
    );
    let out = work.path().join("out").to_string_lossy().into_owned();
    let options = ["--hang-after", "2s", "--on-hang", "kill", "--out", &out];
    let outcome = under(&work, &options, &["sh", "-c", &script]).finish();
    assert_eq!(outcome.code, Some(117), "{outcome}");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(lines.len() <= 40, "{} lines: {outcome}", lines.len());
    let blame = "lazyguard: rank 15 has not called collective ";
    assert!(lines[lines.len().saturating_sub(21)..].iter().any(|line| line.starts_with(blame)), "{outcome}");
    assert!(!outcome.stderr.contains("HANG") || outcome.stderr.contains("  fix: "), "{outcome}");
    // The report that compares the ranks does not send its reader to a report that does, or repeat what a rank has reported.
    let end = outcome.stderr.split(blame).nth(1).unwrap_or_default();
    assert!(end.contains("wait in the same place: ") && !end.contains("on the folder of the whole run"), "{outcome}");
    assert_eq!(outcome.stderr.matches("LG208 (likely): ").count(), 1, "{outcome}");
    let report = Command::new(command()).args(["report", &out]).output().unwrap_or_else(|error| panic!("{error}"));
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.lines().count() <= 60, "{} lines: {report}", report.lines().count());
    assert!(
        report.lines().nth(2).is_some_and(|line| line.starts_with("rank 15 has not called collective ")),
        "{report}"
    );
}
