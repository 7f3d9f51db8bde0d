//! The lines of the table: a summary, a row for each process, and then who waits for what.
//!
//! Must not: let a foreign name be more than a part of its line.

use crate::folder::live::{HangNow, ProcessNow, WaitNow};
use lazyguard_core::api::{counted, lasted};
use lazyguard_core::diagnose::Confidence;
use lazyguard_core::evidence::Class;
use lazyguard_core::report::one_line;

/// Calls that have lasted for so long are listed, in nanoseconds: quick ones come and go.
const LISTED_FROM: u64 = 1_000_000_000;
const MOST_LISTED: usize = 8;

const HEAD: [&str; 9] =
    ["RANK", "PROCESS", "PROGRAM", "STATE", "LAUNCHES/S", "LAUNCHES", "LOADS", "HAZARDS", "OLDEST WORK"];
const NUMBERS: [bool; 9] = [false, true, false, false, true, true, true, true, false];

pub(crate) fn lines(processes: &[ProcessNow], problems: &[String], width: Option<usize>) -> Vec<String> {
    let mut lines = vec![summary(processes)];
    if !processes.is_empty() {
        let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(processes.iter().map(row)).collect();
        let widths: [usize; 9] =
            std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
        lines.extend(rows.iter().map(|row| {
            let cells = row.iter().zip(widths).zip(NUMBERS).map(|((cell, width), is_number)| match is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        }));
    }
    lines.extend(processes.iter().flat_map(waits));
    lines.extend(problems.iter().map(|problem| format!("not there: {problem}")));
    let cut = |line: String| {
        let line = one_line(&line).into_owned();
        line.chars().take(width.unwrap_or(usize::MAX)).collect()
    };
    lines.into_iter().map(cut).collect()
}

fn summary(processes: &[ProcessNow]) -> String {
    // A sum of nothing would be -0.
    let rate = processes.iter().filter_map(|now| now.launches_per_second).fold(0.0, |all, rate| all + rate);
    let stalled = processes.iter().filter(|now| now.is_stalled()).count();
    let hang = match processes.iter().filter(|now| now.hangs()).count() {
        0 if stalled > 0 => format!("{stalled} stalled"),
        0 => "no hang".to_owned(),
        1 => "1 hang".to_owned(),
        count => format!("{count} hang"),
    };
    match processes.len() {
        0 => "lazyguard top: no guarded process".to_owned(),
        count => format!("lazyguard top: {}, {hang}, {rate:.0} launches/s", counted(count as u64, "process")),
    }
}

fn row(now: &ProcessNow) -> [String; 9] {
    let state = match &now.hang {
        Some(hang) if now.hangs() => format!("HANG {}", hang.code),
        Some(hang) if now.is_stalled() => format!("STALLED {}", class(hang)).trim_end().to_owned(),
        Some(_) if now.life.is_there() => format!("{}, slow", now.life.word()),
        _ => now.life.word().to_owned(),
    };
    let oldest = now.outstanding.iter().max_by_key(|(_, outstanding)| outstanding.nanos);
    let is_likely = |confidence: Confidence| confidence >= Confidence::Likely;
    let hazards = now.hazards.iter().filter(|((_, prevented, confidence), _)| !prevented && is_likely(*confidence));
    let hazards = hazards.map(|(_, count)| count);
    [
        if now.rank.is_empty() { "-".to_owned() } else { now.rank.clone() },
        now.process.to_string(),
        now.program.clone(),
        state,
        now.launches_per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
        now.launches.to_string(),
        now.tally.loads.iter().sum::<u64>().to_string(),
        hazards.fold(0, |all: u64, count| all.saturating_add(*count)).to_string(),
        oldest.map_or_else(
            || "-".to_owned(),
            |(class, oldest)| format!("{} {} ({})", lasted(oldest.nanos), oldest.what, class.name()),
        ),
    ]
}

fn class(hang: &HangNow) -> &'static str {
    hang.class.map_or("", Class::name)
}

