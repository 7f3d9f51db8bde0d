//! The facts seen of a process, for a person.
//!
//! Must not: say anything that the JSON form lacks, except what to do next.

use super::seen::{Attached, DriverCall, ThreadOutside};
use crate::words::{write_line, Output, Took};
use lazyguard_core::api::counted;
use lazyguard_core::report::{FrameSeen, StackSeen};
use lazyguard_core::stack::PythonFrame;
use std::io;

const MOST_SHOWN: usize = 4;

const MOST_PYTHON: usize = 12;

pub(super) fn write(attached: &Attached, out: &mut Output<'_>) -> io::Result<()> {
    let Attached { process, threads, .. } = attached;
    let command = attached.command.join(" ");
    let stopped = if attached.stopped { ", which is stopped (SIGSTOP, Ctrl-Z)" } else { "" };
    write_line!(out, "process {process} ({command}){stopped}")?;
    if attached.guarded {
        write_line!(out, "it is guarded: lazyguard report {process} knows more once it has initialised CUDA")?;
    }
    out.lines(&attached.refused)?;
    write_sum(attached, out)?;
    // The driver call of a thread says more.
    let is_in_call = threads.iter().any(|thread| thread.thread == *process && thread.call.is_some());
    if let Some(evidence) = attached.evidence.as_ref().filter(|_| !is_in_call) {
        write_line!(out, "its main thread {}", evidence.sentence)?;
        out.lines(evidence.lacks.iter().map(|lack| format!("    {lack}")))?;
    }
    write_threads(threads, out)?;
    if !threads.iter().any(|thread| thread.call.is_some() || thread.runs_host_function) {
        return Ok(());
    }
    write_line!(out, "what fits:")?;
    out.lines(attached.candidates.iter().map(|candidate| format!("    {}", candidate.text())))?;
    if attached.candidates.is_empty() {
        write_line!(out, "    no call lasted from the first look to the second: the process does something")?;
    }
    write_line!(
        out,
        "what cannot be seen from outside: which kernel, copy or wait does not end, on which stream, and since when: there is no recording"
    )?;
    write_line!(
        out,
        "next: run it again under the guard, which prevents or names it: lazyguard run -- {command}; lazyguard explain CODE has the fixes"
    )
}

fn write_sum(attached: &Attached, out: &mut Output<'_>) -> io::Result<()> {
    let threads = &attached.threads;
    let in_calls = threads.iter().filter(|thread| thread.call.is_some()).count();
    let the_drivers = threads.iter().filter(|thread| thread.is_the_drivers).count();
    let others = || format!("; {the_drivers} {} the driver's own", is_or_are(the_drivers));
    let others = (the_drivers > 0).then(others).unwrap_or_default();
    let of = counted(threads.len() as u64, "thread");
    match (&attached.driver, in_calls) {
        (None, _) => {
            write_line!(out, "it has no CUDA driver: no libcuda.so is mapped, so what it waits for is not CUDA")
        }
        (Some(_), 0) => write_line!(
            out,
            "none of its {of} is in a driver call{others}: it waits for something on the host, or polls and was seen between two questions"
        ),
        (Some(driver), _) => {
            let (are, between) = (is_or_are(in_calls), Took(attached.between_nanos));
            let looks = format!("looked at twice, {between} apart");
            write_line!(out, "{in_calls} of its {of} {are} in a driver call ({driver}){others}; {looks}")
        }
    }
}

fn write_threads(threads: &[ThreadOutside], out: &mut Output<'_>) -> io::Result<()> {
    let is_of_interest = |thread: &&ThreadOutside| thread.call.is_some() || thread.runs_host_function;
    let mut shown: Vec<_> = threads.iter().filter(is_of_interest).collect();
    if shown.is_empty() {
        shown = threads.iter().filter(|thread| !thread.is_the_drivers).take(MOST_SHOWN).collect();
    }
    shown.iter().try_for_each(|thread| write_thread(thread, out))?;
    match threads.len() - shown.len() {
        0 => Ok(()),
        rest => write_line!(
            out,
            "{} {} not shown: --format json has them",
            counted(rest as u64, "more thread"),
            is_or_are(rest)
        ),
    }
}

fn write_thread(thread: &ThreadOutside, out: &mut Output<'_>) -> io::Result<()> {
    let ThreadOutside { thread: id, name, state, call, .. } = thread;
    let host = thread.runs_host_function.then_some("runs a host function of the program on a thread of the driver");
    let about = match call {
        Some(call) => Some(in_words(call)),
        None if thread.runs_host_function => None,
        None if thread.is_the_drivers => Some("a thread of the driver's own".to_owned()),
        None => Some("in no driver call".to_owned()),
    };
    let about = host.map(str::to_owned).into_iter().chain(about).collect::<Vec<_>>().join(", ");
    write_line!(out, "thread {id} \"{name}\", {state}: {about}")?;
    // If a stack has Python and nothing else of the program, its frames are those of the interpreter.
    let is_of_the_program = thread.python.is_empty() || thread.frames.iter().any(FrameSeen::is_of_the_program);
    let frames = if is_of_the_program { thread.frames.clone() } else { Vec::new() };
    out.lines(StackSeen { thread: *id, frames, notes: thread.notes.clone() }.lines())?;
    let python = &thread.python;
    for PythonFrame { file, line, function } in python.iter().take(MOST_PYTHON) {
        write_line!(out, "    python: File \"{file}\", line {line}, in {function}")?;
    }
    match python.len().saturating_sub(MOST_PYTHON) {
        0 => Ok(()),
        more => write_line!(out, "    python: and {}", counted(more as u64, "more frame")),
    }
}

fn in_words(call: &DriverCall) -> String {
    let function = call.function.as_deref().unwrap_or("a driver function without a name");
    let still = if call.lasts { "at both looks" } else { "at the first look, and had gone on at the second" };
    let waits_for = call.waits_for.map(|waits_for| format!(": {waits_for}")).unwrap_or_default();
    format!("in {function} {still}{waits_for}")
}

fn is_or_are(count: usize) -> &'static str {
    ["are", "is"][usize::from(count == 1)]
}
