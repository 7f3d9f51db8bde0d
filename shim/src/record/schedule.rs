//! Schedules (`LAZYGUARD_SCHEDULE`): a thread is held before a call, until another call has come or a time is over. `lazyguard explore` writes the file,
//! `lazyguard run --schedule` carries one out again.
//!
//! A call is named by its function, the last digits of its caller's address, its thread's name, and its number among those alike
//! (`cuMemFree@a3f%loader#2`): an address's last digits are the same in every run. Each such call leaves a line in the run folder.
//!
//! Must not: hold a repeated launch of a kernel on its stream, or hold for longer than the file allows in all.

use super::run_folder::RunFolder;
use crate::runtime::process::Process;
use crate::runtime::{door, files, standard_error, thread};
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::run_folder::file::POINTS;
use lazyguard_core::schedule::{self, MOST_BYTES};
use lazyguard_core::state::Caller;
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

const MOST_POINTS: usize = 4096;
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// The time from a call's hook to its effect, on a busy machine.
const SETTLES_IN: Nanos = 5_000_000;

pub struct Schedule {
    points: Option<PathBuf>,
    holds: Vec<Hold>,
    left: AtomicU64,
    held: AtomicU64,
    seen: Mutex<Seen>,
}

struct Hold {
    most: Nanos,
    call: String,
    until: Option<String>,
}

/// Lists: a map takes more of the library than rare searches do of a run.
#[derive(Default)]
struct Seen {
    counts: Vec<(String, u32)>,
    /// Awaited calls, and when they came.
    came: Vec<(String, Nanos)>,
    /// The keys that have had their first call: function and stream, thread and caller, or thread.
    firsts: Vec<(u64, u64)>,
    points: usize,
}

fn whole(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

impl Schedule {
    /// For a process of this rank; an unreadable one costs a line.
    pub fn read(path: &str, rank: &str, folder: Option<&RunFolder>) -> Option<Self> {
        let say = |why: &dyn Display| {
            let line = format!("LAZYGUARD_SCHEDULE={path:?} cannot be read: {why}; no thread is held");
            standard_error::line(&line);
        };
        let text = files::open(path).and_then(whole).inspect_err(|why| say(why)).ok()?;
        let read = schedule::Schedule::parse(&text).inspect_err(|why| say(why)).ok()?;
        let is_own = |hold: &schedule::Hold<'_>| hold.rank.is_none_or(|of| of == rank);
        let hold = |hold: schedule::Hold<'_>| Hold {
            most: hold.most,
            call: hold.call.to_owned(),
            until: hold.until.map(str::to_owned),
        };
        let (left, holds) = (read.budget, read.holds.into_iter().filter(is_own).map(hold).collect());
        let points = folder.map(|folder| folder.path().join(POINTS));
        Some(Self { points, holds, left: left.into(), held: AtomicU64::new(0), seen: Mutex::default() })
    }

    /// When this last held a thread: until then, a wait may be due to the schedule.
    pub fn held(&self) -> Nanos {
        self.held.load(Ordering::Relaxed)
    }

    pub fn comes(&self, process: &'static Process, entry_point: EntryPoint, caller: Caller) {
        let site = (u64::from(thread::own_number()), caller.address as u64);
        let of = match entry_point.class() {
            Class::Launch | Class::CopyAsync | Class::SetAsync | Class::StreamSubmit => None,
            Class::StreamQuery | Class::EventQuery | Class::Allocate | Class::AllocateAsync => None,
            Class::KernelResolve | Class::KernelFunction | Class::GraphNode | Class::GraphUpload => None,
            Class::GraphLaunch => Some(Some(site)),
            _ => Some(None),
        };
        // No signal handler on top of this comes here again.
        let Some(slot) = thread::slot(process).filter(|slot| slot.enter(caller)) else { return };
        let call = self.named(entry_point, caller, of);
        slot.leave();
        call.into_iter().for_each(|call| self.point(process, call));
    }

    pub fn launches(&self, process: &'static Process, entry_point: EntryPoint, caller: Caller, of: (u64, u64)) {
        let call = self.named(entry_point, caller, Some(Some(of)));
        call.into_iter().for_each(|call| self.point(process, call));
    }

    /// Its name if it is a point: by `of`, which may name the kind of which only the first one is, or a thread's first call.
    #[allow(clippy::option_option)]
    fn named(&self, entry_point: EntryPoint, caller: Caller, of: Option<Option<(u64, u64)>>) -> Option<String> {
        let mut seen = lock(&self.seen);
        let begins = seen.is_first((thread::own_number().into(), u64::MAX));
        let is_point = of.is_some_and(|kind| kind.is_none_or(|kind| seen.is_first(kind)));
        (begins || is_point).then(|| seen.name(entry_point, caller.address))
    }

    fn point(&self, process: &Process, call: String) {
        let (at, mut held) = (process.now(), None);
        for hold in self.holds.iter().filter(|hold| hold.call == call) {
            held = Some(held.unwrap_or(false) | self.hold(process, hold));
        }
        let now = process.now();
        let told = held.map_or("-", |came| if came { "came" } else { "over" });
        self.note(&format!("{now} {} {call} {} {told}\n", thread::own_number(), now - at));
        if self.holds.iter().any(|hold| hold.until.as_ref() == Some(&call)) {
            lock(&self.seen).came.push((call, now));
        }
    }

    /// Whether the awaited call came in time.
    fn hold(&self, process: &Process, hold: &Hold) -> bool {
        let since = process.now();
        loop {
            let now = process.now();
            self.held.store(now, Ordering::Relaxed);
            let came = hold.until.as_ref().and_then(|until| lock(&self.seen).came_at(until));
            let has_come = came.is_some_and(|at| now >= at + SETTLES_IN);
            let took = now - since;
            if has_come || took >= hold.most.min(self.left.load(Ordering::Relaxed)) {
                let _ = self
                    .left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(took)));
                return has_come;
            }
            door::pause(LOOK_EVERY);
        }
    }

    fn note(&self, line: &str) {
        let Some(path) = self.points.as_deref().filter(|_| lock(&self.seen).has_room()) else { return };
        let append = |path: &Path| files::open_with(path, OpenOptions::new().append(true).create(true), 0);
        let _ = append(path).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

impl Seen {
    fn name(&mut self, entry_point: EntryPoint, caller: usize) -> String {
        let of_thread = thread::own_name().replace(char::is_whitespace, "_");
        let name = format!("{}@{:03x}%{of_thread}", entry_point.info().base(), caller & 0xfff);
        let at = self.counts.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.counts.push((name, 0));
            self.counts.len() - 1
        });
        let (name, count) = &mut self.counts[at];
        *count += 1;
        format!("{name}#{count}")
    }

    fn is_first(&mut self, one: (u64, u64)) -> bool {
        let is_first = !self.firsts.contains(&one);
        if is_first {
            self.firsts.push(one);
        }
        is_first
    }

    fn came_at(&self, call: &str) -> Option<Nanos> {
        self.came.iter().find(|(came, _)| came == call).map(|(_, at)| *at)
    }

    fn has_room(&mut self) -> bool {
        self.points += 1;
        self.points <= MOST_POINTS
    }
}
