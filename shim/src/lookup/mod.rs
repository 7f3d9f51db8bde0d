//! How a program reaches the driver, and how it comes to reach the hooks instead.
//!
//! * Programs linked with `-lcuda` find the exports of [`crate::hooks`], because a preloaded library is searched first.
//! * [`dlsym`] stands in front of the real one, for programs that open the driver themselves, among them every CUDA
//!   runtime.
//! * [`proc_address`] are the hooks of `cuGetProcAddress`, by which runtimes look up everything else.
//! * [`driver`] knows the real functions.
//! * [`objects`] tells which loaded object an address belongs to.
//!
//! * `dlsym(RTLD_DEFAULT, "cuInit")` stays null in a process without a driver, although this library exports `cuInit`.
//! * `dlopen` is not overridden: that would break RUNPATH.
//!
//! Must not: start threads, wait, or initialise anything through a once-cell, because a look-up may happen with the
//! loader's lock held, in a constructor, before this library's own.

pub mod dlsym;
pub mod driver;
pub mod driver_queries;
pub mod objects;
pub mod proc_address;
