//! The findings as one JSON object: a superset of the other forms. `docs/REFERENCE.md` is generated from it.

use super::judge::{Finding, MetByProcess, Status};
use super::process::Process;
use super::ranks::{compare, Ranks};
use super::stood::Stood;
use super::{exit_code, text, End, Finished, Hung, Seen};
use crate::gpu_core;
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::{FirstOccurrence, Hazard};
use lazyguard_core::report::{HangReport, StackSeen, Summary};
use serde::Serialize;
use serde_json::json;
use std::path::Path;

/// The version of the form; raised when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// What `--json` of `lazyguard run` writes, and `--format json` of `lazyguard report` for the hazards or for several processes.
#[derive(Serialize)]
struct Findings<'a> {
    /// 1; raised when a key changes its meaning or goes away.
    schema: u32,
    /// LazyGuard's version.
    lazyguard: &'static str,
    /// The folder that holds the folders of the processes.
    root: &'a Path,
    /// How the program ran; null where `lazyguard run` did not start it.
    run: Option<RunSeen<'a>>,
    /// The line that `--result` prints.
    result: String,
    /// What the run fails for, of what `fail_on` names: `hang`, `hazard`, `unguarded` or `retried`.
    failed: Option<&'static str>,
    /// The attempts before this run that hung, where `--retry` made it again.
    earlier: &'a [Hung],
    /// What `--fail-on` was given.
    fail_on: String,
    /// The processes, the worst first.
    processes: Vec<ProcessFound<'a>>,
    /// The ranks compared, where one of several hangs in a collective; null otherwise.
    ranks: Option<Ranks>,
    /// The hazards: those that fail the run first, prevented ones last.
    hazards: Vec<HazardFound<'a>>,
    /// What the baseline knows beyond this run; null without a baseline.
    baseline: Option<BaselineSeen<'a>>,
    /// Lines of suppression files that matched nothing.
    unused_suppressions: &'a [String],
    /// What could not be read, one line each.
    problems: Vec<&'a String>,
}

/// How `lazyguard run` saw its program end.
#[derive(Serialize)]
struct RunSeen<'a> {
    /// The program and its arguments.
    command: &'a [String],
    /// When the program was started, in nanoseconds since 1970.
    started_unix_ns: u64,
    /// How long it ran.
    nanos: u64,
    /// `exited`, `signalled`, `timed out` or `ended on hang`.
    ended: &'static str,
    /// The program's exit code, where it exited.
    status: Option<u8>,
    /// The signal that ended it, where one did.
    signal: Option<i32>,
    /// What of the run was not guarded, in a sentence; null where nothing of that is known.
    unguarded: Option<String>,
    /// The exit code of `lazyguard run`.
    exit_code: u8,
    /// The rank of `lazyguard run` in its job, where a launcher sets it.
    rank: Option<&'a str>,
}

/// The part of a baseline that this run did not meet.
#[derive(Serialize)]
struct BaselineSeen<'a> {
    /// Keys of hazards that are in the baseline and were not met.
    absent: &'a [String],
}

/// A process of the run.
#[derive(Serialize)]
struct ProcessFound<'a> {
    /// The name of its folder.
    folder: &'a str,
    /// The process id.
    process: u32,
    /// The program's file name.
    program: &'a str,
    /// Its rank in the job, or empty.
    rank: &'a str,
    /// The machine.
    host: &'a str,
    /// The driver's version, as `cuDriverGetVersion` counts.
    driver_version: i32,
    /// When the guard was armed, in nanoseconds since 1970.
    armed_unix_ns: u64,
    /// Time from then until the process was last seen.
    nanos: u64,
    /// How it ended, in words.
    ended: &'a str,
    /// Its exit code, where `lazyguard run` knows it.
    exit_code: Option<i32>,
    /// The signal that ended it, where `lazyguard run` knows it.
    signal: Option<i32>,
    /// Whether `lazyguard run` had ended it.
    ended_by_run: bool,
    /// `hang`, `suspected`, `slow`, `resolved`, `failed`, `abandoned`, `signalled`, `killed`, `unknown` or `well`. Hazards do not change it.
    status: &'static str,
    /// Its hang, or null.
    hang: Option<&'a HangReport>,
    /// The stacks of its blocked threads.
    stacks: &'a [StackSeen],
    /// What the core dump of its GPU says; null where there is none that can be read.
    gpu: Option<&'a GpuCore>,
    /// What that core dump adds to the verdicts of the hang, a sentence each.
    gpu_says: Vec<String>,
    /// Its summary, or null.
    run: Option<&'a Summary>,
    /// The keys of the hazards that it met.
    hazards: Vec<String>,
    /// What could not be read of it, one line each.
    problems: &'a [String],
}

