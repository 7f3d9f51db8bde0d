//! A command that runs beside the program, unseen by it. A child signals its end to its parent, and any wait for children finds it. So the shell is a
//! grandchild, whose parent, the go-between, has ended. The go-between shares the process's memory, starts the shell with `posix_spawn` and raises no signal
//! at its end; only a wait with `__WALL` finds it. Its maker stands still meanwhile. The shell has a process group of its own, and none of the program's
//! descriptors, handlers and blocked signals.
//!
//! Must not: copy the process (a copy would share pages with transfers under way, and run the handlers of `pthread_atfork`).

use crate::record::run_folder::HANG;
use crate::record::Guard;
use crate::runtime::{process, standard_error};
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::HangReport;
use lazyguard_core::settings::hang_variable;
use lazyguard_core::stack::{modules, own_maps};
use std::ffi::{c_char, c_int, c_short, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// A command that takes longer is left alone.
const LOOKED_AT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Commands {
    running: Vec<(String, Running)>,
}

impl Commands {
    /// `setting`: the one that asks for the command.
    pub fn start(&mut self, guard: &Guard, (setting, command): (&str, &str), report: &HangReport) {
        match Running::start(&arguments(command), &variables(guard, report)) {
            Ok(running) => self.running.push((setting.to_owned(), running)),
            Err(error) => say(guard, setting, &format!("could not be started: {error}")),
        }
    }

    /// Says which commands have ended.
    pub fn look(&mut self, guard: &Guard) {
        self.running.retain_mut(|(setting, command)| {
            let has_ended = command.has_ended();
            if has_ended {
                say(guard, setting, "has ended");
            } else if !command.left_alone && command.since.elapsed() >= LOOKED_AT {
                command.left_alone = true;
                say(guard, setting, &format!("still runs after {LOOKED_AT:?}, and is left alone"));
            }
            !has_ended
        });
    }
}

fn say(guard: &Guard, setting: &str, what: &str) {
    let line = format!("the command of {setting} {what}");
    standard_error::line(&line);
    guard.tracker.recorder().add_note(guard.now(), &line);
}

const SHELL: &CStr = c"/bin/sh";

fn arguments(command: &str) -> Vec<CString> {
    ["sh", "-c", command].into_iter().flat_map(CString::new).collect()
}

/// The process's environment as it began, because the present one may change at any moment; without the guard, with the facts of the hang.
fn variables(guard: &Guard, report: &HangReport) -> Vec<CString> {
    let block = std::fs::read("/proc/self/environ").unwrap_or_default();
    let mut variables = unguarded(&block, own_file().as_deref());
    let mut tell = |name: &str, value: &[u8]| variables.extend(CString::new([name.as_bytes(), b"=", value].concat()));
    tell(hang_variable::PID, guard.id.to_string().as_bytes());
    let stalled = if report.status == Status::Stalled { "stalled" } else { "" };
    let code = report.verdicts.first().map_or(stalled, |verdict| verdict.code.name());
    tell(hang_variable::CODE, code.as_bytes());
    if let Some(folder) = &guard.folder {
        tell(hang_variable::FOLDER, folder.path().as_os_str().as_bytes());
        tell(hang_variable::REPORT, folder.path().join(HANG).as_os_str().as_bytes());
    }
    variables
}

/// The environment without the guard ahead of the program, and without another hang's variables.
fn unguarded(block: &[u8], own: Option<&Path>) -> Vec<CString> {
    let told = |name: &[u8]| hang_variable::ALL.iter().any(|variable| variable.as_bytes() == name);
    let mut variables = Vec::new();
    for entry in block.split(|&b| b == 0) {
        let Some(end) = entry.iter().position(|&b| b == b'=').filter(|&end| end > 0) else { continue };
        let (name, value) = (&entry[..end], &entry[end + 1..]);
        if told(name) {
            continue;
        }
        let value = if name == b"LD_PRELOAD" { &without(value, own) } else { value };
        if name != b"LD_PRELOAD" || !value.is_empty() {
            variables.extend(CString::new([name, b"=", value].concat()));
        }
    }
    variables
}

fn without(preloaded: &[u8], own: Option<&Path>) -> Vec<u8> {
    const NAME: &str = "liblazyguard.so";
    let is_own = |entry: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(entry));
        path.file_name().is_some_and(|name| name == NAME)
            || own.is_some_and(|own| path.file_name() == own.file_name() || are_one_file(path, own))
    };
    let entries = preloaded.split(|&b| b == b':' || b == b' ').filter(|entry| !entry.is_empty() && !is_own(entry));
    entries.collect::<Vec<_>>().join(&b':')
}

/// Compares files by the kernel's numbers: the C library resolves a path in the program's memory.
fn are_one_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    of(one).is_some_and(|file| Some(file) == of(other))
}

fn own_file() -> Option<PathBuf> {
    let own = own_file as *const () as u64;
    modules(&own_maps()).into_iter().find(|module| module.has_code_at(own)).map(|module| module.path.into())
}

struct Running {
    shell: libc::pid_t,
    since: Instant,
    left_alone: bool,
}

