//! The one table of settings, and its parser.
//!
//! The shim reads them from the environment once, when it arms the guard. An unknown name or an unusable value costs one line and the default.
//! `CONTRIBUTING.md` has the steps for a new setting.

mod folder;

pub use folder::{common_folder, expand_folder, literal_folder, unknown_field, unknown_field_complaint, FolderFacts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Observe only.
    Off,
    /// Load each function as it is first resolved.
    Resolve,
    /// Load every kernel of a library or module once it and a context are there, and make small runtime instances register theirs at start.
    Auto,
    /// Everything, without a budget.
    Eager,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Off,
    /// Hazards and hangs.
    Hazard,
    /// Also every load and every synchronization.
    Load,
    /// Also every launch.
    Launch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuDump {
    Off,
    /// The places of threads, and their registers.
    Threads,
    /// Also the shared memory of resident blocks.
    Full,
}

impl GpuDump {
    pub fn is_wanted(self) -> bool {
        self != Self::Off
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnHang {
    Report,
    Abort,
    Exit(u8),
    Command(String),
    /// The blocked calls return an error, which the program handles.
    Fail,
    /// The waiting collectives are ended, and the blocked calls return an error from which the program can go on.
    Revoke,
}

impl OnHang {
    /// Whether the blocked calls return, in all processes of the job.
    pub fn ends_waits(&self) -> bool {
        matches!(self, Self::Fail | Self::Revoke)
    }
}

/// Variables for the command of [`OnHang::Command`]: no settings.
pub mod hang_variable {
    pub const PID: &str = "LAZYGUARD_HANG_PID";
    pub const FOLDER: &str = "LAZYGUARD_HANG_FOLDER";
    pub const CODE: &str = "LAZYGUARD_HANG_CODE";
    pub const REPORT: &str = "LAZYGUARD_HANG_REPORT";
    pub const ALL: [&str; 4] = [PID, FOLDER, CODE, REPORT];
}

impl Settings {
    /// Whether files are used while the program runs, which may have forbidden its threads to open any.
    pub fn keeps_files(&self) -> bool {
        self.log != LogLevel::Off || self.out.is_some() || self.profile.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub flag: &'static str,
    pub values: &'static str,
    pub default: &'static str,
    pub help: &'static str,
    apply: fn(&mut Settings, &str) -> Option<()>,
}

impl Setting {
    pub fn takes(&self, value: &str) -> bool {
        (self.apply)(&mut Settings::default(), value).is_some()
    }
}

/// No setting: where programs under `lazyguard run`, and a `lazyguard run` among them, have their folders.
pub const RUN_ROOT: &str = "LAZYGUARD_RUN_ROOT";

/// No setting: the place for the folder of a process that runs as another user.
pub const RUN_OTHER_USERS: &str = "LAZYGUARD_RUN_OTHER_USERS";

/// No setting: the `lazyguard run` above ends its programs once a hang is to be acted on.
pub const RUN_KILLS: &str = "LAZYGUARD_RUN_KILLS";

/// No setting: the folder of [`PROFILE`] where `lazyguard run` has chosen it; the guard does not complain of that one.
pub const RUN_PROFILE: &str = "LAZYGUARD_RUN_PROFILE";

/// The prefix of a run's folder where the user has named none.
pub const PRIVATE_RUN: &str = "lazyguard-run-";

pub const MOST_RECORD_BYTES: u64 = 64 << 30;

/// Launchers' variables for a rank; the first that is set counts.
pub const RANKS: [&str; 5] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

pub fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let told = RANKS.iter().filter_map(|name| variable(name));
    // The rank becomes a part of a folder's name.
    told.map(|rank| rank.trim().replace('/', "_")).find(|rank| !rank.is_empty())
}

/// Launchers' names for a job, with a word in front of each.
const JOBS: [(&str, &[&str]); 4] = [
    ("slurm", &["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"]),
    ("pmix", &["PMIX_NAMESPACE"]),
    ("elastic", &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"]),
    ("master", &["MASTER_ADDR", "MASTER_PORT"]),
];

/// A part of a path; `None` where no launcher names the job. One that `torchrun` starts in a step of Slurm has both names.
pub fn job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    const MOST_CHARACTERS: usize = 120;
    let variable = |name: &&str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let mut words = Vec::new();
    for (word, names) in JOBS {
        // `torchrun` says `none` where it was given no name.
        if names.first().and_then(variable).is_some_and(|first| first != "none") {
            words.push(word.to_owned());
            words.extend(names.iter().filter_map(variable));
        }
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._@-".contains(c) { c } else { '_' };
    let name: String = words.join("-").chars().map(plain).take(MOST_CHARACTERS).collect();
    (!name.is_empty()).then_some(name)
}

/// `lazyguard run` takes one value more.
pub const ON_HANG: &str = "LAZYGUARD_ON_HANG";

/// `lazyguard run` takes one value more.
pub const ON_STALL: &str = "LAZYGUARD_ON_STALL";

/// `lazyguard run` takes its option also without a value.
pub const GPU_DUMP: &str = "LAZYGUARD_GPU_DUMP";

/// `lazyguard run` takes its option also without a value.
pub const PROFILE: &str = "LAZYGUARD_PROFILE";

/// A row: field and type, variable, option, values, default, reader of a value, help.
macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $name:expr, $flag:expr, $values:expr, $default:expr, $read:expr, $help:expr;)+) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($field: default_of($name, $default, $read),)+ }
            }
        }

        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            flag: $flag,
            values: $values,
            default: $default,
            help: $help,
            apply: |settings, value| {
                let read: fn(&str) -> Option<$type> = $read;
                settings.$field = read(value)?;
                Some(())
            },
        },)+];
    };
}