/// A hazard of the run, with the counts of all processes.
#[derive(Serialize)]
struct HazardFound<'a> {
    #[serde(flatten)]
    hazard: &'a Hazard,
    /// The first occurrence in the whole run. Takes the place of the hazard's own, since it comes later.
    first: FirstFound<'a>,
    /// What tells this hazard from others: `CODE|kernel|call|stream class`, and `|prevented` where it was.
    key: &'a str,
    /// `new`, `known` (the baseline has it) or `suppressed`.
    status: &'static str,
    /// Whether the run fails for it.
    fails: bool,
    /// The lines of suppression files that match it, as `FILE:LINE: TEXT`.
    suppressed_by: &'a [String],
    /// The processes that met it, in the order of ranks.
    met_by: &'a [MetByProcess],
}

/// The first occurrence of a hazard.
#[derive(Serialize)]
struct FirstFound<'a> {
    #[serde(flatten)]
    occurrence: &'a FirstOccurrence,
    /// The source file of the call, or null where the place is no line of source.
    file: Option<&'a Path>,
    /// The line in it.
    line: Option<u32>,
}

pub(super) fn text(seen: &Seen<'_>) -> String {
    Process::name_all(&seen.processes);
    format!("{:#}\n", json!(found(seen)))
}

fn found<'a>(seen: &'a Seen<'_>) -> Findings<'a> {
    Findings {
        schema: SCHEMA,
        lazyguard: env!("CARGO_PKG_VERSION"),
        root: seen.root,
        run: seen.run.map(|run| run_of(run, seen)),
        result: text::result(seen),
        failed: seen.failed.map(super::FailedOn::word),
        earlier: seen.earlier,
        fail_on: seen.fail_on.to_string(),
        processes: seen.processes.iter().map(process).collect(),
        ranks: compare(&seen.processes),
        hazards: seen.judged.hazards.iter().map(hazard).collect(),
        baseline: seen.has_baseline.then(|| BaselineSeen { absent: &seen.judged.absent }),
        unused_suppressions: &seen.judged.unused,
        problems: seen.problems().collect(),
    }
}

fn run_of<'a>(run: &'a Finished, seen: &Seen<'_>) -> RunSeen<'a> {
    let (ended, status, signal) = match run.end {
        End::Exited(status) => ("exited", Some(status), None),
        End::Signalled(signal) => ("signalled", None, Some(signal)),
        End::TimedOut => ("timed out", None, None),
        End::EndedOnHang => ("ended on hang", None, None),
    };
    RunSeen {
        command: &run.command,
        started_unix_ns: run.started_unix_nanos,
        nanos: run.nanos,
        ended,
        status,
        signal,
        unguarded: seen.unguarded(),
        exit_code: exit_code(run.end, seen.failed),
        rank: run.rank.as_deref(),
    }
}

fn process(process: &Process) -> ProcessFound<'_> {
    let hang = process.stood.as_ref().map(Stood::report);
    let gpu = process.names().gpu.as_ref().and_then(|gpu| gpu.as_ref().ok());
    ProcessFound {
        folder: &process.name,
        process: process.process,
        program: &process.program,
        rank: &process.rank,
        host: &process.host,
        driver_version: process.driver_version,
        armed_unix_ns: process.armed_unix_nanos,
        nanos: process.nanos,
        ended: &process.ended,
        exit_code: process.end.and_then(|end| end.exit_code),
        signal: process.end.and_then(|end| end.signal),
        ended_by_run: process.end.is_some_and(|end| end.ended_by_run),
        status: process.word(),
        hang,
        stacks: &process.names().stacks,
        gpu,
        gpu_says: gpu.map_or_else(Vec::new, |core| gpu_core::said(core, hang)),
        run: process.summary.as_ref(),
        hazards: process.hazards.iter().map(|seen| seen.hazard.key()).collect(),
        problems: &process.problems,
    }
}

