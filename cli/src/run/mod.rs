//! `lazyguard run`: supervises a program under the guard. It enforces the time limit, ends a program that hangs, and reports the findings.
//!
//! A program keeps this command's streams, descriptors, environment, terminal, process group and ignored signals. The command does not read its
//! output. If the command lacks a descriptor, a thread, a folder or `/proc`, it prints one line and does without: only an option that cannot be
//! fulfilled is a failure.
//!
//! | the command | and does not | because |
//! |---|---|---|
//! | leaves the program in its own process group | give it another one, and hand the terminal over | a group holds a pipeline, a script or a shell's job together: a pager would be stopped, Ctrl-C would not reach the script around it, and a leader cannot call `setsid` |
//! | passes another process's signal on to the program alone | send it to the group | without the command the program alone would have got it. `siginfo` does not tell `killpg` from `kill`: the program gets the first twice |
//! | leaves the terminal's signals to the kernel | pass them on | the kernel has sent them to the whole group; `siginfo` names the sender |
//! | stops when the program was stopped from the terminal | stop at once | a program may ignore Ctrl-Z, or put its screen in order first |
//! | reaps orphans (`PR_SET_CHILD_SUBREAPER`) | keep a list, or a control group | a daemon leaves its parent, group and session, but not its descent; control groups need rights |
//! | makes a place for other users' processes, with a secret name in an unlisted folder | open the folder of the run | such a process could not write there, and other users could look into it |
//! | leaves the program alone when the command is killed | use `PR_SET_PDEATHSIG` | a killed supervisor is no reason to end a job, and that signal also comes when a thread ends |
//! | starts the program itself (`system.rs`) | use `std::process::Command` | that rewrites the environment, opens closed streams and resets `SIGPIPE` |
//!
//! The hanging process decides whether a hang is acted on, and says so in its report (`acts` in `hang.json`).
//!
//! Must not: write anything on success that the user did not ask for, but the profile in the user's cache.

mod conclude;
mod environment;
mod hang;
mod held;
mod inherited;
mod late;
pub(crate) mod options;
mod other_users;
mod program;
mod remembered;
mod retry;
mod returns;
pub(crate) mod root;
mod signals;
mod supervise;
mod tree;
mod unguarded;

pub(crate) use inherited::signals as inherited_signals;
pub(crate) use options::{Options, EXPLORED};
pub(crate) use retry::{code_of, wait_for, ATTEMPT};
pub(crate) use root::random;
pub(crate) use signals::Caught;
pub(crate) use tree::Tree;

use crate::folder::profile_cache::Own;
use crate::forms::annotations::Annotations;
use crate::forms::prometheus::writer;
use crate::forms::timing;
use crate::judge::{seen, FailedOn, Finished};
use crate::machine::{files, library, nvml, unix_now, Beside, Exec};
use crate::words::{exit_code, output, shell_word, Failure};
use environment::{action_on_hang, host, kills_on_stall, make_root, own_profile, settings_of, variable, variables_of};
use inherited::Descriptors;
use lazyguard_core::api::counted;
use lazyguard_core::schedule::Schedule;
use lazyguard_core::settings::{self, FolderFacts, Policy, Settings, RUN_OTHER_USERS, RUN_ROOT};
use options::METRICS;
use other_users::OtherUsers;
use program::NotStarted;
use retry::Noted;
use root::Root;
use rustix::process::{child_subreaper, getpid, set_child_subreaper, Signal};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use supervise::{Ended, Limits};

const LOOK_FOR_UNGUARDED_EVERY: Duration = Duration::from_secs(30);

const ONE_RANK: &str = "--retry: this is one rank of a job, and is not made again alone: lazyguard run --retry N -- LAUNCHER makes the whole job again";

pub(crate) fn run(options: Options) -> ExitCode {
    let made = match options.retry {
        retries if retries == 0 || options.attempt.is_some() => supervised(options),
        retries if settings::rank(variable).is_none() => retry::attempts(retries),
        _ => {
            output::say(ONE_RANK);
            supervised(Options { retry: 0, ..options })
        }
    };
    match made {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::say(failure.to_string());
            ExitCode::from(exit_code::OWN_FAILURE)
        }
    }
}

