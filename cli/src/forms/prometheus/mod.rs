//! Metrics of the processes of a run, for Prometheus.

pub(crate) mod families;
pub(crate) mod writer;
