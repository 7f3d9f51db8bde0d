//! Loading functions ahead of their use.
//!
//! What a program may notice: `cuFuncIsLoaded` says 1 earlier, and what was loaded takes free device memory. Two kinds of programs
//! can hang that did not. The first: unloading a library that was never used returns at once while a kernel runs, because the library is in no
//! context. Preloaded, it is in one, and the unload waits for the kernel, as under `CUDA_MODULE_LOADING=EAGER`.
//! `LAZYGUARD_PRELOAD=off` or `resolve` is for such programs. The other kind: where a kernel of a module in the context prints, the first
//! launch of the context waits for everything in flight, and code that does not show that it prints, because it is compressed or large, may be loaded ahead
//! of that launch.
//!
//! Must not: know the recording, the watchdog or the hooks.

pub mod ahead;
pub mod attempt;
pub mod gate;
mod handover;
pub mod idle;
mod kernels;
pub mod libraries;
pub mod loader;
pub mod nudge;
pub mod queue;
pub mod releases;
