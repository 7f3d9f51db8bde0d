//! The summary of a run: what was done, what was left out, and why.

use super::PassedThrough;
use crate::api::counted;
use crate::preload::{Nudge, Skip};
use crate::settings::Policy;
use serde::{Deserialize, Serialize};

/// How often something was left out for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipCount {
    /// The reason.
    pub reason: Skip,
    /// How many kernels; for libraries that could not be looked into, how many libraries.
    pub count: u64,
}

/// What a CUDA runtime instance in the process was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NudgeAnswer {
    /// The object file the instance belongs to.
    pub object: String,
    /// The fat binaries it holds.
    pub fat_binaries: u64,
    /// The answer.
    pub answer: Nudge,
}

/// What was preloaded, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadSummary {
    /// The policy in force.
    pub policy: String,
    /// Kernels preloaded.
    pub kernels: u64,
    /// Time spent on it, in nanoseconds.
    pub nanos: u64,
    /// Device memory it took, in bytes, as far as was measured.
    pub bytes: u64,
    /// Modules that were loaded before the program loaded them, by the profile.
    pub modules_ahead: u64,
    /// How many of them the program has got when it loaded them.
    pub modules_handed_over: u64,
    /// Libraries that were loaded before a CUDA runtime or the program loaded them, by the profile.
    pub libraries_ahead: u64,
    /// How many of them a runtime or the program has got when it loaded them.
    pub libraries_handed_over: u64,
    /// Releases that were put off (`LAZYGUARD_DEFER`).
    pub releases_put_off: u64,
    /// How many of them have been made since.
    pub releases_made: u64,
    /// How many of them the driver has refused.
    pub releases_refused: u64,
    /// What was left out.
    pub skipped: Vec<SkipCount>,
    /// What still waits for the context to be idle, or for its turn: libraries, modules and kernels.
    pub pending: u64,
    /// What the CUDA runtime instances of the process were answered.
    pub runtimes: Vec<NudgeAnswer>,
    /// Actions of the guard that follow from, or depart from, a setting of the user's.
    pub notes: Vec<String>,
}

impl PreloadSummary {
    /// The summary in lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "preload {}: {} preloaded in {:.1} ms",
            self.policy,
            counted(self.kernels, "kernel"),
            self.nanos as f64 / 1e6
        )];
        let ahead = [
            (self.modules_ahead, "module", self.modules_handed_over),
            (self.libraries_ahead, "library", self.libraries_handed_over),
        ];
        for (ahead, what, handed_over) in ahead.into_iter().filter(|(ahead, ..)| *ahead > 0) {
            let ahead = counted(ahead, what);
            lines.push(format!(
                "  {ahead} loaded ahead of the program by its profile, {handed_over} of which it has got since"
            ));
        }
        if self.releases_put_off > 0 {
            let refused = match self.releases_refused {
                0 => String::new(),
                refused => format!(", {refused} were refused"),
            };
            lines.push(format!(
                "  {} put off, {} made since{refused} (LAZYGUARD_DEFER)",
                counted(self.releases_put_off, "release"),
                self.releases_made
            ));
        }
        for skip in &self.skipped {
            lines.push(format!("  left out {}: {}", skip.count, skip.reason.text()));
        }
        if self.pending > 0 {
            lines.push(format!(
                "  {} still wait for the context to be idle, or for their turn (LAZYGUARD_PRELOAD_SHARE)",
                self.pending
            ));
        }
        for runtime in &self.runtimes {
            let what = match runtime.answer {
                Nudge::RegisterNow => "told to register them at start",
                Nudge::PolicyLeavesAlone => continue,
                Nudge::TooMany => "too many to register at start (LAZYGUARD_NUDGE): kernels first used under a persistent one are not covered",
                Nudge::NothingFound => "left alone",
                Nudge::AlreadyEager => "loads eagerly already",
            };
            lines.push(format!(
                "  CUDA runtime in {}: {}, {what}",
                runtime.object,
                counted(runtime.fat_binaries, "fat binary")
            ));
        }
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines
    }

    /// The policy's name, as the settings spell it.
    pub fn policy_name(policy: Policy) -> String {
        format!("{policy:?}").to_lowercase()
    }
}

/// The recording: its size, and its lost records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSummary {
    /// The size of the recording.
    pub bytes: u64,
    /// Whether it is a file's all along; else it is in memory, and written to the folder at a hang and at the end.
    pub in_file: bool,
    /// Records that later ones have overwritten.
    pub overwritten: u64,
    /// Records for which there was no room at all.
    pub dropped: u64,
}

/// What [`Summary::gpu_dump`] says where a dump can be had.
pub const GPU_DUMP_ARMED: &str = "armed";

/// The summary of a run, as `run.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// LazyGuard's version.
    pub version: String,
    /// The process.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The driver's version, as `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// How the program ended, as far as was seen: `running`, `exit`, `ended by` and a setting.
    pub ended: String,
    /// Time since the guard was armed, in nanoseconds.
    pub nanos: u64,
    /// Driver calls seen.
    pub calls: u64,
    /// Launches seen.
    pub launches: u64,
    /// Hangs reported.
    pub hangs: u64,
    /// Hazards by code.
    pub hazards: Vec<(String, u64)>,
    /// Hazards that the guard prevented, by code.
    pub prevented: Vec<(String, u64)>,
    /// Preloading.
    pub preload: PreloadSummary,
    /// The recording.
    pub recording: RecordingSummary,
    /// Of GPU core dumps: `armed` where the driver can be asked for one, else why it cannot; empty where none are to be had.
    pub gpu_dump: String,
    /// Names asked of the driver that look like launches, loads or waits and that this build does not hook.
    pub unhooked: Vec<String>,
    /// Calls and look-ups that passed through untouched, by reason.
    pub passed_through: Vec<PassedThrough>,
    /// Records, log lines and numbers lost for lack of room, and faults of the guard's own, by name.
    pub lost: Vec<(String, u64)>,
}

impl Summary {
    /// The summary in lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} (process {}): {:.3} s under the guard, {}, {}, {} reported",
            self.program,
            self.process,
            self.nanos as f64 / 1e9,
            counted(self.calls, "driver call"),
            counted(self.launches, "launch"),
            counted(self.hangs, "hang")
        )];
        if self.ended.starts_with("ended by") {
            lines.push(self.ended.clone());
        }
        lines.extend(self.preload.lines());
        if !["", GPU_DUMP_ARMED].contains(&self.gpu_dump.as_str()) {
            lines.push(format!("no GPU core dump can be had: {}", self.gpu_dump));
        }
        for (code, count) in &self.hazards {
            lines.push(format!("hazard {code}: {}", counted(*count, "time")));
        }
        for (code, count) in &self.prevented {
            lines.push(format!("hazard {code} prevented: {}", counted(*count, "time")));
        }
        if !self.unhooked.is_empty() {
            lines.push(format!("asked of the driver and not followed: {}", self.unhooked.join(", ")));
        }
        for passed in &self.passed_through {
            lines.push(format!("passed untouched: {} {}", passed.count, passed.reason.text()));
        }
        for (what, count) in self.lost.iter().filter(|(_, count)| *count > 0) {
            lines.push(format!("lost: {count} {what}"));
        }
        lines
    }

    /// The JSON object.
    pub fn json(&self) -> String {
        super::json(self)
    }
}
