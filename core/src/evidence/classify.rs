//! Names the class of a wait from two looks, and follows a wait for another process or thread to what that one does.
//!
//! Must not: read anything.

use super::kernel::Stat;
use super::look::Look;
use super::native::{Library, Native};
use super::process::{Process, Thread};
use super::wait::{at_port, File, Wait};
use super::{python, Class, Evidence};
use crate::api::counted;
use crate::stack::PythonFrame;

/// How many processes a wait is followed through.
const MOST_FOLLOWED: u32 = 6;
/// The parts of the time between two looks from which on a thread computes, or lacks a processor.
const COMPUTES_PART: u64 = 2;
const STARVES_PART: u64 = 2;
/// And below which it has only woken.
const WAKES_PART: u64 = 10;
/// With so much of a processor it gets on, though others have the rest.
const CREEPS_PART: u64 = 50;
/// A look at a flag takes less; a step of a computation that others interrupt takes more.
const LOOK_NANOS: u64 = 100_000;
const SWAPS_FAULTS: u64 = 50;
/// Up to this rank of a class, a thread only waits for others.
const IDLES: u32 = 2;

/// A class with its words, before they are one sentence.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub class: Class,
    pub moves: bool,
    pub sentence: String,
    /// The paths, hosts and names in the sentence.
    pub names: Vec<String>,
    pub of_job: bool,
    pub peer: Option<u32>,
}

impl Told {
    fn new(class: Class, sentence: impl Into<String>) -> Self {
        Self { class, moves: false, sentence: sentence.into(), names: Vec::new(), of_job: false, peer: None }
    }

    fn moves(self, moves: bool) -> Self {
        Self { moves, ..self }
    }

    fn names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names.into_iter().filter(|name| !name.is_empty()));
        self
    }

    /// With the line of Python: `(train.py:31 in main)`.
    fn at(self, frames: &[PythonFrame]) -> Self {
        match python::place(frames) {
            Some(place) => Self { sentence: format!("{} ({place})", self.sentence), ..self },
            None => self,
        }
    }

    /// Which of several threads or processes explains a wait: the greatest.
    fn tells(&self) -> u32 {
        match self.class {
            Class::Gone | Class::Stopped | Class::Starved => 9,
            Class::Ends | Class::Collects | Class::Compiles => 8,
            Class::File => 7,
            Class::Child => 6,
            Class::Peer => 5,
            Class::Computes => 4,
            Class::Lock => 3,
            Class::Rests => 2,
            Class::Waits => 1,
        }
    }
}

impl Evidence {
    /// Compares two looks at one process, `between_nanos` apart.
    pub fn of(before: &Look, after: &Look, between_nanos: u64) -> Self {
        let compared = Compared { before, after, between_nanos };
        let told = match (after.seen.first(), before.seen.first()) {
            (Some(process), Some(then)) if process.stat.started == then.stat.started => compared.process(process, 0),
            (Some(process), None) => compared.process(process, 0),
            _ => Told::new(Class::Gone, "is gone"),
        };
        let main = after.seen.first().and_then(|process| process.threads.first());
        let python = main.map(|thread| thread.python.clone()).unwrap_or_default();
        let lost = || after.seen.first().and_then(|process| compared.lost_worker(process));
        let told = (told.class == Class::Rests).then(lost).flatten().unwrap_or(told);
        let lacks = match told.class {
            Class::Waits | Class::Lock | Class::Child => after.lacks.clone(),
            _ => Vec::new(),
        };
        let Told { class, moves, sentence, names, of_job, peer } = told;
        Self { process: after.process, class, moves, sentence, of_job, peer, python, lacks, names }
    }
}

/// The words of the library by which it waits for other processes of its job.
fn in_library(thread: &Thread, told: Told) -> Told {
    let waits = matches!(told.class, Class::Waits | Class::Lock | Class::Rests | Class::Peer | Class::Child);
    let Some(Native { library, function }) = thread.native.as_ref().filter(|_| waits) else { return told };
    let of_store = |function: &String| format!(", in `{function}`");
    let sentence = match (library, function) {
        (Library::Store, function) => {
            let begins = "waits for the store of the job";
            let known = if told.sentence.starts_with(begins) { told.sentence.as_str() } else { begins };
            format!("{known}{}", function.as_ref().map(of_store).unwrap_or_default())
        }
        (Library::Ranks(library), Some(function)) => {
            format!("waits for other ranks on the host, in {function} of {library}")
        }
        (Library::Ranks(library), None) => format!("waits for other ranks on the host, in {library}"),
    };
    Told { class: Class::Peer, sentence, of_job: true, ..told }
}

