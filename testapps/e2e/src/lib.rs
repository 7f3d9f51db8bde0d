//! The harness of the end-to-end tests: runs a built program in an environment of its own and reads what it left.
//!
//! The tests in `tests/suite` and `tests/programs` use built artefacts only, as `scripts/build` leaves them under `target`: the library, the
//! command, the simulated driver and the programs. A run is a process group of its own with its own working folder and
//! `TMPDIR`, killed as a whole at the end, so that tests can run beside each other and nothing outlives them. A test that
//! fails keeps its working folder, under `target/e2e`, and prints how to run it again.
//!
//! Must not: link any crate of the workspace, take a setting of the person's shell into a run, or leave a process behind.

mod artefacts;
mod elf;
mod expect;
mod folder;
mod header;
mod programs;
mod recording;
mod run;
mod standstill;
mod work;

pub use artefacts::{
    app, command, corpus_program, cuda_runtime, driver, driver_folder, hostile_program, library, root, runtime_program,
    slower, stack_program, target,
};
pub use elf::Elf;
pub use expect::{calls, expect_a_block, expect_only_slow, expect_slow, expect_uneventful, run, watchdog_blocks};
pub use folder::{number, only_run_in, text, Folder, Json};
pub use header::{Expect, Group, Header};
pub use programs::{apps, corpus, hostile, App, Hostile, InCorpus};
pub use recording::{
    anonymised, calls_in, gapless_numbers, hazards_of, in_progress, is_call, log_of, numbers_in, read_by_script,
    report_of, text_report_of, timing_of, timing_text_of, Lane, Numbers, Recording,
};
pub use run::{Outcome, Run, Running, PATIENCE};
pub use work::{skipped, Work};

/// What a machine that stands still can spoil, tried up to three times: one of them has to be right.
#[track_caller]
pub fn one_of_three(mut attempt: impl FnMut() -> Result<(), String>) {
    let wrong: Vec<_> = (0..3).map_while(|_| attempt().err()).collect();
    assert!(wrong.len() < 3, "{wrong:#?}");
}

/// The beginning of a Python program: a context, a stream, and a word of the device's memory.
#[macro_export]
macro_rules! python_session {
    () => {
        "import ctypes, os, sys, threading, time\n\
         driver = ctypes.CDLL('libcuda.so.1')\n\
         context, stream, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
         assert driver.cuInit(0) == 0\n\
         assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n\
         assert driver.cuCtxSetCurrent(context) == 0\n\
         assert driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)) == 0\n\
         assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0\n"
    };
}

/// The path of the test function that contains the call, as the harness lists it.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        let name = ::std::any::type_name_of_val(&here).trim_end_matches("::here");
        name.split_once("::").map_or(name, |(_crate_name, path)| path)
    }};
}
