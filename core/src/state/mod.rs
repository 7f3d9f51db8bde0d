//! The state of the program's threads, contexts, streams and functions, folded from its driver calls. [`Tracker`] is all of it; the shim keeps
//! one. Every method takes the time as an argument.
//!
//! Protocol. Facts that the watchdog reads while a thread may be stuck are atomics. Locks guard the maps; they are held for a few
//! instructions and never across a driver call, and the watchdog takes none of them. Completion is learnt passively: what was
//! submitted before a synchronize or a successful query began is complete when that call returns, and nothing else is.
//!
//! Must not: ask the driver anything, or insert work.

mod caches;
mod call_step;
mod calls;
mod communicators;
mod context;
mod contexts;
mod event;
mod events;
mod fold;
mod functions;
mod graph_launches;
mod hash;
mod launch_cache;
mod launchers;
mod load;
mod names;
mod published;
mod shared;
mod sharing;
mod slab;
mod stream;
mod streams;
mod thread;
mod tracker;

pub use crate::api::{ColdKind, Operation, StreamKind};
pub use caches::CachedLaunch;
pub use call_step::CallStep;
pub use calls::OpenRecord;
pub use communicators::{Communicator, Communicators};
pub use context::{Context, Function, FunctionKind};
pub use event::Event;
pub use launch_cache::{begin_fast, object_key, AtHand, FastSubmission, Known, SubmissionFacts};
pub use load::InFlight;
pub use published::PublishedCall;
pub use slab::Slab;
pub use stream::{Stream, StreamKey};
pub use thread::{Caller, ThreadEntry, ThreadSlot};
pub use tracker::Tracker;