/// The words of the thread's Python frames, and the line.
fn in_python(process: &Process, thread: &Thread, told: Told) -> Told {
    let frames = thread.python.as_slice();
    let waits = matches!(told.class, Class::Waits | Class::Lock | Class::Rests);
    let told = match python::class(frames, process.collects) {
        Some((class, sentence)) if told.class != Class::Starved => {
            let names = frames.iter().flat_map(|frame| [frame.place(), frame.function.clone()]);
            Told { class, sentence, ..told }.names(names)
        }
        _ => told,
    };
    let told = match (told.class, python::compiler(frames), python::collective(frames)) {
        (Class::Computes | Class::Waits | Class::Lock, Some(compiler), _) => {
            Told { class: Class::Compiles, sentence: format!("compiles, for {compiler}"), ..told }
        }
        (_, _, Some(function))
            if waits && matches!(thread.wait, Wait::Futex { .. } | Wait::Sleeps) && told.class != Class::Ends =>
        {
            let sentence = format!("waits for other ranks on the host, in {function} of torch.distributed");
            Told { class: Class::Peer, sentence, of_job: true, ..told }
        }
        (Class::Peer, _, Some(_)) => Told { of_job: true, ..told },
        _ => told,
    };
    let Some(frame) = python::own(frames) else { return told };
    let names = [frame.place(), frame.function.clone()];
    match told.class {
        Class::Collects => told,
        Class::Computes if told.sentence == "computes" => {
            let sentence = format!("computes in {} ({})", frame.function, frame.place());
            Told { sentence, ..told }.names(names)
        }
        _ => told.at(frames).names(names),
    }
}

struct Compared<'a> {
    before: &'a Look,
    after: &'a Look,
    between_nanos: u64,
}

