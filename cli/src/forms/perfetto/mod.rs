//! A recording as a timeline for ui.perfetto.dev.

pub(crate) mod judged;
mod operations;
mod protobuf;
#[cfg(test)]
mod test_read_back;
pub(crate) mod timeline;
mod writer;
