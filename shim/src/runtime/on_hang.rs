//! What is done about a hang once it has been reported: `LAZYGUARD_ON_HANG`.
//!
//! Whoever asks for an end gets one, whatever state the program is in: no handler of the program's runs, no exit handler, no
//! lock is waited for. The guard's own files are completed before. A command runs beside the program, which must not notice: it
//! is a child that no wait for children finds and whose end raises no signal, in a session of its own, without the program's
//! descriptors, handlers and signal mask. It is looked at in passing, and left alone if it does not end.
//!
//! Must not: wait for the command, or do anything but system calls in the child before it is the shell. The child shares the
//! process's memory until then: a copy of the process would share pages with transfers under way, and run the handlers of
//! `pthread_atfork`.

use super::folder::{HANG, RUN};
use super::{standard_error, Guard};
use lazyguard_core::report::HangReport;
use lazyguard_core::settings::{hang_variable, OnHang};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Does what the user wants done about a hang. Returns only where the process is to go on.
pub fn act(guard: &'static Guard, report: &HangReport) {
    match &guard.settings.on_hang {
        OnHang::Report => {}
        OnHang::Abort => {
            complete(guard, "abort");
            abort();
        }
        OnHang::Exit(status) => {
            complete(guard, &format!("exit:{status}"));
            leave(c_int::from(*status));
        }
        OnHang::Command(command) => guard.commands.start(guard, command, report),
    }
}

// --- the end of the process ---

/// Completes everything that is to outlive the process.
fn complete(guard: &'static Guard, how: &str) {
    guard.log.finish(guard);
    guard.world.recorder().seen_alive(guard.now());
    let account = guard.account(&format!("ended by LAZYGUARD_ON_HANG={how}"));
    if let Some(folder) = &guard.folder {
        let kept = folder.replace(RUN, &account.json()).and_then(|()| guard.backing.save(folder));
        if let Err(error) = kept {
            standard_error::line(&format!("the account could not be kept in {}: {error}", folder.path().display()));
        }
        guard.requests.end();
    }
    if guard.settings.summary {
        account.lines().iter().for_each(|line| standard_error::line(line));
    }
    standard_error::line(&format!("ending the process, as LAZYGUARD_ON_HANG={how} says"));
}

/// The kernel's own form of a signal set and of a signal's action, of which only "default" is needed: an interposed or wrapped
/// function of the C library might do something else.
type SignalSet = u64;
const DEFAULT_ACTION: [u64; 4] = [0; 4];
const LAST_SIGNAL: c_int = 64;

/// Takes the default action for a signal, whatever the program has set.
///
/// # Safety
///
/// The process, or the child that shares its memory but not its handlers, must be about to end or to become another program.
unsafe fn set_default(signal: c_int) {
    // SAFETY: the action is as large as the kernel's is at most.
    unsafe {
        let none = null_mut::<c_void>();
        libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT_ACTION.as_ptr(), none, size_of::<SignalSet>());
    }
}

/// Ends the process by `SIGABRT`, with a core file where the system writes one.
fn abort() -> ! {
    let set: SignalSet = 1 << (libc::SIGABRT - 1);
    // SAFETY: the set is valid for reading; the rest takes integers only. The process ends here.
    unsafe {
        set_default(libc::SIGABRT);
        let none = null_mut::<c_void>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const set, none, size_of::<SignalSet>());
        let (process, thread) = (libc::syscall(libc::SYS_getpid), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGABRT);
    }
    // The first process of a container is not ended by a signal of its own.
    leave(128 + libc::SIGABRT);
}

