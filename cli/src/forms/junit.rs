//! The run as a JUnit file: a suite with a case for the run, each process, the comparison of the ranks, and each hazard. Cases keep their names
//! from run to run.

use super::text;
use crate::judge::{
    asks_to_end, compare, gist, sentence, stalled, Course, End, FailedOn, Finding, Hung, Process, Seen, Status, Stood,
};
use crate::machine::host_name;
use crate::words::Failure;
use chrono::DateTime;
use lazyguard_core::hazard::messages;
use lazyguard_core::report::{Block, Detail};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestRerun, TestSuite, XmlString};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

pub(crate) fn text(seen: &Seen<'_>) -> Result<String, Failure> {
    Process::name_all(&seen.processes);
    let program = text::program(seen);
    let mut suite = TestSuite::new(&*program);
    let armed = seen.processes.iter().map(|process| process.armed_unix_nanos).filter(|at| *at != 0).min();
    let started = seen.run.map(|run| run.started_unix_nanos).or(armed).and_then(|nanos| i64::try_from(nanos).ok());
    let started = DateTime::from_timestamp_nanos(started.unwrap_or(0)).fixed_offset();
    let longest = seen.processes.iter().map(|process| process.nanos).max();
    let took = Duration::from_nanos(seen.run.map(|run| run.nanos).or(longest).unwrap_or(0));
    suite.set_timestamp(started).set_time(took);
    suite.extra.insert("hostname".into(), host(seen).into());
    suite.add_properties(properties(seen));
    if let Some(end) = seen.run.map(|run| run.end) {
        let mut result = of_the_run(seen, end);
        result.add_reruns(seen.earlier.iter().map(rerun));
        suite.add_test_case(case("run", result, &program, took));
    }
    let mut names = HashMap::new();
    for process in &seen.processes {
        suite.add_test_case(of_process(process, seen.folder_stays, &program, &mut names));
    }
    suite.add_test_cases(of_ranks(seen, &program));
    for finding in &seen.judged.hazards {
        suite.add_test_case(of_hazard(finding, &program));
    }
    // The crate counts these as disabled; readers look for both.
    suite.extra.insert("skipped".into(), suite.disabled.to_string().into());
    let mut report = Report::new("lazyguard");
    report.set_time(took).add_test_suite(suite);
    report.to_string().map_err(|error| Failure::Input(format!("the JUnit file cannot be made: {error}")))
}

fn case(name: impl Into<XmlString>, result: TestCaseStatus, program: &str, took: Duration) -> TestCase {
    let mut case = TestCase::new(name, result);
    case.set_classname(program).set_time(took);
    case
}

fn host(seen: &Seen<'_>) -> String {
    let host = seen.processes.iter().map(|process| &process.host).find(|host| !host.is_empty()).cloned();
    host.or_else(host_name).unwrap_or_else(|| "localhost".to_owned())
}

fn properties(seen: &Seen<'_>) -> Vec<Property> {
    let driver = seen.processes.iter().map(|process| process.driver_version).find(|version| *version != 0);
    let rank = seen.run.and_then(|run| run.rank.clone());
    let known = [
        ("lazyguard.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("lazyguard.command", seen.run.map(|run| run.command.join(" "))),
        ("lazyguard.rank", rank),
        ("lazyguard.folder", seen.folder_stays.then(|| seen.root.display().to_string())),
        ("lazyguard.fail_on", Some(seen.fail_on.to_string())),
        ("lazyguard.processes", Some(seen.processes.len().to_string())),
        ("lazyguard.explored", seen.explored.as_ref().and_then(|explored| explored.sentence.clone())),
        ("cuda.driver_version", driver.map(|version| version.to_string())),
    ];
    known.into_iter().filter_map(|(name, value)| Some(Property::new(name, value?))).collect()
}

fn status(kind: NonSuccessKind, ty: &str, message: impl AsRef<str>, description: impl AsRef<str>) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(ty).set_message(message.as_ref()).set_description(description.as_ref());
    status
}

fn failure(ty: &str, message: impl AsRef<str>, description: impl AsRef<str>) -> TestCaseStatus {
    status(NonSuccessKind::Failure, ty, message, description)
}

