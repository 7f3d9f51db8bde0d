//! What a process does on the host while its job waits for it, from two looks at what the kernel says of it (`/proc`).
//!
//! A look reads; [`Evidence::of`] compares two looks and names the class. `Source` is `/proc` or a written tree of it, so that every class has a test
//! without the machine that shows it. A look in the guarded process and one from outside are the same code.
//!
//! Must not: stop a thread, open or examine a path that it names, or read what waits for the process's memory lock (`maps`, `cmdline`, `mem`) unless
//! the caller's thread may be abandoned ([`Depth::Memory`]).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::PathBuf;

/// Why a process's host side does not submit. The names are those of the report, of metrics and of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    File,
    Child,
    Lock,
    Peer,
    Computes,
    Compiles,
    Collects,
    Stopped,
    Starved,
    Gone,
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

/// What a look may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Nothing that a lock of the process can delay: `stat`, `wchan`, `syscall`, `fd`, `io`, cgroup files.
    Kernel,
    /// Also its memory, maps and command line. The thread that reads them may have to be abandoned.
    Memory,
}

/// Where the kernel's files are: `/proc` and `/sys/fs/cgroup`, or a written tree of them.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
}

impl Source {
    pub fn machine() -> Self {
        Self::at("/")
    }

    /// A tree with `proc` and `sys/fs/cgroup` beneath this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read(self.root.join(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// One look at a process and the processes that it may wait for.
#[derive(Clone, Debug, Default)]
pub struct Look {
    process: u32,
    state: Option<char>,
    /// Processor time of all threads, in ticks, and bytes read and written.
    ticks: u64,
    bytes: u64,
}

impl Look {
    /// `threads`: those whose wait counts (that submitted, or made collectives); empty for the main thread.
    pub fn take(source: &Source, process: u32, _threads: &[u32], _depth: Depth) -> Self {
        let stat = source.text(&format!("proc/{process}/stat"));
        let fields: Vec<String> = stat
            .as_deref()
            .and_then(|stat| stat.rsplit_once(") "))
            .map(|(_, rest)| rest.split(' ').map(str::to_owned).collect())
            .unwrap_or_default();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        let io = source.text(&format!("proc/{process}/io")).unwrap_or_default();
        let bytes = io.lines().filter(|line| line.starts_with("rchar") || line.starts_with("wchar"));
        let bytes = bytes.filter_map(|line| line.split_once(": ")?.1.trim().parse::<u64>().ok()).sum();
        let state = fields.first().and_then(|state| state.chars().next());
        Self { process, state, ticks: number(11) + number(12), bytes }
    }
}

/// A Python frame, the innermost first in a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonFrame {
    /// The source file.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// What two looks show of a process.
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
    /// The main thread's Python frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub python: Vec<PythonFrame>,
    /// What could not be read, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl Evidence {
    /// Compares two looks at one process, `between_nanos` apart.
    pub fn of(before: &Look, after: &Look, between_nanos: u64) -> Self {
        /// Of a processor's time; a tick is a hundredth of a second.
        const COMPUTES_SHARE: u64 = 2;
        let ticks = after.ticks.saturating_sub(before.ticks);
        let (class, moves, sentence) = match after.state {
            None | Some('Z' | 'X') => (Class::Gone, false, "is gone".to_owned()),
            Some('T' | 't') => (Class::Stopped, false, "is stopped".to_owned()),
            _ if ticks * 10_000_000 * COMPUTES_SHARE >= between_nanos.max(1) => {
                (Class::Computes, true, "computes".to_owned())
            }
            _ => (Class::Waits, after.bytes != before.bytes, "waits".to_owned()),
        };
        Self { process: after.process, class, moves, sentence, python: Vec::new(), lacks: Vec::new() }
    }
}
