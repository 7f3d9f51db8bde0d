//! One run of a program, bare or under the guard, until it has ended, or is stuck and has been reported.

use crate::orders::Orders;
use crate::program::Program;
use crate::truth::{Stuck, Truth};
use lazyguard_e2e::{command, target, Json, Outcome, Run, Running, Work};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The threshold that the guard is run with.
pub const THRESHOLD: Duration = Duration::from_millis(500);
/// The last verdict of a program that stands comes after ten thresholds (docs/HAZARDS.md), and the report of it a little later, on a busy machine much later.
const VERDICT: Duration = Duration::from_secs(25);
/// A program lasts for the sum of its kernels: some seconds, and on a busy machine many times that.
const END: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(25);

/// How the guard is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As it is by default.
    Default,
    /// It observes only.
    Observes,
    /// It loads what is resolved.
    Resolve,
    /// It loads everything ahead.
    Eager,
    /// It puts releases off.
    DefersReleases,
    /// Its second run under a profile.
    Profile,
    /// It makes hung calls fail.
    Fails,
    /// It ends a program that hangs.
    Aborts,
    /// It revokes communicators, of which there are none, and then makes hung calls fail.
    Revokes,
    /// `lazyguard run` ends a program that hangs.
    Kills,
    /// It counts what is loaded soon after the start as late.
    ReadySoon,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Default,
        Self::Observes,
        Self::Resolve,
        Self::Eager,
        Self::DefersReleases,
        Self::Profile,
        Self::Fails,
        Self::Aborts,
        Self::Revokes,
        Self::Kills,
        Self::ReadySoon,
    ];

    /// Its settings.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Default | Self::Profile | Self::Kills => &[],
            Self::Observes => &[("LAZYGUARD_PRELOAD", "off")],
            Self::Resolve => &[("LAZYGUARD_PRELOAD", "resolve")],
            Self::Eager => &[("LAZYGUARD_PRELOAD", "eager")],
            Self::DefersReleases => &[("LAZYGUARD_DEFER", "free")],
            Self::Fails => &[("LAZYGUARD_ON_HANG", "fail")],
            Self::Aborts => &[("LAZYGUARD_ON_HANG", "abort")],
            Self::Revokes => &[("LAZYGUARD_ON_HANG", "revoke")],
            Self::ReadySoon => &[("LAZYGUARD_READY_AFTER", "20ms")],
        }
    }

    /// Whether a hang has consequences for the program.
    pub fn acts(self) -> bool {
        matches!(self, Self::Fails | Self::Aborts | Self::Revokes | Self::Kills)
    }

    /// The mode of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| format!("{mode:?}").eq_ignore_ascii_case(name))
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Played {
    /// The truth; none where the program neither ended as it should nor was stuck.
    pub truth: Option<Truth>,
    /// How the process ended; without an exit code where it was stopped.
    pub outcome: Outcome,
    /// The guard's newest report.
    pub hang: Option<Json>,
    /// That a program moved that was said to be stuck: the oracle is wrong.
    pub moved: bool,
    /// The folder of the guard's files.
    pub out: PathBuf,
}

impl Played {
    /// The program's end, as it can be compared: exit code and standard output.
    pub fn end(&self) -> (Option<i32>, &str) {
        (self.outcome.code, &self.outcome.stdout)
    }

    /// The waits of a program that is stuck.
    pub fn stuck(&self) -> Option<&Stuck> {
        match &self.truth {
            Some(Truth::Stuck(stuck)) => Some(stuck),
            _ => None,
        }
    }

    /// The longest call of a program that has completed, in milliseconds.
    pub fn completed(&self) -> Option<u64> {
        match &self.truth {
            Some(Truth::Completed { longest }) => Some(*longest),
            _ => None,
        }
    }
}

/// Programs in a working folder.
#[derive(Debug)]
pub struct Stage<'w> {
    work: &'w Work,
    program: &'w Program,
    text: PathBuf,
}

impl<'w> Stage<'w> {
    /// # Panics
    ///
    /// If the folder cannot be written to.
    pub fn new(work: &'w Work, program: &'w Program) -> Self {
        let text = work.path().join("program");
        fs::write(&text, program.to_string()).unwrap_or_else(|error| panic!("{}: {error}", text.display()));
        Self { work, program, text }
    }

