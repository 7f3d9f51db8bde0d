//! The vocabulary of LazyGuard, and everything that can be decided without CUDA.
//!
//! * [`api`] names the driver functions and says what each does to loading and waiting.
//! * [`settings`] is the one table of settings and its parser.
//! * [`state`] holds what is known of threads, contexts, streams and functions, folded from calls.
//! * [`trace`] is the recording: what outlives the process, its writer and its reader.
//! * [`gpu_dump`] says where the driver is asked for no GPU core dump, and when one is whole.
//! * [`run_folder`] says where a recording may be mapped.
//! * [`old_runs`] says which private folders are removed, and removes them.
//! * [`order`] sorts what is sorted rarely, in little code.
//! * [`replay`] makes facts of a recording's records: what was submitted, loaded, and has ended.
//! * [`preload`] decides what to load, and when to stop.
//! * [`diagnose`] turns a [`diagnose::Snapshot`] into verdicts.
//! * [`image`] says what an image of code is, and where it ends, by its first bytes.
//! * [`hazard`] turns the occurrences noted in a run that passed into hazards.
//! * [`stack`] reads a blocked thread's stack, and writes it down.
//! * [`gpu_core`] reads core dumps of GPUs: where the threads of each kernel stand.
//! * [`report`] writes verdicts for people and for programs.
//! * [`anonymise`] copies a recording without what names the user, the machine or the program's code.
//! * [`build_note`] is what a built library says of itself: version, formats, commit.
//! * [`folder`] lists a folder without the C library.
//! * [`map`] has the maps and sets that need no random numbers.
//! * [`tasks`] says how many more threads may be started.
//!
//! Must not: link CUDA, read the environment, hold globals, or look at a clock. Times are arguments, in nanoseconds
//! since the guard was armed; settings are arguments. The shim and the command-line tool share all of it, so a verdict
//! from a live process and one from its files come from the same code.

#![forbid(unsafe_code)]

pub mod anonymise;
pub mod api;
pub mod build_note;
mod demangle;
pub mod diagnose;
pub mod folder;
pub mod gpu_core;
pub mod gpu_dump;
pub mod hazard;
pub mod image;
pub mod map;
pub mod old_runs;
pub mod order;
pub mod preload;
pub mod profile;
pub mod replay;
pub mod report;
pub mod run_folder;
pub mod settings;
pub mod stack;
pub mod state;
pub mod sync;
pub mod tasks;
pub mod trace;

/// Nanoseconds since the guard was armed in this process.
pub type Nanos = u64;
