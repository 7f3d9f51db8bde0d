//! Starts the program with the library preloaded, and otherwise as it would start without this command.
//!
//! Must not: change anything that a program can notice, except the variables that have to be set.

use crate::elf::is_built_for_cuda;
use crate::exit_code;
use crate::library::LIBRARY;
use crate::run::signals;
use rustix::fs::{access, Access};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, Signal};
use signal_hook::low_level::signal_name;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The value of `LD_PRELOAD`: the library, then the user's libraries. A copy of ours, as under another `lazyguard run`, is not preloaded
/// twice.
pub(super) fn preload(library: &Path, others: Option<OsString>) -> OsString {
    let is_own = |entry: &[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        path.file_name() == Some(OsStr::new(LIBRARY)) || path.canonicalize().is_ok_and(|path| path == library)
    };
    let others = others.unwrap_or_default();
    let entries = others.as_bytes().split(|&b| b == b':' || b == b' ');
    let kept = entries.filter(|entry| !entry.is_empty() && !is_own(entry));
    let joined: Vec<_> = std::iter::once(library.as_os_str().as_bytes()).chain(kept).collect();
    OsStr::from_bytes(&joined.join(&b':')).to_owned()
}

/// Why a program was not started.
#[derive(Debug)]
pub(super) struct NotStarted {
    /// The exit code.
    pub code: u8,
    /// The line to print.
    pub line: String,
    /// Whether only resources were missing: no second process, or no descriptor to start it with.
    pub for_want_of_room: bool,
}

impl NotStarted {
    fn new(name: &OsStr, error: &io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::NotFound { exit_code::NOT_FOUND } else { exit_code::CANNOT_RUN };
        let for_want_of_room =
            matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM));
        Self { code, line: format!("cannot run {}: {error}", name.to_string_lossy()), for_want_of_room }
    }
}

/// Starts the program; `just_before` is called right before that.
pub(super) fn start(
    program: &[OsString],
    variables: &[(&str, OsString)],
    to_ignore: &[Signal],
    mut just_before: impl FnMut(),
) -> Result<Child, NotStarted> {
    run(program, variables, to_ignore, |command| {
        just_before();
        command.spawn()
    })
}

/// Replaces this process by the program. Returns only where that fails.
pub(super) fn take_this_place(
    program: &[OsString],
    variables: &[(&str, OsString)],
    to_ignore: &[Signal],
) -> NotStarted {
    let become_it = |command: &mut Command| Err::<Infallible, _>(command.exec());
    match run(program, variables, to_ignore, become_it) {
        Ok(never) => match never {},
        Err(not_started) => not_started,
    }
}

fn run<T>(
    program: &[OsString],
    variables: &[(&str, OsString)],
    to_ignore: &[Signal],
    mut start: impl FnMut(&mut Command) -> io::Result<T>,
) -> Result<T, NotStarted> {
    let Some((name, arguments)) = program.split_first() else {
        let line = "no program was given".to_owned();
        return Err(NotStarted { code: exit_code::OWN_FAILURE, line, for_want_of_room: false });
    };
    let variables = || variables.iter().map(|(name, value)| (name, value));
    // `env` reports a missing program in its own words, and takes a word with `=` for a variable.
    let ignores = env_arguments(to_ignore);
    let by_env =
        !to_ignore.is_empty() && is_a_program(name) && is_no_word_of_env(name) && env_takes(&ignores, to_ignore);
    let started = if by_env {
        start(Command::new("env").args(&ignores).arg(name).args(arguments).envs(variables()))
    } else {
        start(Command::new(name).args(arguments).envs(variables()))
    };
    let started = match (started, resolve(name)) {
        // A script without `#!`: run by a shell, as shells and `env` do.
        (Err(error), Some(path)) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => {
            start(Command::new("/bin/sh").arg(path).args(arguments).envs(variables()))
        }
        (started, _) => started,
    };
    started.map_err(|error| NotStarted::new(name, &error))
}

