//! `lazyguard explore`: runs a program again and again, each time with another order of the calls whose order may matter, until it hangs.
//!
//! The first run is held nowhere. It says which calls there are, and how long the program takes: the holds of another run take no longer
//! in all. A schedule that hangs is made small and replayed, so that the report names the call that has to come late.
//!
//! | file | holds |
//! |---|---|
//! | `schedule` | a schedule, and the calls that a run made |
//! | `draw` | which schedule comes next |
//! | `inversions` | orders of collectives that ranks may have differently |
//! | `options` | what is asked for |
//! | `once` | one run |
//! | `reduce` | the fewest holds that hang |
//! | `told` | the result |
//!
//! Must not: call a program hanging that would pass by itself. The guard counts no time in which a thread is held, and the threshold is longer
//! than the bare run. A replay has to hang by the threshold of `lazyguard run`: a slow path may take longer than the bare run. A hang that comes
//! again in fewer than half of the replays is not counted.

mod draw;
mod inversions;
mod once;
mod options;
mod reduce;
mod schedule;
mod told;

use crate::judge::explored::Explored;
use crate::judge::seen::Hung;
use crate::machine::{files, unix_now};
use crate::run::{code_of, random, Caught, Tree};
use crate::words::output::{say, Progress};
use crate::words::{exit_code, shell_word, Failure, Outcome};
use draw::{aim, draw, Random};
use inversions::{inversions, Inversion};
use lazyguard_core::api::counted;
use lazyguard_core::run_folder::make_private;
use lazyguard_core::settings::Settings;
use lazyguard_core::Nanos;
use once::{Ran, Runner};
pub(crate) use options::Arguments;
use rustix::process::{getpid, set_child_subreaper};
use schedule::{Hold, Schedule};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) fn explore(arguments: Arguments) -> Outcome {
    let code = Explorer::new(arguments).and_then(|mut explorer| explorer.explore().or_else(|why| explorer.ended(why)));
    Ok(ExitCode::from(code.unwrap_or_else(|failure| {
        say(failure);
        exit_code::OWN_FAILURE
    })))
}

const LEAST_THRESHOLD: Nanos = 500_000_000;
/// The most runs that are kept though no hang was found by them.
const MOST_FAILED: usize = 3;
/// How often a program that hangs with no thread held is run again, until it hangs again.
const PLAIN_REPLAYS: u64 = 2;
const LEAST_TIMEOUT: Duration = Duration::from_secs(60);

struct Explorer {
    runner: Runner,
    arguments: Arguments,
    seed: u64,
    /// How long a call may be blocked in the runs that search.
    threshold: Nanos,
    timeout: Option<Duration>,
    since: Instant,
    /// The hazards of all runs by their keys, and whether a hang is about them.
    hazards: BTreeMap<String, bool>,
    /// The first run had these orders of collectives. The result lists them with the hazards.
    inversions: Vec<Inversion>,
    /// Schedules that a hazard or an inversion asks for.
    aims: Vec<Vec<Hold>>,
    progress: Progress,
    made: u64,
    /// Runs that failed without a hang, and hangs that do not count, a line each.
    failed: Vec<String>,
    /// How runs ended otherwise than the first one, and how many.
    otherwise: BTreeMap<String, u64>,
}

fn limits(threshold: Nanos, timeout: Option<Duration>) -> Vec<OsString> {
    let timeout = timeout.map(|time| ("--timeout", time.as_nanos()));
    let all = [("--hang-after", u128::from(threshold))].into_iter().chain(timeout);
    all.flat_map(|(flag, nanos)| [flag.into(), format!("{nanos}ns").into()]).collect()
}

/// The threshold of a `lazyguard run` without `--hang-after`. The default one stands where such a run looks for no hang.
fn threshold_of_run() -> Nanos {
    const NAME: &str = "LAZYGUARD_HANG_AFTER";
    let given = std::env::var(NAME).ok();
    Settings::read(given.iter().map(|value| (NAME, value.as_str()))).0.threshold_nanos()
}

#[derive(Clone, Default)]
struct Found {
    schedule: Schedule,
    ran: Ran,
    /// The number of the run.
    run: u64,
    /// How many of the replays hung again, and the last one.
    again: u64,
    replays: u64,
    last: Ran,
}

impl Found {
    fn counts(&self) -> bool {
        2 * self.again >= self.replays
    }

    fn sentence(&self) -> String {
        let when = match self.schedule.holds.is_empty() {
            true if self.run == 0 => " by itself".to_owned(),
            true => " now and then, with no thread held".to_owned(),
            false => format!(" when {}", self.schedule.in_words()),
        };
        format!("hangs{when}: {}", self.ran.hung.as_ref().map_or("", |hang| &hang.code))
    }
}

