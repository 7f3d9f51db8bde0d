//! This machine: its files, its threads, its cards, the C library, and the guard's own library.

pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod library;
pub(crate) mod nvml;
pub(crate) mod parallel;
pub(crate) mod system;

pub(crate) use elf::{machine_name, own_machine, says, Elf, Unreadable};
pub(crate) use files::host_name;
pub(crate) use parallel::Beside;
pub(crate) use system::{unix_now, Exec, Signals};
