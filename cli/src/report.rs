//! `lazyguard report`: what is known of a run, from its folder or from the process that is still running.
//!
//! A hang is told from the live report where there is one, else from the recording, by the same code. What the process was
//! doing when it was last seen is always there, because it is in the recording before the call is made.

use crate::findings;
use crate::log::{self, Printer, Took};
use crate::names::Names;
use crate::source::{Opened, Run, RECORDING};
use crate::timing;
use crate::{stacks, Failure, Outcome};
use lazyguard_core::diagnose::{diagnose, Diagnosis, Gathering, Snapshot, Standing};
use lazyguard_core::hazard::Hazard;
use lazyguard_core::report::{Account, HangReport, PreloadAccount, StackSeen};
use lazyguard_core::settings::Settings;
use lazyguard_core::trace::read::{Entry, ThreadSeen, ThreadState};
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;
use serde_json::{json, Value};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Threads that are listed; the JSON form has them all.
const MOST_THREADS: usize = 16;

/// Records kept for what a report may name.
const MOST_NAMED: usize = 1 << 12;

/// A call that has been in progress for this long may be stuck, in a process that is alive.
const SUSPICIOUS_NANOS: Nanos = 1_000_000_000;

/// How a report of one process is written.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// For a program: one JSON object.
    Json,
}

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, a run folder, or a folder that holds those of several processes.
    #[arg(value_name = "PID|FOLDER")]
    what: PathBuf,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: findings::Format,
    /// Print the hazards: the deadlocks that did not happen this time.
    #[arg(long, conflicts_with_all = ["cold_start", "blocking"])]
    hazards: bool,
    /// Which of the hazards somebody has looked at and wants to hear no more of.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    suppress: Vec<PathBuf>,
    /// Which of the hazards are known: what `lazyguard run` wrote as a baseline.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    timing: timing::Arguments,
}

/// Everything that a run left behind.
struct Found {
    folder: Option<PathBuf>,
    hang: Option<HangReport>,
    run: Option<Account>,
    log: Option<PathBuf>,
    recorded: Option<Recorded>,
    hazards: Result<Vec<Hazard>, Failure>,
    /// The stacks that were kept when a hang was reported.
    stacks: Option<Result<Vec<StackSeen>, String>>,
}

/// What the recording tells.
pub(crate) struct Recorded {
    opened: Opened,
    gathering: Gathering,
    snapshot: Snapshot,
    diagnosis: Diagnosis,
    settings: Settings,
    preload: PreloadAccount,
    /// The newest record of each thread, by the thread's number.
    newest: HashMap<u32, Entry>,
    /// Records of what a report may name: what is outstanding the longest, and loads on first use.
    named: Vec<Entry>,
}