impl Explorer {
    fn new(arguments: Arguments) -> Result<Self, Failure> {
        let seed = arguments.seed.unwrap_or_else(|| unix_now().as_nanos() as u64 % 1_000_000);
        // Several runs write them, and their standard streams are files.
        let unusable = |path: &Path| files::descriptor(path).is_some() || path.exists() && !path.is_file();
        if let Some((flag, path)) = arguments.written().find(|(_, path)| unusable(path)) {
            return Err(Failure::Input(format!("{flag} {}: explore writes regular files alone", path.display())));
        }
        let name = || format!("lazyguard-explore-{}-{:08x}", std::process::id(), random() as u32);
        let root = arguments.out.clone().unwrap_or_else(|| std::env::temp_dir().join(name()));
        let made = match arguments.out {
            Some(_) => DirBuilder::new().recursive(true).mode(0o700).create(&root),
            None => make_private(&root),
        };
        made.map_err(|error| Failure::at(&root, error))?;
        let root = root.canonicalize().unwrap_or(root);
        // An earlier search with this folder may have found one.
        let _ = std::fs::remove_file(root.join("schedule"));
        let options = ["--on-hang", "kill", "--kill-after", "1s", "--preload", &arguments.preload];
        let options = options.map(OsString::from).into_iter().chain(arguments.rules()).collect();
        let program = arguments.program.clone();
        let (caught, tree) = (Caught::now(), Tree::before_the_program());
        // Orphans of a run become children of this process, which ends them where a signal ends it.
        let _ = set_child_subreaper(Some(getpid()));
        let runner = Runner { root, options, program, caught, tree, interrupted: Cell::default() };
        let (hazards, inversions, aims, failed, otherwise) = Default::default();
        let (since, progress) = (Instant::now(), Progress::new());
        let threshold = arguments.hang_after.map_or_else(threshold_of_run, |time| time.as_nanos() as u64);
        let timeout = arguments.timeout;
        Ok(Self {
            runner,
            arguments,
            seed,
            threshold,
            timeout,
            since,
            hazards,
            inversions,
            aims,
            progress,
            made: 0,
            failed,
            otherwise,
        })
    }

    /// A signal that has ended a run ends this command for its caller too.
    fn ended(&mut self, failure: Failure) -> Result<u8, Failure> {
        self.progress.clear();
        self.failed.iter().for_each(say);
        let Some(status) = self.runner.interrupted.get() else {
            self.end();
            return Err(failure);
        };
        let last = self.runner.root.join(format!("run-{}", self.made));
        let kept = last.is_dir().then(|| format!("; the last run is kept: lazyguard report {}", shell_word(&last)));
        kept.is_none().then(|| self.end());
        say(format!("{failure}{}", kept.unwrap_or_default()));
        Ok(code_of(status).max(1))
    }

    fn explore(&mut self) -> Result<u8, Failure> {
        self.runner.options.extend(limits(self.threshold, self.timeout));
        let mut bare = self.runner.run("run-0", &Schedule::default(), &[])?;
        if bare.hung.is_some() {
            let found = self.replayed(Found { ran: bare, ..Found::default() })?;
            if found.counts() {
                say("hangs without any thread held; lazyguard explore is for programs that pass");
                return self.report(&found);
            }
            self.set_aside(&found);
            bare = found.last;
        }
        if bare.code != 0 {
            say(format!("the first run, in which no thread is held, {}", bare.how()));
            self.say_rest();
            self.end();
            // A program that exits by itself with the code of a hang had none.
            let is_like_a_hang = bare.code == exit_code::HANG && bare.has_exited();
            return Ok(if is_like_a_hang { exit_code::OWN_FAILURE } else { bare.code });
        }
        self.timeout.get_or_insert(LEAST_TIMEOUT.max(Duration::from_nanos(10 * bare.nanos)));
        self.looks_after(LEAST_THRESHOLD.max(2 * bare.nanos));
        // A rank whose peer is held has then waited for at most a third of what makes its wait a hang.
        // Processes one after the other share the time: each of them may be held.
        bare.nanos = bare.nanos.min(self.threshold) / bare.in_turn.max(1);
        self.inversions = inversions(&bare.ranks, bare.nanos);
        self.hazards.extend(self.inversions.iter().map(|inversion| (inversion.key.clone(), false)));
        self.aims.extend(self.inversions.iter().map(|inversion| vec![inversion.hold.clone()]));
        self.learn(&bare);
        if bare.ranks.iter().all(|points| points.calls.is_empty()) {
            say("no process made a call whose order may matter: there is nothing to explore");
        }
        while let Some(mut found) = self.search(&bare)? {
            let small = self.made_small(&found, &bare.ranks)?;
            let is_smaller = small.schedule.holds != found.schedule.holds;
            let small = self.replayed(small)?;
            // Fewer holds may have hung by chance, and all hang.
            found = if small.counts() || !is_smaller { small } else { self.replayed(found)? };
            if found.counts() {
                return self.report(&found);
            }
            self.set_aside(&found);
        }
        self.nothing_found()
    }

    /// The threshold of the next runs, where the user has given none.
    fn looks_after(&mut self, threshold: Nanos) {
        if self.arguments.hang_after.is_none() {
            self.threshold = threshold;
        }
        self.runner.options.extend(limits(self.threshold, self.timeout));
    }