fn supervised(mut options: Options) -> Result<u8, Failure> {
    let descriptors = Descriptors::now(options.wanted.files.values().map(PathBuf::as_path))?;
    let (rank, started, host) = (settings::rank(variable), unix_now(), host());
    let (rank_given, start_seconds) = (rank.as_deref(), started.as_secs());
    let facts = FolderFacts { host: &host, process: std::process::id(), rank: rank_given, start_seconds };
    let library = prepare(&mut options, &facts)?;
    let command: Vec<_> = options.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut caught = signals::Caught::now();
    let was_subreaper = child_subreaper().ok().flatten();
    // From now on, orphans become children of this process. An old kernel may lack this.
    let _ = set_child_subreaper(Some(getpid()));
    let root = make_root(&options, &facts, &command)?;
    options.belong_to(&root);
    let others = root.is_there().then(|| OtherUsers::make(facts.process)).flatten();
    let profile = library.as_ref().and_then(|_| own_profile(&mut options, &root));
    let variables = variables_of(&options, &root, others.as_ref(), library.as_deref());
    let observers = observe(&options, &root);
    let places: Vec<_> =
        [root.path()].into_iter().chain(others.as_ref().map(OtherUsers::path)).map(Path::to_owned).collect();
    let settings = settings_of(&options);
    let since = Instant::now();
    let tree = tree::Tree::before_the_program();
    let start = |exec: &Exec| {
        caught.program_starts();
        exec.in_a_child()
    };
    let program = match program::start(&options.program, &variables, start) {
        Ok(program) => program,
        Err(not_started) => {
            drop(observers);
            root.finish(false);
            drop(others);
            // A program that replaces this process would keep the flag.
            let _ = set_child_subreaper(was_subreaper);
            return Ok(without_a_second_process(&options, not_started, &variables));
        }
    };
    // Behind the program's start, which has to find room for a thread.
    let is_late = library.as_ref().filter(|_| root.is_there()).and_then(|_| late::start(&places, &settings));
    let standard_error = descriptors.give_up(program);
    let limits = limits(&options, &settings);
    let library = library.filter(|_| root.is_there());
    let unguarded = library.as_deref().and_then(|library| unguarded(&options, &root, limits, library));
    let is_watched = unguarded.is_some();
    let program = supervise::Started { program, tree, caught, standard_error };
    let mut ended = supervise::supervise(program, &root, places, limits, unguarded)?;
    drop((observers, is_late));
    let unseen = unseen_by_the_run(&ended, &root, others, library.is_some());
    ended.unguarded.expected = expected(&mut ended, &root, is_watched.then_some(&options.program[0]));
    // One of the ranks that share a profile.
    profile.iter().filter(|_| rank.as_deref().is_none_or(|rank| rank == "0")).for_each(Own::keep_small);
    let run = Finished {
        command,
        root: root.path().to_owned(),
        started_unix_nanos: started.as_nanos() as u64,
        nanos: since.elapsed().as_nanos() as u64,
        end: ended.end,
        rank,
        unguarded: std::mem::take(&mut ended.unguarded),
    };
    if limits.needs_all {
        say_what_goes_on(&root);
    }
    conclude(&options, root, &run, &ended, &unseen)
}

fn prepare(options: &mut Options, facts: &FolderFacts<'_>) -> Result<Option<PathBuf>, Failure> {
    options.wanted.fill_in(facts);
    options.wanted.rules = Some(conclude::rules(&options.wanted)?);
    options.setting("LAZYGUARD_SCHEDULE").filter(|path| *path != "off").map_or(Ok(()), is_schedule)?;
    learn_from_earlier_attempts(options);
    let library = find_library(options)?;
    match library.is_none() && options.require_records {
        true => Err(Failure::Input("--require-records: without the guard, nothing is recorded".to_owned())),
        false => Ok(library),
    }
}

/// The library would go on without one that it cannot read.
fn is_schedule(path: &str) -> Result<(), Failure> {
    let text = files::read_text(path).map_err(|error| error.to_string());
    let is_one = text.and_then(|text| Schedule::parse(&text).map(drop).map_err(str::to_owned));
    is_one.map_err(|why| Failure::Input(format!("--schedule {path}: {why}")))
}

/// Starts the threads that write files while the program runs: before it, so that the first sample precedes it. They inherit this thread's
/// signal mask.
fn observe(options: &Options, root: &Root) -> [Option<Beside>; 2] {
    let sampler = options.cold_start.then(|| nvml::sample(root.path())).flatten();
    // A folder that is not there has no processes: an empty file says so.
    [sampler, options.wanted.files.get(METRICS).and_then(|file| writer::start(root.path(), file.clone()))]
}

