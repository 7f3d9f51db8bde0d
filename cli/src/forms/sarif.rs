//! The findings as SARIF 2.1.0: a rule for every code and one for stalls, a result for every hang, stall and hazard.

use super::places::Place;
use super::text;
use crate::judge::{exit_code, gist, hangs, stalled, FailedOn, Finding, HangSeen, Process, Seen, Status};
use crate::stacks::SourceLine;
use crate::words::{pages, utc};
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::messages;
use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};
use serde_json::{json, Value};
use std::path::Path;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const HERE: &str = "WORKINGFOLDER";
/// The name and version of the fingerprint that distinguishes results.
const FINGERPRINT: &str = "lazyguardKey/v1";
/// The rule of a process that has stopped, which has no code.
const STALLED: &str = "stalled";

pub(crate) fn text(seen: &Seen<'_>) -> String {
    Process::name_all(&seen.processes);
    let hangs = hangs(&seen.processes);
    let stalls = stalled(&seen.processes);
    let stalls = stalls.iter().map(|stall| of_stall(stall, seen));
    let hangs = hangs.iter().map(|hang| of_hang(hang, seen)).chain(stalls);
    let results: Vec<_> = hangs.chain(seen.judged.hazards.iter().map(|finding| of_hazard(finding, seen))).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "LazyGuard",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": Code::ALL.iter().map(|code| rule(*code)).chain([rule_of_stalls()]).collect::<Vec<_>>(),
            } },
            "invocations": [invocation(seen)],
            "originalUriBaseIds": { HERE: { "uri": format!("file://{}/", uri(&seen.here)) } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn rule(code: Code) -> Value {
    let page = pages::page(code.name()).map_or(code.title(), str::trim_end);
    let level = if code.number() < 200 { "warning" } else { "error" };
    json!({
        "id": code.name(),
        "shortDescription": { "text": code.title() },
        "fullDescription": { "text": pages::what_happened(code.name()).unwrap_or_else(|| code.title().to_owned()) },
        "help": { "text": page, "markdown": page },
        "defaultConfiguration": { "level": level },
        "properties": { "tags": ["cuda", "concurrency", "deadlock"] },
    })
}

fn rule_of_stalls() -> Value {
    let what = "the process submits no more, nothing of it is in flight, and its host side stands still";
    json!({
        "id": STALLED,
        "shortDescription": { "text": "a process has stopped" },
        "fullDescription": { "text": what },
        "help": { "text": format!("{what}: see what its threads wait for") },
        "defaultConfiguration": { "level": "warning" },
        "properties": { "tags": ["cuda"] },
    })
}

fn invocation(seen: &Seen<'_>) -> Value {
    let notifications = seen.problems().map(|problem| json!({ "level": "warning", "message": { "text": problem } }));
    let processes = seen.processes.iter().map(|process| {
        let folder = seen.folder_stays.then_some(&process.name);
        json!({ "folder": folder, "process": process.process, "status": process.word(), "ended": process.ended })
    });
    let mut invocation = json!({
        // The analysis's success, not the program's: the notifications name what could not be read.
        "executionSuccessful": seen.problems().next().is_none(),
        "toolExecutionNotifications": notifications.collect::<Vec<_>>(),
        "properties": { "processes": processes.collect::<Vec<_>>() },
    });
    let Some(run) = seen.run else { return invocation };
    let code = exit_code(run.end, seen.failed);
    let moment = |nanos: u64| utc(nanos).replacen(' ', "T", 1).replace(" UTC", "Z");
    let told = [
        ("executableLocation", run.command.first().map(|program| location(Path::new(program)))),
        ("arguments", Some(json!(run.command.get(1..).unwrap_or_default()))),
        ("startTimeUtc", Some(json!(moment(run.started_unix_nanos)))),
        ("endTimeUtc", Some(json!(moment(run.started_unix_nanos.saturating_add(run.nanos))))),
        ("exitCode", Some(json!(code))),
        ("exitCodeDescription", (code != 0).then(|| json!(run.end.to_string()))),
        ("exitSignalNumber", run.end.signal().map(|signal| json!(signal))),
    ];
    told.into_iter().for_each(|(name, value)| value.into_iter().for_each(|value| invocation[name] = value));
    invocation
}

fn location(file: &Path) -> Value {
    json!({ "uri": if file.is_absolute() { format!("file://{}", uri(file)) } else { uri(file) } })
}

fn rule_index(code: Code) -> Option<usize> {
    Code::ALL.iter().position(|known| *known == code)
}

fn of_hang(hang: &HangSeen<'_>, seen: &Seen<'_>) -> Value {
    let steps: Vec<_> = hang.steps().chain(hang.report.ends_in_words()).collect();
    let message = format!("{} hangs: {}", hang.process.title(), steps.join("\n"));
    let rule = (hang.code().name(), rule_index(hang.code()), "error");
    of_report(hang, rule, &message, hang.line().as_ref(), seen)
}

fn of_stall(stall: &HangSeen<'_>, seen: &Seen<'_>) -> Value {
    let message = format!("{} has stopped: {}", stall.process.title(), gist(stall.report).unwrap_or_default());
    let level = if seen.failed == Some(FailedOn::Stall) { "error" } else { "warning" };
    of_report(stall, (STALLED, Some(Code::ALL.len()), level), &message, None, seen)
}

fn of_report(
    hang: &HangSeen<'_>,
    (rule, index, level): (&str, Option<usize>, &str),
    message: &str,
    line: Option<&SourceLine>,
    seen: &Seen<'_>,
) -> Value {
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": index,
        "kind": "fail",
        "level": level,
        "message": { "text": message },
        "locations": locations(line, &hang.process.program, None, seen),
        "partialFingerprints": { FINGERPRINT: hang.key() },
        "properties": {
            "process": hang.process.process,
            "program": hang.process.program,
            "rank": hang.process.rank,
            "folder": hang.process.folder,
            "explored": seen.explored.as_ref().and_then(|explored| explored.sentence.as_ref()),
        },
    });
    // A baseline never holds hangs.
    if seen.has_baseline {
        result["baselineState"] = json!("new");
    }
    result
}

