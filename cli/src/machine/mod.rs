//! This machine: its files, its threads, its cards, the C library, and the guard's own library.

pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod library;
pub(crate) mod nvml;
pub(crate) mod parallel;
pub(crate) mod system;
