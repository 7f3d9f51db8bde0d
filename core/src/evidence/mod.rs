//! The host side of a process while its job waits for it, from two looks at what the kernel says of it (`/proc`).
//!
//! A look reads; [`Evidence::of`] compares two looks and names the class. `Source` is `/proc` or a written tree of it, so that every class has a test
//! without the machine that shows it. A look in the guarded process and one from outside are the same code.
//!
//! Must not: stop a thread, open or examine a path that it names, or read what waits for the process's memory lock (`maps`, `cmdline`, `mem`) unless
//! the caller's thread may be abandoned ([`Depth::Memory`]).

mod call;
mod classify;
mod kernel;
mod look;
mod looks;
mod native;
mod process;
mod python;
mod source;
#[cfg(test)]
mod tests;
mod wait;

pub use crate::stack::PythonFrame;
pub use look::Look;
pub use looks::{in_two_looks, Looks};
pub use source::Source;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a process's host side does not submit. The names are those of the report, of metrics and of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It reads or writes a file, a FIFO or a mapped page.
    File,
    /// It waits for a process that it has started.
    Child,
    /// It waits for another thread.
    Lock,
    /// It waits for the other end of a connection.
    Peer,
    /// It runs.
    Computes,
    /// A compiler runs for it.
    Compiles,
    /// Its interpreter collects garbage.
    Collects,
    /// A signal, a debugger or its control group has stopped it.
    Stopped,
    /// It lacks a processor or memory.
    Starved,
    /// It has ended.
    Gone,
    /// It has left its work, and ends.
    Ends,
    /// It waits for what is rest and no fault: a listening socket, standard input, a timer, a debugger, a terminal.
    Rests,
    /// It waits, and for what is not known.
    Waits,
}

impl Class {
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Child => "child",
            Self::Lock => "lock",
            Self::Peer => "peer",
            Self::Computes => "computes",
            Self::Compiles => "compiles",
            Self::Collects => "collects",
            Self::Stopped => "stopped",
            Self::Starved => "starved",
            Self::Gone => "gone",
            Self::Ends => "ends",
            Self::Rests => "rests",
            Self::Waits => "waits",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When a process began, in ticks since its machine's start; `None` where it has ended.
pub fn begun(source: &Source, process: u32) -> Option<u64> {
    kernel::Stat::of(source, process).filter(|stat| !stat.has_ended()).map(|stat| stat.started)
}

/// How long the calling thread has been ready to run and had no processor, in nanoseconds; 0 without scheduler statistics.
pub fn lacked(source: &Source) -> u64 {
    let times = source.text("proc/thread-self/schedstat").unwrap_or_default();
    times.split_ascii_whitespace().nth(1).and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// The namespace that numbers the processes of this one, or nothing where `/proc` does not say.
pub fn namespace(source: &Source) -> String {
    source.link("proc/self/ns/pid").unwrap_or_default()
}

/// The files that a look may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Nothing that a lock of the process can delay: `stat`, `wchan`, `syscall`, `fd`, `io`, cgroup files.
    Kernel,
    /// Also its memory, maps and command line. The thread that reads them may have to be abandoned.
    Memory,
}

/// The class and the words that two looks show of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The process looked at.
    pub process: u32,
    /// The class of its wait.
    pub class: Class,
    /// Whether it gets on: it computes, compiles, collects or reads on between the looks.
    pub moves: bool,
    /// The sentence's rest, after the process or its rank: "reads /data/shard-17.tar (nfs4 from server:/data) for 41 s".
    pub sentence: String,
    /// Whether it waits for its job: the store, or other ranks.
    #[serde(default)]
    pub of_job: bool,
    /// The process of this machine at the other end of the connection that it waits at.
    #[serde(default)]
    pub peer: Option<u32>,
    /// The main thread's Python frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub python: Vec<PythonFrame>,
    /// The parts that could not be read, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// The paths, hosts and names in the sentence, which a copy without names replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}
