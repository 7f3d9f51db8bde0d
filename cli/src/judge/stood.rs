//! Whether a process hangs or hung, and how one ended that did not.

use crate::folder::{Opened, ProcessEnd};
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::{Detail, HangReport, Newest, Outcome, Summary};
use lazyguard_core::Nanos;
use rustix::process::Signal;

pub(crate) enum Stood {
    /// A hang, as it was reported, or as the recording shows it.
    Hang(HangReport),
    /// A hang that was reported and is over, or a slow operation that did not end well: [`HangReport::outcome`] says how.
    Over(HangReport),
    /// A call that did not return before the process was killed, and had not been in progress for as long as a report waits.
    Suspected(HangReport),
    /// It submits no more, and nothing of it is in flight.
    Stalled(HangReport),
    /// A slow operation that may have ended by itself.
    Slow(HangReport),
}

impl Stood {
    pub fn of_report(report: HangReport) -> Option<Self> {
        match (report.status, report.resolved) {
            (Status::Hang, None) => Some(Self::Hang(report)),
            (Status::Hang, Some(_)) => Some(Self::Over(report)),
            (Status::Slow, None) => Some(Self::Slow(report)),
            (Status::Slow, Some(_)) => (report.outcome() != Outcome::Resolved).then_some(Self::Over(report)),
            (Status::Stalled, None) => Some(Self::Stalled(report)),
            (Status::Stalled, Some(_)) | (Status::Well, _) => None,
        }
    }

    pub fn of_recording((report, long_enough): (HangReport, bool)) -> Option<Self> {
        match (report.status, long_enough) {
            (Status::Hang, true) => Some(Self::Hang(report)),
            (Status::Hang, false) => Some(Self::Suspected(report)),
            (Status::Slow, true) => Some(Self::Slow(report)),
            _ => None,
        }
    }

    pub fn report(&self) -> &HangReport {
        match self {
            Self::Hang(report)
            | Self::Over(report)
            | Self::Suspected(report)
            | Self::Stalled(report)
            | Self::Slow(report) => report,
        }
    }

    /// Whether every call that it waits in began after this time; without a call, all the work that stands still and takes time on the device.
    pub fn began_after(&self, time: Nanos) -> bool {
        let report = self.report();
        let calls = report.waited_in().map(|call| call.entered);
        let work = || report.snapshot.streams.iter().filter_map(|stream| Some(stream.timed().next()?.at)).collect();
        let begins: Vec<_> = Some(calls.collect::<Vec<_>>()).filter(|calls| !calls.is_empty()).unwrap_or_else(work);
        !begins.is_empty() && begins.iter().all(|began| *began > time)
    }

    pub fn report_mut(&mut self) -> &mut HangReport {
        match self {
            Self::Hang(report)
            | Self::Over(report)
            | Self::Suspected(report)
            | Self::Stalled(report)
            | Self::Slow(report) => report,
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            Self::Hang(_) => "hang",
            Self::Suspected(_) => "suspected",
            Self::Stalled(_) => "stalled",
            Self::Slow(_) => "slow",
            Self::Over(report) => report.outcome().word(),
        }
    }

    pub fn lines(&self, newest: Option<Newest>, detail: Detail) -> Vec<String> {
        self.as_called(self.report().lines(newest, detail))
    }

    pub fn as_called(&self, mut lines: Vec<String>) -> Vec<String> {
        if let (Self::Suspected(_), Some(first)) = (self, lines.first_mut()) {
            *first = first.replacen("HANG", "SUSPECTED", 1);
        }
        lines
    }

    pub fn place(&self) -> u8 {
        match self {
            Self::Hang(_) => 0,
            Self::Over(report) if report.stands() => 0,
            Self::Suspected(_) => 1,
            Self::Stalled(_) => 2,
            Self::Slow(_) => 3,
            Self::Over(_) => 4,
        }
    }
}

/// Whether a signal asks a process to end. A launcher sends these, or the program to its own workers.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    const ASK: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
    Signal::from_named_raw(signal).is_some_and(|signal| ASK.contains(&signal))
}

/// Whether a signal is that of a fault, of a limit or of the kernel without memory: no user has asked the program to end.
pub(crate) fn is_of_a_crash(signal: i32) -> bool {
    use Signal as S;
    let crash = [S::ILL, S::TRAP, S::ABORT, S::BUS, S::FPE, S::KILL, S::SEGV, S::XCPU, S::XFSZ, S::SYS];
    Signal::from_named_raw(signal).is_some_and(|signal| crash.contains(&signal))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Course {
    Signalled(i32),
    Killed,
    /// It is gone, had no orderly end, and only its parent knows how it ended; or it runs, and its streams are neither known to be idle nor to move.
    #[default]
    Unknown,
    /// It ended by itself, or it runs and nothing is known to stand.
    Well,
}

impl Course {
    /// `end` is what the `lazyguard run` around it has seen, `opened` its recording, `summary` its own summary.
    pub fn of(end: Option<&ProcessEnd>, opened: Option<&Opened>, summary: Option<&Summary>) -> Self {
        match (end, opened) {
            (Some(ProcessEnd { ended_by_run: true, .. }), _) => Self::Killed,
            (Some(ProcessEnd { signal: Some(signal), .. }), _) => Self::Signalled(*signal),
            (Some(ProcessEnd { exit_code: Some(_), .. }), _) => Self::Well,
            _ if summary.is_some_and(|summary| summary.ended == "exit" || is_by_the_guard(summary)) => Self::Well,
            (_, Some(opened)) if !opened.was_cut_off() => Self::Well,
            _ => Self::Unknown,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Signalled(_) => "signalled",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
            Self::Well => "well",
        }
    }
}

/// Whether the summary says that the guard has ended the process, as `LAZYGUARD_ON_HANG` says.
pub(crate) fn is_by_the_guard(summary: &Summary) -> bool {
    summary.ended.starts_with("ended by")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{hang_report, recording};
    use std::path::Path;

    #[test]
    fn work_that_no_call_waits_for_begins_when_it_was_submitted() {
        let mut report = hang_report(&recording("0", true), Path::new(""));
        report.snapshot.blocked.clear();
        let submitted = report.snapshot.streams.iter().filter_map(|stream| Some(stream.timed().next()?.at)).min();
        let submitted = submitted.expect("work in flight");
        let began_after = |report: &HangReport, time| Stood::Hang(report.clone()).began_after(time);
        assert_eq!([submitted - 1, submitted].map(|time| began_after(&report, time)), [true, false]);
        report.snapshot.streams.clear();
        assert!(!began_after(&report, 0), "nothing of it is known");
    }
}