/// The look for processes without the guard. A guard that is switched off is to see nothing, and an outer run sees these processes.
fn unguarded(options: &Options, root: &Root, limits: Limits, library: &Path) -> Option<unguarded::Watch> {
    let fail_on = &options.wanted.fail_on;
    let pause = if fail_on.is_anything() { limits.look_every } else { LOOK_FOR_UNGUARDED_EVERY };
    let leaves_it = root.is_nested() && !fail_on.has(FailedOn::Unguarded);
    (settings_of(options).enabled && !leaves_it).then(|| unguarded::Watch::new(pause, library))
}

fn unseen_by_the_run(ended: &Ended, root: &Root, others: Option<OtherUsers>, is_guarded: bool) -> Vec<String> {
    let unread = others.map(|others| others.bring_into(root.path())).unwrap_or_default();
    for line in &unread {
        output::say(format!("what a process has left outside the run's folder cannot be had: {line}"));
    }
    root.note(&ended.processes);
    let unseen = ended.unseen.iter().map(|process| format!("of {process}, whose folder was not in this run's"));
    let unseen = unseen.chain(
        ended.untold.iter().map(|name| format!("of the hang that {name} has reported: its report could not be kept")),
    );
    let is_gone = root.is_gone().then(|| "of this run, whose folder is gone".to_owned());
    let unseen = unseen.chain(is_gone);
    let nothing = "of the program, which ran without a folder, or without the guard".to_owned();
    unseen.chain(unread).chain((!is_guarded).then_some(nothing)).collect()
}

/// Why it is a loss that nothing was recorded, if it is. `program` is the name of one that was watched.
fn expected(ended: &mut Ended, root: &Root, program: Option<&OsString>) -> Option<String> {
    if root.had_a_process() {
        // A process has initialised CUDA under the guard. If it left by `_exit`, what it kept in memory is lost.
        return None;
    }
    let by_name = || program.filter(|_| !root.holds_anything()).and_then(|name| program::uses_cuda(name));
    let expected = ended.unguarded.expected.take();
    if root.is_gone() {
        let lost = || format!("what this run recorded is lost: its folder {} is gone", root.text());
        return (ended.was_guarded || expected.is_some()).then(lost);
    }
    expected.or_else(|| by_name().map(|why| unguarded::nothing_although(&why)))
}

const PRELOAD: &str = "LAZYGUARD_PRELOAD";

/// With preloading off, a later attempt would not load ahead what an earlier one hung in.
fn learn_from_earlier_attempts(options: &mut Options) {
    if options.retry == 0 {
        return;
    }
    let earlier = options.attempt.as_deref().map(retry::earlier).unwrap_or_default();
    if earlier.iter().any(|noted| noted.is_load) && settings_of(options).preload == Policy::Off {
        options.settings.retain(|(name, _)| *name != PRELOAD);
        options.settings.push((PRELOAD, "auto".to_owned()));
    }
    options.wanted.earlier = earlier.into_iter().map(|noted| noted.hung).collect();
}

fn limits(options: &Options, settings: &Settings) -> Limits {
    let action = action_on_hang(options);
    Limits {
        timeout: options.timeout,
        kill_after: options.kill_after,
        // Within limits: hundreds of ranks may share the folder.
        look_every: Duration::from_nanos(settings.hang_after_nanos / 10)
            .clamp(Duration::from_millis(100), Duration::from_secs(2)),
        action,
        kills_stalled: kills_on_stall(options),
        gpu_dump_wait: Duration::from_nanos(settings.gpu_dump_wait_nanos),
        notice: Duration::from_nanos(settings.notice_nanos()),
        needs_all: action.is_some() || kills_on_stall(options) || options.wanted.fail_on.is_anything(),
        // A summary of all processes needs the recordings of all of them.
        thin_out: !(options.keep || options.cold_start || options.blocking),
    }
}

fn say_what_goes_on(root: &Root) {
    let (living, path) = (root.living(), root.path().display());
    let go = match living[..] {
        [] => return,
        [process] => format!("{process} goes"),
        [process, ..] => format!("{process} and {} go", counted(living.len() as u64 - 1, "more process")),
    };
    output::say(format!(
        "process {go} on behind the program: --on-hang and --fail-on end with that; its guard still reports a hang, and so does lazyguard health {path}"
    ));
}

/// The library to preload. If this command's own path is unknown and the user has named no library, the program runs without the guard.
fn find_library(options: &Options) -> Result<Option<PathBuf>, Failure> {
    if let (None, Err(error)) = (&options.library, library::own_command()) {
        let what = "cannot tell where this command is, and its library";
        output::say(format!("{what}: {error}; the program runs without the guard"));
        return Ok(None);
    }
    let library = library::find(options.library.clone())?;
    // The command's own library is of the same build, and is not checked.
    if options.library.is_some() {
        library::look_into(&library).map_err(Failure::Input)?;
    }
    Ok(Some(library))
}

