//! `lazyguard health`: whether the processes of a run are well, in one line and an exit code. It reads what their watchdogs have written.
//!
//! Must not: ask a process anything, or take longer than the half second in which a heartbeat is waited for.

use crate::folder::live::{Depth, Life, ProcessNow};
use crate::judge::Watched;
use crate::words::{exit_code, print, write_line, Outcome};
use lazyguard_core::api::{counted, lasted};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 well, 117 a process hangs or has stalled, 1 cannot be judged, 2 unusable arguments."
)]
pub(crate) struct Arguments {
    /// Processes, their folders, or the folders of runs: of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER", required = true)]
    what: Vec<PathBuf>,
}

pub(crate) fn health(arguments: Arguments) -> Outcome {
    let mut job = Watched::new(arguments.what);
    let processes = job.look(Depth::Tables);
    let health = Health::of(&processes, job.problems());
    print(|out| Ok(write_line!(out, "{}", health.line)?)).map(|_| ExitCode::from(health.code))
}

const NOTHING_YET: &str = "no process has left anything there: none has initialised CUDA under the guard yet";

#[derive(Debug, PartialEq, Eq)]
struct Health {
    code: u8,
    line: String,
}

impl Health {
    /// Precedence: a hang, a stall, a process that cannot be judged, then well. Processes that have ended count only where none is left.
    fn of(processes: &[ProcessNow], problems: &[String]) -> Self {
        let hanging: Vec<_> = processes.iter().filter(|process| process.hangs()).collect();
        if let Some(first) = hanging.iter().max_by_key(|process| process.hang_nanos) {
            return Self {
                code: exit_code::HANG,
                line: format!("hang: {}{}", hang(first), more(hanging.len() - 1, |others| counted(others, "process"))),
            };
        }
        let stalled: Vec<_> = processes.iter().filter(|process| process.is_stalled()).collect();
        if let Some(first) = stalled.iter().max_by_key(|process| process.hang_nanos) {
            let more = more(stalled.len() - 1, |others| counted(others, "process"));
            return Self { code: exit_code::HANG, line: format!("stalled: {}{more}", waits(first)) };
        }
        let unknown = |line: String| Self { code: 1, line: format!("unknown: {line}") };
        if let Some(why) = processes.iter().find_map(why_unknown) {
            return unknown(why);
        }
        let live: Vec<_> = processes.iter().filter(|process| process.life.is_there()).collect();
        if live.is_empty() {
            return unknown(match (processes, problems) {
                ([], []) => NOTHING_YET.to_owned(),
                ([], [why, ..]) => why.clone(),
                ([one], _) => format!("{} {}", one.who(), one.end.as_deref().unwrap_or("is gone")),
                (several, _) => format!("none of {} runs any more", counted(several.len() as u64, "process")),
            });
        }
        if let Some(why) = problems.first() {
            return unknown(why.clone());
        }
        let mut line = format!("well: {}", counted(live.len() as u64, "process"));
        let slow = live.iter().filter(|process| process.hang.is_some());
        if let Some(process) = slow.max_by_key(|process| process.hang_nanos) {
            line += &format!("; slow: {}", waits(process));
        }
        let mut runs = live.iter().flat_map(|process| process.runs.iter().map(move |line| (process, line)));
        if let Some((process, first)) = runs.next() {
            line += &format!("; {}: {first}{}", process.who(), more(runs.count(), |others| others.to_string()));
        }
        let mut revoked = processes.iter().flat_map(|process| process.revoked.iter().map(move |one| (process, one)));
        if let Some((process, first)) = revoked.next() {
            let more = more(revoked.count(), |others| others.to_string());
            line += &format!("; {}: {}{more}", process.who(), first.in_short());
        }
        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        let all = processes.iter().filter_map(|process| process.end.as_deref());
        all.for_each(|end| *ends.entry(end).or_default() += 1);
        ends.iter().for_each(|(end, count)| line += &format!("; {count} {end}"));
        Self { code: 0, line }
    }
}

fn hang(process: &ProcessNow) -> String {
    let Some(hang) = &process.hang else { return process.who() };
    let call = if hang.call.is_empty() { String::new() } else { format!(" in {}", hang.call) };
    let lasts = if process.hang_nanos == 0 { String::new() } else { format!(" for {}", lasted(process.hang_nanos)) };
    // A rank that waits for others is not to blame.
    let of_run = process.blamed.as_ref().map(|blamed| &blamed.sentence);
    format!("{} {}{call}{lasts}: {}", process.who(), hang.code, of_run.unwrap_or(&hang.sentence))
}

/// A slow or stalled process: its call, or what it does on the host.
fn waits(process: &ProcessNow) -> String {
    let lasts = lasted(process.hang_nanos);
    match &process.hang {
        Some(slow) if slow.call.is_empty() => format!("{} for {lasts}: {}", process.who(), slow.sentence),
        Some(slow) => format!("{} in {} for {lasts}", process.who(), slow.call),
        None => process.who(),
    }
}

fn more(others: usize, what: impl Fn(u64) -> String) -> String {
    match others == 0 {
        true => String::new(),
        false => format!(" (and {} more)", what(others as u64)),
    }
}

