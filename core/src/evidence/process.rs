//! One process and its threads, as the kernel shows them.
//!
//! Must not: decide what it means.

use super::call::{self, InKernel, Kind};
use super::kernel::{flags, group, Descriptor, Group, Stat};
use super::native::{Code, Native};
use super::source::{number, Source};
use super::wait::{self, Wait};
use super::{python, Depth};
use crate::stack::PythonFrame;

const MOST_THREADS: usize = 1024;
const MOST_DESCRIPTORS: usize = 4096;
const MOST_PIPES: usize = 512;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Thread {
    pub thread: u32,
    pub name: String,
    pub state: char,
    /// The kernel's function in which it sleeps, or nothing.
    pub function: String,
    /// Nanoseconds on a processor, and ready for one. Without scheduler statistics the first is of ticks, the second 0.
    pub ran: u64,
    pub delayed: u64,
    /// How often it was given a processor, and how often it gave one up to sleep.
    pub turns: u64,
    pub sleeps: u64,
    /// Bytes read and written, and page faults that read.
    pub bytes: u64,
    pub faults: u64,
    /// The line of `syscall`: what differs between two looks has moved.
    pub call: Option<InKernel>,
    pub wait: Wait,
    /// Whether it is in a call as a thread is that serves others.
    pub looks_round: bool,
    /// The innermost first.
    pub python: Vec<PythonFrame>,
    /// The stack pointer and the program counter with which it sleeps in a system call.
    pub place: Option<(u64, u64)>,
    pub native: Option<Native>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    pub process: u32,
    pub stat: Stat,
    /// The process that traces it.
    pub tracer: u32,
    pub descriptors: Vec<Descriptor>,
    pub group: Group,
    /// The thread whose wait counts comes first.
    pub threads: Vec<Thread>,
    /// How many of them count.
    pub counting: usize,
    /// Whether it compiles for another one.
    pub is_compile_worker: bool,
    /// The port of the job's store.
    pub store: Option<u16>,
    /// Whether a thread collects the interpreter's garbage.
    pub collects: bool,
}

impl Process {
    /// The threads whose waits count.
    pub fn counting(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().take(self.counting.max(1))
    }

    /// Whether any of its threads has Python frames.
    pub fn has_python(&self) -> bool {
        self.threads.iter().any(|thread| !thread.python.is_empty())
    }
}

/// The parts of a process beside its `stat`.
pub(super) struct Reader<'a> {
    pub source: &'a Source,
    pub depth: Depth,
}