/// If only resources were missing and no option needs this command, the program replaces it. Returns the exit code where it did not.
fn without_a_second_process(options: &Options, not_started: NotStarted, variables: &[program::Variable]) -> u8 {
    if !not_started.for_want_of_room || needs_this_command(options) {
        output::say(&not_started.line);
        return not_started.code;
    }
    output::say(format!("{}: it is started in this command's place, and not watched", not_started.line));
    // The folder of the run has gone.
    let of_the_run = |name: &str| ["LAZYGUARD_OUT", RUN_ROOT, RUN_OTHER_USERS].contains(&name);
    let variables: Vec<_> = variables.iter().filter(|(name, _)| !of_the_run(name)).cloned().collect();
    let not_started = program::start(&options.program, &variables, Exec::in_this_process).err();
    not_started.iter().for_each(|not_started| output::say(&not_started.line));
    not_started.map_or(exit_code::OWN_FAILURE, |not_started| not_started.code)
}

impl Options {
    fn belong_to(&mut self, root: &Root) {
        self.wanted.keeps_folder = self.keep || root.is_asked_for();
        if root.is_nested() && self.wanted.annotations == Annotations::Auto {
            // The outer run prints them.
            self.wanted.annotations = Annotations::Off;
        }
    }
}

fn needs_this_command(options: &Options) -> bool {
    let wanted = &options.wanted;
    options.timeout.is_some()
        || options.keep
        || options.require_records
        || options.cold_start
        || options.blocking
        || action_on_hang(options).is_some()
        || kills_on_stall(options)
        || wanted.result
        || wanted.fail_on.is_anything()
        || !wanted.files.is_empty()
}

/// Prints the findings, keeps or removes the folder, and decides the exit code.
fn conclude(options: &Options, root: Root, run: &Finished, ended: &Ended, unseen: &[String]) -> Result<u8, Failure> {
    if options.cold_start || options.blocking {
        let told = timing::after_run(root.path(), options.cold_start, options.blocking);
        told.unwrap_or_else(|failure| output::say(failure.to_string()));
    }
    let concluded = conclude::conclude(run, &options.wanted);
    if let (Some(file), Ok(concluded)) = (&options.attempt, &concluded) {
        let noted = |hung| Noted { hung, is_load: concluded.is_load, profile: options.profile_of_run.clone() };
        concluded.hung.clone().into_iter().for_each(|hung| retry::note(file, noted(hung)));
    }
    output::say_lines(concluded.iter().flat_map(|conclusion| &conclusion.lines));
    let code = seen::exit_code(run.end, concluded.as_ref().ok().and_then(|conclusion| conclusion.failed));
    let worth_it = code != 0 || concluded.as_ref().map_or(true, |conclusion| conclusion.keep);
    let path = root.path().to_owned();
    // The command does not print the path of a folder that the user has named, unless there are findings.
    let to_say = worth_it || (options.keep && !root.is_asked_for());
    if root.finish(options.keep || worth_it) && to_say {
        output::say(format!("the folder of this run is kept: lazyguard report {}", shell_word(&path)));
    }
    let mut failures = concluded.map_or_else(|failure| vec![failure], |conclusion| conclusion.unwritten);
    // `--fail-on` also fails where processes were unseen.
    let fail_on = &options.wanted.fail_on;
    let lost = unseen.iter().filter(|_| fail_on.is_anything());
    let unknown = |whom| Failure::Input(format!("nothing is known {whom}: what --fail-on is to find may be there"));
    failures.extend(lost.map(unknown));
    failures.iter().for_each(|failure| output::say(failure.to_string()));
    // Findings and the program's own failure take precedence. A timeout does not if a process was unseen: that process may hang.
    let code = match code {
        0 if !failures.is_empty() => exit_code::OWN_FAILURE,
        exit_code::TIMED_OUT if fail_on.has(FailedOn::Hang) && !unseen.is_empty() => exit_code::OWN_FAILURE,
        code => code,
    };
    // The first process of a container is not ended by a signal that it has no action for.
    if ended.interrupted && code > exit_code::SIGNAL && std::process::id() != 1 {
        // A script that runs this command stops at Ctrl-C only if the signal ended the command.
        let _ = signal_hook::low_level::emulate_default_handler(Signal::INT.as_raw());
    }
    Ok(code)
}
