//! The findings as one JSON object: a superset of the other forms. `docs/REFERENCE.md` is generated from it.

use super::text;
use crate::folder::gpu_core;
use crate::judge::{
    compare, exit_code, End, Explored, FailedOn, Finding, Finished, Hung, MetByProcess, Process, Ranks, Seen, Status,
    Stood,
};
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::{FirstOccurrence, Hazard};
use lazyguard_core::report::{HangReport, StackSeen, Summary};
use serde::Serialize;
use serde_json::json;
use std::path::Path;

const SCHEMA: u32 = 1;

/// The output of `lazyguard run --json`, and of `lazyguard report --format json` for the hazards or for several processes.
#[derive(Serialize)]
struct Findings<'a> {
    /// 1; raised when a key changes its meaning or goes away.
    schema: u32,
    /// LazyGuard's version.
    lazyguard: &'static str,
    /// The folder of the run.
    root: &'a Path,
    /// How the program ran, under `lazyguard run`.
    run: Option<RunSeen<'a>>,
    /// The line that `--result` prints.
    result: String,
    /// The failing part of `fail_on`: `hang`, `hazard` or `unguarded`.
    failed: Option<&'static str>,
    /// Earlier attempts that hung (`--retry`).
    earlier: &'a [Hung],
    /// That of `lazyguard explore`.
    explored: Option<&'a Explored>,
    /// The value of `--fail-on`.
    fail_on: String,
    /// The processes, the worst first.
    processes: Vec<ProcessFound<'a>>,
    /// The comparison of ranks, if one of several hangs in a collective.
    ranks: Option<Ranks>,
    /// Failing ones first, prevented ones last.
    hazards: Vec<HazardFound<'a>>,
    /// The baseline's hazards that this run lacks.
    baseline: Option<BaselineSeen<'a>>,
    /// Lines of suppression files without a match.
    unused_suppressions: &'a [String],
    /// Unreadable files and parts.
    problems: Vec<&'a String>,
}

/// The program's run under `lazyguard run`.
#[derive(Serialize)]
struct RunSeen<'a> {
    /// The program and its arguments.
    command: &'a [String],
    /// When the program started.
    started_unix_ns: u64,
    /// How long it ran.
    nanos: u64,
    /// `exited`, `signalled`, `timed out`, `ended on hang` or `ended on stall`.
    ended: &'static str,
    /// The program's exit code.
    status: Option<u8>,
    /// The signal that ended it.
    signal: Option<i32>,
    /// The unguarded part of the run, in a sentence.
    unguarded: Option<String>,
    /// That of `lazyguard run`.
    exit_code: u8,
    /// The rank of `lazyguard run`.
    rank: Option<&'a str>,
}

/// The rest of a baseline.
#[derive(Serialize)]
struct BaselineSeen<'a> {
    /// Keys of hazards that did not occur.
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
    /// The rank in the job, or empty.
    rank: &'a str,
    /// The machine.
    host: &'a str,
    /// As `cuDriverGetVersion` counts.
    driver_version: i32,
    /// When the guard was armed.
    armed_unix_ns: u64,
    /// From then until last seen.
    nanos: u64,
    /// How it ended, in words.
    ended: &'a str,
    /// As `lazyguard run` saw it.
    exit_code: Option<i32>,
    /// The signal that ended it.
    signal: Option<i32>,
    /// Whether `lazyguard run` ended it.
    ended_by_run: bool,
    /// `hang`, `suspected`, `stalled`, `slow`, `resolved`, `failed`, `revoked`, `abandoned`, `signalled`, `killed`, `unknown` or `well`;
    /// hazards do not count.
    status: &'static str,
    /// Its hang.
    hang: Option<&'a HangReport>,
    /// Blocked threads alone.
    stacks: &'a [StackSeen],
    /// The content of `gpu.core`.
    gpu: Option<&'a GpuCore>,
    /// Sentences that the core dump adds to the verdicts.
    gpu_says: Vec<String>,
    /// Its summary.
    run: Option<&'a Summary>,
    /// Keys of its hazards.
    hazards: Vec<String>,
    /// Its unreadable parts, a line each.
    problems: &'a [String],
}