/// No folder that a user can name.
const PRIVATE_FOLDER: &str = "a private folder, removed at a clean exit without a hang";

settings! {
    enabled: bool = "LAZYGUARD", "--guard", "on, off", "on", switch,
        "off: the guard leaves every call untouched, and records, loads and watches nothing";
    preload: Policy = "LAZYGUARD_PRELOAD", "--preload", "off, resolve, auto, eager", "auto",
        |v| one_of(v, &[("off", Policy::Off), ("resolve", Policy::Resolve), ("auto", Policy::Auto), ("eager", Policy::Eager)]),
        "which functions the guard loads before the program first launches them";
    budget_kernels: u64 = "LAZYGUARD_PRELOAD_KERNELS", "--preload-kernels", "a count", "8192", count,
        "the most kernels preloaded under `resolve` and `auto`";
    budget_nanos: u64 = "LAZYGUARD_PRELOAD_TIME", "--preload-time", "a duration: 500ms, 2s, 1m", "500ms", duration,
        "the most time that preloading may take";
    budget_share_percent: u64 = "LAZYGUARD_PRELOAD_SHARE", "--preload-share", "a percentage: 2, 100", "2", percent,
        "the most time, in percent of the run, that preloading may take after a context's creation; the rest is loaded later";
    budget_bytes: u64 = "LAZYGUARD_PRELOAD_MEMORY", "--preload-memory", "a size: 64MiB, 1GiB", "128MiB", size,
        "the most device memory that preloading may take";
    least_free_percent: u64 = "LAZYGUARD_PRELOAD_FREE", "--preload-free", "a percentage: 10, 0", "10", percent,
        "under `resolve` and `auto`, a profile loads nothing ahead while less of the device's memory is free, in percent";
    nudge_fat_binaries: u64 = "LAZYGUARD_NUDGE", "--nudge", "a count; 0 is never", "32", count,
        "under `auto`, the most fat binaries of a CUDA runtime instance whose kernels are all loaded at start";
    defers_releases: bool = "LAZYGUARD_DEFER", "--defer", "off, free", "off", |v| one_of(v, &[("off", false), ("free", true)]),
        "free: a release of memory, a module or a library that would wait for work in flight returns at once, and is made once the context is idle";
    /// 0 is never.
    ready_after_nanos: u64 = "LAZYGUARD_READY_AFTER", "--ready-after", "a duration; 0 is never", "0", duration,
        "from when on a load is LG110, where the program does not call lazyguard_ready() itself";
    /// 0 is never.
    hang_after_nanos: u64 = "LAZYGUARD_HANG_AFTER", "--hang-after", "a duration; 0 or off is never", "30s",
        |v| if v == "off" { Some(0) } else { duration(v) },
        "how long a call may be blocked before the guard reports it: as HANG if it is a known deadlock, else as SLOW, and as HANG after three times as long";
    /// 0: no time at all.
    max_late_nanos: u64 = "LAZYGUARD_MAX_LATE", "--max-late", "a duration; 0 or off: no time at all", "10m",
        |v| if v == "off" { Some(0) } else { duration(v) },
        "how long a wait for another rank of the job is SLOW, and no hang, at most, while that rank moves: it computes, compiles, reads on, submits";
    on_hang: OnHang = ON_HANG, "--on-hang", "report, abort, exit:N with N from 0 to 255, command:COMMAND, fail, revoke", "report",
        on_hang,
        "what the guard does about a hang once it has reported it: nothing more; end the process by SIGABRT; end it with status N; have /bin/sh run COMMAND; have the blocked calls return error 719, which the program handles; revoke the communicators of NCCL that wait, and have the blocked calls return error 909. `lazyguard run` also takes kill: it ends every process that it has started";
    on_stall: OnHang = ON_STALL, "--on-stall", "report, abort, exit:N with N from 0 to 255, command:COMMAND", "report",
        |v| on_hang(v).filter(|action| !action.ends_waits()),
        "what the guard does about a process once it has reported it as STALLED, by the actions of LAZYGUARD_ON_HANG; no call is blocked that could fail. `lazyguard run` also takes kill";
    gpu_dump: GpuDump = GPU_DUMP, "--gpu-dump", "on, full, off", "off", gpu_dump,
        "on: before a hanging program is ended (abort, exit:N, fail, revoke, kill), the driver writes where the device's threads stand into the run folder, as gpu.core; full: with shared memory";
    gpu_dump_wait_nanos: u64 = "LAZYGUARD_GPU_DUMP_WAIT", "--gpu-dump-wait", "a duration: 500ms, 10s", "10s", duration,
        "the most time that the guard waits for gpu.core before it goes on without";
    /// `None` is a private folder.
    out: Option<String> = "LAZYGUARD_OUT", "--out", "a folder; %h host, %p process, %r rank, %t start time in seconds, %% a percent sign", PRIVATE_FOLDER,
        |v| Some((v != PRIVATE_FOLDER).then(|| v.to_owned())),
        "the run folder, which the guard keeps";
    /// `None` is none.
    profile: Option<String> = PROFILE, "--profile", "a folder, or off", "off", |v| Some((v != "off").then(|| v.to_owned())),
        "the folder of the program's profile, in which a run notes the modules that it loads, so that the guard loads them ahead in the next run; lazyguard run chooses one in the user's cache";
    /// 0 is none.
    record_bytes: u64 = "LAZYGUARD_RECORD", "--record", "a size from 1MiB to 64GiB, or off", "16MiB", record_bytes,
        "the size of the recording in the run folder, on disk and in memory; the guard allocates it as a whole, and new records overwrite the oldest";
    log: LogLevel = "LAZYGUARD_LOG", "--log", "off, hazard, load, launch", "load",
        |v| one_of(v, &[("off", LogLevel::Off), ("hazard", LogLevel::Hazard), ("load", LogLevel::Load), ("launch", LogLevel::Launch)]),
        "what the guard writes into the log in the run folder: hazards; also loads and calls that blocked; also launches, synchronizations, memory operations and host functions";
    /// `None` is none.
    schedule: Option<String> = "LAZYGUARD_SCHEDULE", "--schedule", "a file of lazyguard explore, or off", "off",
        |v| Some((v != "off").then(|| v.to_owned())),
        "the calls before which the guard holds threads, as `lazyguard explore` found that they hang the program";
    summary: bool = "LAZYGUARD_SUMMARY", "--summary", "on, off", "off", switch,
        "at exit, write to standard error what the guard preloaded and skipped, and why";
}

