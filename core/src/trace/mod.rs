//! The recording: what is kept of a run, in a file or memory that outlives the process. `docs/TRACE_FORMAT.md` describes every byte.
//!
//! | file | holds |
//! |---|---|
//! | [`layout`] | where everything lies |
//! | `record`, `payload`, `raw` | one record; what it says by its kind and call, for readers and for writers |
//! | `recorder`, `add` | the writer: segments and records; texts |
//! | `look`, `follow` | what has come since, for the log, in the same process |
//! | [`read`] | the reader: any bytes give records and defects |
//!
//! Why it is built like this:
//!
//! * *Tables beside the records.* A stream's oldest outstanding operation may be hours and millions of records back. The tables of threads, contexts
//!   and streams stay, and they are the guard's own state, not a copy of it.
//! * *Lanes.* A load or an unsatisfied wait of an hour ago matters more than the launches of the last second, so each of the three lanes
//!   has segments of its own.
//! * *Small segments, taken in turn.* A fixed ring for each thread would give a busy thread no more capacity than one that has made a
//!   single call. A full segment stays its thread's own until the next one is full too, so a thread that hangs has its newest records.
//! * *Order of stores.* A kill between any two stores leaves a call in progress or a complete record, never half of one.
//! * *Polling* is one record with a count for each stream or event and answer; up to 16 are polled in turn.
//! * *The clock* is read twice a call. Where a hypervisor makes that slow, it is the largest part of the cost of a launch.
//! * *A launch's stream lags.* A launch on the fast path is in its record alone until `state::fold`, or a file's reader, folds it.
//!
//! Must not: allocate, lock or wait where a record is written, or look at a clock.

mod add;
mod follow;
pub mod layout;
mod look;
mod payload;
mod raw;
pub mod read;
mod record;
mod recorder;
mod submission;

pub use crate::api::{Keep, Lane, SLOW_NANOS};
pub use follow::{Followed, Follower};
pub use look::Look;
pub use payload::{Launch, Payload};
pub use raw::{Communication, Environment, HazardNumbers, Image, LaunchKey, Preload, RawPayload};
pub(crate) use record::subject_of;
pub use record::{address_and_path, from_word};
pub use record::{Kind, Record, WORDS};
pub(crate) use recorder::{complete_at, place_at, put_submission, Cursor};
pub use recorder::{
    put_record, put_text, Current, LaneCounts, Owner, Place, Places, ProcessFacts, Recorder, SegmentWriter, StartFacts,
};
pub use submission::Submission;
