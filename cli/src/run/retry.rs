//! `--retry N`: makes a run that hung again, with the profile of what it had loaded.
//!
//! Each attempt is a `lazyguard run` with folder, report and exit code. A file in memory holds the attempts that hung, for the later ones.
//!
//! Must not: make again what failed without a hang, or give a program standard input of which an earlier attempt may have read.

use super::inherited::Descriptors;
use super::program;
use super::signals::{stop_with_the_program, Caught};
use crate::judge::Hung;
use crate::machine::{files, system, Exec};
use crate::words::{exit_code, output, Failure};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fstat, memfd_create, seek, FileType, MemfdFlags, SeekFrom};
use rustix::io::{ioctl_fionread, Errno};
use rustix::process::{waitpid, Pid, Signal, WaitOptions, WaitStatus};
use rustix::stdio::stdin;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

pub(crate) const ATTEMPT: &str = "--attempt";

/// The profile of a run that is made again, in the folder of its first attempt, where the user's cache cannot be used or is not to be.
pub(super) const PROFILE_OF_RUN: &str = "profile";

/// An attempt that hung.
#[derive(Serialize, Deserialize)]
pub(super) struct Noted {
    #[serde(flatten)]
    pub hung: Hung,
    /// Whether a load stands in the way, which the next attempt makes ahead.
    #[serde(default)]
    pub is_load: bool,
    /// The profile's place, if that needs a word.
    #[serde(default)]
    pub profile: Option<String>,
}

impl Noted {
    /// The difference of the next attempt, in words.
    fn next(&self) -> String {
        match &self.profile {
            _ if !self.is_load => format!("is made alike, as no load ahead takes {} away", self.hung.code),
            Some(why) => format!("loads ahead what this one has loaded ({why})"),
            None => "loads ahead what this one has loaded".to_owned(),
        }
    }
}

/// Makes the run, and makes it again after a hang, at most so many times. The exit code is the last attempt's.
pub(super) fn attempts(retries: u32) -> Result<u8, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure::Input(format!("--retry: {error}"));
    // Marks what the runtime has opened in place of closed streams, so that no attempt inherits it.
    Descriptors::now([])?;
    let file = memfd_create("lazyguard-attempts", MemfdFlags::CLOEXEC).map_err(|error| failure(&error))?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let command = command(&path).map_err(|error| failure(&error))?;
    let input = Input::now();
    let caught = Caught::now();
    let mut hung = 0;
    let ended = loop {
        let positions = positions();
        let started = program::start(&command, &[], Exec::in_a_child);
        let attempt = started.map_err(|not_started| Failure::Input(not_started.line))?;
        let (ended, interrupted) = wait_for(attempt, &caught)?;
        let all = earlier(&path);
        let Some(last) = all.last().filter(|_| all.len() > hung && !interrupted) else { break ended };
        hung = all.len();
        if hung > retries as usize {
            break ended;
        }
        if let Err(why) = input.begin_again() {
            output::say(format!("attempt {hung} hung, and is not made again: {why}"));
            break ended;
        }
        let next = hung + 1;
        output::say(format!("attempt {hung} hung ({}): attempt {next} {}", last.hung.code, last.next()));
        for (number, path) in read_since(&positions) {
            output::say(format!(
                "attempt {hung} has read of descriptor {number} ({path}), and attempt {next} reads on from there"
            ));
        }
    };
    if let Some(first) = earlier(&path).first() {
        // The reports of the folder stay.
        let _ = std::fs::remove_dir_all(first.hung.folder.join(PROFILE_OF_RUN));
    }
    Ok(code_of(ended))
}

/// The inherited files beside the standard streams, with their positions, which all attempts share.
fn positions() -> Vec<(i32, u64)> {
    let inherited = files::numbered("/proc/self/fd").filter(|number| *number > 2);
    let inherited = inherited.filter(|number| system::descriptor_flags(*number) == Some(0));
    inherited.filter_map(|number| Some((number, position_of(number)?))).collect()
}

/// The position of one that is open for reading.
fn position_of(number: i32) -> Option<u64> {
    const WRITES_ALONE: u32 = 1;
    let text = files::read_text(format!("/proc/self/fdinfo/{number}")).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = u32::from_str_radix(field("flags:")?, 8).ok()?;
    field("pos:")?.parse().ok().filter(|_| flags & 3 != WRITES_ALONE)
}