fn waits(now: &ProcessNow) -> Vec<String> {
    let listed = now.waits.iter().filter(|wait| wait.nanos >= LISTED_FROM).take(MOST_LISTED);
    let line = |wait: &WaitNow| {
        format!("  thread {} ({}): {} for {}", wait.thread, wait.thread_name, wait.what, lasted(wait.nanos))
    };
    let mut lines: Vec<_> = listed.map(line).collect();
    lines.extend(now.revoked.iter().map(|revoked| format!("  {}", revoked.in_words())));
    lines.extend(now.runs.iter().take(MOST_LISTED).map(|line| format!("  {line}")));
    if let (Some(hang), true) = (&now.hang, now.life.is_there() || now.hangs() || now.is_stalled()) {
        let word = match hang.is_hang {
            true => format!("HANG {}", hang.code),
            false if hang.is_stalled => "STALLED".to_owned(),
            false => "slow".to_owned(),
        };
        lines.insert(0, format!("  {word}: {}", hang.sentence));
    }
    lines.splice(0..0, now.blame().map(|blamed| format!("  to blame: {}", blamed.sentence)));
    if !lines.is_empty() {
        lines.insert(0, format!("{}:", now.who()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::live::test_samples::{revoked, sample};
    use crate::folder::live::{Life, OutstandingNow};
    use lazyguard_core::hazard::StreamClass;

    fn hanging() -> ProcessNow {
        let wait = |thread, nanos| WaitNow {
            thread,
            thread_name: "main".to_owned(),
            what: "cuCtxSynchronize".to_owned(),
            nanos,
        };
        let hang = HangNow {
            is_hang: true,
            is_stalled: false,
            class: None,
            code: "LG201",
            sentence: "k2 waits for k1".to_owned(),
            call: "cuCtxSynchronize".to_owned(),
            since: 0,
        };
        let what = "cuLaunchKernel of k1 on stream 1".to_owned();
        ProcessNow {
            launches: 12_345,
            launches_per_second: Some(0.0),
            hang: Some(hang),
            waits: vec![wait(7, 12_000_000_000), wait(8, 5_000)],
            outstanding: [(StreamClass::NonBlocking, OutstandingNow { streams: 1, nanos: 12_000_000_000, what })]
                .into(),
            ..sample()
        }
    }

    #[test]
    fn a_row_for_each_process_and_what_it_waits_for() {
        let ended = ProcessNow { rank: String::new(), process: 7, life: Life::Ended, ..sample() };
        let lines = lines(&[hanging(), ended], &["x: gone".to_owned()], None);
        assert_eq!(
            lines,
            [
                "lazyguard top: 2 processes, 1 hang, 0 launches/s",
                "RANK  PROCESS  PROGRAM  STATE       LAUNCHES/S  LAUNCHES  LOADS  HAZARDS  OLDEST WORK",
                "3        4242  train    HANG LG201           0     12345      0        0  12 s cuLaunchKernel of k1 on stream 1 (non-blocking)",
                "-           7  train    ended                -         0      0        0  -",
                "rank 3, process 4242 (train):",
                "  HANG LG201: k2 waits for k1",
                "  thread 7 (main): cuCtxSynchronize for 12 s",
                "not there: x: gone",
            ]
        );
        assert_eq!(super::lines(&[], &[], None), ["lazyguard top: no guarded process"]);
        let healed = super::lines(&[ProcessNow { revoked: vec![revoked()], ..sample() }], &[], None);
        assert_eq!(healed[4], format!("  {}", revoked().in_words()));
        let line = "kernel serve has run on stream 3 for 41.0 s; no thread waits for it".to_owned();
        let serves = super::lines(&[ProcessNow { runs: vec![line.clone()], ..sample() }], &[], None);
        assert_eq!(serves[3..], ["rank 3, process 4242 (train):".to_owned(), format!("  {line}")]);
    }

    #[test]
    fn a_stall_has_its_class_in_its_row_and_is_not_called_no_hang() {
        let sentence = "it reads /data/shard-17.tar (class file)".to_owned();
        let (is_hang, is_stalled, class) = (false, true, Some(Class::File));
        let hang = HangNow { is_hang, is_stalled, class, sentence, call: String::new(), ..hanging().hang.unwrap() };
        let lines = lines(&[ProcessNow { hang: Some(hang), ..sample() }], &[], None);
        assert_eq!(lines[0], "lazyguard top: 1 process, 1 stalled, 0 launches/s");
        assert!(lines[2].contains("  STALLED file  "), "{}", lines[2]);
        assert_eq!(lines[4], "  STALLED: it reads /data/shard-17.tar (class file)");
    }

    #[test]
    fn a_line_ends_at_the_width_and_a_foreign_name_is_a_part_of_it() {
        let foreign = ProcessNow { program: "a\u{1b}[2J\nb".to_owned(), ..hanging() };
        for width in [0, 1, 20, 80] {
            let lines = lines(std::slice::from_ref(&foreign), &[], Some(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(lines.iter().all(|line| !line.contains(['\u{1b}', '\n'])), "{lines:#?}");
        }
    }
}
