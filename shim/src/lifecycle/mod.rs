//! From inert to armed and back. This folder knows all the others but the hooks: it builds the guard of their parts.
//!
//! The library copies the settings when it is loaded, and reads them when it arms the guard: a process that never uses CUDA prints nothing
//! about a misspelt one. The guard's threads start with the first call that submits work, loads code, takes memory of the device or waits
//! (`Class::only_prepares` names the others), and only where the limits on threads leave enough for the program (`core::tasks`). Until then
//! no hang is reported and no request answered. If the guard's threads are the last of the process, the watchdog's ends it, as the C
//! library does with the last thread.
//!
//! A signal handler that interrupts the guard and calls `exit` is safe: the exit then skips the guard's part. Known and not fixed:
//! `pthread_exit` in such a handler ends the process with SIGABRT.
//!
//! Must not: do anything in a process that does not use CUDA, or start a thread in a process that has only looked at its devices.

pub mod arm;
mod exit;
