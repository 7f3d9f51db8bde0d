//! The recording: what is kept of a run, in a file or memory that outlives the process. `docs/TRACE_FORMAT.md` describes every byte.
//!
//! Why it is built like this:
//!
//! * *Tables beside the records.* A stream's oldest outstanding operation may be millions of records back. The tables are the guard's own state.
//! * *Lanes.* A load of an hour ago matters more than the launches of the last second, so each of the three lanes has its own segments.
//! * *Small segments, taken in turn.* A fixed ring for each thread would give a busy thread no more capacity than an idle one. A full segment
//!   stays its thread's until the next one is full, so a thread that hangs has its newest records.
//! * *Order of stores.* A kill between any two stores leaves a call in progress or a complete record, never half of one.
//! * *Polling* is one record with a count for each stream or event and answer; up to 16 are polled in turn.
//! * *A launch's stream lags.* A launch on the fast path is in its record alone until `state::fold`, or a file's reader, folds it.
//!
//! Must not: allocate, lock, wait or look at a clock where a record is written.

mod add;
mod facts;
mod follow;
pub mod layout;
mod look;
mod payload;
mod raw;
pub mod read;
mod record;
mod recorder;
mod submission;
mod writer;

pub use crate::api::{Keep, Lane, SLOW_NANOS};
pub use facts::{rank_of, LaneUse, ProcessFacts, ProcessState, StartFacts};
pub use follow::{Followed, Follower};
pub use look::Look;
pub use payload::{Launch, Payload};
pub use raw::{Communication, Environment, HazardNumbers, Image, LaunchKey, Preload, RawPayload};
pub(crate) use record::subject_of;
pub use record::{address_and_path, from_word, Kind, Record, WORDS};
pub use recorder::{put_text, Recorder};
pub use submission::Submission;
pub(crate) use writer::{complete_at, place_at, put_submission, Cursor};
pub use writer::{put_record, Current, Owner, Place, Places, SegmentWriter};
