//! The exported functions, and what each family of them does around the real call.

mod call;
mod caller;
mod cold;
mod context;
mod copy;
mod dlsym;
mod event;
mod exports;
mod fast;
mod graph;
mod hazard;
mod host;
mod image;
mod launch;
mod library;
mod memop;
mod module;
mod nccl;
mod objects;
mod proc_address;
mod release;
mod shared;
mod stream;

pub use dlsym::bind_at_start;
