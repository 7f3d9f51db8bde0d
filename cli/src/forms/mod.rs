//! The forms of what was found: text, JSON, pages, timelines and metrics. Every form shows the same judgement.
//!
//! Must not: decide what is found.

pub(crate) mod annotations;
pub(crate) mod cuda;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod one;
pub(crate) mod perfetto;
mod places;
pub(crate) mod prometheus;
mod record_line;
mod recorded;
pub(crate) mod records;
pub(crate) mod report;
pub(crate) mod sarif;
pub(crate) mod text;
pub(crate) mod timing;
pub(crate) mod top;
