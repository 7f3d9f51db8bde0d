//! Loading functions before their first use, while nothing is in flight. `core::preload` decides what and when; the facts were measured
//! on a card (`testapps/simdriver/ground-truth`), and the simulated driver plays them.
//!
//! What a program may notice: `cuFuncIsLoaded` says 1 earlier, and free device memory is less by what was loaded. One program can hang
//! that did not: unloading a library that was never used returns at once while a kernel runs, because the library is in no
//! context. Preloaded, it is in one, and the unload waits for the kernel, as under `CUDA_MODULE_LOADING=EAGER`.
//! `LAZYGUARD_PRELOAD=off` or `resolve` is for such programs.

pub mod gate;
pub mod idle;
pub mod loader;
pub mod nudge;