/// The reason is text: not every reader's schema knows the attributes that the other kinds have.
fn skipped(why: &str) -> TestCaseStatus {
    let mut skipped = TestCaseStatus::skipped();
    skipped.set_description(why);
    skipped
}

fn of_the_run(seen: &Seen<'_>, end: End) -> TestCaseStatus {
    let lines = text::at_the_end(seen).join("\n");
    match end {
        End::Exited(0) => match seen.failed {
            Some(FailedOn::Unguarded) => failure("unguarded", seen.unguarded().unwrap_or_default(), lines),
            Some(FailedOn::Retried) => failure("retried", "an earlier attempt hung", lines),
            _ => TestCaseStatus::success(),
        },
        // The process's own case reports the hang.
        End::EndedOnHang if seen.processes.iter().any(|process| process.hang().is_some()) => TestCaseStatus::success(),
        End::EndedOnHang => failure("hang", end.to_string(), lines),
        End::EndedOnStall if !stalled(&seen.processes).is_empty() => TestCaseStatus::success(),
        End::EndedOnStall => failure("stalled", end.to_string(), lines),
        End::TimedOut => {
            let suspected = crate::judge::hangs::suspected(&seen.processes);
            let suspected: Vec<_> = suspected.iter().flat_map(|hang| hang.lines(Detail::Whole)).collect();
            status(NonSuccessKind::Error, "timeout", end.to_string(), format!("{lines}\n{}", suspected.join("\n")))
        }
        End::Exited(_) | End::Signalled(_) => failure("exit", end.to_string(), lines),
    }
}

fn rerun(hung: &Hung) -> TestRerun {
    let mut rerun = TestRerun::new(NonSuccessKind::Failure);
    let folder = format!("lazyguard report {}", hung.folder.display());
    rerun.set_type(hung.code.as_str()).set_message(hung.sentence.as_str()).set_system_out(folder);
    rerun
}

fn of_process(process: &Process, folder_stays: bool, program: &str, names: &mut HashMap<String, u32>) -> TestCase {
    let own = if process.program.is_empty() { "a program" } else { &process.program };
    let rank = if process.rank.is_empty() { String::new() } else { format!(", rank {}", process.rank) };
    let mut name = format!("process {own}{rank}");
    let number = names.entry(name.clone()).or_insert(0);
    *number += 1;
    if *number > 1 {
        name = format!("{name} #{number}");
    }
    let result = match process.hang() {
        Some(report) => {
            let (ty, message) = report.verdicts.first().map_or(("hang", "hang"), |v| (v.code.name(), sentence(v)));
            let told = process.names().report.as_ref().unwrap_or(report);
            let text = told.text().and(&told.stacks_text(None)).and(&Block::of(report.ends_in_words()));
            failure(ty, message, text.as_str())
        }
        None => match &process.stood {
            Some(stood @ Stood::Stalled(report)) => {
                failure(stood.word(), gist(report).unwrap_or_default(), stood.lines(None, Detail::Whole).join("\n"))
            }
            _ => of_the_course(process),
        },
    };
    let mut out = vec![format!("{} {}", process.title(), process.ended)];
    out.extend(folder_stays.then(|| format!("folder: {}", process.folder.display())));
    if let Some(stood @ (Stood::Slow(_) | Stood::Over(_) | Stood::Suspected(_))) = &process.stood {
        out.push(format!("{}: {}", stood.word(), stood.lines(None, Detail::Whole).join("\n")));
        out.extend(stood.report().ends_in_words());
    }
    out.extend(process.summary.iter().flat_map(|summary| summary.lines()));
    out.extend(process.problems.iter().map(|problem| format!("cannot be read: {problem}")));
    let mut case = case(name, result, program, Duration::from_nanos(process.nanos));
    case.set_system_out(out.join("\n"));
    case
}

/// A failure if a signal killed it; skipped if `lazyguard run` or a request ended it, or its end is unknown.
fn of_the_course(process: &Process) -> TestCaseStatus {
    match process.course {
        Course::Well => TestCaseStatus::success(),
        Course::Signalled(signal) if !asks_to_end(signal) => failure("signal", &process.ended, ""),
        Course::Signalled(_) | Course::Killed | Course::Unknown => skipped(&process.ended),
    }
}

