//! The facts seen of a process: the content of both forms of the output.
//!
//! Must not: decide anything.

use lazyguard_core::api::Code;
use lazyguard_core::evidence::Evidence;
use lazyguard_core::report::FrameSeen;
use lazyguard_core::stack::PythonFrame;
use serde::Serialize;

/// The object that `lazyguard report PID --format json` prints of a process without the guard.
#[derive(Serialize)]
pub(super) struct Attached {
    /// The process id.
    pub process: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// The path of the mapped driver library.
    pub driver: Option<String>,
    /// Whether the process has mapped `liblazyguard.so`.
    pub guarded: bool,
    /// Whether a signal had stopped the process.
    pub stopped: bool,
    /// The time between the two looks, in nanoseconds.
    pub between_nanos: u64,
    /// The version of its Python interpreter.
    pub python: Option<String>,
    /// Its main thread's activity on the host, from two looks.
    pub evidence: Option<Evidence>,
    /// Those in driver calls first.
    pub threads: Vec<ThreadOutside>,
    /// The hang codes that fit.
    pub candidates: Vec<Candidate>,
    /// Each unreadable part, with the setting that forbids it.
    pub refused: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ThreadOutside {
    /// The thread's id.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// `asleep in futex`, `running` or `stopped`, at the first look.
    pub state: String,
    /// The driver call in progress.
    pub call: Option<DriverCall>,
    /// Whether the driver started it, and it runs nothing else.
    pub is_the_drivers: bool,
    /// Whether this driver thread runs a host function.
    pub runs_host_function: bool,
    /// Whether the command stopped the thread briefly; else it slept.
    pub was_stopped: bool,
    /// Whether the stack reaches its first frame.
    pub is_whole: bool,
    /// The innermost first.
    pub frames: Vec<FrameSeen>,
    /// The innermost first.
    pub python: Vec<PythonFrame>,
    /// Remarks on the frames.
    pub notes: Vec<String>,
}

/// A thread's driver call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DriverCall {
    /// Null where the driver exports none.
    pub function: Option<String>,
    /// A word of `lazyguard log --event`, or null.
    pub event: Option<&'static str>,
    /// The wait in words.
    pub waits_for: Option<&'static str>,
    /// Whether the second look found the same call and frame.
    pub lasts: bool,
}

/// A hang code that fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Candidate {
    /// The code.
    pub code: Code,
    /// The code's meaning.
    pub title: &'static str,
    /// The observation that fits it.
    pub because: String,
}

impl Candidate {
    pub fn text(&self) -> String {
        format!("{}: {}: {}", self.code, self.title, self.because)
    }
}
