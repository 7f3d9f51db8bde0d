//! The state that this process was started with, and gives back once the program runs: ignored signals, closed standard streams, descriptors.
//!
//! A pipe has no end, and a lock is not free, until every process has closed its descriptor: the command keeps none but [`StandardError`].
//!
//! Must not: open anything before [`Descriptors::now`].

use crate::folder::Stat;
use crate::machine::{files, system, Signals};
use crate::words::Failure;
use rustix::fs::{fstat, lstat, stat, FileType, Mode, OFlags};
use rustix::io::{fcntl_setfd, Errno, FdFlags};
use rustix::process::Pid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use rustix::termios::isatty;
use std::ffi::c_int;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The signals that were ignored or blocked, and which of the standard streams were closed, before the runtime of this process changed both.
static AT_START: OnceLock<(Signals, [bool; 3])> = OnceLock::new();

// Runs before `main`: the runtime ignores SIGPIPE, and opens /dev/null for each standard stream that is closed.
#[allow(unsafe_code)]
#[ctor::ctor(unsafe)]
fn at_the_start() {
    let _ = AT_START.set((Signals::now(), [0, 1, 2].map(|stream| system::descriptor_flags(stream).is_none())));
}

pub(crate) fn signals() -> Signals {
    AT_START.get().map_or_else(Signals::now, |(signals, _)| *signals)
}

fn was_closed(stream: usize) -> bool {
    AT_START.get().is_some_and(|(_, closed)| closed[stream])
}

/// Without `/proc`, descriptors are looked for up to this number.
const MOST: c_int = 1 << 12;

pub(super) struct Descriptors {
    others: Vec<c_int>,
    kept: Vec<c_int>,
}

impl Descriptors {
    /// The descriptors of this moment. `own_files` are those that this command is to write: `/dev/fd/3` is a descriptor that the user has meant for
    /// it. One that cannot be written to is a failure: by the end of the run, its number may be that of another file.
    pub fn now<'a>(own_files: impl IntoIterator<Item = &'a Path>) -> Result<Self, Failure> {
        for (stream, descriptor) in [stdin(), stdout(), stderr()].into_iter().enumerate() {
            if was_closed(stream) {
                let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
            }
        }
        let named = own_files.into_iter().filter_map(|path| files::descriptor(path).map(|number| (path, number)));
        let usable = named.map(|(path, number)| match why_unusable(number) {
            Some(why) => Err(Failure::at(path, format!("cannot be written: {why}"))),
            None => Ok(number),
        });
        let kept = usable.collect::<Result<_, _>>()?;
        let listed: Vec<c_int> = files::numbered("/proc/self/fd").collect();
        let all = if listed.is_empty() { (0..MOST).collect() } else { listed };
        // An exec has left them open.
        let others = all.into_iter().filter(|number| *number > 2 && system::descriptor_flags(*number) == Some(0));
        Ok(Self { others: others.collect(), kept })
    }

    /// Closes what the program alone is to have, and returns its standard error.
    pub fn give_up(self, program: Pid) -> StandardError {
        let is_kept = |number: &c_int| self.kept.contains(number);
        for number in self.others.iter().filter(|number| !is_kept(number)) {
            let _ = nix::unistd::close(*number);
        }
        // A file that this command opens later must not get the number of a standard stream.
        if let Ok(nothing) = nothing() {
            let _ = dup2_stdin(&nothing);
            if !is_kept(&1) {
                let _ = dup2_stdout(&nothing);
            }
        }
        StandardError::of(program, is_kept(&2))
    }
}

fn why_unusable(number: c_int) -> Option<String> {
    let is_open = match usize::try_from(number) {
        Ok(0) => return Some("it is standard input".to_owned()),
        Ok(stream) if stream < 3 => !was_closed(stream),
        _ => system::descriptor_flags(number) == Some(0),
    };
    match (is_open, system::is_written_by(number)) {
        (true, true) => None,
        (true, false) => Some(format!("descriptor {number} is open for reading alone")),
        (false, _) => Some(format!("descriptor {number} is not open")),
    }
}