fn default_of<T>(name: &str, default: &str, read: fn(&str) -> Option<T>) -> T {
    read(default).unwrap_or_else(|| unreachable!("{name} has an unusable default"))
}

/// Thresholds until a wait counts as a hang that has no known pattern, or may still end.
const PATIENCE: u64 = 3;

const LOOK_EVERY: u64 = 1_500_000_000;
const LEAST_LOOK_EVERY: u64 = 250_000_000;
/// The pause of the log's thread, one of the watchdog's, and the time for a snapshot.
const SEES_AFTER: u64 = 500_000_000;
/// A rank that lacks a processor sees the marker so many times later.
const NOTICES: u64 = 3;

impl Settings {
    /// The threshold of a hang; the default one where the guard does not look for hangs.
    pub fn threshold_nanos(&self) -> u64 {
        match self.hang_after_nanos {
            0 => Self::default().hang_after_nanos,
            threshold => threshold,
        }
    }

    /// Whether the processes of a job ask each other before one of them calls its wait for the others a hang.
    pub fn waits_for_late_ranks(&self) -> bool {
        self.hang_after_nanos > 0 && self.max_late_nanos > 0
    }

    /// How long such a wait stands still until it counts as a hang.
    pub fn patience_nanos(&self) -> u64 {
        self.threshold_nanos().saturating_mul(PATIENCE)
    }