impl Compared<'_> {
    fn process(&self, process: &Process, followed: u32) -> Told {
        let then = self.before.process(process.process).filter(|then| then.stat.started == process.stat.started);
        if process.stat.has_ended() {
            return gone(process, then);
        }
        if process.stat.state == 't' {
            let by = match process.tracer {
                0 => String::new(),
                tracer => format!(" (process {tracer})"),
            };
            return Told::new(Class::Stopped, format!("is stopped by a debugger{by}"));
        }
        if process.group.frozen {
            return Told::new(Class::Stopped, "is stopped: its cgroup is frozen");
        }
        if process.stat.state == 'T' {
            return Told::new(Class::Stopped, "is stopped (SIGSTOP)");
        }
        let throttled = then.map_or(0, |then| process.group.throttled_nanos.saturating_sub(then.group.throttled_nanos));
        // A throttled cgroup keeps nothing from a process that waits for something else.
        let wants = |thread: &Thread| matches!(thread.wait, Wait::Runs) && !self.only_looks(process, thread);
        let wants_a_processor = process.counting().any(wants);
        if wants_a_processor && throttled.saturating_mul(STARVES_PART) >= self.between_nanos.max(1) {
            let sentence = format!(
                "has had no processor for {} of {}: its cgroup is throttled",
                time(throttled),
                time(self.between_nanos)
            );
            let ran = |process: &Process| process.threads.first().map_or(0, |thread| thread.ran);
            let ran = then.map_or(0, |then| ran(process).saturating_sub(ran(then)));
            return Told::new(Class::Starved, sentence).moves(ran.saturating_mul(CREEPS_PART) >= self.between_nanos);
        }
        if let Some(compiles) = self.compiles(process) {
            return compiles;
        }
        let told: Vec<_> = process.counting().map(|thread| (self.thread(process, thread, followed), thread)).collect();
        let is_main = |thread: &Thread| thread.thread == process.process;
        // An idle thread of a library waits for the main one, whose own wait is the reason.
        let main = told.iter().position(|(told, thread)| is_main(thread) && told.tells() > IDLES);
        let greatest =
            |(told, thread): &(Told, &Thread)| (told.class == Class::Computes, told.tells(), is_main(thread));
        let told = match main {
            Some(at) => told.into_iter().nth(at),
            None => told.into_iter().max_by_key(greatest),
        };
        let told = told.map(|(told, thread)| in_python(process, thread, in_library(thread, told)));
        told.unwrap_or_else(|| Told::new(Class::Waits, "waits"))
    }

    fn earlier(&self, process: &Process, thread: &Thread) -> Option<&Thread> {
        let then = self.before.process(process.process)?;
        then.threads.iter().find(|one| one.thread == thread.thread)
    }

    /// Whether the thread sleeps by itself, and wakes for a look now and then. On a busy machine it waits for a processor at each wake, which keeps no
    /// work from it.
    fn only_looks(&self, process: &Process, thread: &Thread) -> bool {
        let Some(then) = self.earlier(process, thread) else { return false };
        let [ran, turns, sleeps] = [
            thread.ran.saturating_sub(then.ran),
            thread.turns.saturating_sub(then.turns),
            thread.sleeps.saturating_sub(then.sleeps),
        ];
        sleeps > 0 && sleeps.saturating_mul(2) >= turns && ran <= sleeps.saturating_mul(LOOK_NANOS)
    }

    fn thread(&self, process: &Process, thread: &Thread, followed: u32) -> Told {
        let then = self.earlier(process, thread);
        let grown = |of: fn(&Thread) -> u64| then.map_or(0, |then| of(thread).saturating_sub(of(then)));
        let between = self.between_nanos.max(1);
        let (ran, delayed) = (grown(|thread| thread.ran), grown(|thread| thread.delayed));
        if ran.saturating_mul(COMPUTES_PART) >= between {
            return Told::new(Class::Computes, "computes").moves(true);
        }
        let runs = ran.saturating_mul(WAKES_PART) >= between;
        let only_looks = !runs && self.only_looks(process, thread);
        let starves = !only_looks && delayed.saturating_mul(STARVES_PART) >= between;
        if starves && ran.saturating_mul(CREEPS_PART) >= between {
            return Told::new(Class::Computes, "computes").moves(true);
        }
        if starves {
            let sentence = format!("waits for a processor: it has run for {} of {}", time(ran), time(between));
            return Told::new(Class::Starved, sentence);
        }
        let goes_on = then.is_some_and(|then| then.call != thread.call) || grown(|thread| thread.bytes) > 0;
        if grown(|thread| thread.faults) >= SWAPS_FAULTS && matches!(thread.wait, Wait::File(_) | Wait::Unknown) {
            let faults = counted(grown(|thread| thread.faults), "page");
            let told = Told::new(
                Class::Starved,
                format!("waits for its memory: it has read {faults} of it back in {}", time(between)),
            );
            return told.moves(true);
        }
        // It has woken for a moment, and waits for the most part.
        let wait = match (&thread.wait, then.map(|then| &then.wait)) {
            (Wait::Runs, Some(Wait::Runs)) if only_looks => &Wait::Sleeps,
            (Wait::Runs, Some(wait)) if !runs => wait,
            (wait, _) => wait,
        };
        let told = self.wait(process, thread, wait, goes_on, followed);
        // A checkpoint that is written piece by piece, with pauses.
        let moves = told.moves || grown(|thread| thread.bytes) > 0;
        told.moves(moves)
    }

    fn wait(&self, process: &Process, thread: &Thread, wait: &Wait, goes_on: bool, followed: u32) -> Told {
        match wait {
            Wait::Runs => Told::new(Class::Computes, "computes").moves(true),
            Wait::Sleeps => Told::new(Class::Rests, "sleeps until a time"),
            Wait::Listens(at) if at.is_empty() => Told::new(Class::Rests, "waits for a connection from outside"),
            Wait::Listens(at) => {
                Told::new(Class::Rests, format!("waits for a connection from outside, at {at}")).names([at.clone()])
            }
            Wait::Input => Told::new(Class::Rests, "waits for input"),
            Wait::Signal => Told::new(Class::Rests, "waits for a signal"),
            Wait::Event => Told::new(Class::Rests, "waits for an event"),
            Wait::File(file) => {
                let then = self.earlier(process, thread);
                let reads_on = match then.map(|then| &then.wait) {
                    // A look without memory has no path.
                    Some(Wait::File(then)) => {
                        then.position != file.position || then.path.is_some() && then.path != file.path
                    }
                    _ => then.is_some(),
                };
                self.file(file).moves(reads_on || goes_on)
            }
            Wait::Pipe { link, writes } => self.pipe(process, link, *writes, followed).unwrap_or_else(|| {
                let did = if *writes { "waits for room in a pipe" } else { "waits for a pipe" };
                let fifo = if link.starts_with('/') { format!(" ({link})") } else { String::new() };
                Told::new(Class::Waits, format!("{did}{fifo}, whose other end was not found"))
                    .names([link.clone()].into_iter().filter(|link| link.starts_with('/')))
            }),
            Wait::Peer(peer) => {
                let store = process.store == Some(peer.port);
                let at = at_port(&peer.host, peer.port);
                let sentence = match store {
                    true => format!("waits for the store of the job at {at}"),
                    false => format!("waits for {} of {at}", peer.verb),
                };
                let told = Told::new(Class::Peer, sentence).moves(goes_on).names([at, peer.host.clone()]);
                Told { of_job: store, peer: self.after.other_end(peer).map(|other| other.process), ..told }
            }
            Wait::Socket => self
                .children(process, followed, false)
                .unwrap_or_else(|| Told::new(Class::Waits, "waits for an answer of another process of this machine")),
            Wait::Child(id) => {
                let child = id.and_then(|id| self.after.process(id));
                let told = match child {
                    Some(child) => Some(self.follow(process, child, followed)),
                    None => self.children(process, followed, true),
                };
                told.unwrap_or_else(|| Told::new(Class::Child, "waits for a child process"))
            }
            Wait::FileLock(file, owner) => self.file_lock(process, file, *owner, followed),
            Wait::Futex { at, owner } => self.futex(process, thread, *at, *owner, followed),
            Wait::Shared => self
                .children(process, followed, false)
                .unwrap_or_else(|| Told::new(Class::Lock, "waits for a semaphore or a queue of the machine")),
            Wait::Any(waits) => self.any(process, thread, waits, followed),
            Wait::Device(path) if path.starts_with("/dev/nvidia") => {
                Told::new(Class::Waits, format!("waits in the driver ({path})")).names([path.clone()])
            }
            Wait::Device(path) => Told::new(Class::Waits, format!("waits for {path}")).names([path.clone()]),
            Wait::Unknown if thread.function.is_empty() => Told::new(Class::Waits, "waits"),
            Wait::Unknown => {
                Told::new(Class::Waits, format!("waits in the kernel ({})", thread.function)).moves(goes_on)
            }
        }
    }

    fn file(&self, file: &File) -> Told {
        let path = file.path.clone().unwrap_or_else(|| "a file".to_owned());
        let mount = file.mount.as_ref().map(|mount| {
            match mount.from.starts_with('/') || mount.from.contains(':') || mount.is_remote() {
                true => format!(" ({} from {})", mount.kind, mount.from),
                false => format!(" ({})", mount.kind),
            }
        });
        let from = file.mount.as_ref().map(|mount| mount.from.clone());
        let names = [file.path.clone(), from.filter(|from| from.starts_with('/') || from.contains(':'))];
        let verb = &file.verb;
        let sentence = match (file.is_fifo, &file.path) {
            (true, Some(path)) => format!("{verb} {path}, a FIFO whose other end no process has opened"),
            (true, None) => format!("{verb} a FIFO whose other end no process has opened"),
            (false, _) => format!("{verb} {path}{}", mount.unwrap_or_default()),
        };
        Told::new(Class::File, sentence).names(names.into_iter().flatten())
    }

    /// The process that does not itself wait for this one, of those that hold the other end.
    fn pipe(&self, process: &Process, link: &str, writes: bool, followed: u32) -> Option<Told> {
        let holders: Vec<&Process> = self.after.holders(process.process, link, writes).collect();
        if holders.is_empty() {
            return self.ended_child(process).or_else(|| self.lost_child(process, link, writes));
        }
        let busy: Vec<&Process> = holders.iter().copied().filter(|holder| !self.waits_for(holder, process)).collect();
        let told = busy.iter().map(|holder| (self.process_at(holder, followed), *holder)).collect::<Vec<_>>();
        let best = told.into_iter().max_by_key(|(told, _)| told.tells());
        Some(match best {
            Some((told, holder)) if told.tells() > 2 => self.followed(process, holder, told),
            // All of them wait: one that has ended leaves the others waiting for this process.
            _ => self.ended_child(process).unwrap_or_else(|| self.followed_all(process, &holders, followed)),
        })
    }

    fn process_at(&self, process: &Process, followed: u32) -> Told {
        match followed >= MOST_FOLLOWED {
            true => Told::new(Class::Waits, "waits"),
            false => self.process(process, followed + 1),
        }
    }

    /// Whether a process waits for what only `other` or its like can give: an end of a pipe that it holds, or an answer of it.
    fn waits_for(&self, process: &Process, other: &Process) -> bool {
        let Some(main) = process.threads.first() else { return false };
        let of_other = |wait: &Wait| match wait {
            Wait::Pipe { link, writes } => {
                self.after.holders(process.process, link, *writes).any(|one| one.process == other.process)
            }
            Wait::Child(id) => *id == Some(other.process),
            _ => false,
        };
        match &main.wait {
            Wait::Any(waits) => waits.iter().any(of_other),
            wait => of_other(wait),
        }
    }

    fn follow(&self, process: &Process, child: &Process, followed: u32) -> Told {
        let told = self.process_at(child, followed);
        self.followed(process, child, told)
    }

    fn followed(&self, process: &Process, holder: &Process, told: Told) -> Told {
        let class = match told.class {
            Class::Compiles => Class::Compiles,
            _ => Class::Child,
        };
        let (who, name) = self.named(process, holder);
        let sentence = format!("waits for {who}, which {}", told.sentence);
        Told { class, sentence, ..told }.names([name])
    }

    fn followed_all(&self, process: &Process, holders: &[&Process], followed: u32) -> Told {
        let Some((first, rest)) = holders.split_first() else {
            return Told::new(Class::Child, "waits for a child process");
        };
        let told = self.process_at(first, followed);
        let (who, name) = self.named(process, first);
        let more = match rest.len() {
            0 => String::new(),
            more => format!(" and for {}", counted(more as u64, "other process")).replace("processs", "processes"),
        };
        let sentence = format!("waits for {who}, which {}{more}", told.sentence);
        Told { class: Class::Child, sentence, ..told }.names([name])
    }

    /// The one of all its children that does something, or has ended. `any`: also one that only waits.
    fn children(&self, process: &Process, followed: u32, any: bool) -> Option<Told> {
        let children = || self.after.seen.iter().filter(|child| child.stat.parent == process.process);
        let told = children()
            .filter(|child| !self.waits_for(child, process))
            .map(|child| (self.process_at(child, followed), child));
        let best = told.max_by_key(|(told, _)| told.tells())?;
        let (told, child) = best;
        // Without memory the descriptors of a poll are not known: a child that waits may wait for this process.
        (any || told.tells() > 2 && told.class != Class::Lock).then(|| self.followed(process, child, told))
    }

    /// A child that was killed, or failed, and that this process has not waited for.
    fn ended_child(&self, process: &Process) -> Option<Told> {
        let failed =
            |child: &&Process| child.stat.parent == process.process && child.stat.has_ended() && child.stat.exit != 0;
        let child = self.after.seen.iter().find(failed)?;
        Some(self.followed(process, child, gone(child, self.before.process(child.process))))
    }

    /// A child that held the other end at the former look, and is gone. The process has waited for it, and alone knows how it ended.
    fn lost_child(&self, process: &Process, link: &str, writes: bool) -> Option<Told> {
        let mut held = self.before.holders(process.process, link, writes);
        let child = held.find(|one| one.stat.parent == process.process && self.after.process(one.process).is_none())?;
        Some(self.followed(process, child, Told::new(Class::Gone, "has ended since the look before")))
    }

    /// A child of a process at rest that was killed, or one like itself that has failed. A process may end its helpers by a signal that asks. One that it
    /// has waited for may have ended well, and is no loss.
    fn lost_worker(&self, process: &Process) -> Option<Told> {
        const ASK: [u32; 3] = [1, 2, 15];
        let is_lost = |child: &&Process| {
            let Stat { exit, name, .. } = &child.stat;
            let is_killed = exit & 0x7f != 0 && !ASK.contains(&(exit & 0x7f));
            let is_like_it = *name == process.stat.name || name.starts_with("pt_data_worker");
            child.stat.parent == process.process
                && child.stat.has_ended()
                && (is_killed || is_like_it && exit & 0x7f == 0 && *exit != 0)
        };
        let child = self.after.seen.iter().find(is_lost)?;
        let (who, name) = self.named(process, child);
        let told = gone(child, self.before.process(child.process));
        Some(Told { sentence: format!("has lost {who}, which {}", told.sentence), ..told }.names([name]))
    }

    fn named(&self, process: &Process, other: &Process) -> (String, String) {
        let (id, name) = (other.process, &other.stat.name);
        let is_child = other.stat.parent == process.process;
        let who = match () {
            () if name.starts_with("pt_data_worker") => format!("its data-loader worker (process {id})"),
            () if is_child => format!("its child {name} (process {id})"),
            () => format!("{name} (process {id})"),
        };
        (who, if name.starts_with("pt_data_worker") { String::new() } else { name.clone() })
    }

    fn file_lock(&self, process: &Process, file: &File, owner: Option<u32>, followed: u32) -> Told {
        let path = file.path.clone().unwrap_or_else(|| "a file".to_owned());
        let told = match owner.map(|owner| (owner, self.after.process(owner))) {
            Some((_, Some(holder))) if holder.process != process.process => {
                let told = self.process_at(holder, followed);
                let (who, name) = self.named(process, holder);
                let sentence = format!("waits for the lock of {path}, which {who} holds; that one {}", told.sentence);
                Told { class: Class::Lock, sentence, ..told }.names([name])
            }
            Some((owner, _)) => {
                Told::new(Class::Lock, format!("waits for the lock of {path}, which process {owner} holds"))
            }
            None => Told::new(Class::Lock, format!("waits for the lock of {path}")),
        };
        told.names(file.path.clone())
    }

    /// The owner where the lock names it, else the thread that is in a call while others wait.
    fn futex(&self, process: &Process, thread: &Thread, at: u64, owner: Option<u32>, followed: u32) -> Told {
        let others = || process.threads.iter().filter(|other| other.thread != thread.thread);
        let holds_it = owner == Some(thread.thread);
        let owner = owner.and_then(|owner| others().find(|other| other.thread == owner));
        let does = |other: &Thread| match &other.wait {
            // It waits for the same, or is a second thread of a kind that serves others.
            Wait::Futex { at: word, .. } if *word == at => None,
            _ if other.looks_round => None,
            // The library's threads, which serve those of Python.
            _ if process.has_python() && other.python.is_empty() => None,
            Wait::Futex { .. } | Wait::Event | Wait::Sleeps | Wait::Unknown | Wait::Device(_) => None,
            _ => (followed < MOST_FOLLOWED).then(|| self.thread(process, other, followed + 1)),
        };
        if holds_it {
            return Told::new(Class::Lock, "waits for a lock that it holds itself");
        }
        if let Some(owner) = owner {
            let told = does(owner).unwrap_or_else(|| Told::new(Class::Waits, "waits"));
            return Told { class: Class::Lock, ..lock(process, owner, told, true) };
        }
        let told = others().filter_map(|other| Some((does(other)?, other)));
        let told =
            told.filter(|(told, other)| told.tells() > 1 && !(told.class == Class::Computes && other.state == 'S'));
        match told.max_by_key(|(told, _)| told.tells()) {
            Some((told, other)) => lock(process, other, told, false),
            None => match self.children(process, followed, false) {
                Some(told) => told,
                None => Told::new(Class::Waits, "waits for another thread, and none of them is in a call"),
            },
        }
    }

    fn any(&self, process: &Process, thread: &Thread, waits: &[Wait], followed: u32) -> Told {
        let told = waits.iter().map(|wait| self.wait(process, thread, wait, false, followed));
        let mut told: Vec<Told> = told.collect();
        // A server waits for all its clients at once, and is at rest.
        if waits.iter().any(|wait| matches!(wait, Wait::Listens(_))) {
            told.retain(|told| told.class == Class::Rests);
        }
        let known = told.into_iter().max_by_key(Told::tells).filter(|told| told.class != Class::Waits);
        known
            .or_else(|| self.children(process, followed, false))
            .unwrap_or_else(|| Told::new(Class::Waits, "waits for an event"))
    }

    /// A compiler among the processes that it has started.
    fn compiles(&self, process: &Process) -> Option<Told> {
        let waits = |thread: &Thread| {
            matches!(thread.wait, Wait::Child(_) | Wait::Pipe { .. } | Wait::Any(_) | Wait::Futex { .. } | Wait::Socket)
        };
        process.threads.first().filter(|thread| waits(thread))?;
        let below = self.below(process);
        let ticks = |look: &Look, child: &Process| look.process(child.process).map_or(0, |child| child.stat.ticks);
        let works = |child: &Process| ticks(self.after, child) > ticks(self.before, child);
        let compiles = |child: &&&Process| {
            // A worker that compiles for PyTorch is there from the first compilation to the end.
            !child.stat.has_ended() && (is_compiler(&child.stat.name) || child.is_compile_worker && works(child))
        };
        let last = below.iter().rfind(compiles)?;
        let is_new = self.before.process(last.process).is_none();
        let moves = is_new || below.iter().any(|child| works(child));
        let age = self.after.uptime.checked_sub(last.stat.started).filter(|_| self.after.uptime > 0);
        let age = age.filter(|age| *age >= 100).map(|age| format!(" for {} s", age / 100)).unwrap_or_default();
        let sentence = format!("compiles: {} (process {}){age}", last.stat.name, last.process);
        Some(Told::new(Class::Compiles, sentence).moves(moves))
    }

    fn below(&self, process: &Process) -> Vec<&Process> {
        let mut known = vec![process.process];
        let mut found = Vec::new();
        // Those that were started come after the one that started them.
        for seen in &self.after.seen {
            if known.contains(&seen.stat.parent) && !known.contains(&seen.process) {
                known.push(seen.process);
                found.push(seen);
            }
        }
        found
    }
}

