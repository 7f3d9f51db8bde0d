//! How a program reaches the driver, and comes to the hooks instead: by slots of its objects, and by answers to `dlsym` and `cuGetProcAddress`. The
//! library exports no driver name, and does not override `dlopen`, which would break RUNPATH.
//!
//! Must not: start threads, wait, or use a once-cell: a look-up may hold the loader's lock, or come before this library's constructor.

pub mod adopted;
pub mod around;
pub mod dlsym;
pub mod driver;
pub mod driver_queries;
pub mod dynamic;
pub mod dynamic_linker;
pub mod forks;
pub mod link_map;
pub mod loads;
pub mod nccl;
pub mod objects;
pub mod own_names;
pub mod proc_address;
pub mod slots;
pub mod table;
