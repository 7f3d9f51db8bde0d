//! The recording: what is kept of a run, in a entry_point that outlives the process.
//!
//! `docs/TRACE_FORMAT.md` describes every byte.
//!
//! | file | holds |
//! |---|---|
//! | [`layout`] | where everything lies |
//! | `record` | one record and its words |
//! | `payload`, `raw` | what a record says by its kind and call: for readers, and for writers |
//! | `recorder` | the writer: segments, records, texts |
//! | `follow` | what has come since, for the log, in the same process |
//! | `lane` | which records go where, and which calls leave one |
//! | [`read`] | the reader: any bytes give records and defects |
//!
//! Must not: allocate, lock or wait where a record is written, or look at a clock.

mod follow;
mod lane;
pub mod layout;
mod payload;
mod raw;
pub mod read;
mod record;
mod recorder;

pub use follow::{Followed, Follower};
pub use lane::{Keep, Lane, SLOW_NANOS};
pub use payload::{Launch, Payload};
pub use raw::{HazardNumbers, Image, LaunchKey, Preload, RawPayload};
pub use record::{Kind, Record, WORDS};
pub use recorder::{
    put_record, put_text, LaneCounts, Look, Owner, Place, ProcessFacts, Recorder, SegmentWriter, StartFacts,
};
