//! The known state of a process at this moment, on request: one block of text, or one JSON object.
//!
//! A verdict here is about what is in progress now, for however short a time, so the text carries a reservation.

use super::{Block, Detail, HangReport, SCHEMA};
use crate::api::{counted, lasted};
use crate::diagnose::messages::time;
use crate::diagnose::Code;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Calls listed without a verdict; the JSON form has them all.
const MOST_CALLS: usize = 32;

/// The known state, as `dump.json` holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpReport {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// The number of the answered request, or of the newest one before a hang elsewhere in the job.
    pub request: u64,
    /// The threshold `LAZYGUARD_HANG_AFTER`, in nanoseconds; 0 is never.
    pub hang_after_nanos: Nanos,
    /// Driver calls.
    pub calls: u64,
    /// Launches among them.
    pub launches: u64,
    /// When `lazyguard run` last asked, to fail the blocked calls or to end the process after the answer.
    #[serde(default)]
    pub told_at: Option<Nanos>,
    /// Every call in progress, busy stream and wait; the verdicts if none of it ends.
    pub hang: HangReport,
}

/// Whether the process is ended after the request.
pub const fn is_last(request: u64) -> bool {
    request & 1 == 1
}

/// Whether it also asks a process with `LAZYGUARD_ON_HANG=fail` to fail its blocked calls, because another process of the run hangs.
pub const fn fails(request: u64) -> bool {
    request & 3 == 3
}

/// Whether it also says that the program is ready.
pub const fn marks_ready(request: u64) -> bool {
    request & 3 == 2
}

impl DumpReport {
    /// `hang` is of a snapshot whose threshold every call in progress is past.
    pub fn new(request: u64, hang_after_nanos: Nanos, (calls, launches): (u64, u64), hang: HangReport) -> Self {
        let mut dump = Self { schema: SCHEMA, request, hang_after_nanos, calls, launches, told_at: None, hang };
        if !dump.is_past_the_threshold() {
            dump.hang.verdicts.retain(|verdict| verdict.code != Code::LG299);
        }
        dump
    }

    /// The time after which the process's calls are a consequence of the run's end. They say nothing of the hang.
    ///
    /// By the process's own clock, as the times of its calls are: no margin is needed. A process whose calls were failed may go on, and answers again
    /// when another hang is reported.
    pub fn ends_at(&self) -> Option<Nanos> {
        let told_at = self.told_at.filter(|_| is_last(self.request))?;
        Some(if fails(self.request) { self.hang.snapshot.at } else { told_at })
    }

    fn longest(&self) -> Nanos {
        self.hang.snapshot.blocked.iter().map(|call| call.blocked_nanos).max().unwrap_or(0)
    }

    fn is_past_the_threshold(&self) -> bool {
        self.hang_after_nanos != 0 && self.longest() >= self.hang_after_nanos
    }

    pub fn text(&self) -> Block {
        let snapshot = &self.hang.snapshot;
        let mut block = Block::default();
        block.push(&format!(
            "{} at {}: {}, {} so far; {} in progress, {}",
            self.hang.who(snapshot.at),
            time(snapshot.at),
            counted(self.calls, "driver call"),
            counted(self.launches, "launch"),
            counted(snapshot.blocked.len() as u64, "call"),
            counted(snapshot.streams.len() as u64, "busy stream")
        ));
        if !self.hang.verdicts.is_empty() {
            let blocked = self.hang.blocked_in();
            block.push(&match self.hang_after_nanos {
                _ if self.is_past_the_threshold() => format!("HANG: {blocked}"),
                0 => format!(
                    "{blocked}; hangs are not looked for (LAZYGUARD_HANG_AFTER=0). If it is stuck, this is why:"
                ),
                after => format!(
                    "{blocked}; a hang is reported after {} (LAZYGUARD_HANG_AFTER). If it is stuck, this is why:",
                    lasted(after)
                ),
            });
            // Its first line is replaced by this block's.
            self.hang.lines(None, Detail::Short).iter().skip(1).for_each(|line| block.push(line));
            return block;
        }
        block.push(match snapshot.blocked.is_empty() {
            true => "nothing is blocked: no thread is in a driver call",
            false => "calls in progress, none of which is known to be stuck:",
        });
        for call in snapshot.blocked.iter().take(MOST_CALLS) {
            self.hang.blocked_call(&[call]).iter().for_each(|line| block.push(line));
        }
        if snapshot.blocked.len() > MOST_CALLS {
            block.push(&format!("  and {} more", snapshot.blocked.len() - MOST_CALLS));
        }
        match snapshot.streams.is_empty() {
            true => block.push("no stream has work outstanding"),
            false => self.hang.outstanding().iter().for_each(|line| block.push(line)),
        }
        Detail::Short.of(self.hang.stack_lines(Detail::Short)).iter().for_each(|line| block.push(line));
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Call, StreamKind};
    use crate::diagnose::{BlockedCall, BusyStream, OperationSeen, Origin, Snapshot, StreamRef};
    use crate::report::PreloadSummary;

