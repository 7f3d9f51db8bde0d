//! The facts about one process: the model that every form of report shows.

use super::collectives::Collectives;
use super::communications::Communications;
use super::shared::Shared;
use super::stood::{asks_to_end, Course, Stood};
use super::writers;
use crate::folder::{gpu_core, Opened, ProcessEnd, Run};
use crate::machine::parallel;
use crate::stacks;
use crate::stacks::SourceLine;
use lazyguard_core::evidence::Evidence;
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::Hazard;
use lazyguard_core::report::{DumpReport, HangReport, Newest, StackSeen, Summary};
use lazyguard_core::Nanos;
use std::path::PathBuf;
use std::sync::OnceLock;

pub(crate) struct HazardSeen {
    pub hazard: Hazard,
    pub line: Option<SourceLine>,
}

#[derive(Default)]
pub(crate) struct Process {
    pub folder: PathBuf,
    pub recording: Option<PathBuf>,
    pub name: String,
    pub process: u32,
    pub program: String,
    pub rank: String,
    pub host: String,
    /// When its times begin; 0 where that is not known.
    pub armed_unix_nanos: u64,
    /// The time that it was seen under the guard.
    pub nanos: u64,
    pub driver_version: i32,
    pub ended: String,
    pub stood: Option<Stood>,
    pub newest: Option<Newest>,
    pub course: Course,
    pub end: Option<ProcessEnd>,
    pub summary: Option<Summary>,
    pub hazards: Vec<HazardSeen>,
    /// Whether those are all that it met, as far as was recorded.
    pub knows_hazards: bool,
    pub is_read: bool,
    pub collectives: Option<Collectives>,
    pub communications: Option<Communications>,
    pub shared: Option<Shared>,
    pub dump: Option<DumpReport>,
    /// Its activity on the host, at the hang or before the run ended it; of a living process, now.
    pub evidence: Option<Evidence>,
    /// Whether it runs on this machine.
    pub lives: bool,
    pub launches: u64,
    pub has_ended: bool,
    pub names: OnceLock<Names>,
    /// The core dump of the GPU in its folder.
    pub gpu: Option<Result<GpuCore, String>>,
    pub problems: Vec<String>,
}

/// The names in a process's hang, which take a tenth of a second, and what else of it takes time to read.
#[derive(Default)]
pub(crate) struct Names {
    pub report: Option<HangReport>,
    pub stacks: Vec<StackSeen>,
}

