//! The findings of a run that all forms of output report.

use super::collect::Collected;
use super::explored::Explored;
use super::fail_on::{FailOn, FailedOn};
use super::judged::{Judged, Rules};
use super::process::Process;
use crate::folder::signal_in_words;
use crate::words::{exit_code, first_of};
use lazyguard_core::api::counted;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(crate) struct Finished {
    pub command: Vec<String>,
    pub root: PathBuf,
    pub started_unix_nanos: u64,
    pub nanos: u64,
    pub end: End,
    pub rank: Option<String>,
    pub unguarded: Unguarded,
}

/// The processes of a run that have used CUDA without the guard, as far as `lazyguard run` has seen them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unguarded {
    pub without_guard: Vec<String>,
    /// Why it is a loss that nothing was recorded, in a sentence.
    pub expected: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(u8),
    Signalled(i32),
    TimedOut,
    EndedOnHang,
    EndedOnStall,
}

impl End {
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Signalled(signal) => Some(signal),
            _ => None,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status {code}"),
            Self::Signalled(signal) => write!(f, "ended by {}", signal_in_words(*signal)),
            Self::TimedOut => f.write_str("timed out"),
            Self::EndedOnHang => f.write_str("ended on a hang"),
            Self::EndedOnStall => f.write_str("ended on a stall"),
        }
    }
}

/// A hung attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hung {
    /// The code of its first hang.
    pub code: String,
    /// That hang, or the ranks compared.
    pub sentence: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// The exit code of a run. Precedence: hang or stall, timeout, program failure, hazards, unguarded processes.
pub(crate) fn exit_code(end: End, failed: Option<FailedOn>) -> u8 {
    match (end, failed) {
        (End::EndedOnHang | End::EndedOnStall, _) => exit_code::HANG,
        (_, Some(FailedOn::Hang | FailedOn::Stall)) => exit_code::HANG,
        (End::TimedOut, _) => exit_code::TIMED_OUT,
        (End::Exited(0), Some(FailedOn::Hazard)) => exit_code::HAZARD,
        (End::Exited(0), Some(FailedOn::Unguarded)) => exit_code::UNGUARDED,
        (End::Exited(0), Some(FailedOn::Retried)) => exit_code::HANG,
        (End::Exited(code), _) => code,
        (End::Signalled(signal), _) => u8::try_from(signal).unwrap_or(0).saturating_add(exit_code::SIGNAL),
    }
}

pub(crate) struct Seen<'a> {
    pub run: Option<&'a Finished>,
    pub root: &'a Path,
    pub here: PathBuf,
    pub processes: Vec<Process>,
    pub judged: Judged,
    pub fail_on: &'a FailOn,
    pub has_baseline: bool,
    pub earlier: &'a [Hung],
    pub explored: Option<Explored>,
    pub failed: Option<FailedOn>,
    /// Whether the folder of the run stays: it is named only then.
    pub folder_stays: bool,
    pub unreadable: Vec<String>,
}

impl<'a> Seen<'a> {
    pub fn of(root: &'a Path, (processes, unreadable): Collected, rules: &'a Rules) -> Self {
        Self {
            run: None,
            root,
            here: std::env::current_dir().unwrap_or_default(),
            judged: rules.judge(&processes),
            processes,
            fail_on: &rules.fail_on,
            has_baseline: rules.baseline.is_some(),
            earlier: &[],
            explored: None,
            failed: None,
            folder_stays: true,
            unreadable,
        }
    }

    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.unreadable.iter().chain(self.processes.iter().flat_map(|process| &process.problems))
    }

    pub fn problem_lines(&self) -> impl Iterator<Item = String> + use<'_, 'a> {
        self.problems().map(|problem| format!("cannot be read: {problem}"))
    }

    /// The unguarded part of the run, in a sentence: processes that used CUDA without the guard, or all of it.
    pub fn unguarded(&self) -> Option<String> {
        const MOST_NAMED: usize = 4;
        let unguarded = &self.run?.unguarded;
        let all = &unguarded.without_guard;
        if !all.is_empty() {
            let named = first_of(all.iter().cloned(), MOST_NAMED, ", ", |more| counted(more, "more process"));
            let what = "loaded the CUDA driver without the guard: nothing is known of what happened there";
            return Some(format!("{named} {what}"));
        }
        if !self.processes.is_empty() {
            return None;
        }
        let nothing = || "nothing was recorded: no process of the run initialised CUDA under the guard".to_owned();
        unguarded.expected.clone().or_else(|| self.fail_on.has(FailedOn::Unguarded).then(nothing))
    }
}