impl Reader<'_> {
    /// Without `threads` the main thread counts.
    pub fn process(&self, process: u32, threads: &[u32], lacks: &mut Vec<String>) -> Option<Process> {
        let Self { source, depth } = *self;
        let stat = Stat::of(source, process)?;
        let mut seen = Process { process, stat, group: group(source, process), ..Process::default() };
        if seen.stat.has_ended() {
            return Some(seen);
        }
        let status = source.text(&format!("proc/{process}/status")).unwrap_or_default();
        seen.tracer = number(&status, "TracerPid").unwrap_or(0) as u32;
        seen.descriptors = self.descriptors(process, lacks);
        let all = source.numbers(&format!("proc/{process}/task"));
        let mut counting: Vec<u32> = threads.iter().copied().filter(|thread| all.contains(thread)).collect();
        if counting.is_empty() {
            counting.push(process);
        }
        let mounts = wait::Files { source, process, descriptors: &seen.descriptors, depth };
        seen.counting = counting.len();
        seen.threads = counting.iter().filter_map(|thread| self.thread(&mounts, *thread, lacks)).collect();
        seen.counting = seen.threads.len();
        // A wait for another thread of the process leads to that thread's own wait.
        if seen.threads.iter().any(|thread| matches!(thread.wait, Wait::Futex { .. })) {
            let others = all.iter().filter(|thread| !counting.contains(thread)).take(MOST_THREADS);
            let others = others.filter_map(|thread| self.thread(&mounts, *thread, &mut Vec::new()));
            let others: Vec<_> = others.filter(|thread| !is_of_a_library(&thread.name)).collect();
            seen.threads.extend(others);
        }
        if depth == Depth::Memory {
            self.memory(&mut seen, lacks);
        }
        Some(seen)
    }

    fn memory(&self, seen: &mut Process, lacks: &mut Vec<String>) {
        let Self { source, .. } = *self;
        let text = |name: &str| source.text(&format!("proc/{}/{name}", seen.process)).unwrap_or_default();
        seen.is_compile_worker = text("cmdline").contains("torch/_inductor/compile_worker");
        let port = text("environ").split('\0').find_map(|one| one.strip_prefix("MASTER_PORT=")?.parse().ok());
        seen.store = port;
        if let Some(code) = Code::of(source, seen.process) {
            let counting = seen.threads.iter_mut().take(seen.counting);
            counting.for_each(|thread| thread.native = thread.place.and_then(|place| code.native(place)));
        }
        let Some(python) = python::read(source, seen.process) else { return };
        python.note.iter().for_each(|note| lack(lacks, note));
        seen.collects = python.collects;
        for thread in &mut seen.threads {
            thread.python = python.threads.get(&thread.thread).cloned().unwrap_or_default();
        }
    }

    fn thread(&self, files: &wait::Files<'_>, thread: u32, lacks: &mut Vec<String>) -> Option<Thread> {
        let Self { source, .. } = *self;
        let path = |name: &str| format!("proc/{}/task/{thread}/{name}", files.process);
        let stat = Stat::read(&source.text(&path("stat"))?)?;
        let times = source.text(&path("schedstat")).unwrap_or_default();
        let mut times = times.split_ascii_whitespace().map(|time| time.parse().ok());
        let [ran, delayed, turns] = [(); 3].map(|()| times.next().flatten());
        let status = source.text(&path("status")).unwrap_or_default();
        let io = source.text(&path("io")).unwrap_or_default();
        let function = source.line(&path("wchan")).filter(|function| function != "0").unwrap_or_default();
        let line = source.text(&path("syscall"));
        if line.as_ref().is_none_or(String::is_empty) {
            let refused =
                "the system calls of its threads may not be read (ptrace_scope, another user, or not dumpable)";
            lack(lacks, refused);
        }
        let call = line.as_deref().and_then(InKernel::read);
        let kind = match &call {
            Some(InKernel::Call { number, .. }) => call::kind(source.machine, *number),
            _ => None,
        };
        let mut seen = Thread {
            thread,
            name: stat.name,
            state: stat.state,
            function,
            ran: ran.unwrap_or(stat.ticks.saturating_mul(10_000_000)),
            delayed: delayed.unwrap_or(0),
            turns: turns.unwrap_or(0),
            sleeps: number(&status, "voluntary_ctxt_switches").unwrap_or(0),
            bytes: ["rchar", "wchar"].iter().filter_map(|name| number(&io, name)).sum(),
            faults: stat.faults,
            call,
            wait: Wait::default(),
            looks_round: false,
            python: Vec::new(),
            place: line.as_deref().and_then(call::place),
            native: None,
        };
        let kind: Option<Kind> = kind.or_else(|| call::by_function(&seen.function).filter(|_| seen.call.is_none()));
        seen.looks_round = wait::looks_round(seen.call.as_ref(), kind);
        seen.wait =
            files.wait(&wait::At { call: seen.call.as_ref(), state: seen.state, function: &seen.function }, kind);
        Some(seen)
    }

    pub fn descriptors(&self, process: u32, lacks: &mut Vec<String>) -> Vec<Descriptor> {
        let numbers = self.source.numbers(&format!("proc/{process}/fd"));
        if numbers.is_empty() {
            lack(lacks, "its descriptors may not be read (another user, a namespace, or not dumpable)");
        }
        let mut pipes = 0;
        let one = |number: u32| {
            let link = self.source.link(&format!("proc/{process}/fd/{number}"))?;
            pipes += usize::from(link.starts_with("pipe:"));
            let is_asked = link.starts_with("pipe:") && pipes <= MOST_PIPES;
            let flags = is_asked.then(|| flags(self.source, process, number.into())).flatten();
            let (reads, writes) = flags.map_or((false, false), |flags| (flags & 3 != 1, flags & 3 != 0));
            Some(Descriptor { number: number.into(), link, reads, writes })
        };
        numbers.into_iter().take(MOST_DESCRIPTORS).filter_map(one).collect()
    }
}

fn lack(lacks: &mut Vec<String>, line: &str) {
    if !lacks.iter().any(|known| known == line) {
        lacks.push(line.to_owned());
    }
}

/// Threads of CUDA, PyTorch, NCCL and the guard, which wait for work of the others.
fn is_of_a_library(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "cuda",
        "pt_gloo",
        "pt_nccl",
        "pt_tcpstore",
        "pt_elastic",
        "pt_autograd",
        "NCCL",
        "nccl",
        "lazyguard",
        "jemalloc",
        "OMP",
    ];
    NAMES.iter().any(|begin| name.starts_with(begin))
}
