//! The exported functions, and what each family of them does around the real call.
//!
//! | file | |
//! |---|---|
//! | [`exports`] | the exports, made of the one table of driver functions |
//! | `dlsym` | the export that stands in front of the C library's `dlsym` |
//! | [`call`] | what every hook shares: armed? re-entered? publish, gate, record, fold |
//! | `caller` | from where a call was made |
//! | `cold` | what happens when a function is used for the first time |
//! | `hazard` | what made a call that passed a hazard |
//! | `image` | what kind of code a program gives to the driver |
//! | `launch` | kernels |
//! | `host` | host functions |
//! | `module`, `library` | loading, resolving, unloading |
//! | `loading_mode` | the loading mode that a runtime asks for |
//! | `proc_address` | `cuGetProcAddress` |
//! | `stream`, `event`, `memop`, `copy` | streams and what is submitted to them |
//! | `context` | contexts, and everything that waits for one as a whole |
//! | `release` | releases that are put off |
//! | `graph` | graphs |
//! | `nccl` | communicators of NCCL, and the collectives on them |

mod call;
mod caller;
mod cold;
mod context;
mod copy;
mod dlsym;
mod event;
mod exports;
mod graph;
mod hazard;
mod host;
mod image;
mod launch;
mod library;
mod loading_mode;
mod memop;
mod module;
mod nccl;
mod proc_address;
mod release;
mod stream;

pub use dlsym::bind_at_start;