    fn run(&self, truth: &Path) -> Run<'w> {
        let _ = fs::remove_file(truth);
        Run::new(self.work, player()).args([self.text.as_os_str(), truth.as_os_str()])
    }

    /// Without the guard.
    pub fn bare(&self) -> Played {
        let truth = self.work.path().join("truth");
        let running = self.run(&truth).start();
        self.until(running, &truth, |_, _| true)
    }

    /// Without the guard, and without first uses.
    pub fn bare_and_loaded(&self) -> Played {
        let truth = self.work.path().join("truth");
        let running = self.run(&truth).set("CUDA_MODULE_LOADING", "EAGER").start();
        self.until(running, &truth, |_, _| true)
    }

    /// Without the guard, in orders from `first` on, until one of `count` is stuck in a driver call, or in all of them; none where the player has failed.
    pub fn orders(&self, first: u64, count: u64, all: bool) -> Option<Orders> {
        let truth = self.work.path().join("orders");
        let words = [first.to_string(), count.to_string()].into_iter().chain(all.then(|| "all".to_owned()));
        self.run(&truth).args(words).finish();
        let stuck = fs::read_to_string(truth.with_extension("stuck")).ok();
        Orders::parse(&fs::read_to_string(truth).ok()?, stuck.as_deref(), self.program)
    }

    /// By `lazyguard explore`, with the threshold that it takes by itself.
    pub fn explored(&self) -> Outcome {
        let truth = self.work.path().join("truth");
        Run::new(self.work, command())
            .args(["explore", "--runs", "40", "--within", "60s", "--seed", "1", "--replays", "4", "--"])
            .args([player().as_os_str(), self.text.as_os_str(), truth.as_os_str()])
            .finish()
    }

    /// Under the guard, until a report of a program that is stuck is `enough`, or none has come for long.
    pub fn guarded(&self, mode: Mode, enough: impl Fn(&Stuck, &Json, &Path) -> bool) -> Played {
        let truth = self.work.path().join("truth");
        if mode == Mode::Kills {
            return self.killed(&truth);
        }
        let run = |settings: &[(&str, &str)]| {
            let run =
                settings.iter().fold(self.run(&truth).guarded().kept(), |run, (name, value)| run.set(name, value));
            let run = run.hang_after(&format!("{}ms", THRESHOLD.as_millis()));
            if mode == Mode::Profile {
                run.set("LAZYGUARD_PROFILE", self.work.folder("profile"))
            } else {
                run
            }
        };
        if mode == Mode::Profile {
            let running = run(&[]).start();
            self.until(running, &truth, |_, _| true);
        }
        let running = run(mode.settings()).start();
        self.until(running, &truth, |stuck, running| {
            !stuck.in_a_call() || hang_in(&running.out()).is_some_and(|hang| enough(stuck, &hang, &running.out()))
        })
    }

    /// Under `lazyguard run`, until that has ended it.
    fn killed(&self, truth: &Path) -> Played {
        let _ = fs::remove_file(truth);
        let out = self.work.path().join("killed");
        let _ = fs::remove_dir_all(&out);
        let options = ["run", "--on-hang", "kill", "--kill-after", "0", "--keep", "--hang-after"];
        let threshold = format!("{}ms", THRESHOLD.as_millis());
        let running = Run::new(self.work, command())
            .args(options)
            .args([OsStr::new(&threshold), "--out".as_ref(), out.as_os_str(), "--".as_ref()])
            .args([player().as_os_str(), self.text.as_os_str(), truth.as_os_str()])
            .start();
        let played = self.until(running, truth, |stuck, _| !stuck.in_a_call());
        let process = process_in(&out).unwrap_or_default();
        Played { hang: hang_in(&process), out: process, ..played }
    }

    /// Waits for its end, or until it is stuck and that is enough.
    fn until(&self, mut running: Running, truth: &Path, enough: impl Fn(&Stuck, &Running) -> bool) -> Played {
        let begun = Instant::now();
        let mut stuck: Option<(Instant, Box<Stuck>)> = None;
        while running.runs() {
            if stuck.is_none() {
                if let Some(Truth::Stuck(waits)) = self.read(truth) {
                    stuck = Some((Instant::now(), waits));
                }
            }
            match &stuck {
                Some((since, waits)) if since.elapsed() > VERDICT || enough(waits, &running) => break,
                None if begun.elapsed() > END => break,
                _ => std::thread::sleep(POLL),
            }
        }
        let out = running.out();
        // One that the guard ended is stuck all the same.
        let truth_of_all = stuck.map(|(_, waits)| Truth::Stuck(waits)).or_else(|| self.read(truth));
        let outcome = running.stop();
        let moved = truth.with_extension("moved").exists();
        Played { truth: truth_of_all, outcome, hang: hang_in(&out), moved, out }
    }

    fn read(&self, truth: &Path) -> Option<Truth> {
        Truth::parse(&fs::read_to_string(truth).ok()?, self.program)
    }
}

/// # Panics
///
/// If it is not built.
pub(crate) fn player() -> PathBuf {
    let player = target().join("oracle/player");
    assert!(player.is_file(), "{} is not there; scripts/build --native makes it", player.display());
    player
}

/// The folder of the recorded process of a run.
fn process_in(out: &Path) -> Option<PathBuf> {
    if out.join("trace.lgt").is_file() {
        return Some(out.to_owned());
    }
    let within = fs::read_dir(out).ok()?.flatten().map(|entry| entry.path());
    within.filter(|path| path.is_dir()).find_map(|path| process_in(&path))
}

fn hang_in(out: &Path) -> Option<Json> {
    serde_json::from_slice(&fs::read(out.join("hang.json")).ok()?).ok()
}