    const SECOND: Nanos = 1_000_000_000;

    fn stream() -> StreamRef {
        StreamRef { number: 1, handle: 0x51, kind: StreamKind::Blocking, context: 0xc0 }
    }

    /// A call on a busy stream, in progress for so long.
    fn in_progress(nanos: Nanos) -> Snapshot {
        let call = BlockedCall {
            thread: 100,
            thread_name: "main".to_owned(),
            call: Call::from("cuStreamSynchronize".to_owned()),
            entered: 5 * SECOND - nanos,
            blocked_nanos: nanos,
            past_threshold: true,
            context: 0xc0,
            stream: Some(stream()),
            function: None,
            cold: None,
            queries: None,
            event_recorded: None,
            no_entry: false,
            compiles: false,
            computes: None,
            alone_nanos: 0,
            error: None,
            sets_aside: false,
            is_guards: false,
            origin: Origin::default(),
        };
        let launch = Call::from("cuLaunchKernel".to_owned());
        let oldest = OperationSeen::new(7, launch, Some("_Z4spinv".to_owned()), Origin::default());
        let busy = BusyStream {
            stream: stream(),
            oldest,
            last_submitted: 9,
            submitted: 3,
            operations: Vec::new(),
            outstanding: 3,
            timed: 3,
            all_recorded: true,
            moved: 0,
            answered_busy: 0,
            asked: None,
            destroyed: false,
        };
        Snapshot { at: 5 * SECOND, threshold_nanos: 1, blocked: vec![call], streams: vec![busy], ..Snapshot::default() }
    }

    fn dump(snapshot: Snapshot, after: Nanos) -> DumpReport {
        let hang = HangReport::new(42, "train", None, snapshot, PreloadSummary::default());
        DumpReport::new(77, after, (12, 3), hang)
    }

    #[test]
    fn what_nothing_explains_is_a_verdict_only_past_the_threshold() {
        for (nanos, after, code) in
            [(SECOND, 2 * SECOND, None), (3 * SECOND, 0, None), (3 * SECOND, 2 * SECOND, Some(Code::LG299))]
        {
            let dump = dump(in_progress(nanos), after);
            assert_eq!(dump.hang.verdicts.first().map(|v| v.code), code, "{nanos} of {after}");
            let text = dump.text().as_str().to_owned();
            assert!(text.starts_with("pid 42 (train) at +5.000 s: 12 driver calls, 3 launches so far; 1 call in"));
            assert!(text.contains("thread 100 \"main\" in cuStreamSynchronize on stream 1 for "), "{text}");
            assert!(
                text.contains("stream 1 (0x51, created with default flags): cuLaunchKernel of spin since +0.000 s"),
                "{text}"
            );
            assert_eq!(text.contains("LG299"), code.is_some(), "{text}");
            assert!(text.lines().all(|line| !line.starts_with("lazyguard: ")), "{text}");
        }
    }

    #[test]
    fn nothing_blocked_is_an_answer() {
        let idle = Snapshot { blocked: Vec::new(), ..in_progress(0) };
        let text = dump(idle.clone(), SECOND).text().as_str().to_owned();
        assert!(text.contains("1 busy stream\nnothing is blocked: ") && text.contains("stream 1 (0x51"), "{text}");
        let text = dump(Snapshot { streams: Vec::new(), ..idle }, SECOND).text().as_str().to_owned();
        assert!(text.ends_with("no stream has work outstanding\n"), "{text}");
    }

    /// A process whose calls have failed may go on until the next hang.
    #[test]
    fn the_calls_after_the_runs_request_are_a_consequence_of_it() {
        let (report, end, fail) = (76, 77, 79);
        for (request, told_at, ends_at) in [
            (end, None, None),
            (report, Some(SECOND), None),
            (end, Some(SECOND), Some(SECOND)),
            (fail, Some(SECOND), Some(5 * SECOND)),
        ] {
            let dump = DumpReport { request, told_at, ..dump(in_progress(SECOND), SECOND) };
            assert_eq!(dump.ends_at(), ends_at, "{request} {told_at:?}");
        }
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let dump = dump(in_progress(3 * SECOND), SECOND);
        assert_eq!(serde_json::from_str::<DumpReport>(&crate::report::json(&dump)).unwrap(), dump);
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&dump)).unwrap();
        assert_eq!((&value["request"], &value["hang"]["verdicts"][0]["code"]), (&77.into(), &"LG299".into()));
    }
}
