//! From inert to armed and back. This folder knows all the others but the hooks: it builds the guard of their parts.
//!
//! | file | |
//! |---|---|
//! | [`arm`] | start of the library, `cuInit`, fork |
//! | `exit` | what is written and cleared up when the process ends |
//!
//! The library copies the settings when it is loaded, and reads them when it arms the guard. So a process that never uses CUDA
//! prints nothing about a misspelt one, and later changes of the environment have no effect. The guard's threads start after
//! `cuInit` has succeeded, with all signals blocked, and only where the limits on threads leave enough for the program
//! (`core::tasks`).
//!
//! Known and not fixed: a signal handler that calls `exit` while it interrupts `malloc` or `free` may block forever, because the
//! guard allocates at the end of the process. `pthread_exit` in a handler that interrupts the guard's own code ends the process
//! with SIGABRT. A handler that interrupts the guard and calls `exit` is safe: the exit then skips the guard's part.
//!
//! Must not: do anything in a process that does not use CUDA, or start a thread anywhere but after a successful `cuInit`.

pub mod arm;
mod exit;