/// A hazard, with the counts of all processes.
#[derive(Serialize)]
struct HazardFound<'a> {
    #[serde(flatten)]
    hazard: &'a Hazard,
    /// The first in the run, in place of the hazard's own.
    first: FirstFound<'a>,
    /// `CODE|kernel|call|stream class`, with `|prevented` where it was.
    key: &'a str,
    /// `new`, `known` (in the baseline) or `suppressed`.
    status: &'static str,
    /// Whether it fails the run.
    fails: bool,
    /// `provoked` or not, by `lazyguard explore`.
    explored: Option<&'a str>,
    /// Matching lines, as `FILE:LINE: TEXT`.
    suppressed_by: &'a [String],
    /// The processes, by rank.
    met_by: &'a [MetByProcess],
}

/// The first occurrence of a hazard.
#[derive(Serialize)]
struct FirstFound<'a> {
    #[serde(flatten)]
    occurrence: &'a FirstOccurrence,
    /// The source file of the call.
    file: Option<&'a Path>,
    /// The line in it.
    line: Option<u32>,
}

pub(crate) fn text(seen: &Seen<'_>) -> String {
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
        failed: seen.failed.map(FailedOn::word),
        earlier: seen.earlier,
        explored: seen.explored.as_ref(),
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
    let (ended, status) = match run.end {
        End::Exited(status) => ("exited", Some(status)),
        End::Signalled(_) => ("signalled", None),
        End::TimedOut => ("timed out", None),
        End::EndedOnHang => ("ended on hang", None),
        End::EndedOnStall => ("ended on stall", None),
    };
    RunSeen {
        command: &run.command,
        started_unix_ns: run.started_unix_nanos,
        nanos: run.nanos,
        ended,
        status,
        signal: run.end.signal(),
        unguarded: seen.unguarded(),
        exit_code: exit_code(run.end, seen.failed),
        rank: run.rank.as_deref(),
    }
}

fn process(process: &Process) -> ProcessFound<'_> {
    let hang = process.stood.as_ref().map(Stood::report);
    let gpu = process.gpu.as_ref().and_then(|gpu| gpu.as_ref().ok());
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
        gpu_says: process.gpu.as_ref().map_or_else(Vec::new, |core| gpu_core::sentences(core, hang)),
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
        explored: finding.explored.as_deref(),
        suppressed_by: if let Status::Suppressed(by) = &finding.status { by } else { &[] },
        met_by: &finding.met_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{seen, Told};
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
            let rows = rows_of(page, heading);
            let (optional, always): (Vec<_>, Vec<_>) =
                rows.iter().partition(|row| row.split(' ').nth(1).unwrap().ends_with('?'));
            let key = |row: &&&str| row.split('`').nth(1).unwrap().to_owned();
            let optional: BTreeSet<_> = optional.iter().map(key).collect();
            // The head of the page has this one, for every form.
            let there =
                object.as_object().unwrap().keys().filter(|key| !optional.contains(*key) && *key != "schema").cloned();
            assert_eq!(there.collect::<BTreeSet<_>>(), always.iter().map(key).collect(), "{heading}");
        }
    }

    /// The lines of a type's keys, those of a type that it holds flattened included.
    fn rows_of<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
        let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
        let lines = section.split("\n#").next().unwrap().lines();
        let flattened = lines.clone().filter_map(|line| line.strip_prefix("- and the keys of [")?.split(']').next());
        let mut rows: Vec<_> = lines.filter(|line| line.starts_with("- `")).collect();
        rows.extend(flattened.flat_map(|name| rows_of(page, &format!("### {name}"))));
        rows
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
