//! Runs one program in exactly the environment that the test gives.

use crate::artefacts::{driver_folder, library, root, target};
use crate::folder::Folder;
use crate::standstill;
use crate::work::Work;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a person's shell may set and a run must not see: ours, CUDA's, the loader's, and the ranks of a job.
const NOT_INHERITED: [&str; 8] = ["LAZYGUARD", "LGSIM_", "CUDA_", "LD_", "RANK", "SLURM_", "OMPI_", "PMI"];
/// A program that ends takes milliseconds, and a report a second. This is for a machine that is busy with something else, and for virtual
/// ones: their processors stand still for up to a minute, one of them or both, with whatever waits there (seen several times; the kernel says
/// `workqueue lockup` and `rcu_preempt kthread starved`, and a program that only sleeps for 5 ms at a time loses as much).
pub const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// A run that is being prepared.
#[derive(Debug)]
pub struct Run<'w> {
    work: &'w Work,
    command: Vec<OsString>,
    settings: BTreeMap<OsString, OsString>,
    guarded: bool,
    preload_before: Vec<PathBuf>,
    preload_after: Vec<PathBuf>,
    keep: bool,
    powerless: bool,
}

impl<'w> Run<'w> {
    /// A program, bare, with the simulated driver in its search path.
    pub fn new(work: &'w Work, program: impl AsRef<OsStr>) -> Self {
        let driver = (OsString::from("LD_LIBRARY_PATH"), driver_folder().into_os_string());
        Self {
            work,
            command: vec![program.as_ref().to_owned()],
            settings: BTreeMap::from([driver]),
            guarded: false,
            preload_before: Vec::new(),
            preload_after: Vec::new(),
            keep: false,
            powerless: false,
        }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn set(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.settings.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Preloads the guard.
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// Preloads libraries in front of the guard's place and behind it.
    pub fn beside(mut self, before: Vec<PathBuf>, after: Vec<PathBuf>) -> Self {
        (self.preload_before, self.preload_after) = (before, after);
        self
    }

    /// Sets `LAZYGUARD_OUT` to a folder of the run's own: see [`Outcome::out`].
    pub fn kept(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Takes the superuser's power over permissions away, where the tests are run as one.
    pub fn powerless(mut self) -> Self {
        self.powerless = true;
        self
    }

    /// Sets the threshold after which a call counts as hanging.
    pub fn hang_after(self, value: &str) -> Self {
        self.set("LAZYGUARD_HANG_AFTER", value)
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        if self.keep {
            // The folder has the run's number in its name, which is known only now.
            self.settings.insert("LAZYGUARD_OUT".into(), "?".into());
        }
        let guard = self.guarded.then(library);
        let preloaded: Vec<_> = self.preload_before.iter().chain(&guard).chain(&self.preload_after).collect();
        if !preloaded.is_empty() {
            let joined = preloaded.iter().map(|p| p.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":"));
            self.settings.insert("LD_PRELOAD".into(), joined);
        }
        let number = self.work.ran(self.as_a_shell_would());
        let folder = self.work.folder(&number.to_string());
        if self.keep {
            self.settings.insert("LAZYGUARD_OUT".into(), folder.join("out").into());
        }
        let temporary = self.work.folder(&format!("{number}/tmp"));
        self.settings.entry("TMPDIR".into()).or_insert_with(|| temporary.clone().into());
        // Each run is a first one: `lazyguard run` keeps profiles there.
        self.settings.entry("XDG_CACHE_HOME".into()).or_insert_with(|| folder.join("cache").into());
        let mut command = Command::new(&self.command[0]);
        for (name, _) in std::env::vars_os() {
            if NOT_INHERITED.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                command.env_remove(name);
            }
        }
        // A copy of what is built may be tried without the sources.
        let from = Some(root()).filter(|root| root.is_dir()).unwrap_or_else(target);
        command.args(&self.command[1..]).envs(&self.settings).current_dir(from).process_group(0);
        let file = |name: &str| File::create(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        // SAFETY: between fork and exec only `prctl` is called, which is a system call and no more.
        unsafe { command.pre_exec(dies_with_the_test) };
        if self.powerless {
            // SAFETY: as above.
            unsafe { command.pre_exec(obeys_permissions) };
        }
        let started = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        Running { child, folder, started, status: None }
    }

    /// Runs it to its end.
    pub fn finish(self) -> Outcome {
        let mut running = self.start();
        let ended = running.ends_within(PATIENCE);
        assert!(ended, "it does not end; {}\n{}", running.seen(), standstill::of_group(running.process()));
        running.seen()
    }

    /// The command line that does the same in a shell, at the repository's root.
    fn as_a_shell_would(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| {
            let value = if name == "LAZYGUARD_OUT" && value == "?" { OsStr::new("/tmp/out-%p") } else { value };
            format!("{}={}", name.to_string_lossy(), quoted(value))
        });
        let command = self.command.iter().map(|word| quoted(word));
        // `env` comes first, so that nothing is preloaded into it.
        std::iter::once("env".to_owned()).chain(settings).chain(command).collect::<Vec<_>>().join(" ")
    }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A test that is stopped from outside takes its program with it.
fn dies_with_the_test() -> io::Result<()> {
    // SAFETY: takes integers only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Another user than the superuser has no such power, and no right to give it up: that is well.
fn obeys_permissions() -> io::Result<()> {
    const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
    const CAP_DAC_READ_SEARCH: libc::c_ulong = 2;
    for capability in [CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH] {
        // SAFETY: takes integers only.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    Ok(())
}

/// A program that was started. Dropped, it is killed with everything it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: PathBuf,
    started: Instant,
    status: Option<ExitStatus>,
}

impl Running {
    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_else(|error| panic!("waiting for the program: {error}"));
        }
        self.status.is_none()
    }

    /// Time since it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The `LAZYGUARD_OUT` of [`Run::kept`].
    pub fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// Its `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        read_text(&self.folder.join("stdout"))
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        read_text(&self.folder.join("stderr"))
    }

