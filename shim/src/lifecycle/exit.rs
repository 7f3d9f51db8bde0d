//! The end of the process: the last lines of the log, the summary, and the removal of a run folder that is not to stay.
//!
//! Must not: wait for a thread for more than some tens of milliseconds.

use crate::record::guard::{guard, last_guard};
use crate::record::run_folder::{is_for_a_run_alone, RUN};
use crate::record::statements::Statements;
use crate::runtime::environment::{self, is_off};
use crate::runtime::withheld::Withheld;
use crate::runtime::{door, memory, process, standard_error};
use crate::watch::telling;
use lazyguard_core::stack::{mappings, own_maps};
use lazyguard_core::trace::ProcessState;
use std::ffi::c_void;

/// The C library calls this after the program's own exit handlers, among the destructors of the libraries.
#[used]
#[link_section = ".fini_array"]
static UNLOADED: extern "C-unwind" fn() = exiting;

extern "C" {
    fn __cxa_atexit(handler: extern "C-unwind" fn(*mut c_void), argument: *mut c_void, object: *mut c_void) -> i32;
}

fn clear_up() {
    let Some(last) = last_guard().filter(|last| last.id == std::process::id()) else { return };
    last.requests.end();
    last.gpu_dump.end();
    if let (0, Some(folder)) = (last.reports.hangs(), &last.folder) {
        folder.remove_unless_asked_for();
    }
}

/// The program may have used a driver past the guard: a user who asked for a summary or a folder gets a line.
fn say_what_was_missed() {
    let is_set = |name| environment::get(name).is_some_and(|value| !value.is_empty() && !is_off(value.as_bytes()));
    let asked = is_set("LAZYGUARD_OUT") && !is_for_a_run_alone() || is_set("LAZYGUARD_SUMMARY");
    if !asked || !environment::switched_on() {
        return;
    }
    if process::was_ever_armed() {
        if process::retired() {
            let why = if memory::exhausted() { "memory ran out" } else { "it had a fault of its own" };
            standard_error::line(&format!(
                "the guard stepped aside on the way, because {why}: the summary could not be kept"
            ));
        }
        return;
    }
    if mappings(&own_maps()).any(|mapping| mapping.path.contains("/libcuda.so")) {
        standard_error::when_armed();
        standard_error::line(
            "a CUDA driver was loaded, and its initialisation was not seen: if it was used, that went past the guard; \
             `lazyguard doctor -- PROGRAM` and docs/DOCTOR.md say which ways it misses",
        );
    }
}

#[link_section = ".text.lazyguard_start"]
extern "C-unwind" fn exiting() {
    if !process::was_ever_armed() && environment::is_empty() {
        return;
    }
    // Another library's destructor may still wait for the device. The C library calls a handler that a destructor adds once all destructors are over,
    // and has kept the memory for one.
    // SAFETY: a function of this library, which is never unloaded.
    if unsafe { __cxa_atexit(over, std::ptr::null_mut(), std::ptr::null_mut()) } != 0 {
        finish();
    }
}

extern "C-unwind" fn over(_: *mut c_void) {
    finish();
}

#[inline(never)]
pub fn finish() {
    // A signal handler has interrupted the guard itself: the recording has everything, as after a kill.
    if door::is_interrupted() {
        return;
    }
    let Some(guard) = guard() else {
        door::inside(clear_up);
        door::inside(say_what_was_missed);
        return;
    };
    // A child made without the C library's fork must not touch its parent's files.
    if guard.id != std::process::id() {
        return;
    }
    door::inside(|| {
        let _withheld = Withheld::new();
        telling::at_exit(guard);
        if let Some(profile) = &guard.profile {
            profile.look(guard, &guard.loader.under_way, guard.reports.hangs() > 0);
            profile.finish(guard.reports.hangs() > 0);
        }
        let summary = guard.summary("exit");
        guard.log.finish(guard, guard.folder.as_ref());
        guard.statements.iter().for_each(Statements::end);
        // From here on, a kill is recorded as a kill.
        process::retire();
        if guard.settings.out.is_some() || guard.reports.hangs() > 0 {
            guard.mappings.at_the_end(guard);
        }
        guard.tracker.recorder().seen_alive(guard.now());
        guard.tracker.recorder().set_state(ProcessState::Ended);
        if guard.settings.summary {
            [summary.lines(), guard.hazards.lines()].concat().iter().for_each(|line| standard_error::line(line));
        }
        let Some(folder) = &guard.folder else { return };
        guard.requests.end();
        guard.gpu_dump.end();
        guard.reports.end();
        guard.hazards.end();
        if guard.reports.hangs() == 0 {
            folder.remove_unless_asked_for();
            if guard.settings.out.is_none() {
                return;
            }
        }
        guard.hazards.finish(guard, Some(folder));
        let kept = [
            ("summary", folder.replace(RUN, &lazyguard_core::report::json(&summary))),
            ("recording", guard.backing.save(folder)),
        ];
        kept.into_iter().filter(|_| folder.asked_for).for_each(|(what, kept)| folder.say_unless(what, kept));
    });
}
