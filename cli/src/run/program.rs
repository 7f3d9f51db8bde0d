//! Starts the program with the library preloaded, and otherwise as it would start without this command.
//!
//! Must not: change anything that a program can notice, except the variables that have to be set.

use super::inherited;
use crate::machine::library::{of_search_path, LIBRARY};
use crate::machine::{machine_name, own_machine, system, Elf, Exec, Unreadable};
use crate::words::{exit_code, output};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, Pid};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The value of `LD_PRELOAD`: the library, then the user's libraries, without a copy of ours.
pub(super) fn preload(library: &Path, others: Option<OsString>) -> OsString {
    let is_own = |entry: &[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        path.file_name() == Some(OsStr::new(LIBRARY)) || path.canonicalize().is_ok_and(|path| path == library)
    };
    let others = others.unwrap_or_default();
    let kept = others.as_bytes().split(|&b| b == b':' || b == b' ').filter(|entry| !entry.is_empty() && !is_own(entry));
    let joined: Vec<_> = std::iter::once(library.as_os_str().as_bytes()).chain(kept).collect();
    OsStr::from_bytes(&joined.join(&b':')).to_owned()
}

pub(super) struct NotStarted {
    pub code: u8,
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

pub(super) type Variable = (&'static str, OsString);

/// Starts the program by `start`, which is called again with what it can do without, and for a script without an interpreter.
pub(super) fn start(
    program: &[OsString],
    variables: &[Variable],
    mut start: impl FnMut(&Exec) -> io::Result<Pid>,
) -> Result<Pid, NotStarted> {
    let name = &program[0];
    let started = prepared(name, program, variables).and_then(|mut exec| {
        let started = start(&exec);
        match started.as_ref().err().and_then(Errno::from_io_error) {
            Some(Errno::TOOBIG) => {
                output::say("the program's arguments and environment leave no room for the guard's variables: it runs unguarded");
                exec.environment = system::environment();
                start(&exec)
            }
            // A script without `#!`: run by a shell, as shells and `env` do, and not every C library.
            Some(Errno::NOEXEC) => {
                let script = resolve(name).ok_or(Errno::NOENT)?;
                exec.file = c"/bin/sh".to_owned();
                exec.arguments.splice(..1, [exec.file.clone(), text(script.as_os_str())?]);
                start(&exec)
            }
            _ => started,
        }
    });
    started.map_err(|error| NotStarted::new(name, &error))
}

fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn prepared(name: &OsStr, program: &[OsString], variables: &[Variable]) -> io::Result<Exec> {
    let arguments = program.iter().map(|word| text(word)).collect::<io::Result<_>>()?;
    let environment = environment(system::environment(), variables)?;
    Ok(Exec { file: text(name)?, arguments, environment, signals: inherited::signals() })
}

/// This command's own, entry for entry. A variable keeps its places: the dynamic linker takes the last, `getenv` the first.
fn environment(own: Vec<CString>, variables: &[Variable]) -> io::Result<Vec<CString>> {
    let mut entries = own;
    for (name, value) in variables {
        let start = [name.as_bytes(), b"="].concat();
        let entry = CString::new([&start, value.as_bytes()].concat())?;
        let is_it = |own: &&mut CString| own.as_bytes().starts_with(&start);
        let there = entries.iter_mut().filter(is_it).map(|own| own.clone_from(&entry)).count();
        entries.extend((there == 0).then_some(entry));
    }
    Ok(entries)
}

pub(super) fn resolve(name: &OsStr) -> Option<PathBuf> {
    of_search_path(name, &std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()))
}

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

/// A line for the user if the guard's library is of no use to the loader of this program, which would print errors, or end it.
pub(super) fn cannot_load(path: &Path, program: &Result<Elf, Unreadable>) -> Option<String> {
    let why = match program {
        Err(Unreadable::Narrow) => "a program of 32 bits".to_owned(),
        Ok(elf) if elf.machine != own_machine() => format!("a program for {}", machine_name(elf.machine)),
        Ok(elf) => match elf.other_loader()? {
            loader if loader == path => "a loader, and not glibc's".to_owned(),
            loader => format!("loaded by {}, which is not glibc's", loader.display()),
        },
        Err(_) => return None,
    };
    Some(format!("{} is {why}: the guard's library cannot be loaded there, and it runs unguarded", path.display()))
}

pub(super) fn uses_cuda(name: &OsStr) -> Option<String> {
    let is_built_for_cuda = |path: &PathBuf| Elf::read(path).is_ok_and(|elf| elf.is_built_for_cuda());
    Some(format!("{} is built for CUDA", resolve(name).filter(is_built_for_cuda)?.display()))
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
    fn a_variable_keeps_its_place_in_each_of_its_entries() {
        let texts = |texts: &[&[u8]]| texts.iter().map(|text| CString::new(*text).unwrap()).collect::<Vec<_>>();
        let own = texts(&[b"A=1", b"LD_PRELOAD=/a.so", b"=x", b"LD_PRELOADED=1", b"A=2", b"LD_PRELOAD=", b"\xff", b""]);
        let variables = [("LD_PRELOAD", OsString::from("/lg.so")), ("LAZYGUARD_OUT", OsString::new())];
        let expect = texts(&[
            b"A=1",
            b"LD_PRELOAD=/lg.so",
            b"=x",
            b"LD_PRELOADED=1",
            b"A=2",
            b"LD_PRELOAD=/lg.so",
            b"\xff",
            b"",
            b"LAZYGUARD_OUT=",
        ]);
        assert_eq!(environment(own, &variables).unwrap(), expect);
        assert!(environment(Vec::new(), &[("LAZYGUARD_OUT", OsString::from("a\0b"))]).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_and_one_that_cannot_be_run_have_codes_of_their_own() {
        let why = |name: &str| start(&[name.into()], &[], Exec::in_a_child).map(|_| ()).unwrap_err();
        for (name, code) in
            [("/no/such/program", 127), ("no-such-program-anywhere", 127), ("/etc/passwd", 126), ("/", 126)]
        {
            assert_eq!((why(name).code, why(name).for_want_of_room), (code, false), "{name}");
            let program = [OsString::from(name)];
            assert_eq!(start(&program, &[], Exec::in_this_process).unwrap_err().code, code, "{name}");
        }
        assert!(why("/no/such/program").line.contains("/no/such/program"));
        let want = |error: Errno| NotStarted::new(OsStr::new("app"), &error.into()).for_want_of_room;
        assert!(want(Errno::AGAIN) && want(Errno::NOMEM) && !want(Errno::ACCESS));
    }
}
