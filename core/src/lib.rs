//! The vocabulary of LazyGuard, and everything that can be decided without CUDA. `docs/ARCHITECTURE.md` has the map of the modules.
//!
//! Must not: link CUDA, read the environment, hold globals, or look at a clock. Times are arguments, in nanoseconds since the guard was armed;
//! settings are arguments. So a verdict from a live process and one from its files agree.

#![forbid(unsafe_code)]

pub mod anonymise;
pub mod api;
pub mod build_note;
mod demangle;
pub mod diagnose;
pub mod evidence;
pub mod folder;
pub mod gpu_core;
pub mod gpu_dump;
pub mod hazard;
pub mod image;
pub mod late;
pub mod map;
pub mod old_runs;
pub mod order;
pub mod preload;
pub mod profile;
pub mod replay;
pub mod report;
pub mod run_folder;
pub mod schedule;
pub mod settings;
pub mod stack;
pub mod stall;
pub mod state;
pub mod sync;
pub mod tasks;
pub mod trace;

/// Nanoseconds since the guard was armed in this process.
pub type Nanos = u64;