fn why_unknown(process: &ProcessNow) -> Option<String> {
    let why = match process.life {
        Life::Stopped => "is stopped, by a signal or a debugger".to_owned(),
        Life::Frozen(nanos) => format!("has not run for {}: it is frozen", lasted(nanos)),
        Life::Unguarded => "runs without the guard, which has stepped aside".to_owned(),
        Life::Unrecorded => "keeps no recording in a file".to_owned(),
        Life::Runs if !process.looks_for_hangs => "does not look for hangs: LAZYGUARD_HANG_AFTER is off".to_owned(),
        Life::Runs | Life::Ended | Life::Gone => return None,
    };
    Some(format!("{} {why}", process.who()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::live::test_samples::{revoked, sample};
    use crate::folder::live::BlamedNow;
    use crate::folder::live::HangNow;

    fn stuck(is_hang: bool) -> ProcessNow {
        let hang = HangNow {
            is_hang,
            is_stalled: false,
            class: None,
            code: if is_hang { "LG201" } else { "" },
            sentence: "k2 waits for k1".to_owned(),
            call: "cuCtxSynchronize".to_owned(),
            since: 0,
        };
        ProcessNow { hang: Some(hang), hang_nanos: 12_000_000_000, ..sample() }
    }

    fn with(life: Life) -> ProcessNow {
        let end = match life {
            Life::Ended => Some("ended".to_owned()),
            Life::Gone => Some("was ended by signal 11 (SIGSEGV)".to_owned()),
            _ => None,
        };
        ProcessNow { life, end, ..sample() }
    }

    #[track_caller]
    fn check(processes: &[ProcessNow], code: u8, line: &str) {
        assert_eq!(Health::of(processes, &[]), Health { code, line: line.to_owned() });
    }

    #[test]
    fn a_hang_comes_first_and_only_of_a_process_that_exists() {
        let line = "hang: rank 3, process 4242 (train) LG201 in cuCtxSynchronize for 12 s: k2 waits for k1";
        check(&[stuck(true)], 117, line);
        check(&[with(Life::Stopped), stuck(true), sample()], 117, line);
        let sentence = "rank 1 has not called collective 2".to_owned();
        let blamed = Some(BlamedNow { rank: Some(1), code: "LG201", class: None, sentence });
        let of_run =
            "hang: rank 3, process 4242 (train) LG201 in cuCtxSynchronize for 12 s: rank 1 has not called collective 2";
        check(&[ProcessNow { blamed, ..stuck(true) }], 117, of_run);
        check(&[stuck(true), stuck(true)], 117, &format!("{line} (and 1 process more)"));
        // A debugger looks at it.
        check(&[ProcessNow { life: Life::Stopped, ..stuck(true) }], 117, line);
        let gone = ProcessNow { end: with(Life::Gone).end, life: Life::Gone, ..stuck(true) };
        check(&[gone], 1, "unknown: rank 3, process 4242 (train) was ended by signal 11 (SIGSEGV)");
        check(&[stuck(false)], 0, "well: 1 process; slow: rank 3, process 4242 (train) in cuCtxSynchronize for 12 s");
    }

    #[test]
    fn a_stall_is_not_well_and_comes_after_a_hang() {
        let stalled = |is_stalled| {
            let sentence = "it reads /data/shard-17.tar (class file)".to_owned();
            let hang = HangNow { is_stalled, sentence, call: String::new(), ..stuck(false).hang.unwrap() };
            ProcessNow { hang: Some(hang), ..stuck(false) }
        };
        let line = "rank 3, process 4242 (train) for 12 s: it reads /data/shard-17.tar (class file)";
        check(&[stalled(true)], 117, &format!("stalled: {line}"));
        check(&[stalled(true), sample(), stalled(true)], 117, &format!("stalled: {line} (and 1 process more)"));
        check(&[stalled(false)], 0, &format!("well: 1 process; slow: {line}"));
        assert!(Health::of(&[stalled(true), stuck(true)], &[]).line.starts_with("hang: "));
        let gone = ProcessNow { end: with(Life::Gone).end, life: Life::Gone, ..stalled(true) };
        assert_eq!(Health::of(&[gone], &[]).code, 1);
    }

    #[test]
    fn what_cannot_be_judged_is_not_well() {
        for (life, why) in [
            (Life::Stopped, "is stopped, by a signal or a debugger"),
            (Life::Frozen(70_000_000_000), "has not run for 70 s: it is frozen"),
            (Life::Unguarded, "runs without the guard, which has stepped aside"),
            (Life::Unrecorded, "keeps no recording in a file"),
            (Life::Ended, "ended"),
        ] {
            check(&[with(life)], 1, &format!("unknown: rank 3, process 4242 (train) {why}"));
        }
        check(&[with(Life::Ended), with(Life::Gone)], 1, "unknown: none of 2 processes runs any more");
        let blind = ProcessNow { looks_for_hangs: false, ..sample() };
        check(
            &[blind],
            1,
            "unknown: rank 3, process 4242 (train) does not look for hangs: LAZYGUARD_HANG_AFTER is off",
        );
        let nothing = "unknown: no process has left anything there: none has initialised CUDA under the guard yet";
        check(&[], 1, nothing);
        let unreadable = Health::of(&[sample()], &["x: it is not a recording".to_owned()]);
        assert_eq!(unreadable, Health { code: 1, line: "unknown: x: it is not a recording".to_owned() });
    }

    #[test]
    fn processes_that_have_ended_are_counted_beside_those_that_run() {
        check(&[sample()], 0, "well: 1 process");
        let serve = "kernel serve has run on stream 3 for 41.0 s; no thread waits for it";
        let serves = ProcessNow { runs: vec![serve.to_owned(); 2], ..sample() };
        check(&[serves], 0, &format!("well: 1 process; rank 3, process 4242 (train): {serve} (and 1 more)"));
        let healed = ProcessNow { revoked: vec![revoked()], ..sample() };
        check(&[healed], 0, "well: 1 process; rank 3, process 4242 (train): REVOKED 1 communicator");
        let line = "well: 2 processes; 1 ended; 1 was ended by signal 11 (SIGSEGV)";
        check(&[sample(), with(Life::Ended), sample(), with(Life::Gone)], 0, line);
    }
}
