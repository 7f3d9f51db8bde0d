//! Verdicts and summaries, written for people and for programs.
//!
//! Must not: decide anything. [`crate::diagnose`] decides, and the shim counts.

mod bounded;
mod communication;
mod detail;
mod dump;
mod event;
mod hang;
mod hang_lists;
mod hang_text;
mod new_lines;
mod pass_through;
mod probe;
mod python_stack;
mod revoked;
mod short_names;
mod stack;
mod summary;
mod text;

pub use crate::demangle::demangle;
pub use bounded::MOST_BYTES;
pub use communication::{arguments_in_words, collective_name};
pub use detail::Detail;
pub use dump::{fails, is_last, marks_ready, DumpReport};
pub use event::{event_of_record, events};
pub use hang::{GpuDumpSeen, HangReport, Outcome};
pub use hang_text::Newest;
pub use pass_through::{PassThrough, PassedThrough};
pub use probe::ProbeSeen;
pub use python_stack::{folded, main_python, python_line};
pub use revoked::{GivenUp, RevokedSeen, REVOKED_RESULT, WATCHES_COLLECTIVES};
pub use short_names::short_names;
pub use stack::{FrameSeen, StackSeen};
pub use summary::{NudgeAnswer, PreloadSummary, RecordingSummary, SkipCount, Summary, GPU_DUMP_ARMED};
pub use text::{misleads, one_line, Block, MARK};

/// Raised when a field of a JSON form changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// The number of a JSON form that this build does not read.
pub fn other_schema(form: &str) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        schema: Option<u32>,
    }
    serde_json::from_str::<Numbered>(form).ok()?.schema.filter(|schema| *schema != SCHEMA)
}

pub fn json(form: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(form).unwrap_or_else(|error| format!("{{\"schema\":{SCHEMA},\"error\":\"{error}\"}}"))
}
