//! From inert to armed and back.

pub mod arm;