fn of_ranks(seen: &Seen<'_>, program: &str) -> Option<TestCase> {
    let ranks = seen.processes.iter().map(|process| process.rank.as_str()).filter(|rank| !rank.is_empty());
    if ranks.collect::<HashSet<_>>().len() < 2 {
        return None;
    }
    let result = match compare(&seen.processes) {
        None => TestCaseStatus::success(),
        Some(compared) => failure("ranks", &compared.sentence, compared.lines(Detail::Whole).join("\n")),
    };
    Some(case("ranks", result, program, Duration::ZERO))
}

fn of_hazard(finding: &Finding, program: &str) -> TestCase {
    let lines = text::finding(finding).join("\n");
    let result = match (&finding.status, finding.fails) {
        (_, true) => failure(finding.hazard.code.name(), messages::line(&finding.hazard), &lines),
        (Status::Suppressed(by), _) => skipped(&format!("suppressed by {}", by.join(", "))),
        _ => TestCaseStatus::success(),
    };
    let mut case = case(format!("hazard {}", finding.key), result, program, Duration::ZERO);
    if !finding.fails {
        case.set_system_out(lines);
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{hang_report, recording, seen, Told};
    use quick_junit::Report;
    use std::path::Path;

    /// The one suite of a run's file, read as a CI system reads it.
    fn suite(told: &Told) -> TestSuite {
        let mut text = String::new();
        seen(told, |seen| text = super::text(seen).unwrap());
        let mut report = Report::deserialize_from_str(&text).unwrap();
        let suite = report.test_suites.remove(0);
        assert!(report.test_suites.is_empty());
        assert_eq!(report.tests, suite.test_cases.len(), "{text}");
        suite
    }

    /// Name, kind, and the type or the message.
    fn cases(suite: &TestSuite) -> Vec<(String, &'static str, String)> {
        let case = |case: &TestCase| {
            let (what, ty) = match &case.status {
                TestCaseStatus::Success { .. } => ("well", None),
                TestCaseStatus::Skipped { description, .. } => ("skipped", description.clone()),
                TestCaseStatus::NonSuccess { kind: NonSuccessKind::Failure, ty, .. } => ("failure", ty.clone()),
                TestCaseStatus::NonSuccess { kind: NonSuccessKind::Error, ty, .. } => ("error", ty.clone()),
            };
            (case.name.to_string(), what, ty.map(|ty| ty.to_string()).unwrap_or_default())
        };
        suite.test_cases.iter().map(case).collect()
    }

    fn expect(told: &Told, expect: &[(&str, &str, &str)]) -> TestSuite {
        let suite = suite(told);
        let found = cases(&suite);
        let found: Vec<_> = found.iter().map(|(name, what, ty)| (name.as_str(), *what, ty.as_str())).collect();
        assert_eq!(found, expect);
        suite
    }

    const HAZARD: &str = "hazard LG101|k2|cuLaunchKernel|non-blocking";
    const PROCESS: &str = "process train, rank 3";

    #[test]
    fn a_hazard_that_nobody_fails_for_is_a_case_that_went_well_and_says_what_it_is() {
        let suite = expect(&Told::default(), &[("run", "well", ""), (PROCESS, "well", ""), (HAZARD, "well", "")]);
        let out = suite.test_cases[2].system_out.as_ref().unwrap().to_string();
        assert!(out.contains("hazard LG101: cuLaunchKernel of k2 on") && out.contains("fix: Load k2"), "{out}");
        assert_eq!(suite.time, Some(Duration::from_millis(3200)));
        assert_eq!(suite.timestamp.unwrap().to_rfc3339(), "2025-06-15T15:06:40+00:00");
        assert_eq!(suite.extra["hostname"].as_str(), "node7");
        let property = |name: &str| {
            let found = suite.properties.iter().find(|property| property.name.as_str() == name);
            found.map(|property| property.value.to_string())
        };
        assert_eq!(property("lazyguard.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(property("lazyguard.rank").as_deref(), Some("3"));
        assert_eq!(property("lazyguard.command").as_deref(), Some("/opt/job/bin/train --fast"));
    }

    #[test]
    fn a_hazard_fails_where_the_run_fails_for_it_and_is_skipped_where_it_is_suppressed() {
        let told = Told { fail_on: "LG101".to_owned(), ..Told::default() };
        expect(&told, &[("run", "well", ""), (PROCESS, "well", ""), (HAZARD, "failure", "LG101")]);
        let told = Told { suppressions: "kernel:k2".to_owned(), ..told };
        let skipped = &cases(&suite(&told))[2];
        assert_eq!((skipped.0.as_str(), skipped.1), (HAZARD, "skipped"));
        assert!(skipped.2.starts_with("suppressed by ") && skipped.2.ends_with("s.txt:1: kernel:k2"), "{skipped:?}");
    }

    #[test]
    fn a_hang_is_a_failure_with_its_report_and_a_timeout_an_error_with_what_is_suspected() {
        let told = Told { hang: true, no_hazard: true, end: Some(End::EndedOnHang), ..Told::default() };
        let suite = expect(&told, &[("run", "well", ""), (PROCESS, "failure", "LG201")]);
        let TestCaseStatus::NonSuccess { description, message, .. } = &suite.test_cases[1].status else { panic!() };
        let sentence =
            "k2 cannot start: loading it on its first launch waits for k1 on stream 1, and k1 has not ended.";
        assert_eq!(message.as_ref().map(|message| message.as_str()), Some(sentence));
        let description = description.as_ref().unwrap().to_string();
        assert!(
            description.contains("rank 3 pid 4242 (train)") && description.contains("blocked calls:"),
            "{description}"
        );

        let suspected = Stood::Suspected(hang_report(&recording("3", true), Path::new("")));
        assert!(
            suspected.lines(None, Detail::Whole)[0].starts_with("SUSPECTED "),
            "{:?}",
            suspected.lines(None, Detail::Whole)
        );

        let told = Told { no_hazard: true, end: Some(End::TimedOut), ..Told::default() };
        expect(&told, &[("run", "error", "timeout"), (PROCESS, "well", "")]);
        let told = Told { no_hazard: true, end: Some(End::Exited(3)), ..Told::default() };
        expect(&told, &[("run", "failure", "exit"), (PROCESS, "well", "")]);
    }

    #[test]
    fn the_attempts_before_are_runs_of_the_same_case() {
        let earlier = vec![Hung { code: "LG202".to_owned(), sentence: "it hung.".to_owned(), folder: "/out/1".into() }];
        let told = Told { no_hazard: true, end: Some(End::Exited(0)), earlier, ..Told::default() };
        let suite = expect(&told, &[("run", "well", ""), (PROCESS, "well", "")]);
        let TestCaseStatus::Success { flaky_runs } = &suite.test_cases[0].status else { panic!() };
        let [run] = &flaky_runs[..] else { panic!("{flaky_runs:?}") };
        assert_eq!(
            (run.kind, run.ty.as_deref(), run.message.as_deref()),
            (NonSuccessKind::Failure, Some("LG202"), Some("it hung."))
        );
    }

    #[test]
    fn processes_that_look_alike_have_names_of_their_own() {
        let told = Told { no_hazard: true, processes: 3, ..Told::default() };
        let second = format!("{PROCESS} #2");
        let third = format!("{PROCESS} #3");
        expect(&told, &[("run", "well", ""), (PROCESS, "well", ""), (&second, "well", ""), (&third, "well", "")]);
    }

    #[test]
    fn letters_that_xml_does_not_have_cost_no_more_than_themselves() {
        let told =
            Told { kernel: "k<\u{1}\u{1b}[31m&'\"]]>".to_owned(), fail_on: "hazard".to_owned(), ..Told::default() };
        let suite = suite(&told);
        let name = suite.test_cases[2].name.to_string();
        assert_eq!(name, "hazard LG101|k<&'\"]]>|cuLaunchKernel|non-blocking");
    }
}
