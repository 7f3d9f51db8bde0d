//! What the processes of a run do, for Prometheus.
//!
//! | file | holds |
//! |---|---|
//! | `families` | the metrics, by what `live` says of the processes |
//! | `writer` | a file that is replaced every few seconds |

pub(crate) mod families;
pub(crate) mod writer;
