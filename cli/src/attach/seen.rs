//! What was seen of a process: the content of both forms of the output.
//!
//! Must not: decide anything.

use super::python::PythonFrame;
use lazyguard_core::api::Code;
use lazyguard_core::report::FrameSeen;
use serde::Serialize;

/// What `lazyguard report PID --format json` prints of a process without the guard.
#[derive(Serialize)]
pub(super) struct Attached {
    /// The process.
    pub process: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// The path of the driver's library that it has mapped; null where it has none.
    pub driver: Option<String>,
    /// Whether the process has mapped `liblazyguard.so`: then the guard knows more.
    pub guarded: bool,
    /// Whether the process was stopped, as by Ctrl-Z, when it was looked at.
    pub stopped: bool,
    /// The time between the two looks, in nanoseconds.
    pub between_nanos: u64,
    /// The version of its Python interpreter; null where it has none.
    pub python: Option<String>,
    /// The threads: first those in driver calls, then the others.
    pub threads: Vec<ThreadSeen>,
    /// The hang codes that fit what was seen.
    pub candidates: Vec<Candidate>,
    /// What could not be looked at, with the setting that forbids it.
    pub refused: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ThreadSeen {
    /// The thread's id.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// `asleep in futex`, `running`, `stopped`: what it did at the first look.
    pub state: String,
    /// The driver call that it is in; null where it is in none.
    pub call: Option<DriverCall>,
    /// Whether it was started by the driver and runs nothing else.
    pub is_the_drivers: bool,
    /// Whether it is a thread of the driver that runs a host function of the program.
    pub runs_host_function: bool,
    /// Whether the thread was stopped for a moment for this stack; else the stack was read while it slept.
    pub was_stopped: bool,
    /// Whether the stack was followed to its first frame.
    pub is_whole: bool,
    /// The frames, the innermost first.
    pub frames: Vec<FrameSeen>,
    /// The Python frames, the innermost first; empty where it runs no Python, or it cannot be read.
    pub python: Vec<PythonFrame>,
    /// What there is to say about the frames.
    pub notes: Vec<String>,
}

/// A driver call that a thread is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DriverCall {
    /// The function's name; null where the driver exports no function there.
    pub function: Option<String>,
    /// What kind of call that is: a word of `lazyguard log --event`, or null for a function that LazyGuard does not know.
    pub event: Option<&'static str>,
    /// What the call waits for, in words.
    pub waits_for: Option<&'static str>,
    /// Whether the thread was in the same call in the same frame at the second look.
    pub lasts: bool,
}

/// A code of a hang that fits what was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Candidate {
    /// The code.
    pub code: Code,
    /// What it means, in one line.
    pub title: &'static str,
    /// What was seen that fits it.
    pub because: String,
}

impl Candidate {
    pub fn text(&self) -> String {
        format!("{}: {}: {}", self.code, self.title, self.because)
    }
}