/// Ends the process at once.
fn leave(status: c_int) -> ! {
    loop {
        // SAFETY: takes an integer, and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

// --- the command ---

/// A command that does not end in this time is said to run on, and left alone.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// The commands that were started and have not been seen to end.
#[derive(Default)]
pub struct Commands {
    running: Mutex<Vec<Command>>,
}

struct Command {
    process: libc::pid_t,
    since: Instant,
    left_alone: bool,
}

impl Commands {
    fn start(&self, guard: &Guard, command: &str, report: &HangReport) {
        match Prepared::new(guard, command, report).map_err(str::to_owned).and_then(|prepared| prepared.start()) {
            Ok(process) => {
                let command = Command { process, since: Instant::now(), left_alone: false };
                self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(command);
            }
            Err(error) => say(guard, &format!("could not be started: {error}")),
        }
    }

    /// Looks whether a command has ended, and says how.
    pub fn look(&self, guard: &Guard) {
        let mut running = self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        running.retain_mut(|command| {
            let mut status = 0;
            match wait(command.process, &mut status, libc::WNOHANG) {
                0 if command.left_alone || command.since.elapsed() < LOOKED_AT => true,
                0 => {
                    command.left_alone = true;
                    say(guard, &format!("still runs after {LOOKED_AT:?}, and is left alone"));
                    true
                }
                waited if waited == command.process => {
                    if libc::WIFSIGNALED(status) {
                        say(guard, &format!("was ended by signal {}", libc::WTERMSIG(status)));
                    } else {
                        say(guard, &format!("ended with status {}", libc::WEXITSTATUS(status)));
                    }
                    false
                }
                _ => false,
            }
        });
    }
}

fn wait(process: libc::pid_t, status: &mut c_int, options: c_int) -> libc::pid_t {
    // SAFETY: the status is valid for writing; the usage is not asked for.
    unsafe { libc::wait4(process, status, options | libc::__WALL, null_mut()) }
}

fn say(guard: &Guard, what: &str) {
    let line = format!("the command of LAZYGUARD_ON_HANG {what}");
    standard_error::line(&line);
    guard.world.recorder().add_note(guard.now(), &line);
}

/// Everything that the child needs, made before there is one.
struct Prepared {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// Whether descriptor 2 is standard error, and not something else of the program's.
    speaks: bool,
    /// The most descriptors there can be, where they have to be closed one by one.
    descriptors: c_int,
}

/// What the child is given: pointers only.
struct Given {
    arguments: *const *const c_char,
    environment: *const *const c_char,
    speaks: bool,
    descriptors: c_int,
    /// Why the shell could not be started.
    error: AtomicI32,
}

impl Prepared {
    const SHELL: &'static CStr = c"/bin/sh";
    const STACK: usize = 64 << 10;

    fn new(guard: &Guard, command: &str, report: &HangReport) -> Result<Self, &'static str> {
        let words = ["sh", "-c", command].map(CString::new);
        let arguments: Result<Vec<_>, _> = words.into_iter().collect();
        // As the process began: what the program has put there since may change at any moment.
        let mut environment = environment(&std::fs::read("/proc/self/environ").unwrap_or_default(), own_file().as_deref());
        let folder = guard.folder.as_ref().map(|folder| folder.path());
        let code = report.verdicts.first().map_or("", |verdict| verdict.code.name());
        let mut tell = |name: &str, value: &[u8]| {
            environment.extend(CString::new([name.as_bytes(), b"=", value].concat()));
        };
        tell(hang_variable::PID, guard.process.to_string().as_bytes());
        tell(hang_variable::CODE, code.as_bytes());
        if let Some(folder) = folder {
            tell(hang_variable::FOLDER, folder.as_os_str().as_bytes());
            tell(hang_variable::REPORT, folder.join(HANG).as_os_str().as_bytes());
        }
        // SAFETY: all-zero bytes are a valid `rlimit`.
        let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is valid for writing.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        Ok(Self {
            arguments: arguments.map_err(|_| "the command holds a zero byte")?,
            environment,
            speaks: standard_error::is_there(),
            descriptors: limit.rlim_cur.clamp(256, 1 << 16) as c_int,
        })
    }

    /// Starts the shell; returns its process id.
    fn start(&self) -> Result<libc::pid_t, String> {
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).chain([null()]).collect::<Vec<_>>();
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut given = Given {
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            speaks: self.speaks,
            descriptors: self.descriptors,
            error: AtomicI32::new(0),
        };
        let mut stack = vec![0u128; Self::STACK / size_of::<u128>()];
        // No signal at its end, so that only a wait with `__WALL` finds it; the memory is shared until it is the shell, and this
        // thread stands still meanwhile.
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: the stack and what is given live until the child no longer uses them: `CLONE_VFORK` waits for that. The child
        // makes system calls only.
        let process = unsafe { libc::clone(child, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut given).cast()) };
        if process < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        match given.error.load(Ordering::Relaxed) {
            0 => Ok(process),
            error => {
                wait(process, &mut 0, 0);
                Err(format!("{}: {}", Self::SHELL.to_string_lossy(), std::io::Error::from_raw_os_error(error)))
            }
        }
    }
}