fn of_hazard(finding: &Finding, seen: &Seen<'_>) -> Value {
    let hazard = &finding.hazard;
    let level = match (finding.fails, hazard.prevented || !hazard.counts()) {
        (true, _) => "error",
        (false, true) => "note",
        (false, false) => "warning",
    };
    let meet = || format!("\n{} {}.", text::once_these_meet(hazard), hazard.must_meet.join("; "));
    let meet = (!hazard.must_meet.is_empty()).then(meet).unwrap_or_default();
    let message = format!("{}\n{}{meet}\nfix: {}", messages::line(hazard), hazard.what, hazard.fix);
    let program = finding.met_by.first().map_or("", |met| &met.program);
    let by = if let Status::Suppressed(by) = &finding.status { &by[..] } else { &[] };
    let suppressions = by.iter().map(|by| json!({ "kind": "external", "status": "accepted", "justification": by }));
    let mut result = json!({
        "ruleId": hazard.code.name(),
        "ruleIndex": rule_index(hazard.code),
        "kind": "fail",
        "level": level,
        "message": { "text": message },
        "locations": locations(finding.line.as_ref(), program, hazard.kernel.as_deref(), seen),
        "partialFingerprints": { FINGERPRINT: finding.key },
        "occurrenceCount": hazard.count.max(1),
        "suppressions": suppressions.collect::<Vec<_>>(),
        "properties": {
            "call": hazard.call,
            "kernel": hazard.kernel,
            "streamClass": hazard.stream_class,
            "prevented": hazard.prevented,
            "confidence": hazard.confidence,
            "atLeast": hazard.at_least,
            "explored": finding.explored,
            "metBy": finding.met_by.iter().map(|met| json!({
                "process": met.process, "program": met.program, "rank": met.rank, "count": met.count,
            })).collect::<Vec<_>>(),
        },
    });
    if seen.has_baseline {
        result["baselineState"] = json!(if finding.status == Status::Known { "unchanged" } else { "new" });
    }
    result
}

fn locations(line: Option<&SourceLine>, program: &str, kernel: Option<&str>, seen: &Seen<'_>) -> Value {
    let module = (!program.is_empty()).then(|| json!({ "name": program, "kind": "module" }));
    let function = kernel.map(|kernel| json!({ "name": kernel, "kind": "function" }));
    let named: Vec<_> = module.into_iter().chain(function).collect();
    let mut location = json!({});
    if !named.is_empty() {
        location["logicalLocations"] = json!(named);
    }
    if let Some(line) = line {
        let place = Place::of(line, &seen.here);
        let path = Path::new(&place.path);
        let file = if place.is_inside { json!({ "uri": uri(path), "uriBaseId": HERE }) } else { self::location(path) };
        let region = json!({ "startLine": place.line });
        location["physicalLocation"] = json!({ "artifactLocation": file, "region": region });
    }
    json!(Some(location).filter(|location| *location != json!({})).into_iter().collect::<Vec<_>>())
}