fn hazard(finding: &Finding) -> HazardFound<'_> {
    let line = finding.line.as_ref();
    HazardFound {
        hazard: &finding.hazard,
        first: FirstFound {
            occurrence: &finding.hazard.first,
            file: line.map(|line| line.file.as_path()),
            line: line.map(|line| line.line),
        },
        key: &finding.key,
        status: finding.status.word(),
        fails: finding.fails,
        suppressed_by: match &finding.status {
            Status::Suppressed(by) => by,
            _ => &[],
        },
        met_by: &finding.met_by,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{seen, Told};
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn told(told: &Told) -> Value {
        let mut text = String::new();
        seen(told, |seen| text = super::text(seen));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn it_says_of_the_run_its_processes_and_its_hazards_what_the_other_forms_say() {
        let value = told(&Told { fail_on: "hazard".to_owned(), file: "a.cpp".to_owned(), ..Told::default() });
        assert_eq!((&value["schema"], &value["failed"]), (&json!(1), &json!("hazard")));
        assert_eq!((&value["run"]["ended"], &value["run"]["exit_code"]), (&json!("exited"), &json!(118)));
        let hazard = &value["hazards"][0];
        for (key, expect) in [
            ("key", json!("LG101|k2|cuLaunchKernel|non-blocking")),
            ("status", json!("new")),
            ("fails", json!(true)),
            ("code", json!("LG101")),
            ("count", json!(3)),
            ("suppressed_by", json!([])),
        ] {
            assert_eq!(hazard[key], expect, "{key}");
        }
        assert_eq!(hazard["first"]["line"], 12);
        assert_eq!(hazard["met_by"][0]["rank"], "3");
        assert_eq!(value["processes"][0]["hazards"], json!(["LG101|k2|cuLaunchKernel|non-blocking"]));
        assert_eq!(value["processes"][0]["status"], "well");
        assert!(value["baseline"].is_null());
    }

    #[test]
    fn the_reference_has_the_keys_that_are_written() {
        let page = include_str!("../../../docs/REFERENCE.md");
        let value = told(&Told { known: true, ..Told::default() });
        let hazard = &value["hazards"][0];
        for (heading, object) in [
            ("## `lazyguard run --json`", &value),
            ("### RunSeen", &value["run"]),
            ("### ProcessFound", &value["processes"][0]),
            ("### BaselineSeen", &value["baseline"]),
            ("### HazardFound", hazard),
            ("### FirstFound", &hazard["first"]),
            ("### MetByProcess", &hazard["met_by"][0]),
        ] {
            let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
            let rows = section.split("\n#").next().unwrap().lines().filter(|row| row.starts_with("| `"));
            let (optional, always): (Vec<_>, Vec<_>) = rows.partition(|row| row.contains(", or absent |"));
            let key = |row: &&str| row.split('`').nth(1).unwrap().to_owned();
            let optional: BTreeSet<_> = optional.iter().map(key).collect();
            let there = object.as_object().unwrap().keys().filter(|key| !optional.contains(*key)).cloned();
            assert_eq!(there.collect::<BTreeSet<_>>(), always.iter().map(key).collect(), "{heading}");
        }
    }

    #[test]
    fn the_hazard_in_it_is_the_one_of_hazards_json() {
        let value = told(&Told::default());
        let read: lazyguard_core::hazard::Hazard = serde_json::from_value(value["hazards"][0].clone()).unwrap();
        assert_eq!(read.key(), "LG101|k2|cuLaunchKernel|non-blocking");
    }

    #[test]
    fn a_hang_is_there_in_full_and_a_run_that_was_not_ours_is_null() {
        let value = told(&Told { hang: true, end: None, ..Told::default() });
        assert!(value["run"].is_null());
        assert_eq!(value["processes"][0]["status"], "hang");
        assert_eq!(value["processes"][0]["hang"]["verdicts"][0]["code"], "LG201");
    }
}