    /// Whether it took longer than all delays together, in a run that had the threshold of `lazyguard run`.
    fn went_on(&self, ran: &Ran) -> bool {
        self.arguments.hang_after.is_none() && ran.hung.is_none() && ran.nanos > self.threshold + self.threshold / 2
    }

    fn goes_on(&self) -> bool {
        self.made < self.arguments.runs && self.since.elapsed() < self.arguments.within
    }

    fn search(&mut self, bare: &Ran) -> Result<Option<Found>, Failure> {
        while self.goes_on() && !bare.ranks.is_empty() {
            self.made += 1;
            let left = self.arguments.within.saturating_sub(self.since.elapsed()).as_secs();
            let (run, runs, seed) = (self.made, self.arguments.runs, self.seed);
            let hazards = counted(self.hazards.len() as u64, "hazard");
            self.progress.tell(format!("run {run} of {runs}, seed {seed}, {hazards}, {left} s left"));
            let mut random = Random(self.seed.wrapping_mul(0x0001_0000_0001) ^ self.made);
            let aimed = if self.aims.is_empty() { None } else { Some(self.aims.remove(0)) };
            let holds = aimed.unwrap_or_else(|| draw(self.made, &bare.ranks, bare.nanos, &mut random));
            let schedule = Schedule { budget: bare.nanos, holds };
            let name = format!("run-{}", self.made);
            let ran = self.runner.run(&name, &schedule, &[])?;
            self.learn(&ran);
            if ran.hung.is_some() {
                return Ok(Some(Found { schedule, ran, run: self.made, ..Found::default() }));
            }
            if ran.code != 0 {
                *self.otherwise.entry(ran.end()).or_default() += 1;
            }
            if ran.code == 0 || self.failed.len() >= MOST_FAILED {
                self.runner.forget(&name);
            } else {
                // Kept for the user: another order has made it fail.
                let (how, root) = (ran.how(), self.runner.root.display());
                self.failed.push(format!("run {run} {how} ({name}.output in {root})"));
            }
        }
        Ok(None)
    }

    /// Takes in the hazards of a run. The next runs aim at new ones.
    fn learn(&mut self, ran: &Ran) {
        for hazard in &ran.hazards {
            if self.hazards.contains_key(&hazard.key) {
                continue;
            }
            self.hazards.insert(hazard.key.clone(), false);
            let of_rank = ran.ranks.iter().filter(|points| points.rank == hazard.rank || points.rank.is_empty());
            let aims = of_rank.map(|points| aim(points, hazard.thread, hazard.at, ran.nanos));
            self.aims.extend(aims.filter(|holds| !holds.is_empty()));
        }
    }

    /// How often it hangs again, where one half counts. The first replay that hangs writes the reports, and proves the hang. One that goes on by
    /// itself refutes it.
    fn replayed(&mut self, mut found: Found) -> Result<Found, Failure> {
        for (key, provoked) in &mut self.hazards {
            *provoked = match self.inversions.iter().find(|inversion| inversion.key == *key) {
                Some(inversion) => inversion.is_in(&found.schedule.holds),
                None => found.ran.concerned.iter().any(|call| key.split('|').nth(2) == Some(call)),
            };
        }
        let schedule = Some(self.runner.root.join("schedule"));
        let explored = Explored { sentence: Some(found.sentence()), schedule, ..self.learned() };
        let replays = if found.run == 0 { PLAIN_REPLAYS } else { self.arguments.replays.max(1) };
        // One that hangs by itself takes the whole threshold each time.
        while found.replays < replays && (found.run != 0 || found.again == 0) {
            found.replays += 1;
            self.progress.tell(format!("replay {} of {replays}", found.replays));
            found.last = match found.again {
                0 => self.last("hang", &found.schedule, &explored)?,
                _ => self.runner.run("replay", &found.schedule, &[])?,
            };
            found.again += u64::from(found.last.hung.is_some());
            if found.again == 0 && self.went_on(&found.last) {
                break;
            }
        }
        self.runner.forget("replay");
        self.progress.clear();
        Ok(found)
    }

    /// It hung by chance: others may have kept its device busy.
    fn set_aside(&mut self, found: &Found) {
        self.hazards.values_mut().for_each(|provoked| *provoked = false);
        let Found { run, again, replays, .. } = found;
        let Hung { code, sentence, .. } = found.ran.hung.clone().unwrap_or_default();
        let name = format!("run-{run}");
        let mut went_on = String::new();
        if self.went_on(&found.last) {
            let nanos = found.last.nanos;
            went_on = format!("it went on by itself, and ended after {:.1} s: ", nanos as f64 / 1e9);
            // The same slow path is no hang of the next runs.
            self.looks_after(self.threshold.max(2 * nanos));
        }
        let mut line =
            format!("hung in run {run} ({code}) and in {again} of {replays} replays: not counted: {went_on}{sentence}");
        match self.failed.len() < MOST_FAILED {
            true => line += &format!(" (lazyguard report {})", shell_word(self.runner.root.join(name))),
            false => self.runner.forget(&name),
        }
        self.failed.push(line);
    }
}
