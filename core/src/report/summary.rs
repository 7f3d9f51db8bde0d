//! The summary of a run: what was done, what was left out, and why.

use super::{PassedThrough, RevokedSeen};
use crate::api::counted;
use crate::preload::{Nudge, Skip};
use crate::settings::Policy;
use serde::{Deserialize, Serialize};

/// Left-out kernels, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipCount {
    /// The reason.
    pub reason: Skip,
    /// Kernels; or libraries that could not be read.
    pub count: u64,
}

/// The answer to a CUDA runtime in the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NudgeAnswer {
    /// The runtime's object file.
    pub object: String,
    /// The fat binaries it holds.
    pub fat_binaries: u64,
    /// The answer.
    pub answer: Nudge,
}

/// The result of preloading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadSummary {
    /// The policy in force.
    pub policy: String,
    /// Kernels preloaded.
    pub kernels: u64,
    /// Time spent, in nanoseconds.
    pub nanos: u64,
    /// Device memory taken, as measured.
    pub bytes: u64,
    /// Modules loaded ahead by the profile.
    pub modules_ahead: u64,
    /// Those that the program has loaded since.
    pub modules_handed_over: u64,
    /// Libraries loaded ahead by the profile.
    pub libraries_ahead: u64,
    /// Those that a runtime or the program has loaded since.
    pub libraries_handed_over: u64,
    /// Deferred releases (`LAZYGUARD_DEFER`).
    pub releases_put_off: u64,
    /// Those made since.
    pub releases_made: u64,
    /// How many of them the driver has refused.
    pub releases_refused: u64,
    /// The left-out code.
    pub skipped: Vec<SkipCount>,
    /// Kernels, modules and libraries still queued.
    pub pending: u64,
    /// The guard's answers to CUDA runtimes.
    pub runtimes: Vec<NudgeAnswer>,
    /// Effects of settings, as sentences.
    pub notes: Vec<String>,
}

impl PreloadSummary {
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
        lines.extend(self.skipped.iter().map(|skip| format!("  left out {}: {}", skip.count, skip.reason.text())));
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

    pub fn policy_name(policy: Policy) -> String {
        format!("{policy:?}").to_lowercase()
    }
}

/// The recording's size and losses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSummary {
    /// The size of the recording.
    pub bytes: u64,
    /// Whether it was a file from the start, not memory written at a hang and at the end.
    pub in_file: bool,
    /// Overwritten records.
    pub overwritten: u64,
    /// Records lost for lack of capacity.
    pub dropped: u64,
}

/// The value of [`Summary::gpu_dump`] where a dump can be had.
pub const GPU_DUMP_ARMED: &str = "armed";

/// The summary of a run, as `run.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// LazyGuard's version.
    pub version: String,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// As `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// `running`, `exit`, or `ended by` and a setting.
    pub ended: String,
    /// Since the guard was armed, in nanoseconds.
    pub nanos: u64,
    /// Driver calls.
    pub calls: u64,
    /// Launches among them.
    pub launches: u64,
    /// Hangs reported.
    pub hangs: u64,
    /// Revocations of communicators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<RevokedSeen>,
    /// Hazards by code.
    pub hazards: Vec<(String, u64)>,
    /// Hazards that the guard prevented, by code.
    pub prevented: Vec<(String, u64)>,
    /// Preloading.
    pub preload: PreloadSummary,
    /// The recording.
    pub recording: RecordingSummary,
    /// `armed`, or why no GPU core dump can be had.
    pub gpu_dump: String,
    /// Looked-up launches, loads and waits that this build does not hook.
    pub unhooked: Vec<String>,
    /// Calls and look-ups that passed through untouched, by reason.
    pub passed_through: Vec<PassedThrough>,
    /// Lost records and log lines, and faults of the guard, by name.
    pub lost: Vec<(String, u64)>,
}

impl Summary {
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
        lines.extend(self.revoked.iter().map(RevokedSeen::in_words));
        lines.extend(self.preload.lines());
        if !["", GPU_DUMP_ARMED].contains(&self.gpu_dump.as_str()) {
            lines.push(format!("no GPU core dump can be had: {}", self.gpu_dump));
        }
        lines.extend(self.hazards.iter().map(|(code, count)| format!("hazard {code}: {}", counted(*count, "time"))));
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
}
