//! A command that runs beside the program, unseen by it.
//!
//! The kernel makes everything that becomes another program a child whose end is signalled and which any wait for children
//! finds. So there is a supervisor between: a child that shares the process's memory, never becomes another program, and
//! raises no signal at its end; only waits with `__WALL` find it. It starts the shell and waits for it. It goes when the thread
//! that has made it does, so that it never keeps the process's memory. The shell has a session of its own, and none of the program's
//! descriptors, handlers and blocked signals.
//!
//! Protocol: the parent prepares everything before it makes the supervisor, and keeps it until it has waited for the supervisor.
//! The supervisor answers in [`Given`]; its end shows that the answer is there.
//!
//! Must not: copy the process (a copy would share pages with transfers under way, and run the handlers of `pthread_atfork`),
//! or do anything in the supervisor but system calls: it shares the thread-local variables of the thread that has made it, which
//! keeps running.

use crate::record::run_folder::HANG;
use crate::record::Guard;
use crate::runtime::standard_error;
use lazyguard_core::report::HangReport;
use lazyguard_core::settings::hang_variable;
use lazyguard_core::stack::{modules, own_maps};
use std::ffi::{c_char, c_int, c_long, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// A command that does not end in this time is said to run on, and left alone.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// The commands that were started and have not been seen to end.
#[derive(Default)]
pub struct Commands {
    running: Vec<Running>,
}

impl Commands {
    /// Starts a command because of a hang.
    pub fn start(&mut self, guard: &Guard, command: &str, report: &HangReport) {
        match Running::start(arguments(command), variables(guard, report)) {
            Ok(running) => self.running.push(running),
            Err(error) => say(guard, &format!("could not be started: {error}")),
        }
    }

    /// Looks whether a command has ended, and says how. Waits for nothing.
    pub fn look(&mut self, guard: &Guard) {
        self.running.retain_mut(|command| match command.outcome() {
            Some(outcome) => {
                say(guard, &outcome);
                false
            }
            None => {
                if !command.left_alone && command.since.elapsed() >= LOOKED_AT {
                    command.left_alone = true;
                    say(guard, &format!("still runs after {LOOKED_AT:?}, and is left alone"));
                }
                true
            }
        });
    }
}

fn say(guard: &Guard, what: &str) {
    let line = format!("the command of LAZYGUARD_ON_HANG {what}");
    standard_error::line(&line);
    guard.tracker.recorder().add_note(guard.now(), &line);
}

const SHELL: &CStr = c"/bin/sh";

fn arguments(command: &str) -> Vec<CString> {
    ["sh", "-c", command].into_iter().flat_map(CString::new).collect()
}

/// The environment of the command: that of the process as it began, because the present one may change at any moment; without the
/// guard, and with the facts of the hang.
fn variables(guard: &Guard, report: &HangReport) -> Vec<CString> {
    let block = std::fs::read("/proc/self/environ").unwrap_or_default();
    let mut variables = unguarded(&block, own_file().as_deref());
    let mut tell = |name: &str, value: &[u8]| variables.extend(CString::new([name.as_bytes(), b"=", value].concat()));
    tell(hang_variable::PID, guard.id.to_string().as_bytes());
    tell(hang_variable::CODE, report.verdicts.first().map_or("", |verdict| verdict.code.name()).as_bytes());
    if let Some(folder) = &guard.folder {
        tell(hang_variable::FOLDER, folder.path().as_os_str().as_bytes());
        tell(hang_variable::REPORT, folder.path().join(HANG).as_os_str().as_bytes());
    }
    variables
}

/// Variables without the guard ahead of the started program, and without those of another hang.
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

/// What is preloaded, without the guard.
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

/// Asked of the kernel: the C library makes a path that has no links in the program's memory.
fn are_one_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    of(one).is_some_and(|file| Some(file) == of(other))
}

/// The file that this library was loaded from.
fn own_file() -> Option<PathBuf> {
    let own = own_file as *const () as u64;
    modules(&own_maps()).into_iter().find(|module| module.has_code_at(own)).map(|module| module.path.into())
}

