//! From inert to armed and back. This folder builds the guard of all other parts but the hooks.
//!
//! The library copies the settings when it is loaded, and reads them when it arms the guard: a process without CUDA prints nothing. The guard's threads
//! start with the first call that makes a context, submits, loads, takes device memory or waits (`Class::only_prepares` names the others), where the
//! limits leave enough threads for the program (`core::tasks`). If they are the last ones of the process, the watchdog's ends it.
//!
//! A signal handler that interrupts the guard and calls `exit` skips the guard's part of the exit. Known and not fixed: `pthread_exit` there ends
//! the process with SIGABRT.
//!
//! Must not: do anything in a process without CUDA, or start a thread in one that only looks at its devices.

pub mod arm;
mod exit;
