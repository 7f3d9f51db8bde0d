//! How a program reaches the driver, and how it comes to reach the hooks instead.
//!
//! Programs linked with `-lcuda` find the exports of this library, because the dynamic linker searches a preloaded library first.
//! The others look the driver's functions up, and this folder answers them.
//!
//! | file | |
//! |---|---|
//! | [`dlsym`] | look-ups by `dlsym`, of programs that open the driver themselves, among them every CUDA runtime |
//! | [`proc_address`] | look-ups by `cuGetProcAddress`, by which runtimes look up everything else |
//! | [`adopted`] | the one driver, or NCCL, that the hooks stand in front of |
//! | [`driver`] | the real functions |
//! | [`driver_queries`] | queries that the driver answers at any time |
//! | [`nccl`] | the real functions of NCCL |
//! | [`table`] | the table of hooks, which the hooks register |
//! | [`unhooked`] | names that were asked for and are not hooked |
//! | [`objects`] | the loaded objects, visited under the loader's lock |
//! | [`link_map`] | the loader's records of them, and which object an address belongs to |
//! | [`dynamic`] | what an object needs and defines, and its slots |
//! | [`layout`] | where an object lies |
//! | [`dynamic_linker`] | the dynamic linker's own functions |
//! | [`around`] | the object around an address, without a lock |
//! | [`forks`] | forks wait for visits of the loaded objects |
//! | [`loads`] | how many objects have been loaded, without a lock |
//!
//! * `dlsym(RTLD_DEFAULT, "cuInit")` stays null in a process without a driver, although this library exports `cuInit`.
//! * `dlopen` is not overridden: that would break RUNPATH.
//!
//! Must not: start threads, wait, or initialise anything through a once-cell, because a look-up may happen with the
//! loader's lock held, in a constructor, before this library's own.

pub mod adopted;
pub mod around;
pub mod dlsym;
pub mod driver;
pub mod driver_queries;
pub mod dynamic;
pub mod dynamic_linker;
pub mod forks;
mod layout;
pub mod link_map;
pub mod loads;
pub mod nccl;
pub mod objects;
pub mod own_names;
pub mod proc_address;
pub mod slots;
pub mod table;
pub mod unhooked;
