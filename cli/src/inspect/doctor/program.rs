//! A program file: whether a library can be preloaded into it.
//!
//! Its calls of the driver are examined in `calls`.

use super::finding::Findings;
use super::machine::Machine;
use crate::machine::{machine_name, Elf, Unreadable};
use rustix::fs::getxattr_query;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Linux's limit on scripts whose interpreter is a script.
const MOST_INTERPRETERS: usize = 5;

pub(super) fn read(machine: &Machine, name: &Path, found: &mut Findings) -> Option<Elf> {
    let through = |script: &Path, line: &str, interpreter: &Path| {
        let (script, interpreter) = (script.display(), interpreter.display());
        found.note(
            format!("{script} is a script (#!{line}): the guard goes into {interpreter} and everything that it starts"),
            "none; what it starts or imports is looked at by giving that to the doctor: a program, or a library's file",
        );
    };
    let (path, read) = match follow(machine, name, through) {
        Ok(end) => end,
        Err((what, todo)) => {
            found.problem(what, todo);
            return None;
        }
    };
    let error = match read {
        Ok(elf) => {
            privileges(&path, found);
            return Some(elf);
        }
        Err(error) => error,
    };
    let (more, todo) = match &error {
        Unreadable::File(error) if error.kind() == io::ErrorKind::PermissionDenied => (
            ": nothing can be told of it",
            "let this user read it; what may be run and not read hides from the guard's report as well",
        ),
        Unreadable::Narrow => (
            ": the guard's library is one of 64, and is passed over",
            "build it for 64 bits; CUDA has no other any more",
        ),
        _ => ("", "give the path of a program"),
    };
    found.problem(format!("{} {error}{more}", path.display()), todo);
    None
}

pub(crate) type Loaded = (PathBuf, Result<Elf, Unreadable>);

pub(crate) fn loaded(name: &OsStr) -> Option<Loaded> {
    follow(&Machine::this(), Path::new(name), |_, _, _| ()).ok()
}

/// Follows a program's name through scripts to the file that the kernel loads; or says what is wrong, and what to do.
fn follow(
    machine: &Machine,
    name: &Path,
    mut script: impl FnMut(&Path, &str, &Path),
) -> Result<Loaded, (String, &'static str)> {
    let mut name = name.to_owned();
    for _ in 0..MOST_INTERPRETERS {
        let Some(path) = machine.program(&name) else {
            return Err((format!("{}: there is no such program in PATH", name.display()), "give its path"));
        };
        let first = match Elf::read(&path) {
            Err(Unreadable::NotElf(head)) if head.starts_with(b"#!") => {
                head[2..].split(|&b| b == b'\n').next().unwrap_or_default().to_owned()
            }
            read => return Ok((path, read)),
        };
        let Some(interpreter) = interpreter(&first) else {
            let what = format!("{} is a script without an interpreter", path.display());
            return Err((what, "name one in its first line"));
        };
        script(&path, String::from_utf8_lossy(&first).trim(), &interpreter);
        name = interpreter;
    }
    let what = format!("{}: its interpreters have interpreters without end", name.display());
    Err((what, "name a program in its first line"))
}

/// The interpreter in the first line of a script. Behind `env` it is the first word that is neither an option nor a variable.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?)).to_owned();
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    let wanted = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    wanted.map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

fn privileges(path: &Path, found: &mut Findings) {
    let Ok(about) = path.metadata() else { return };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let changes_user = about.mode() & 0o4000 != 0;
    // Without the group's execute bit, set-group-id means mandatory locking.
    let changes_group = about.mode() & 0o2010 == 0o2010;
    let mut say = |which: &str, is_certain: bool, owner: &str, todo| {
        let what = format!("{} {which}: the dynamic linker preloads nothing into it", path.display());
        match is_certain {
            true => found.problem(what, todo),
            false => found.note(format!("{what} when another user than {owner} runs it"), todo),
        }
    };
    if changes_user || changes_group {
        let which = if changes_user { "is set-user-id" } else { "is set-group-id" };
        let to_another = changes_user && about.uid() != user || changes_group && about.gid() != group;
        say(which, to_another, "its owner", "run a copy of it without that bit (chmod a-s)");
    }
    if getxattr_query(path, "security.capability").is_ok_and(|size| size > 0) {
        let todo = "run a copy of it, which has none; or take them away (setcap -r)";
        say("has capabilities of its file", user != 0, "root", todo);
    }
}

/// Whether the guard's library can be preloaded into the program. `library` is that library, `libc` the C library of the program.
pub(super) fn bears(
    machine: &Machine,
    program: &Elf,
    library: Option<&Elf>,
    libc: Option<&Elf>,
    found: &mut Findings,
) -> bool {
    let name = program.path.display();
    let own = library.map_or(crate::machine::elf::own_machine(), |library| library.machine);
    if program.machine != own {
        let (its, own) = (machine_name(program.machine), machine_name(own));
        found.problem(
            format!("{name} is for {its}, the guard's library for {own}: the dynamic linker passes it over"),
            "build LazyGuard for the program's machine",
        );
        return false;
    }
    if program.is_library {
        found.note(
            format!("{name} is a library: what is said below holds for a program that opens it"),
            "give the program as well, for what is said of programs alone",
        );
        return true;
    }
    let Some(interpreter) = &program.interpreter else {
        found.problem(
            format!("{name} is linked statically: nothing can be preloaded into it"),
            "link it dynamically, at least with the C library",
        );
        return false;
    };
    if !machine.at(interpreter).exists() {
        found.problem(
            format!("{name} asks for the dynamic linker {}, which is not there", interpreter.display()),
            "install the system that it was built for, or build it here, for glibc",
        );
        return false;
    }
    if let Some(loader) = program.other_loader() {
        let loader = loader.display();
        found.problem(
            format!("{name} is loaded by {loader}, and the guard's library, like CUDA itself, needs glibc's"),
            "build it for glibc, or run it in an image with glibc (not Alpine)",
        );
        return false;
    }
    if let (Some(needs), Some(has)) = (library.and_then(|library| library.glibc), libc.and_then(|libc| libc.glibc)) {
        if needs > has {
            found.problem(
                format!("{name} gets glibc {}.{}, the guard's library needs {}.{}", has.0, has.1, needs.0, needs.1),
                "build LazyGuard with ./scripts/build, which needs 2.17 at most, or on this machine",
            );
            return false;
        }
    }
    found.ok(format!("{name} is linked dynamically, and the guard's library can be preloaded into it"));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_found_behind_env() {
        for (line, expect) in [
            ("/bin/sh", Some("/bin/sh")),
            (" /usr/bin/python3 -u", Some("/usr/bin/python3")),
            ("/usr/bin/env python3", Some("python3")),
            ("/usr/bin/env -S A=1 python3 -u\r", Some("python3")),
            ("/usr/bin/env", None),
            ("", None),
        ] {
            assert_eq!(interpreter(line.as_bytes()), expect.map(PathBuf::from), "{line:?}");
        }
    }
}
