//! One run of a job, bare or under `lazyguard run`, until it has ended or is stuck.

use crate::job::Job;
use crate::joined::Joined;
use crate::play::{player, Mode, THRESHOLD};
use crate::truth::Truth;
use lazyguard_e2e::{command, report_of, Json, Outcome, Run, Running, Work};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// As for a program; the run ends the job some seconds after its verdict.
const VERDICT: Duration = Duration::from_secs(40);
const END: Duration = Duration::from_secs(60);
/// For so long a job that is stuck is looked at, and must not move.
const STAYS: Duration = Duration::from_millis(400);
const POLL: Duration = Duration::from_millis(25);
/// A rank that does something else than to wait is late, and no hang, for so long.
const MOST_LATE: &str = "3s";
/// The exit code of a run that ended its program for a hang.
pub const ENDED_FOR_HANG: i32 = 117;

/// The outcome of a run.
#[derive(Debug)]
pub struct Played<'j> {
    /// That it was stuck at some time.
    pub stuck: Option<Joined<'j>>,
    /// The longest call of a job whose ranks have all ended, in milliseconds.
    pub completed: Option<u64>,
    /// How the shell of the ranks ended, or the run; without an exit code where it was stopped.
    pub outcome: Outcome,
    /// What the command says of the folder of the run.
    pub report: Json,
    /// That a job moved that was said to be stuck: the oracle is wrong.
    pub moved: bool,
}

impl Played<'_> {
    /// The job's end, as it can be compared.
    pub fn end(&self) -> (Option<i32>, Vec<&str>) {
        (self.outcome.code, self.outcome.sorted_stdout())
    }
}

/// A job in a working folder.
#[derive(Debug)]
pub struct Stage<'w> {
    work: &'w Work,
    job: &'w Job,
}

impl<'w> Stage<'w> {
    /// # Panics
    ///
    /// If the folder cannot be written to.
    pub fn new(work: &'w Work, job: &'w Job) -> Self {
        for (rank, program) in job.ranks.iter().enumerate() {
            let text = work.path().join(format!("program.{rank}"));
            fs::write(&text, program.to_string()).unwrap_or_else(|error| panic!("{}: {error}", text.display()));
        }
        Self { work, job }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn truth(&self, rank: usize) -> PathBuf {
        self.path(&format!("truth.{rank}"))
    }

    /// A shell that starts the ranks and waits for them. It fails where one of them does.
    fn script(&self) -> String {
        let members =
            self.job.comms.iter().map(|comm| comm.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        let members = members.collect::<Vec<_>>().join(" ");
        let (player, shared, folder) = (player(), self.path("shared"), self.work.path().display());
        format!(
            "export WORLD_SIZE={ranks}; processes=; failed=0; for rank in $(seq 0 {last}); do RANK=$rank '{player}' '{folder}/program.'$rank \
             '{folder}/truth.'$rank '{shared}' {members} & processes=\"$processes $!\"; done; \
             for process in $processes; do wait $process || failed=1; done; exit $failed",
            ranks = self.job.ranks.len(),
            last = self.job.ranks.len() - 1,
            player = player.display(),
            shared = shared.display(),
        )
    }

    /// Without the files of an earlier run.
    fn clear(&self) {
        let _ = fs::remove_dir_all(self.path("run"));
        let _ = fs::remove_file(self.path("shared"));
        for rank in 0..self.job.ranks.len() {
            let _ = fs::remove_file(self.truth(rank));
        }
    }

    /// Without the guard.
    pub fn bare(&self) -> Played<'w> {
        self.clear();
        let running = Run::new(self.work, "sh").args(["-c", &self.script()]).start();
        self.until(running, |since| since > STAYS)
    }

    /// Under `lazyguard run`, which ends a job that hangs.
    pub fn guarded(&self, mode: Mode) -> Played<'w> {
        self.clear();
        let threshold = format!("{}ms", THRESHOLD.as_millis());
        let folder = self.path("run").to_string_lossy().into_owned();
        let common =
            ["--hang-after", &threshold, "--max-late", MOST_LATE, "--keep", "--record", "1MiB", "--out", &folder];
        let options = [&common[..], ends(mode)].concat();
        let run = Run::new(self.work, command()).args(["run"]).args(options).args(["--", "sh", "-c", &self.script()]);
        let run = mode.settings().iter().fold(run, |run, (name, value)| run.set(name, value));
        self.until(run.start(), |since| since > VERDICT)
    }

    /// Waits for its end, or until it has been stuck for long enough.
    fn until(&self, mut running: Running, is_enough: impl Fn(Duration) -> bool) -> Played<'w> {
        let begun = Instant::now();
        let mut stuck: Option<(Instant, Joined<'_>)> = None;
        while running.runs() {
            if stuck.is_none() {
                stuck =
                    self.read().and_then(|truths| Joined::of(self.job, truths)).map(|joined| (Instant::now(), joined));
            }
            match &stuck {
                Some((since, joined)) if is_enough(since.elapsed()) || !joined.in_a_call() => break,
                None if begun.elapsed() > END => break,
                _ => std::thread::sleep(POLL),
            }
        }
        let outcome = running.stop();
        let truths = self.read();
        let completed = truths.as_ref().and_then(|truths| longest(truths));
        let still = truths.and_then(|truths| Joined::of(self.job, truths));
        // The run ends a job that hangs, and its ranks may still move while it does.
        let moved = stuck.is_some() && still.is_none() && outcome.code != Some(ENDED_FOR_HANG);
        let run = self.path("run");
        let report = if run.is_dir() { report_of(&run) } else { Json::Null };
        Played { stuck: stuck.map(|(_, joined)| joined).or(still), completed, outcome, report, moved }
    }

    /// What all ranks have written.
    fn read(&self) -> Option<Vec<Truth>> {
        let ranks = self.job.ranks.iter().enumerate();
        ranks.map(|(rank, program)| Truth::parse(&fs::read_to_string(self.truth(rank)).ok()?, program)).collect()
    }
}

/// The first rank that hangs ends the job; where the guard observes only, each rank has its say before a timeout does.
fn ends(mode: Mode) -> &'static [&'static str] {
    match mode {
        Mode::Observes => &["--timeout", "12s", "--fail-on", "hang"],
        _ => &["--on-hang", "kill"],
    }
}

/// The longest call, where all ranks have ended.
fn longest(truths: &[Truth]) -> Option<u64> {
    let each = truths.iter().map(|truth| match truth {
        Truth::Completed { longest } => Some(*longest),
        Truth::Stuck(_) => None,
    });
    each.collect::<Option<Vec<_>>>()?.into_iter().max()
}