/// Prints the report of a run.
pub(crate) fn report(arguments: &Arguments) -> Outcome {
    let Arguments { what, format, hazards, suppress, baseline, timing } = arguments;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if *hazards {
        findings::report_hazards(what, *format, suppress, baseline.as_deref(), &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = match format {
        findings::Format::Text => Format::Text,
        findings::Format::Json => Format::Json,
        findings::Format::Sarif | findings::Format::Junit => {
            return Err(Failure::Input("this format is of the hazards alone: say --hazards".to_owned()));
        }
    };
    if timing.wanted() {
        drop(out);
        return timing::report(what, timing, format);
    }
    let run = Run::find(what)?;
    if run.process.is_none() && !findings::is_process_folder(what) && findings::holds_processes(what) {
        findings::report_all(what, format, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = report_one(run, format, &mut out);
    out.flush()?;
    outcome
}

/// Prints the report of one process.
fn report_one(run: Run, format: Format, out: &mut impl Write) -> Outcome {
    let (mut hang, mut account, mut log) = (None, None, None);
    if let Some(folder) = &run.folder {
        hang = hang_in(folder)?;
        account = read(folder, "run.json")?;
        log = Some(folder.join("log.jsonl")).filter(|log| log.exists());
        if hang.is_none() && account.is_none() && log.is_none() && !findings::is_process_folder(folder) {
            return Err(Failure::Input(format!(
                "{}: not a run folder: no hang.json, run.json, log.jsonl or {RECORDING}",
                folder.display()
            )));
        }
    }
    // A recording that cannot be read keeps nobody from the rest; where there is no rest, it is all there is to say.
    let (recorded, unreadable) = match run.open().and_then(|opened| opened.map(Recorded::read).transpose()) {
        Ok(recorded) => (recorded, None),
        Err(failure) if hang.is_none() && account.is_none() && log.is_none() => return Err(failure),
        Err(failure) => (None, Some(failure)),
    };
    let hazards = findings::hazards_in(run.folder.as_deref(), recorded.as_ref().map(Recorded::opened));
    let stacks = run.folder.as_deref().and_then(|folder| stacks::of_folder(folder, hang.as_ref()));
    let found = Found { folder: run.folder, hang, run: account, log, recorded, hazards, stacks };
    match format {
        Format::Json => writeln!(out, "{:#}", found.json())?,
        Format::Text => found.write_text(out)?,
    }
    unreadable.map_or(Ok(ExitCode::SUCCESS), Err)
}

impl Found {
    fn json(&self) -> Value {
        let recording = self.recorded.as_ref().map(Recorded::json);
        let stacks = self.stacks.as_ref().and_then(|stacks| stacks.as_ref().ok());
        let hazards = self.hazards.as_ref().ok();
        json!({ "hang": self.hang, "run": self.run, "recording": recording, "stacks": stacks, "hazards": hazards })
    }

    /// What the guard did that ended the process, where it did, in the account's words.
    fn ended_by_the_guard(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.ended.as_str()).filter(|ended| ended.starts_with("ended by"))
    }

    fn write_text(&self, out: &mut impl Write) -> Result<(), Failure> {
        match (&self.hang, &self.recorded) {
            (Some(hang), recorded) => {
                match &self.stacks {
                    Some(Ok(stacks)) => write_hang(out, &stacks::told_by(hang, stacks), 0)?,
                    Some(Err(unreadable)) => {
                        write_hang(out, hang, 0)?;
                        writeln!(out, "the stacks cannot be told in full: {unreadable}")?;
                    }
                    None => write_hang(out, hang, 0)?,
                }
                if let Some(recorded) = recorded {
                    recorded.write_what_became_of(hang, out)?;
                }
                writeln!(out)?;
            }
            (None, Some(recorded)) => recorded.write_standstill(out)?,
            (None, None) => {}
        }
        if let Some(recorded) = &self.recorded {
            writeln!(out, "{}", recorded.how_it_ended(self.ended_by_the_guard()))?;
        }
        match &self.run {
            // How it ended has been said where there is a recording.
            Some(run) => {
                let said = self.recorded.as_ref().and(self.ended_by_the_guard());
                let lines = run.lines();
                lines.iter().filter(|line| Some(line.as_str()) != said).try_for_each(|line| writeln!(out, "{line}"))?;
            }
            None => writeln!(out, "no account: the program did not end in an orderly way, or still runs")?,
        }
        match &self.hazards {
            Ok(hazards) => hazards.iter().flat_map(findings::lines_of).try_for_each(|line| writeln!(out, "{line}"))?,
            Err(unreadable) => writeln!(out, "the hazards cannot be told: {unreadable}")?,
        }
        match &self.recorded {
            Some(recorded) => recorded.write_account(out)?,
            None => writeln!(
                out,
                "no recording: it was kept in memory and went with the process (a private folder on a disk, a file system in a \
                 network), or LAZYGUARD_RECORD is off"
            )?,
        }
        if let Some(log) = &self.log {
            writeln!(out, "log: {}", log.display())?;
        }
        if let (Some(folder), Some(_)) = (&self.folder, &self.recorded) {
            writeln!(out, "records: lazyguard log {0}, or lazyguard export {0} --to perfetto", folder.display())?;
        }
        Ok(())
    }
}

/// The block that the live report has on standard error, without its first lines, and what its words of confidence mean.
fn write_hang(out: &mut impl Write, hang: &HangReport, without: usize) -> io::Result<()> {
    let text = hang.text() + &hang.python_text();
    text.lines()
        .skip(without)
        .try_for_each(|line| writeln!(out, "{}", line.strip_prefix("lazyguard: ").unwrap_or(line)))?;
    let mut words: Vec<_> = hang.verdicts.iter().map(|verdict| verdict.confidence).collect();
    words.sort_unstable();
    words.dedup();
    words.iter().try_for_each(|word| writeln!(out, "{} means: {}", word.name(), word.meaning()))
}

/// What stands or stood still, as the recording alone tells it.
pub(crate) struct StoodStill {
    /// The report that the process would have made.
    pub report: HangReport,
    /// Whether it had lasted for as long as a live report waits; else it is only suspected.
    pub long_enough: bool,
}

impl Recorded {
    pub(crate) fn read(opened: Opened) -> Result<Self, Failure> {
        let texts = opened.recording.texts();
        let settings = opened.settings();
        let mut preload = PreloadAccount {
            policy: PreloadAccount::policy_name(settings.preload),
            notes: texts.notes().iter().map(|note| note.text.clone()).collect(),
            ..PreloadAccount::default()
        };
        let mut gathering = Gathering::new(&opened.recording);
        let mut newest = HashMap::new();
        let mut named = Vec::new();
        let outstanding: HashSet<_> = gathering.outstanding().collect();
        opened.each_record(|entry| {
            gathering.see(entry);
            let Record { kind, entered, stream, .. } = entry.record;
            let loads = matches!(kind, Kind::ColdFunction | Kind::ColdModule);
            if named.len() < MOST_NAMED && kind.is_call() && (loads || outstanding.contains(&(stream, entered))) {
                named.push(*entry);
            }
            if entry.record.kind == Kind::Preload {
                preload.kernels += entry.record.extent & 0xffff_ffff;
                preload.nanos = preload.nanos.saturating_add(entry.record.took());
            } else {
                newest.insert(entry.thread_number, *entry);
            }
            Ok(())
        })?;
        let snapshot = opened.standstill(&mut gathering);
        let diagnosis = diagnose(&snapshot);
        Ok(Self { opened, gathering, snapshot, diagnosis, settings, preload, newest, named })
    }

    fn json(&self) -> Value {
        let facts = self.opened.recording.facts();
        let accounts = self.opened.recording.accounts();
        let sum = |of: fn(&lazyguard_core::trace::read::LaneAccount) -> u64| -> u64 {
            accounts.iter().map(of).fold(0, u64::saturating_add)
        };
        let lanes: Vec<_> = accounts
            .iter()
            .map(|account| {
                json!({
                    "lane": crate::names::lane_name(account.lane),
                    "present": account.present,
                    "overtaken": account.overtaken,
                    "dropped": account.dropped,
                })
            })
            .collect();
        let threads: Vec<_> = self
            .threads()
            .map(|thread| {
                json!({
                    "number": thread.number,
                    "thread": thread.thread,
                    "name": thread.name,
                    "state": thread_state(thread),
                    "calls": thread.calls,
                    "launches": thread.launches,
                })
            })
            .collect();
        let defects = self.opened.recording.defects().iter();
        json!({
            "format_version": facts.version,
            "file": self.opened.path,
            "bytes": facts.file_bytes,
            "process": facts.process,
            "program": facts.program,
            "host": facts.host,
            "rank": facts.rank,
            "driver_version": facts.driver_version,
            "lazyguard": facts.lazyguard,
            "state": self.opened.state(),
            "alive": self.opened.alive,
            "armed_unix_ns": facts.armed_unix_nanos,
            "last_seen_ns": facts.last_seen,
            "calls": self.calls(),
            "launches": self.launches(),
            "records": {
                "written": sum(|account| account.written()),
                "present": sum(|account| account.present),
                "overtaken": sum(|account| account.overtaken),
                "dropped": sum(|account| account.dropped),
            },
            "lanes": lanes,
            "threads": threads,
            "defects": defects.map(ToString::to_string).collect::<Vec<_>>(),
            "snapshot": self.snapshot,
            "standing": self.diagnosis.standing,
            "verdicts": self.diagnosis.verdicts,
            "slow": self.diagnosis.slow,
        })
    }

    fn threads(&self) -> impl Iterator<Item = &ThreadSeen> {
        self.opened.recording.threads().iter()
    }

    fn calls(&self) -> u64 {
        self.threads().map(|thread| thread.calls).fold(self.opened.recording.facts().former_calls, u64::saturating_add)
    }

    fn launches(&self) -> u64 {
        self.threads()
            .map(|thread| thread.launches)
            .fold(self.opened.recording.facts().former_launches, u64::saturating_add)
    }

    /// What it was read from.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What stood still when the process was last seen; `None` where nothing did.
    pub(crate) fn stood_still(&self) -> Option<StoodStill> {
        if self.diagnosis.standing == Standing::Well {
            return None;
        }
        let after = self.settings.hang_after_nanos;
        let longest = self.snapshot.blocked.first().map_or(0, |call| call.blocked_nanos);
        Some(StoodStill { report: self.hang(self.snapshot.clone()), long_enough: after != 0 && longest >= after })
    }

    /// The hang, as the live report would have told it.
    fn hang(&self, snapshot: Snapshot) -> HangReport {
        let facts = self.opened.recording.facts();
        HangReport::new(facts.process, &facts.program, None, snapshot, self.preload.clone())
    }

    /// What stood still when the process was last seen.
    fn write_standstill(&self, out: &mut impl Write) -> io::Result<()> {
        let after = self.settings.hang_after_nanos;
        let longest = self.snapshot.blocked.first().map_or(0, |call| call.blocked_nanos);
        let mut snapshot = self.snapshot.clone();
        if self.opened.alive && longest >= SUSPICIOUS_NANOS {
            snapshot =
                self.gathering.snapshot(&self.opened.recording, SUSPICIOUS_NANOS, self.settings.patience_nanos());
        }
        let when = if self.opened.alive { "" } else { " when it was last seen" };
        let hang = self.hang(snapshot);
        if hang.standing != Standing::Well {
            if after == 0 || longest < after {
                let has = if self.opened.alive { "has" } else { "had" };
                let for_as_long = Took(longest);
                write!(out, "SUSPECTED: a call {has} been in progress for {for_as_long}{when}; ")?;
                match after {
                    0 => write!(out, "hangs are not looked for (LAZYGUARD_HANG_AFTER=0)")?,
                    after => write!(out, "a hang is reported after {} (LAZYGUARD_HANG_AFTER)", Took(after))?,
                }
                writeln!(out, ". If it is stuck, this is why:")?;
                write_hang(out, &hang, 1)?;
            } else {
                write_hang(out, &hang, 0)?;
            }
            self.write_callers(out)?;
            return writeln!(out);
        }
        if self.opened.state() == "ended" {
            return Ok(());
        }
        if self.snapshot.blocked.is_empty() {
            writeln!(out, "no driver call was in progress{when}; the last record of each thread:")?;
            self.write_newest(out)?;
            return writeln!(out);
        }
        writeln!(out, "calls in progress{when}:")?;
        let mut printer = self.printer(&mut *out);
        for call in self.opened.calls_in_progress() {
            printer.print_after("  ", &call)?;
        }
        match self.snapshot.streams.is_empty() {
            true => writeln!(out, "no stream had work outstanding that these could wait for")?,
            false => hang.outstanding().iter().try_for_each(|line| writeln!(out, "{line}"))?,
        }
        writeln!(out)
    }

    /// Whether a hang that was reported live has lasted, and where its calls were made.
    fn write_what_became_of(&self, hang: &HangReport, out: &mut impl Write) -> io::Result<()> {
        let now = &self.snapshot.blocked;
        let lasts = |thread: u32, entered: Nanos| now.iter().any(|c| c.thread == thread && c.entered == entered);
        let blocked = &hang.snapshot.blocked;
        let lasting = blocked.iter().any(|call| lasts(call.thread, call.entered));
        if hang.resolved.is_none() && (lasting || blocked.is_empty()) {
            self.write_callers(out)
        } else {
            writeln!(out, "this hang is over: none of these calls was in progress when the process was last seen")
        }
    }

    /// Where the calls in progress were made, and the calls behind which they stand.
    fn write_callers(&self, out: &mut impl Write) -> io::Result<()> {
        let mut callers = self.opened.callers();
        let mut lines = Vec::new();
        for call in self.opened.calls_in_progress().iter().filter(|call| call.record.caller != 0) {
            let from = callers.name_or_address(call.record.caller);
            lines.push(format!("thread {} in {}: {from}", call.thread, call.record.form.symbol()));
        }
        let mut names = Names::new(self.opened.recording.texts());
        let behind: HashSet<_> = self.snapshot.loads.iter().map(|load| load.at).collect();
        let streams = self.snapshot.streams.iter().map(|busy| (busy.stream.number, busy.oldest.at));
        let outstanding: HashSet<_> = streams.collect();
        for Entry { record, .. } in &self.named {
            if record.caller == 0
                || !behind.contains(&record.entered) && !outstanding.contains(&(record.stream, record.entered))
            {
                continue;
            }
            let from = callers.name_or_address(record.caller);
            let of = names.function_of(record).map(|name| format!(" of {name}")).unwrap_or_default();
            let on = if record.stream == 0 { String::new() } else { format!(" on stream {}", record.stream) };
            let at = record.entered as f64 / 1e9;
            lines.push(format!("{}{of}{on} at +{at:.3} s: {from}", record.form.symbol()));
        }
        if !lines.is_empty() {
            writeln!(out, "called from:")?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
    }

    /// The last record of each thread, the newest last.
    fn write_newest(&self, out: &mut impl Write) -> io::Result<()> {
        let mut newest: Vec<_> = self.newest.values().collect();
        newest.sort_by_key(|entry| (entry.record.entered, entry.thread_number));
        let passed = newest.len().saturating_sub(MOST_THREADS);
        let mut printer = self.printer(&mut *out);
        for entry in &newest[passed..] {
            printer.print_after("  ", entry)?;
        }
        match (passed, newest.is_empty()) {
            (_, true) => writeln!(out, "  there is none"),
            (0, _) => Ok(()),
            (passed, _) => writeln!(out, "  and {passed} more threads, whose last records are older"),
        }
    }

    fn printer<'a, W: Write>(&'a self, out: W) -> Printer<'a, W> {
        Printer::new(&self.opened, log::Format::Text, out)
    }

    /// How the process stands; `by_the_guard` is what the account says of an end that the guard has made.
    fn how_it_ended(&self, by_the_guard: Option<&str>) -> String {
        let facts = self.opened.recording.facts();
        let rank = if facts.rank.is_empty() { String::new() } else { format!(", rank {}", facts.rank) };
        let host = if facts.host.is_empty() { String::new() } else { format!(" on {}", facts.host) };
        let last = self.snapshot.at.max(facts.last_seen);
        format!(
            "{} (process {}{rank}{host}) {}; last seen at +{:.3} s ({})",
            facts.program,
            facts.process,
            match by_the_guard.filter(|_| self.opened.was_cut_off()) {
                Some(ended) => format!("was {ended}"),
                None => self.opened.state_in_words(),
            },
            last as f64 / 1e9,
            utc(facts.armed_unix_nanos.saturating_add(last))
        )
    }

    fn write_account(&self, out: &mut impl Write) -> io::Result<()> {
        let recording = &self.opened.recording;
        let facts = recording.facts();
        writeln!(
            out,
            "recording: {} ({:.1} MiB, format {}, LazyGuard {}, driver {})",
            self.opened.path.display(),
            facts.file_bytes as f64 / f64::from(1 << 20),
            facts.version,
            facts.lazyguard,
            facts.driver_version
        )?;
        // Numbers of threads are given out in order, and never twice.
        let threads = self.threads().map(|thread| thread.number).max().unwrap_or(0);
        writeln!(out, "  {} driver calls, {} launches in {threads} thread(s)", self.calls(), self.launches())?;
        for account in recording.accounts() {
            let lane = crate::names::lane_name(account.lane);
            let mut line = format!("  {lane}: {} records", account.present);
            for (count, what) in [
                (account.overtaken, "older ones were overtaken"),
                (account.dropped, "were dropped because every segment was in use"),
            ] {
                if count > 0 {
                    line.push_str(&format!("; {count} {what}"));
                }
            }
            writeln!(out, "{line}")?;
        }
        for (count, what) in [
            (facts.without_entry, "threads, contexts or streams found no room in the tables"),
            (facts.texts_lost, "names found no room"),
            (recording.unknown_records(), "records are of a kind that this build does not know"),
        ] {
            if count > 0 {
                writeln!(out, "  {count} {what}")?;
            }
        }
        if recording.defect_count() > 0 {
            writeln!(out, "  {} thing(s) in it make no sense, and were passed over:", recording.defect_count())?;
            recording.defects().iter().take(8).try_for_each(|defect| writeln!(out, "    {defect}"))?;
        }
        Ok(())
    }
}

fn thread_state(thread: &ThreadSeen) -> &'static str {
    match thread.state {
        ThreadState::Alive => "alive",
        ThreadState::Ended => "ended",
        ThreadState::Free => "free",
        ThreadState::Unknown(_) => "unknown",
    }
}

/// A moment on the wall, from nanoseconds since 1970.
pub(crate) fn utc(unix_nanos: u64) -> String {
    let seconds = unix_nanos / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Years are counted from March, so that the day that leap years have comes last.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The hang that the watchdog has reported, if it has one.
pub(crate) fn hang_in(folder: &Path) -> Result<Option<HangReport>, Failure> {
    read(folder, "hang.json")
}

/// A file of a run folder; `None` where it is not there.
pub(crate) fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let path = folder.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Input(format!("{}: {error}", path.display()))),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        for (seconds, expect) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000), expect);
        }
    }
}
