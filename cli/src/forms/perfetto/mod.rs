//! A recording as a timeline for ui.perfetto.dev.
//!
//! | file | holds |
//! |---|---|
//! | `judged` | which verdicts there are, and what each is about |
//! | `timeline` | which tracks, slices and arrows the records make |
//! | `operations` | the slices of each stream, and arrows between them |
//! | `writer` | how those are written |
//! | `protobuf` | in bytes |

pub(crate) mod judged;
mod operations;
mod protobuf;
#[cfg(test)]
mod test_read_back;
pub(crate) mod timeline;
mod writer;
