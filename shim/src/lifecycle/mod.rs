//! From inert to armed and back. This folder knows all the others but the hooks: it builds the guard of their parts.
//!
//! | file | |
//! |---|---|
//! | [`arm`] | start of the library, `cuInit`, fork |
//! | `exit` | what is written and cleared up when the process ends |
//!
//! The library copies the settings when it is loaded, and reads them when it arms the guard. So a process that never uses CUDA
//! prints nothing about a misspelt one, and later changes of the environment have no effect. The guard's threads start with the first call that submits
//! work, loads code, takes memory of the device or waits (`Class::only_prepares` names the others), with all signals blocked, and only where the
//! limits on threads leave enough for the program (`core::tasks`). Until then no hang is reported and no `lazyguard dump` answered: a context that is never
//! made is not seen. Where the guard's threads are the last ones of the process, the watchdog's ends it, as the C library does with the last thread.
//!
//! A signal handler may interrupt the program's allocator and call `exit`: the guard has an allocator of its own, and takes no lock of the program's. One
//! that interrupts the guard and calls `exit` is safe: the exit then skips the guard's part.
//!
//! Known and not fixed: `pthread_exit` in a handler that interrupts the guard's own code ends the process with SIGABRT.
//!
//! Must not: do anything in a process that does not use CUDA, or start a thread in a process that has only looked at its devices.

pub mod arm;
mod exit;