/// A path as a URI has it; a file name with a colon is no scheme.
fn uri(path: &Path) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');
    utf8_percent_encode(&path.to_string_lossy(), KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::seen::End;
    use crate::judge::test_samples::{seen, Told};

    fn log(told: &Told) -> Value {
        let mut text = String::new();
        seen(told, |seen| text = super::text(seen));
        serde_json::from_str(&text).unwrap()
    }

    fn result(told: &Told) -> Value {
        let log = log(told);
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{log:#}");
        results[0].clone()
    }

    #[test]
    fn every_code_is_a_rule_with_its_page() {
        let log = log(&Told::default());
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        assert_eq!((rules.len(), &rules[Code::ALL.len()]["id"]), (Code::ALL.len() + 1, &json!(STALLED)));
        for (rule, code) in rules.iter().zip(Code::ALL) {
            assert_eq!(rule["id"], code.name());
            assert_eq!(rule["shortDescription"]["text"], code.title());
            assert!(!rule["help"]["text"].as_str().unwrap().is_empty());
        }
        assert!(rules[0]["help"]["markdown"].as_str().unwrap().contains("**Fix.**"));
    }

    #[test]
    fn a_hazard_is_a_warning_at_its_line_with_a_fingerprint_that_does_not_change() {
        let told = Told { file: "src/a b.cpp".to_owned(), ..Told::default() };
        let result = result(&told);
        assert_eq!((&result["ruleId"], &result["level"]), (&json!("LG101"), &json!("warning")));
        assert_eq!(result["partialFingerprints"][FINGERPRINT], "LG101|k2|cuLaunchKernel|non-blocking");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"], json!({ "uri": "src/a%20b.cpp", "uriBaseId": HERE }));
        assert_eq!(place["region"]["startLine"], 12);
        assert_eq!(result["occurrenceCount"], 3);
        assert_eq!(result["suppressions"], json!([]));
        assert!(result.get("baselineState").is_none());
        assert_eq!(
            log(&told)["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize]["id"],
            "LG101"
        );
    }

    #[test]
    fn what_is_prevented_is_a_note_and_what_fails_an_error() {
        assert_eq!(result(&Told { prevented: true, ..Told::default() })["level"], "note");
        assert_eq!(result(&Told { fail_on: "hazard".to_owned(), ..Told::default() })["level"], "error");
    }

    #[test]
    fn suppressions_and_the_baseline_are_said() {
        let suppressed = result(&Told { suppressions: "LG101:k2".to_owned(), ..Told::default() });
        assert_eq!(suppressed["suppressions"][0]["kind"], "external");
        assert!(suppressed["suppressions"][0]["justification"].as_str().unwrap().ends_with("s.txt:1: LG101:k2"));
        assert_eq!(result(&Told { known: true, ..Told::default() })["baselineState"], "unchanged");
        let other = Told { hang: true, no_hazard: true, known: true, ..Told::default() };
        assert_eq!(result(&other)["baselineState"], "new");
    }

    #[test]
    fn a_stall_is_a_warning_and_an_error_where_the_run_fails_for_it() {
        let told = Told { stalled: true, no_hazard: true, ..Told::default() };
        let warning = result(&told);
        let of = |result: &Value| [result["ruleId"].clone(), result["ruleIndex"].clone(), result["level"].clone()];
        assert_eq!(of(&warning), [json!(STALLED), json!(Code::ALL.len()), json!("warning")]);
        let message = "train (process 4242, rank 3) has stopped: it opens /data/x (class file)";
        assert_eq!(warning["message"]["text"], message);
        assert_eq!(warning["partialFingerprints"][FINGERPRINT], "stalled|file");
        let failing = Told { fail_on: "stall".to_owned(), ..told };
        assert_eq!(result(&failing)["level"], "error");
    }

    #[test]
    fn without_a_line_of_source_it_is_told_by_name() {
        let result = result(&Told::default());
        assert!(result["locations"][0].get("physicalLocation").is_none());
        let names = json!([{ "name": "train", "kind": "module" }, { "name": "k2", "kind": "function" }]);
        assert_eq!(result["locations"][0]["logicalLocations"], names);
        let outside = Told { outside: true, file: "/usr/include/x.h".to_owned(), ..Told::default() };
        let place = &self::result(&outside)["locations"][0]["physicalLocation"]["artifactLocation"];
        assert_eq!(*place, json!({ "uri": "file:///usr/include/x.h" }));
    }

    #[test]
    fn the_invocation_has_the_exit_code_of_the_run() {
        for (end, fail_on, code, signal) in [
            (End::Exited(0), "hang", 0, None),
            (End::Exited(0), "hazard", 118, None),
            (End::Exited(3), "hazard", 3, None),
            (End::TimedOut, "hazard", 124, None),
            (End::EndedOnHang, "hazard", 117, None),
            (End::Signalled(11), "hang", 139, Some(11)),
        ] {
            let log = log(&Told { end: Some(end), fail_on: fail_on.to_owned(), ..Told::default() });
            let invocation = &log["runs"][0]["invocations"][0];
            assert_eq!(invocation["exitCode"], code, "{end:?}");
            assert_eq!(invocation.get("exitSignalNumber").and_then(Value::as_i64), signal, "{end:?}");
            assert_eq!(invocation["startTimeUtc"], "2025-06-15T15:06:40Z");
            assert_eq!(invocation["endTimeUtc"], "2025-06-15T15:06:43Z");
        }
    }
}
