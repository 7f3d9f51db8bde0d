//! From inert to armed and back: at load, at `cuInit`, at fork, at exit.
//!
//! Settings are remembered when the library is loaded, and read when the guard is armed: a process that never uses CUDA prints nothing
//! about a misspelt one, and later changes of the environment have no effect. The guard's threads start after `cuInit` has succeeded,
//! with all signals blocked, and only where the limits on threads leave enough for the program (`core::tasks`).
//!
//! Known and not mended: a signal handler that calls `exit` while it interrupts `malloc` or `free` may block forever, because the guard
//! allocates at the end of the process. `pthread_exit` in a handler that interrupts the guard's own code ends the process with
//! SIGABRT. A handler that interrupts the guard and calls `exit` is safe: the guard's end is left out then.

pub mod arm;