/// What the supervisor and the shell-to-be are given, and where they answer.
struct Given {
    arguments: *const *const c_char,
    variables: *const *const c_char,
    /// Where the second one's stack begins.
    stack: *mut c_void,
    process: libc::pid_t,
    /// Whether descriptor 2 is standard error, and not something else of the program's.
    speaks: bool,
    /// The most descriptors there can be, where they have to be closed one by one.
    descriptors: c_int,
    /// The first error before the shell starts, negative; or 0.
    error: AtomicI32,
    /// How the shell ended, as a wait reports it; or [`UNKNOWN`].
    status: AtomicI32,
}

const UNKNOWN: c_int = -1;

/// A command, and everything that its supervisor uses.
struct Running {
    supervisor: libc::pid_t,
    given: Box<Given>,
    since: Instant,
    left_alone: bool,
    _kept: Kept,
}

/// What [`Given`] points to, and the two stacks.
struct Kept {
    _texts: [Vec<CString>; 2],
    _pointers: [Vec<*const c_char>; 2],
    _stacks: [Vec<u128>; 2],
}

// SAFETY: the pointers are to what lies beside them, which nothing changes.
unsafe impl Send for Running {}

impl Running {
    const STACK: usize = (32 << 10) / size_of::<u128>();

    fn start(arguments: Vec<CString>, variables: Vec<CString>) -> Result<Self, String> {
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).chain([null()]).collect::<Vec<_>>();
        let (to_arguments, to_variables) = (pointers(&arguments), pointers(&variables));
        let (mut first, mut second) = (vec![0u128; Self::STACK], vec![0u128; Self::STACK]);
        // SAFETY: all-zero bytes are a valid `rlimit`.
        let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is valid for writing.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        let given = Box::new(Given {
            arguments: to_arguments.as_ptr(),
            variables: to_variables.as_ptr(),
            stack: second.as_mut_ptr_range().end.cast(),
            process: std::process::id() as libc::pid_t,
            speaks: standard_error::is_there(),
            descriptors: limit.rlim_cur.clamp(256, 1 << 16) as c_int,
            error: AtomicI32::new(0),
            status: AtomicI32::new(UNKNOWN),
        });
        let to_given: *const Given = &*given;
        // SAFETY: the stack and what is given live until the supervisor has been waited for. No signal is named: none is raised at
        // its end.
        let supervisor = unsafe {
            libc::clone(supervise, first.as_mut_ptr_range().end.cast(), libc::CLONE_VM, to_given.cast_mut().cast())
        };
        if supervisor < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        let kept =
            Kept { _texts: [arguments, variables], _pointers: [to_arguments, to_variables], _stacks: [first, second] };
        Ok(Self { supervisor, given, since: Instant::now(), left_alone: false, _kept: kept })
    }

    /// How it has ended, if it has.
    fn outcome(&self) -> Option<String> {
        let mut unused = 0;
        // SAFETY: the status is valid for writing.
        match unsafe { libc::waitpid(self.supervisor, &mut unused, libc::WNOHANG | libc::__WALL) } {
            0 => return None,
            waited if waited == self.supervisor => {}
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => return None,
            // Another process, such as a debugger, has waited for it.
            _ => {}
        }
        let (error, status) = (self.given.error.load(Ordering::Acquire), self.given.status.load(Ordering::Acquire));
        Some(match status {
            _ if error != 0 => {
                let error = std::io::Error::from_raw_os_error(-error);
                format!("could not be started: {}: {error}", SHELL.to_string_lossy())
            }
            UNKNOWN => "has ended, and how is not known".to_owned(),
            status if libc::WIFSIGNALED(status) => format!("was ended by signal {}", libc::WTERMSIG(status)),
            status => format!("ended with status {}", libc::WEXITSTATUS(status)),
        })
    }
}

/// A system call, and nothing else: no variable of the thread's is touched, as `errno` is.
#[inline(always)]
unsafe fn system(number: c_long, one: usize, two: usize, three: usize, four: usize) -> isize {
    let result: isize;
    // SAFETY: what the call does is the caller's to answer for; the rest is the kernel's calling convention.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") one, in("rsi") two, in("rdx") three, in("r10") four,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") one => result,
            in("x1") two, in("x2") three, in("x3") four,
            options(nostack),
        );
    }
    result
}