fn nothing() -> Result<OwnedFd, Errno> {
    let open = |path: &str, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    open("/dev/null", OFlags::RDWR).or_else(|_| open("/", OFlags::PATH))
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// Standard error, which the command shares with the program.
///
/// A reader of a pipe or a terminal waits until the last process has closed it. So the command closes it soon after the program has, keeps its
/// place (`O_PATH`), and opens that again for lines of its own; a socket cannot be opened again. The command keeps regular files, where a second
/// position would overwrite other writers' lines, and what it cannot see of another user's process.
pub(super) struct StandardError {
    /// The process, and under which of its descriptors it was seen last. `None` if there is nothing to let go.
    seen: Option<(Pid, PathBuf)>,
    is_held: bool,
    place: Option<OwnedFd>,
    next: Instant,
    pause: Duration,
}

impl StandardError {
    fn of(program: Pid, is_kept: bool) -> Self {
        let kind = fstat(stderr()).ok().map(|about| FileType::from_raw_mode(about.st_mode));
        let is_awaited = matches!(kind, Some(FileType::Fifo | FileType::Socket)) || isatty(stderr());
        let seen = (is_awaited && !is_kept && !was_closed(2)).then(|| (program, of_process(program).join("2")));
        Self { seen, is_held: true, place: None, next: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    pub fn pause(&self) -> Option<Duration> {
        (self.seen.is_some() && self.is_held).then(|| self.next.saturating_duration_since(Instant::now()))
    }

    pub fn look(&mut self) {
        if self.pause() != Some(Duration::ZERO) {
            return;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next = Instant::now() + self.pause;
        let Some((program, seen)) = &mut self.seen else { return };
        let Some(found) = find(*program, seen) else {
            self.is_held = false;
            let place = rustix::fs::open("/proc/self/fd/2", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            self.place = self.place.take().or(place.ok());
            let _ = dup2_stderr(stdin());
            return;
        };
        *seen = found;
    }

    pub fn take_back(&mut self) {
        let Some(place) = self.place.as_ref().filter(|_| !self.is_held) else { return };
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(place));
        self.is_held = rustix::fs::open(path, flags, Mode::empty()).and_then(dup2_stderr).is_ok();
    }
}

fn of_process(process: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/fd"))
}

/// The descriptor under which a process has this one's standard error; `None` if closed, and `seen` if that cannot be asked.
fn find(process: Pid, seen: &Path) -> Option<PathBuf> {
    let Ok(own) = fstat(stderr().as_fd()) else { return Some(seen.to_owned()) };
    let is_it = |path: &Path| {
        // A link to what is open for writing can be written to. A place that a command like this one keeps is not.
        let is_open = lstat(path)?.st_mode & 0o200 != 0;
        stat(path).map(|other| is_open && (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino))
    };
    match is_it(seen) {
        Ok(false) | Err(Errno::NOENT) => {}
        _ => return Some(seen.to_owned()),
    }
    let Ok(entries) = fs::read_dir(of_process(process)) else { return Some(seen.to_owned()) };
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| is_it(path).is_ok_and(|is_it| is_it));
    // A process that ends has closed everything, and this command has still to say how it went.
    found.or_else(|| Stat::of(process.as_raw_pid()).is_none_or(Stat::is_ending).then(|| seen.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It may have moved standard error to another number for a while, as shells do.
    #[test]
    fn standard_error_is_found_under_any_number_of_a_process() {
        let start = |script: &str| std::process::Command::new("bash").args(["-c", script]).spawn().unwrap();
        let found = |child: &std::process::Child| {
            let process = Pid::from_child(child);
            find(process, &of_process(process).join("2"))
        };
        let until = |child: &std::process::Child, expect: Option<&str>| loop {
            let found = found(child);
            if found.as_deref().and_then(Path::file_name).and_then(std::ffi::OsStr::to_str) == expect {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let mut children =
            [start("exec 7>&2 2>&- 1>&-; read -t 60 <> <(:)"), start("exec 2>&- 1>&-; read -t 60 <> <(:)")];
        until(&children[0], Some("7"));
        until(&children[1], None);
        for child in &mut children {
            child.kill().unwrap();
            while Stat::of(Pid::from_child(child).as_raw_pid()).is_some_and(|seen| !seen.is_ending()) {}
            assert!(found(child).is_some(), "it has ended");
            child.wait().unwrap();
        }
    }
}