impl Process {
    /// The names in its hang. They are looked up when they are first asked for: of a hundred ranks with the same hang, one is printed.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| self.look_up(|| self.opened()))
    }

    /// Its recording, opened again. One that cannot be opened now was reported before.
    pub fn opened(&self) -> Option<Opened> {
        let recording = self.recording.as_deref()?;
        let run = Run::find_quietly(if self.folder.as_os_str().is_empty() { recording } else { &self.folder });
        run.and_then(|run| run.open()).ok().flatten()
    }

    pub fn recorded(processes: &[Self]) -> Vec<&Self> {
        let mut recorded: Vec<_> = processes.iter().filter(|process| process.recording.is_some()).collect();
        recorded.sort_by_key(|process| process.number_in_job());
        recorded
    }

    pub fn number_in_job(&self) -> (u64, u32) {
        (self.rank.parse().unwrap_or(u64::MAX), self.process)
    }

    /// Looks up the names in the hangs of all of these processes, for a form of output that has them all.
    pub fn name_all(processes: &[Self]) {
        parallel::each(processes, |process| {
            process.names();
        });
    }

    pub fn look_up(&self, opened: impl FnOnce() -> Option<Opened>) -> Names {
        let Some(report) = self.stood.as_ref().map(Stood::report) else { return Names::default() };
        let dumped = stacks::of_folder(&self.folder, Some(report)).and_then(Result::ok);
        let stacks = dumped.unwrap_or_else(|| report.stacks.clone());
        let mut named = stacks::told_by(report, &stacks);
        if let Some(opened) = opened() {
            opened.callers().name_in(&mut named);
        }
        Names { report: Some(named), stacks }
    }

    /// Takes the core dump of the GPU in its folder, which may give its verdicts another code.
    pub fn take_gpu_core(&mut self, reported: Option<&mut HangReport>, opened: impl FnOnce() -> Option<Opened>) {
        self.gpu = gpu_core::of_folder(&self.folder);
        let Some(Ok(core)) = &mut self.gpu else { return };
        if let Some(opened) = opened() {
            writers::tell(core, &opened);
        }
        let stood = self.stood.as_mut().map(Stood::report_mut);
        stood.into_iter().chain(reported).for_each(|report| core.sharpen(&mut report.verdicts));
    }

    /// Why not all of the core dump of the GPU can be read.
    pub fn gpu_problem(&self) -> Option<String> {
        match self.gpu.as_ref()? {
            Ok(core) => core.defect_lines().next().map(|why| format!("the core dump of the GPU: {why}")),
            Err(why) => Some(gpu_core::unreadable(why)),
        }
    }

    pub fn gpu_lines(&self) -> Vec<String> {
        let hang = self.stood.as_ref().map(Stood::report);
        self.gpu.as_ref().map_or_else(Vec::new, |core| gpu_core::lines(core, hang))
    }

    pub fn title(&self) -> String {
        let program = if self.program.is_empty() { "a program" } else { &self.program };
        match self.rank.as_str() {
            "" => format!("{program} (process {})", self.process),
            rank => format!("{program} (process {}, rank {rank})", self.process),
        }
    }

    pub fn hang(&self) -> Option<&HangReport> {
        match &self.stood {
            Some(Stood::Hang(report) | Stood::Over(report)) if report.stands() => Some(report),
            _ => None,
        }
    }

    /// Waits for ranks that are late, and may come: no hang yet.
    pub fn waits_for_late_ranks(&self) -> Option<&HangReport> {
        match &self.stood {
            Some(Stood::Slow(report)) if report.snapshot.late.is_some() => Some(report),
            _ => None,
        }
    }

    /// Hangs, or waits for late ranks.
    pub fn is_held_up(&self) -> bool {
        self.hang().is_some() || self.waits_for_late_ranks().is_some()
    }

    pub fn word(&self) -> &'static str {
        self.stood.as_ref().map_or(self.course.word(), Stood::word)
    }

    pub fn met(&self) -> usize {
        self.hazards.iter().filter(|seen| !seen.hazard.prevented && seen.hazard.counts()).count()
    }

    /// When the run told it to end, or to fail its calls: what it does after that is a consequence. By its own word; a process without a processor may not
    /// have answered before the run's signal.
    pub fn ends_at(&self) -> Nanos {
        let told = self.end.and_then(|end| end.told_unix_ns).filter(|_| self.armed_unix_nanos != 0);
        let told = told.map(|told| told.saturating_sub(self.armed_unix_nanos));
        let answered = self.dump.as_ref().and_then(DumpReport::ends_at);
        answered.into_iter().chain(told).min().unwrap_or(Nanos::MAX)
    }

    /// Whether it has launched anything, or called NCCL, after its answer to the newest request for a report. Polling does not count, nor does what
    /// comes after the run has told it to end.
    pub fn went_on_after_its_dump(&self) -> bool {
        let Some(dump) = &self.dump else { return true };
        if dump.ends_at().is_some() {
            return false;
        }
        let newest_call = self.communications.as_ref().and_then(Communications::newest_call);
        self.launches > dump.launches || newest_call.is_some_and(|at| at > dump.hang.snapshot.at)
    }

    /// Whether it is gone without an orderly end, which neither a hang of its own nor the run explains. Other ranks may wait for it.
    pub fn has_crashed(&self) -> bool {
        let crashed = match self.course {
            Course::Signalled(signal) => !asks_to_end(signal),
            course => course == Course::Unknown && self.has_ended,
        };
        crashed && self.hang().is_none()
    }

    pub fn order(&self) -> (bool, u8, u8, bool, u64, &str) {
        let stood = self.stood.as_ref().map_or(u8::MAX, Stood::place);
        let course = match self.course {
            Course::Signalled(_) => 0,
            Course::Unknown => 1,
            Course::Killed => 2,
            Course::Well => 3,
        };
        (!self.has_crashed(), stood, course, self.met() == 0, self.rank.parse().unwrap_or(u64::MAX), &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{hang_report, recording};
    use std::path::Path;

    #[test]
    fn a_process_that_could_not_answer_was_told_to_end_by_the_signal() {
        let end = |told_unix_ns| ProcessEnd {
            process: 7,
            start_ticks: None,
            exit_code: None,
            signal: Some(9),
            ended_by_run: true,
            stopped: false,
            at_unix_ns: 900,
            told_unix_ns,
        };
        let ended = |armed_unix_nanos, told| Process { armed_unix_nanos, end: Some(end(told)), ..Process::default() };
        assert_eq!(ended(100, Some(800)).ends_at(), 700);
        assert_eq!([ended(0, Some(800)), ended(100, None)].map(|process| process.ends_at()), [Nanos::MAX; 2]);
        let hang = hang_report(&recording("1", true), Path::new(""));
        let answered = |told_at| {
            let dump = DumpReport { told_at: Some(told_at), ..DumpReport::new(1, 1, (0, 0), hang.clone()) };
            Process { dump: Some(dump), ..ended(100, Some(800)) }.ends_at()
        };
        assert_eq!([answered(600), answered(750)], [600, 700], "whichever came first");
    }
}
