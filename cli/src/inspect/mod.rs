//! Looks at this machine and at living processes: the forecast, the request for a report, and the look from outside.

pub(crate) mod attach;
pub(crate) mod doctor;
pub(crate) mod dump;