impl Running {
    fn start(arguments: &[CString], variables: &[CString]) -> std::io::Result<Self> {
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr().cast_mut()).chain([null_mut()]).collect();
        let mut given = Given {
            arguments: pointers(arguments),
            variables: pointers(variables),
            speaks: standard_error::is_there(),
            descriptors: process::limit(libc::RLIMIT_NOFILE).unwrap_or(0).clamp(256, 1 << 16) as c_int,
            error: 0,
            shell: 0,
        };
        let mut stack = vec![0u128; STACK];
        let (top, flags) = (stack.as_mut_ptr_range().end.cast(), libc::CLONE_VM | libc::CLONE_VFORK);
        // SAFETY: this thread stands still until the go-between has ended: stack and argument outlive it. No signal is raised.
        let go_between = unsafe { libc::clone(go_between, top, flags, (&raw mut given).cast()) };
        if go_between < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(go_between, null_mut(), libc::__WALL) };
        match given.error {
            0 => Ok(Self { shell: given.shell, since: Instant::now(), left_alone: false }),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }

    fn has_ended(&self) -> bool {
        // SAFETY: takes integers, and no status is asked for.
        let (waited, asked) =
            unsafe { (libc::waitpid(self.shell, null_mut(), libc::WNOHANG), libc::kill(self.shell, 0)) };
        // A child after all has to be waited for.
        waited == self.shell || asked != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }
}

const STACK: usize = (64 << 10) / size_of::<u128>();

struct Given {
    arguments: Vec<*mut c_char>,
    variables: Vec<*mut c_char>,
    /// Whether descriptor 2 is standard error.
    speaks: bool,
    /// The limit, where they are closed one by one.
    descriptors: c_int,
    error: c_int,
    shell: libc::pid_t,
}

/// Starts the shell. Descriptors and handlers are copies.
extern "C" fn go_between(given: *mut c_void) -> c_int {
    const OWN: c_int = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETPGROUP;
    // SAFETY: the `Given` of `start` outlives this; all-zero bytes are valid structures.
    unsafe {
        let given = &mut *given.cast::<Given>();
        libc::setsid();
        let nothing = libc::fcntl(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR), libc::F_DUPFD, 3);
        let (output, errors) = if given.speaks { (2, 2) } else { (nothing, nothing) };
        for (from, to) in [(output, 1), (errors, 2), (nothing, 0)] {
            libc::dup2(from, to);
        }
        close_from(3, given.descriptors);
        let (mut attributes, mut all, mut none) = std::mem::zeroed();
        libc::posix_spawnattr_init(&mut attributes);
        libc::sigfillset(&mut all);
        libc::sigemptyset(&mut none);
        libc::posix_spawnattr_setsigdefault(&mut attributes, &all);
        libc::posix_spawnattr_setsigmask(&mut attributes, &none);
        libc::posix_spawnattr_setflags(&mut attributes, OWN as c_short | libc::POSIX_SPAWN_USEVFORK);
        let (arguments, variables) = (given.arguments.as_ptr(), given.variables.as_ptr());
        given.error = libc::posix_spawn(&mut given.shell, SHELL.as_ptr(), null(), &attributes, arguments, variables);
    }
    0
}

fn close_from(first: c_int, descriptors: c_int) {
    // SAFETY: takes integers only; the table is the caller's own copy.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            (first..descriptors).for_each(|file| _ = libc::close(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_not_guarded() {
        let block =
            b"PATH=/bin\0LD_PRELOAD=/lib/a.so:/opt/liblazyguard.so /lib/b.so\0=::=odd\0LAZYGUARD_HANG_CODE=LG299\0\
                      LAZYGUARD_ON_HANG=command:true\0EMPTY=\0no equals sign\0";
        let texts = |block: &[u8], own: Option<&Path>| {
            unguarded(block, own).iter().map(|text| text.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(block, None),
            ["PATH=/bin", "LD_PRELOAD=/lib/a.so:/lib/b.so", "LAZYGUARD_ON_HANG=command:true", "EMPTY="]
        );
        // Under another name.
        let own = Some(Path::new("/opt/guard-1.so"));
        assert_eq!(texts(b"LD_PRELOAD=/usr/../opt/guard-1.so\0", own), [""; 0]);
        assert_eq!(texts(b"LD_PRELOAD=libjemalloc.so\0", own), ["LD_PRELOAD=libjemalloc.so"]);
        assert!(own_file().is_some_and(|path| path.is_file()));
    }

    #[test]
    fn the_end_of_a_command_is_seen_and_a_wait_for_children_finds_none() {
        for command in ["exit 0", "exit 3", "kill -9 $$", "no-such-command-anywhere 2> /dev/null"] {
            let running = Running::start(&arguments(command), &[c"PATH=/bin:/usr/bin".to_owned()]).unwrap();
            loop {
                // SAFETY: no status is asked for.
                let found = unsafe { libc::waitpid(-1, null_mut(), libc::WNOHANG) };
                assert_eq!((found, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
                if running.has_ended() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
