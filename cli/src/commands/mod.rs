//! The commands, a file each, and their arguments.

pub(crate) mod anonymise;
pub(crate) mod arguments;
pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod install;
pub(crate) mod library;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod metrics;
pub(crate) mod profile;
pub(crate) mod ready;
pub(crate) mod report;
pub(crate) mod top;
pub(crate) mod unusable;
mod version;
