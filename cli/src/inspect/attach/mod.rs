//! Looks at a process that runs without the guard: which threads are in the CUDA driver, in which function, and on which stacks. A thread that
//! two looks find in the same frame of the same function is taken to be blocked. Only a thread that runs, or whose stack needs its registers, is
//! stopped for a moment.
//!
//! Must not: write to the process, send it a signal, call a function in it, or say more than a look from outside shows.

mod judge;
mod look;
mod seen;
mod target;
mod text;
mod tracer;

use crate::folder::live::evidence;
use crate::folder::Status;
use crate::words::{print, Failure, Format, Outcome};
use lazyguard_core::report::StackSeen;
use lazyguard_core::stack::{undeleted, Python};
use look::{Look, Looker};
use seen::{Attached, ThreadOutside};
use std::time::{Duration, Instant};
use target::{Target, DRIVER};

/// Between the two looks: a call that lasts so long is no quick one.
const BETWEEN: Duration = Duration::from_secs(1);

/// How often all is looked at again because the process has opened a library meanwhile.
const MOST_OPENED: usize = 3;

pub(crate) fn look_at(process: u32, format: Format) -> Outcome {
    let failure = |text: String| Failure::Input(format!("process {process}: {text}"));
    let stopped = match Status::of(process) {
        Status::Gone => return Err(failure("there is no process with this id".to_owned())),
        status => matches!(status, Status::Stopped(_)),
    };
    if !cfg!(target_arch = "x86_64") {
        return Err(failure(
            "its threads cannot be read: this build knows the registers and system calls of x86-64 alone".to_owned(),
        ));
    }
    if process == std::process::id() {
        return Err(failure("that is this command itself".to_owned()));
    }
    let evidence = std::thread::spawn(move || evidence::of(&[(process, Vec::new())]).pop());
    let (target, first, mut refused) = first_look(process).map_err(failure)?;
    let looker = Looker::new(&target);
    let python = target.python();
    let begin = Instant::now();
    let is_in_call = |look: &&Look| look.place().call_frame.is_some();
    let calls: Vec<u32> = first.iter().filter(is_in_call).map(|look| look.seen.thread).collect();
    if !calls.is_empty() {
        std::thread::sleep(BETWEEN);
    }
    let between = begin.elapsed();
    let second: Vec<Look> = calls.iter().filter_map(|thread| looker.look_at(*thread)).collect();
    if !target.is_still_there() {
        return Err(failure("it has ended while it was looked at".to_owned()));
    }
    let threads = first.into_iter().map(|look| thread_seen(look, &second, python.as_ref()));
    let mut threads: Vec<ThreadOutside> = threads.collect();
    threads.sort_by_key(|one| (one.call.is_none(), !one.runs_host_function, one.is_the_drivers, one.thread));
    refused.extend(python.as_ref().and_then(|python| python.note.clone()));
    let candidates = judge::candidates(&threads, target.module("libnccl").is_some());
    let attached = Attached {
        process,
        command: target.command(),
        driver: target.module(DRIVER).map(|module| undeleted(&module.path).to_owned()),
        guarded: target.module("liblazyguard").is_some(),
        stopped,
        between_nanos: if calls.is_empty() { 0 } else { between.as_nanos() as u64 },
        python: python.as_ref().map(|python| python.version.clone()),
        evidence: evidence.join().ok().flatten(),
        threads,
        candidates,
        refused,
    };
    print(|out| match format {
        Format::Json => Ok(out.json(&attached)?),
        Format::Text => Ok(text::write(&attached, out)?),
    })
}

fn first_look(process: u32) -> Result<(Target, Vec<Look>, Vec<String>), String> {
    let mut opened = 0;
    loop {
        let target = Target::open(process)?;
        let looker = Looker::new(&target);
        let first: Vec<_> = target.threads().into_iter().filter_map(|thread| looker.look_at(thread)).collect();
        let refused = looker.refused();
        opened += 1;
        // A library that was opened since then has the frames at which a stack ends.
        if opened > MOST_OPENED || first.iter().all(|look| look.seen.is_whole) || !target.has_other_modules_now() {
            return Ok((target, first, refused));
        }
    }
}

const MOST_NOTED: usize = 8;

/// The stack of a process's main thread at this moment, with its names, and the frames of Python as notes.
pub(crate) fn main_thread(process: u32) -> Option<StackSeen> {
    let target = Target::open(process).ok()?;
    let ThreadOutside { frames, mut notes, state, .. } = Looker::new(&target).look_at(process)?.seen;
    let python = target.python().and_then(|mut python| python.threads.remove(&process)).unwrap_or_default();
    let noted = python.iter().take(MOST_NOTED);
    notes.extend(noted.map(|frame| format!("python: {}:{} in {}", frame.file, frame.line, frame.function)));
    notes.push(format!("seen from outside; it was {state}"));
    target.is_still_there().then_some(StackSeen { thread: process, frames, notes })
}

fn thread_seen(first: Look, second: &[Look], python: Option<&Python>) -> ThreadOutside {
    let place = first.place();
    let mut seen = first.seen;
    let again = second.iter().find(|look| look.seen.thread == seen.thread);
    let lasts = again.is_some_and(|again| again.place().call_frame == place.call_frame);
    seen.call = place.call_frame.as_ref().map(|frame| judge::call(frame.function.as_deref(), lasts));
    (seen.is_the_drivers, seen.runs_host_function) = (place.is_the_drivers, place.runs_host_function);
    if python.is_some_and(|python| python.moving.contains(&seen.thread)) {
        seen.notes.push("its Python frames changed while they were read: they may be wrong".to_owned());
    }
    seen.python = python.and_then(|python| python.threads.get(&seen.thread)).cloned().unwrap_or_default();
    seen
}
