//! What the tests of the reader share.

#![allow(dead_code)] // Each test program uses its part.

pub mod build;
pub mod cases;
pub mod check;
pub mod dump;
pub mod random;
pub mod written;