    /// Looks again and again until there is an answer; fails when the program ends first, or when none comes in time.
    pub fn until<T>(&mut self, what: &str, limit: Duration, mut answer: impl FnMut(&mut Self) -> Option<T>) -> T {
        let mut waited = Waited::default();
        loop {
            if let Some(answer) = answer(self) {
                return answer;
            }
            let runs = self.runs();
            // What it did last may be there only after it has ended. Asked once a turn: an answer may be one that is not given twice.
            if !runs {
                if let Some(answer) = answer(self) {
                    return answer;
                }
            }
            assert!(runs, "ended before {what}: {}", self.seen());
            assert!(waited.so_far() < limit, "{what}: not within {limit:?}: {}", self.seen());
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the report of a hang, the driver asked, is on standard error and in the run folder.
    pub fn until_a_hang_is_reported(&mut self) -> Folder {
        let out = self.out();
        self.until("the report of a hang", PATIENCE, |running| {
            // The summary is written behind the report, and counts hangs that were reported; what is only slow is none.
            let summary: serde_json::Value = serde_json::from_slice(&fs::read(out.join("run.json")).ok()?).ok()?;
            let counted = summary["hangs"].as_u64().is_some_and(|hangs| hangs > 0);
            (counted && running.stderr().contains("lazyguard: HANG")).then_some(())
        });
        Folder::at(&out)
    }

    /// Waits for its end, for so long, and stops it then.
    pub fn finish_within(mut self, limit: Duration) -> Outcome {
        self.ends_within(limit);
        self.seen()
    }

    /// Whether it ends in that time.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        let mut waited = Waited::default();
        while self.runs() && waited.so_far() < limit {
            std::thread::sleep(POLL);
        }
        self.status.is_some()
    }

    /// Stops it where it is.
    pub fn stop(mut self) -> Outcome {
        self.runs();
        self.seen()
    }

    fn seen(&self) -> Outcome {
        let code = self.status.map(|status| status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)));
        Outcome {
            code,
            seconds: self.age().as_secs_f64(),
            stdout: read_text(&self.folder.join("stdout")),
            stderr: self.stderr(),
            process: self.process(),
            folder: self.folder.clone(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: takes integers only. The leader has not been waited for, or its group has no other member: the number
            // is not another process's.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        // It and its threads leave first. Waited for meanwhile, the system takes its entries out of /proc from both sides, and one of them
        // turns in a loop until the other gets on: for tenths of a second where the processors are busy.
        while self.status.is_none() {
            std::thread::sleep(POLL);
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
        }
    }
}

/// How long something was waited for. A pause of the whole machine, in which the program could not run either, counts as one turn of the
/// waiting: virtual machines stand still for half a minute now and then.
#[derive(Debug, Default)]
struct Waited {
    last: Option<Instant>,
    so_far: Duration,
}

impl Waited {
    /// The longest that a turn counts for. On a busy machine a turn takes some tens of milliseconds.
    const MOST_A_TURN: Duration = Duration::from_millis(500);

    /// To be asked once a turn.
    fn so_far(&mut self) -> Duration {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.so_far += (now - last).min(Self::MOST_A_TURN);
        }
        self.so_far
    }
}

fn read_text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code, a signal as its negative number, or `None` when it was stopped.
    pub code: Option<i32>,
    /// From its start to its end.
    pub seconds: f64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The process.
    pub process: u32,
    folder: PathBuf,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "exit code {code}")?,
            None => f.write_str("still running, and stopped")?,
        }
        write!(f, " after {:.1} s\n--- stdout\n{}\n--- stderr\n{}\n---", self.seconds, self.stdout, self.stderr)
    }
}

impl Outcome {
    /// The run folder of [`Run::kept`].
    pub fn out(&self) -> Folder {
        Folder::at(&self.folder.join("out"))
    }

    /// The names of what was left in `TMPDIR`.
    pub fn left_behind(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join("tmp")).unwrap_or_else(|error| panic!("TMPDIR: {error}"));
        entries
            .map(|entry| entry.map_or_else(|error| error.to_string(), |e| e.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// Standard output in lines, in an order of their own.
    pub fn sorted_stdout(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Fails unless another run gave the same output and exit code.
    pub fn expect_same_as(&self, other: &Self) {
        assert_eq!(self.code, other.code, "exit codes differ: {self}\nwhere bare: {other}");
        assert_eq!(self.stdout, other.stdout, "standard output differs: {self}\nwhere bare: {other}");
        assert_eq!(self.stderr, other.stderr, "standard error differs: {self}\nwhere bare: {other}");
    }
}
