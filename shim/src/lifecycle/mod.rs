//! From inert to armed and back. This folder knows all the others but the hooks: it builds the guard of their parts.
//!
//! | file | |
//! |---|---|
//! | [`arm`] | start of the library, `cuInit`, fork |
//! | `exit` | what is written and cleared up when the process ends |
//!
//! Must not: do anything in a process that does not use CUDA, or start a thread anywhere but after a successful `cuInit`.

pub mod arm;
mod exit;
