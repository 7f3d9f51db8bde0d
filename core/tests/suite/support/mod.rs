//! What the tests of the reader share.

pub mod build;
pub mod cases;
pub mod check;
pub mod dump;
pub mod random;
pub mod written;
