//! The findings as one JSON object, the superset of what the other forms say. `docs/READING.md` documents it.

use super::collect::{Process, Stood};
use super::judge::{Finding, Status};
use super::{exit_code, text, End, Finished, Seen};
use serde_json::{json, Value};

/// The version of the form; raised when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// The object, as a file or standard output has it.
pub(super) fn text(seen: &Seen<'_>) -> String {
    format!("{:#}\n", value(seen))
}

fn value(seen: &Seen<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "lazyguard": env!("CARGO_PKG_VERSION"),
        "root": seen.root,
        "run": seen.run.map(|run| run_of(run, seen)),
        "result": text::result(seen),
        "failed": seen.failed.map(super::FailedOn::word),
        "fail_on": seen.fail_on.to_string(),
        "processes": seen.processes.iter().map(process).collect::<Vec<_>>(),
        "hazards": seen.judged.hazards.iter().map(hazard).collect::<Vec<_>>(),
        "baseline": seen.has_baseline.then(|| json!({ "absent": seen.judged.absent })),
        "unused_suppressions": seen.judged.unused,
        "problems": seen.problems().collect::<Vec<_>>(),
    })
}

fn run_of(run: &Finished, seen: &Seen<'_>) -> Value {
    let (ended, status, signal) = match run.end {
        End::Exited(status) => ("exited", Some(status), None),
        End::Signalled(signal) => ("signalled", None, Some(signal)),
        End::TimedOut => ("timed out", None, None),
        End::EndedOnHang => ("ended on hang", None, None),
    };
    json!({
        "command": run.command,
        "started_unix_ns": run.started_unix_nanos,
        "nanos": run.nanos,
        "ended": ended,
        "status": status,
        "signal": signal,
        "exit_code": exit_code(run.end, seen.failed),
        "rank": run.rank,
    })
}

fn process(process: &Process) -> Value {
    json!({
        "folder": process.name,
        "process": process.process,
        "program": process.program,
        "rank": process.rank,
        "host": process.host,
        "driver_version": process.driver_version,
        "armed_unix_ns": process.armed_unix_nanos,
        "nanos": process.nanos,
        "ended": process.ended,
        "exit_code": process.end.and_then(|end| end.exit_code),
        "signal": process.end.and_then(|end| end.signal),
        "ended_by_run": process.end.is_some_and(|end| end.ended_by_run),
        "status": process.word(),
        "hang": process.stood.as_ref().map(Stood::report),
        "stacks": process.stacks,
        "run": process.summary,
        "hazards": process.hazards.iter().map(|seen| seen.hazard.key()).collect::<Vec<_>>(),
        "problems": process.problems,
    })
}

fn hazard(finding: &Finding) -> Value {
    let mut value = serde_json::to_value(&finding.hazard).unwrap_or_default();
    value["key"] = json!(finding.key);
    value["status"] = json!(finding.status.word());
    value["fails"] = json!(finding.fails);
    value["suppressed_by"] = match &finding.status {
        Status::Suppressed(by) => json!(by),
        _ => json!([]),
    };
    let line = finding.line.as_ref();
    value["first"]["file"] = json!(line.map(|line| &line.file));
    value["first"]["line"] = json!(line.map(|line| line.line));
    let met = finding.met_by.iter().map(|met| {
        json!({
            "folder": met.folder,
            "process": met.process,
            "program": met.program,
            "rank": met.rank,
            "count": met.count,
        })
    });
    value["met_by"] = met.collect();
    value
}

#[cfg(test)]
mod tests {
    use super::super::samples::{seen, Told};
    use super::*;

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
    fn the_page_tells_of_every_key() {
        let page = include_str!("../../../docs/READING.md");
        let (_, page) = page.split_once("### Findings, for programs").unwrap();
        let value = told(&Told { known: true, ..Told::default() });
        for object in
            [&value, &value["run"], &value["processes"][0], &value["hazards"][0], &value["hazards"][0]["met_by"][0]]
        {
            for key in object.as_object().unwrap().keys() {
                assert!(page.contains(&format!("`{key}`")), "docs/READING.md does not tell of {key}");
            }
        }
        for key in value["hazards"][0]["first"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/READING.md does not tell of first.{key}");
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