/// The program starts with the default action of every signal that this process catches, even of one that was ignored before. So `env`
/// starts the program, and ignores the signal again.
fn env_arguments(to_ignore: &[Signal]) -> Vec<String> {
    let names = to_ignore.iter().filter_map(|signal| signal_name(signal.as_raw()));
    let ignored = names.map(|name| format!("--ignore-signal={}", name.trim_start_matches("SIG")));
    ignored.chain(["--".to_owned()]).collect()
}

/// Whether the installed `env` supports that. Without it, the program has to reap its children, and a write to a closed pipe ends it.
fn env_takes(arguments: &[String], to_ignore: &[Signal]) -> bool {
    let mut env = Command::new("env");
    env.args(arguments).args(["cat", "/proc/self/status"]).stdin(Stdio::null()).stderr(Stdio::null());
    // The `env` on the search path may be another program.
    let told = env.output().ok().filter(|output| output.status.success());
    told.is_some_and(|told| {
        let set = signals::ignored_in(&String::from_utf8_lossy(&told.stdout));
        to_ignore.iter().all(|&signal| signals::has(set, signal))
    })
}

/// `env` takes `-` for an option, and what looks like a variable for one.
fn is_no_word_of_env(name: &OsStr) -> bool {
    name != "-" && !name.as_bytes().contains(&b'=')
}

/// Whether the program exists and is executable. If not, this command reports that itself, not `env`.
fn is_a_program(name: &OsStr) -> bool {
    let path = resolve(name);
    path.is_some_and(|path| path.is_file() && access(&path, Access::EXEC_OK).is_ok())
}

/// The program's path, according to the search path.
pub(super) fn resolve(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// A line for the user if the dynamic linker will preload nothing into this program.
pub(super) fn goes_unguarded(name: &OsStr) -> Option<String> {
    let path = resolve(name)?;
    let about = fs::metadata(&path).ok()?;
    let other_user = about.mode() & 0o4000 != 0 && about.uid() != geteuid().as_raw();
    let other_group = about.mode() & 0o2000 != 0 && about.gid() != getegid().as_raw();
    (other_user || other_group).then(|| {
        let what = if other_user { "set-user-id" } else { "set-group-id" };
        format!("{} is {what}: the dynamic linker ignores LD_PRELOAD there, and it runs unguarded", path.display())
    })
}

/// Half a sentence if the program's file says that it uses CUDA.
pub(super) fn uses_cuda(name: &OsStr) -> Option<String> {
    let path = resolve(name).filter(|path| is_built_for_cuda(path))?;
    Some(format!("{} is built for CUDA", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_is_preloaded_once_and_first() {
        let library = Path::new("/opt/lg/liblazyguard.so");
        for (others, expect) in [
            (None, "/opt/lg/liblazyguard.so"),
            (Some(""), "/opt/lg/liblazyguard.so"),
            (Some("libjemalloc.so"), "/opt/lg/liblazyguard.so:libjemalloc.so"),
            (Some("/a.so /elsewhere/liblazyguard.so:/b.so"), "/opt/lg/liblazyguard.so:/a.so:/b.so"),
            (Some("/opt/lg/liblazyguard.so"), "/opt/lg/liblazyguard.so"),
        ] {
            assert_eq!(preload(library, others.map(OsString::from)), expect, "{others:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_and_one_that_cannot_be_run_have_codes_of_their_own() {
        let why = |name: &str| start(&[name.into()], &[], &[], || ()).map(|_| ()).unwrap_err();
        for (name, code) in
            [("/no/such/program", 127), ("no-such-program-anywhere", 127), ("/etc/passwd", 126), ("/", 126)]
        {
            assert_eq!((why(name).code, why(name).for_want_of_room), (code, false), "{name}");
            let program = [OsString::from(name)];
            assert_eq!(take_this_place(&program, &[], &[]).code, code, "{name}");
        }
        assert!(why("/no/such/program").line.contains("/no/such/program"));
        let want = |error: Errno| NotStarted::new(OsStr::new("app"), &error.into()).for_want_of_room;
        assert!(want(Errno::AGAIN) && want(Errno::NOMEM) && !want(Errno::ACCESS));
    }
}