/// The supervisor: starts the shell, and waits for it.
extern "C" fn supervise(given: *mut c_void) -> c_int {
    // SAFETY: the `Given` of `start`, which lives as long as this runs; system calls with pointers to it, or with integers.
    unsafe {
        let given = &*given.cast::<Given>();
        system(libc::SYS_prctl, libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0);
        if system(libc::SYS_getppid, 0, 0, 0, 0) != given.process as isize {
            // The process has gone already, or lives in a namespace where it cannot be known.
            return 0;
        }
        // What stops or ends the program's group does not stop this, which the program would be told.
        system(libc::SYS_setsid, 0, 0, 0, 0);
        let to_given: *const Given = given;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let shell = libc::clone(become_shell, given.stack, flags, to_given.cast_mut().cast());
        close_from(0, given.descriptors);
        if shell < 0 {
            given.error.store(-libc::EAGAIN, Ordering::Release);
            return 0;
        }
        let mut status: c_int = 0;
        let waited =
            system(libc::SYS_wait4, shell as usize, (&raw mut status).expose_provenance(), libc::__WALL as usize, 0);
        if waited == shell as isize {
            given.status.store(status, Ordering::Release);
        }
    }
    0
}

/// The child that becomes the shell.
extern "C" fn become_shell(given: *mut c_void) -> c_int {
    /// The kernel's own forms of a signal's action, of which only "default" is needed, and of a set of signals.
    const DEFAULT: [u64; 4] = [0; 4];
    const LAST_SIGNAL: usize = 64;
    const NOTHING: &CStr = c"/dev/null";
    // SAFETY: as above. The stack is this one's own; the supervisor stands still until it is the shell, or has ended.
    unsafe {
        let given = &*given.cast::<Given>();
        let none = 0u64;
        system(libc::SYS_setsid, 0, 0, 0, 0);
        for signal in 1..=LAST_SIGNAL {
            system(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr().expose_provenance(), 0, size_of::<u64>());
        }
        let here = libc::AT_FDCWD as usize;
        let nothing =
            system(libc::SYS_openat, here, NOTHING.as_ptr().expose_provenance(), libc::O_RDWR as usize, 0) as usize;
        let (output, errors) = if given.speaks { (2, 2) } else { (nothing, nothing) };
        for (from, to) in [(output, 1), (errors, 2), (nothing, 0)] {
            if from != to {
                system(libc::SYS_dup3, from, to, 0, 0);
            }
        }
        close_from(3, given.descriptors);
        system(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK as usize,
            (&raw const none).expose_provenance(),
            0,
            size_of::<u64>(),
        );
        let (arguments, variables) = (given.arguments.expose_provenance(), given.variables.expose_provenance());
        let error = system(libc::SYS_execve, SHELL.as_ptr().expose_provenance(), arguments, variables, 0);
        given.error.store(error as c_int, Ordering::Release);
    }
    127
}

/// Closes every descriptor from this one on.
#[inline(always)]
unsafe fn close_from(first: usize, descriptors: c_int) {
    // SAFETY: takes integers only; the table is the caller's own copy.
    unsafe {
        if system(libc::SYS_close_range, first, libc::c_uint::MAX as usize, 0, 0) != 0 {
            for file in first..descriptors as usize {
                system(libc::SYS_close, file, 0, 0, 0);
            }
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

    /// What a command that ends in each way is said to have done.
    #[test]
    fn the_end_of_a_command_is_seen_and_a_wait_for_children_finds_none() {
        for (command, expect) in [
            ("exit 0", "ended with status 0"),
            ("exit 3", "ended with status 3"),
            ("kill -9 $$", "was ended by signal 9"),
            ("no-such-command-anywhere 2> /dev/null", "ended with status 127"),
        ] {
            let running = Running::start(arguments(command), vec![c"PATH=/bin:/usr/bin".to_owned()]).unwrap();
            let outcome = loop {
                // SAFETY: no status is asked for.
                let found = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
                assert_eq!((found, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
                if let Some(outcome) = running.outcome() {
                    break outcome;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(outcome, expect, "{command}");
        }
    }
}
