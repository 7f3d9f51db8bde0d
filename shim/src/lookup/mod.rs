//! How a program reaches the driver, and how it comes to reach the hooks instead: through the slots of its objects, and by the answers to
//! `dlsym` and `cuGetProcAddress`. The library exports none of the driver's names, and does not override `dlopen`, which would break
//! RUNPATH.
//!
//! Must not: start threads, wait, or initialise anything through a once-cell, because a look-up may happen with the loader's lock held, in
//! a constructor, before this library's own.

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
