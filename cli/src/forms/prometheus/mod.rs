//! What the processes of a run do, for Prometheus.

pub(crate) mod families;
pub(crate) mod writer;
