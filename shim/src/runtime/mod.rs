//! The base of every part of the guard. No file here knows a folder above this one.
//!
//! Must not: do anything in a process that does not use CUDA.

pub mod clock;
pub mod door;
pub mod environment;
pub mod files;
pub mod floats;
pub mod hot;
pub mod memory;
pub mod own_memory;
pub mod own_thread;
pub mod pass_through;
pub mod process;
pub mod readable;
pub mod results;
pub mod sanitizer;
pub mod standard_error;
pub mod thread;
pub mod tls;
pub mod withheld;
