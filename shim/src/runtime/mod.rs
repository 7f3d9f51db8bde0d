//! The base of every part of the guard. No file here knows a folder above this one.
//!
//! | file | |
//! |---|---|
//! | [`process`] | the guarded process, and whether it is armed |
//! | [`pass_through`] | how often a call passed through untouched, by reason |
//! | [`door`] | the only way from a thread of the program into the guard's own code |
//! | [`floats`] | a thread's floating-point state |
//! | [`thread`] | the calling thread's slot in the state |
//! | [`tls`] | what the calling thread keeps for itself |
//! | [`hot`] | what every launch looks at, on one line of the cache |
//! | [`clock`] | the time |
//! | [`environment`] | the settings in the environment, as they were when the process began |
//! | [`own_thread`] | threads of the guard's own |
//! | [`own_memory`] | this process's memory, read by the kernel |
//! | [`readable`] | whether memory that the program points to can be read |
//! | [`files`] | files, opened so that no opening waits |
//! | [`standard_error`] | lines and reports on standard error |
//! | [`withheld`] | signals that the guard's own writes raise |
//! | [`results`] | whether results are changed on their way to the program |
//! | [`fault`] | what happens when the guard itself fails |
//! | `memory` | the library's own allocator, and its reserve |
//! | [`fresh_pages`] | memory for large copies |
//! | `sanitizer` | what the runtimes of sanitizers ask |
//! | [`tasks`] | whether there is room for the guard's threads |
//!
//! Must not: do anything in a process that does not use CUDA.

pub mod clock;
pub mod door;
pub mod environment;
pub mod fault;
pub mod files;
pub mod floats;
pub mod fresh_pages;
pub mod hot;
pub mod memory;
pub mod own_memory;
pub mod own_thread;
pub mod pass_through;
pub mod process;
pub mod readable;
pub mod results;
mod sanitizer;
pub mod standard_error;
pub mod tasks;
pub mod thread;
pub mod tls;
pub mod withheld;