/// The child, until it is the shell.
extern "C" fn child(given: *mut c_void) -> c_int {
    const NOTHING: &CStr = c"/dev/null";
    let nobody: SignalSet = 0;
    // SAFETY: the parent's `Given`, which lives as long as this runs. Everything below is a system call: it takes integers, and
    // pointers to what the parent has made.
    unsafe {
        let given = &*given.cast::<Given>();
        libc::syscall(libc::SYS_setsid);
        (1..=LAST_SIGNAL).for_each(|signal| set_default(signal));
        let nothing = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, NOTHING.as_ptr(), libc::O_RDWR) as c_int;
        let (output, errors) = if given.speaks { (2, 2) } else { (nothing, nothing) };
        for (from, to) in [(output, 1), (errors, 2), (nothing, 0)] {
            if from != to {
                libc::syscall(libc::SYS_dup3, from, to, 0);
            }
        }
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            (3..given.descriptors).for_each(|file| {
                libc::syscall(libc::SYS_close, file);
            });
        }
        let none = null_mut::<c_void>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const nobody, none, size_of::<SignalSet>());
        libc::syscall(libc::SYS_execve, Prepared::SHELL.as_ptr(), given.arguments, given.environment);
        given.error.store(*libc::__errno_location(), Ordering::Relaxed);
        libc::syscall(libc::SYS_exit, 127);
    }
    127
}

/// The environment for the command: the process's, without the guard in front of it and without what another hang has told.
fn environment(block: &[u8], own: Option<&Path>) -> Vec<CString> {
    let told = |name: &[u8]| hang_variable::ALL.iter().any(|variable| variable.as_bytes() == name);
    let mut environment = Vec::new();
    for entry in block.split(|&b| b == 0) {
        let Some(end) = entry.iter().position(|&b| b == b'=').filter(|&end| end > 0) else { continue };
        let (name, value) = (&entry[..end], &entry[end + 1..]);
        if told(name) {
            continue;
        }
        let value = if name == b"LD_PRELOAD" { &without(value, own) } else { value };
        if name != b"LD_PRELOAD" || !value.is_empty() {
            environment.extend(CString::new([name, b"=", value].concat()));
        }
    }
    environment
}

/// What is preloaded, without the guard.
fn without(preloaded: &[u8], own: Option<&Path>) -> Vec<u8> {
    const NAME: &str = "liblazyguard.so";
    let is_own = |entry: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(entry));
        path.file_name().is_some_and(|name| name == NAME)
            || own.is_some_and(|own| path.file_name() == own.file_name() || path.canonicalize().is_ok_and(|p| p == own))
    };
    let entries = preloaded.split(|&b| b == b':' || b == b' ').filter(|entry| !entry.is_empty() && !is_own(entry));
    entries.collect::<Vec<_>>().join(&b':')
}

/// The file that this library was loaded from.
fn own_file() -> Option<PathBuf> {
    let own = own_file as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    super::keeper::file_of(&maps, own).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_not_guarded() {
        let block = b"PATH=/bin\0LD_PRELOAD=/lib/a.so:/opt/liblazyguard.so /lib/b.so\0=::=odd\0LAZYGUARD_HANG_CODE=LG299\0\
                      LAZYGUARD_ON_HANG=command:true\0EMPTY=\0no equals sign\0";
        let texts = |block: &[u8], own: Option<&Path>| {
            environment(block, own).iter().map(|text| text.to_string_lossy().into_owned()).collect::<Vec<_>>()
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
}