/// Those that have been read since, with their files.
fn read_since(before: &[(i32, u64)]) -> Vec<(i32, String)> {
    let is_other = |(number, at): &&(i32, u64)| position_of(*number).is_some_and(|now| now != *at);
    let named = |(number, _): &(i32, u64)| {
        let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
        (*number, path.map_or_else(|_| "an unknown file".to_owned(), |path| path.display().to_string()))
    };
    before.iter().filter(is_other).map(named).collect()
}

pub(super) fn earlier(file: &Path) -> Vec<Noted> {
    files::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

pub(super) fn note(file: &Path, noted: Noted) {
    let all: Vec<_> = earlier(file).into_iter().chain([noted]).collect();
    // Without the note, the run is not made again.
    let _ = files::open_to_write(file).and_then(|mut file| file.write_all(&serde_json::to_vec(&all)?));
}

fn command(file: &Path) -> std::io::Result<Vec<OsString>> {
    let mut words = std::env::args_os().skip(1);
    let own = std::env::current_exe()?.into_os_string();
    let attempt = [words.next().unwrap_or_default(), ATTEMPT.into(), file.into()];
    Ok([own].into_iter().chain(attempt).chain(words).collect())
}

/// Waits for an attempt; also says whether the user has pressed Ctrl-C, or another process has ended it.
pub(crate) fn wait_for(attempt: Pid, caught: &Caught) -> Result<(WaitStatus, bool), Failure> {
    let mut interrupted = false;
    loop {
        match waitpid(Some(attempt), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            // It has stopped along with its program.
            Ok(Some((_, status))) if status.stopped() => {
                status.stopping_signal().into_iter().for_each(stop_with_the_program);
            }
            Ok(Some((_, status))) => return Ok((status, interrupted)),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::Input(format!("--retry: the attempt cannot be waited for: {error}"))),
        }
        for heard in caught.wait(None).iter().filter(|heard| !heard.is_own()) {
            let passed_on = heard.is_meant_for(attempt);
            interrupted |= heard.is_ctrl_c() || passed_on && heard.is_one_of(&ENDS);
            if passed_on {
                heard.send_to(attempt);
            }
        }
    }
}

/// The signals by which users and schedulers end a run: after one of them nothing is made again.
const ENDS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

pub(crate) fn code_of(ended: WaitStatus) -> u8 {
    let signal = ended.terminating_signal();
    // A script that runs this command stops at Ctrl-C only if the signal ended the command. The first process of a container cannot end so.
    if let Some(signal) = signal.filter(|_| std::process::id() != 1) {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    let number = |value: i32| u8::try_from(value).unwrap_or(exit_code::OWN_FAILURE);
    match signal {
        Some(signal) => number(signal).saturating_add(exit_code::SIGNAL),
        None => ended.exit_status().map_or(exit_code::OWN_FAILURE, number),
    }
}

const OF_A_PIPE: &str =
    "its standard input is a pipe or a socket, of which it may have read (< /dev/null has no such doubt)";

enum Input {
    /// Closed, a device such as `/dev/null`, a terminal, or a pipe or socket that has ended, without a byte in it.
    Same,
    /// A file, at this position; all attempts share it.
    File(u64),
    /// Another pipe or socket: nothing shows whether an attempt has read of it.
    Stream,
}

impl Input {
    fn now() -> Self {
        let Ok(about) = fstat(stdin()) else { return Self::Same };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => seek(stdin(), SeekFrom::Current(0)).map_or(Self::Stream, Self::File),
            FileType::Fifo | FileType::Socket if !has_ended() => Self::Stream,
            _ => Self::Same,
        }
    }

    fn begin_again(&self) -> Result<(), String> {
        match self {
            Self::Same => Ok(()),
            Self::File(at) => match seek(stdin(), SeekFrom::Start(*at)) {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("its standard input cannot be read from the beginning: {error}")),
            },
            Self::Stream => Err(OF_A_PIPE.to_owned()),
        }
    }
}

/// Whether a pipe's or socket's other end is closed, and nothing is left to be read.
fn has_ended() -> bool {
    let input = stdin();
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    let answered = poll(&mut asked, Some(&Timespec::default())).is_ok();
    let is_hung_up = answered && asked[0].revents().contains(PollFlags::HUP);
    is_hung_up && ioctl_fionread(input).is_ok_and(|bytes| bytes == 0)
}
