//! A recording in words: the hang or the calls in progress, how the process ended, and how much was recorded.

use super::records::Printer;
use crate::folder::Recorded;
use crate::words::{utc, write_line, Format, Output, Took};
use lazyguard_core::api::counted;
use lazyguard_core::diagnose::{ends_of, Status};
use lazyguard_core::report::{Detail, HangReport, Outcome};
use lazyguard_core::trace::layout::VERSION;
use lazyguard_core::Nanos;
use std::io;

const MOST_THREADS: usize = 16;

/// A call that has been in progress for this long may be stuck, in a process that is alive.
const SUSPICIOUS_NANOS: Nanos = 1_000_000_000;

fn some<'a>(counts: &'a [(u64, &'static str)]) -> impl Iterator<Item = &'a (u64, &'static str)> {
    counts.iter().filter(|(count, _)| *count > 0)
}

impl Recorded {
    pub(crate) fn write_standstill(&self, detail: Detail, out: &mut Output<'_>) -> io::Result<()> {
        let after = self.settings.hang_after_nanos;
        let longest = self.snapshot.blocked.first().map_or(0, |call| call.blocked_nanos);
        let mut snapshot = self.snapshot.clone();
        if self.opened.alive && longest >= SUSPICIOUS_NANOS {
            snapshot = self.builder.snapshot(&self.opened.recording, SUSPICIOUS_NANOS, self.settings.patience_nanos());
        }
        let when = if self.opened.alive { "" } else { " when it was last seen" };
        let mut hang = self.hang(snapshot);
        self.opened.callers().name_in(&mut hang);
        if hang.status != Status::Well {
            if after == 0 || longest < after && !self.stands_at_rest(&hang.snapshot) {
                let has = if self.opened.alive { "has" } else { "had" };
                let for_as_long = Took(longest);
                let (what, waits) = match self.snapshot.blocked.first().is_some_and(|call| call.queries.is_some()) {
                    true => ("a thread", "asking the same"),
                    false => ("a call", "in progress"),
                };
                let reported = match after {
                    0 => "hangs are not looked for (LAZYGUARD_HANG_AFTER=0)".to_owned(),
                    after => format!("a hang is reported after {} (LAZYGUARD_HANG_AFTER)", Took(after)),
                };
                write_line!(
                    out,
                    "SUSPECTED {}: {what} {has} been {waits} for {for_as_long}{when}; {reported}. If it is stuck, this is why:",
                    hang.who(self.snapshot.at)
                )?;
                out.lines(hang.lines(None, detail).iter().skip(1))?;
            } else {
                out.lines(hang.lines(None, detail))?;
            }
            return write_line!(out, "");
        }
        if self.opened.state() == "ended" {
            return Ok(());
        }
        out.lines(self.snapshot.unwatched().iter().map(|line| format!("{line}{when}")))?;
        if self.snapshot.blocked.is_empty() {
            write_line!(out, "no driver call was in progress{when}; the last record of each thread:")?;
            self.write_newest(out)?;
            return write_line!(out, "");
        }
        write_line!(out, "calls in progress{when}:")?;
        let mut printer = self.printer(out);
        for call in self.opened.calls_in_progress() {
            printer.print_after("  ", &call)?;
        }
        match self.snapshot.streams.is_empty() {
            true => write_line!(out, "no stream had work outstanding that these could wait for")?,
            false => out.lines(hang.outstanding())?,
        }
        write_line!(out, "")
    }

    pub(crate) fn write_what_became_of(&self, hang: &HangReport, out: &mut Output<'_>) -> io::Result<()> {
        if self.newest(hang).is_some() {
            return Ok(());
        }
        let own = ends_of(&self.opened.recording, hang.waited_in());
        let told = HangReport { ends: own.unwrap_or_else(|_| hang.ends.clone()), ..hang.clone() };
        let became = match told.outcome() {
            Outcome::Revoked => {
                "the collectives of this hang were revoked (LAZYGUARD_ON_HANG=revoke): the context works on"
            }
            Outcome::FailedOnPurpose => {
                "this hang was failed on purpose (LAZYGUARD_ON_HANG=fail): the driver has ended its work"
            }
            _ => "this hang is over: none of these calls was in progress when the process was last seen",
        };
        write_line!(out, "{became}")?;
        out.lines(told.ends_in_words().iter().map(|end| format!("  {end}")))
    }

    fn write_newest(&self, out: &mut Output<'_>) -> io::Result<()> {
        let mut newest: Vec<_> = self.newest.values().collect();
        newest.sort_by_key(|entry| (entry.record.entered, entry.thread_number));
        let passed = newest.len().saturating_sub(MOST_THREADS);
        let mut printer = self.printer(out);
        for entry in &newest[passed..] {
            printer.print_after("  ", entry)?;
        }
        match passed {
            _ if newest.is_empty() => write_line!(out, "  there is none"),
            0 => Ok(()),
            _ => write_line!(out, "  and {}, whose last records are older", counted(passed as u64, "more thread")),
        }
    }

    fn printer<'a, 'o>(&'a self, out: &'a mut Output<'o>) -> Printer<'a, 'o> {
        Printer::new(&self.opened, Format::Text, out)
    }

    /// The state of the process; `known` is how it was cut off, where the guard knows it.
    pub(crate) fn how_it_ended(&self, known: Option<String>) -> String {
        let facts = self.opened.recording.facts();
        let rank = self.opened.recording.rank();
        let rank = if rank.is_empty() { rank } else { format!(", rank {rank}") };
        let host = if facts.host.is_empty() { String::new() } else { format!(" on {}", facts.host) };
        let last = self.snapshot.at.max(facts.last_seen);
        let ended = known.filter(|_| self.opened.was_cut_off()).unwrap_or_else(|| self.opened.end_in_words());
        let (at, when) = (last as f64 / 1e9, utc(facts.armed_unix_nanos.saturating_add(last)));
        format!("{} (process {}{rank}{host}) {ended}; last seen at +{at:.3} s ({when})", facts.program, facts.process)
    }

    pub(crate) fn write_account(&self, out: &mut Output<'_>) -> io::Result<()> {
        let recording = &self.opened.recording;
        let facts = recording.facts();
        let (path, mebibytes) = (self.opened.path.display(), facts.file_bytes as f64 / f64::from(1 << 20));
        let versions = format!("format {}, LazyGuard {}, driver {}", VERSION, facts.lazyguard, facts.driver_version);
        write_line!(out, "recording: {path} ({mebibytes:.1} MiB, {versions})")?;
        // Numbers of threads are given out in order, and never twice.
        let threads = self.opened.recording.threads().iter().map(|thread| thread.number).max().unwrap_or(0);
        let (calls, launches) = recording.calls_and_launches();
        let (calls, launches) = (counted(calls, "driver call"), counted(launches, "launch"));
        write_line!(out, "  {calls}, {launches} in {}", counted(threads, "thread"))?;
        for summary in recording.lanes() {
            let lane = crate::words::names::lane_name(summary.lane);
            let lost = [
                (summary.overwritten, "older ones were overwritten"),
                (summary.dropped, "were dropped because every segment was in use"),
            ];
            let lost: String = some(&lost).map(|(count, what)| format!("; {count} {what}")).collect();
            write_line!(out, "  {lane}: {}{lost}", counted(summary.present, "record"))?;
        }
        let lost = [
            (facts.without_entry, "threads, contexts or streams found no room in the tables"),
            (facts.texts_lost, "names found no room"),
            (recording.unknown_records(), "records are of a kind that this build does not know"),
        ];
        out.lines(some(&lost).map(|(count, what)| format!("  {count} {what}")))?;
        if recording.defect_count() > 0 {
            let count = counted(recording.defect_count(), "part");
            write_line!(out, "  {count} of it cannot be read and left out:")?;
            out.lines(recording.defects().iter().take(8).map(|defect| format!("    {defect}")))?;
        }
        Ok(())
    }
}