    /// How often a process of a job reads the job's marker: a hang is seen within two seconds, and sooner where the threshold is shorter.
    pub fn marker_nanos(&self) -> u64 {
        match self.hang_after_nanos {
            0 => LOOK_EVERY,
            threshold => (threshold / 4).clamp(LEAST_LOOK_EVERY, LOOK_EVERY),
        }
    }

    /// How long at most a process of a job waits, once it has said what it revokes: the other ranks read the marker, have their calls wait, and acknowledge that.
    /// One without the guard never does.
    pub fn notice_nanos(&self) -> u64 {
        (self.marker_nanos() + SEES_AFTER) * NOTICES
    }

    /// Reads the settings from the environment's pairs; with a line for each unusable name or value.
    pub fn read<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> (Self, Vec<String>) {
        let mut settings = Self::default();
        let mut complaints = Vec::new();
        for (name, value) in pairs.filter(|(name, _)| *name == "LAZYGUARD" || name.starts_with("LAZYGUARD_")) {
            if hang_variable::ALL.contains(&name) || [RUN_ROOT, RUN_OTHER_USERS, RUN_KILLS, RUN_PROFILE].contains(&name)
            {
                // Set for `LAZYGUARD_ON_HANG` commands, which may start a guarded program or `lazyguard run`.
                continue;
            }
            let value = value.trim();
            let Some(setting) = SETTINGS.iter().find(|s| s.name == name) else {
                let known: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
                complaints.push(format!("unknown setting {name} (known: {})", known.join(", ")));
                continue;
            };
            if value.contains(char::REPLACEMENT_CHARACTER) {
                // That character stands for bytes that are no text. A folder with it in its name would be another one.
                complaints.push(format!("{name}={value:?} is not usable (it is not UTF-8); using {}", setting.default));
                continue;
            }
            // An empty value is how shells and job systems say "not set".
            if !value.is_empty() && (setting.apply)(&mut settings, value).is_none() {
                let Setting { values, default, .. } = setting;
                complaints.push(format!("{name}={value:?} is not usable (values: {values}); using {default}"));
            }
            if let (Some(field), "LAZYGUARD_OUT") = (unknown_field(value), name) {
                complaints.push(unknown_field_complaint(&format!("{name}={value:?}"), &field));
            }
        }
        (settings, complaints)
    }
}