/// `held`: the lock names its owner.
fn lock(process: &Process, owner: &Thread, told: Told, held: bool) -> Told {
    // Without a name of its own it has the process's.
    let who = match owner.name == process.stat.name {
        true => format!("thread {}", owner.thread),
        false => format!("thread \"{}\"", owner.name),
    };
    let told = told.at(&owner.python);
    let sentence = match held {
        true => format!("waits for {who}, which {}", told.sentence),
        false => format!("waits for another thread; {who} {}", told.sentence),
    };
    let class = match told.class {
        Class::Child | Class::Compiles | Class::Computes | Class::Rests => told.class,
        _ => Class::Lock,
    };
    let place = python::own(&owner.python).into_iter().flat_map(|frame| [frame.place(), frame.function.clone()]);
    Told { class, sentence, ..told }.names([owner.name.clone()]).names(place)
}

fn is_compiler(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "nvcc",
        "cicc",
        "ptxas",
        "nvlink",
        "fatbinary",
        "cudafe++",
        "cc1plus",
        "cc1",
        "gcc",
        "g++",
        "c++",
        "clang",
        "clang++",
        "ninja",
        "hipcc",
        "lto1",
    ];
    NAMES.contains(&name)
}

fn gone(process: &Process, then: Option<&Process>) -> Told {
    let exit = process.stat.exit;
    let killed = process.group.killed_for_memory;
    let rose = then.map_or(0, |then| killed.saturating_sub(then.group.killed_for_memory));
    let sentence = match (exit & 0x7f, exit >> 8 & 0xff) {
        (9, _) if rose > 0 => format!("was killed for memory: its cgroup's oom_kill rose by {rose}"),
        (9, _) if killed > 0 => "was killed (SIGKILL); its cgroup has killed processes for memory".to_owned(),
        (0, 0) => "has ended".to_owned(),
        (0, status) => format!("has ended with status {status}"),
        (signal, _) => format!("was killed by {}", signal_name(signal)),
    };
    Told::new(Class::Gone, sentence)
}

fn signal_name(signal: u32) -> String {
    const NAMES: [(u32, &str); 11] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == signal).map(|(_, name)| (*name).to_owned());
    known.unwrap_or_else(|| format!("signal {signal}"))
}

fn time(nanos: u64) -> String {
    match nanos {
        0..1_000_000_000 => format!("{} ms", nanos / 1_000_000),
        _ => format!("{}.{} s", nanos / 1_000_000_000, nanos / 100_000_000 % 10),
    }
}
