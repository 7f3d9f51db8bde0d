//! Loading functions ahead of their use.
//!
//! A program may notice that `cuFuncIsLoaded` says 1 earlier, and that code takes device memory. Two kinds of programs can hang that did not. The unload
//! of an unused library returns at once while a kernel runs; preloaded, the library is in a context, and the unload waits, as under
//! `CUDA_MODULE_LOADING=EAGER` (`LAZYGUARD_PRELOAD=off` or `resolve` is for such programs). And where a kernel prints, the context's first launch waits
//! for everything in flight; code that hides that it prints may be loaded ahead of that launch.

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