fn percent(text: &str) -> Option<u64> {
    text.trim_end_matches('%').parse().ok().filter(|&percent| percent <= 100)
}

fn count(value: &str) -> Option<u64> {
    value.parse().ok()
}

fn one_of<T: Copy>(value: &str, all: &[(&str, T)]) -> Option<T> {
    all.iter().find(|(name, _)| *name == value).map(|(_, one)| *one)
}

fn record_bytes(value: &str) -> Option<u64> {
    match value {
        "off" => Some(0),
        _ => size(value).filter(|bytes| (1 << 20..=MOST_RECORD_BYTES).contains(bytes)),
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn gpu_dump(value: &str) -> Option<GpuDump> {
    let of_switch = |on| if on { GpuDump::Threads } else { GpuDump::Off };
    one_of(value, &[("full", GpuDump::Full)]).or_else(|| switch(value).map(of_switch))
}

fn on_hang(value: &str) -> Option<OnHang> {
    use OnHang::{Abort, Fail, Report, Revoke};
    match value.split_once(':') {
        None => {
            let known = [("report", Report), ("abort", Abort), ("fail", Fail), ("revoke", Revoke)];
            known.into_iter().find(|(name, _)| *name == value).map(|(_, one)| one)
        }
        // A sign would be parsed as well.
        Some(("exit", status)) if status.bytes().all(|b| b.is_ascii_digit()) => status.parse().ok().map(OnHang::Exit),
        Some(("command", command)) => {
            Some(command.trim()).filter(|c| !c.is_empty()).map(|c| OnHang::Command(c.to_owned()))
        }
        _ => None,
    }
}

/// Nanoseconds: a whole or decimal number and a unit, seconds without one. The crates for this demand a unit, or also take sums or dates.
pub fn duration(value: &str) -> Option<u64> {
    let (number, unit) = value.split_at(value.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(value.len()));
    let nanos = match unit.trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" | "" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let total = (number.parse::<f64>().ok()? * nanos).round();
    // The next number above the largest of 64 bits.
    (total < u64::MAX as f64).then_some(total as u64)
}

/// A number, and `KiB`, `MiB` or `GiB` (also `K`, `M`, `G`).
pub fn size(value: &str) -> Option<u64> {
    let (number, unit) = value.split_at(value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len()));
    let scale: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "KB" | "KiB" => 1 << 10,
        "M" | "MB" | "MiB" => 1 << 20,
        "G" | "GB" | "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn every_default_in_the_table_is_usable() {
        let s = Settings::default();
        assert_eq!((s.hang_after_nanos, s.budget_kernels), (30_000_000_000, 8192));
        assert_eq!((s.budget_nanos, s.budget_bytes), (500_000_000, 128 << 20));
        assert_eq!((s.preload, s.log, s.enabled), (Policy::Auto, LogLevel::Load, true));
        assert_eq!(s.record_bytes, 16 << 20);
    }

    #[test]
    fn each_policy_has_its_name() {
        for (value, expect) in [
            ("off", Some(Policy::Off)),
            ("resolve", Some(Policy::Resolve)),
            ("auto", Some(Policy::Auto)),
            ("eager", Some(Policy::Eager)),
            ("auto,", None),
            ("off,danger=modules", None),
        ] {
            let (settings, complaints) = Settings::read([("LAZYGUARD_PRELOAD", value)].into_iter());
            assert_eq!(complaints.is_empty().then_some(settings.preload), expect, "{value}");
        }
    }

    #[test]
    fn units_are_understood() {
        for (text, expect) in [
            ("30s", Some(30_000_000_000)),
            ("2", Some(2_000_000_000)),
            ("250ms", Some(250_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("2m", Some(120_000_000_000)),
            ("1.5", Some(1_500_000_000)),
            ("250us", Some(250_000)),
            ("7ns", Some(7)),
            ("20 ms", Some(20_000_000)),
            ("3min", Some(180_000_000_000)),
            ("2h", Some(7_200_000_000_000)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            (".", None),
            ("-1s", None),
            ("ten", None),
            ("1.2.3", None),
            ("5 parsecs", None),
            ("1e400s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(duration(text), expect, "{text}");
        }
        for (text, expect) in [("64MiB", Some(64 << 20)), ("1G", Some(1 << 30)), ("12", Some(12)), ("1TB", None)] {
            assert_eq!(size(text), expect, "{text}");
        }
    }

    #[test]
    fn what_is_done_on_a_hang_is_understood() {
        let command = |text: &str| Some(OnHang::Command(text.to_owned()));
        for (text, expect) in [
            ("report", Some(OnHang::Report)),
            ("abort", Some(OnHang::Abort)),
            ("fail", Some(OnHang::Fail)),
            ("revoke", Some(OnHang::Revoke)),
            ("exit:0", Some(OnHang::Exit(0))),
            ("exit:255", Some(OnHang::Exit(255))),
            ("command:kill -9 $LAZYGUARD_HANG_PID; echo a:b", command("kill -9 $LAZYGUARD_HANG_PID; echo a:b")),
            ("command: true", command("true")),
            ("exit", None),
            ("exit:", None),
            ("exit:256", None),
            ("exit:-1", None),
            ("exit:+1", None),
            ("exit:7s", None),
            ("command:", None),
            ("command: ", None),
            ("command", None),
            ("abort:", None),
            ("fail:", None),
            ("Abort", None),
            ("kill", None),
        ] {
            assert_eq!(on_hang(text), expect, "{text}");
        }
    }

    #[test]
    fn what_a_command_was_told_of_another_hang_is_no_setting() {
        let (settings, complaints) = Settings::read(hang_variable::ALL.map(|name| (name, "4242")).into_iter());
        assert_eq!((settings, complaints), (Settings::default(), Vec::new()));
    }

    #[test]
    fn an_unusable_value_is_one_line_and_the_default() {
        let (settings, complaints) = Settings::read(
            [
                ("PATH", "/bin"),
                ("LAZYGUARD_PRELOAD", "everything"),
                ("LAZYGUARD_TYPO", "1"),
                ("LAZYGUARDIAN", "somebody else's"),
                ("LAZYGUARD_LOG", ""),
                ("LAZYGUARD_HANG_AFTER", " 2s "),
            ]
            .into_iter(),
        );
        assert_eq!(settings.preload, Policy::Auto);
        assert_eq!(settings.hang_after_nanos, 2_000_000_000);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("everything") && complaints[0].contains("resolve"));
        assert!(complaints[1].contains("LAZYGUARD_TYPO"));
        assert!(complaints.iter().all(|c| !c.contains('\n')));
    }

    #[test]
    fn a_folder_whose_name_is_no_text_is_not_used_under_another_name() {
        let name = String::from_utf8_lossy(b"/profiles/\xff");
        let (settings, complaints) =
            Settings::read([("LAZYGUARD_PROFILE", &*name), ("LAZYGUARD_OUT", &*name)].into_iter());
        assert_eq!(settings, Settings::default());
        assert!(complaints.len() == 2 && complaints.iter().all(|line| line.contains("not UTF-8")), "{complaints:?}");
    }

    #[test]
    fn a_field_that_is_none_is_found_and_complained_of_once() {
        for (template, expect) in [
            ("/out/%h/%p-%r-%t-%%", None),
            ("", None),
            ("/out/%q/%z", Some("%q")),
            ("100%", Some("%")),
            ("%%%", Some("%")),
            ("%%q", None),
        ] {
            assert_eq!(unknown_field(template).as_deref(), expect, "{template}");
        }
        let (settings, complaints) = Settings::read([("LAZYGUARD_OUT", "/out/%q")].into_iter());
        assert_eq!(settings.out.as_deref(), Some("/out/%q"));
        assert!(complaints.len() == 1 && complaints[0].contains("has %q"), "{complaints:?}");
    }

    #[test]
    fn a_literal_folder_comes_out_of_the_template_as_it_was() {
        let facts = FolderFacts { host: "node7", process: 42, rank: None, start_seconds: 99 };
        for folder in ["/out/100%", "/out/%p", "/plain", "/%%"] {
            assert_eq!(expand_folder(&literal_folder(folder), &facts), folder);
        }
    }

    #[test]
    fn what_processes_have_in_common_ends_before_the_first_part_that_differs() {
        for (template, common) in [
            ("/out/rank%r-%p", "/out"),
            ("/out/%h/x/%p", "/out"),
            ("/out", "/out"),
            ("/100%%/a%%p/%p", "/100%/a%p"),
            ("/%t", "/"),
            ("out/%%%p", "out"),
            ("rank%r", ""),
        ] {
            assert_eq!(common_folder(template), PathBuf::from(common), "{template}");
        }
    }

    #[test]
    fn a_job_has_the_names_that_its_launchers_give_it() {
        let job = |variables: &[(&str, &str)]| {
            job(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(job(&[("RANK", "3"), ("MASTER_PORT", "29500"), ("SLURM_JOB_ID", "")]), None);
        let step = [("SLURM_JOB_ID", "17"), ("SLURM_STEP_ID", "0")];
        assert_eq!(job(&step).as_deref(), Some("slurm-17-0"));
        let torch = [("TORCHELASTIC_RUN_ID", "none"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500")];
        assert_eq!(job(&[&step[..], &torch].concat()).as_deref(), Some("slurm-17-0-master-node7-29500"));
        assert_eq!(job(&[("PMIX_NAMESPACE", "../prterun@1")]).as_deref(), Some("pmix-.._prterun@1"));
        assert_eq!(job(&[("PMIX_NAMESPACE", &"x".repeat(999))]).map(|name| name.len()), Some(120));
    }

    #[test]
    fn the_rank_is_the_first_that_is_told() {
        let told = |pairs: &'static [(&str, &str)]| {
            rank(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[("PMI_RANK", "5"), ("SLURM_PROCID", "3")]).as_deref(), Some("3"));
        assert_eq!(told(&[("RANK", ""), ("PMIX_RANK", "1")]).as_deref(), Some("1"));
        assert_eq!(told(&[("RANK", "../3")]).as_deref(), Some(".._3"));
    }

    #[test]
    fn every_setting_has_an_option_of_its_own() {
        for (n, setting) in SETTINGS.iter().enumerate() {
            assert!(
                setting.flag.starts_with("--") && setting.takes(setting.default) || setting.name == "LAZYGUARD_OUT"
            );
            assert!(SETTINGS[..n].iter().all(|other| other.flag != setting.flag), "{}", setting.flag);
        }
    }

    #[test]
    fn folder_templates_are_filled_in() {
        let facts = FolderFacts { host: "node7", process: 42, rank: Some("3"), start_seconds: 99 };
        for (template, expect) in
            [("/out/%h/%p-%r-%t", "/out/node7/42-3-99"), ("plain", "plain"), ("100%%", "100%"), ("%q%", "%q%")]
        {
            assert_eq!(expand_folder(template, &facts), expect);
        }
        let unranked = FolderFacts { rank: None, ..facts };
        assert_eq!(expand_folder("%r", &unranked), "0");
    }
}
